"""run.py with several models: fair, resumed, reported, and equal to each model run alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.helpers.programs import ROOT, assert_main_refuses, run_here

pytestmark = pytest.mark.integration


def compare(models: str, *more: str, **options: str) -> subprocess.CompletedProcess[str]:
    dataset = options.pop("dataset", "toy")
    return run_here(f"--model={models}", f"--dataset={dataset}", *more, **options)


def records(epochs: int = 2) -> dict[str, Any]:
    """Those of the runs so far, by model and seed."""
    found = [json.loads(path.read_text()) for path in Path("compare-toy/runs").glob("*.json")]
    return {f"{one['model']}-{one['seed']}": one for one in found if one["config"]["epochs"] == epochs}


@pytest.mark.slow
def test_a_comparison_equals_its_models_run_alone_and_is_not_repeated(data: dict[str, str]) -> None:
    done = compare("BERT4Rec,SASRec,GRU4Rec,Pop", **data)
    assert done.returncode == 0, done.stderr
    found = records()
    assert len(found) == 4
    about = json.loads(Path("compare-toy/comparison.json").read_text())
    assert about["dropped"] == 7
    for name in ("SASRec", "GRU4Rec", "BERT4Rec"):
        options = {**data, "user_inter_num_interval": "[4,inf)"}
        alone = run_here(f"--model={name}", "--dataset=toy", **{k: v for k, v in options.items() if k != "dataset"})
        assert alone.returncode == 0, alone.stderr
        (path,) = Path("saved").glob(f"{name}-*.json")
        record = json.loads(path.read_text())
        for part in ("best_valid_result", "test_result", "best_epoch"):
            assert record[part] == found[f"{name}-2020"][part]
        assert [e["train_loss"] for e in record["epochs"]] == [e["train_loss"] for e in found[f"{name}-2020"]["epochs"]]
        assert f"test {record['test_result']['mrr@10']:.4f}" in done.stdout
    check_reports()
    again = compare("BERT4Rec,SASRec,GRU4Rec,Pop", **data)
    assert again.stdout.count("kept from before") == 4
    assert {k: v["ended"] for k, v in records().items()} == {k: v["ended"] for k, v in found.items()}
    changed = compare("SASRec", "--seeds=1", **{**data, "epochs": "1"})
    assert "kept from before" not in changed.stdout
    assert len(records(epochs=1)["SASRec-2020"]["epochs"]) == 1
    assert records() == found, "runs with other options are kept"


def check_reports() -> None:
    folder = Path("compare-toy")
    text = (folder / "report.md").read_text()
    table = (folder / "table.tex").read_text()
    assert text.count("](learning-curves.png)") == 1
    assert (folder / "learning-curves.png").is_file()
    for model in ("BERT4Rec", "SASRec", "GRU4Rec", "Pop"):
        for report in (text, table):
            assert model in report
    assert "7 users with fewer than 4 interactions left out" in text
    assert r"\toprule" in table
    assert table.count(r"\textbf") >= 3, "hit, mrr and ndcg; recall and precision say the same as hit"
    assert str(ROOT) not in text + table
    (ranks_of_pop,) = (folder / "runs").glob("Pop-2020-*.parquet")
    ranks = pd.read_parquet(ranks_of_pop)
    assert sorted(ranks["user"]) == sorted(pd.read_parquet(folder / "rows.parquet")["user"])


@pytest.mark.slow
def test_a_killed_comparison_goes_on_where_it_was(data: dict[str, str]) -> None:
    flags = [f"--{key}={value}" for key, value in {**data, "use_gpu": "False"}.items()]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(ROOT / "run.py"), "--model=Pop", "--seeds=3", *flags]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 200
    while not list(Path("compare-toy/runs").glob("Pop-2020-*.json")):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = records()
    done = compare("Pop", "--seeds=3", **data)
    assert done.returncode == 0, done.stderr
    after = records()
    assert len(after) == 3
    assert done.stdout.count("kept from before") == len(before)
    assert all(after[name]["ended"] == before[name]["ended"] for name in before)


@pytest.mark.slow
def test_a_run_that_fails_is_named_and_the_others_are_reported(data: dict[str, str], tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("model: SASRec\nn_heads: 3\n")  # does not divide the hidden size
    done = compare("BERT4Rec,SASRec", f"--config_files={broken}", **data)
    assert done.returncode == 2
    assert "SASRec, seed 2020 failed: " in done.stdout
    assert "1 of 2 runs failed" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Failed: SASRec-2020" in Path("compare-toy/report.md").read_text()
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
    assert "SASRec reads other" in done.stderr
    assert not Path("compare-toy/runs").exists()


@pytest.mark.slow
def test_among_candidates_all_models_are_ranked(data: dict[str, str]) -> None:
    done = compare("BERT4Rec,Pop", "--eval_args={'mode':'pop5'}", **data)
    assert done.returncode == 0, done.stderr
    text = Path("compare-toy/report.md").read_text()
    assert "among 5 candidates (pop5)" in text
    found = records()
    assert found["Pop-2020"]["test_result"]["hit@10"] == found["BERT4Rec-2020"]["test_result"]["hit@10"] == 1.0


@pytest.mark.slow
def test_seen_items_are_left_out_for_all_within_a_budget(data: dict[str, str]) -> None:
    options = {key: value for key, value in data.items() if key != "epochs"}
    done = compare("BERT4Rec,Pop", "--budget=3s", exclude_seen="True", **options)
    assert done.returncode == 0, done.stderr
    text = Path("compare-toy/report.md").read_text()
    assert "seen items left out" in text
    assert "Budget: 3 s a run" in text
    assert 2 < records(epochs=1_000_000)["BERT4Rec-2020"]["seconds"]["train"] < 20


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--model=BERT4Rec,SARec",), ("no model 'SARec'", "SASRec")),
        (("--model=Pop,Pop",), ("names the model Pop twice",)),
        (("--model=Pop,",), ("empty name",)),
        (("--model=Pop,BERT4Rec", "--budget=2"), ("--budget=2", "10m")),
        (("--model=Pop,BERT4Rec", "--seeds=0"), ("--seeds=0", "at least 1")),
        (("--model=Pop,BERT4Rec", "--recommend=top.csv"), ("--recommend", "single run")),
        (("--model=Pop,BERT4Rec", "--nproc=2"), ("--nproc",)),
        (("--model=Pop,BERT4Rec", "--seed=x"), ("--seed=x", "whole number")),
        (("--model=Pop", "--output_dir=x"), ("--output_dir",)),
        (("--model=Pop,BERT4Rec", "--mask_ratio=2"), ("mask_ratio",)),
        (("--model=Pop,BERT4Rec", "--epochs=0"), ("`epochs` must be at least 1",)),
        (("--model=Pop,BERT4Rec", f"--output_dir={__file__}"), ("is no folder",)),
        pytest.param(
            ("--model=Pop,BERT4Rec", "--eval_args={'split':{'RS':[0.8,0.1,0.1]}}"),
            ("leave-one-out",),
            marks=pytest.mark.slow,  # the data are read first
        ),
    ],
)
def test_mistakes_are_one_line(
    arguments: tuple[str, ...], words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert_main_refuses(capsys, [*arguments, "--dataset=ml-100k", "--use_gpu=False"], list(words))


@pytest.mark.slow
def test_models_are_compared_after_one_moment_and_trained_on_windows(data: dict[str, str]) -> None:
    done = compare(
        "BERT4RecPlus,SASRecPlus,SASRec,Pop",
        "--config_files=protocol-global-time.yaml",
        **{**data, "training_rows": "user", "eval_args": "{'split': {'GT': {'quantile': 0.7}}, 'order': 'TO'}"},
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert len(records()) == 4
    text = Path("compare-toy/report.md").read_text()
    assert "Split: {'GT': {'quantile': 0.7}}" in text


@pytest.mark.slow
def test_models_are_tested_under_further_protocols_beside(data: dict[str, str]) -> None:
    Path("few.yaml").write_text("eval_args: {mode: pop5}\ncandidates: paper\ntopk: [3]\nvalid_metric: MRR@3\n")
    flag = "--also_test=protocol-full-unseen.yaml few.yaml"
    done = compare("BERT4Rec,Pop", flag, **{**data, "epochs": "1"})
    assert done.returncode == 0, done.stderr
    report = Path("compare-toy/report.md").read_text()
    for name in ("protocol-full-unseen.yaml", "few.yaml"):
        assert f"## The same models under {name}" in report
    for record in records(epochs=1).values():
        assert "mrr@3" in record["also"]["few.yaml"]
    again = compare("BERT4Rec,Pop", flag, **{**data, "epochs": "1"})
    assert again.stdout.count("kept from before") == 2
    without = compare("Pop", "--seeds=1", **{**data, "epochs": "1"})
    assert "kept from before" not in without.stdout


UNGUARDED = {
    "compare": "compare(Comparison(['Pop', 'BERT4Rec'], 'toy', options=OPTIONS), Path('together'))",
    "tune": "tune(SearchRequest(Task('BERT4Rec', 'toy', fixed=OPTIONS), 'a.hyper'))",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", UNGUARDED)
def test_a_script_without_a_main_guard_is_told_of_it(name: str, data: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "a.hyper").write_text("mask_ratio choice [0.2]\n")
    (tmp_path / "mine.py").write_text(
        "from pathlib import Path\nfrom recbole_bert4rec import Comparison, SearchRequest, compare, tune\n"
        f"from recbole_bert4rec.tuning.objective import Task\nOPTIONS = {data | {'show_progress': 'False'}!r}\n"
        f"{UNGUARDED[name]}\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "mine.py"], capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("recbole_bert4rec.system.errors.UserError: ")
    assert 'if __name__ == "__main__":' in done.stderr.splitlines()[-1]
    assert done.stderr.count("Traceback") == 1
