"""Find misspelled words and words that thrifty does not use: `python tools/check_words.py [files or folders]`.

Misspellings are found by codespell (its settings are in pyproject.toml), the other words by `tools/banned_words.txt`.
Of a notebook the cells are read, not their outputs: pictures in base64 hold any word.
Exits with 1 if anything is found.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_name("banned_words.txt")
PLACES = ("src", "docs", "examples", "studies", "benchmarks", "tools", "README.md", "CHANGELOG.md", "CONTRIBUTING.md",
          "mkdocs.yml", "pyproject.toml")  # fmt: skip
ENDINGS = {".py", ".pyi", ".md", ".txt", ".toml", ".yml", ".css", ".html", ".ipynb"}


def read_banned(path: Path = LIST) -> list[tuple[re.Pattern[str], str]]:
    """Read the banned words with what to write instead."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    pairs = (line.rsplit(" = ", 1) for line in lines)
    return [(re.compile(rf"\b(?:{word})\b", re.IGNORECASE), instead) for word, instead in pairs]


def find_banned(text: str, banned: list[tuple[re.Pattern[str], str]]) -> Iterator[tuple[int, str, str]]:
    """Find banned words in a text: line number, word and what to write instead."""
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, instead in banned:
            for found in pattern.finditer(line):
                yield number, found[0], instead


def list_files(places: list[Path]) -> list[Path]:
    """List the files of some folders that hold words, without the list itself."""
    files = [path for place in places for path in (sorted(place.rglob("*")) if place.is_dir() else [place])]
    return [path for path in files if path.suffix in ENDINGS and path.resolve() != LIST.resolve()]


def read_words(path: Path) -> str:
    """Read a file; of a notebook only what its author wrote."""
    text = path.read_text(encoding="utf-8")
    return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"]) if is_notebook(path) else text


def is_notebook(path: Path) -> bool:
    """Whether a file is a notebook, by its name."""
    return path.suffix == ".ipynb"


def find_misspelled(files: list[Path]) -> list[str]:
    """Find misspelled words with codespell."""
    found = _run_codespell([str(path) for path in files if not is_notebook(path)])
    for path in filter(is_notebook, files):
        found += [f"{path}:{line}" for line in _run_codespell(["-"], read_words(path)) if "==>" in line]
    return found


def _run_codespell(arguments: list[str], text: str = "") -> list[str]:
    if not arguments:
        return []
    command = [sys.executable, "-m", "codespell_lib", "--toml", str(ROOT / "pyproject.toml"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, input=text)
    if done.returncode and not done.stdout:  # codespell itself failed: never mistake that for no misspelling
        raise RuntimeError(done.stderr)
    return done.stdout.splitlines()


def main(arguments: list[str]) -> int:
    """Print what is found."""
    files = list_files([Path(name) for name in arguments] or [ROOT / name for name in PLACES])
    banned = read_banned()
    found = [
        f"{path}:{number}: {word} ==> {instead}"
        for path in files
        for number, word, instead in find_banned(read_words(path), banned)
    ]
    found += find_misspelled(files)
    print("\n".join(found) if found else f"{len(files)} files: no misspelled and no banned word")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
