"""The shape of the source: floors."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "recbole_bert4rec"
FLOORS = [
    "system",
    "core",
    "options",
    "checkpoints",
    "logs",
    "plugin",
    "recommend",
    "serving",
    "training",
    "experiments",
    "cli",
]
"""The rooms from the ground up, one a floor; docs/architecture.md says what each is for."""
ENTRANCES = {"__init__", "__main__"}
SOURCES = sorted(PACKAGE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Return the modules that a file imports, with what is taken from each."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_room_imports_only_from_the_rooms_below_it(path: Path) -> None:
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if room in ENTRANCES:
        return
    rooms = {name.split(".")[1] for name in imported(path) if name.startswith("recbole_bert4rec.")}
    assert not rooms - {room, *FLOORS[: FLOORS.index(room)]}
    assert room in ("cli", "serving") or "serving" not in rooms
    packages = {name.split(".")[0] for name in imported(path)}
    assert path.stem == "on_ray" or room == "system" or "ray" not in packages
    assert room not in ("system", "core", "checkpoints") or "recbole" not in packages
