"""The JSON record of a run: its keys are explained, and it is unfinished until the run is over."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.record import read_record
from recbole_bert4rec.training.run import run
from tests.helpers.programs import ROOT
from tests.helpers.runs import StopAfter, arguments

ROWS = re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "operating.md").read_text(), re.MULTILINE)
KEYS = {name for row in ROWS for name in re.findall(r"`(\w+)`", row)}
"""Those that the page on records explains."""
UNSEEN = "protocol-full-unseen.yaml"


@pytest.mark.parametrize(
    ("more", "options_of_run"),
    [
        ({}, {}),
        ({"model": "Pop"}, {}),
        ({"budget": 30.0, "protocols": [UNSEEN]}, {"refit": "train+valid"}),
        ({}, {"eval_step": 0}),
    ],
    ids=str,
)
def test_the_page_on_records_explains_every_key(
    more: dict[str, Any], options_of_run: dict[str, Any], options: dict[str, Any]
) -> None:
    result = run(**arguments(options, epochs=2, **options_of_run), **more)
    record = read_record(result.record_path)
    assert record == json.loads(json.dumps(result.record))
    assert not record.keys() - KEYS
    for row in record["epochs"]:
        assert not row.keys() - KEYS
        assert row.keys() >= {"epoch", "train_loss", "train_seconds", "at_second"}
    for name, is_asked in (("budget", bool(more.get("budget"))), ("refit", bool(options_of_run.get("refit")))):
        assert (name in record) == is_asked
    assert ("also" in record) == ("protocols" in more)
    assert (record["best_epoch"] is None) == (options_of_run.get("eval_step") == 0)


def test_a_run_that_goes_on_after_its_record_was_damaged_begins_a_new_one(options: dict[str, Any]) -> None:
    first = run(**arguments(options, epochs=2, stopping_step=50))
    for text in ('{"schema": 2}', "{"):
        first.record_path.write_text(text)
        with pytest.raises(UserError, match=re.escape(str(first.record_path))):
            read_record(first.record_path)
    resumed = run(resume=first.checkpoint, options={"epochs": 4})
    assert resumed.checkpoint == first.checkpoint
    assert resumed.record["epochs"][-1]["epoch"] == 3
    assert read_record(resumed.record_path) == json.loads(json.dumps(resumed.record))


def test_a_run_is_unfinished_until_all_that_follows_its_test_is_written(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*arguments: Any) -> None:
        raise KeyboardInterrupt

    asked = {**arguments(options, epochs=1), "checkpoint": "saved/one.pth", "protocols": [UNSEEN]}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("recbole_bert4rec.training.run.test_protocols", killed)
        run(**asked)
    assert read_record("saved/one.json")["unfinished"]
    resumed = run(**asked, resume="saved/one.last.pth")
    assert resumed.record_path == Path("saved/one.json")
    assert read_record("saved/one.json")["also"].keys() == {UNSEEN}


class Killed(StopAfter):
    def on_epoch_begin(self, trainer: Any, epoch: int, batches: Any) -> None:
        if epoch == self.last:
            raise KeyboardInterrupt


@pytest.mark.parametrize("model", ["BERT4Rec", "GRU4Rec"])
def test_a_run_that_is_killed_leaves_its_epochs_in_its_record(model: str, options: dict[str, Any]) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(model, callbacks=[Killed(2)], **arguments(options, epochs=3))
    (path,) = Path("saved").glob("*.json")
    record = read_record(path)
    assert record["unfinished"]
    assert record["test_result"] == {}
    assert [row["epoch"] for row in record["epochs"]] == [0, 1]
    assert record["best_valid_score"] == max(row["valid_score"] for row in record["epochs"])
