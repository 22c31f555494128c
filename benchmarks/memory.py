"""What the memory costs: top 10 of all users of a log and of one of them, with it and without; and the counting.

Takes checkpoints of BERT4RecPlus that were trained with ``--keep_histories=True``. Both ways are asked in turn.
"""

from __future__ import annotations

import argparse
import statistics
import time
from itertools import islice
from pathlib import Path

import numpy as np
from records import machine, write_tables

from recbole_bert4rec import Recommender, load
from recbole_bert4rec.core.memory import count_transitions
from recbole_bert4rec.recommend.histories import Histories
from recbole_bert4rec.system.environment import environment, peak_memory_mb


def compare(name: str, model: Recommender, questions: list[Histories]) -> dict[str, str]:
    """Return a row: the median time of a question with the model's memory and without, the first left out."""
    memory = model.ranker.memory
    took: dict[bool, list[float]] = {True: [], False: []}
    for histories in questions:
        for remembers, seconds in took.items():
            model.ranker.memory = memory if remembers else None
            begin = time.perf_counter()
            model.recommend(histories, k=10)
            seconds.append(time.perf_counter() - begin)
    model.ranker.memory = memory
    having, lacking = (1000 * statistics.median(seconds[1:]) for seconds in took.values())
    row = {"with, ms": f"{having:.1f}", "without, ms": f"{lacking:.1f}", "ratio": f"{having / lacking:.2f}"}
    print(row := {"top 10 of": name, **row}, flush=True)
    return row


def counting(interactions: int, n_items: int) -> str:
    """Count a made log, sequences of 20 items by a power law, and say what it took."""
    draw, before = np.random.default_rng(0), peak_memory_mb()
    popularity = (1 / np.arange(1, n_items) ** 0.8).cumsum()
    chosen = np.searchsorted(popularity / popularity[-1], draw.random(interactions), "right")
    items = draw.permutation(np.arange(1, n_items, dtype=np.int32))[chosen]
    del chosen
    begin = time.perf_counter()
    entries = count_transitions(items, np.arange(0, interactions + 1, 20), n_items, dense=False).nnz
    seconds = time.perf_counter() - begin
    return (
        f"Counting {interactions:,} interactions of {n_items - 1:,} items by a power law took {seconds:.0f} s and gave "
        f"{entries:,} entries; the process held at most {peak_memory_mb():.0f} MB ({before:.0f} before)."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, action="append", required=True)
    parser.add_argument("--repeats", type=int, default=7, help="of all users; one user is asked 100 times as often")
    options = parser.parse_args()
    rows, counted = [], counting(20_000_000, 1_000_001)
    for file in options.checkpoint:
        model = load(file)
        histories = model.stored
        assert histories is not None, file
        assert model.ranker.memory is not None, file
        of_user = zip(histories.users, np.split(histories.items, histories.offsets[1:-1]), strict=True)
        one_by_one = [
            Histories(np.array([user]), items, np.array([0, len(items)]))
            for user, items in islice(of_user, 100 * options.repeats)
        ]
        log = f"{len(histories.users):,} users, {model.ranker.n_items - 1:,} items"
        rows.append(compare(log, model, options.repeats * [histories]))
        rows.append(compare("one of these users", model, one_by_one))
    write_tables("memory", machine(environment()), rows, f"Medians; both ways in turn. {counted}")


if __name__ == "__main__":
    main()
