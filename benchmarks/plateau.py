"""What shortens the plateau at the start of training: validation NDCG@10 on ml-1m after the first epochs.

BERT4Rec first stays near the loss of the items' frequencies. Every run has the same seed, a constant learning rate and
as many epochs; the figures do not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from records import machine, run_options, write_tables

PAPER: dict[str, Any] = {"value_init": "random", "bias_init": "zero"}
SHARED: dict[str, Any] = {
    "dataset": "ml-1m",
    "exclude_seen": True,
    "valid_metric": "NDCG@10",
    "lr_schedule": "constant",
    "learning_rate": 0.002,
    "train_batch_size": 32,
    "mask_ratio": 0.3,
    "hidden_dropout_prob": 0.1,
    "weight_decay": 0.01,
    "stopping_step": 1000,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "the paper's start": PAPER,
    "bias at the frequencies": {"value_init": "random"},
    "attention as an average": {"bias_init": "zero"},
    "both (the default)": {},
    "both, seen_bias": {"seen_bias": True},
    "both, no dropout": {"hidden_dropout_prob": 0.0},
    "both, mask_ratio 0.5": {"mask_ratio": 0.5},
    "both, N 30": {"MAX_ITEM_LIST_LENGTH": 30},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data_path", type=Path, required=True, help="folder that holds ml-1m/ml-1m.inter.gz")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=2020)
    parser.add_argument("--work", type=Path, default=Path("bench-work"))
    options = parser.parse_args()
    work, rows = options.work.resolve(), []
    for number, (name, changes) in enumerate(VARIANTS.items()):
        run = {**SHARED, "data_path": str(options.data_path.resolve()), "epochs": options.epochs, "seed": options.seed}
        record = run_options(work, f"plateau-{number}", {**run, **changes})
        curve = [epoch["valid"]["ndcg@10"] for epoch in record["epochs"]]
        shown = {f"epoch {epoch}": f"{curve[epoch - 1]:.4f}" for epoch in range(2, len(curve) + 1, 2)}
        rows.append({"start": name, **shown})
        print(rows[-1], flush=True)
    given = " ".join(f"--{key}={value}" for key, value in SHARED.items())
    changed = "; ".join(
        f"{name}: `{' '.join(f'--{key}={value}' for key, value in changes.items())}`"
        for name, changes in VARIANTS.items()
        if changes
    )
    note = f"Full ranking, seen items excluded, one seed, H 64. `{given}`, and of each: {changed}."
    write_tables("plateau", machine(record), rows, note)


if __name__ == "__main__":
    main()
