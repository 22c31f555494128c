"""Defaults, types and meaning of RecBole's options, from its property files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from recbole_bert4rec.options.kinds import Real, Switch
from recbole_bert4rec.system.environment import folder_of_recbole
from recbole_bert4rec.system.yaml_files import parse_yaml

_LINE = re.compile(r"(?P<name>\w+):\s*(?P<default>.*?)\s*(?:#\s*(?:\((?P<types>[^)]*)\))?\s*(?P<help>.*?)\s*)?")
_NUMBER = Real(float("-inf"), brackets="()")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value: object) -> bool:
    """Accept numbers and tuples, too: the command line makes them of texts of digits and commas."""
    return isinstance(value, (str, int, float, tuple)) and not isinstance(value, bool)


def _list_of(holds: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(holds, value))


_TYPES: Mapping[str, tuple[str, Callable[[object], bool]]] = {
    "int": ("a whole number", _is_whole),
    "float": ("a number", _NUMBER.accepts),
    "str": ("a text", _is_text),
    "bool": ("True or False", Switch().accepts),
    "dict": ("a dictionary", lambda value: isinstance(value, dict)),
    "list": ("a list such as [1, 2]", lambda value: isinstance(value, list)),
    "list of int": ("a list of whole numbers such as [1, 2]", _list_of(_is_whole)),
    "list of float": ("a list of numbers such as [0.1, 0.2]", _list_of(_NUMBER.accepts)),
    "list of str": ("a list of texts such as ['a', 'b']", _list_of(_is_text)),
    "None": ("null", lambda value: value is None),
}
"""RecBole's words for types, with ours for the user, and a check of the values."""


@dataclass(frozen=True)
class Documented:
    """An option as a property file documents it; a :class:`~recbole_bert4rec.options.kinds.Kind` of values.

    Attributes:
        default: as it stands in the file.
        types: of its values, among those that RecBole's comments name; none: any.
        help: the comment.
    """

    default: str
    types: tuple[str, ...]
    help: str

    @property
    def wanted(self) -> str:
        """Describe the values."""
        return ", or ".join(_TYPES[name][0] for name in self.types)

    def accepts(self, value: object) -> bool:
        """Tell whether ``value`` is of one of the types."""
        return not self.types or any(_TYPES[name][1](value) for name in self.types)


@cache
def documented(model: str) -> Mapping[str, Documented]:
    """Return the options of RecBole, of its data sets and of one of its models, by name."""
    root = _properties()
    return documented_in((root / "overall.yaml", root / "dataset" / "sample.yaml", root / "model" / f"{model}.yaml"))


def documented_in(files: Iterable[Path]) -> dict[str, Documented]:
    """Return the options of property files by name; missing files have none."""
    lines = [line for file in files if file.is_file() for line in file.read_text("utf-8").splitlines()]
    matches = filter(None, map(_LINE.fullmatch, lines))
    return {line["name"]: _documented(line.groupdict("")) for line in matches}


def models_of_recbole() -> set[str]:
    """Return the names of RecBole's models."""
    return {file.stem for file in (_properties() / "model").iterdir()}


def _properties() -> Path:
    return folder_of_recbole() / "properties"


def _documented(line: Mapping[str, str]) -> Documented:
    words = line["types"].replace("string", "str").split(" or ")
    types = tuple(word for word in words if word in _TYPES)
    if types and {"str", "list", "dict"} & {*types}:
        types = (*types, "None")  # which turns the option off
    option = Documented(line["default"], tuple(dict.fromkeys(types)), line["help"])
    if not option.default:  # it begins in the next line
        return option
    holds = option.accepts(parse_yaml(option.default, "a property file of RecBole"))
    return option if holds else replace(option, types=())  # some comments are wrong
