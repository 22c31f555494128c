"""What is said of a configuration before it is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from recbole_bert4rec.plugin.advice import advice
from recbole_bert4rec.system.constants import OUR_MODELS
from recbole_bert4rec.system.resources import find_config
from recbole_bert4rec.training.run import run
from tests.helpers.data import CYCLE
from tests.helpers.runs import QUIET, make_config


@pytest.mark.parametrize(
    ("size", "rate", "better"), [(64, 0.003, None), (128, 0.003, "0.0015"), (256, 0.001, None), (256, 0.003, "0.00075")]
)
def test_a_rate_too_high_for_the_hidden_states_is_pointed_at(size: int, rate: float, better: str | None) -> None:
    said = advice(make_config(hidden_size=size, learning_rate=rate))
    expected = f"may learn less: learning_rate {rate:g} is high for hidden_size {size}; try --learning_rate={better}"
    assert said == ([] if better is None else [expected])


@pytest.mark.parametrize("model", OUR_MODELS)
def test_defaults_need_no_advice(model: str) -> None:
    assert advice(make_config(model)) == []


@pytest.mark.parametrize("model", ["SASRec", "SASRecPlus"])
def test_the_rate_of_another_model_is_not_judged(model: str) -> None:
    assert advice(make_config(model, hidden_size=256, learning_rate=0.01, training_rows="user")) == []


def test_a_run_says_it(write_inter: Any, caplog: pytest.LogCaptureFixture) -> None:
    run(options={**QUIET, **write_inter(CYCLE), "hidden_size": 16, "learning_rate": 0.03, "epochs": 1})
    assert "note    BERT4Rec may learn less: learning_rate 0.03 is high" in caplog.text


def test_no_variant_of_the_study_of_hidden_sizes_needs_advice() -> None:
    study = yaml.safe_load(Path(find_config("hidden-size.yaml", "study")).read_text("utf-8"))
    assert [advice(make_config(**options)) for options in study["variants"].values()] == [[]] * 5
