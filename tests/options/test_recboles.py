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


@pytest.mark.parametrize(
    ("model", "name", "value"),
    [
        ("SASRec", "show_progress", "maybe"),
        ("Pop", "load_col", "user_id"),
        ("BERT4Rec", "rm_dup_inter", "both"),
        ("GRU4Rec", "num_layers", 1.5),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_for_every_model(model: str, name: str, value: Any) -> None:
    with pytest.raises(UserError, match=f"`{name}` .* is {value!r}"):
        make_config(model, **{name: value})


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("model", ["BERT4Rec", "Pop"])
@pytest.mark.parametrize(
    ("option", "warned"),
    [
        ({"use_gpu": True, "gpu_id": 0}, "use_gpu"),
        ({"use_gpu": True, "gpu_id": -1}, None),
        ({"use_gpu": False, "gpu_id": 0}, None),
        ({"device": "cuda", "allow_unknown": True}, "`device`"),
    ],
    ids=str,
)
def test_without_a_gpu_the_processor_is_taken_and_what_cannot_be_followed_is_a_warning(
    model: str, option: dict[str, Any], warned: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING"):
        assert make_config(model, **option)["device"].type == "cpu"
    assert warned in caplog.text if warned else not caplog.records
