"""The item table shared out over processes: losses, gradients and rankings are those of the whole table."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.multiprocessing.spawn import start_processes

from recbole_bert4rec.nn.cross_entropy import LogitOffset, cross_entropy
from recbole_bert4rec.nn.sharding import Shard, ShardedEmbedding

N, H, WORLD = 30, 8, 2


def test_every_id_has_one_row_and_rows_start_alike_in_any_number_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "new_group", lambda: None)
    monkeypatch.setattr("recbole_bert4rec.nn.sharding._BLOCK", 7)
    ids = torch.arange(N + 1)
    for world in (1, 2, 3):
        table = torch.zeros(N + 1, H)
        held = torch.zeros(N + 1, dtype=torch.int64)
        for rank in range(world):
            shard = Shard(N, rank, world, seed=4)
            rows = shard.own(ids)
            assert torch.equal(shard.ids(rows[rows > 0]), ids[rows > 0])
            assert torch.equal(shard.part(ids[:-1]), torch.cat([ids[:1], shard.ids(torch.arange(1, shard.n_items))]))
            own = torch.empty(shard.n_items + 1, H)
            shard.draw_(own, 0.02)
            table[rows > 0] = own[rows[rows > 0]]
            held += rows > 0
            assert shard.n_items < shard.widest + 1
        assert held.tolist() == [0] + [1] * N
        if world == 1:
            whole = table
        assert torch.equal(table, whole)
    assert table[0].abs().sum() == 0
    assert 0 < table[1:].abs().max() <= 0.04


@given(st.integers(2, 6), st.integers(0, 400))
def test_every_process_has_an_item_where_there_are_enough(world: int, more: int) -> None:
    n_items = 2 * world * world + more
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dist, "new_group", lambda: None)
        counts = [Shard(n_items, rank, world).n_items - 1 for rank in range(world)]
    assert min(counts) > 0
    assert sum(counts) == n_items - 1


def whole_problem() -> dict[str, Tensor]:
    """Hidden states, table, bias, labels, weights and an offset of a softmax over all items."""
    generator = torch.Generator().manual_seed(0)
    n_rows = 11
    pairs = torch.randperm(n_rows * (N - 1), generator=generator)[:20].sort().values
    return {
        "hidden": torch.randn(n_rows, H, generator=generator),
        "table": F.pad(torch.randn(N, H, generator=generator), [0, 0, 1, 0]),
        "bias": F.pad(torch.randn(N - 1, generator=generator), [1, 0]),
        "labels": torch.randint(1, N, (n_rows,), generator=generator),
        "weights": torch.rand(n_rows, generator=generator),
        "value": torch.tensor(0.7),
        "rows": pairs // (N - 1),
        "items": pairs % (N - 1) + 1,
    }


def in_processes(what: Any, world: int = WORLD) -> None:
    """Run ``what(rank)`` in processes that are connected."""
    with tempfile.TemporaryDirectory() as folder:
        start_processes(_connected, args=(world, str(Path(folder, "store")), what), nprocs=world)


def _connected(rank: int, world: int, store: str, what: Any) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=world)
    try:
        what(rank)
    finally:
        dist.destroy_process_group()


def check_the_softmax(rank: int) -> None:
    """Compare loss and gradients of a softmax over all items, whose rows come from all processes."""
    one = whole_problem()
    shard = Shard(N, rank, WORLD)
    leaves = {name: one[name].clone().requires_grad_() for name in ("hidden", "table", "bias", "value")}
    offset = LogitOffset(leaves["value"], one["rows"], one["items"])
    whole = cross_entropy(leaves["hidden"], leaves["table"], leaves["bias"], one["labels"], one["weights"], offset)
    whole.backward()

    rows = slice(0, 4) if rank == 0 else slice(4, 11)
    hidden = one["hidden"][rows].clone().requires_grad_()
    embedding = ShardedEmbedding(shard, H, sparse=True)
    with torch.no_grad():
        embedding.weight[1:-1] = one["table"][shard.first : shard.first + shard.n_items - 1]
        embedding.weight[0] = 0
    bias = shard.part(one["bias"]).requires_grad_()
    value = one["value"].clone().requires_grad_()
    mine = (one["rows"] >= rows.start) & (one["rows"] < rows.stop)
    assert shard.rows_before(len(hidden)) == rows.start
    pair_rows, pair_items = shard.gather(one["rows"][mine]), shard.own(shard.gather(one["items"][mine]))
    here = pair_items > 0
    loss = cross_entropy(
        shard.gather(hidden),
        embedding.weight,
        bias,
        shard.own(shard.gather(one["labels"][rows])),
        shard.gather(one["weights"][rows]) * WORLD,
        LogitOffset(value, pair_rows[here], pair_items[here]),
        shard=shard,
    )
    loss.backward()
    assert torch.allclose(shard.stacked(loss).mean(), whole, rtol=1e-5)
    n = WORLD  # the gradients are those of the loss times the processes
    assert torch.allclose(hidden.grad, leaves["hidden"].grad[rows] * n, atol=1e-5)
    assert torch.allclose(embedding.weight.grad[:-1], shard.part(leaves["table"].grad[:-1]) * n, atol=1e-5)
    assert torch.allclose(bias.grad, shard.part(leaves["bias"].grad) * n, atol=1e-5)
    assert torch.allclose(shard.stacked(value.grad).sum(), leaves["value"].grad * n, atol=1e-5)


def test_the_softmax_over_shared_items_is_the_whole_one_gradients_too() -> None:
    in_processes(check_the_softmax)


def check_lookups(rank: int) -> None:
    """Compare vectors and gradients of ids that lie here and there, padding and [MASK] among them."""
    shard = Shard(N, rank, WORLD, seed=1)
    whole = torch.nn.Embedding(N + 1, H, padding_idx=0)
    Shard.draw_(alone := Shard(N, seed=1), whole.weight, 1.0)
    assert alone.world == 1
    embedding = ShardedEmbedding(shard, H, sparse=bool(rank))
    shard.draw_(embedding.weight, 1.0)
    for ids in (torch.tensor([[0, 1, N], [N - 1, 1, 7 + rank]]), torch.zeros(2, 2, dtype=torch.int64)):
        found = embedding(ids)
        assert torch.equal(found, whole(ids))
        weights = torch.arange(found.numel()).view_as(found) * (1.0 + rank)
        embedding.weight.grad = whole.weight.grad = None
        (found * weights).sum().backward()
        for number in range(WORLD):
            others = ids.clone()
            if ids.any():
                others[1, 2] = 7 + number
            (whole(others) * torch.arange(found.numel()).view_as(found) * (1.0 + number)).sum().backward()
        gradient = embedding.weight.grad.to_dense()
        own = torch.cat([torch.zeros(1, dtype=torch.int64), torch.arange(shard.first, N + 1)])[: shard.n_items + 1]
        held = shard.own(own)
        assert torch.allclose(gradient[held], whole.weight.grad[own] * (held > 0).unsqueeze(1), atol=1e-5)


def test_looked_up_vectors_are_those_of_the_whole_table_gradients_too() -> None:
    in_processes(check_lookups)


def test_a_shard_of_all_items_is_an_embedding() -> None:
    shard = Shard(N)
    embedding = ShardedEmbedding(shard, H, sparse=False)
    shard.draw_(embedding.weight, 1.0)
    plain = torch.nn.Embedding.from_pretrained(embedding.weight.detach().clone(), freeze=False, padding_idx=0)
    ids = torch.tensor([[3, 0, N]])
    assert torch.equal(embedding(ids), plain(ids))
    for one in (embedding, plain):
        one(ids).square().sum().backward()
    assert torch.equal(embedding.weight.grad, plain.weight.grad)
    assert copy.deepcopy(embedding).shard.n_items == N
