"""Arguments of the package say what they are: hardly any is annotated with a bare ``Any``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "recbole_bert4rec"
STUBS = ROOT / "typings" / "recbole"
MOST = 0.02
"""Share of the package's arguments that may be ``Any`` or have no annotation."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def classes(files: Iterator[Path]) -> Iterator[ast.ClassDef]:
    for file in files:
        yield from (node for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.ClassDef))


def methods(owner: ast.ClassDef) -> list[Function]:
    return [node for node in owner.body if isinstance(node, Function)]


def methods_of_recbole() -> dict[str, set[str]]:
    """Names of the methods of every class in the stubs, without those of its bases."""
    found: dict[str, set[str]] = {}
    for owner in classes(STUBS.rglob("*.pyi")):
        found.setdefault(owner.name, set()).update(method.name for method in methods(owner))
    return found


def overrides(owner: ast.ClassDef, known: dict[str, set[str]]) -> bool:
    return any(isinstance(base, ast.Name) and base.id in known for base in owner.bases)


def says_nothing(annotation: ast.expr | None) -> bool:
    """Whether there is no annotation, or ``Any``, ``typing.Any`` or ``"Any"`` alone."""
    if isinstance(annotation, ast.Constant):
        return annotation.value == "Any"
    name = annotation.attr if isinstance(annotation, ast.Attribute) else getattr(annotation, "id", None)
    return annotation is None or name == "Any"


def arguments(text: str, known: dict[str, set[str]]) -> Iterator[tuple[str, bool]]:
    """Every argument of every function, as ``line function(argument)``, and whether its annotation says nothing.

    ``self`` and ``cls`` are left out, and so are ``*args`` and ``**kwargs`` where a method of RecBole's is overridden:
    they hand on whatever RecBole's own method takes, which the package neither reads nor decides.
    """
    tree = ast.parse(text)
    owners = {method: owner for owner in ast.walk(tree) if isinstance(owner, ast.ClassDef) for method in methods(owner)}
    everything = set().union(*known.values())
    for node in ast.walk(tree):
        if not isinstance(node, Function):
            continue
        given = [*node.args.posonlyargs, *node.args.args]
        static = any(isinstance(mark, ast.Name) and mark.id == "staticmethod" for mark in node.decorator_list)
        if node in owners and not static:
            given = given[1:]
        handed_on = node in owners and overrides(owners[node], known) and node.name in everything
        rest = [] if handed_on else [one for one in (node.args.vararg, node.args.kwarg) if one is not None]
        for one in (*given, *node.args.kwonlyargs, *rest):
            yield f"{one.lineno} {node.name}({one.arg})", says_nothing(one.annotation)


def test_arguments_without_a_type_are_found() -> None:
    text = """
class Ours(Trainer):
    def fit(self, data: Any, known: int, *args: Any, **kwargs: Any): ...
    def own(self, *args: Any): ...
    @staticmethod
    def free(first, second: list[Any]): ...
class Other:
    def fit(self, *, data: typing.Any = None, **kwargs: "Any"): ...
    @classmethod
    def make(cls): ...
def function(callback: Callable[..., Any], /, *, key: Any | None): ...
"""
    found = {name.split(" ", 1)[1]: nothing for name, nothing in arguments(text, {"Trainer": {"fit"}})}
    assert found == {
        "fit(data)": True,
        "fit(known)": False,
        "own(args)": True,
        "free(first)": True,
        "free(second)": False,
        "fit(kwargs)": True,
        "function(callback)": False,
        "function(key)": False,
    }


def test_the_stubs_name_what_the_package_overrides() -> None:
    known = methods_of_recbole()
    assert {"fit", "evaluate", "_train_epoch"} <= known["Trainer"]
    assert {"build", "__getitem__"} <= known["Dataset"]


def test_hardly_any_argument_is_a_bare_any() -> None:
    known = methods_of_recbole()
    every = [
        (f"{file.relative_to(PACKAGE)}:{name}", nothing)
        for file in sorted(PACKAGE.rglob("*.py"))
        for name, nothing in arguments(file.read_text("utf-8"), known)
    ]
    bare = [name for name, nothing in every if nothing]
    assert len(bare) <= MOST * len(every), f"{len(bare)} of {len(every)} arguments: {bare}"
