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

from recbole_bert4rec.plugin.split import split_rows

rows_of_users = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 20)), min_size=1, max_size=60)
ratios = st.tuples(st.integers(1, 8), st.integers(1, 4), st.integers(1, 4)).map(lambda r: [x / sum(r) for x in r])


class Stock(Dataset):
    """RecBole's own splits, on nothing but users, times and numbers of rows, in the order of time."""

    def __init__(self, users: Any, times: Any) -> None:
        self.logger = getLogger()
        self.time_field = "time"
        order = np.argsort(times, kind="stable")
        columns = {"user": users, "time": times, "row": np.arange(len(users))}
        self.inter_feat = Interaction({name: torch.from_numpy(column[order]) for name, column in columns.items()})

    def _drop_unused_col(self) -> None:
        pass

    def copy(self, new_inter_feat: Interaction) -> Interaction:
        return new_inter_feat


@given(rows_of_users, ratios)
@example([(1, 0)] * 5, [1 / 6, 4 / 6, 1 / 6])
def test_leave_one_out_and_shares_of_rows_equal_recboles(rows: list[tuple[int, int]], shares: list[float]) -> None:
    users, times = np.array(sorted(rows)).T
    times = times.astype(np.float32)
    stock = Stock(users, times)
    parts = {("LS", mode): stock.leave_one_out("user", mode) for mode in ("valid_and_test", "valid_only", "test_only")}
    parts |= {("RS", by): stock.split_by_ratio(shares, by) for by in ("user", None)}
    parts |= {("TS", "user"): stock.time_based_split(shares, "user")}
    for (mode, detail), wanted in parts.items():
        split, by = ({mode: detail}, "user") if mode == "LS" else ({mode: shares}, detail)
        arguments = {"split": split, "group_by": by}
        found = split_rows(users, times, arguments, stock._calcu_split_ids)
        assert [part.tolist() for part in found] == [part["row"].tolist() if len(part) else [] for part in wanted]
