"""The one way to read YAML: plain values, bounded in depth and size."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from recbole_bert4rec.system.errors import UserError, short

_DEEPEST, _LARGEST = 100, 1_000_000
"""Levels of nesting, and values with all aliases written out, beyond which a YAML text is refused."""


class _Loader(yaml.SafeLoader):
    """Safe, and 1e-3 is a number, as RecBole's own loader has it; a key that stands twice is a mistake."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self._depth >= _DEEPEST:  # soon, because PyYAML takes time by the square of the depth
            raise _too_deep(parent.start_mark.line if parent is not None else 0)
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

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

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError) as error:  # of `!!int x`, `!!bool maybe`, `!!timestamp x`
            kind = node.tag.rpartition(":")[2]
            raise yaml.YAMLError(f"line {node.start_mark.line + 1}: {short(node.value)} is no {kind}") from error


def _too_deep(line: int) -> yaml.YAMLError:
    return yaml.YAMLError(f"line {line + 1}: it nests more than {_DEEPEST} levels deep")


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def parse_yaml(text: str, where: str) -> Any:
    """Return what a YAML text holds; plain values, lists and dictionaries, no code.

    Args:
        text: YAML.
        where: the text's file, for messages.

    Raises:
        UserError: the text is no YAML, a key stands twice, or the text would grow without bounds when it is used.
    """
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _check_size(node)
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise UserError(f"{where} cannot be read: {' '.join(str(error).split())}") from error


def _check_size(root: yaml.Node) -> None:
    """Refuse a document that nests too deeply, holds itself, or means too many values by aliases of aliases."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size_of(node: yaml.Node) -> int:
        known = sizes.get(id(node))
        if known is not None:
            return known
        line = node.start_mark.line + 1
        if id(node) in open_nodes:
            raise yaml.YAMLError(f"line {line}: the value holds itself, by an alias")
        if len(open_nodes) >= _DEEPEST:
            raise _too_deep(node.start_mark.line)
        open_nodes.add(id(node))
        parts: list[yaml.Node] = []
        if isinstance(node, yaml.SequenceNode):
            parts = list(node.value)
        elif isinstance(node, yaml.MappingNode):
            parts = [part for pair in node.value for part in pair]
        size = 1 + sum(map(size_of, parts))
        if size > _LARGEST:
            raise yaml.YAMLError(f"line {line}: its aliases stand for more than {_LARGEST:,} values")
        open_nodes.discard(id(node))
        sizes[id(node)] = size
        return size

    size_of(root)


def read_yaml(path: str) -> dict[str, Any]:
    """Return the options of a YAML file; one of comments alone has none.

    Raises:
        UserError: the file cannot be read, or does not hold a dictionary with texts as keys.
    """
    where = f"config file {path}"
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{where} cannot be read: {' '.join(str(error).split())}") from error
    content = parse_yaml(text, where)
    if content is None:  # nothing but comments
        return {}
    if not isinstance(content, dict):
        raise UserError(f"{where} must hold lines of `key: value`, but holds {short(content)}")
    strange = [key for key in content if not isinstance(key, str)]
    if strange:
        raise UserError(f"{where}: the name of an option must be a text, but one is {short(strange[0])}; quote it")
    return content
