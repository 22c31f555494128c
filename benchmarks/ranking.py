"""Full ranking of 100 thousand users among a million items: seconds over those of the bare matrix products; memory."""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from records import machine, write_tables

from recbole_bert4rec.core import topk
from recbole_bert4rec.core.topk import best_items
from recbole_bert4rec.system.environment import environment, peak_memory_mb


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--hidden_size", type=int, default=64)
    parser.add_argument("--batch", type=int, default=256, help="users at once, as eval_batch_size")
    parser.add_argument("--repeats", type=int, default=3, help="of all but the largest number of users")
    options = parser.parse_args()
    torch.manual_seed(0)
    catalogue, bias = torch.randn(options.items, options.hidden_size), torch.randn(options.items)
    width = max(64, topk._SCORES_AT_ONCE["cpu"] // options.batch)
    buffer = torch.empty(options.batch, width)

    def multiply(batch: torch.Tensor) -> None:
        for block in catalogue.split(width):
            torch.mm(batch, block.T, out=buffer[: len(batch)] if len(block) == width else None)

    rows = []
    for users in options.users:
        vectors = torch.randn(users, options.hidden_size)
        runs = []
        for _ in range(1 if users == max(options.users) else options.repeats):
            took = [0.0, 0.0]
            for batch in vectors.split(options.batch):  # in turn, so that all see the same machine
                begin = time.perf_counter()
                best_items(batch, catalogue, bias, 10)
                took[0] += time.perf_counter() - begin
                begin = time.perf_counter()
                multiply(batch)
                took[1] += time.perf_counter() - begin
            runs.append(took)
        ranked, bare = map(statistics.median, zip(*runs, strict=True))
        rows.append(
            {
                "users": f"{users:,}",
                "items": f"{options.items:,}",
                "top 10, seconds": f"{ranked:.1f}",
                "bare products, seconds": f"{bare:.1f}",
                "ratio": f"{ranked / bare:.2f}",
                "peak memory MB": round(peak_memory_mb()),
            }
        )
        print(rows[-1], flush=True)
    note = "Bare products: the same blocks of `vectors @ catalogue.T` into one buffer, in turn in the same run."
    write_tables("ranking", machine(environment()), rows, note)


if __name__ == "__main__":
    main()
