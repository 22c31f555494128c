"""run.py as a user runs it: exit codes, log lines, record, recommendations, and mistakes in one line."""

from __future__ import annotations

import json
import os
import re
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.afterwards import recommender_of
from recbole_bert4rec.training.build import read_dataset
from recbole_bert4rec.training.run import run
from tests.helpers.data import CYCLE
from tests.helpers.programs import assert_main_refuses, assert_refused, run_here, run_py
from tests.helpers.runs import QUIET, arguments, make_config, make_trainer, prepare
from tests.helpers.small import ROWS

pytestmark = pytest.mark.integration


def test_one_epoch_of_ml_100k_ends_with_metrics_summary_record_and_recommendations() -> None:
    done = run_py("--model=BERT4Rec", "--dataset=ml-100k", "--recommend=top.csv", "--k=5", epochs="1")
    assert done.returncode == 0, done.stderr
    (log,) = Path("log/BERT4Rec").glob("*.log")
    everything = log.read_text()
    for line in ("epoch 0 training", "test result", "train_batch_size = 1000", "FLOPs"):
        assert line in everything
        assert line not in done.stderr
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
def test_recboles_bert4rec_runs_to_the_end(write_inter: Any) -> None:
    done = run_here("--model=RecBoleBERT4Rec", epochs="1", train_batch_size="16", **write_inter(ROWS))
    assert done.returncode == 0, done.stderr
    (path,) = Path("saved").glob("RecBoleBERT4Rec-*.json")
    assert "ndcg@10" in json.loads(path.read_text())["test_result"]


@pytest.mark.slow
def test_two_processes_refuse_mistakes_and_of_another_model_read_the_one_checkpoint(write_inter: Any) -> None:
    options = write_inter(ROWS)
    assert_refused(run_here("--nproc=2", mask_ratio="7", **options), "`mask_ratio`")
    assert run_here("--model=GRU4Rec", "--nproc=2", epochs="2", **options).returncode == 0


BAD: list[tuple[list[str], list[str]]] = [
    (["--mask_ratio=1.5", "--n_layers=0", "--loss_type=XYZ"], ["`mask_ratio`", "`n_layers`", "'XYZ'"]),
    (["--model=BERT5Rec"], ["'BERT5Rec'", "BERT4Rec?"]),
    (["--wandb_project"], ["'--wandb_project'"]),
    (["epochs=3"], ["'epochs=3'"]),
    (["--topk=abc"], ["`topk`", "'abc'"]),
    (["--config_files=best-ml1m.yaml"], ["best-ml1m.yaml", "best-ml-1m.yaml"]),
    (["--recommend=folder/that/is/missing/x.csv"], ["folder/that/is/missing"]),
    (["--recommend=x.txt"], ["'x.txt'"]),
    (["--recommend=x.csv", "--model=Pop"], ["--recommend"]),
    (["--recommend=x.csv", "--k=0"], ["--k"]),
    (["--resume=missing.pth"], ["missing.pth"]),
    (["--model=SASRec", "--metrics=['NDCG']"], ["`valid_metric`", "'NDCG@10'"]),
]
"""What is refused, and what is named."""


@pytest.mark.parametrize(("arguments", "words"), BAD, ids=str)
def test_a_mistake_gets_one_clear_line_and_a_non_zero_exit(
    arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert_main_refuses(capsys, [*arguments, "--use_gpu=False", "--show_progress=False"], words)


def test_a_mistake_shows_no_traceback_to_the_shell() -> None:
    assert_refused(run_py("--mask_ratoi=0.3", n_layers="0"), "`mask_ratio`", "`n_layers`")


def test_recboles_callback_function_is_called_after_each_validation(write_inter: Any) -> None:
    config = make_config(hidden_size=16, epochs=2, **write_inter(CYCLE))
    _, train, valid, _ = prepare(config)
    called: list[tuple[int, float]] = []
    make_trainer(config, train).fit(train, valid, verbose=False, callback_fn=lambda *one: called.append(one))
    assert [epoch for epoch, _ in called] == [0, 1]


def test_a_finished_run_is_ranked_in_another_way_into_a_record_of_its_own(write_inter: Any) -> None:
    options = {**write_inter(CYCLE), "hidden_size": 16, "epochs": 2, "metric_decimal_place": 8}
    first = run(model="BERT4Rec", **arguments(options))
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


def test_a_model_and_data_set_named_in_a_config_file_are_used(write_inter: Any) -> None:
    options = write_inter(ROWS)
    Path("comments.yaml").write_text("# epochs: 3\n")
    Path("all.yaml").write_text(
        f"model: Pop\ndataset: {options['dataset']}\ndata_path: {options['data_path']}\nepochs: 1\n"
    )
    record = run(config_files=["all.yaml", "comments.yaml"], options=QUIET).record
    assert (record["model"], record["dataset"]) == ("Pop", "toy")


def test_without_validation_the_record_is_valid_json_with_any_metric(write_inter: Any) -> None:
    options = {**write_inter(ROWS), "epochs": 1, "eval_step": 0, "metrics": ["GAUC"], "valid_metric": "GAUC"}
    record = json.loads(run(**arguments(options)).record_path.read_text())
    assert 0 < record["test_result"]["gauc"] < 1
    assert record["best_valid_score"] is None


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


def test_a_data_set_that_is_not_here_says_where_to_write_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urllib.request, "_opener", None)  # it would keep the proxies of an earlier call
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    config = make_config(dataset="ml-1m", data_path=str(tmp_path))
    file = re.escape(str(tmp_path / "ml-1m" / "ml-1m.inter"))
    with pytest.raises(UserError, match=rf"'ml-1m'.*{file}"):
        read_dataset(config)
