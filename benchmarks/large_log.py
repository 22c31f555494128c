"""Seconds and memory from a folder of Parquet files to the first training batch, at 10 and 100 million interactions.

The log is synthetic: at 100 million interactions 1.2 million users and 100 thousand items, all with ids of 36 signs, in
no order. Each size is read twice, in processes of their own: for the first time, which sorts it, and again.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from records import ROOT, write_tables

PROGRAM = """
import json, sys, time
begin = time.perf_counter()
log, least = sys.argv[1], int(sys.argv[2])
sys.argv = sys.argv[:1]
import recbole_bert4rec
import recbole_bert4rec.logs.convert as conversions
from recbole.data import create_dataset, data_preparation
from recbole_bert4rec.system.environment import environment
from recbole_bert4rec.training.inputs import configure
from recbole_bert4rec.training.request import RunRequest
imported = time.perf_counter()
conversions.LARGE = least
def peak():
    return next(int(line.split()[1]) / 2**10 for line in open("/proc/self/status") if line.startswith("VmHWM"))
config = configure(RunRequest("BERT4Rec", log, options={"MAX_ITEM_LIST_LENGTH": 200, "state": "error",
    "use_gpu": False, "show_progress": False}))
converted, sorting = time.perf_counter(), peak()
batch = next(iter(data_preparation(config, create_dataset(config))[0]))
ready = time.perf_counter()
print(json.dumps({"seconds": ready - imported, "conversion": converted - imported, "while sorting": sorting,
    "memory": peak(), **environment()}))
"""
_AT_ONCE = 5_000_000


def write_log(folder: Path, interactions: int, users: int, items: int, seed: int = 0) -> None:
    """A shuffled log: users' lengths log-normal, items by a power law, times over two years."""
    draw = np.random.default_rng(seed)
    ids = [pa.array([str(uuid.UUID(bytes=draw.bytes(16))) for _ in range(count)]) for count in (users, items)]
    share = draw.lognormal(0, 1, users).cumsum()
    popularity = (1 / np.arange(1, items + 1) ** 0.8).cumsum()
    folder.mkdir(parents=True)
    for number, begin in enumerate(range(0, interactions, _AT_ONCE)):
        rows = min(_AT_ONCE, interactions - begin)
        chosen = [np.searchsorted(sums / sums[-1], draw.random(rows), "right") for sums in (share, popularity)]
        columns = [one.take(pa.array(places, pa.int64())) for one, places in zip(ids, chosen, strict=True)]
        times = pa.array(1_600_000_000 + draw.integers(0, 63_072_000, rows), pa.timestamp("s"))
        table = pa.table([*columns, times], names=["user_id", "item_id", "timestamp"])
        parquet.write_table(table, folder / f"part-{number:03}.parquet", row_group_size=1 << 20)


def measure(log: Path, least: int) -> dict[str, Any]:
    """Return what a process says that reads the log, as a large one if it has more than ``least`` rows."""
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, f"{log}/", str(least)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interactions", type=int, nargs="+", default=[10_000_000, 100_000_000])
    parser.add_argument("--in_memory", type=int, nargs="*", default=[10_000_000], help="sizes that are read whole, too")
    parser.add_argument(
        "--work", type=Path, default=Path("bench-work"), help="folder for the logs, which go at the end"
    )
    options = parser.parse_args()
    rows, last = [], {}
    for size in options.interactions:
        share = size / 100_000_000
        log = options.work.resolve() / f"large-{size}" / "log"
        if not log.is_dir():
            write_log(log, size, max(100, int(1_200_000 * share)), max(1000, int(100_000 * share**0.5)))
        megabytes = sum(file.stat().st_size for file in log.iterdir()) / 2**20
        ways = [("sorted on the disk", 0), ("read again", 0)]
        for way, least in [*ways, *[("in memory", 10**12)] * (size in options.in_memory)]:
            last = measure(log, least)
            rows.append(
                {
                    "interactions": f"{size:,}",
                    "files MB": f"{megabytes:,.0f}",
                    "log": way,
                    "seconds": f"{last['seconds']:.0f}",
                    "of which conversion": f"{last['conversion']:.0f}",
                    "peak memory MB": f"{last['memory']:,.0f}",
                    "until converted": f"{last['while sorting']:,.0f}",
                }
            )
            print(rows[-1], flush=True)
        shutil.rmtree(log.parent)
    machine = f"{last['machine']['cores']} cores of {last['machine']['processor']}"
    note = (
        "From the files to the first training batch, N 200; the seconds of `import` are not counted, its memory is. "
        "Memory is the largest resident set (VmHWM), in which mapped pages that were touched count."
    )
    write_tables("large_log", machine, rows, note)


if __name__ == "__main__":
    main()
