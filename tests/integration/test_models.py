"""BERT4Rec, BERT4RecPlus and SASRecPlus: one class under three names, each trained, kept, resumed and compared."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
import torch
from recbole.quick_start import load_data_and_model

from recbole_bert4rec import run
from recbole_bert4rec.options.table import MODEL_DEFAULTS
from recbole_bert4rec.system.constants import OUR_MODELS
from tests.helpers.data import histories_to_rows, overlapping_histories
from tests.helpers.runs import MRR_OF_3, arguments, make_config

HISTORIES = overlapping_histories(12)
SMALL = {"epochs": 2, "hidden_size": 8, "inner_size": 16, **MRR_OF_3}


@pytest.mark.parametrize("model", OUR_MODELS)
def test_a_model_has_the_defaults_of_its_name(model: str) -> None:
    config = make_config(model)
    for name, value in MODEL_DEFAULTS[model].items():
        assert config[name] == value
    assert config["objective"] == {"BERT4Rec": "cloze", "BERT4RecPlus": "prefix", "SASRecPlus": "next"}[model]


@pytest.mark.parametrize("model", OUR_MODELS)
def test_a_model_is_trained_resumed_loaded_and_recommends(model: str, write_inter: Any) -> None:
    options = {**SMALL, "lr_schedule": "constant", **write_inter(histories_to_rows(HISTORIES))}
    whole = run(model=model, **arguments(options), recommend="top.csv", k=3)
    assert whole.record["model"] == model
    left_out = whole.record["learnt"]["seen_bias"] <= 0  # of recommendations, what a user had
    n_items = len({item for items in HISTORIES.values() for item in items})
    left = [n_items - len({*items}) * left_out for items in HISTORIES.values()]
    assert len(pd.read_csv("top.csv")) == sum(min(3, count) for count in left)
    half = run(model=model, **arguments(options, epochs=1))
    resumed = run(resume=str(half.checkpoint), options={"epochs": 2})
    assert resumed.test_result == whole.test_result
    _, loaded, *_ = load_data_and_model(str(whole.checkpoint))
    assert type(loaded).__name__ == model
    stored = torch.load(whole.checkpoint, weights_only=True)["state_dict"]
    assert all(torch.equal(stored[name], value) for name, value in loaded.state_dict().items())


def test_the_record_says_what_was_learnt_of_seen_items(write_inter: Any) -> None:
    never_twice = {f"u{u}": [f"i{(5 * u + t) % 30}" for t in range(12)] for u in range(30)}
    options = {**SMALL, **write_inter(histories_to_rows(never_twice)), "learning_rate": 0.05}
    result = run(model="SASRecPlus", **arguments(options))
    assert -1 < result.record["learnt"]["seen_bias"] < 0
    assert "learnt" not in run(model="BERT4Rec", **arguments(options, seen_bias=False)).record
