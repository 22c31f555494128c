"""Time of one request on one core, from a history to a table of ten items: PyTorch, ONNX and an index.

Each row has a process of its own that may use one core alone. Rows that are there are not made again: another
``--work`` starts anew.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from catalogues import KINDS, MADE, Made, once
from records import machine, write_tables

from recbole_bert4rec import load
from recbole_bert4rec.recommend.export import export
from recbole_bert4rec.system.environment import environment, peak_memory_mb

ENGINES = ("PyTorch", "ONNX", "FAISS")
_K = 10


def measure(engine: str, n_items: int, options: argparse.Namespace) -> dict[str, Any]:
    """Ask again and again for one history; the first requests are left out."""
    catalogue = Made(n_items, options.kind)
    model: Any = catalogue.model()
    histories, found = catalogue.histories(options.requests + options.warm_up), ""
    if engine == "ONNX":
        folder = options.work / f"exported-{options.kind}-{n_items}"
        if not folder.exists():
            export(model, folder)
        model = load(folder)
    elif engine == "FAISS":
        choice = model.build_index(options.recall, _K, catalogue.histories(4000)).choice
        found = f"{choice.recall:.4f}, {100 * choice.searched:.1f} % searched"
    took, begin = [], time.perf_counter()
    for history in histories:
        start = time.perf_counter()
        model.recommend([history], k=_K)
        took.append(1000 * (time.perf_counter() - start))
        if time.perf_counter() > begin + options.limit:
            break
    took = took[options.warm_up :] or took
    return {
        "items": f"{n_items:,}",
        "engine": engine,
        "requests": f"{len(took):,}",
        "p50 ms": f"{np.percentile(took, 50):.2f}",
        "p99 ms": f"{np.percentile(took, 99):.2f}",
        f"recall@{_K}": found,
        "peak memory MB": f"{peak_memory_mb():.0f}",
    }


def in_a_process(engine: str, n_items: int, arguments: list[str]) -> dict[str, Any]:
    """Return the row of a process on one core."""
    command = [sys.executable, __file__, *arguments, "--one", engine, str(n_items)]
    core = str(min(os.sched_getaffinity(0)))
    done = subprocess.run(["taskset", "-c", core, *command], stdout=subprocess.PIPE, text=True, check=True)
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=[3_000, 50_000, 1_000_000])
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--kind", choices=KINDS, default="loose")
    parser.add_argument("--recall", type=float, default=0.99)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--warm_up", type=int, default=20, help="requests before those that count")
    parser.add_argument("--limit", type=float, default=60, help="seconds of all requests of a row")
    parser.add_argument("--work", type=Path, default=Path("bench-work/latency"))
    parser.add_argument("--one", nargs=2, metavar=("ENGINE", "ITEMS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one[0], int(options.one[1]), options)))
        return
    rows = []
    for n_items in options.items:
        for engine in options.engines:
            name = f"{engine}-{options.kind}-{n_items}-{options.recall}.json"
            rows.append(once(options.work / name, partial(in_a_process, engine, n_items, sys.argv[1:])))
    note = f"Histories of 1 to 50 items, N 200, H 64, two layers; catalogues of kind `{options.kind}`. {MADE}"
    write_tables("latency", machine(environment()), rows, note)


if __name__ == "__main__":
    main()
