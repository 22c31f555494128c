"""The shape of the source: floors and first lines."""

from __future__ import annotations

import ast
import re
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
    "comparison",
    "tuning",
    "ray",
    "cli",
]
"""The rooms from the ground up, one a floor; docs/architecture.md says what each is for."""
ENTRANCES = {"__init__", "__main__"}
SOURCES = sorted(PACKAGE.rglob("*.py"))


def rooms_imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{a.name}" for a in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("recbole_bert4rec.")}
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_room_imports_only_from_the_rooms_below_it(path: Path) -> None:
    room = path.relative_to(PACKAGE).parts[0]
    if room.removesuffix(".py") in ENTRANCES:
        return
    below = {room, *FLOORS[: FLOORS.index(room)]}
    assert not rooms_imported(path) - below


def test_the_map_names_every_room_from_the_roof_down() -> None:
    text = (PACKAGE.parent / "docs" / "architecture.md").read_text("utf-8")
    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| `")]
    assert [row.strip("`").removesuffix("/") for row in rows] == FLOORS[::-1]


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_serving_and_ray_are_imported_by_the_command_line_alone(path: Path) -> None:
    room = path.relative_to(PACKAGE).parts[0]
    assert room in ("cli", "serving", "ray") or not rooms_imported(path) & {"serving", "ray"}


@pytest.mark.parametrize("room", ["core", "checkpoints"])
def test_core_and_checkpoints_know_nothing_of_recbole(room: str) -> None:
    for path in (PACKAGE / room).rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        imported = {n.module or "" for n in nodes if isinstance(n, ast.ImportFrom)}
        imported |= {alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names}
        assert "recbole" not in {name.split(".")[0] for name in imported}


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_file_opens_with_one_sentence_of_purpose(path: Path) -> None:
    text = path.read_text()
    assert not text or ast.get_docstring(ast.parse(text))


VAGUE_NAMES = {"found", "place", "given", "own", "said"}
"""Names that tell how a value came, not what it holds."""
ODD_WORDS = re.compile(r"\A(What|Where)\b|\banew\b|(?<!there )\bis no\b(?! longer)|\bin the mean\b")
"""Words of docstrings that this project overused: say `again`, `is not a`, `on average`, `if`."""


def names_set(tree: ast.Module) -> set[str]:
    """Return every name that a module gives to a variable, an argument, an attribute, a function or a class."""
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
    return names


def docstrings(tree: ast.Module) -> list[str]:
    """Return every text that stands by itself, that of a constant included."""
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    return [text.value for text in texts if isinstance(text, ast.Constant) and isinstance(text.value, str)]


def oddities(source: str) -> list[str]:
    tree = ast.parse(source)
    odd = [" ".join(text.split()) for text in docstrings(tree) if ODD_WORDS.search(text)]
    return [*sorted({name for name in names_set(tree) if name.strip("_") in VAGUE_NAMES}), *odd]


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_names_say_what_they_hold_and_docstrings_are_plain(path: Path) -> None:
    assert not oddities(path.read_text())


@pytest.mark.parametrize(
    ("source", "odd"),
    [
        ("found = 1", ["found"]),
        ("def scores(given): pass", ["given"]),
        ("for self._own in (): pass", ["_own"]),
        ('"""What is read anew."""', ["What is read anew."]),
        ('LIMIT = 3\n"""Where it stands."""', ["Where it stands."]),
        ('def test(): """Refuse a file that is no log."""', ["Refuse a file that is no log."]),
        (
            'scores = found.own\n"""Tell whether there is no log. It is no longer read, whatever a place is given."""',
            [],
        ),
    ],
)
def test_vague_names_and_odd_words_are_noticed(source: str, odd: list[str]) -> None:
    assert oddities(source) == odd


def test_no_test_imports_another_test() -> None:
    for path in Path(__file__).resolve().parents[1].rglob("*.py"):
        modules = {node.module for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)}
        wrong = {module for module in modules if module and re.fullmatch(r"tests\.(\w+\.)*(test_\w+|conftest)", module)}
        assert not wrong, path
