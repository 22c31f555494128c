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

from recbole_bert4rec.experiments.compare import contestants_of
from recbole_bert4rec.experiments.equal_rows import config_of
from recbole_bert4rec.plugin.callbacks import Callback
from recbole_bert4rec.training.build import load_data
from recbole_bert4rec.training.inputs import user_layers
from recbole_bert4rec.training.record import read_record
from recbole_bert4rec.training.run import run
from recbole_bert4rec.training.screen import _LogFile, logged, parts_text, show_data, shown
from tests.helpers.data import histories_to_rows
from tests.helpers.runs import StopAfter, make_config

DAY = 86_400
ROWS = [
    (f"u{u}", f"i{(u * t + t) % 23}", (4000 * DAY + 3600 * (10 * t + u))) for u in range(30) for t in range(3 + u % 9)
]
SMALL = {"MAX_ITEM_LIST_LENGTH": 8, "hidden_size": 16, "batch_sequences": 16, "epochs": 3}
LOUD = {"show_progress": False, "use_gpu": False}
RECBOLES = ("epoch 0 training", "epoch 0 evaluating", "Saving current", "train_batch_size", "best valid")


def inputs(write_inter: Any, **more: Any) -> dict[str, Any]:
    options = {**LOUD, **SMALL, **write_inter(ROWS), **more}
    return {"dataset": options.pop("dataset"), "options": options}


def log_of(model: str) -> str:
    (file,) = Path("log", model).glob("*.log")
    return file.read_text()


@pytest.mark.parametrize("model", ["BERT4Rec", "GRU4Rec", "Pop"])
def test_the_screen_has_a_line_an_epoch_and_the_file_has_recboles(
    model: str, write_inter: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run(model=model, **inputs(write_inter))
    shown, kept = capsys.readouterr().err, log_of(model)
    lines = re.findall(r"^epoch +(\d+) of ", shown, re.MULTILINE)
    assert [int(epoch) for epoch in lines] == [row["epoch"] for row in result.record["epochs"]]
    for words in RECBOLES:
        assert words in kept
        assert words not in shown
    assert not re.search(r"epoch +\d+ of", kept)
    assert "\x1b" not in shown


def test_verbose_shows_what_recbole_shows(write_inter: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(screen="verbose", **inputs(write_inter))
    shown = capsys.readouterr().err
    assert all(words in shown for words in RECBOLES)
    assert not re.search(r"epoch +\d+ of", shown)


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


def test_quiet_shows_warnings_alone_and_leaves_the_log_as_it_was(
    write_inter: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    class Warner(Callback):
        def on_train_begin(self, trainer: Any) -> None:
            trainer.logger.warning("mind the gap")

    root = logging.getLogger()
    before = root.level, root.handlers[:]
    run(screen="quiet", callbacks=[Warner()], **inputs(write_inter))
    shown = capsys.readouterr().err.splitlines()
    assert "warning: mind the gap" in shown
    assert all(line.startswith("warning: ") for line in shown)
    assert "epoch 0 training" in log_of("BERT4Rec")
    assert (root.level, root.handlers) == before


def shown_of(model: str, capsys: pytest.CaptureFixture[str], **options: Any) -> list[str]:
    """The lines on the data of a run."""
    data = load_data(make_config(model, topk=3, valid_metric="MRR@3", **options))
    with shown():
        show_data(data)
    return capsys.readouterr().err.splitlines()


def test_users_who_are_only_recommended_to_are_counted(write_inter: Any, capsys: pytest.CaptureFixture[str]) -> None:
    lengths = {"a": 1, "b": 1, "c": 2, "d": 3, "e": 4, "f": 9}
    rows = histories_to_rows({user: [f"i{t}" for t in range(length)] for user, length in lengths.items()})
    for model in ("BERT4Rec", "SASRec"):
        sizes, users, split = shown_of(model, capsys, **write_inter(rows))
        assert re.findall(r"\d+", sizes) == ["6", "9", "20"]
        assert re.findall(r"\d+", users) == ["4", "2", "3", "2"]
        assert "leave-one-out" in split


@pytest.mark.parametrize("model", ["BERT4Rec", "SASRec"])
def test_leave_one_out_that_trains_what_is_later_than_its_test_is_found(
    model: str, write_inter: Any, capsys: pytest.CaptureFixture[str]
) -> None:
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
    model: str,
    arguments: dict[str, Any],
    late: bool | None,
    write_inter: Any,
    capsys: pytest.CaptureFixture[str],
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


@pytest.mark.parametrize("model", ["BERT4Rec", "GRU4Rec"])
def test_a_run_that_is_killed_leaves_its_epochs_in_its_record(model: str, write_inter: Any) -> None:
    class Killed(StopAfter):
        def on_epoch_begin(self, trainer: Any, epoch: int, batches: Any) -> None:
            if epoch == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(model=model, callbacks=[Killed(9)], **inputs(write_inter))
    (path,) = Path("saved").glob("*.json")
    record = read_record(path)
    assert record["unfinished"]
    assert record["test_result"] == {}
    assert [row["epoch"] for row in record["epochs"]] == [0, 1]
    assert record["best_valid_score"] == max(row["valid_score"] for row in record["epochs"])


def test_each_run_of_a_process_has_a_log_file_of_its_own(write_inter: Any) -> None:
    for model in ("Pop", "BERT4Rec"):
        with logged(make_config(model, **{**write_inter(ROWS), "state": "INFO"})):
            logging.getLogger().info(f"a line of {model}")
    assert "a line of Pop" in log_of("Pop")
    assert "a line of BERT4Rec" not in log_of("Pop")
    assert "a line of BERT4Rec" in log_of("BERT4Rec")


@pytest.mark.parametrize("screen", ["short", "quiet"])
def test_the_conversion_of_a_log_is_told_as_all_else(screen: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"{user},{item},{time}\n" for user, item, time in ROWS)
    Path("log.csv").write_text("user_id,item_id,timestamp\n" + rows)
    run(dataset="log.csv", screen=screen, options={**LOUD, **SMALL, "epochs": 1})
    captured = capsys.readouterr()
    assert captured.out == ""
    assert ("log.csv: " in captured.err) is (screen != "quiet")


@pytest.mark.parametrize("model", ["BERT4Rec", "GRU4Rec"])
@pytest.mark.parametrize("is_notebook", [True, False])
def test_bars_are_for_notebooks_without_colours_and_not_for_files(
    model: str, is_notebook: bool, write_inter: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if is_notebook:
        monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    run(model=model, **inputs(write_inter, show_progress=True, epochs=1))
    shown = capsys.readouterr().err
    assert ("Train     0" in shown) == is_notebook
    assert "\x1b[1;3" not in shown


def test_a_notebooks_comparison_follows_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """RecBole reads no command line where the program is a notebook's kernel."""
    monkeypatch.setattr("sys.argv", ["ipykernel_launcher.py", "-f", "kernel.json"])
    flags = {"epochs": "7", "use_gpu": "False"}
    (contestant,) = contestants_of(["BERT4Rec"], {}, user_layers(flags, (), {})).values()
    assert config_of(contestant, "ml-100k", {})["epochs"] == 7


def test_a_log_file_on_a_full_disk_is_one_warning(capsys: pytest.CaptureFixture[str]) -> None:
    handler = _LogFile("/dev/full")
    record = logging.LogRecord("any", logging.INFO, "", 0, "words " * 9999, None, None)
    handler.emit(record)
    handler.emit(record)
    handler.close()
    (line,) = capsys.readouterr().err.splitlines()
    assert "/dev/full" in line
