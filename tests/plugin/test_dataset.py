"""The data set: who is held out for validation, and what of it may be saved and used again."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from recbole.data import data_preparation
from recbole.data.dataset import SequentialDataset
from recbole.data.utils import load_split_dataloaders

from recbole_bert4rec.plugin.loading import CheckedLoading
from recbole_bert4rec.system.errors import UserError
from tests.helpers.runs import make_config, make_trainer, prepare
from tests.helpers.small import start


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
    folder = tmp_path / "data" / "bench"
    folder.mkdir(parents=True)
    for name in ("train", "valid", "test"):
        lines = [f"u{user}\ti{user} i{user + 1}\ti{user + 2}" for user in range(9)]
        header = "user_id:token\tmovie_list:token_seq\tmovie:token"
        (folder / f"bench.{name}.inter").write_text("\n".join([header, *lines]) + "\n")
    options = {
        "data_path": str(tmp_path / "data"),
        "benchmark_filename": ["train", "valid", "test"],
        "ITEM_ID_FIELD": "movie",
        "alias_of_item_id": ["movie_list"],
        "load_col": {"inter": ["user_id", "movie_list", "movie"]},
    }

    class Checked(CheckedLoading, SequentialDataset):
        pass

    config = make_config("SASRec", "bench", **options, loss_type="CE", train_neg_sample_args=None)
    train, *_ = data_preparation(config, Checked(config))
    assert make_trainer(config, train).model.calculate_loss(next(iter(train))).isfinite()
