"""What a run is asked for, and what it gives back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recbole.quick_start import run_recbole

from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.record import read_record
from recbole_bert4rec.training.run import run
from tests.helpers.runs import QUIET


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


BAD: list[tuple[dict[str, Any], str]] = [
    ({"protocols": "protocol-paper.yaml"}, "`protocols`"),
    ({"screen": "loud"}, "'loud'"),
    ({"model": "BERT4Rec", "dataset": "nothere"}, "nothere"),
    ({"model": "SASRec", "dataset": "nothere"}, "nothere"),
    ({"dataset": "nothere", "options": {"checkpoint_dir": "a file/x"}}, "a file/x"),
]


@pytest.mark.parametrize(("fields", "named"), BAD, ids=str)
def test_a_request_that_cannot_be_followed_is_refused_before_anything_is_said(
    fields: dict[str, Any], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("a file").touch()
    with pytest.raises(UserError, match=named):
        run(**fields)
    assert capsys.readouterr().err == ""
    assert not list(Path().rglob("*.log"))


@pytest.mark.parametrize("model", ["BERT4Rec", "SASRecPlus", "GRU4Rec"])
def test_a_result_has_recbole_s_dictionary_with_recbole_s_values_and_run_recbole_leaves_the_record_that_run_leaves(
    model: str, options: dict[str, Any]
) -> None:
    options = {**QUIET, **options, "epochs": 2, "metric_decimal_place": 8}
    if model == "GRU4Rec":  # RecBole itself reads no times, and refuses its default with a softmax
        options |= {"train_neg_sample_args": None, "load_col": {"inter": ["user_id", "item_id", "timestamp"]}}
    dataset = options.pop("dataset")
    theirs = run_recbole(model=model, dataset=dataset, config_dict=dict(options))
    records = [read_record(path) for path in Path("saved").glob("*.json")]
    result = run(model=model, dataset=dataset, options=options)
    assert result.to_dict() == theirs
    if model in ("BERT4Rec", "SASRecPlus"):
        (record,) = records
        assert "unfinished" not in record
        assert record.keys() == result.record.keys()
        assert record["test_result"] == theirs["test_result"]
        assert [row["valid"] for row in record["epochs"]] == [row["valid"] for row in result.record["epochs"]]
    assert result.checkpoint == Path(result.record["checkpoint"])
    assert result.record_path == result.checkpoint.with_suffix(".json")
    assert result.checkpoint.is_file()
