"""The finished runs of a comparison, read from its folder: their records, and the rank of every user's target."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

OF_RANKS = ("hit", "recall", "precision", "mrr", "map", "ndcg")
"""The metrics that follow from the rank of a user's only target."""


@dataclass
class Results:
    """All that the reports of a comparison show. A protocol is "" for the runs' own, else the name of its file.

    Attributes:
        about: what all runs share, as comparison.json has it.
        records: the finished runs of each model, one a seed.
        ranks: of each protocol and model, the target's rank for every user; 0 is beyond the depth. *Shape:* (S, U)
    """

    about: dict[str, Any]
    records: dict[str, list[dict[str, Any]]]
    ranks: dict[str, dict[str, NDArray[np.int64]]]

    @property
    def main_metric(self) -> str:
        """The validation metric, by which the best epochs were selected."""
        return str(self.about["rules"]["valid_metric"]).lower()

    @property
    def reference(self) -> str | None:
        """The first model of the command, which is compared with the others; None if either has no finished run."""
        first = str(self.about["models"][0])
        return first if first in self.records and len(self.records) > 1 else None

    def metrics(self, protocol: str = "") -> list[str]:
        """Return the metrics to show, as RecBole names them, for instance ``ndcg@10``; of equal ones the first.

        Left out are hits and NDCG at a cut within which every target is, as among 101 of 101 candidates. Reciprocal
        ranks stay: the paper's are over all candidates.
        """
        deepest = max(np.where(ranks > 0, ranks, np.inf).max() for ranks in self.ranks[protocol].values())

        def tells(metric: str) -> bool:
            name, _, cut = metric.partition("@")
            return name not in ("hit", "recall", "precision", "ndcg") or int(cut) < deepest

        tested = [*_tested(next(iter(self.records.values()))[0], protocol)]
        return distinct_metrics([one for one in tested if one == self.main_metric or tells(one)] or tested)

    def scores(self, model: str, metric: str, protocol: str = "") -> list[float]:
        """Return the test metric of each run, as RecBole printed it."""
        return [float(_tested(record, protocol)[metric]) for record in self.records[model]]

    def by_user(self, model: str, metric: str, protocol: str = "") -> NDArray[np.float64]:
        """Return the test metric of every user in each run; *Shape:* (S, U)."""
        return metric_of(self.ranks[protocol][model], metric)

    def table(self) -> pd.DataFrame:
        """Return a row for each run: model, seed, cost, and its validation and test metrics."""
        axis = self.about["axis"]
        rows = [
            {"model": model, "seed": record["seed"]}
            | ({"varied": axis[model]} if axis else {})
            | {"epochs": len(record["epochs"]), "best_epoch": record["best_epoch"]}
            | {"seconds": record["seconds"]["train"], "parameters": record["parameters"]}
            | {"epochs_trained": epochs_trained(record), "peak_memory_mb": record["peak_memory_mb"]}
            | {"training_seconds": sum(epoch["train_seconds"] for epoch in record["epochs"])}
            | {f"valid {name}": value for name, value in record["best_valid_result"].items()}
            | {f"test {name}": value for name, value in record["test_result"].items()}
            for model, records in self.records.items()
            for record in records
        ]
        return pd.DataFrame(rows)


def read_results(folder: Path) -> Results:
    """Read the finished runs of a comparison's folder."""
    about = json.loads((folder / "comparison.json").read_text("utf-8"))
    records: dict[str, list[dict[str, Any]]] = {}
    ranks: dict[str, dict[str, list[NDArray[np.int64]]]] = {}
    users: dict[str, pd.Index] = {}  # in the order of the first run
    for model, names in about["runs"].items():
        for name in names:
            record = (folder / "runs" / f"{name}.json").read_text("utf-8")
            records.setdefault(model, []).append(json.loads(record))
            targets = pd.read_parquet(folder / "runs" / f"{name}.parquet")
            for protocol, tested in targets.groupby("protocol", sort=False):
                by_user = tested.set_index("user")["rank"]
                ordered = by_user.loc[users.setdefault(str(protocol), by_user.index)]
                ranks.setdefault(str(protocol), {}).setdefault(model, []).append(ordered.to_numpy())
    stacked = {protocol: {model: np.stack(runs) for model, runs in of.items()} for protocol, of in ranks.items()}
    return Results(about, records, stacked)


def metric_of(ranks: NDArray[np.int64], metric: str) -> NDArray[np.float64]:
    """Return a metric of rankings with one target, as RecBole defines it."""
    name, _, cut = metric.lower().partition("@")
    k, safe = int(cut), np.maximum(ranks, 1)
    gains: dict[str, Any] = {"hit": 1.0, "recall": 1.0, "precision": 1.0 / k, "mrr": 1.0 / safe, "map": 1.0 / safe}
    gains["ndcg"] = 1.0 / np.log2(safe + 1.0)
    return np.where((ranks > 0) & (ranks <= k), gains[name], 0.0)


def distinct_metrics(metrics: Iterable[str]) -> list[str]:
    """Return the first of all metrics that say the same if a ranking has one target.

    Recall is hit, map is mrr, precision@K is hit@K / K; at 1 all of them are equal.
    """
    distinct: dict[tuple[str, str], str] = {}
    for metric in metrics:
        name, _, cut = metric.partition("@")
        kind = "hit" if cut == "1" else {"recall": "hit", "precision": "hit", "map": "mrr"}.get(name, name)
        distinct.setdefault((kind, cut), metric)
    return [*distinct.values()]


def _tested(record: dict[str, Any], protocol: str) -> dict[str, float]:
    """Return a run's test metrics under a protocol."""
    metrics: dict[str, float] = record["also"][protocol] if protocol else record["test_result"]
    return metrics


def epochs_trained(record: dict[str, Any]) -> float:
    """Return how many epochs a run trained; the last may be cut short by a budget."""
    return len(record["epochs"]) - 1 + float(record.get("budget", {}).get("last_epoch_share", 1.0))
