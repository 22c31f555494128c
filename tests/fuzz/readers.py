"""Every reader of files, with whole files of its kind to damage."""

from __future__ import annotations

import io
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest import mock

import pandas as pd

from recbole_bert4rec import checkpoints
from recbole_bert4rec.system.environment import shipped
from recbole_bert4rec.training.build import load_data
from recbole_bert4rec.training.run import run
from tests.fuzz.mutants import mutant
from tests.helpers.data import atomic_file
from tests.helpers.runs import configured

QUIET = {"show_progress": False, "state": "critical", "use_gpu": False}
SMALL = {"hidden_size": 8, "inner_size": 8, "n_layers": 1, "n_heads": 1, "MAX_ITEM_LIST_LENGTH": 8, "epochs": 1}
ROWS = [(f"u{u}", f"i{(u + t) % 12}", 10 * t + u) for u in range(12) for t in range(6)]


def damaged(whole: list[bytes], draw: random.Random) -> bytes:
    while (changed := mutant(draw.choice(whole), whole, draw)) in whole:
        pass
    return changed


@dataclass(frozen=True)
class Reader:
    """A reader.

    Attributes:
        name: of the file that it reads, below the current folder.
        whole: returns files that it reads.
        read: reads the file of this name.
        around: returns other files that must be there.
    """

    name: str
    whole: Callable[[], list[bytes]]
    read: Callable[[Path], object]
    around: Callable[[], dict[str, bytes]] = dict


def _inter(separator: str = "\t", header: str = "user_id:token\titem_id:token\ttimestamp:float") -> bytes:
    lines = [header, *(separator.join(map(str, row)) for row in ROWS)]
    return ("\n".join(lines) + "\n").encode()


def _read_inter(path: Path) -> None:
    load_data(configured(dataset="toy", **{**QUIET, **SMALL, "data_path": "data"}))


def _toy() -> dict[str, bytes]:
    return {"data/toy/toy.inter": _inter()}


def _table(path: Path) -> object:
    return atomic_file(str(path), "user_id", "item_id", "timestamp")


def _frame() -> pd.DataFrame:
    return pd.DataFrame(ROWS, columns=["user_id", "item_id", "timestamp"])


def _parquet() -> list[bytes]:
    found = []
    for frame in (_frame(), _frame().astype({"user_id": "category", "timestamp": float})):
        buffer = io.BytesIO()
        frame.to_parquet(buffer, index=False)
        found.append(buffer.getvalue())
    return found


def _shipped(kind: str) -> list[bytes]:
    return [file.read_bytes() for file in shipped(kind).iterdir() if file.name.endswith(".yaml")]


def _read_yaml(path: Path) -> None:
    configured(dataset="toy", files=(str(path),), **{**QUIET, "data_path": "data"})


@cache
def _trained() -> dict[str, bytes]:
    """Train a small model; return its files."""
    with folder_of(_toy()):
        found = run(dataset="toy", options={**QUIET, **SMALL, "data_path": "data"})
        best, last = found.checkpoint.read_bytes(), Path(checkpoints.last_of(found.checkpoint)).read_bytes()
        return {"best": best, "last": last}


@contextmanager
def folder_of(files: dict[str, bytes]) -> Iterator[None]:
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, content in files.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_bytes(content)
        try:
            with mock.patch("sys.argv", ["fuzz"]):
                yield
        finally:
            os.chdir(before)


READERS = {
    "inter": Reader("data/toy/toy.inter", lambda: [_inter()], _read_inter),
    "csv": Reader("log.csv", lambda: [_frame().to_csv(index=False).encode()], _table),
    "parquet": Reader("log.parquet", _parquet, _table),
    "conversion": Reader(
        "log/conversion.json",
        lambda: [
            b'{"log": "log.csv", "made_from": {"format": 3, "files": [["log.csv", 3, 1.5]], "columns": ["a", "b"]}}'
        ],
        lambda path: _table(Path("log.csv")),
        lambda: {"log.csv": _frame().to_csv(index=False).encode(), "log/log.inter": _inter()},
    ),
    "yaml": Reader("a.yaml", lambda: _shipped("recipe") + _shipped("dataset"), _read_yaml, _toy),
    "checkpoint": Reader("a.pth", lambda: [_trained()["best"], _trained()["last"]], checkpoints.read),
}
