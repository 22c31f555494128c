"""The finished runs of a comparison, read from its folder: records, ranks of the users, and what follows from them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from recbole_bert4rec.errors import UserError


@dataclass
class Results:
    """All that the reports of a comparison show.

    Attributes:
        about: what all runs share (models, dataset, seeds, budget, rules, axis of a study, ...).
        models: those with a finished run, in the order asked for.
        metrics: as RecBole names them, for instance ``ndcg@10``.
        records: the runs of each model, one a seed.
        ranks: of each model's runs, the target's rank for every user; 0 is beyond the depth. *Shape:* (S, U)
        rows: user, history_length and target_popularity of every test row. *Shape:* U rows
        failed: reasons of the runs that failed, by name.
    """

    about: dict[str, Any]
    models: list[str]
    metrics: list[str]
    records: dict[str, list[dict[str, Any]]]
    ranks: dict[str, Any]
    rows: pd.DataFrame
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def main_metric(self) -> str:
        """The validation metric, in which models were selected."""
        return str(self.about["rules"]["valid_metric"]).lower()

    @property
    def reference(self) -> str | None:
        """The first model asked for, which is compared with the others; None where its runs failed."""
        first = str(self.about["models"][0])
        return first if first in self.models else None

    @property
    def has_variety(self) -> bool:
        """Whether the runs know what they would recommend: among sampled candidates they do not."""
        return all(record["variety"] for records in self.records.values() for record in records)

    def scores(self, model: str, metric: str) -> Any:
        """Test metric of each run, as RecBole printed it. *Shape:* (S,)"""
        return np.array([record["test_result"][metric] for record in self.records[model]], dtype=float)

    def by_user(self, model: str, metric: str) -> Any:
        """Test metric of every user in each run. *Shape:* (S, U)"""
        return metric_of(self.ranks[model], metric)

    def table(self) -> pd.DataFrame:
        """A row a run: who, seed, what it took, and its validation and test metrics."""
        rows = []
        for model, records in self.records.items():
            for record in records:
                row = {"model": model, "seed": record["seed"], **self._place(model)}
                row |= {"epochs": len(record["epochs"]), "best_epoch": record["best_epoch"]}
                row |= {"seconds": record["seconds"]["train"], "parameters": record["parameters"]}
                for phase in ("best_valid", "test"):
                    values = record[f"{phase}_result"]
                    row |= {f"{phase.removeprefix('best_')} {name}": value for name, value in values.items()}
                rows.append(row)
        return pd.DataFrame(rows)

    def _place(self, model: str) -> dict[str, Any]:
        """What a study varies, and its value for this variant."""
        return {"varied": self.about["axis"][model]} if self.about.get("axis") else {}

    def best_rival(self, metric: str) -> str | None:
        """The model, other than the reference, with the highest mean."""
        rivals = [model for model in self.models if model != self.reference]
        return max(rivals, key=lambda model: self.scores(model, metric).mean()) if rivals else None


def metric_of(ranks: Any, metric: str) -> Any:
    """A metric of rankings with one target, as RecBole defines it.

    Args:
        ranks: of the targets, from 1; 0 is beyond. *Shape:* any
        metric: hit, recall, precision, mrr, map or ndcg, and ``@K``.
    """
    name, _, cut = metric.lower().partition("@")
    k = int(cut)
    safe = np.maximum(ranks, 1)
    gain = {
        "hit": np.ones(ranks.shape),
        "recall": np.ones(ranks.shape),
        "precision": np.full(ranks.shape, 1.0 / k),
        "mrr": 1.0 / safe,
        "map": 1.0 / safe,
        "ndcg": 1.0 / np.log2(safe + 1.0),
    }[name]
    return np.where((ranks > 0) & (ranks <= k), gain, 0.0)


def read_results(folder: Path, runs: list[str], failed: dict[str, str]) -> Results:
    """Read a comparison's folder.

    Args:
        runs: names of the finished runs.
        failed: reasons of the others.

    Raises:
        UserError: the ranks of a run do not give the metrics of its record.
    """
    about = json.loads((folder / "comparison.json").read_text("utf-8"))
    rows = pd.read_parquet(folder / "rows.parquet")
    records: dict[str, list[dict[str, Any]]] = {}
    ranks: dict[str, list[Any]] = {}
    for name in runs:
        record = json.loads((folder / "runs" / f"{name}.json").read_text("utf-8"))
        table = pd.read_parquet(folder / "runs" / f"{name}.parquet").set_index("user")["rank"]
        if len(table) != len(rows) or not table.index.is_unique:
            raise UserError(f"{folder}/runs/{name}.parquet has other users than rows.parquet; remove it and run again")
        own = table.loc[rows["user"]].to_numpy()
        _check(folder / "runs" / f"{name}.parquet", own, record)
        who = record.get("contestant", record["model"])
        records.setdefault(who, []).append(record)
        ranks.setdefault(who, []).append(own)
    models = [model for model in about["models"] if model in records]
    metrics = list(records[models[0]][0]["test_result"])
    return Results(
        about, models, metrics, records, {model: np.stack(own) for model, own in ranks.items()}, rows, failed
    )


def _check(file: Path, ranks: Any, record: dict[str, Any]) -> None:
    rounding = 0.51 * 10.0 ** -int(record["config"].get("metric_decimal_place", 4))
    for metric, value in record["test_result"].items():
        own = float(metric_of(ranks, metric).mean())
        if abs(own - value) > rounding + 1e-6:  # RecBole sums in float32
            raise UserError(f"{file}: the users' {metric} is {own:.5f} in the mean, but the record says {value:.5f}")
