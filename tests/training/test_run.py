"""What a run is asked for, what it gives back, and what it refuses before it trains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from recbole.quick_start import run_recbole

from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.run import run
from tests.helpers.runs import arguments


@pytest.mark.parametrize("model", ["BERT4Rec", "SASRecPlus", "GRU4Rec"])
def test_a_result_has_recbole_s_dictionary_with_recbole_s_values(model: str, options: dict[str, Any]) -> None:
    options = {**options, "epochs": 2, "metric_decimal_place": 8}
    if model == "GRU4Rec":  # RecBole itself reads no times, and refuses its default with a softmax
        options |= {"train_neg_sample_args": None, "load_col": {"inter": ["user_id", "item_id", "timestamp"]}}
    asked = arguments(options)
    theirs = run_recbole(model=model, dataset=asked["dataset"], config_dict=dict(asked["options"]))
    result = run(model=model, **asked)
    assert result.to_dict() == theirs
    assert result.checkpoint == Path(result.record["checkpoint"])
    assert result.record_path == result.checkpoint.with_suffix(".json")
    assert result.checkpoint.is_file()


@pytest.mark.parametrize("model", ["BERT4Rec", "SASRec"])
def test_a_mistake_in_a_configuration_file_is_named_with_the_file_and_the_line(model: str) -> None:
    Path("a.yaml").write_text("epochs: two\nhidden_size: 16\nn_heads: x\n")
    Path("b.yaml").write_text("# mine\nhidden_size: small\nbase: &b {inner_size: y}\n<<: *b\nmask_ration: .3\n")
    with pytest.raises(UserError) as error:
        run(model=model, config_files=["a.yaml", "b.yaml", {"n_heads": "z"}], options={"n_layers": "deep"})
    places = {line.split("`")[1]: line.split("`")[0].strip() for line in str(error.value).splitlines()[1:]}
    del places["allow_unknown: True"]
    assert places == {
        "epochs": "a.yaml, line 1:",
        "hidden_size": "b.yaml, line 2:",
        "inner_size": "b.yaml:",
        "base": "b.yaml, line 3:",
        "mask_ration": "b.yaml, line 5:",
        "n_heads": "",
        "n_layers": "",
    }


LEAVE_ONE_OUT = {"split": {"LS": "valid_and_test"}, "order": "TO", "group_by": "user", "mode": "full"}
OTHER = {"protocols": ["other.yaml"]}
BAD: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"protocols": "protocol-paper.yaml"}, {}, "`protocols`"),
    ({"screen": "loud"}, {}, "'loud'"),
    ({"dataset": "nothere"}, {}, "nothere"),
    ({"model": "SASRec", "dataset": "nothere"}, {}, "nothere"),
    ({"dataset": "nothere"}, {"checkpoint_dir": "a file/x"}, "a file/x"),
    ({}, {"refit": "train+valid", "eval_args": {"split": {"LS": "valid_only"}}}, "`eval_args`"),
    ({}, {"refit": "train+valid", "benchmark_filename": ["a", "b", "c"]}, "`benchmark_filename`"),
    ({}, {"refit": "train+valid", "eval_step": 0}, "`eval_step`"),
    (OTHER | {"of_file": {"eval_args": {**LEAVE_ONE_OUT, "split": {"LS": "test_only"}}}}, {}, "test_only"),
    (OTHER | {"of_file": {"eval_args": {**LEAVE_ONE_OUT, "order": "RO"}}}, {}, "order"),
    (OTHER | {"of_file": {"exclude_seen": "often"}}, {}, "exclude_seen"),
    (OTHER | {"of_file": {"topk": [99]}}, {}, "topk"),
    (
        {"model": "SASRec"},
        {"exclude_seen": True, "eval_args": {**LEAVE_ONE_OUT, "split": {"RS": [0.4, 0.3, 0.3]}}},
        "valid targets",
    ),
]
READ_FIRST = ("nothere", "test_only", "order", "exclude_seen", "topk", "valid targets")
"""What is told only by the data, which a log file speaks of."""


@pytest.mark.parametrize(("more", "changed", "named"), BAD, ids=str)
def test_a_request_that_cannot_be_followed_is_refused_before_training(
    more: dict[str, Any],
    changed: dict[str, Any],
    named: str,
    options: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    more = dict(more)
    Path("a file").touch()
    Path("other.yaml").write_text(yaml.safe_dump(more.pop("of_file", {})))
    with pytest.raises(UserError, match=named):
        run(**{**arguments(options, load_col={"inter": ["user_id", "item_id", "timestamp"]}, **changed), **more})
    assert "epoch" not in capsys.readouterr().err
    assert not list(Path().glob("saved/*"))
    assert Path("log").exists() == (named in READ_FIRST)
