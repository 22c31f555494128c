"""Splits without loops give the parts that RecBole's loops give."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from recbole.data.dataset import Dataset

from recbole_bert4rec.data.splits import Groups, by_ratio, by_time, leave_one_out

users = st.lists(st.integers(1, 6), min_size=1, max_size=60)
ratios = st.tuples(st.integers(1, 8), st.integers(1, 4), st.integers(1, 4)).map(lambda r: [x / sum(r) for x in r])
stock = object.__new__(Dataset)


def same(parts: list[Any], wanted: list[Any]) -> None:
    assert [part.tolist() for part in parts] == [list(part) for part in wanted]


@given(users, st.integers(1, 2))
def test_leave_one_out(keys: list[int], held_out: int) -> None:
    wanted = stock._split_index_by_leave_one_out(stock._grouped_index(keys), held_out)
    same(leave_one_out(Groups(np.array(keys)), held_out), wanted)


@given(users, ratios)
def test_by_ratio(keys: list[int], shares: list[float]) -> None:
    wanted: list[list[int]] = [[], [], []]
    for group in stock._grouped_index(keys):
        bounds = stock._calcu_split_ids(len(group), shares)
        for part, start, end in zip(wanted, [0, *bounds], [*bounds, len(group)], strict=True):
            part.extend(group[start:end])
    same(by_ratio(Groups(np.array(keys)), lambda size: stock._calcu_split_ids(size, shares)), wanted)


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 20)), min_size=1, max_size=60), ratios)
def test_by_time(rows: list[tuple[int, int]], shares: list[float]) -> None:
    rows = sorted(rows, key=lambda row: row[1])
    keys, times = np.array([user for user, _ in rows]), np.array([time for _, time in rows], dtype=np.float32)
    boundary = np.percentile(times, 100 * (1 - shares[-1]))
    wanted: list[list[int]] = [[], [], []]
    for group in stock._grouped_index(keys.tolist()):
        early = [row for row in group if times[row] <= boundary]
        cut = int(len(early) * (shares[0] / (1 - shares[2])))
        wanted[0].extend(early[:cut])
        wanted[1].extend(early[cut:])
        wanted[2].extend(row for row in group if times[row] > boundary)
    same(by_time(Groups(keys), times, shares), wanted)
