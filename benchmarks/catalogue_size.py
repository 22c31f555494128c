"""Seconds and memory of a training epoch as the catalogue grows: a million interactions, 10 thousand users, H 64.

Every item occurs, so that the catalogue is as large as it says. Full softmax (loss_type CE) against sampled_softmax
with row-wise updates (sparse_update). Each run has a process of its own. With ``--epochs 1`` there is no warm-up.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from records import RESULTS, machine, write_inter, write_tables
from training_speed import run_contestant

from recbole_bert4rec.system.environment import environment

matplotlib.use("Agg")
from matplotlib import pyplot as plt

LOSSES: dict[str, dict[str, Any]] = {
    "CE": {"loss_type": "CE"},
    "sampled_softmax": {
        "loss_type": "sampled_softmax",
        "negatives": "popularity",
        "n_negatives": 256,
        "sparse_update": True,
    },
}


def write_log(path: Path, n_items: int, interactions: int = 1_000_000, users: int = 10_000) -> None:
    """Every user has as many interactions; every item occurs as often, give or take one."""
    items = np.random.default_rng(0).permutation(np.resize(np.arange(n_items), interactions))
    write_inter(path, np.arange(interactions) % users, items, np.arange(interactions))


def plot(rows: list[dict[str, Any]]) -> None:
    """Seconds an epoch against the catalogue, both logarithmic."""
    figure, axes = plt.subplots(figsize=(5, 3.5))
    for (loss, marker), colour in zip((("CE", "o"), ("sampled_softmax", "s")), ("#0072b2", "#d55e00"), strict=True):
        points = [(row["n_items"], row["n_seconds"]) for row in rows if row["loss"] == loss]
        if not points:
            continue
        axes.loglog(*zip(*points, strict=True), marker=marker, color=colour, label=loss)
    axes.set(xlabel="items", ylabel="seconds an epoch", title="1 million interactions, H 64, two cores")
    axes.grid(which="both", alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(RESULTS / "catalogue_size.png", dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=list(LOSSES))
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=3600, help="seconds for each run")
    parser.add_argument("--work", type=Path, default=Path("bench-work"))
    options = parser.parse_args()
    work, rows = options.work.resolve(), []
    for loss in options.losses:
        for n_items in options.items:
            name = f"catalogue-{n_items}"
            if not (work / name / f"{name}.inter").is_file():
                write_log(work / name / f"{name}.inter", n_items)
            task = {"dataset": name, "data_path": str(work), "length": 100, "batch": 128, "mask_ratio": 0.2}
            task |= {"epochs": options.epochs, "hidden_size": 64, "options": LOSSES[loss]}
            record = run_contestant("ours", {**task, "sequences": str(work / f"{name}.npz")}, work, options.limit)
            if isinstance(record, str):
                rows.append({"loss": loss, "items": f"{n_items:,}", "seconds an epoch": record})
                continue
            seconds = statistics.median(record["seconds"][1:] or record["seconds"])
            rows.append(
                {
                    "loss": loss,
                    "items": f"{n_items:,}",
                    "seconds an epoch": f"{seconds:.1f}",
                    "masked positions": f"{record['masked'][-1]:,}",
                    "peak memory MB": round(record["memory"]),
                    "n_items": n_items,
                    "n_seconds": seconds,
                }
            )
            print(rows[-1], flush=True)
    plot([row for row in rows if "n_items" in row])
    columns = ("loss", "items", "seconds an epoch", "masked positions", "peak memory MB")
    note = "A million interactions of 10,000 users, N 100, H 64, batch 128, mask ratio 0.2; 256 negatives; float32."
    write_tables("catalogue_size", machine(environment()), [{c: row.get(c, "") for c in columns} for row in rows], note)


if __name__ == "__main__":
    main()
