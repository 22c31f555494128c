"""Test metrics on ml-100k over several seeds, each model selected on validation by its own early stopping."""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

from records import machine, run_record, write_tables

CONTESTANTS = {
    "ours": ("BERT4Rec", ()),
    "ours, seen_bias": ("BERT4Rec", ("--seen_bias=True",)),
    "ours, exclude_seen": ("BERT4Rec", ("--exclude_seen=True",)),
    "ours, seen_bias, exclude_seen": ("BERT4Rec", ("--seen_bias=True", "--exclude_seen=True")),
    "RecBole GRU4Rec": ("GRU4Rec", ()),
    "RecBole SASRec": ("SASRec", ()),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--only", nargs="+", default=list(CONTESTANTS), choices=list(CONTESTANTS))
    parser.add_argument("--work", type=Path, default=Path("bench-work"), help="folder for checkpoints and records")
    options = parser.parse_args()
    rows = []
    for name in options.only:
        model, flags = CONTESTANTS[name]
        records = [run_record(options.work.resolve(), model, f"--seed={seed}", *flags) for seed in options.seeds]
        row = {"model": name, "seeds": len(records)}
        for part, key in (("valid", "best_valid_result"), ("test", "test_result")):
            for metric in ("ndcg@10", "hit@10"):
                values = [record[key][metric] for record in records]
                spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
                row[f"{part} {metric}"] = f"{statistics.mean(values):.4f}{spread}"
        row["epochs"] = round(statistics.mean(len(record["epochs"]) for record in records))
        rows.append(row)
    note = (
        "Mean ± standard deviation over the seeds. RecBole protocol (leave-one-out, full ranking, seen items kept) but "
        "where `exclude_seen` says otherwise; N 50; every model with the defaults that this package gives it."
    )
    write_tables("quality_ml-100k", machine(records[0]), rows, note)


if __name__ == "__main__":
    main()
