"""What a billion interactions with ten million items would take on 64 workers, from what is measured on this machine.

Speeds are those of one thread: of the softmax over all items that a worker holds, and of the encoder, each forward and
backward. Bytes are those of ``sharded_table.py``, which counts them. The network is an assumption: ``--gigabits``.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import torch
from records import best_of, machine, write_tables
from sharded_table import sent_bytes

from recbole_bert4rec.environment import environment
from recbole_bert4rec.nn.cross_entropy import Workspace, cross_entropy
from recbole_bert4rec.nn.encoder import BERT4RecEncoder, EncoderOptions

_LENGTH, _MASKED = 50, 10
"""Items of a history, and those of them that are masked."""


def seconds_of_softmax(n_items: int, hidden: int, n_rows: int) -> float:
    """Return the seconds of a label, for items that one worker holds."""
    vectors, table = (torch.randn(rows, hidden, requires_grad=True) for rows in (n_rows, n_items))
    bias, workspace = torch.zeros(n_items, requires_grad=True), Workspace()
    labels, weights = torch.randint(1, n_items, (n_rows,)), torch.full((n_rows,), 1 / n_rows)

    def step() -> None:
        cross_entropy(vectors, table, bias, labels, weights, None, workspace).backward()

    return best_of(step, 3) / n_rows


def seconds_of_encoder(hidden: int, n_rows: int) -> float:
    """Return the seconds of a history, without the softmax."""
    sizes: dict[str, Any] = {"hidden_size": hidden, "inner_size": 4 * hidden, "n_heads": max(1, hidden // 32)}
    encoder = BERT4RecEncoder(EncoderOptions(1000, _LENGTH, **sizes))
    items = torch.randint(1, 1000, (n_rows, _LENGTH))
    rows = torch.arange(n_rows).repeat_interleave(_MASKED)
    columns = torch.arange(_MASKED).repeat(n_rows)

    def step() -> None:
        encoder.output(encoder(items, (rows, columns))).sum().backward()

    return best_of(step, 3) / n_rows


def rows_of(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return what each loss takes."""
    workers, hidden, batch = options.workers, options.hidden_size, options.batch
    held = options.items // workers
    dense = sum(one.numel() for one in BERT4RecEncoder(EncoderOptions(10, _LENGTH, hidden_size=hidden)).parameters())
    encoder = seconds_of_encoder(hidden, 64) * batch
    labels, seen = batch * _MASKED, batch * (_LENGTH - _MASKED)
    batches = options.interactions / _LENGTH / batch / workers
    of_label = partial(seconds_of_softmax, hidden=hidden, n_rows=256)
    cases = {
        "softmax over all": (of_label(held) * labels * workers, seen, labels * workers, 4),
        f"sampled, {options.negatives:,}": (
            of_label(options.negatives) * labels,
            seen + labels + options.negatives,
            0,
            3,
        ),
    }
    found = []
    for loss, (seconds, ids, rows, tables) in cases.items():
        sent = sent_bytes(workers, rows, ids, hidden, dense) / workers
        network = sent * 8 / (options.gigabits * 1e9)
        found.append(
            {
                "loss": loss,
                "table, MB a worker": f"{held * hidden * 4 * tables / 1e6:,.0f}",
                "sent, MB a batch and worker": f"{sent / 1e6:.1f}",
                "seconds a batch: encoder": f"{encoder:.2f}",
                "softmax": f"{seconds:.2f}",
                "network": f"{network:.2f}",
                "hours an epoch": f"{batches * (encoder + seconds + network) / 3600:.1f}",
            }
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interactions", type=int, default=1_000_000_000)
    parser.add_argument("--items", type=int, default=10_000_000)
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--hidden_size", type=int, default=128)
    parser.add_argument("--batch", type=int, default=256, help="histories of a worker (default: %(default)s)")
    parser.add_argument("--negatives", type=int, default=4096)
    parser.add_argument("--gigabits", type=float, default=10.0, help="of a worker's network (default: %(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    note = (
        f"{options.interactions:,} interactions in histories of {_LENGTH}, of which {_MASKED} are masked; "
        f"{options.items:,} items by {options.hidden_size}; {options.workers} workers with a thread and "
        f"{options.gigabits:g} Gbit/s each; {options.batch} histories a worker and batch; float32, adamw. Encoder, "
        "softmax and network come one after the other."
    )
    write_tables("scaling_plan", machine(environment()), rows_of(options), note)


if __name__ == "__main__":
    main()
