"""What the memory costs: top 10 of a trained model's users and of one history, with it and without, and the counting.

One history is also asked among made items, with a memory of their histories. Both ways are asked in turn.
"""

from __future__ import annotations

import argparse
import statistics
import time
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from catalogues import MADE, Made
from index import trained
from records import machine, write_tables

from recbole_bert4rec import Recommender
from recbole_bert4rec.core.memory import Memory, count_transitions
from recbole_bert4rec.recommend.histories import Histories
from recbole_bert4rec.system.environment import environment, peak_memory_mb
from recbole_bert4rec.system.errors import UserError

_K = 10
_ITEMS_OF_A_SEQUENCE = 20


def compare(name: str, model: Recommender, questions: list[Histories]) -> dict[str, Any]:
    """Return a row: the median time of a question with the model's memory and without, the first left out."""
    memory = model.ranker.memory
    took: dict[bool, list[float]] = {True: [], False: []}
    for question in questions:
        for remembers, seconds in took.items():
            model.ranker.memory = memory if remembers else None
            begin = time.perf_counter()
            model.recommend(question, k=_K)
            seconds.append(time.perf_counter() - begin)
    model.ranker.memory = memory
    having, lacking = (1000 * statistics.median(seconds[1:]) for seconds in took.values())
    row = {"top 10 of": name, "with, ms": f"{having:.2f}", "without, ms": f"{lacking:.2f}"}
    print(row := {**row, "ratio": f"{having / lacking:.2f}"}, flush=True)
    return row


def one_by_one(histories: Histories, many: int) -> list[Histories]:
    """Return some users' histories, one each."""
    return [histories.take(np.array([row])) for row in range(many)]


def made(n_items: int, requests: int) -> dict[str, Any]:
    """Compare one history among made items; the memory is that of 20,000 other histories."""
    catalogue = Made(n_items, "loose")
    model = catalogue.model()
    training = [[int(item) for item in history] for history in catalogue.histories(20_000)]
    offsets = np.cumsum([0, *map(len, training)])
    transitions = count_transitions(np.array([*chain(*training)], np.int32), offsets, n_items + 1)
    model.ranker.memory = Memory(transitions, 1.0)
    histories = model.read(catalogue.histories(requests))
    return compare(f"one history, {n_items:,} made items", model, one_by_one(histories, requests))


def counting(interactions: int, n_items: int) -> str:
    """Count a made log, sequences of 20 items by a power law, and say what it took."""
    draw, before = np.random.default_rng(0), peak_memory_mb()
    popularity = (1 / np.arange(1, n_items) ** 0.8).cumsum()
    chosen = np.searchsorted(popularity / popularity[-1], draw.random(interactions), "right")
    items = draw.permutation(np.arange(1, n_items, dtype=np.int32))[chosen]
    del chosen
    offsets, begin = np.arange(0, interactions + 1, _ITEMS_OF_A_SEQUENCE), time.perf_counter()
    entries = count_transitions(items, offsets, n_items).nnz
    seconds = time.perf_counter() - begin
    return (
        f"Counting {interactions:,} interactions of {n_items - 1:,} items by a power law took {seconds:.0f} s and gave "
        f"{entries:,} entries; the process held at most {peak_memory_mb():.0f} MB ({before:.0f} before)."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", required=True, help="of a trained model with a memory")
    parser.add_argument("--input", required=True, help="log of its users")
    parser.add_argument("--items", type=int, default=50_000, help="made items")
    parser.add_argument("--interactions", type=int, default=20_000_000, help="that are counted, of 1,000,000 items")
    parser.add_argument("--requests", type=int, default=300, help="of one history")
    parser.add_argument("--repeats", type=int, default=9, help="of all users")
    parser.add_argument("--work", type=Path, default=Path("bench-work/memory"))
    options = parser.parse_args()
    counted = counting(options.interactions, 1_000_001)
    model, histories = trained(options)
    if model.ranker.memory is None:
        raise UserError(f"{options.checkpoint} has no memory")
    rows = [
        compare(f"{len(histories.users):,} users, {len(model.items):,} items", model, [histories] * options.repeats),
        compare("one of these users", model, one_by_one(histories, options.requests)),
        made(options.items, options.requests),
    ]
    note = f"Medians; both ways in turn. {counted} {MADE}"
    write_tables("memory", machine(environment()), rows, note)


if __name__ == "__main__":
    main()
