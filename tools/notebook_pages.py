"""Execute the notebooks of the gallery, and make pages of the site from them.

    python tools/notebook_pages.py                                # all notebooks of examples/
    python tools/notebook_pages.py examples/own-simulator.ipynb   # some
    python tools/notebook_pages.py --stale                        # those with CPU times whose code or packages changed

A notebook `examples/NAME.ipynb` keeps its outputs. This tool executes it in an empty folder and writes them again. The
site shows them at `examples/NAME/` (`tools/site_hooks.py`). `tests/docs/test_notebook_pages.py` executes it and
compares: words exactly, numbers to 2 %, pictures to 2 % of their brightness. A cell with the tag `varies` may print
other numbers (CPU time). A cell that shows a figure describes it in its metadata, `"alt": "The posterior of ..."`.

A notebook with a cell tagged `timed` shows CPU times, which no second run repeats. The tests do not execute it; its
metadata say what made its outputs (a hash of its code, the packages, date and machine), and a test compares them with
the code and with `constraints.txt`. `make examples` executes those that are stale.

To add a notebook: put it into `examples/`, run this tool, list `examples/NAME.md` in the navigation of `mkdocs.yml`,
and link to it from `docs/gallery.md` as `../examples/NAME.ipynb`. Links from a notebook go to `../docs/PAGE.md`. Where
a package that it imports is not installed, its test is skipped.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import datetime
import hashlib
import re
import sys
import tempfile
import time
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from page_outputs import ROOT, gap, is_stale

EXAMPLES = ROOT / "examples"
PATIENCE_SECONDS = 1200  # for one cell
SHELL, FILE = "%%bash", "%%writefile"  # first words of cells that are not Python
TAG = re.compile(r"<[^>]+>")


def list_notebooks() -> list[Path]:
    """List the notebooks of the gallery."""
    return sorted(EXAMPLES.glob("*.ipynb"))


def read_notebook(path: Path) -> Any:
    """Read a notebook."""
    import nbformat

    return nbformat.read(path, as_version=4)


def list_code(book: Any) -> list[Any]:
    """List the cells of code."""
    return [cell for cell in book.cells if cell.cell_type == "code"]


def list_imports(book: Any) -> set[str]:
    """List the packages that a notebook imports."""
    code = "\n".join(cell.source for cell in list_code(book) if not cell.source.startswith("%"))
    nodes = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    return {name.partition(".")[0] for name in names}


def find_missing(book: Any) -> list[str]:
    """Find the packages that a notebook imports and that are not installed."""
    return sorted(name for name in list_imports(book) if find_spec(name) is None)


def is_timed(book: Any) -> bool:
    """Tell whether a notebook shows CPU times, which no second run repeats."""
    return any("timed" in cell.metadata.get("tags", ()) for cell in list_code(book))


def hash_text(text: str) -> str:
    """Hash a text, to see later whether it has changed."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def find_simulator(cells: list[Any]) -> tuple[list[str], str]:
    """Return the files that a program of the shell is made from (none for a function), and the tagged cell."""
    (source,) = (cell.source for cell in cells if "simulator" in cell.metadata.get("tags", ()))
    files = [cell.source for cell in cells if cell.source.startswith(FILE)] if source.startswith(SHELL) else []
    return files, source


def hash_simulator(cells: list[Any]) -> str:
    """Hash the code of a notebook's simulator."""
    files, source = find_simulator(cells)
    return hash_text("\n".join([*files, source]))


def hash_code(book: Any) -> str:
    """Hash the cells of code."""
    return hash_text("\0".join(cell.source for cell in list_code(book)))


def describe_run(book: Any, seconds: float) -> dict[str, Any]:
    """Describe what made the outputs of a notebook: its code, the packages that it imports, when and where."""
    import thrifty
    from thrifty.benchmark.task_runner import name_machine

    homes = packages_distributions()
    found = {home for name in list_imports(book) for home in homes.get(name, ()) if home != "thrifty"}
    return {
        "code": hash_code(book),
        "packages": {home: version(home) for home in sorted(found)},
        "thrifty": thrifty.__version__,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": name_machine(),
        "seconds": round(seconds),
    }


