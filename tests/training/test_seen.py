"""exclude_seen for every model: the ranking equals a naive one, and targets stay."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

from recbole_bert4rec.plugin.callbacks import Callback, RankedBatch
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.build import Data, build
from recbole_bert4rec.training.ranks import PHASES
from tests.helpers.runs import make_config

LEAVE_ONE_OUT = {"split": {"LS": "valid_and_test"}, "order": "TO", "group_by": "user", "mode": "full"}


def log() -> list[tuple[str, str, int]]:
    """Users who come back to their items, also to their targets."""
    draw = random.Random(5)
    return [(f"u{u}", f"i{draw.randrange(12)}", t) for u in range(30) for t in range(5 + u % 6)]


def start(model: str, write_inter: Any, exclude: bool | None = None, **options: Any) -> tuple[Data, Any]:
    """A model, trained for one epoch without being validated."""
    sizes: dict[str, Any] = {"MAX_ITEM_LIST_LENGTH": 4, "eval_batch_size": 7, "topk": [5], "valid_metric": "MRR@5"}
    sizes["load_col"] = {"inter": ["user_id", "item_id", "timestamp"]}
    options = {"eval_args": LEAVE_ONE_OUT, "exclude_seen": exclude, **options}
    data, trainer = build(make_config(model, **sizes, **options, **write_inter(log())))
    trainer.eval_collector.data_collect(data.train)
    trainer._train_epoch(data.train, 0)  # Pop counts
    return data, trainer


class Scores(Callback):
    """Target and scores of each user."""

    def __init__(self) -> None:
        self.of_user: dict[int, tuple[int, Any]] = {}

    def on_ranking_end(self, trainer: Any, ranked: RankedBatch) -> None:
        users = ranked.interaction[trainer.config["USER_ID_FIELD"]].tolist()
        rows = zip(users, ranked.targets, ranked.scores, strict=True)
        self.of_user |= {user: (int(item), scores.clone()) for user, item, scores in rows}


def scores_of(data: Data, trainer: Any, phase: str) -> dict[int, tuple[int, Any]]:
    """Target and scores of each user in validation or test."""
    found = Scores()
    before = tuple(trainer.callbacks)
    trainer.callbacks[:] = [*before, found]
    if phase == "valid":
        trainer._valid_epoch(data.valid)
    else:
        trainer.evaluate(data.test, load_best_model=False)
    trainer.callbacks[:] = before
    return found.of_user


@pytest.mark.parametrize("exclude", [True, False])
@pytest.mark.parametrize("model", ["BERT4Rec", "SASRec", "Pop", "BPR"])
@pytest.mark.parametrize("phase", [0, 1])
def test_what_is_ranked_equals_a_naive_rule(model: str, exclude: bool, phase: int, write_inter: Any) -> None:
    data, trainer = start(model, write_inter, exclude, metrics=["GAUC", "MRR"])  # which all scores are for
    dataset = data.test.dataset
    tokens = [dataset.field2id_token[field] for field in (dataset.uid_field, dataset.iid_field)]
    histories: dict[str, list[str]] = {}
    for user, item, _ in log():
        histories.setdefault(user, []).append(item)
    found = scores_of(data, trainer, PHASES[phase])
    assert len(found) == 30
    for user, (target, scores) in found.items():
        items = histories[tokens[0][user]]
        before = items[: len(items) - 2 + phase]
        assert tokens[1][target] == items[len(items) - 2 + phase]
        wanted = {0} | ({i for i in range(1, len(scores)) if tokens[1][i] in before} - {target} if exclude else set())
        assert {i for i, score in enumerate(scores) if score == -torch.inf} == wanted


@pytest.mark.parametrize("exclude", [True, False])
def test_among_sampled_candidates_the_rule_changes_nothing(exclude: bool, write_inter: Any) -> None:
    among = {"eval_args": {**LEAVE_ONE_OUT, "mode": "uni5"}, "epochs": 1}
    results = []
    for rule in (None, exclude):
        data, trainer = start("SASRec", write_inter, rule, **among)
        np.random.seed(0)
        results.append(trainer.evaluate(data.test, load_best_model=False))
    assert results[0] == results[1]


def test_a_split_with_several_targets_a_user_is_refused(write_inter: Any) -> None:
    split = {"split": {"RS": [0.4, 0.3, 0.3]}, "order": "TO", "group_by": "user", "mode": "full"}
    with pytest.raises(UserError, match="valid targets"):
        start("SASRec", write_inter, exclude=True, eval_args=split)
