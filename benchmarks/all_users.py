"""Twenty items for each of a million users among 100 thousand items, from a file to a file: time and memory.

Each number of users has a process of its own, which does what ``recommend --input --output`` does. Before and after
it, the process measures on some users what encoding, ranking and the bare matrix products of ranking take. Rows that
are there are not made again: another ``--work`` starts anew.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from catalogues import Made, once
from records import machine, write_tables

from recbole_bert4rec import Recommender
from recbole_bert4rec.core import topk
from recbole_bert4rec.core.topk import best_items
from recbole_bert4rec.logs.interactions import InteractionFile
from recbole_bert4rec.recommend.base import BATCH_SIZE
from recbole_bert4rec.recommend.bulk import Question, answer_file
from recbole_bert4rec.system.environment import environment, peak_memory_mb
from recbole_bert4rec.system.files import atomic_write

_K, _LONGEST, _USERS_AT_ONCE = 20, 20, 10_000
_BLOCK = topk._SCORES_AT_ONCE["cpu"] // BATCH_SIZE


def write_users(catalogue: Made, n_users: int, folder: Path) -> None:
    """Write histories as a folder of Parquet files."""
    for begin in range(0, n_users, _USERS_AT_ONCE):
        file = folder / f"{begin // _USERS_AT_ONCE:05d}.parquet"
        histories = catalogue.histories(min(_USERS_AT_ONCE, n_users - begin), _LONGEST)
        if not file.is_file():
            frame = pd.DataFrame({"user_id": range(begin, begin + len(histories)), "item_id": histories})
            with atomic_write(file) as temporary:
                frame.explode("item_id").to_parquet(temporary)


@torch.no_grad()
def parts(model: Recommender, histories: list[list[str]]) -> list[float]:
    """Return the seconds a user of encoding, of ranking and of the bare products."""
    catalogue = model.ranker.catalogue()
    known, buffer = model.read(histories), torch.empty(BATCH_SIZE, _BLOCK)

    def bare(batch: torch.Tensor) -> None:
        for block in catalogue.vectors.split(_BLOCK):
            torch.mm(batch, block.T, out=buffer if len(block) == _BLOCK else None)

    begin = time.perf_counter()
    vectors = torch.from_numpy(model.user_vectors(known).vectors)
    found = [(time.perf_counter() - begin) / len(vectors)]
    ways: list[Callable[[torch.Tensor], object]]
    ways = [lambda batch: best_items(batch, catalogue.vectors, catalogue.bias, _K), bare]
    took: list[list[float]] = [[], []]
    for batch in vectors.split(BATCH_SIZE):  # in turn, so that both see the same machine
        for mine, way in zip(took, ways, strict=True):
            begin = time.perf_counter()
            way(batch)
            mine.append((time.perf_counter() - begin) / len(batch))
    return found + [statistics.median(mine[1:]) for mine in took]


def measure(n_users: int, options: argparse.Namespace) -> dict[str, Any]:
    """Answer a file of users."""
    model = Made(options.items, "loose").model()
    sample = Made(options.items, "loose").histories(16 * BATCH_SIZE, _LONGEST)
    before = parts(model, sample)
    source = InteractionFile(str(options.work / f"users-{n_users}"), model.fields)
    output = str(options.work / f"top-{n_users}.parquet")
    shutil.rmtree(f"{output}.parts", ignore_errors=True)  # of a call that was stopped
    begin = time.perf_counter()
    question = Question(source.path, {"k": _K})
    answer_file(source, output, {}, lambda parts: (question.ask(model, part) for part in parts), model.items)
    whole, memory = time.perf_counter() - begin, peak_memory_mb()
    after = parts(model, sample)
    encoding, ranking, bare = (n_users * (one + other) / 2 for one, other in zip(before, after, strict=True))
    return {
        "users": f"{n_users:,}",
        "items": f"{options.items:,}",
        "seconds": f"{whole:.0f}",
        "of which encoding": f"{encoding:.0f}",
        "of which top 20": f"{ranking:.0f}",
        "bare products": f"{bare:.0f}",
        "top 20 over bare": f"{ranking / bare:.2f}",
        "all over bare": f"{whole / bare:.2f}",
        "peak memory MB": f"{memory:.0f}",
    }


def in_a_process(n_users: int, arguments: list[str]) -> dict[str, Any]:
    """Return the row of a process of its own."""
    command = [sys.executable, __file__, *arguments, "--one", str(n_users)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--work", type=Path, default=Path("bench-work/all-users"))
    parser.add_argument("--one", type=int, metavar="USERS", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options)))
        return
    rows = []
    for n_users in options.users:
        write_users(Made(options.items, "loose"), n_users, options.work / f"users-{n_users}")
        row = options.work / f"{n_users}-{options.items}.json"
        rows.append(once(row, partial(in_a_process, n_users, sys.argv[1:])))
    note = (
        f"Histories of 1 to {_LONGEST} items in Parquet, answers in Parquet. Encoding, top 20 and the bare products of "
        f"scores are measured on {16 * BATCH_SIZE:,} users before and after, and scaled to all. Two layers, H 64."
    )
    write_tables("all_users", machine(environment()), rows, note)


if __name__ == "__main__":
    main()
