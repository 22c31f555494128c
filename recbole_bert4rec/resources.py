"""The files that ship with the package (``properties/``), and the one way to read a YAML file."""

from __future__ import annotations

import importlib.resources
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from recbole_bert4rec.errors import UserError, nearest

if TYPE_CHECKING:
    from importlib.abc import Traversable


def shipped(kind: str) -> Traversable:
    """The folder ``properties/KIND`` of an installed copy or, without installation, of the checkout."""
    try:
        return importlib.resources.files("recbole_bert4rec.properties") / kind
    except ModuleNotFoundError:
        return Path(__file__).resolve().parent.parent / "properties" / kind


def find_config(name: str, kind: str = "recipe") -> str:
    """A file as the user names it, or one of ``properties/KIND`` by its bare name.

    Raises:
        UserError: there is neither.
    """
    file = shipped(kind) / name
    if os.path.exists(name):
        return name
    if os.sep not in name and file.is_file():
        return str(file)
    known = sorted(entry.name for entry in shipped(kind).iterdir())
    near = nearest(name, known)
    hint = f"did you mean {near}?" if near else f"the names of properties/{kind} are {', '.join(known)}"
    raise UserError(f"there is no file {name}; {hint}")


class _Loader(yaml.SafeLoader):
    """Safe, and 1e-3 is a number, as RecBole's own loader has it; a key that stands twice is a mistake."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if isinstance(key, yaml.ScalarNode) and key.value in lines:
                raise yaml.YAMLError(f"`{key.value}` stands in line {lines[key.value]} and again in line {line}")
            lines[str(key.value)] = line
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def read_yaml(path: str) -> dict[str, Any]:
    """The options of a YAML file.

    Raises:
        UserError: the file cannot be read or does not hold a dictionary.
    """
    try:
        with open(path, encoding="utf-8") as file:
            content = yaml.load(file, _Loader)  # noqa: S506  a SafeLoader
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"config file {path} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise UserError(f"config file {path} must hold lines of `key: value`, but holds {content!r}")
    return content
