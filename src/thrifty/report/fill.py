"""Fill the templates of a page: everything that is passed in is escaped, unless it was marked as safe before."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup


def fill_template(name: str, values: Mapping[str, Any]) -> str:
    """Fill a template of the report with values.

    Example:
        >>> "&lt;b&gt;" in fill_template("live.html", {"title": "<b>", "css": "", "content": "", "token": "t",
        ...                                            "nonce": "n", "milliseconds": 2000})
        True
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_read(name)).render(values)


def read_style() -> Markup:
    """Return the style sheet of all pages; it holds no text of a folder."""
    return Markup(_read("page.css"))


def _read(name: str) -> str:
    return files("thrifty.report").joinpath("templates", name).read_text(encoding="utf-8")
