"""Recommendations follow the ranking of the evaluation, about items of the history too."""

from __future__ import annotations

import random
from logging import getLogger
from typing import Any

import pandas as pd
import pytest
import torch

from recbole_bert4rec import load
from recbole_bert4rec.training.recommending import recommender_of
from recbole_bert4rec.training.run import run
from tests.helpers.runs import QUIET, Rankings, make_config, make_trainer, prepare

N_ITEMS, K = 20, 6
SMALL = {"hidden_size": 16, "inner_size": 32, "MAX_ITEM_LIST_LENGTH": 5, "eval_batch_size": 7, "metrics": ["MRR"]}


def log() -> dict[str, list[str]]:
    """Users who often come back to an item. The first has every item once, so that ids are the same in any part."""
    draw = random.Random(3)
    everything = [f"i{item}" for item in range(N_ITEMS)]
    others = {f"u{user}": [f"i{draw.randrange(8)}" for _ in range(5 + user % 7)] for user in range(1, 25)}
    return {"u0": [*everything, "i0"], **others}


def rows(histories: dict[str, list[str]]) -> list[tuple[str, str, int]]:
    return [(user, item, time) for user, items in histories.items() for time, item in enumerate(items)]


@pytest.mark.parametrize("exclude_seen", [False, True])
@pytest.mark.parametrize("seen_bias", [None, 3.0, -3.0])
def test_the_recommended_items_are_the_best_of_the_evaluation_for_the_same_history(
    exclude_seen: bool, seen_bias: float | None, write_inter: Any
) -> None:
    histories = log()
    options = {
        **SMALL,
        "topk": [K],
        "valid_metric": f"MRR@{K}",
        "exclude_seen": exclude_seen,
        "seen_bias": seen_bias is not None,
    }
    whole = make_config(**options, **write_inter(rows(histories), "whole"))
    before = make_config(**options, **write_inter(rows({u: items[:-1] for u, items in histories.items()}), "before"))
    dataset, train, _, test = prepare(whole)
    found = Rankings(K)
    trainer = make_trainer(whole, train, found)
    torch.nn.init.normal_(trainer.model.encoder.output_bias)
    if seen_bias is not None:
        torch.nn.init.constant_(trainer.model.seen_bias, seen_bias)
    trainer.evaluate(test, load_best_model=False)
    cut, *_ = prepare(before)
    for field in ("user_id", "item_id"):
        assert list(cut.field2id_token[field]) == list(dataset.field2id_token[field])
    table = recommender_of(trainer.model, cut).recommend(k=K, filter_viewed=exclude_seen)
    compared, repeats = 0, 0
    for user, items in histories.items():
        best = table[table["user_id"] == user]["item_id"].tolist()
        if exclude_seen:
            assert not set(best) & set(items[:-1])
            if items[-1] in items[:-1]:  # in evaluation the target stays
                continue
        ranked = found.of_user[int(dataset.token2id("user_id", user))]
        assert best == dataset.id2token("item_id", ranked).tolist()
        compared += 1
        repeats += len(set(best) & set(items[:-1]))
    assert compared >= (3 if exclude_seen else len(histories))
    if not exclude_seen:
        assert repeats > 0
        assert seen_bias != 3.0 or repeats > 60, "items of the history are raised"


@pytest.mark.parametrize(("exclude_seen", "seen_bias"), [(False, False), (False, True), (True, False)])
def test_a_run_recommends_as_its_checkpoint_does_and_says_by_which_rule(
    exclude_seen: bool, seen_bias: bool, write_inter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    histories, lines = log(), []
    monkeypatch.setattr(getLogger(), "info", lambda text: lines.append(str(text)))
    options = {**QUIET, **SMALL, "epochs": 1, "exclude_seen": exclude_seen, "seen_bias": seen_bias}
    options |= {"keep_histories": True, **write_inter(rows(histories))}
    options.pop("metrics")
    result = run(dataset=options.pop("dataset"), options=options, recommend="top.csv", k=4)
    table, model = pd.read_csv("top.csv"), load(result.checkpoint, device="cpu")
    pd.testing.assert_frame_equal(table, model.recommend(k=4), check_dtype=False, rtol=1e-5)
    again = [row for row in table.itertuples() if row.item_id in histories[row.user_id]]
    assert bool(again) is not model.viewed.left_out
    assert f"recommending: {model.viewed.why}" in lines
