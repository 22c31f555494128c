"""RecBole's SASRec and GRU4Rec on ml-100k: one padded row a label against one pass over each user's windows.

Both see each label once an epoch, in batches of as many labels, so they make as many steps. What ``--work`` holds is
not run again.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

from records import machine, run_options, write_tables

EPOCHS = {"SASRec": 4, "GRU4Rec": 8}
"""Epochs of each model: as many as three seeds on padded rows can be waited for."""


def spread(records: list[dict[str, Any]], metric: str) -> str:
    """Mean and standard deviation of a test metric over seeds."""
    values = [record["test_result"][metric] for record in records]
    return f"{statistics.mean(values):.4f} ± {statistics.stdev(values):.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="from 2020 on")
    parser.add_argument("--work", type=Path, default=Path("bench-work"))
    options = parser.parse_args()
    rows = []
    for model, epochs in EPOCHS.items():
        runs: dict[str, list[dict[str, Any]]] = {"padded": [], "user": []}
        for seed in range(2020, 2020 + options.seeds):  # in turn, so that both see the same machine
            for kind, done in runs.items():
                given: dict[str, Any] = {"dataset": "ml-100k", "seed": seed, "epochs": epochs}
                given |= {"valid_metric": "NDCG@10", "training_rows": "user" if kind == "user" else None}
                done.append(run_options(options.work.resolve(), f"{model}-{kind}-{seed}", given, model))
        seconds = {
            kind: statistics.median(epoch["train_seconds"] for record in done for epoch in record["epochs"][1:])
            for kind, done in runs.items()
        }
        for kind, done in runs.items():
            rows.append(
                {
                    "model": model,
                    "rows": {"padded": "one padded row a label", "user": "training_rows: user"}[kind],
                    "epochs": epochs,
                    "epoch, s": f"{seconds[kind]:.1f}",
                    "faster": f"{seconds['padded'] / seconds[kind]:.0f} x",
                    "test HR@10": spread(done, "hit@10"),
                    "test NDCG@10": spread(done, "ndcg@10"),
                }
            )
    note = (
        f"Median epoch without each run's first. RecBole's protocol and defaults; {options.seeds} seeds from 2020, "
        "mean and standard deviation. So few epochs end before the best one; `results/ml-100k` has runs to the end."
    )
    write_tables("user_rows", machine(done[-1]), rows, note)


if __name__ == "__main__":
    main()
