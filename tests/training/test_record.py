"""The JSON record of a run: its keys are explained, and files that are none are refused."""

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
from tests.helpers.runs import QUIET

ROWS = re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "operating.md").read_text(), re.MULTILINE)
KEYS = {name for row in ROWS for name in re.findall(r"`(\w+)`", row)}
"""Those that the page on records explains."""


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"model": "Pop"},
        {"budget": 30.0},
        {"options": {"refit": "train+valid"}},
        {"options": {"eval_step": 0}},
        {"protocols": ["protocol-full-unseen.yaml"]},
    ],
    ids=str,
)
def test_the_page_on_records_explains_every_key(more: dict[str, Any], options: dict[str, Any]) -> None:
    options = {**QUIET, **options, "epochs": 2, **more.get("options", {})}
    result = run(dataset=options.pop("dataset"), **{**more, "options": options})
    record = json.loads(result.record_path.read_text())
    assert record == json.loads(json.dumps(result.record))
    assert not record.keys() - KEYS
    for row in record["epochs"]:
        assert not row.keys() - KEYS
        assert row.keys() >= {"epoch", "train_loss", "train_seconds", "at_second"}
    for name, is_asked in (("budget", "budget" in more), ("refit", "refit" in options), ("also", "protocols" in more)):
        assert (name in record) == is_asked
    assert (record["best_epoch"] is None) == (options.get("eval_step") == 0)
    assert read_record(result.record_path) == record


@pytest.mark.parametrize("text", ["", '{"schema": 2}'])
def test_a_file_that_is_no_record_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "damaged.json"
    file.write_text(text)
    with pytest.raises(UserError, match=r"damaged\.json"):
        read_record(file)


def test_a_run_that_goes_on_after_its_record_was_damaged_begins_a_new_one(options: dict[str, Any]) -> None:
    options = {**QUIET, **options, "epochs": 2, "stopping_step": 50}
    dataset = options.pop("dataset")
    first = run(dataset=dataset, options=options)
    first.record_path.write_text("{")
    resumed = run(resume=first.checkpoint, options={"epochs": 4})
    assert resumed.checkpoint == first.checkpoint
    assert resumed.record["epochs"][-1]["epoch"] == 3
    assert json.loads(resumed.record_path.read_text()) == json.loads(json.dumps(resumed.record))


def test_a_run_is_unfinished_until_all_that_follows_its_test_is_written(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*arguments: Any) -> None:
        raise KeyboardInterrupt

    options = {**QUIET, **options, "epochs": 1}
    asked: dict[str, Any] = {"dataset": options.pop("dataset"), "options": options, "checkpoint": "saved/one.pth"}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("recbole_bert4rec.training.run.test_protocols", killed)
        run(**asked, protocols=["protocol-full-unseen.yaml"])
    assert read_record("saved/one.json")["unfinished"]
    resumed = run(**asked, protocols=["protocol-full-unseen.yaml"], resume="saved/one.last.pth")
    assert resumed.record_path == Path("saved/one.json")
    assert read_record("saved/one.json")["also"].keys() == {"protocol-full-unseen.yaml"}
