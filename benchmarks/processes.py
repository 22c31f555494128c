"""The same training in one process, in two, and in two workers of Ray: are they the same?

A thread each. Dropout is off and the objective draws no masks, for these differ with the number of processes on
purpose. Seconds are those of training, after the first epoch; memory is the peak of the first process. Batches of the
default size are small; processes have more to share in larger ones.
"""

from __future__ import annotations

import argparse
import os
import statistics
from itertools import product
from pathlib import Path
from typing import Any

from records import machine, run_options, write_tables

CONTESTANTS: dict[str, list[str]] = {
    "one process": [],
    "--nproc=2": ["--nproc=2"],
    "--engine=ray --num_workers=2": ["--engine=ray", "--num_workers=2"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data_path", type=Path, required=True, help="folder that holds ml-1m/ml-1m.inter")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--train_batch_size", type=int, nargs="+", default=[1_000, 20_000], help="items in a batch")
    parser.add_argument("--work", type=Path, default=Path("bench-work/processes"))
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "RAY_worker_niceness": "0"}
    task = {"dataset": "ml-1m", "data_path": str(options.data_path.resolve()), "epochs": options.epochs}
    task |= {
        "objective": "next",
        "hidden_dropout_prob": 0.0,
        "learning_rate": 0.001,
        "use_gpu": False,
        "eval_args": {"mode": "full"},
    }
    rows: list[dict[str, Any]] = []
    for number, (items, (name, flags)) in enumerate(product(options.train_batch_size, CONTESTANTS.items())):
        more = {**task, "train_batch_size": items}
        record = run_options(options.work.resolve(), str(number), more, "BERT4Rec", *flags)
        epochs = record["epochs"]
        seconds = statistics.median(row["train_seconds"] for row in epochs[1:])
        if not flags:
            alone = seconds
        rows.append(
            {
                "items a batch": f"{items:,}",
                "started with": f"`{name}`" if name.startswith("--") else name,
                "loss by epoch": ", ".join(f"{row['train_loss']:.4f}" for row in epochs),
                "validation MRR@10": record["best_valid_result"]["mrr@10"],
                "test NDCG@10": record["test_result"]["ndcg@10"],
                "seconds an epoch": f"{seconds:.1f}",
                "as fast as one": f"{alone / seconds:.2f}",
                "peak MB": round(record["peak_memory_mb"]),
            }
        )
        print(rows[-1], flush=True)
    given = "`--model=BERT4Rec --objective=next --hidden_dropout_prob=0 --learning_rate=0.001`"
    write_tables("processes", machine(record), rows, f"ml-1m, {given}, else the defaults.")


if __name__ == "__main__":
    main()
