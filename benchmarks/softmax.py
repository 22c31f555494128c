"""Milliseconds of the softmax cross-entropy over all items, with its gradients: ours beside torch's plain one.

Plain: ``F.cross_entropy(F.linear(hidden, table, bias), labels)`` with its M x N logits. All run in turn, many times.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from records import machine, write_tables
from torch import Tensor

from recbole_bert4rec.core.softmax import cross_entropy
from recbole_bert4rec.system.environment import environment

SHAPES = [(2_000, 3_416), (2_000, 12_101), (2_000, 54_542), (640, 1_000_000)]
MOST_PLAIN = 1 << 28
"""Logits that the plain one may hold: 1 GB, and as much again for their gradients."""


class Case:
    """Hidden states, table, bias and labels of one shape."""

    def __init__(self, rows: int, items: int, size: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.hidden = torch.randn(rows, size, generator=generator)
        self.table = torch.randn(items, size, generator=generator) * 0.1
        self.bias = torch.zeros(items)
        self.labels = torch.randint(1, items, (rows,), generator=generator)
        self.weights = torch.full((rows,), 1 / rows)
        for one in (self.hidden, self.table, self.bias):
            one.requires_grad_()

    def plain(self) -> Tensor:
        """Return the loss from all logits at once; padding, which is item 0, takes part."""
        return F.cross_entropy(F.linear(self.hidden, self.table, self.bias), self.labels)

    def ours(self) -> Tensor:
        """Return our loss."""
        return cross_entropy(self.hidden, self.table, self.bias, self.labels, self.weights)

    def seconds(self, loss: Callable[[], Tensor]) -> float:
        """Time a loss with its gradients."""
        for one in (self.hidden, self.table, self.bias):
            one.grad = None
        began = time.perf_counter()
        loss().backward()
        return time.perf_counter() - began


def row_of(case: Case, repeats: int) -> dict[str, Any]:
    """Time all ways in turn."""
    rows, items = len(case.hidden), len(case.bias)
    few = rows * items <= MOST_PLAIN
    ways: dict[str, tuple[Callable[[], Tensor], bool]] = {
        **({"plain": (case.plain, False)} if few else {}),
        "ours": (case.ours, False),
        "ours, bfloat16": (case.ours, True),
    }
    took: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats + 1):  # the first is warm-up
        for name, (loss, amp) in ways.items():
            with torch.autocast("cpu", torch.bfloat16, enabled=amp):
                took[name].append(case.seconds(loss))
    median = {name: 1000 * statistics.median(seconds[1:]) for name, seconds in took.items()}
    shown = {name: f"{median[name]:.0f}" for name in median}
    if few:
        shown |= {f"plain to {name}": f"{median['plain'] / median[name]:.2f}" for name in list(median)[1:]}
    return {"masked items": f"{rows:,}", "items": f"{items:,}", **shown}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden_size", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    rows = []
    for n_rows, n_items in SHAPES:
        rows.append(row_of(Case(n_rows, n_items, options.hidden_size), options.repeats))
        print(rows[-1], flush=True)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    rows = [{column: row.get(column, "") for column in columns} for row in rows]
    note = f"H {options.hidden_size}; medians in milliseconds, with all gradients."
    write_tables("softmax", machine(environment()), rows, note)


if __name__ == "__main__":
    main()
