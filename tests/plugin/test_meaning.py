"""RecBole's options mean for our models what they mean in RecBole."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recbole.evaluator.metrics import NDCG

from tests.helpers.runs import make_config, prepare
from tests.helpers.small import SMALL, start

ROWS = [(f"u{u}", f"i{(u + t) % 23}", t) for u in range(60) for t in range(9)]
BOTH = pytest.mark.parametrize("model", ["BERT4Rec", "SASRec"])


def test_a_batch_has_so_many_interactions_as_the_size_says(write_inter: Any) -> None:
    options = {**SMALL, **write_inter(ROWS), "batch_sequences": None, "train_batch_size": 64}
    _, train, *_ = prepare(make_config(**options))
    sizes = [batch["item_id_list"].numel() for batch in train]
    assert max(sizes) <= 64
    assert len(train) == math.ceil(60 / (64 // 7))  # of 9 items, 7 are trained


@BOTH
@pytest.mark.parametrize(
    ("option", "given", "value"),
    [("learning_rate", np.float32(0.5), 0.5), ("topk", np.array([5]), [5]), ("checkpoint_dir", Path("kept"), "kept")],
)
def test_values_of_numpy_and_paths_are_pythons_own(model: str, option: str, given: Any, value: Any) -> None:
    more = {"valid_metric": "MRR@5"} if option == "topk" else {}
    found = make_config(model, **{option: given, **more})[option]
    assert found == value
    assert type(found) is type(value)


@BOTH
def test_recboles_spellings_are_understood(model: str, write_inter: Any) -> None:
    data = write_inter(ROWS)
    assert make_config(model, learner="Adam")["learner"] == "adam"
    for interval in ("[2,30]", [2, 30], "(1,31)", "[2,inf)"):
        dataset, *_ = prepare(make_config(model, **data, user_inter_num_interval=interval))
        assert dataset.user_num == 61
    with pytest.raises(Exception, match=r"filter|empty"):
        prepare(make_config(model, **data, user_inter_num_interval=[90, 99]))


def test_recboles_transform_is_taken_for_what_is_done_anyway(write_inter: Any) -> None:
    data = {**SMALL, **write_inter(ROWS), "epochs": 1}
    losses = []
    for transform in ("mask_itemseq", None):
        trainer, train, valid, _ = start(**data, transform=transform)
        trainer.fit(train, valid, saved=False, verbose=False)
        losses.append(trainer.train_loss_dict)
    assert losses[0] == losses[1]


def test_a_metric_that_is_not_finite_keeps_a_checkpoint_readable(
    write_inter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NDCG, "metric_info", lambda self, positions, lengths: np.full(positions.shape, np.nan))
    trainer, train, valid, test = start(**write_inter(ROWS), **SMALL, epochs=1, metrics=["MRR", "NDCG"])
    trainer.fit(train, valid)
    assert math.isnan(trainer.evaluate(test)["ndcg@10"])
