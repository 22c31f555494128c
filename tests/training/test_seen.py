"""exclude_seen for every model: the ranking equals a naive one, and targets stay."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

from recbole_bert4rec.plugin.callbacks import Callback, RankedBatch
from recbole_bert4rec.training.build import Data, build
from recbole_bert4rec.training.ranks import PHASES
from tests.helpers.runs import make_config

LEAVE_ONE_OUT = {"split": {"LS": "valid_and_test"}, "order": "TO", "group_by": "user", "mode": "full"}


def log() -> list[tuple[str, str, int]]:
    """Users who come back to their items, also to their targets."""
    draw = random.Random(5)
    return [(f"u{u}", f"i{draw.randrange(12)}", t) for u in range(30) for t in range(5 + u % 6)]


def begun(model: str, write_inter: Any, exclude: bool | None = None, **options: Any) -> tuple[Data, Any]:
    """A model, trained for one epoch without being validated."""
    options = {"eval_args": LEAVE_ONE_OUT, "exclude_seen": exclude, "MAX_ITEM_LIST_LENGTH": 4, **options}
    options |= {"eval_batch_size": 7, "topk": [5], "valid_metric": "MRR@5"}
    options |= {"load_col": {"inter": ["user_id", "item_id", "timestamp"]}, **write_inter(log())}
    data, trainer = build(make_config(model, **options))
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
def test_what_is_ranked_equals_a_naive_rule(model: str, exclude: bool, write_inter: Any) -> None:
    data, trainer = begun(model, write_inter, exclude, metrics=["GAUC", "MRR"])  # which all scores are for
    dataset = data.test.dataset
    tokens = [dataset.field2id_token[field] for field in (dataset.uid_field, dataset.iid_field)]
    histories: dict[str, list[str]] = {}
    for user, item, _ in log():
        histories.setdefault(user, []).append(item)
    for after, phase in zip((2, 1), PHASES, strict=True):
        found = scores_of(data, trainer, phase)
        assert len(found) == 30
        for user, (target, scores) in found.items():
            *before, item = histories[tokens[0][user]][: 1 - after or None]
            assert tokens[1][target] == item
            seen = {i for i in range(1, len(scores)) if tokens[1][i] in before} - {target}
            assert {i for i, score in enumerate(scores) if score == -torch.inf} == {0} | (seen if exclude else set())


@pytest.mark.parametrize("exclude", [True, False])
def test_among_sampled_candidates_the_rule_changes_nothing(exclude: bool, write_inter: Any) -> None:
    among = {"eval_args": {**LEAVE_ONE_OUT, "mode": "uni5"}, "epochs": 1}
    results = []
    for rule in (None, exclude):
        data, trainer = begun("SASRec", write_inter, rule, **among)
        np.random.seed(0)
        results.append(trainer.evaluate(data.test, load_best_model=False))
    assert results[0] == results[1]
