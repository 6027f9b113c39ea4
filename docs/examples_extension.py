"""For the API pages: read the `Example:` sections of docstrings as what they are, examples that run."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Google's plural, which is the only form that the parser sets as code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rename the section of one object."""
        if not obj.is_alias and obj.docstring is not None:
            obj.docstring.value = re.sub(r"^(\s*)Example:$", r"\1Examples:", obj.docstring.value, flags=re.M)
