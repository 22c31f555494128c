"""Splits without loops give the parts that RecBole's loops give."""

from __future__ import annotations

from logging import getLogger
from typing import Any

import numpy as np
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from recbole.data.dataset import Dataset
from recbole.data.interaction import Interaction

from recbole_bert4rec.plugin.split import keep_valid_users, split_rows

rows_of_users = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 20)), min_size=1, max_size=60)
ratios = st.tuples(st.integers(1, 8), st.integers(1, 4), st.integers(1, 4)).map(lambda r: [x / sum(r) for x in r])
stock = object.__new__(Dataset)


class Case:
    """The same rows sorted by user and time, as ours are, and then by time, as RecBole's are."""

    def __init__(self, rows: list[tuple[int, int]]) -> None:
        rows = sorted(rows)
        self.users = np.array([user for user, _ in rows])
        self.times = np.array([time for _, time in rows], dtype=np.float32)
        self.by_time = np.argsort(self.times, kind="stable")
        self.recboles = stock._grouped_index(self.users[self.by_time].tolist())

    def parts(self, split: dict[str, Any]) -> list[Any]:
        arguments = {"split": split, "group_by": "user"}
        return split_rows(self.users, self.times, arguments, stock._calcu_split_ids)

    def check(self, split: dict[str, Any], recboles: list[list[int]]) -> None:
        parts = self.parts(split)
        assert [part.tolist() for part in parts] == [self.by_time[part].tolist() for part in recboles]


@given(rows_of_users)
def test_leave_one_out(rows: list[tuple[int, int]]) -> None:
    case = Case(rows)
    case.check({"LS": "valid_and_test"}, stock._split_index_by_leave_one_out(case.recboles, 2))
    train, held_out = stock._split_index_by_leave_one_out(case.recboles, 1)
    case.check({"LS": "valid_only"}, [train, held_out, []])
    case.check({"LS": "test_only"}, [train, [], held_out])


@given(rows_of_users, st.data())
def test_validation_on_some_users_trains_the_other_validation_rows(rows: list[tuple[int, int]], data: Any) -> None:
    parts = Case(rows).parts({"LS": "valid_and_test"})
    count = data.draw(st.integers(0, len(parts[1])))
    train, valid, test = keep_valid_users(parts, count, seed=7)
    assert len(valid) == count
    assert set(valid) <= set(parts[1])
    assert sorted([*train, *valid]) == sorted([*parts[0], *parts[1]])
    assert test is parts[2]
    again = keep_valid_users(parts, count, seed=7)
    assert all(np.array_equal(*pair) for pair in zip((train, valid, test), again, strict=True))


@given(rows_of_users, ratios)
def test_by_ratio(rows: list[tuple[int, int]], shares: list[float]) -> None:
    case = Case(rows)
    wanted: list[list[int]] = [[], [], []]
    divided = [share / sum(shares) for share in shares]  # RecBole's method does so, too, which may move the last digit
    for group in case.recboles:
        bounds = stock._calcu_split_ids(len(group), divided)
        for part, start, end in zip(wanted, [0, *bounds], [*bounds, len(group)], strict=True):
            part.extend(group[start:end])
    case.check({"RS": shares}, wanted)


class StockTimes(Dataset):
    """RecBole's own split by time, on nothing but users, times and row numbers."""

    def __init__(self, case: Case) -> None:
        self.logger = getLogger()
        self.time_field = "time"
        columns = {"user": case.users, "time": case.times, "row": np.arange(len(case.users))}
        in_order = {name: torch.from_numpy(column[case.by_time]) for name, column in columns.items()}
        self.inter_feat = Interaction(in_order)

    def _drop_unused_col(self) -> None:
        pass

    def copy(self, new_inter_feat: Interaction) -> Interaction:
        return new_inter_feat


@given(rows_of_users, ratios)
@example([(1, 0)] * 5, [1 / 6, 4 / 6, 1 / 6])
def test_by_time_equals_recboles_own_split(rows: list[tuple[int, int]], shares: list[float]) -> None:
    case = Case(rows)
    parts = StockTimes(case).time_based_split(shares, "user")
    wanted = [part["row"].tolist() if len(part) else [] for part in parts]
    assert [part.tolist() for part in case.parts({"TS": shares})] == wanted
