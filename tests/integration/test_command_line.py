"""run.py as a user runs it: exit codes, log lines, record, recommendations, and mistakes in one line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pandas as pd
import pytest
import torch

from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.build import read_dataset, translate_errors
from recbole_bert4rec.training.recommending import recommender_of
from recbole_bert4rec.training.run import run
from tests.helpers.programs import ROOT, assert_main_refuses, assert_refused, run_here, run_py
from tests.helpers.runs import QUIET, make_config, make_trainer, prepare

ROWS = [(f"user-{u}", f"item-{(u * t + t) % 23}", t) for u in range(1, 31) for t in range(3 + u % 12)]
CYCLE = [(f"u{u}", f"i{(u * 5 + t) % 40}", t) for u in range(80) for t in range(6 + u % 5)]
pytestmark = pytest.mark.integration


def test_one_epoch_of_ml_100k_ends_with_metrics_summary_record_and_recommendations() -> None:
    done = run_py("--model=BERT4Rec", "--dataset=ml-100k", "--recommend=top.csv", "--k=5", epochs="1")
    assert done.returncode == 0, done.stderr
    (log,) = Path("log/BERT4Rec").glob("*.log")
    everything = log.read_text()
    recboles = ("epoch 0 training", "epoch 0 evaluating", "valid result", "Saving current", "best valid", "test result")
    for line in (*recboles, "train_batch_size = 1000", "(item_embedding): Embedding", "FLOPs"):
        assert line in everything
        assert line not in done.stderr
    for line in (
        "users   943 in training, 943 in validation, 943 in the test, 0 in none of them",
        "parameters, ",
        "epoch 0 of 1  loss ",
        "BERT4Rec on ml-100k, seed 2020: 1 epoch, best epoch 0",
    ):
        assert line in done.stderr
    assert len(done.stderr.splitlines()) < 30
    assert "Warning" not in done.stderr
    (path,) = Path("saved").glob("BERT4Rec-*.json")
    record = json.loads(path.read_text())
    assert record["test_result"]["ndcg@10"] > 0
    assert record["epochs"][0]["valid"]["ndcg@10"] == record["best_valid_result"]["ndcg@10"]
    assert record["config"]["mask_ratio"] > 0
    assert record["versions"]["recbole"] == "1.2.1"
    assert record["machine"]["cores"] == os.cpu_count()
    assert record["peak_memory_mb"] > 100
    assert torch.load(record["checkpoint"], weights_only=True)["epoch"] == 0
    table = pd.read_csv("top.csv", dtype=str)
    assert list(table.columns) == ["user_id", "item_id", "rank", "score"]
    assert len(table) == 943 * 5


@pytest.mark.slow
@pytest.mark.parametrize("model", ["SASRec", "GRU4Rec", "Pop", "RecBoleBERT4Rec"])
def test_other_models_run_to_the_end(model: str, write_inter: Any) -> None:
    options = write_inter(ROWS)
    done = run_here(f"--model={model}", epochs="1", train_batch_size="16", **options)
    assert done.returncode == 0, done.stderr
    assert f"{model} on toy" in done.stderr
    (path,) = Path("saved").glob(f"{model}-*.json")
    assert "ndcg@10" in json.loads(path.read_text())["test_result"]


@pytest.mark.slow
def test_two_processes_train_together_on_the_cpu(write_inter: Any) -> None:
    options = {**write_inter(CYCLE), "epochs": "8", "batch_sequences": "16", "learning_rate": "0.01"}
    done = run_py("--nproc=2", **options)
    assert done.returncode == 0, done.stderr
    (path,) = Path("saved").glob("*.json")
    record = json.loads(path.read_text())
    assert "BERT4Rec on toy" in done.stderr
    losses = [row["train_loss"] for row in record["epochs"]]
    assert losses[-1] < 0.9 * losses[0]
    assert record["test_result"]["hit@10"] > 0.3


@pytest.mark.slow
def test_two_processes_of_another_model_read_the_one_checkpoint(
    write_inter: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_here("--model=GRU4Rec", "--nproc=2", epochs="2", **write_inter(ROWS)).returncode == 0
    assert "GRU4Rec on toy" in capfd.readouterr().err


@pytest.mark.slow
def test_a_mistake_under_two_processes_is_refused_too(write_inter: Any) -> None:
    done = run_here("--nproc=2", mask_ratio="7", **write_inter(ROWS))
    assert_refused(done, "the configuration of BERT4Rec has mistakes", "`mask_ratio` must be")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--mask_ratoi=0.3"], ["`mask_ratoi`: did you mean `mask_ratio`?"]),
        (["--mask_ratio=1.5", "--n_layers=0"], ["`mask_ratio` must be", "`n_layers` must be"]),
        (["--hidden_size=64", "--n_heads=3"], ["`hidden_size` must be divisible by `n_heads`"]),
        (
            ["--loss_type=XYZ"],
            ["`loss_type` must be one of ['CE', 'BPR',", "or auto, but is 'XYZ' instead"],
        ),
        (["--dataset=nowhere"], ["folder", "nowhere does not exist", "--data_path"]),
        (["--model=BERT5Rec"], ["there is no model 'BERT5Rec'; did you mean BERT4Rec?"]),
        (["--wandb_project"], ["argument '--wandb_project' is not understood; options are written --key=value"]),
        (["epochs=3"], ["argument 'epochs=3' is not understood; options are written --key=value"]),
        (["--topk=abc"], ["`topk` must be a list such as [1, 2], or a whole number, or null, but is 'abc' instead"]),
        (["--config_files=none.yaml"], ["there is no file none.yaml; the names of properties/recipe are best-b"]),
        (["--config_files=best-ml1m.yaml"], ["did you mean best-ml-1m.yaml?"]),
        (["--metrics=['Nonsense']"], ["Nonsense"]),
        (["--recommend=folder/that/is/missing/x.csv"], ["does not exist"]),
        (["--recommend=x.txt"], ["must name a .csv or .parquet file, but is 'x.txt'"]),
        (["--recommend=x.csv", "--model=Pop"], ["--recommend works with BERT4Rec, BERT4RecPlus, SASRecPlus only"]),
        (["--recommend=x.csv", "--k=0"], ["--k must be at least 1, but is 0"]),
        (["--resume=missing.pth"], ["checkpoint missing.pth does not exist"]),
        (["--model=SASRec", "--metrics=['NDCG']"], ["`valid_metric` must be one of `metrics` ['NDCG']"]),
        pytest.param(["--nproc=2", "--model=BERT5Rec"], ["did you mean BERT4Rec?"], marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_mistake_gets_one_clear_line_and_a_non_zero_exit(
    arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert_main_refuses(capsys, arguments, words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mask_ratio: [0.2\nft_ratio: 1", ["bad.yaml cannot be read", "line 2"]),
        ("just words", ["bad.yaml must hold lines of `key: value`, but holds 'just words'"]),
        ("\x00\x01", ["bad.yaml cannot be read"]),
    ],
    ids=["syntax", "words", "binary"],
)
def test_an_unreadable_yaml_is_named_with_its_line(
    text: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad.yaml").write_text(text)
    assert_main_refuses(capsys, ["--config_files=bad.yaml"], words)


def test_a_file_of_comments_alone_changes_nothing(write_inter: Any) -> None:
    Path("mine.yaml").write_text("# epochs: 3\n")
    options = {**QUIET, **write_inter(ROWS), "hidden_size": 16, "epochs": 1}
    dataset = options.pop("dataset")
    assert len(run(dataset=dataset, options=options, config_files=["mine.yaml"]).record["epochs"]) == 1


def test_a_mistake_shows_no_traceback_to_the_shell() -> None:
    assert_refused(run_py("--mask_ratoi=0.3", n_layers="0"), "did you mean `mask_ratio`?", "`n_layers` must be")


def test_a_broken_data_file_is_named_and_nothing_is_written(
    write_inter: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {**write_inter([*ROWS[:3], ("u", "i", "soon")]), "use_gpu": "False", "show_progress": "False"}
    flags = [f"--{key}={value}" for key, value in options.items()]
    assert_main_refuses(capsys, flags, ["toy.inter, line 5", "must be a number, but is 'soon'"])


def test_python_m_run_does_the_same_from_any_folder() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "recbole_bert4rec", "run", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0
    assert "--recommend FILE" in done.stdout


def test_an_interrupted_run_is_resumed_to_the_same_end(write_inter: Any) -> None:
    """A run stopped after its best epoch: the checkpoint alone says which options to go on with."""
    options = {**QUIET, **write_inter(CYCLE), "hidden_size": 16, "stopping_step": 100, "metric_decimal_place": 8}
    options |= {"learning_rate": 0.02, "epochs": 12}
    dataset = options.pop("dataset")
    whole = run(model="BERT4Rec", dataset=dataset, options=options).record
    stopped = [row["valid_score"] for row in whole["epochs"][:4]]
    best = max(range(4), key=lambda epoch: (stopped[epoch], epoch))
    assert best < 11

    config = make_config(**options, dataset=dataset)
    _, train, valid, _ = prepare(config)
    trainer = make_trainer(config, train)
    with pytest.raises(StopRun):
        trainer.fit(train, valid, verbose=False, callback_fn=stop_after(best))
    Path(trainer.saved_model_file).rename("stopped.pth")
    resumed = run(resume="stopped.pth").record
    assert [row["epoch"] for row in resumed["epochs"]] == list(range(best + 1, 12))
    assert [row["valid"] for row in resumed["epochs"]] == [row["valid"] for row in whole["epochs"][best + 1 :]]
    for key in ("best_epoch", "best_valid_result", "test_result"):
        assert resumed[key] == whole[key]


def test_a_finished_run_is_ranked_in_another_way_into_a_record_of_its_own(write_inter: Any) -> None:
    options = {**QUIET, **write_inter(CYCLE), "hidden_size": 16, "epochs": 2, "metric_decimal_place": 8}
    dataset = options.pop("dataset")
    first = run(model="BERT4Rec", dataset=dataset, options=options)
    before = first.record_path.read_text()
    file = str(first.checkpoint)
    again = run(resume=file, options={"epochs": 1, "logit_adjustment": 50.0})
    assert first.record_path.read_text() == before
    assert again.record_path.stem == f"{first.checkpoint.stem}-again-1"
    for key in ("best_valid_result", "test_result"):
        assert getattr(again, key) != getattr(first, key)
    same = run(resume=file, options={"epochs": 1})
    assert same.record_path.name.endswith("-again-2.json")
    for key in ("best_valid_result", "test_result"):
        assert getattr(same, key) == getattr(first, key)


def stop_after(last: int) -> Any:
    def callback(epoch: int, score: float) -> None:
        if epoch == last:
            raise StopRun

    return callback


class StopRun(Exception):
    pass


def test_a_model_and_data_set_named_in_a_config_file_are_used(write_inter: Any) -> None:
    options = write_inter(ROWS)
    Path("all.yaml").write_text(
        f"model: Pop\ndataset: {options['dataset']}\ndata_path: {options['data_path']}\nepochs: 1\n"
    )
    record = run(config_files=["all.yaml"], options=QUIET).record
    assert (record["model"], record["dataset"]) == ("Pop", "toy")


def test_a_record_is_valid_json_whatever_the_metrics(write_inter: Any) -> None:
    options = {**QUIET, **write_inter(ROWS), "epochs": 1, "metrics": ["GAUC", "NDCG"], "valid_metric": "GAUC"}
    dataset = options.pop("dataset")
    record = json.loads(run(model="BERT4Rec", dataset=dataset, options=options).record_path.read_text())
    assert 0 < record["test_result"]["gauc"] < 1
    unvalidated = run(model="BERT4Rec", dataset=dataset, options={**options, "eval_step": 0})
    assert json.loads(unvalidated.record_path.read_text())["best_valid_score"] is None


def test_recommendations_are_the_best_unseen_items_of_the_whole_history(write_inter: Any) -> None:
    config = make_config(hidden_size=16, MAX_ITEM_LIST_LENGTH=6, **write_inter(ROWS))
    dataset, train, _, _ = prepare(config)
    model = make_trainer(config, train).model
    table = recommender_of(model, dataset).recommend(k=4, filter_viewed=True)
    history = pd.DataFrame(ROWS, columns=["user", "item", "time"])
    assert set(table["user_id"]) == set(history["user"])  # every user, those without training rows too
    for user, items in history.groupby("user")["item"]:
        best = table[table["user_id"] == user]
        internal = torch.tensor(dataset.token2id("item_id", items.tolist()))
        with torch.no_grad():
            scores = model.encoder.scores(model.encode(internal[None, -5:], torch.tensor([min(5, len(items))]))[0])[0]
        scores[[0, *internal.tolist()]] = -np.inf
        wanted = dataset.field2id_token["item_id"][scores.topk(4).indices.numpy()]
        assert best["item_id"].tolist() == wanted.tolist()
        assert best["rank"].tolist() == [1, 2, 3, 4]
        np.testing.assert_allclose(best["score"], scores.topk(4).values, rtol=1e-4)


def test_a_user_who_has_seen_nearly_all_gets_fewer_recommendations(write_inter: Any) -> None:
    rows = [("all", f"i{t}", t) for t in range(9)] + [
        (f"u{u}", f"i{(u + t) % 10}", t) for u in range(9) for t in range(5)
    ]
    config = make_config(hidden_size=16, **write_inter(rows))
    dataset, train, _, _ = prepare(config)
    table = recommender_of(make_trainer(config, train).model, dataset).recommend(k=3, filter_viewed=True)
    assert table[table["user_id"] == "all"]["item_id"].tolist() == ["i9"]


def test_a_download_that_fails_is_one_line() -> None:
    with pytest.raises(UserError, match=r"data set 'ml-1m' is not here and cannot be downloaded \(.*\); write it to x"):
        translate_errors(lambda: urlopen("http://127.0.0.1:9/ml-1m.zip"), "data set 'ml-1m'", "x")


def test_a_data_set_that_is_not_here_says_where_to_write_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urllib.request, "_opener", None)  # it would keep the proxies of an earlier call
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    config = make_config(dataset="ml-1m", data_path=str(tmp_path))
    file = re.escape(str(tmp_path / "ml-1m" / "ml-1m.inter"))
    with pytest.raises(UserError, match=rf"data set 'ml-1m' is not here .*; write it to {file}"):
        read_dataset(config)