def read_pins() -> dict[str, str]:
    """Read the versions that thrifty is tested with, by the name of the package in lower case."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower().splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


def find_changes(book: Any) -> list[str]:
    """Find what has changed since a timed notebook was executed: its code, or packages of constraints.txt."""
    made = book.metadata.get("made")
    if made is None:
        return ["it was never executed"]
    pins = read_pins()
    changed = ["its code"] if made["code"] != hash_code(book) else []
    return changed + [name for name, used in made["packages"].items() if pins.get(name.lower(), used) != used]


def execute(path: Path) -> Any:
    """Execute a notebook in an empty folder; return it with new outputs, without what differs each time."""
    from nbclient import NotebookClient

    book, begin = read_notebook(path), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(book, timeout=PATIENCE_SECONDS, resources={"metadata": {"path": folder}}).execute()
        _tidy(book, folder)
    if is_timed(book):
        book.metadata["made"] = describe_run(book, time.monotonic() - begin)
    return book


def _tidy(book: Any, folder: str) -> None:
    """Leave out times, places and finished progress bars; a stream that was written in pieces becomes one."""
    book.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    for number, cell in enumerate(book.cells):
        cell.id = f"cell-{number}"
        cell.metadata.pop("execution", None)
    for cell in list_code(book):
        cell.outputs = [output for output in _join_streams(cell.outputs) if not _is_progress(output)]
        for output in cell.outputs:
            output.get("metadata", {}).clear()
            if "text" in output:
                output.text = output.text.replace(f"{Path(folder).resolve()}/", "").replace(f"{folder}/", "")
            for kind, text in output.get("data", {}).items():
                output.data[kind] = text if kind == "image/png" else text.replace(f"{folder}/", "")


def _join_streams(outputs: list[Any]) -> list[Any]:
    joined: list[Any] = []
    for output in outputs:
        is_more = joined and output.output_type == "stream" and joined[-1].get("name") == output.name
        if is_more:
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def _is_progress(output: Any) -> bool:
    return "<progress" in output.get("data", {}).get("text/html", "")


def find_stale(kept: Any, made: Any) -> list[str]:
    """Find the cells whose outputs are no longer what their code shows."""
    found = []
    for number, (old, new) in enumerate(zip(list_code(kept), list_code(made), strict=True), start=1):
        varies = "varies" in old.metadata.get("tags", ())
        if len(old.outputs) != len(new.outputs):
            found.append(f"cell {number}: {len(new.outputs)} outputs, {len(old.outputs)} are kept")
            continue
        pairs = zip(old.outputs, new.outputs, strict=True)
        found += [f"cell {number}: {why}" for pair in pairs if (why := _compare(*pair, varies=varies))]
    return found


def _compare(old: Any, new: Any, *, varies: bool) -> str:
    """Say how two outputs differ, "" where they are the same."""
    (before, picture), (after, drawn) = (_read_output(output) for output in (old, new))
    if is_stale(before, after, varies=varies):
        return f"{after!r} instead of {before!r}"
    if bool(picture) != bool(drawn):
        return "a figure on one side only"
    return "another figure" if picture and gap(picture, drawn) >= 0.02 else ""


def _read_output(output: Any) -> tuple[str, bytes]:
    """Return the words of an output, and its picture."""
    if output.output_type == "stream":
        return output.text, b""
    data = output.get("data", {})
    words = "" if "image/png" in data else data.get("text/html") or data.get("text/plain", "")
    return TAG.sub(" ", words), base64.b64decode(data.get("image/png", ""))


def write_page(book: Any, name: str) -> tuple[str, dict[str, bytes]]:
    """Write a notebook as a page in Markdown; also return its pictures, by file name."""
    pictures: dict[str, bytes] = {}
    pieces = []
    for cell in book.cells:
        if cell.cell_type == "markdown":
            pieces.append(cell.source.replace("](../docs/", "](../"))
        elif cell.cell_type == "code":
            pieces += [f"```python\n{cell.source}\n```", *_write_outputs(cell, name, pictures)]
    if made := book.metadata.get("made"):
        packages = ", ".join(f"{package} {used}" for package, used in made["packages"].items())
        pieces.append(
            f"Executed on {made['date']} in {made['seconds'] / 60:.1f} minutes on a busy machine ({made['machine']}),"
            f" with thrifty {made['thrifty']} and {packages}."
        )
    pieces.append(f"[This page as a notebook]({name}.ipynb)")
    return "\n\n".join(pieces) + "\n", pictures


def _write_outputs(cell: Any, name: str, pictures: dict[str, bytes]) -> list[str]:
    pieces = []
    for output in cell.outputs:
        data = output.get("data", {})
        if "image/png" in data:
            picture = f"{name}-{len(pictures) + 1}.png"
            pictures[picture] = base64.b64decode(data["image/png"])
            pieces.append(f"![{cell.metadata.get('alt', '')}](../figures/examples/{picture})")
        elif "text/html" in data:
            pieces.append(f'<div class="shown">{" ".join(data["text/html"].split())}</div>')
        else:
            text = output.text if output.output_type == "stream" else data.get("text/plain", "")
            pieces.append(f"```output\n{text.rstrip()}\n```")
    return pieces


def update(path: Path) -> None:
    """Execute a notebook and keep its outputs; those that are still right stay as they are."""
    import nbformat

    kept, made = read_notebook(path), execute(path)
    with contextlib.suppress(ValueError):  # another number of cells
        if not is_timed(made) and not find_stale(kept, made):
            made.cells = [_keep(*pair) for pair in zip(kept.cells, made.cells, strict=True)]
    nbformat.write(made, path)


def _keep(kept: Any, made: Any) -> Any:
    if made.cell_type == "code" and kept.execution_count is not None:
        made.outputs = kept.outputs
    return made


def main() -> None:
    """Execute the notebooks that are named, or all, or the timed ones that are stale."""
    named = [Path(name) for name in sys.argv[1:] if name != "--stale"]
    chosen = named or list_notebooks()
    if "--stale" in sys.argv:
        chosen = [path for path in chosen if is_timed(book := read_notebook(path)) and find_changes(book)]
    for path in chosen:
        print(path.name, flush=True)
        update(path)


if __name__ == "__main__":
    main()
