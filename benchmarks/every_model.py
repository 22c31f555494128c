"""Train every model an epoch with every loss, in float32 and in bfloat16, on one device: does it run, and how fast?

ml-100k comes with RecBole. Batches are of 1,000 items. The seconds of an epoch have the start of a GPU in them.
"""

from __future__ import annotations

import argparse
import math
from itertools import product
from pathlib import Path
from typing import Any

from records import machine, run_options, write_tables

from recbole_bert4rec.system.constants import LOSSES, OUR_MODELS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="ml-100k")
    parser.add_argument("--data_path", type=Path, help="folder of the data set; not needed for ml-100k")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--work", type=Path, default=Path("bench-work/every_model"))
    options = parser.parse_args()
    base: dict[str, Any] = {"dataset": options.dataset, "epochs": 1, "train_batch_size": 1000}
    base["use_gpu"] = options.device == "cuda"
    if options.data_path is not None:
        base["data_path"] = str(options.data_path.resolve())
    rows: list[dict[str, Any]] = []
    for model, loss, half in product(OUR_MODELS, LOSSES, (False, True)):
        precision = "bfloat16" if half else "float32"
        more = {"loss_type": loss, "enable_amp": half}
        record = run_options(
            options.work.resolve(), f"{options.device}-{model}-{loss}-{precision}", {**base, **more}, model
        )
        if options.device == "cuda" and record["machine"]["gpu"] is None:
            raise SystemExit("PyTorch finds no GPU here")
        (epoch,) = record["epochs"]
        if not math.isfinite(epoch["train_loss"]):
            raise SystemExit(f"{model} with {loss} in {precision} has the loss {epoch['train_loss']}")
        rows.append(
            {
                "model": model,
                "loss_type": loss,
                "precision": precision,
                "loss": f"{epoch['train_loss']:.1f}",
                "validation NDCG@10": f"{record['best_valid_result']['ndcg@10']:.4f}",
                "training s": f"{epoch['train_seconds']:.1f}",
                "validation s": f"{epoch['valid_seconds']:.1f}",
                "GPU memory MB": record["peak_gpu_memory_mb"] or "",
            }
        )
    write_tables(f"every_model_{options.dataset}_{options.device}", machine(record), rows)


if __name__ == "__main__":
    main()
