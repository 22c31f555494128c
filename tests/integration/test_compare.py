"""run.py with several models: fair, not repeated, reported, and equal to each model run alone; and studies."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.helpers.programs import ENVIRONMENT, ROOT, assert_main_refuses, flags_of, main_here, run_here

pytestmark = pytest.mark.integration
FEW = "eval_args: {mode: pop5}\ncandidates: paper\ntopk: [3]\nvalid_metric: MRR@3\n"


def compare(models: str, *more: str, **options: str) -> subprocess.CompletedProcess[str]:
    return run_here(f"--model={models}", *more, **options)


def records(epochs: int = 2) -> dict[str, Any]:
    """Those of the runs so far, by model and seed."""
    found = [json.loads(path.read_text()) for path in Path("compare-toy/runs").glob("*.json")]
    return {f"{one['model']}-{one['seed']}": one for one in found if one["config"]["epochs"] == epochs}


@pytest.mark.slow
def test_a_comparison_equals_its_models_run_alone_and_is_not_repeated(data: dict[str, str]) -> None:
    Path("few.yaml").write_text(FEW)
    protocols = "--protocols=protocol-full-unseen.yaml few.yaml"
    done = compare("BERT4Rec,GRU4Rec,Pop", protocols, **data)
    assert done.returncode == 0, done.stderr
    found = records()
    assert len(found) == 3
    about = json.loads(Path("compare-toy/comparison.json").read_text())
    assert about["dropped"] == 7
    for name in ("GRU4Rec", "BERT4Rec"):
        alone = run_here(f"--model={name}", **{**data, "user_inter_num_interval": "[4,inf)"})
        assert alone.returncode == 0, alone.stderr
        (path,) = Path("saved").glob(f"{name}-*.json")
        record = json.loads(path.read_text())
        for part in ("best_valid_result", "test_result", "best_epoch"):
            assert record[part] == found[f"{name}-2020"][part]
        assert [e["train_loss"] for e in record["epochs"]] == [e["train_loss"] for e in found[f"{name}-2020"]["epochs"]]
    assert all("mrr@3" in record["also"]["few.yaml"] for record in found.values())
    check_reports()
    again = compare("BERT4Rec,GRU4Rec,Pop", protocols, **data)
    assert again.stdout.count("kept from before") == 3
    assert {k: v["ended"] for k, v in records().items()} == {k: v["ended"] for k, v in found.items()}
    for words, options in (([], data), ([protocols], {**data, "epochs": "1"})):  # these are other runs
        changed = compare("Pop", "--seeds=1", *words, **options)
        assert changed.returncode == 0, changed.stderr
        assert "kept from before" not in changed.stdout
    assert len(records(epochs=1)["Pop-2020"]["epochs"]) == 1
    assert len(list(Path("compare-toy/runs").glob("*.json"))) == 5, "runs with other options are kept"


def check_reports() -> None:
    folder = Path("compare-toy")
    text = (folder / "report.md").read_text()
    table = (folder / "table.tex").read_text()
    assert (folder / "learning-curves.png").is_file()
    for model in ("BERT4Rec", "GRU4Rec", "Pop"):
        assert model in text
        assert model in table
    assert table.count(r"\textbf") >= 3, "hit, mrr and ndcg; recall and precision say the same as hit"
    assert str(ROOT) not in text + table
    (ranks_of_pop,) = (folder / "runs").glob("Pop-2020-*.parquet")
    ranks = pd.read_parquet(ranks_of_pop)
    users = sorted(pd.read_parquet(folder / "rows.parquet")["user"])
    assert all(sorted(of_protocol["user"]) == users for _, of_protocol in ranks.groupby("protocol"))


@pytest.mark.slow
def test_a_run_that_fails_is_named_even_if_quiet_and_the_others_are_reported(
    data: dict[str, str], tmp_path: Path
) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("model: SASRec\nn_heads: 3\n")  # does not divide the hidden size
    done = compare("BERT4Rec,SASRec", f"--config_files={broken}", "--quiet", **data)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: 1 of 2 ")
    assert "Traceback" not in done.stderr
    assert "SASRec-2020" in Path("compare-toy/report.md").read_text()
    mended = compare("BERT4Rec,SASRec", **data)
    assert mended.returncode == 0, mended.stderr
    assert mended.stdout.count("kept from before") == 1


@pytest.mark.slow
def test_a_model_that_reads_the_data_its_own_way_is_refused_before_any_training(
    data: dict[str, str], tmp_path: Path
) -> None:
    other = tmp_path / "other.yaml"
    other.write_text('model: SASRec\nitem_inter_num_interval: "[9,inf)"\n')
    done = compare("GRU4Rec,SASRec", f"--config_files={other}", **data)
    assert done.returncode == 2
    assert "SASRec" in done.stderr
    assert not Path("compare-toy/runs").exists()


@pytest.mark.slow
def test_all_models_are_ranked_among_candidates_within_a_budget(data: dict[str, str]) -> None:
    options = {key: value for key, value in data.items() if key != "epochs"}
    done = compare("BERT4Rec,Pop", "--eval_args={'mode':'pop5'}", "--budget=2s", **options)
    assert done.returncode == 0, done.stderr
    found = records(epochs=1_000_000)
    assert found["Pop-2020"]["test_result"]["hit@10"] == found["BERT4Rec-2020"]["test_result"]["hit@10"] == 1.0
    assert 1 < found["BERT4Rec-2020"]["seconds"]["train"] < 20


@pytest.mark.slow
def test_a_study_compares_its_variants_draws_them_along_the_axis_and_is_not_repeated(data: dict[str, str]) -> None:
    Path("heads.yaml").write_text("axis: n_heads\nvariants:\n  1 <head>: {n_heads: 1}\n  4 heads: {n_heads: 4}\n")
    command = ["--study=heads.yaml", "--seeds=2", *flags_of(data)]
    done = main_here(command, "compare")
    assert done.returncode == 0, done.stderr
    runs = pd.read_csv("heads-toy/runs.csv")
    assert list(runs["model"]) == ["1 <head>", "1 <head>", "4 heads", "4 heads"]
    assert list(runs["varied"]) == [1, 1, 4, 4]
    for label, names in json.loads(Path("heads-toy/comparison.json").read_text())["runs"].items():
        for name in names:
            config = json.loads(Path("heads-toy", "runs", f"{name}.json").read_text())["config"]
            assert config["n_heads"] == int(label[0])
    for name in ("what-is-varied.png", "report.md", "table.tex"):
        assert (Path("heads-toy") / name).is_file()
    assert "1 &lt;head&gt;" in Path("heads-toy/report.md").read_text("utf-8")
    again = main_here(command, "compare")
    assert again.stdout.count("kept from before") == 4


@pytest.mark.slow
def test_a_script_without_a_main_guard_is_told_of_it(data: dict[str, str]) -> None:
    Path("mine.py").write_text(
        f"from recbole_bert4rec import compare\ncompare(['Pop', 'BERT4Rec'], 'toy', {data!r}, folder='together')\n"
    )
    done = subprocess.run(
        [sys.executable, "mine.py"], capture_output=True, text=True, env=ENVIRONMENT, timeout=300, check=False
    )
    assert done.returncode == 1
    assert "__main__" in done.stderr.splitlines()[-1]
    assert done.stderr.count("Traceback") == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--model=BERT4Rec,SARec",), "SASRec"),
        (("--model=Pop,Pop",), "Pop"),
        (("--model=Pop,BERT4Rec", "--budget=2"), "--budget: '2'"),
        (("--model=Pop,BERT4Rec", "--recommend=top.csv"), "--recommend"),
        (("--model=Pop,BERT4Rec", "--refit=train+valid"), "`refit`"),
        (("--model=Pop,BERT4Rec", "--valid_users=9"), "`valid_users`"),
        (("--model=Pop,BERT4Rec", "--mask_ratio=2"), "`mask_ratio`"),
        (("--model=Pop,BERT4Rec", "--epochs=0"), "`epochs`"),
        (("--model=Pop,BERT4Rec", f"--output_dir={__file__}"), __file__),
        (("--model=Pop,BERT4Rec", "--eval_args={'split':{'RS':[0.8,0.1,0.1]}}"), "leave-one-out"),
    ],
)
def test_mistakes_are_one_line(arguments: tuple[str, ...], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert_main_refuses(capsys, [*arguments, "--dataset=ml-100k", "--use_gpu=False"], [named])
