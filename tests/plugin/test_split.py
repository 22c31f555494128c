"""The data set: its parts are those that RecBole's loops give, and what of it may be saved and used again."""

from __future__ import annotations

from logging import getLogger
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from recbole.data import data_preparation
from recbole.data.dataset import Dataset, SequentialDataset
from recbole.data.interaction import Interaction
from recbole.data.utils import load_split_dataloaders

from recbole_bert4rec.plugin.loading import CheckedLoading
from recbole_bert4rec.plugin.split import split_rows
from recbole_bert4rec.system.errors import UserError
from tests.helpers.data import benchmark_files
from tests.helpers.runs import make_config, make_trainer, prepare
from tests.helpers.small import start

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


def test_valid_users_are_as_many_as_wanted_and_the_others_train_their_validation_item(options: dict) -> None:
    _, train, valid, test = start(**options)
    _, some_train, some_valid, some_test = start(**options, valid_users=10, seed=3)
    again = prepare(make_config(**options, valid_users=10, seed=3))[2]
    assert torch.equal(again.dataset.inter_feat["user_id"], some_valid.dataset.inter_feat["user_id"])
    held_out = dict(zip(*(valid.dataset.inter_feat[f].tolist() for f in ("user_id", "item_id")), strict=True))
    kept = dict(zip(*(some_valid.dataset.inter_feat[f].tolist() for f in ("user_id", "item_id")), strict=True))
    assert len(kept) == 10
    assert kept.items() < held_out.items()
    lengths, more = (
        dict(zip(*map(torch.Tensor.tolist, part.dataset.slices()[::2]), strict=True)) for part in (train, some_train)
    )
    for user, length in more.items():
        before = lengths.get(user, 0)
        assert length == before + (user in held_out and user not in kept)
    assert torch.equal(test.dataset.inter_feat["item_id"], some_test.dataset.inter_feat["item_id"])
    with pytest.raises(UserError, match="`valid_users` is 99"):
        start(**options, valid_users=99)


@pytest.mark.parametrize("change", [{"window": "sliding"}, {"candidates": "paper"}, {"valid_users": 9}], ids=str)
def test_saved_loaders_made_with_other_options_are_not_used_again(options: dict, change: dict) -> None:
    prepare(make_config(**options, save_dataloaders=True))
    named = {**options, "dataloaders_save_path": "saved/toy-for-BERT4Rec-dataloader.pth", "trust_pickles": True}
    assert load_split_dataloaders(make_config(**named)) is not None
    assert load_split_dataloaders(make_config(**named, **change)) is None


def test_recboles_models_read_benchmark_files_with_column_names_of_ones_own(tmp_path: Path) -> None:
    rows = [f"u{user}\ti{user} i{user + 1}\ti{user + 2}" for user in range(9)]
    options = benchmark_files(tmp_path, dict.fromkeys(("train", "valid", "test"), rows), "movie")

    class Checked(CheckedLoading, SequentialDataset):
        pass

    config = make_config("SASRec", **options, loss_type="CE", train_neg_sample_args=None)
    train, *_ = data_preparation(config, Checked(config))
    assert make_trainer(config, train).model.calculate_loss(next(iter(train))).isfinite()
