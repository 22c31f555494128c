"""run.py with several models: fair, resumed, reported, and equal to each model run alone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.helpers.programs import ENVIRONMENT, ROOT, assert_main_refuses, flags_of, run_here, wait_for

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
    assert (folder / "learning-curves.png").is_file()
    for model in ("BERT4Rec", "SASRec", "GRU4Rec", "Pop"):
        assert model in text
        assert model in table
    assert table.count(r"\textbf") >= 3, "hit, mrr and ndcg; recall and precision say the same as hit"
    assert str(ROOT) not in text + table
    (ranks_of_pop,) = (folder / "runs").glob("Pop-2020-*.parquet")
    ranks = pd.read_parquet(ranks_of_pop)
    assert sorted(ranks["user"]) == sorted(pd.read_parquet(folder / "rows.parquet")["user"])


@pytest.mark.slow
def test_a_killed_comparison_goes_on_where_it_was(data: dict[str, str]) -> None:
    command = [sys.executable, str(ROOT / "run.py"), "--model=Pop", "--seeds=3", *flags_of(data)]
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: list(Path("compare-toy/runs").glob("Pop-2020-*.parquet")))  # which is written last
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = {name: record for name, record in records().items() if "unfinished" not in record}
    done = compare("Pop", "--seeds=3", **data)
    assert done.returncode == 0, done.stderr
    after = records()
    assert len(after) == 3
    assert done.stdout.count("kept from before") == len(before) > 0
    assert all(after[name]["ended"] == before[name]["ended"] for name in before)


@pytest.mark.slow
def test_a_run_that_fails_is_named_and_the_others_are_reported(data: dict[str, str], tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("model: SASRec\nn_heads: 3\n")  # does not divide the hidden size
    done = compare("BERT4Rec,SASRec", f"--config_files={broken}", **data)
    assert done.returncode == 2
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
    done = compare("BERT4Rec,Pop", "--eval_args={'mode':'pop5'}", "--budget=3s", **options)
    assert done.returncode == 0, done.stderr
    found = records(epochs=1_000_000)
    assert found["Pop-2020"]["test_result"]["hit@10"] == found["BERT4Rec-2020"]["test_result"]["hit@10"] == 1.0
    assert 2 < found["BERT4Rec-2020"]["seconds"]["train"] < 20


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
        pytest.param(
            ("--model=Pop,BERT4Rec", "--eval_args={'split':{'RS':[0.8,0.1,0.1]}}"),
            "leave-one-out",
            marks=pytest.mark.slow,  # the data are read first
        ),
    ],
)
def test_mistakes_are_one_line(arguments: tuple[str, ...], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert_main_refuses(capsys, [*arguments, "--dataset=ml-100k", "--use_gpu=False"], [named])


@pytest.mark.slow
def test_models_are_tested_under_further_protocols_beside(data: dict[str, str]) -> None:
    Path("few.yaml").write_text("eval_args: {mode: pop5}\ncandidates: paper\ntopk: [3]\nvalid_metric: MRR@3\n")
    flag = "--protocols=protocol-full-unseen.yaml few.yaml"
    done = compare("BERT4Rec,Pop", flag, **{**data, "epochs": "1"})
    assert done.returncode == 0, done.stderr
    for record in records(epochs=1).values():
        assert "mrr@3" in record["also"]["few.yaml"]
    again = compare("BERT4Rec,Pop", flag, **{**data, "epochs": "1"})
    assert again.stdout.count("kept from before") == 2
    without = compare("Pop", "--seeds=1", **{**data, "epochs": "1"})
    assert "kept from before" not in without.stdout


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
