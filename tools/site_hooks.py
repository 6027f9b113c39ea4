"""What mkdocs does to pages while it builds the site: typeset formulas, and write the parts that come from the code.

- Formulas (`$...$` and `$$...$$`) become MathML, which browsers draw by themselves: no script and no font is loaded.
- `<!-- commands -->` becomes the help of every command, `<!-- settings -->` the keys of `thrifty.toml`, up to
  `<!-- /commands -->` and `<!-- /settings -->`;
  `<!-- raised by -->` the sections of messages as one table, with the errors that carry each code.
- A notebook `examples/NAME.ipynb` becomes the page `examples/NAME.md`. Pages link to the notebook itself,
  `../examples/NAME.ipynb`, which can be followed in a copy of the repository too; on the site it leads to the page.
"""

from __future__ import annotations

import ast
import html
import re
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from notebook_pages import list_notebooks, read_notebook, write_page

SOURCE = Path(__file__).parents[1] / "src" / "thrifty"
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.S)
NOTEBOOK_LINK = re.compile(r"\]\((?:\.\./)+(examples/[\w-]+)\.ipynb")
TABLES = ("Simulator", "Cost", "Plan", "Run", "Infer")  # of thrifty.toml, in the order of the file


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Add a page for each notebook of the gallery, its pictures, and the notebook itself."""
    from mkdocs.structure.files import File

    for path in list_notebooks():
        page, pictures = write_page(read_notebook(path), path.stem)
        files.append(File.generated(config, f"examples/{path.stem}.md", content=page))
        files.append(File.generated(config, f"examples/{path.name}", content=path.read_bytes()))
        for name, picture in pictures.items():
            files.append(File.generated(config, f"figures/examples/{name}", content=picture))
    return files


def on_page_markdown(markdown: str, page: Any = None, **_: Any) -> str:
    """Fill in what comes from the code; let links to notebooks lead to their pages."""
    if page is not None and page.file.src_uri == "index.md":
        page.meta["hide"] = ["navigation", "toc"]  # the front page has the width for its picture and cards
    above = "../" * page.file.src_uri.count("/") if page is not None else ""
    markdown = NOTEBOOK_LINK.sub(rf"]({above}\1.md", markdown)
    for mark, write in (("commands", write_commands), ("settings", write_settings)):
        if f"<!-- {mark} -->" in markdown:  # what stands between the marks is for readers of the file itself
            before, rest = markdown.split(f"<!-- {mark} -->")
            markdown = before + write() + rest.split(f"<!-- /{mark} -->")[1]
    return write_messages(markdown) if "<!-- raised by -->" in markdown else markdown


def on_page_content(html: str, **_: Any) -> str:
    """Typeset the formulas of a page."""
    return FORMULA.sub(_as_mathml, html)


def _as_mathml(found: re.Match[str]) -> str:
    from latex2mathml.converter import convert

    tag, kind, formula = found.groups()
    display = "block" if kind == "[" else "inline"
    return f'<{tag} class="arithmatex">{convert(html.unescape(formula).strip(), display=display)}</{tag}>'


def write_commands() -> str:
    """Write a section for each command: what it does, its arguments and its options."""
    import typer.main

    from thrifty.cli.main import app

    group = typer.main.get_command(app)
    parts = []
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        context = command.make_context(name, [], resilient_parsing=True)
        usage = " ".join(command.collect_usage_pieces(context))
        parts.append(f"## thrifty {name}\n\n```text\nthrifty {name} {usage}\n```\n\n{command.help or ''}\n")
        rows = [_describe(parameter, context) for parameter in command.params]
        parts += ["| argument | meaning |\n|---|---|\n" + "\n".join(rows)] if rows else []
    return "\n\n".join(parts)


def _describe(parameter: Any, context: Any) -> str:
    record = parameter.get_help_record(context)
    meaning = (record[1] if record else getattr(parameter, "help", "")) or ""
    return f"| `{', '.join(parameter.opts)}` | {_in_a_cell(meaning)} |"


def _in_a_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def write_settings() -> str:
    """Write a section for each table of `thrifty.toml`, from the classes that read it."""
    from thrifty.cli import config_tables

    parts = []
    for table in TABLES:
        settings = getattr(config_tables, f"{table}Settings")
        meanings = dict(_attributes(settings.__doc__ or ""))
        rows = [
            f"| `{field.name}` | {_kind(field)} | {_default(field.default)} | {meanings[field.name]} |"
            for field in fields(settings)
        ]
        head = f"## [{table.lower()}]\n\n| key | value | default | meaning |\n|---|---|---|---|\n"
        parts.append(head + "\n".join(rows))
    return "\n\n".join(parts)


def _attributes(doc: str) -> Iterator[tuple[str, str]]:
    """Read the Attributes section of a docstring: name and meaning."""
    section = doc.partition("Attributes:\n")[2]
    for found in re.finditer(r"^ {8}(\w+): (.*?)(?=^ {8}\w|\Z)", section, re.S | re.M):
        yield found[1], _in_a_cell(found[2])


def _kind(field: Any) -> str:
    if choices := field.metadata.get("choices"):
        return ", ".join(f'`"{choice}"`' for choice in choices)
    names = {str: "text", int: "integer", float: "number", bool: "true or false", list: "list", dict: "table"}
    return " or ".join(dict.fromkeys(names[kind] for kind in field.metadata["kinds"]))


def _default(value: object) -> str:
    if value is MISSING or value is None or value in ("", ()):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f'`"{value}"`' if isinstance(value, str | Path) else f"`{value}`"


def write_messages(markdown: str) -> str:
    """Write the sections of the messages as one table, a row for each code, with the classes that carry it."""
    raised = find_raised()
    head, *sections = re.split(r"^## ", markdown.replace("<!-- raised by -->\n", ""), flags=re.M)
    rows = "\n".join(_write_message(section, raised) for section in sections)
    table = f"| code | meaning | why | what to do |\n|---|---|---|---|\n{rows}"
    return f'{head}<div class="messages" markdown>\n\n{table}\n\n</div>\n'


def _write_message(section: str, raised: dict[str, set[str]]) -> str:
    """Write one row: a section says in its first sentence what is wrong, then why, then what to do."""
    code, _, text = section.partition("\n")
    what, _, todo = text.partition("**What to do.** ")
    meaning, why = re.split(r"(?<=\.)\s", what.strip(), maxsplit=1)
    kinds = "<br>".join(f"`{kind}`" for kind in sorted(raised.get(code, ())))
    cells = (f'<strong id="{code}">{code}</strong><br>{kinds}', meaning, why, todo)
    return f"| {' | '.join(map(_in_a_cell, cells))} |"


def find_raised() -> dict[str, set[str]]:
    """Find code -> names of the error classes that are raised with it, by reading the source."""
    found: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            for keyword in node.keywords:
                if keyword.arg == "code" and isinstance(keyword.value, ast.Constant) and name.endswith("Error"):
                    found.setdefault(keyword.value.value, set()).add(name)
    return found
