"""Labels and the metrics that need them, with models of RecBole: one line where RecBole could only raise."""

from __future__ import annotations

from typing import Any

import pytest

from recbole_bert4rec import run
from recbole_bert4rec.cli.main import main
from recbole_bert4rec.system.errors import UserError
from tests.helpers.runs import QUIET

ROWS = [(f"u{u}", f"i{(u * t + t) % 13}", t, (u + t) % 5) for u in range(1, 13) for t in range(4 + u % 5)]
HEADER = "user_id:token\titem_id:token\ttimestamp:float\trating:float"
COLUMNS = ["user_id", "item_id", "timestamp"]
RATED = {"load_col": {"inter": [*COLUMNS, "rating"]}, "threshold": {"rating": 3}}
BARE = {"load_col": {"inter": COLUMNS}}
AUC = {"metrics": ["AUC", "LogLoss"], "valid_metric": "AUC"}
NDCG = {"metrics": ["NDCG"], "valid_metric": "NDCG@10"}
DRAWN = {"train_neg_sample_args": {"distribution": "uniform"}}


def mode(of: Any, **split: Any) -> dict[str, Any]:
    split = split or {"RS": [0.6, 0.2, 0.2]}
    return {"eval_args": {"split": split, "order": "TO", "group_by": "user", "mode": of}}


def trained(write_inter: Any, model: str, **options: Any) -> Any:
    small = {"epochs": 1, "embedding_size": 8, "hidden_size": 8, "inner_size": 8, "n_heads": 1, "allow_unknown": True}
    options = {**QUIET, **small, **write_inter(ROWS, header=HEADER), **options}
    return run(model=model, dataset=options.pop("dataset"), options=options)


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (
            "SASRec",
            {**RATED, **NDCG, **mode("labeled")},
            r"mode labeled .* but they are \['NDCG'\]; these need mode full",
        ),
        ("BPR", {**RATED, **NDCG, **mode({"valid": "full", "test": "labeled"})}, "mode labeled judges single scores"),
        ("Pop", {**RATED, **NDCG, **mode({"valid": "labeled", "test": "full"})}, "mode labeled judges single scores"),
        ("SASRec", {**BARE, **AUC, **mode("labeled")}, r"mode labeled needs a column 'label' \(LABEL_FIELD\)"),
        ("DeepFM", BARE, r"mode labeled needs a column 'label' \(LABEL_FIELD\): name it in load_col"),
        (
            "DeepFM",
            {**BARE, **NDCG, **mode("full")},
            "DeepFM learns from a column 'label' .* which the data do not have",
        ),
        (
            "NeuMF",
            {**BARE, **NDCG, **mode("full"), "train_neg_sample_args": None},
            "NeuMF learns from a column 'label'",
        ),
    ],
)
def test_what_could_only_end_in_an_exception_of_recbole_is_one_line(
    write_inter: Any, model: str, options: dict[str, Any], words: str
) -> None:
    options = {"train_neg_sample_args": None, **options} if model == "SASRec" else options
    with pytest.raises(UserError, match=words):
        trained(write_inter, model, **options)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("SASRec", {**RATED, **AUC, **mode("labeled"), "train_neg_sample_args": None}),
        (
            "SASRec",
            {**RATED, "metrics": "RMSE", "valid_metric": "RMSE", **mode("labeled"), "train_neg_sample_args": None},
        ),
        ("Pop", {**RATED, **AUC, **mode("labeled")}),
        ("BPR", {**BARE, **AUC, **mode("uni5")}),  # candidates are labelled as they are drawn
        ("BPR", {**BARE, **NDCG, **mode("uni5")}),
        ("BPR", {**BARE, **NDCG, **mode({"valid": "full", "test": "labeled"}, LS="valid_only")}),
        ("BPR", {**BARE, **NDCG, **mode({"valid": "labeled", "test": "full"}), "eval_step": 0}),
        ("BPR", {**BARE, **NDCG, **mode({"valid": "labeled", "test": "full"}), "epochs": 0}),
        ("BPR", {**BARE, "metrics": ["RMSE"], "valid_metric": "RMSE", "LABEL_FIELD": "timestamp", **mode("labeled")}),
        ("DeepFM", RATED),
        ("DeepFM", {**BARE, **NDCG, **mode("full"), **DRAWN}),
        ("DeepFM", {**BARE, **AUC, **mode("uni5"), **DRAWN}),
    ],
)
def test_what_recbole_runs_is_run(write_inter: Any, model: str, options: dict[str, Any]) -> None:
    trained(write_inter, model, **options)


def test_a_log_without_labels_ends_a_model_that_needs_them_with_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    with open("log.csv", "w") as file:
        file.write("\n".join(["user_id,item_id,timestamp", *(f"{u},{i},{t}" for u, i, t, _ in ROWS)]) + "\n")
    assert main(["run", "--model=DeepFM", "--dataset=log.csv", "--epochs=1"]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert "mode labeled needs a column 'label'" in line


def test_a_key_error_of_a_model_that_has_its_labels_stays_as_it_is(
    write_inter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise KeyError("label")

    monkeypatch.setattr("recbole.model.context_aware_recommender.deepfm.DeepFM.calculate_loss", fails)
    with pytest.raises(KeyError):
        trained(write_inter, "DeepFM", **RATED)
