"""What a run shows, and where its lines go: RecBole's to the file, those for the user to the screen."""

from __future__ import annotations

import logging
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from recbole.utils import set_color

from recbole_bert4rec.plugin.callbacks import Callback
from recbole_bert4rec.training.build import load_data
from recbole_bert4rec.training.run import run
from recbole_bert4rec.training.screen import _LogFile, logged, parts_text, show_data, shown
from tests.helpers.data import histories_to_rows
from tests.helpers.runs import make_config

DAY = 86_400
ROWS = [
    (f"u{u}", f"i{(u * t + t) % 23}", (4000 * DAY + 3600 * (10 * t + u))) for u in range(30) for t in range(3 + u % 9)
]
SMALL = {"MAX_ITEM_LIST_LENGTH": 8, "hidden_size": 16, "batch_sequences": 16, "epochs": 2}
LOUD = {"show_progress": False, "use_gpu": False}
RECBOLES = ("epoch 0 training", "epoch 0 evaluating", "Saving current", "train_batch_size", "best valid")


def inputs(write_inter: Any, **more: Any) -> dict[str, Any]:
    options = {**LOUD, **SMALL, **write_inter(ROWS), **more}
    return {"dataset": options.pop("dataset"), "options": options}


def log_of(model: str) -> str:
    (file,) = Path("log", model).glob("*.log")
    return file.read_text()


class Warner(Callback):
    def on_train_begin(self, trainer: Any) -> None:
        trainer.logger.warning("mind the gap")


