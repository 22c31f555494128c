"""Fixtures: a working folder of its own for each test, configurations, and atomic files made on the spot."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from recbole.config import Config

import recbole_bert4rec  # noqa: F401  registers BERT4Rec
from recbole_bert4rec.logs.table import convert
from recbole_bert4rec.plugin.patches.registry import in_program
from recbole_bert4rec.training import build
from recbole_bert4rec.training.callbacks import Callback, RankedBatch

torch.set_num_threads(1)  # the models of these tests are too small to share out
_program = in_program()
_program.__enter__()  # tests see RecBole as our programs do; those of a plain import run in processes of their own
QUIET = {"show_progress": False, "state": "error", "use_gpu": False}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """RecBole writes saved/, log/ and log_tensorboard/ where it runs, reads the command line, and logs to the root."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["run.py"])
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield
    for handler in set(root.handlers) - set(handlers):  # RecBole's functions leave theirs
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)


def make_config(model: str = "BERT4Rec", dataset: str = "ml-100k", **options: Any) -> Config:
    return Config(model=model, dataset=dataset, config_dict={**QUIET, **options})


def atomic_file(log: str, *arguments: Any, **more: Any) -> Path:
    """The atomic file that a log is converted to."""
    folder = convert(log, *arguments, **more)
    return folder / f"{folder.name}.inter"


def prepare(config: Config) -> tuple[Any, Any, Any, Any]:
    """The whole data set and its three loaders, made as a run makes them."""
    data = build.load_data(config)
    return data.dataset, data.train, data.valid, data.test


def make_trainer(config: Config, train_data: Any, *callbacks: Callback) -> Any:
    return build.make_trainer(config, build.make_model(config, train_data), callbacks)


@pytest.fixture
def write_inter(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Write NAME/NAME.inter; returns the options that load it."""
    return inter_writer(tmp_path)


def inter_writer(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """What ``write_inter`` is, for any folder."""

    def write(rows: Iterable[tuple[Any, ...]], name: str = "toy", header: str | None = None) -> dict[str, Any]:
        folder = tmp_path / "data" / name
        folder.mkdir(parents=True, exist_ok=True)
        header = "user_id:token\titem_id:token\ttimestamp:float" if header is None else header
        lines = [header, *("\t".join(map(str, row)) for row in rows)]
        (folder / f"{name}.inter").write_text("\n".join(lines) + "\n" if header else "")
        return {"dataset": name, "data_path": str(tmp_path / "data")}

    return write


def histories_to_rows(histories: dict[str, list[Any]]) -> list[tuple[Any, ...]]:
    return [(user, item, time) for user, items in histories.items() for time, item in enumerate(items)]


def overlapping_histories(users: int) -> dict[str, list[str]]:
    """Histories of 4, 5, ... items out of 14, in which users share items and some items are repeated."""
    return {f"u{u}": [f"i{(3 * u + t * (u % 4 + 1)) % 14}" for t in range(4 + u)] for u in range(users)}


class Catalogue:
    """All that a model asks of a data set.

    Args:
        n_items: of the catalogue, padding among them; item i was trained on i times.
    """

    def __init__(self, n_items: int) -> None:
        self.n_items = n_items

    def num(self, field: str) -> int:
        return self.n_items

    def training_counts(self) -> torch.Tensor:
        return torch.arange(self.n_items)


class Rankings(Callback):
    """The best items of each user, as an evaluation ranks them."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.of_user: dict[int, list[int]] = {}

    def on_test_begin(self, trainer: Any, loader: Any) -> None:
        trainer.ranking_depth = self.depth

    def on_ranking_end(self, trainer: Any, ranked: RankedBatch) -> None:
        users = ranked.interaction["user_id"].tolist()
        self.of_user |= dict(zip(users, ranked.scores.items.tolist(), strict=True))


def padded(sequences: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(map(len, sequences))
    rows = [sequence + [0] * (width - len(sequence)) for sequence in sequences]
    return torch.tensor(rows), torch.tensor([len(sequence) for sequence in sequences])
