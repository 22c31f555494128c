"""The finished runs of a comparison, read from its folder: their records, and the rank of every user's target."""

from __future__ import annotations

import json
import statistics
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray


@dataclass
class Results:
    """All that the reports of a comparison show.

    Attributes:
        about: facts of all runs (models, dataset, seeds, budget, rules, axis of a study, ...).
        models: those with a finished run, in the order of the command.
        metrics: as RecBole names them, for instance ``ndcg@10``.
        records: the runs of each model, one a seed.
        ranks: of each model's runs, the target's rank for every user; 0 is beyond the depth. *Shape:* (S, U)
        failed: reasons of the runs that failed, by name.
    """

    about: dict[str, Any]
    models: list[str]
    metrics: list[str]
    records: dict[str, list[dict[str, Any]]]
    ranks: dict[str, NDArray[np.int64]]
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def main_metric(self) -> str:
        """The validation metric, by which the best epochs were selected."""
        return str(self.about["rules"]["valid_metric"]).lower()

    @property
    def reference(self) -> str | None:
        """The first model of the command, which is compared with the others; None if its runs failed."""
        first = str(self.about["models"][0])
        return first if first in self.models else None

    def scores(self, model: str, metric: str) -> NDArray[np.float64]:
        """Return the test metric of each run, as RecBole printed it; *Shape:* (S,)."""
        return np.array([record["test_result"][metric] for record in self.records[model]], dtype=float)

    def by_user(self, model: str, metric: str) -> NDArray[np.float64]:
        """Return the test metric of every user in each run; *Shape:* (S, U)."""
        return metric_of(self.ranks[model], metric)

    def table(self) -> pd.DataFrame:
        """Return a row for each run: model, seed, cost, and its validation and test metrics."""
        rows = []
        for model, records in self.records.items():
            for record in records:
                row = {"model": model, "seed": record["seed"], **self._varied(model)}
                row |= {"epochs": len(record["epochs"]), "best_epoch": record["best_epoch"]}
                row |= {"seconds": record["seconds"]["train"], "parameters": record["parameters"]}
                for phase in ("best_valid", "test"):
                    values = record[f"{phase}_result"]
                    row |= {f"{phase.removeprefix('best_')} {name}": value for name, value in values.items()}
                rows.append(row)
        return pd.DataFrame(rows)

    def _varied(self, model: str) -> dict[str, Any]:
        """Return the value of the option that a study varies."""
        return {"varied": self.about["axis"][model]} if self.about.get("axis") else {}

    def best_rival(self, metric: str) -> str | None:
        """Return the model, other than the reference, with the highest mean."""
        rivals = [model for model in self.models if model != self.reference]
        return max(rivals, key=lambda model: self.scores(model, metric).mean()) if rivals else None


def metric_of(ranks: NDArray[np.int64], metric: str) -> NDArray[np.float64]:
    """Return a metric of rankings with one target, as RecBole defines it."""
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


def mean_text(values: Collection[float]) -> str:
    """Format the mean of some runs and, of two or more, their standard deviation."""
    spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.4f}{spread}"


def epochs_trained(record: dict[str, Any]) -> float:
    """Return how many epochs a run trained; the last may be cut short by a budget."""
    return len(record["epochs"]) - 1 + float(record.get("budget", {}).get("last_epoch_share", 1.0))


def read_results(folder: Path, runs: list[str], failed: dict[str, str]) -> Results:
    """Read a comparison's folder."""
    about = json.loads((folder / "comparison.json").read_text("utf-8"))
    users = pd.read_parquet(folder / "rows.parquet")["user"]
    records: dict[str, list[dict[str, Any]]] = {}
    ranks: dict[str, list[NDArray[np.int64]]] = {}
    for name in runs:
        record, ranks_of_run = read_run(folder / "runs", name, users)
        model = record.get("contestant", record["model"])
        records.setdefault(model, []).append(record)
        ranks.setdefault(model, []).append(ranks_of_run)
    models = [model for model in about["models"] if model in records]
    metrics = _telling(list(records[models[0]][0]["test_result"]), about["rules"]["eval_args"]["mode"]["test"])
    stacked = {model: np.stack(of_model) for model, of_model in ranks.items()}
    return Results(about, models, metrics, records, stacked, failed)


def _telling(metrics: list[str], mode: str) -> list[str]:
    """Leave out metrics that are always 1: hits among all candidates of a mode such as ``pop100``."""
    if mode == "full":
        return metrics
    ranked = int(mode[3:]) + 1
    sure = ("hit", "recall", "precision")
    cuts = {metric: metric.partition("@") for metric in metrics}
    return [metric for metric, (name, _, cut) in cuts.items() if name not in sure or int(cut) < ranked] or metrics


def read_run(folder: Path, name: str, users: pd.Series) -> tuple[dict[str, Any], NDArray[np.int64]]:
    """Read one finished run.

    *Shape:* users (U,) -> (U,)
    """
    record: dict[str, Any] = json.loads((folder / f"{name}.json").read_text("utf-8"))
    ranks = pd.read_parquet(folder / f"{name}.parquet").set_index("user")["rank"]
    return record, ranks.loc[users].to_numpy()
