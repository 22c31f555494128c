"""What is said of a configuration before it is trained."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from recbole_bert4rec.constants import OUR_MODELS
from recbole_bert4rec.plugin.advice import advice
from recbole_bert4rec.resources import find_config
from tests.conftest import make_config


@pytest.mark.parametrize(
    ("size", "rate", "better"), [(64, 0.003, None), (128, 0.003, "0.0015"), (256, 0.001, None), (256, 0.003, "0.00075")]
)
def test_a_rate_too_high_for_the_hidden_states_is_pointed_at(size: int, rate: float, better: str | None) -> None:
    said = advice(make_config(hidden_size=size, learning_rate=rate))
    expected = (
        f"may learn little: learning_rate {rate:g} is high for hidden_size {size}; --learning_rate={better} suits it"
    )
    assert said == ([] if better is None else [expected])


@pytest.mark.parametrize("model", OUR_MODELS)
def test_defaults_need_no_advice(model: str) -> None:
    assert advice(make_config(model)) == []


def test_the_rate_of_another_model_is_not_judged() -> None:
    assert advice(make_config("SASRec", hidden_size=256, learning_rate=0.01, training_rows="user")) == []


def test_no_variant_of_the_study_of_hidden_sizes_needs_advice() -> None:
    study = yaml.safe_load(Path(find_config("hidden-size.yaml", "study")).read_text("utf-8"))
    assert [advice(make_config(**options)) for options in study["variants"].values()] == [[]] * 5
