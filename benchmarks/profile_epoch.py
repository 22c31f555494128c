"""Where an epoch of training goes: each operator's share, its speed, and what this processor could do at best.

For each data set, objective and number format some batches are trained under torch's profiler, after some others as
warm-up. The floor of an operator is the larger of two times: its multiplications and additions at the speed of one
large matrix product, and its bytes at the speed of a large copy; both are measured in the same run. Run it alone on the
machine. (It is not called profile.py: Python has a module of that name.)
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.utils import get_model, get_trainer, init_seed
from records import best_of, machine, write_tables
from torch.profiler import ProfilerActivity, profile

import recbole_bert4rec
from recbole_bert4rec.core.fast.products import faster_products
from recbole_bert4rec.plugin.callbacks import WatchedLoader
from recbole_bert4rec.system.environment import environment, suppress_dependency_warnings

assert recbole_bert4rec.__version__  # its models are registered
OBJECTIVES = ("cloze", "next", "prefix")
FORMATS = {"float32": False, "bfloat16": True}
_SIZE = 1024
"""Of the large product; in bfloat16 some processors take seconds for it."""
SHOWN = 12
"""Operators of each case that have a row of their own."""


def speeds() -> dict[str, float]:
    """Return GFLOP/s of a large product in each format, and GB/s of a large copy (read and written)."""
    found = {}
    for name, type_ in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        left, right = torch.randn(_SIZE, _SIZE).to(type_), torch.randn(_SIZE, _SIZE).to(type_)
        found[name] = 0.0
        for large in (False, True):  # by MKL and by oneDNN, where that is faster
            with faster_products(large):
                seconds = best_of(lambda a=left, b=right: a @ b, 5)  # type: ignore[misc]
            found[name] = max(found[name], 2 * _SIZE**3 / seconds / 1e9)
    source = torch.randn(1 << 26)
    target = torch.empty_like(source)
    found["copy"] = 2 * 4 * source.numel() / best_of(lambda: target.copy_(source), 5) / 1e9
    return found


def products(name: str, shapes: list[list[int]]) -> float:
    """Return multiplications and additions of an operator; 0 where it is no product."""
    sizes = [shape for shape in shapes if shape]
    if name in ("aten::mm", "aten::bmm", "aten::addmm", "aten::addmm_", "aten::baddbmm", "aten::baddbmm_"):
        left, right = sizes[:2] if name in ("aten::mm", "aten::bmm") else sizes[1:3]  # a third may be the result
        return 2.0 * math.prod(left) * right[-1]
    if "scaled_dot_product" in name and len(sizes) >= 3:
        backward = "backward" in name  # which has twice the products, and recomputes the weights
        query, key = sizes[1:3] if backward else sizes[:2]
        return (10.0 if backward else 4.0) * math.prod(query) * key[-2]
    return 0.0


def trained(dataset: str, objective: str, amp: bool, options: argparse.Namespace) -> tuple[Any, Any]:
    """Return a trainer and its loader, after the batches of the warm-up."""
    given = {
        "data_path": str(options.data_path),
        "objective": objective,
        "enable_amp": amp,
        "MAX_ITEM_LIST_LENGTH": options.length,
        "batch_sequences": options.batch,
        "loss_type": "CE",
        "seen_bias": False,
        "state": "error",
        "show_progress": False,
        "use_gpu": False,
    }
    config = Config("BERT4Rec", dataset, config_dict=given)
    init_seed(config["seed"], config["reproducibility"])
    train, *_ = data_preparation(config, create_dataset(config))
    trainer = get_trainer(config["MODEL_TYPE"], "BERT4Rec")(config, get_model("BERT4Rec")(config, train._dataset))
    trainer._train_epoch(first(train, options.warm_up), 0)
    return trainer, train


def first(batches: Any, count: int) -> Any:
    """Return a loader that ends after so many batches."""
    return WatchedLoader(batches, lambda done: done < count)


def operators(prof: Any, speed: dict[str, float], number_format: str) -> pd.DataFrame:
    """Return a row an operator: seconds, calls, GFLOP, GB and the floor."""
    rows: dict[str, dict[str, float]] = {}
    for event in prof.key_averages(group_by_input_shape=True):
        seconds = event.self_cpu_time_total / 1e6
        if not seconds:
            continue
        flops = products(event.key, event.input_shapes) * event.count / 1e9
        size = 2 if number_format == "bfloat16" and flops else 4
        moved = sum(math.prod(shape) for shape in event.input_shapes if shape) * size * event.count / 1e9
        row = rows.setdefault(event.key, {"seconds": 0.0, "calls": 0, "GFLOP": 0.0, "GB": 0.0, "floor": 0.0})
        of_bytes = min(seconds, moved / speed["copy"])  # caches are faster than copies
        floor = max(flops / speed[number_format], of_bytes)
        for key, value in zip(row, (seconds, event.count, flops, moved, floor), strict=True):
            row[key] += value
    return pd.DataFrame.from_dict(rows, orient="index").sort_values("seconds", ascending=False)


def cases(options: argparse.Namespace) -> Iterator[tuple[str, str, str]]:
    """Yield data set, objective and number format."""
    for dataset in options.dataset:
        for objective in options.objective:
            for number_format in options.format:
                yield dataset, objective, number_format


def table(case: tuple[str, str, str], options: argparse.Namespace, speed: dict[str, float]) -> list[dict[str, Any]]:
    """Return the rows of one case."""
    dataset, objective, number_format = case
    trainer, batches = trained(dataset, objective, FORMATS[number_format], options)
    began = time.perf_counter()
    trainer._train_epoch(first(batches, options.batches), 1)
    plain = time.perf_counter() - began
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
        trainer._train_epoch(first(batches, options.batches), 2)
    found = operators(prof, speed, number_format)
    whole = found["seconds"].sum()
    rest = found.iloc[SHOWN:].sum().rename(f"{len(found) - SHOWN} others")
    epoch = plain * len(batches) / options.batches
    rows = []
    for name, row in pd.concat(
        [found.iloc[:SHOWN], rest.to_frame().T, found.sum().rename("all").to_frame().T]
    ).iterrows():
        rows.append(
            {
                "case": f"{dataset}, {objective}, {number_format}",
                "operator": str(name).removeprefix("aten::"),
                "share": f"{row['seconds'] / whole:.1%}",
                "seconds an epoch": f"{epoch * row['seconds'] / whole:.2f}",
                "calls a batch": f"{row['calls'] / options.batches:.0f}",
                "GFLOP/s": f"{row['GFLOP'] / row['seconds']:.0f}" if row["GFLOP"] else "",
                "GB/s": f"{row['GB'] / row['seconds']:.1f}",
                "to its floor": f"{row['seconds'] / row['floor']:.1f}" if row["floor"] else "",
            }
        )
    print(f"{rows[-1]['case']}: {epoch:.2f} s an epoch", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", nargs="+", default=["ml-1m", "beauty"])
    parser.add_argument("--data_path", type=Path, required=True, help="folder that holds DATASET/DATASET.inter")
    parser.add_argument("--objective", nargs="+", choices=OBJECTIVES, default=list(OBJECTIVES))
    parser.add_argument("--format", nargs="+", choices=FORMATS, default=list(FORMATS))
    parser.add_argument("--length", type=int, default=100, help="N")
    parser.add_argument("--batch", type=int, default=128, help="sequences in a batch")
    parser.add_argument("--batches", type=int, default=40, help="that are profiled")
    parser.add_argument("--warm_up", type=int, default=10, help="batches before")
    parser.add_argument("--work", type=Path, default=Path("bench-work"))
    options = parser.parse_args()
    options.data_path = options.data_path.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    os.chdir(options.work)  # RecBole writes its logs where it runs
    sys.argv = sys.argv[:1]  # RecBole reads the command line
    suppress_dependency_warnings()
    speed = speeds()
    rows: list[dict[str, Any]] = []
    for case in cases(options):
        rows += table(case, options, speed)
    note = (
        f"BERT4Rec, N {options.length}, batch {options.batch}, H 64, 2 layers, softmax over all items, no seen_bias, "
        f"else the defaults; {options.batches} batches after {options.warm_up}. One "
        f"large product: {speed['float32']:.0f} GFLOP/s in float32, {speed['bfloat16']:.0f} in "
        f"bfloat16; a large copy: {speed['copy']:.1f} GB/s. Shares are of the operators' own time; an operator's floor "
        "is at least what its products, or the bytes that it reads, take at these speeds."
    )
    write_tables("profile_epoch", machine(environment()), rows, note)


if __name__ == "__main__":
    main()
