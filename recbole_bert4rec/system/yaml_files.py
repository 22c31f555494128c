"""Read YAML, everywhere in the same way, as plain values."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from recbole_bert4rec.system.errors import UserError, short, why


class FileOptions(dict[str, Any]):
    """Options of a YAML file by their names, and the line of each."""

    def __init__(self, options: dict[str, Any], file: str, lines: dict[str, int]) -> None:
        super().__init__(options)
        self.file, self.lines = file, lines


class _Loader(yaml.SafeLoader):
    """A safe loader for which 1e-3 is a number, as for RecBole's own; a repeated key is a mistake."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            line = key.start_mark.line + 1
            if key.value in lines:
                raise yaml.YAMLError(f"`{key.value}` stands in line {lines[key.value]} and again in line {line}")
            lines[key.value] = line
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def parse_yaml(text: str, where: str) -> Any:
    """Return the content of a YAML text: plain values, lists and dictionaries, no code."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506  which is safe
    except (yaml.YAMLError, ValueError, LookupError, AttributeError) as error:  # the others: `!!int x`, `2001-99-99`
        reason = re.sub(r'"<unicode string>", |:\n[^\n]*\n *\^', "", str(error))  # the line itself, too
        raise UserError(f"{where} cannot be read: {' '.join(reason.split())}") from error


def read_yaml(path: str) -> FileOptions:
    """Return the options of a YAML file; one of comments alone has none."""
    where = f"config file {path}"
    try:
        text = Path(path).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{where} cannot be read: {why(error)}") from error
    content, root = parse_yaml(text, where), yaml.compose(text)
    if content is None or root is None:  # nothing but comments
        return FileOptions({}, path, {})
    if not isinstance(content, dict):
        raise UserError(f"{where} must hold lines of `key: value`, but holds {short(content)}")
    strange = [key for key in content if not isinstance(key, str)]
    if strange:
        raise UserError(f"{where}: the name of an option must be a text, but one is {short(strange[0])}; quote it")
    return FileOptions(content, path, {key.value: key.start_mark.line + 1 for key, _ in root.value})
