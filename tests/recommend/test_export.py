"""An exported model answers as its checkpoint does, in onnxruntime alone."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from recbole_bert4rec import Recommender, UserError, append_items, load
from recbole_bert4rec.cli.main import main
from recbole_bert4rec.recommend.export import Scoring, export
from recbole_bert4rec.recommend.onnx_backend import CATALOGUE, FORMAT, GRAPH, MEMORY, OPTIONS
from tests.helpers.extras import needs_onnx
from tests.helpers.programs import BLOCKED, ROOT
from tests.helpers.trained import CHOICES, Trained, trained

LONGEST = 5


def exported(model: Recommender) -> Recommender:
    export(model, "out")
    return load("out")


def asked(found: Trained) -> dict[str, list[str]]:
    """Histories of every length from none to more than the model takes."""
    histories, _ = found.histories()
    longest = max(histories, key=lambda user: len(histories[user]))
    histories |= {f"first {n}": histories[longest][:n] for n in range(len(histories[longest]))}
    assert {len(history) for history in histories.values()} >= set(range(LONGEST + 2))
    return histories


def assert_same_scores(model: Recommender, other: Recommender, histories: Any) -> None:
    scores = [one.score(histories, model.items) for one in (model, other)]
    pd.testing.assert_frame_equal(*scores, atol=1e-4, rtol=0)


@needs_onnx
@pytest.mark.slow
@pytest.mark.parametrize(
    ("choice", "learnt", "name"),
    [
        *((choice, (-3.0, 3.0)[number % 2], "BERT4Rec") for number, choice in enumerate(CHOICES)),
        ({}, 3.0, "BERT4Rec"),
        *(({}, bias, name) for bias in (-3.0, 3.0) for name in ("BERT4RecPlus", "SASRecPlus")),
    ],
    ids=str,
)
def test_every_kind_of_model_answers_as_its_checkpoint_does(
    choice: dict[str, Any], learnt: float, name: str, write_inter: Any
) -> None:
    found = trained(write_inter, learnt, name, **choice)
    model, histories = load(found.file, "cpu"), asked(found)
    both = model, exported(model)
    assert (both[1].items, both[1].fields, both[1].viewed) == (model.items, model.fields, model.viewed)
    assert both[1].config == {name: model.config[name] for name in both[1].config}
    assert_same_scores(*both, histories)
    vectors = [one.user_vectors(histories).vectors for one in both]
    np.testing.assert_allclose(*vectors, atol=1e-4)
    for how in (
        {"filter_viewed": True},
        {"filter_viewed": False, "k": 1000},
        {"items_to_recommend": ["i3", "i4", "i5", "i6"], "exclude": {"first 2": ["i4", "i3"], "u7": ["i6"]}},
        {"exclude": ["i1", "i2"], "k": 3},
    ):
        wanted, answer = (one.recommend(histories, **how) for one in both)
        pd.testing.assert_frame_equal(answer.drop(columns="item_id"), wanted.drop(columns="item_id"), atol=1e-4, rtol=0)
        differ = answer["item_id"] != wanted["item_id"]
        assert not (differ & (wanted["user_id"] != "first 0")).any(), "popularity alone has ties"
    reasons = [one.explain(max(histories.values(), key=len), "i3").table for one in both]
    pd.testing.assert_frame_equal(*reasons, atol=1e-4, rtol=0)
    metrics = [one.evaluate(histories, topk=[1, 5]) for one in both]
    assert metrics[0] == pytest.approx(metrics[1], abs=1e-6)


@pytest.mark.parametrize("objective", ["cloze", "next", "prefix"])
def test_what_is_exported_is_what_the_ranker_scores(objective: str, write_inter: Any) -> None:
    """The twin of the graph, without the graph: no shape follows from a value, and the scores are the same."""
    ranker = load(trained(write_inter, objective=objective, seen_bias=False).file, "cpu").ranker
    items = torch.tensor([[3, 4, 0, 0], [5, 0, 0, 0]])
    vectors, scores = Scoring(ranker)(items)
    wanted, shown = ranker.encode(items, torch.tensor([2, 1]))
    torch.testing.assert_close(vectors, wanted)
    torch.testing.assert_close(scores[:, 1:], ranker.scores_of(wanted, shown)[:, 1:])
    assert torch.equal(scores[:, 0], torch.full((2,), -torch.inf))


@needs_onnx
def test_a_model_that_reads_a_single_item_and_items_of_one_vector_are_judged_as_without_export(
    write_inter: Any,
) -> None:
    found = trained(write_inter, MAX_ITEM_LIST_LENGTH=2)
    model = append_items(found.file, {f"new{n}": ["i3"] for n in range(40)}, device="cpu")
    other = exported(model)
    assert_same_scores(model, other, [["i1", "i2"], ["i3"]])
    longer = {user: [*items, f"new{n}"] for n, (user, items) in enumerate(found.histories()[0].items())}
    for filter_viewed in (False, True):
        wanted = model.evaluate(longer, topk=[3, 10], filter_viewed=filter_viewed)
        assert other.evaluate(longer, topk=[3, 10], filter_viewed=filter_viewed) == pytest.approx(wanted)


@needs_onnx
@pytest.mark.slow
def test_the_command_writes_what_a_process_without_torch_reads(
    small: Trained, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["export", f"--checkpoint={small.file}", "--output=out", "--logit_adjustment=1.5"]
    assert main(command) == 0
    assert sorted(file.name for file in Path("out").iterdir()) == [CATALOGUE, GRAPH, f"{GRAPH}.data", OPTIONS]
    model, histories = load(small.file, "cpu", logit_adjustment=1.5), asked(small)
    assert_same_scores(model, load("out"), histories)
    assert main(command) == 2
    assert "error: out" in capsys.readouterr().err
    assert not list(Path().glob(".out*"))
    shutil.move("out", "moved")
    some = list(histories.values())[:3]
    program = f"""{BLOCKED}
Block.names = ("recbole", "ray", "torch", "onnx", "onnxscript")
from recbole_bert4rec import load
print(load({str(Path("moved").resolve())!r}).recommend({some!r}, k=3)["item_id"].tolist())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.splitlines() == [str(model.recommend(some, k=3)["item_id"].tolist())], done.stderr


@needs_onnx
@pytest.mark.slow
def test_a_damaged_folder_and_what_cannot_be_asked_are_refused_in_one_line(write_inter: Any) -> None:
    other = exported(load(trained(write_inter, memory=True).file, "cpu"))
    bad = [(OPTIONS, "{"), (OPTIONS, '{"format": "9"}'), (CATALOGUE, ""), (GRAPH, "no graph"), (MEMORY, "")]
    for name, text in bad:
        folder = Path(shutil.copytree("out", f"copy of {name} with {len(text)}"))
        (folder / name).write_text(text)
        with pytest.raises(UserError, match=f"{folder}.*({name}|{FORMAT}|export)") as error:
            load(folder)
        assert "\n" not in str(error.value)
    for named, call in (
        ("1 of 1", lambda: other.score([["i1"]], ["no"])),
        ("checkpoint", lambda: other.similar_items(["i1"])),
        ("checkpoint", other.item_vectors),
        ("`logit_adjustment`", lambda: load("out", logit_adjustment=1.0)),
        ("`device`", lambda: load("out", "cuda")),
        ("`batch_size`", lambda: load("out", batch_size=0)),
    ):
        with pytest.raises(UserError, match=named):
            call()
