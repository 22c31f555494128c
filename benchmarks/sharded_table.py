"""A table of 2 million items by 128, whole and shared out over 2 and 4 processes: loss, gradients, memory, traffic.

Each contestant computes the loss of the same batch, a softmax over all items, and its gradients, with weights drawn by
the same generators. Processes have a thread each. The gradients of the table are compared row by row with those of one
process, those of the encoder's weights after the mean that DistributedDataParallel takes. The peak of memory is read
before they are compared. Seconds are medians of ``--times`` batches after the first. What is sent is counted by the
system, for all that goes through the machine's loopback, beside what ``sent_bytes`` expects.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.multiprocessing.spawn import start_processes

from recbole_bert4rec.nn.cross_entropy import Workspace, cross_entropy
from recbole_bert4rec.nn.encoder import BERT4RecEncoder, EncoderOptions
from recbole_bert4rec.nn.sharding import Shard

_LENGTH = 50


def batch(n_items: int, n_rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return sequences that end with [MASK], and the labels: (B, L), (B,)."""
    generator = torch.Generator().manual_seed(1)
    items = torch.randint(1, n_items, (n_rows, _LENGTH), generator=generator)
    labels = items[:, -1].clone()
    items[:, -1] = n_items
    return items, labels


def sent_bytes(world: int, n_rows: int, ids: int, hidden: int, dense: int = 0) -> float:
    """Return what all processes together send for a batch and its gradients.

    Args:
        world: P, their number.
        n_rows: M, labels of the batch.
        ids: U, different ids that a process looks up, the mean of all.
        hidden: H.
        dense: weights that every process has, whose gradients are averaged.

    Returns:
        Of lookups, the ids (8 U) and the vectors there and the gradients back (8 U H), from P processes to (P - 1) / P
        of the items. Of the softmax, rows and gradients (8 M H), labels (8 M), and logarithms of sums (4 M) by each of
        P processes, to P - 1 others. Of the mean of gradients, 8 W (P - 1).
    """
    lookups = (world - 1) * ids * (8 + 8 * hidden)
    softmax = (world - 1) * n_rows * (8 * hidden + 8 + 4 * world)
    return float(lookups + softmax + (world - 1) * 8 * dense)


def sent_here() -> int:
    """Return the bytes that were sent over the loopback of this machine since it began."""
    (line,) = (line for line in Path("/proc/net/dev").read_text().splitlines() if line.strip().startswith("lo:"))
    return int(line.split()[9])


def train(rank: int, world: int, store: str, n_items: int, hidden: int, n_rows: int, times: int, folder: str) -> None:
    """Compute losses and gradients as one of the processes; write what is found into ``folder``."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=world)
    shard = Shard(n_items, rank, world, seed=3)
    torch.manual_seed(0)
    sizes: dict[str, int] = {"hidden_size": hidden, "inner_size": 4 * hidden, "n_heads": 4}
    encoder = BERT4RecEncoder(EncoderOptions(shard.n_items, _LENGTH, shard=shard, **sizes)).eval()  # type: ignore[arg-type]
    encoder.item_embedding.sparse = True
    items, labels = (part[rank::world] for part in batch(n_items, n_rows))
    weights, workspace, took = torch.full((n_rows,), world / n_rows), Workspace(), []
    before = sent_here()
    for _ in range(times + 1):
        encoder.zero_grad()
        dist.barrier()
        began = time.perf_counter()
        loss = loss_of(encoder, shard, items, labels, weights, workspace)
        loss.backward()
        took.append(time.perf_counter() - began)
    dist.barrier()
    sent = (sent_here() - before) / (times + 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    found = {"loss": float(shard.stacked(loss.detach()).mean()), "peak": peak, "seconds": statistics.median(took[1:])}
    found |= {"sent": sent, "expected": sent_bytes(world, n_rows, len(torch.unique(items)), hidden)}
    torch.save({**found, **differences(encoder, shard, Path(folder))}, Path(folder, f"{world}.{rank}.pt"))
    dist.destroy_process_group()


def loss_of(
    encoder: BERT4RecEncoder, shard: Shard, items: Tensor, labels: Tensor, weights: Tensor, workspace: Workspace
) -> Tensor:
    """Return this process's part of the loss, as the model makes it."""
    at = (torch.arange(len(items)), torch.full((len(items),), _LENGTH - 1))
    vectors = shard.gather(encoder.output(encoder(items, at)))
    table, rows = encoder.item_embedding.weight, shard.own(shard.gather(labels))
    return cross_entropy(vectors, table, encoder.output_bias, rows, weights, None, workspace, shard)


def differences(encoder: BERT4RecEncoder, shard: Shard, folder: Path) -> dict[str, float]:
    """Return the largest differences from the gradients of one process, which come first and are written here."""
    gradients = {
        name: weight.grad / shard.world for name, weight in encoder.named_parameters() if weight.grad is not None
    }
    table, bias = gradients.pop("item_embedding.weight"), gradients.pop("output_bias")
    if shard.world == 1:
        np.save(folder / "table.npy", table.numpy())
        torch.save({"dense": gradients, "bias": bias}, folder / "whole.pt")
        return {}
    for gradient in gradients.values():
        dist.all_reduce(gradient)
    one, whole = torch.load(folder / "whole.pt"), np.load(folder / "table.npy", mmap_mode="r")
    of_blocks, largest = [], []
    for start in range(1, shard.n_items, 1 << 16):
        rows = slice(start, min(start + (1 << 16), shard.n_items))
        expected = torch.tensor(whole[shard.first - 1 + rows.start : shard.first - 1 + rows.stop])
        of_blocks.append(float((table[rows] - expected).abs().max()))
        largest.append(float(expected.abs().max()))
    dense = max(float((gradients[name] - one["dense"][name]).abs().max()) for name in gradients)
    of_bias = float((bias - shard.part(one["bias"])).abs().max())
    return {"table": max(of_blocks), "largest": max(largest), "dense": dense, "bias": of_bias}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=2_000_000)
    parser.add_argument("--hidden_size", type=int, default=128)
    parser.add_argument("--rows", type=int, default=64, help="labels of a batch (default: %(default)s)")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    options = parser.parse_args()
    from records import machine, write_tables  # which the processes would import, too

    from recbole_bert4rec.environment import environment

    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=".") as folder:
        for world in options.processes:
            sizes = (options.items, options.hidden_size, options.rows, options.times, folder)
            start_processes(train, (world, str(Path(folder, f"store{world}").resolve()), *sizes), nprocs=world)
            found = [torch.load(Path(folder, f"{world}.{rank}.pt")) for rank in range(world)]
            row: dict[str, Any] = {"processes": world, "loss": f"{found[0]['loss']:.6f}"}
            row["peak MB of a process"] = round(max(one["peak"] for one in found))
            for name in ("sent", "expected"):
                row[f"MB {name}"] = f"{statistics.mean(one[name] for one in found) / 1e6:.2f}"
            row["seconds a batch"] = f"{max(one['seconds'] for one in found):.2f}"
            for name in ("table", "dense", "bias"):
                row[f"{name}: largest difference"] = f"{max(one.get(name, 0.0) for one in found):.1e}"
            rows.append(row)
            print(row, flush=True)
    note = (
        f"{options.items:,} items by {options.hidden_size}; {options.rows} histories of {_LENGTH}, each with one "
        "label; float32. Differences are from the gradients of one process, of which those of the table are up to "
        f"{max(one.get('largest', 0.0) for one in found):.1e}."
    )
    write_tables("sharded_table", machine(environment()), rows, note)


if __name__ == "__main__":
    main()