@pytest.mark.parametrize(
    ("model", "screen"),
    [("BERT4Rec", "short"), ("GRU4Rec", "short"), ("Pop", "short"), ("BERT4Rec", "verbose"), ("BERT4Rec", "quiet")],
)
def test_the_screen_has_a_line_an_epoch_or_recboles_or_warnings_alone_and_the_file_has_recboles(
    model: str, screen: str, write_inter: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    before = root.level, root.handlers[:]
    result = run(model=model, screen=screen, callbacks=[Warner()], **inputs(write_inter))
    shown, kept = capsys.readouterr().err, log_of(model)
    lines = re.findall(r"^epoch +(\d+) of ", shown, re.MULTILINE)
    wanted = [row["epoch"] for row in result.record["epochs"]]
    assert [int(epoch) for epoch in lines] == (wanted if screen == "short" else [])
    for words in RECBOLES:
        assert words in kept
        assert (words in shown) == (screen == "verbose")
    assert not re.search(r"epoch +\d+ of", kept)
    if screen != "verbose":
        assert "\x1b" not in shown
        assert "warning: mind the gap" in shown.splitlines()
        assert all(line.startswith("warning: ") for line in shown.splitlines()) == (screen == "quiet")
    assert (root.level, root.handlers) == before


@pytest.mark.parametrize("no_color", ["", "1"])
def test_recbole_colours_its_lines_unless_no_color_says_otherwise(
    no_color: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    record = logging.LogRecord("any", logging.INFO, "", 0, set_color("a line", "red"), None, None)
    with shown("verbose"), logged(make_config()):
        (screen,) = [one for one in logging.getLogger().handlers if type(one) is logging.StreamHandler]
        screen.filter(record)
        assert ("\x1b" in screen.format(record)) is not bool(no_color)


def shown_of(model: str, capsys: pytest.CaptureFixture[str], **options: Any) -> list[str]:
    """The lines on the data of a run."""
    data = load_data(make_config(model, topk=3, valid_metric="MRR@3", **options))
    with shown():
        show_data(data)
    return capsys.readouterr().err.splitlines()


@pytest.mark.parametrize("model", ["BERT4Rec", "SASRec"])
def test_users_who_are_only_recommended_to_are_counted_and_leave_one_out_that_trains_what_is_later_is_found(
    model: str, write_inter: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    lengths = {"a": 1, "b": 1, "c": 2, "d": 3, "e": 4, "f": 9}
    rows = histories_to_rows({user: [f"i{t}" for t in range(length)] for user, length in lengths.items()})
    sizes, users, split = shown_of(model, capsys, **write_inter(rows))
    assert re.findall(r"\d+", sizes) == ["6", "9", "20"]
    assert re.findall(r"\d+", users) == ["4", "2", "3", "2"]
    assert "leave-one-out" in split
    overlapping = [
        (user, f"i{(number + place) % 7}", 10 * place) for number, user in enumerate("abcd") for place in range(6)
    ]
    one_after_another = [(user, item, time + 1000 * "abcd".index(user)) for user, item, time in overlapping]
    all_at_once = [(user, item, 0) for user, item, _ in overlapping]
    for rows, leaks in ((overlapping, False), (one_after_another, True), (all_at_once, False)):
        assert ("training reads" in shown_of(model, capsys, **write_inter(rows))[-1]) is leaks


@pytest.mark.parametrize("model", ["BERT4Rec", "SASRec"])
@pytest.mark.parametrize(
    ("arguments", "late"),
    [
        ({"split": {"TS": [0.8, 0.1, 0.1]}}, None),
        ({"split": {"RS": [0.8, 0.1, 0.1]}, "group_by": "none"}, False),
        ({"split": {"GT": {"quantile": 0.8}}}, False),
    ],
    ids=["TS", "RS-none", "GT"],
)
def test_a_split_in_time_shows_where_it_cuts(
    model: str, arguments: dict[str, Any], late: bool | None, write_inter: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"eval_args": {"order": "TO", **arguments}, **write_inter(ROWS)}
    data = load_data(make_config(model, **options))
    parts = parts_text(data).split("; ")
    for part, loader in zip(parts, (data.train, data.valid, data.test), strict=True):
        times = loader._dataset.inter_feat["timestamp"].double().tolist()
        ends = (datetime.fromtimestamp(time, UTC) for time in (min(times), max(times)))
        first, last = (f"{time:%Y-%m-%d %H:%M}" for time in ends)
        assert part.endswith(f" {len(times)} rows, {first} to {last}")
    if late is not None:
        assert ("later than the first tested" in shown_of(model, capsys, **options)[-1]) is late


def test_each_run_of_a_process_has_a_log_file_of_its_own(write_inter: Any) -> None:
    for model in ("Pop", "BERT4Rec"):
        with logged(make_config(model, **{**write_inter(ROWS), "state": "INFO"})):
            logging.getLogger().info(f"a line of {model}")
    assert "a line of Pop" in log_of("Pop")
    assert "a line of BERT4Rec" not in log_of("Pop")
    assert "a line of BERT4Rec" in log_of("BERT4Rec")


@pytest.mark.parametrize(("model", "screen"), [("BERT4Rec", "short"), ("GRU4Rec", "short"), ("BERT4Rec", "quiet")])
def test_bars_are_for_notebooks_without_colours_and_the_conversion_of_a_log_is_told_as_all_else(
    model: str, screen: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"{user},{item},{time}\n" for user, item, time in ROWS)
    Path("log.csv").write_text("user_id,item_id,timestamp\n" + rows)
    asked = {"dataset": "log.csv", "screen": screen, "options": {**LOUD, **SMALL, "epochs": 1, "show_progress": True}}
    run(model, **asked)
    first = capsys.readouterr()
    assert first.out == ""
    assert ("log.csv: " in first.err) is (screen != "quiet")
    assert "Train     0" not in first.err, "a file"
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    run(model, **asked)
    shown = capsys.readouterr().err
    assert ("Train     0" in shown) is (screen != "quiet")
    assert "\x1b[1;3" not in shown


def test_a_log_file_on_a_full_disk_is_one_warning(capsys: pytest.CaptureFixture[str]) -> None:
    handler = _LogFile("/dev/full")
    record = logging.LogRecord("any", logging.INFO, "", 0, "words " * 9999, None, None)
    handler.emit(record)
    handler.emit(record)
    handler.close()
    (line,) = capsys.readouterr().err.splitlines()
    assert "/dev/full" in line
