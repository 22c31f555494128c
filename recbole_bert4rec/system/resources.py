"""The files that ship with the package (``properties/``), and the folder of RecBole."""

from __future__ import annotations

import importlib.resources
import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING

from recbole_bert4rec.system.errors import UserError, nearest

if TYPE_CHECKING:
    from importlib.abc import Traversable


def shipped(kind: str) -> Traversable:
    """The folder ``properties/KIND`` of an installed copy or, without installation, of the checkout."""
    try:
        return importlib.resources.files("recbole_bert4rec.properties") / kind
    except ModuleNotFoundError:
        return Path(__file__).resolve().parents[2] / "properties" / kind


def folder_of_recbole() -> Path:
    """The folder of RecBole's package; it is not imported."""
    spec = importlib.util.find_spec("recbole")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'recbole'", name="recbole")
    return Path(spec.origin).parent


def find_config(name: str, kind: str = "recipe") -> str:
    """A file as the user names it, or one of ``properties/KIND`` by its bare name."""
    file = shipped(kind) / name
    if os.path.exists(name):
        return name
    if os.sep not in name and file.is_file():
        return str(file)
    known = sorted(entry.name for entry in shipped(kind).iterdir())
    near = nearest(name, known)
    hint = f"did you mean {near}?" if near else f"the names of properties/{kind} are {', '.join(known)}"
    raise UserError(f"there is no file {name}; {hint}")
