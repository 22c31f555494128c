"""What RecBole's property files say of its options, and what is refused because of it."""

from __future__ import annotations

import importlib.resources
from pathlib import Path
from typing import Any

import pytest
import torch

from recbole_bert4rec.options.recboles import Documented, documented
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.yaml_files import parse_yaml
from tests.helpers.runs import make_config

PROPERTIES = Path(str(importlib.resources.files("recbole"))) / "properties"
MODELS = sorted(file.stem for file in (PROPERTIES / "model").glob("*.yaml"))


@pytest.mark.parametrize("model", MODELS)
def test_every_option_of_a_property_file_is_found_and_accepts_its_own_default(model: str) -> None:
    found = documented(model)
    for file in (PROPERTIES / "overall.yaml", PROPERTIES / "model" / f"{model}.yaml"):
        for name, default in (parse_yaml(file.read_text("utf-8"), str(file)) or {}).items():
            if name.isidentifier():  # `time-aware` is none, and no code of RecBole reads it
                assert found[name].accepts(default), name


def test_most_options_have_types() -> None:
    options = {(model, name): option for model in MODELS for name, option in documented(model).items()}
    assert sum(bool(option.types) for option in options.values()) > 0.95 * len(options)


@pytest.mark.parametrize(
    ("types", "accepted", "refused"),
    [
        (("int",), [0, -3], ["3", 2.0, True, None]),
        (("float",), [0, 1e-3], ["a", True, float("nan")]),
        (("bool",), [True], [1, "yes"]),
        (("str",), ["a", 3, (0, 1)], [["a"], {}, True]),
        (("list of int",), [[], [1, 2]], [[1.5], (1, 2), 1, ["a"]]),
        (("list", "int", "None"), [[1], 5, None], ["abc", {}]),
        ((), ["anything", None], []),
    ],
    ids=str,
)
def test_a_type_means_its_values(types: tuple[str, ...], accepted: list[Any], refused: list[Any]) -> None:
    option = Documented("", types, "")
    assert all(map(option.accepts, accepted))
    assert not any(map(option.accepts, refused))


@pytest.mark.parametrize("model", ["BERT4Rec", "SASRec", "Pop"])
@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"topk": "abc"}, r"`topk` must be a list such as \[1, 2\], or a whole number, or null, but is 'abc' instead"),
        ({"show_progress": "maybe"}, "`show_progress` must be True or False, but is 'maybe' instead"),
        ({"load_col": "user_id"}, "`load_col` must be a dictionary, or null, but is 'user_id' instead"),
        (
            {"rm_dup_inter": "both"},
            r"`rm_dup_inter` must be one of \['first', 'last'\], or null, but is 'both' instead",
        ),
        ({"metric_decimal_place": "four"}, "`metric_decimal_place` must be a whole number, but is 'four' instead"),
    ],
    ids=str,
)
def test_a_value_of_the_wrong_type_is_refused_for_every_model(model: str, option: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        make_config(model, **option)


def test_a_models_own_options_are_checked_too() -> None:
    with pytest.raises(UserError, match=r"`num_layers` must be a whole number, but is 1.5 instead"):
        make_config("GRU4Rec", num_layers=1.5)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("model", ["BERT4Rec", "Pop"])
@pytest.mark.parametrize("option", [{"use_gpu": True}, {"use_gpu": True, "gpu_id": 0}])
def test_a_gpu_that_is_asked_for_and_absent_is_a_warning(
    model: str, option: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING"):
        assert make_config(model, **option)["device"].type == "cpu"
    assert "use_gpu=True" in caplog.text
    assert "torch finds no GPU" in caplog.text


@pytest.mark.parametrize("model", ["BERT4Rec", "Pop"])
def test_gpu_minus_one_is_the_processor_without_a_word(model: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING"):
        assert make_config(model, use_gpu=True, gpu_id=-1)["device"].type == "cpu"
    assert not caplog.records


def test_a_device_that_recbole_would_not_look_at_is_said_to_have_no_effect(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING"):
        make_config(device="cuda", allow_unknown=True)
    assert "`device` ('cuda') has no effect: the device follows from `use_gpu` and `gpu_id`" in caplog.text


def test_without_use_gpu_no_gpu_is_taken() -> None:
    config = make_config("Pop", use_gpu=False, gpu_id=0)
    assert config["device"].type == "cpu"
    assert config["gpu_id"] == ""
