"""Files that our programs read and write with RecBole: no untrusted pickles, no name used twice."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import recbole.data.utils as recbole_data
from recbole.config import Config

from recbole_bert4rec.plugin.patches.patch import policy
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.scoped import StandIn, replaced

_NO_FILE_EXISTS = StandIn(os, path=StandIn(os.path, exists=lambda path: False))


def create_dataset(original: Callable[[Config], Any], config: Config) -> Any:
    """Unpickle a saved data set only with ``trust_pickles``."""
    if _trusts_pickles(config, "dataset_save_path"):
        return original(config)
    with replaced(recbole_data, "os", _NO_FILE_EXISTS):
        return original(config)


def load_split_dataloaders(original: Callable[[Config], Any], config: Config) -> Any:
    """Unpickle saved loaders only with ``trust_pickles``."""
    return original(config) if _trusts_pickles(config, "dataloaders_save_path") else None


def _trusts_pickles(config: Config, option: str) -> bool:
    """Tell whether saved data may be unpickled; else refuse a file that ``option`` names."""
    if config["trust_pickles"] is True:
        return True
    if config[option]:
        raise UserError(
            f"`{option}` {config[option]} is a pickle, which can run any code as it is read; --trust_pickles=True "
            "reads it, for files whose maker you trust"
        )
    return False


_NAMES: Counter[str] = Counter()
"""Number of uses of each name."""


def name_of_now(original: Callable[[], str]) -> str:
    """Return a name for logs, TensorBoard folders and checkpoints: the time, and this process's number.

    A name that is asked for again within one second gets a further number, so that no two are equal.
    """
    name = f"{original()}-{os.getpid()}"
    _NAMES[name] += 1
    return name if _NAMES[name] == 1 else f"{name}-{_NAMES[name]}"


PATCHES = (
    policy(
        "recbole.data.utils",
        "create_dataset",
        create_dataset,
        "RecBole unpickles whatever lies in `checkpoint_dir` under the right name (data/utils.py:61).",
    ),
    policy(
        "recbole.data.utils",
        "load_split_dataloaders",
        load_split_dataloaders,
        "RecBole unpickles whatever lies in `checkpoint_dir` under the right name (data/utils.py:122).",
    ),
    policy(
        "recbole.utils.utils",
        "get_local_time",
        name_of_now,
        "Two runs of the same second write into one log file and one checkpoint (logger.py:85).",
    ),
)
