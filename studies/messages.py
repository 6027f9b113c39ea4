"""Write docs/messages.md: every code that thrifty raises or warns with, and the first message that carries it.

python studies/messages.py [docs/messages.md]
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "thrifty"


def text_of(node: ast.expr) -> str:
    """A message as written, with {…} where a value goes."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(v) if isinstance(v, ast.Constant) else "{…}" for v in node.values)
    if isinstance(node, ast.BinOp):
        return text_of(node.left) + text_of(node.right)
    return "{…}"


def codes() -> dict[str, str]:
    """Code to the message it first appears with, in order of code."""
    found: dict[str, str] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            given = [k.value.value for k in node.keywords if k.arg == "code" and isinstance(k.value, ast.Constant)]
            text = text_of(node.args[0])
            given += re.findall(r"^\[([A-Z]\d\d)\]", text)
            for code in given:
                found.setdefault(str(code), re.sub(r"^\[[A-Z]\d\d\] ", "", text.split("\n")[0]))
    return dict(sorted(found.items()))


def main(path: Path) -> None:
    lines = [
        "# Messages",
        "",
        "Codes are stable. A message says what is wrong, why it matters and the way out; {…} is a value.",
        "",
    ]
    lines += ["| code | message |", "|---|---|"]
    lines += [f"| {code} | {text.replace('|', chr(92) + '|')} |" for code, text in codes().items()]
    path.write_text("\n".join(lines) + "\n")
    print(f"wrote {path}: {len(codes())} codes")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/messages.md"))
