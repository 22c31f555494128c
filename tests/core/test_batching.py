"""Batches by length, and windows of long sequences."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from recbole_bert4rec.core.batching import (
    LengthGroupedBatches,
    covering_windows,
    epoch_generator,
    last_windows,
    random_windows,
    similar_lengths,
    sliding_windows,
)

lengths_strategy = st.lists(st.integers(1, 50), min_size=1, max_size=300)


@given(lengths_strategy, st.integers(1, 300), st.integers(2, 4), st.one_of(st.none(), st.integers(1, 40)))
def test_ranks_take_equally_many_steps_and_see_together_what_one_process_sees(
    lengths: list[int], items: int, world: int, sequences: int | None
) -> None:
    options = {"items": items, "seed": 3, "sequences": sequences}
    alone = [sorted(batch) for batch in LengthGroupedBatches(torch.tensor(lengths), **options)]
    shares = [
        list(LengthGroupedBatches(torch.tensor(lengths), rank=rank, world_size=world, **options))
        for rank in range(world)
    ]
    assert all(batch for share in shares for batch in share)
    together = [sorted(i for batch in step for i in batch) for step in zip(*shares, strict=True)]
    seen = sorted(i for step in together for i in step)
    assert set(seen) == set(range(len(lengths)))
    assert len(seen) == len(lengths) or len(lengths) < world
    # else a last batch of too few sequences is joined to the one before, or batches hold fewer than there are ranks
    assert len(together) != len(alone) or min(map(len, alone)) < world or together == alone


def test_order_depends_on_seed_and_epoch_alone() -> None:
    lengths = torch.arange(1, 200) % 50 + 1
    batches = LengthGroupedBatches(lengths, 1, seed=1, sequences=16)
    first, again = list(batches), list(batches)
    batches.epoch = 1
    assert first == again
    assert list(batches) != first
    assert list(LengthGroupedBatches(lengths, 1, seed=2, sequences=16)) != first


def test_batches_hold_sequences_of_similar_length() -> None:
    lengths = torch.randint(1, 200, (3000,), generator=epoch_generator(0, 0))
    assert LengthGroupedBatches(lengths, 1, seed=0, sequences=32).padding_share() < 0.05


@given(st.lists(st.integers(1, 300), max_size=300))
def test_groups_of_similar_lengths_hold_every_sequence_once_and_are_at_most_half_padding(lengths: list[int]) -> None:
    groups = [group.tolist() for group in similar_lengths(torch.tensor(lengths, dtype=torch.int64))]
    assert sorted(number for group in groups for number in group) == list(range(len(lengths)))
    for group in groups:
        inside = [lengths[number] for number in group]
        assert group == sorted(group)
        assert max(inside) < 2 * min(inside) or max(inside) <= 8


def test_over_the_epochs_random_windows_start_everywhere_equally_often() -> None:
    begin, length = torch.tensor([100]), torch.tensor([14])
    starts = torch.cat([random_windows(begin, length, 10, epoch_generator(0, e))[0] for e in range(5000)])
    counts = torch.bincount(starts - 100)
    assert counts.tolist() == torch.bincount(starts - 100, minlength=5).tolist()  # no start past 100 + 14 - 10
    assert (counts - 1000).abs().max() < 150


@given(st.integers(1, 60), st.integers(2, 50), st.integers(0, 100))
def test_windows_stay_inside_their_slice(length: int, width: int, epoch: int) -> None:
    begin, lengths = torch.tensor([7]), torch.tensor([length])
    for start, kept in (
        random_windows(begin, lengths, width, epoch_generator(1, epoch)),
        last_windows(begin, lengths, width),
    ):
        assert kept.item() == min(length, width)
        assert start.item() >= 7
        assert start.item() + kept.item() <= 7 + length
    assert start.item() + kept.item() == 7 + length  # the last window ends where the slice ends


@given(lengths_strategy, st.integers(1, 300), st.booleans(), st.integers(0, 3), st.sampled_from([None, 1, 7, 40]))
def test_batches_hold_every_sequence_once_and_no_more_than_they_may_and_are_equally_many_each_epoch(
    lengths: list[int], items: int, shuffle: bool, epoch: int, sequences: int | None
) -> None:
    batches = LengthGroupedBatches(torch.tensor(lengths), items, seed=3, shuffle=shuffle, sequences=sequences)
    count, padded = len(batches), sum(max(lengths[i] for i in batch) * len(batch) for batch in batches)
    assert abs(batches.padding_share() - (1 - sum(lengths) / padded)) < 1e-12
    batches.epoch = epoch
    drawn = list(batches)
    assert sorted(i for batch in drawn for i in batch) == list(range(len(lengths)))
    assert len(drawn) == len(batches) == count
    for batch in drawn:
        fits = len(batch) == 1 or max(lengths[i] for i in batch) * len(batch) <= items
        assert fits if sequences is None else len(batch) <= sequences


@given(st.lists(st.integers(1, 90), min_size=1, max_size=8), st.integers(1, 30), st.integers(1, 30))
def test_sliding_windows_are_the_authors(lengths: list[int], width: int, step: int) -> None:
    step = min(step, width)
    length = torch.tensor(lengths)
    begin = length.cumsum(0) - length
    owner, first, count = sliding_windows(begin, length, width, step)
    for number, items in enumerate(lengths):
        starts = [*range(items - width, 0, -step), 0]  # gen_data_fin.py
        mine = owner == number
        assert (first[mine] - begin[number]).tolist() == starts
        assert count[mine].tolist() == [min(items, width)] * len(starts)
        covered = {place for start in starts for place in range(start, start + min(items, width))}
        assert covered == set(range(items))


@given(st.lists(st.integers(1, 40), min_size=1, max_size=5), st.integers(2, 9))
def test_covering_windows_put_each_item_but_the_first_after_another_once(lengths: list[int], width: int) -> None:
    length = torch.tensor(lengths)
    begin = length.cumsum(0) - length
    owner, first, count = covering_windows(begin, length, width)
    assert (count <= width).all()
    for index, (start, size) in enumerate(zip(begin.tolist(), lengths, strict=True)):
        own = [(f, n) for o, f, n in zip(owner.tolist(), first.tolist(), count.tolist(), strict=True) if o == index]
        after = [f + t for f, n in own for t in range(1, n)]
        assert sorted(after) == list(range(start + 1, start + size))
        assert all(n == width for _, n in own[:-1])
