"""The tree is a map: small folders, one name a thing, imports in one direction, docs that name public things only."""

from __future__ import annotations

import re
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from arrow import ARROW, SHORTCUTS, SOURCE, build_graph, find_cycle, find_violations, name_of

ROOT = Path(__file__).parents[2]
MAX_MODULES = 18  # of one folder: what a reader can survey
COMMANDS = SOURCE / "cli" / "commands"


def parts() -> set[str]:
    return {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}


def test_every_part_has_a_row():
    assert set(ARROW) == parts()


def test_imports_follow_the_arrow():
    assert find_violations() == []


def test_the_arrow_has_one_direction():
    assert find_cycle(ARROW) == []


@pytest.mark.parametrize("part", sorted(ARROW))
def test_a_planted_violation_is_found(part: str, tmp_path: Path):
    """An import inside a function, in a file of each part, of something that the part may not import."""
    source = tmp_path / "thrifty"
    shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("__pycache__"))
    path = source / part / "__init__.py" if (source / part).is_dir() else source / f"{part}.py"
    forbidden = next(other for other in ("cli", "sequential", "metrics", "models") if other not in ARROW[part] | {part})
    path.write_text(path.read_text() + f"\n\ndef planted():\n    from thrifty.{forbidden} import anything\n")
    assert find_violations(source) == [f"{name_of(path, source)} imports {forbidden}.anything"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("import thrifty as th", "*"),
        ("from thrifty import Campaign", "campaign.campaign.Campaign"),
        ("from ..campaign import campaign", "campaign.campaign"),
        ("from .. import campaign", "campaign"),
    ],
)
def test_every_way_to_import_is_seen(line: str, found: str, tmp_path: Path):
    source = tmp_path / "thrifty"
    shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("__pycache__"))
    path = source / "runner" / "loop.py"
    path.write_text(path.read_text() + f"\n\ndef planted():\n    {line}\n")
    assert find_violations(source) == [f"runner.loop imports {found}"]


@pytest.mark.parametrize(("module", "part"), sorted(SHORTCUTS))
def test_a_shortcut_is_an_import_inside_a_function(module: str, part: str, tmp_path: Path):
    source = tmp_path / "thrifty"
    shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("__pycache__"))
    path = source / f"{module.replace('.', '/')}.py"
    assert f"        from thrifty.{part} import" in path.read_text(), "a shortcut that nobody uses"
    path.write_text(path.read_text() + f"\nfrom thrifty.{part} import anything\n")
    assert find_violations(source) == [f"{module} imports {part}.anything"]


def test_no_import_cycle():
    assert find_cycle(build_graph()) == []


def test_a_planted_cycle_is_found():
    graph = build_graph()
    lower, upper = next((name, other) for name in sorted(graph) for other in sorted(graph[name]))
    graph[upper] = graph[upper] | {lower}
    assert {lower, upper} <= set(find_cycle(graph))


def test_folders_can_be_surveyed():
    sizes = Counter(path.parent for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
    assert {str(folder.relative_to(SOURCE)): n for folder, n in sizes.items() if n > MAX_MODULES} == {}


def test_one_name_one_module():
    """No basename twice; a command may have the name of its library step."""
    names = Counter(
        path.stem for path in SOURCE.rglob("*.py") if path.parent != COMMANDS and not path.stem.startswith("__")
    )
    assert [name for name, n in names.items() if n > 1] == []


def test_tests_mirror_the_tree():
    """Every folder of tests has the name of a folder of the source, or is one of the few that cross all of it."""
    crossing = {"architecture", "golden", "faults", "cluster", "statistics", "studies", "docs"}
    source = {str(path.parent.relative_to(SOURCE)) for path in SOURCE.rglob("__init__.py")}
    for path in (ROOT / "tests").rglob("test_*.py"):
        folder = path.parent.relative_to(ROOT / "tests")
        assert str(folder) in source or folder.parts[0] in crossing, path


PUBLIC = r"(?:benchmark|closed_form|diagnostics|distances|errors|likelihoods|metrics|models|plots|types)"
INTERNAL = re.compile(rf"\bthrifty\.(?!{PUBLIC}\b|report\.write\b|toml\b|Output\b)[a-z_]+\.\w+|src/thrifty/\w+")


def internal_paths(text: str) -> list[str]:
    return INTERNAL.findall(text)


def test_pages_name_public_things_only():
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if page.name != "architecture.md":
            assert internal_paths(page.read_text()) == [], page.name


@pytest.mark.parametrize(
    "text", ["see `thrifty.campaign.store.Store`", "in src/thrifty/runner", "thrifty.inference.abc.ABC"]
)
def test_an_internal_path_is_found(text: str):
    assert internal_paths(text)
