"""All names of options that RecBole or this package reads; others are reported with the nearest match."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from recbole_bert4rec.options.table import OPTIONS
from recbole_bert4rec.system.environment import folder_of_recbole
from recbole_bert4rec.system.errors import nearest

_PROGRAM = ("config_files", "nproc", "ip", "port", "world_size", "group_offset", "offset", "model_file", "conversion")
"""Keys that the command lines, RecBole's launchers and the conversion of a log add to the options."""

READ = r"config\[[\"'](\w+)[\"']\]"
"""Pattern of code that reads an option."""

_DOCUMENTED = ("neg_sampling", "training_neg_sample_num")
"""Options in RecBole's documentation that its code no longer reads; RecBole itself warns about them."""


_OF_LOGS = {"separator", "date_format", "timezone", "drop_duplicates", "quote", "escape"}
_OF_LOGS |= {"columns", "in_order"}
FOLLOWED_BY_ALL = frozenset(
    {"allow_unknown", "candidates", "exclude_seen", "training_rows", "trust_pickles", *_OF_LOGS}
)
"""Options of this package that other models than its own follow, too."""


def is_known(name: str, known: Iterable[str] = ()) -> bool:
    """Tell whether an option is read: by us, by any model of RecBole, or as one of ``known``."""
    return name in OPTIONS or name in set(known) or name in known_to_recbole()


def near_known(name: str, known: Iterable[str], of_any_model: bool) -> str | None:
    """Return the name that was probably meant: of ours or the model's, or else of any model's."""
    ours = sorted({*OPTIONS, *known})
    near = nearest(name.replace("-", "_"), ours)
    return near or (nearest(name, sorted({*ours, *known_to_recbole()})) if of_any_model else None)


def known_to_recbole() -> frozenset[str]:
    """Collect every option that RecBole or any of its models reads."""
    return known_to_every_model() | _known_to_some_model()


@cache
def known_to_every_model() -> frozenset[str]:
    """Collect the options that RecBole reads for any model: those of its property files, lists and code."""
    return frozenset({*_PROGRAM, *_DOCUMENTED}) | _names_in(lambda path: "model" not in path.parts)


@cache
def _known_to_some_model() -> frozenset[str]:
    return _names_in(lambda path: "model" in path.parts)


def _names_in(chosen: Callable[[Path], bool]) -> frozenset[str]:
    """Collect the names in RecBole's files whose path within the package is chosen."""
    root = folder_of_recbole()
    names: set[str] = set()
    for file in filter(lambda file: chosen(file.relative_to(root)), root.rglob("*")):
        if file.suffix == ".yaml":
            names.update(re.findall(r"^(\w+):", file.read_text("utf-8"), re.MULTILINE))
        elif file.name == "argument_list.py":
            names.update(re.findall(r"[\"'](\w+)[\"']", file.read_text("utf-8")))
        elif file.suffix == ".py":
            names.update(re.findall(READ, file.read_text("utf-8")))
    return frozenset(names)
