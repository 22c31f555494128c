"""The shape of the source: floors, sizes, first lines."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "recbole_bert4rec"
FLOORS = {
    "constants": 0,
    "errors": 0,
    "files": 0,
    "config": 0,
    "compat": 0,
    "nn": 1,
    "data": 1,
    "plugin": 2,
    "registry": 3,
}
FLOORS |= {"apps": 4, "report": 4, "tuning": 4}
ENTRANCES = {"__init__", "__main__"}
SOURCES = sorted(PACKAGE.rglob("*.py"))


def floor_of(room: str) -> int:
    return FLOORS[room]


def rooms_imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{a.name}" for a in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("recbole_bert4rec.")}
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_room_imports_only_from_its_own_floor_or_below(path: Path) -> None:
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if room in ENTRANCES:
        return
    above = {other for other in rooms_imported(path) if floor_of(other) > floor_of(room)}
    assert not above


@pytest.mark.parametrize("room", ["nn", "data"])
def test_floor_one_knows_nothing_of_recbole(room: str) -> None:
    for path in (PACKAGE / room).glob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        imported = {n.module or "" for n in nodes if isinstance(n, ast.ImportFrom)}
        imported |= {alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names}
        assert "recbole" not in {name.split(".")[0] for name in imported}


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_files_are_short_and_open_with_their_purpose(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 350
    assert not text or ast.get_docstring(ast.parse(text))
