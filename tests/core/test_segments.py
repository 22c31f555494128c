"""Index arithmetic against loops, in torch and in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from recbole_bert4rec.core.segments import index_within_segment, pair_keys, split_keys

lengths_of_segments = st.lists(st.integers(0, 6), max_size=12)
make_array = st.sampled_from([torch.tensor, np.array])


def integers(make: Any, values: list[int]) -> Any:
    return make(values, dtype=torch.int64 if make is torch.tensor else np.int64)


@given(lengths_of_segments, make_array)
def test_elements_are_numbered_as_a_loop_numbers_them(lengths: list[int], make: Any) -> None:
    segment = [number for number, length in enumerate(lengths) for _ in range(length)]
    expected = [index for length in lengths for index in range(length)]
    found = index_within_segment(integers(make, segment), integers(make, lengths))
    assert type(found) is type(integers(make, segment))
    assert found.tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 8))), make_array)
def test_keys_are_unlike_for_unlike_pairs_sort_like_them_and_can_be_undone(
    pairs: list[tuple[int, int]], make: Any
) -> None:
    rows, items = (integers(make, [pair[part] for pair in pairs]) for part in (0, 1))
    keys = pair_keys(rows, items, 9)
    assert len(set(keys.tolist())) == len(set(pairs))
    assert sorted(range(len(pairs)), key=pairs.__getitem__) == sorted(range(len(pairs)), key=keys.tolist().__getitem__)
    again = split_keys(keys, 9)
    assert list(zip(again[0].tolist(), again[1].tolist(), strict=True)) == pairs
