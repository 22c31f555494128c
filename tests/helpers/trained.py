"""A small trained model, and what it must recommend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from recbole_bert4rec.core.memory import Memory
from recbole_bert4rec.plugin.trainer import transitions_of
from tests.helpers.data import inter_writer
from tests.helpers.runs import Rankings, make_config, make_trainer, prepare

K = 6

SMALL = {"hidden_size": 16, "inner_size": 32, "MAX_ITEM_LIST_LENGTH": 5, "eval_batch_size": 7, "epochs": 0}

PROTOCOL = {"metrics": ["MRR", "NDCG", "Hit"], "topk": [K], "valid_metric": f"MRR@{K}"}

COLUMNS = {"inter": ["user_id", "item_id", "timestamp"], "item": ["item_id", "class", "year"]}

CHOICES: list[dict[str, Any]] = [
    {},
    {"objective": "next"},
    {"objective": "prefix"},
    {"position": "start"},
    {"position": "end"},
    {"norm": "pre", "output_projection": True, "position": "none"},
    {"logit_adjustment": 0.7, "bias_init": "zero"},
    {"seen_bias": False},
    {"selected_features": ["class", "year"]},
    {"item_vectors": "vectors.parquet", "selected_features": ["class"]},
    {"exclude_seen": True},
    {"memory": True},
]


class Trained:
    """A model of strong random weights with its data, its checkpoint, and how the test ranked."""

    def __init__(self, config: Any, seen_bias: float = -3.0) -> None:
        self.dataset, self.train, _, self.test = prepare(config)
        self.rankings = Rankings(K)
        self.trainer = make_trainer(config, self.train, self.rankings)
        torch.manual_seed(5)
        with torch.no_grad():
            for name, parameter in self.trainer.model.named_parameters():
                parameter += 0.3 * torch.randn_like(parameter) * (parameter != 0 if "embedding" in name else 1)
            if self.trainer.model.seen_bias is not None:
                self.trainer.model.seen_bias.fill_(seen_bias)
        if config["memory"]:
            self.trainer.model.memory = Memory(transitions_of(self.train.dataset), weight=2.0)
        self.trainer.fit(self.train, verbose=False)
        self.file = self.trainer.saved_model_file

    def histories(self) -> tuple[dict[str, list[str]], dict[str, str]]:
        """Of each user of the test: items before the target, and the target."""
        sequences, items, targets = self.test.dataset.sequences, {}, {}
        tokens, users = (self.dataset.field2id_token[field] for field in ("item_id", "user_id"))
        for row in self.test.dataset.inter_feat["user_id"].tolist():
            begin, end = sequences.offsets[row].item(), sequences.offsets[row + 1].item()
            *before, targets[users[row]] = tokens[sequences.items[begin:end].numpy()].tolist()
            items[users[row]] = before
        return items, targets


ROWS = [
    (f"u{u}", f"i{(7 * u + t * (u % 5 + 1) + t * t) % 26}", 40.0 * t + (u * t) % 13)
    for u in range(1, 31)
    for t in range(4 + u % 9)
]


def write_vectors(path: Path) -> str:
    """Five numbers of each item but the last of the log, and of two that nobody had."""
    items = [*(f"i{i}" for i in range(25)), "cold", "colder"]
    vectors = torch.randn(len(items), 5, generator=torch.Generator().manual_seed(1)) + 1
    pd.DataFrame({"item_id": items, "vector": list(vectors.numpy())}).to_parquet(path)
    return str(path)


def trained(write_inter: Any, learnt: float = -3.0, model: str = "BERT4Rec", **options: Any) -> Trained:
    found = write_inter(ROWS)
    lines = ["item_id:token\tclass:token_seq\tyear:token", *(f"i{i}\tc{i % 2} c{i % 3}\ty{i % 4}" for i in range(26))]
    (Path(found["data_path"]) / "toy" / "toy.item").write_text("\n".join(lines) + "\n")
    if "item_vectors" in options:
        options["item_vectors"] = write_vectors(Path(found["data_path"]) / options["item_vectors"])
    config = make_config(model, **{**found, **SMALL, **PROTOCOL, "load_col": COLUMNS, **options})
    return Trained(config, learnt)


def trained_in(folder: Path, **options: Any) -> Trained:
    """The same in a folder of its own, for all tests of a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("sys.argv", ["pytest"])
        found = trained(inter_writer(folder), **options)
        found.file = str(folder / found.file)
    return found


def lists_of(table: pd.DataFrame) -> dict[Any, list[str]]:
    return {user: rows["item_id"].tolist() for user, rows in table.groupby("user_id", sort=False)}
