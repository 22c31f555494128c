"""Logs made on the spot."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import torch

import recbole_bert4rec  # noqa: F401  registers BERT4Rec
from recbole_bert4rec.logs.convert import convert
from recbole_bert4rec.logs.interactions import InteractionFile


def atomic_file(log: str, *arguments: Any, **more: Any) -> Path:
    """The atomic file that a log is converted to."""
    folder = convert(log, *arguments, **more)
    return folder / f"{folder.name}.inter"


def interactions_of(source: InteractionFile) -> pd.DataFrame:
    """All interactions of a file, user by user."""
    return pd.concat(source.parts(), ignore_index=True)


def inter_writer(folder: Path) -> Callable[..., dict[str, Any]]:
    """Return a function that writes data/NAME/NAME.inter in a folder, and returns the options that load it."""

    def write(rows: Iterable[tuple[Any, ...]], name: str = "toy", header: str | None = None) -> dict[str, Any]:
        (folder / "data" / name).mkdir(parents=True, exist_ok=True)
        header = "user_id:token\titem_id:token\ttimestamp:float" if header is None else header
        lines = [header, *("\t".join(map(str, row)) for row in rows)]
        (folder / "data" / name / f"{name}.inter").write_text("\n".join(lines) + "\n" if header else "")
        return {"dataset": name, "data_path": str(folder / "data")}

    return write


def histories_to_rows(histories: dict[str, list[Any]]) -> list[tuple[Any, ...]]:
    return [(user, item, time) for user, items in histories.items() for time, item in enumerate(items)]


def overlapping_histories(users: int) -> dict[str, list[str]]:
    """Histories of 4, 5, ... items out of 14, in which users share items and some items are repeated."""
    return {f"u{u}": [f"i{(3 * u + t * (u % 4 + 1)) % 14}" for t in range(4 + u)] for u in range(users)}


def benchmark_files(folder: Path, rows: dict[str, list[str]], item: str = "item_id") -> dict[str, Any]:
    """Write parts of user, history and target, whose column has a name; return the options that load all three."""
    (folder / item).mkdir(exist_ok=True)
    header = f"user_id:token\t{item}_list:token_seq\t{item}:token"
    for part, lines in rows.items():
        (folder / item / f"{item}.{part}.inter").write_text("\n".join([header, *lines]) + "\n")
    return {
        "dataset": item,
        "data_path": str(folder),
        "benchmark_filename": ["train", "valid", "test"],
        "ITEM_ID_FIELD": item,
        "alias_of_item_id": [f"{item}_list"],
        "load_col": {"inter": ["user_id", f"{item}_list", item]},
    }


class Catalogue:
    """All that a model asks of a data set.

    Args:
        n_items: of the catalogue, padding among them; item i was trained on i times.
    """

    def __init__(self, n_items: int) -> None:
        self.n_items = n_items
        self.field2token_id = {"item_id": dict.fromkeys(map(str, range(n_items)))}

    def num(self, field: str) -> int:
        return self.n_items

    def training_counts(self) -> torch.Tensor:
        return torch.arange(self.n_items)


def padded(sequences: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(map(len, sequences))
    rows = [sequence + [0] * (width - len(sequence)) for sequence in sequences]
    return torch.tensor(rows), torch.tensor([len(sequence) for sequence in sequences])


CYCLE = [(f"u{u}", f"i{(u * 5 + t) % 40}", t) for u in range(80) for t in range(6 + u % 5)]


CHAINS = [(f"u{u}", f"i{(3 * u + t) % 29}", t) for u in range(60) for t in range(5 + u % 4)]
"""Rows of users that go from each item to the next one."""
