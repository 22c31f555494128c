"""What the paper's analyses need, as a user runs it: studies, training on with the validation items."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.helpers.programs import assert_main_refuses, flags_of, main_here, run_here

pytestmark = pytest.mark.integration


@pytest.mark.slow
def test_a_study_compares_its_variants_draws_them_along_the_axis_and_is_not_repeated(data: dict[str, str]) -> None:
    Path("heads.yaml").write_text("axis: n_heads\nvariants:\n  1 <head>: {n_heads: 1}\n  4 heads: {n_heads: 4}\n")
    command = ["--study=heads.yaml", "--seeds=2", *flags_of(data)]
    done = main_here(command, "compare")
    assert done.returncode == 0, done.stderr
    runs = pd.read_csv("heads-toy/runs.csv")
    assert list(runs["model"]) == ["1 <head>", "1 <head>", "4 heads", "4 heads"]
    assert list(runs["varied"]) == [1, 1, 4, 4]
    records = [json.loads(path.read_text()) for path in Path("heads-toy/runs").glob("*.json")]
    assert {record["contestant"]: record["config"]["n_heads"] for record in records} == {"1 <head>": 1, "4 heads": 4}
    for name in ("what-is-varied.png", "report.md", "table.tex"):
        assert (Path("heads-toy") / name).is_file()
    assert "1 &lt;head&gt; − 4 heads" in Path("heads-toy/report.md").read_text()
    assert "Variants, with what each sets: 1 &lt;head&gt; (n_heads: 1); 4 heads (n_heads: 4)" in Path(
        "heads-toy/report.md"
    ).read_text("utf-8")
    again = main_here(command, "compare")
    assert again.stdout.count("kept from before") == 4


@pytest.mark.slow
def test_a_variant_may_be_another_model(data: dict[str, str]) -> None:
    Path("mask.yaml").write_text(
        "variants:\n  one mask: {ft_ratio: 1.0}\n  SASRec: {model: SASRec, train_neg_sample_args: null}\n"
    )
    done = main_here(["--study=mask.yaml", "--output_dir=here", *flags_of(data)], "compare")
    assert done.returncode == 0, done.stderr
    records = [json.loads(path.read_text()) for path in Path("here/runs").glob("*.json")]
    assert {record["contestant"]: record["model"] for record in records} == {"one mask": "BERT4Rec", "SASRec": "SASRec"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--refit=train+valid", "--eval_args={'split': {'LS': 'valid_only'}}"), "needs `eval_args` split"),
        (("--refit=train+valid", "--benchmark_filename=['a','b','c']"), "but `benchmark_filename` gives parts"),
        (("--refit=train+valid", "--seeds=2"), "`refit` is for a single run"),
        (("--valid_users=9", "--seeds=2"), "`valid_users` is for a single run"),
        (("--refit=train+valid", "--epochs=0"), "`epochs` and `eval_step` must be above 0"),
        (("--refit=True",), "`refit` must be one of ['train+valid'], or null"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_mistakes_are_one_line(
    arguments: tuple[str, ...], words: str, data: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    options = {key: value for key, value in data.items() if f"--{key}" not in " ".join(arguments)}
    flags = [f"--{key}={value}" for key, value in {**options, "use_gpu": "False"}.items()]
    assert_main_refuses(capsys, [*arguments, *flags], [words])


@pytest.mark.slow
def test_refit_trains_with_the_validation_items_and_is_told_beside(data: dict[str, str]) -> None:
    plain = run_here(**data)
    assert plain.returncode == 0, plain.stderr
    (first,) = Path("saved").glob("BERT4Rec-*.json")
    before = json.loads(first.read_text())
    first.unlink()
    done = run_here("--refit=train+valid", **data)
    assert done.returncode == 0, done.stderr
    (path,) = Path("saved").glob("BERT4Rec-*.json")
    record = json.loads(path.read_text())
    assert record["test_result"] == before["test_result"]
    assert record["refit"]["epochs"] == record["best_epoch"] + 1
    assert set(record["refit"]["test_result"]) == set(record["test_result"])
    assert record["refit"]["test_result"] != record["test_result"]
    resumed = run_here(f"--resume={record['checkpoint']}", "--epochs=1", "--recommend=top.csv")
    assert resumed.returncode == 0, resumed.stderr
    assert "  refit       " not in resumed.stderr  # nothing was trained
    assert "  refit       " in done.stderr
    by_hand = {**data, "epochs": str(record["best_epoch"] + 1), "eval_args": "{'split':{'LS':'test_only'}}"}
    path.unlink()
    path.with_stem(f"{path.stem}-again-1").unlink()  # of the run that had nothing to train
    alone = run_here(**by_hand)
    assert alone.returncode == 0, alone.stderr
    (path,) = Path("saved").glob("BERT4Rec-*.json")
    assert json.loads(path.read_text())["test_result"] == record["refit"]["test_result"]
