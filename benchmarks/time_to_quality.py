"""Seconds until our BERT4Rec has the validation NDCG@10 that RecBole's has after some epochs, on ml-100k.

Both run one after the other, each in a process of its own, validated after every epoch; seconds count training and
validation from the first step. Run it on an idle machine.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from records import machine, run_record, write_tables


def ndcg(epoch: dict[str, Any]) -> float:
    return float(epoch["valid"]["ndcg@10"])


def first_at(record: dict[str, Any], mark: float) -> dict[str, Any] | None:
    """The first epoch whose validation NDCG@10 reaches ``mark``."""
    return next((epoch for epoch in record["epochs"] if ndcg(epoch) >= mark), None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stock_epochs", type=int, default=3, help="epochs of RecBole's own model")
    parser.add_argument("--seed", type=int, default=2020)
    parser.add_argument("--work", type=Path, default=Path("bench-work"), help="folder for checkpoints and records")
    options = parser.parse_args()
    work = options.work.resolve()
    ours = run_record(work, "BERT4Rec", f"--seed={options.seed}")
    stock = run_record(work, "RecBoleBERT4Rec", f"--seed={options.seed}", f"--epochs={options.stock_epochs}")
    stock_end = max(stock["epochs"], key=ndcg)
    rows = [
        {
            "model": "RecBole BERT4Rec",
            "valid NDCG@10": f"{ndcg(stock_end):.4f}",
            "seconds": f"{stock['epochs'][-1]['at_second']:.1f}",
            "epochs": len(stock["epochs"]),
            "ratio": "1",
        }
    ]
    for mark in (ndcg(stock_end), 0.05):
        reached = first_at(ours, mark)
        if reached is None:
            rows.append({**dict.fromkeys(rows[0], "not reached"), "model": f"ours to {mark:.4f}"})
            continue
        rows.append(
            {
                "model": f"ours to {mark:.4f}",
                "valid NDCG@10": f"{ndcg(reached):.4f}",
                "seconds": f"{reached['at_second']:.1f}",
                "epochs": reached["epoch"] + 1,
                "ratio": f"1/{stock['epochs'][-1]['at_second'] / reached['at_second']:.0f}",
            }
        )
    note = "RecBole protocol: full ranking, seen items kept; N 50, d 64. `ratio`: our seconds over the stock model's."
    write_tables("time_to_quality", machine(ours), rows, note)


if __name__ == "__main__":
    main()
