"""Where a target stands among items with its score; scores that are not numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recbole_bert4rec import append_items, load, run
from recbole_bert4rec.checkpoints import checkpoint
from recbole_bert4rec.recommend.export import export
from recbole_bert4rec.system.errors import UserError
from tests.helpers.extras import needs_onnx
from tests.helpers.runs import QUIET

HISTORIES = {f"u{n}": [f"i{(n + k) % 23}" for k in range(1 + n % 5)] for n in range(40)}


@pytest.fixture
def trained(options: dict[str, Any]) -> Path:
    result = run(dataset="toy", options={**QUIET, **options, "epochs": 1, "topk": [3], "valid_metric": "MRR@3"})
    assert result.checkpoint is not None
    return result.checkpoint


def test_items_of_one_vector_are_judged_as_they_are_recommended(trained: Path) -> None:
    model = append_items(trained, {f"new{n}": ["i3"] for n in range(40)}, output="more.pth")
    targets = {user: f"new{n}" for n, user in enumerate(HISTORIES)}
    ranks = model.rank_of(HISTORIES, targets, filter_viewed=False)["rank"]
    table = model.recommend(HISTORIES, k=len(model.items), filter_viewed=False)
    table["place"] = table["item_id"].str.startswith("new")
    middle = table[table["place"]].groupby("user_id")["rank"].mean()
    # products of one vector may differ in their last bits, by their place in the catalogue
    assert np.abs(ranks.to_numpy() - middle[list(HISTORIES)].to_numpy()).mean() < 4
    found = model.evaluate(HISTORIES, targets, topk=[10], filter_viewed=False)
    shown = table[(table["rank"] <= 10) & table["place"]].groupby("user_id").size().reindex(list(HISTORIES)).fillna(0)
    assert found["hit@10"] == (ranks <= 10).mean() <= (shown > 0).mean()


@needs_onnx
def test_an_export_judges_items_of_one_vector_as_the_model_does(trained: Path) -> None:
    model = append_items(trained, {f"new{n}": ["i3"] for n in range(40)}, output="more.pth")
    export(model, "out")
    exported = load("out")
    longer = {user: [*items, f"new{n}"] for n, (user, items) in enumerate(HISTORIES.items())}
    for filter_viewed in (False, True):
        wanted = model.evaluate(longer, topk=[3, 10], filter_viewed=filter_viewed)
        assert exported.evaluate(longer, topk=[3, 10], filter_viewed=filter_viewed) == pytest.approx(wanted)


def test_ranks_are_those_of_a_naive_twin_with_and_without_seen_items(trained: Path) -> None:
    model = load(trained, "cpu")
    with torch.no_grad():
        model.ranker.encoder.output_bias.copy_(model.ranker.encoder.output_bias.round())
        model.ranker.encoder.item_embedding.weight.zero_()  # scores are biases: many are equal
    targets = {user: f"i{n % 23}" for n, user in enumerate(HISTORIES)}
    for filter_viewed in (False, True):
        ranks = model.rank_of(HISTORIES, targets, filter_viewed=filter_viewed)["rank"].tolist()
        scores = model.score(HISTORIES, model.items)
        for (user, items), rank in zip(HISTORIES.items(), ranks, strict=True):
            own = scores[scores["user_id"] == user].set_index("item_id")["score"]
            others = own.drop(targets[user])
            others = others.drop([item for item in set(items) if item in others and filter_viewed])
            above, equal = (others > own[targets[user]]).sum(), (others == own[targets[user]]).sum()
            assert rank == 1 + above + np.ceil(equal / 2)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_finite_numbers_are_refused_when_the_model_is_loaded(value: float, trained: Path) -> None:
    state = checkpoint.read(str(trained))
    name = next(name for name, weight in state["state_dict"].items() if weight.is_floating_point())
    state["state_dict"][name].view(-1)[-1] = value
    checkpoint.write("odd.pth", state)
    with pytest.raises(UserError, match=rf"odd\.pth.*'{name}'"):
        load("odd.pth")


def test_scores_that_are_no_numbers_are_refused_wherever_they_are_asked_for(trained: Path) -> None:
    model = load(trained, "cpu")
    with torch.no_grad():
        model.ranker.encoder.output_bias[3] = torch.nan
    for ask in (model.recommend, model.evaluate):
        with pytest.raises(UserError, match="scores"):
            ask(HISTORIES)
