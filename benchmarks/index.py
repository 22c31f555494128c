"""An index against exact lists: recall, items that are searched, and time of a history, alone and in batches.

A row is a kind of catalogue and a size; ``--checkpoint`` and ``--input`` add that of a trained model and its users.
Both ways rank the same histories in turn. Rows that are there are not made again: another ``--work`` starts anew.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from catalogues import KINDS, MADE, Made, once
from records import machine, write_tables
from torch import Tensor

from recbole_bert4rec import Recommender
from recbole_bert4rec.core.ranker import Catalogue
from recbole_bert4rec.logs.interactions import InteractionFile, read_part
from recbole_bert4rec.recommend.histories import Histories
from recbole_bert4rec.recommend.index import IndexedCatalogue
from recbole_bert4rec.recommend.load import load
from recbole_bert4rec.system.environment import environment

BATCH = 256


def seconds(ask: Callable[[Tensor], object], parts: list[Tensor], limit: float) -> list[float]:
    """Return the time of each part but the first, as long as the limit allows."""
    took = []
    begin = time.perf_counter()
    for part in parts:
        start = time.perf_counter()
        ask(part)
        took.append(time.perf_counter() - start)
        if time.perf_counter() > begin + limit:
            break
    return took[1:] or took


@torch.no_grad()
def measure(model: Recommender, histories: Histories, name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Build an index, and compare it with exact lists."""
    begin = time.perf_counter()
    index = model.build_index(options.recall, options.k, histories)
    built = time.perf_counter() - begin
    sample = histories.drawn(4 * BATCH)
    vectors = torch.from_numpy(model.user_vectors(sample).vectors)
    exact, indexed = model.ranker.catalogue(), index.over(model.ranker.catalogue())
    row: dict[str, Any] = {
        "catalogue": name,
        "items": f"{len(model.items):,}",
        "built in s": f"{built:.0f}",
        "lists": f"{index.choice.probes:,} of {len(index.lists.centres):,}",
        "items searched": f"{100 * index.choice.searched:.2f} %",
        f"recall@{options.k}": f"{index.choice.recall:.4f}",
    }
    for many, size in (("alone", 1), (f"in {BATCH}s", BATCH)):
        took: tuple[list[float], list[float]] = ([], [])
        parts = list(vectors.split(size))
        ways: list[Catalogue | IndexedCatalogue] = [exact, indexed]
        for _ in range(options.repeats):  # in turn, so that both see the same machine
            for mine, ranked in zip(took, ways, strict=True):
                mine += seconds(partial(ranked.best, k=options.k), parts[:200], options.limit)
        one, other = (1000 * statistics.median(mine) / size for mine in took)
        row |= {
            f"exact ms, {many}": f"{one:.2f}",
            f"index ms, {many}": f"{other:.2f}",
            f"ratio, {many}": f"{one / other:.1f}",
        }
    return row


def trained(options: argparse.Namespace) -> tuple[Recommender, Histories]:
    """Load a checkpoint and the users of a file."""
    model = load(options.checkpoint, "cpu")
    source = InteractionFile(options.input, model.fields)
    part = source.divide(options.work / "input", source.n_parts)[0]
    return model, model.read(source.renamed(read_part(part), model.fields), warn=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=[50_000, 1_000_000])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--checkpoint", help="of a trained model, for a row of its own")
    parser.add_argument("--input", help="log of its users")
    parser.add_argument("--recall", type=float, default=0.99)
    parser.add_argument("--k", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=float, default=20, help="seconds of each repeat of each way")
    parser.add_argument("--work", type=Path, default=Path("bench-work/index"))
    options = parser.parse_args()
    rows = []

    def made(kind: str, n_items: int) -> dict[str, Any]:
        catalogue = Made(n_items, kind)
        model = catalogue.model()
        return measure(model, model.read(catalogue.histories(4000)), kind, options)

    for n_items in options.items:
        for kind in options.kinds:
            name = f"{kind}-{n_items}-{options.recall}-{options.k}.json"
            rows.append(once(options.work / name, partial(made, kind, n_items)))
    if options.checkpoint:
        name = f"trained-{options.recall}-{options.k}.json"
        rows.append(once(options.work / name, lambda: measure(*trained(options), "trained", options)))
    note = f"Milliseconds are medians for one history, without its encoding; ratio: exact over index. {MADE}"
    write_tables("index", machine(environment()), rows, note)


if __name__ == "__main__":
    main()
