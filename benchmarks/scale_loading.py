"""Seconds and memory from an atomic file to the first training batch, at 2 and 20 million interactions.

The log is synthetic, of ML-20M's shape: 138 thousand users, 27 thousand items, about 145 interactions a user. Every
contestant runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from records import ROOT, write_inter, write_tables

PROGRAM = """
import json, sys, time
begin = time.perf_counter()
model, name, folder = sys.argv[1:]
sys.argv = sys.argv[:1]
import recbole_bert4rec
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole_bert4rec.system.environment import environment, peak_memory_mb
imported = time.perf_counter()
columns = {"inter": ["user_id", "item_id", "timestamp"]}
config = Config(model, name, config_dict={"data_path": folder, "load_col": columns, "MAX_ITEM_LIST_LENGTH": 200,
    "state": "error", "show_progress": False, "use_gpu": False})
dataset = create_dataset(config)
loaded = time.perf_counter()
batch = next(iter(data_preparation(config, dataset)[0]))
ready = time.perf_counter()
print(json.dumps({"seconds": ready - imported, "load": loaded - imported, "memory": peak_memory_mb(), **environment()}))
"""


def write_log(path: Path, interactions: int, users: int, items: int, seed: int = 0) -> None:
    """A shuffled log: users' lengths log-normal, items by a power law, times over two years."""
    draw = np.random.default_rng(seed)
    share = draw.lognormal(0, 1, users)
    user = draw.choice(users, interactions, p=share / share.sum())
    popularity = 1 / np.arange(1, items + 1) ** 0.8
    item = draw.choice(items, interactions, p=popularity / popularity.sum())
    times = draw.integers(0, 63_072_000, interactions)
    write_inter(path, user, item, times)


def measure(work: Path, model: str, interactions: int, repeats: int) -> dict[str, Any]:
    """Median seconds and memory of loading a log of so many interactions, made first if it is not there."""
    name = f"log-{interactions}"
    path = work / name / f"{name}.inter"
    if not path.is_file():
        share = interactions / 20_000_000
        write_log(path, interactions, max(100, int(138_493 * share)), max(1000, int(26_744 * share**0.5)))
    runs = []
    for _ in range(repeats):
        command = [sys.executable, "-W", "ignore", "-c", PROGRAM, model, name, str(work)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        runs.append(json.loads(done.stdout.strip().splitlines()[-1]))
        print(model, interactions, f"{runs[-1]['seconds']:.1f} s", flush=True)
        time.sleep(1)
    median: dict[str, Any] = sorted(runs, key=lambda run: float(run["seconds"]))[len(runs) // 2]
    return median | {"bytes": path.stat().st_size}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interactions", type=int, nargs="+", default=[2_000_000, 20_000_000])
    parser.add_argument("--stock", type=int, nargs="*", default=[200_000], help="sizes that RecBole's loader gets, too")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--work", type=Path, default=Path("bench-work"), help="folder for the logs")
    options = parser.parse_args()
    rows, last = [], {}
    for model, sizes in (("SASRec", options.stock), ("BERT4Rec", options.interactions)):
        for size in sizes:
            last = measure(options.work.resolve(), model, size, options.repeats)
            rows.append(
                {
                    "loader": "RecBole" if model == "SASRec" else "ours",
                    "interactions": f"{size:,}",
                    "file MB": round(last["bytes"] / 2**20),
                    "seconds": f"{last['seconds']:.1f}",
                    "of which loading": f"{last['load']:.1f}",
                    "peak memory MB": round(last["memory"]),
                }
            )
    machine = f"{last['machine']['cores']} cores of {last['machine']['processor']}"
    note = "From the file to the first training batch, N 200; the seconds of `import` are not counted, its memory is."
    write_tables("scale_loading", machine, rows, note)


if __name__ == "__main__":
    main()
