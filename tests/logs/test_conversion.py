"""A log that changes is converted again, and yesterday's model finds its own ids in it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from recbole.quick_start import load_data_and_model

from recbole_bert4rec.logs.conversion import read_record
from recbole_bert4rec.plugin.loading import ITEM_ORDER, ItemOrder
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.run import run
from tests.helpers.data import atomic_file
from tests.helpers.runs import make_config, prepare

NAMES = ("user_id", "item_id", "timestamp")
ROWS = [(f"u{user}", f"i{(user + step) % 9}", 1_700_000_000 + step) for user in range(12) for step in range(6)]
SMALL = {"hidden_size": 16, "inner_size": 32, "epochs": 1, "topk": [3], "valid_metric": "MRR@3", "show_progress": False}
QUIET = {**SMALL, "state": "error", "use_gpu": False}
EARLIEST = ("u0", "i7", 1_600_000_000)


def write(path: Path, rows: list[tuple[str, str, int]]) -> Path:
    """Write a log whose time of change differs from every other one's here."""
    pd.DataFrame(rows, columns=list(NAMES)).to_csv(path, index=False)
    os.utime(path, (len(rows), len(rows)))
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write(tmp_path / "log.csv", ROWS)


@pytest.fixture(scope="module")
def yesterday(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A log and a checkpoint that was trained on it; copies of both are used."""
    folder = tmp_path_factory.mktemp("yesterday")
    log = write(folder / "log.csv", ROWS)
    return log, run(
        dataset=str(log), options={**QUIET, "state": "info", "checkpoint_dir": str(folder / "saved")}
    ).checkpoint


def test_a_log_that_is_touched_only_is_converted_to_the_same(log: Path) -> None:
    folder = atomic_file(str(log), *NAMES).parent
    before = read_record(folder)
    os.utime(log, (5, 5))
    atomic_file(str(log), *NAMES)
    assert read_record(folder)["digest"] == before["digest"]
    assert read_record(folder)["made_from"] != before["made_from"]


@pytest.mark.parametrize("content", ["", "[]", '{"digest": 7}'])
def test_a_damaged_record_leads_to_a_new_conversion(content: str, log: Path) -> None:
    target = atomic_file(str(log), *NAMES)
    target.write_text("half")
    (target.parent / "conversion.json").write_text(content)
    assert len(atomic_file(str(log), *NAMES).read_text().splitlines()) == len(ROWS) + 1


@pytest.mark.parametrize("model", ["BERT4Rec", "SASRec", "Pop"])
def test_ids_that_look_missing_are_kept_by_every_model(model: str, tmp_path: Path) -> None:
    names = {"i1": "NA", "i2": "None", "i3": "null", "u3": "nan"}
    rows = [(names.get(user, user), names.get(item, item), time) for user, item, time in ROWS]
    path = write(tmp_path / "log.csv", rows)
    (tmp_path / "log").mkdir()
    features = [f"{names.get(item, item)}\tkind{number}" for number, item in enumerate(f"i{n}" for n in range(9))]
    (tmp_path / "log" / "log.item").write_text("\n".join(["item_id:token\tclass:token", *features]) + "\n")
    folder = atomic_file(str(path), *NAMES).parents[1]
    columns = {"inter": list(NAMES), "item": ["item_id", "class"]}
    options = {"data_path": str(folder), "load_col": columns, "topk": [3], "valid_metric": "MRR@3"}
    dataset = prepare(make_config(model, "log", **options))[0]
    assert {"NA", "None", "null"} < set(dataset.field2id_token["item_id"])
    assert "nan" in dataset.field2id_token["user_id"]
    assert (dataset.user_num, dataset.item_num) == (13, 10)
    place = list(dataset.field2id_token["item_id"]).index("None")
    assert dataset.id2token("class", int(dataset.item_feat["class"][place])) == "kind2"


def test_a_model_is_loaded_with_the_conversion_that_it_was_trained_on_and_with_no_other(
    yesterday: tuple[Path, Path],
) -> None:
    log, checkpoint = yesterday
    assert len(load_data_and_model(str(checkpoint))[2].sequences.items) == len(ROWS)
    write(log, [EARLIEST, *ROWS])
    try:
        atomic_file(str(log), *NAMES)
        with pytest.raises(UserError, match="log"):
            load_data_and_model(str(checkpoint))
    finally:
        write(log, ROWS)
        atomic_file(str(log), *NAMES)


def recommended(checkpoint: Path, log: Path, folder: Path) -> pd.DataFrame:
    run(dataset=str(log), resume=str(checkpoint), options=QUIET, recommend=str(folder / "top.csv"), k=3)
    return pd.read_csv(folder / "top.csv").set_index(["user_id", "rank"])


def test_a_model_of_yesterday_recommends_for_a_log_in_which_items_come_in_another_order(
    yesterday: tuple[Path, Path], tmp_path: Path
) -> None:
    """Ids are given by token: who has the same history gets the same items."""
    log, checkpoint = yesterday
    before = recommended(checkpoint, log, tmp_path)
    after = recommended(checkpoint, write(tmp_path / "log.csv", [EARLIEST, *ROWS[:-6], ROWS[-6]]), tmp_path)
    same = [f"u{number}" for number in range(1, 11)]
    pd.testing.assert_frame_equal(before.loc[same], after.loc[same])
    assert {"u0", "u11"} <= {*after.index.get_level_values("user_id")}


def test_a_model_refuses_a_log_with_items_that_it_does_not_know(yesterday: tuple[Path, Path], tmp_path: Path) -> None:
    log = write(tmp_path / "log.csv", [("u0", "new", 1), *ROWS])
    with pytest.raises(UserError, match=r" 9 items, .* 10"):
        run(dataset=str(log), resume=str(yesterday[1]), options=QUIET)


def test_items_keep_their_numbers_in_lists_and_features_too(log: Path) -> None:
    folder = atomic_file(str(log), *NAMES).parent
    (folder / "log.item").write_text("item_id:token\tclass:token\n" + "".join(f"i{n}\tk{n}\n" for n in range(9)))
    columns = {"inter": list(NAMES), "item": ["item_id", "class"]}
    config = make_config(dataset="log", data_path=str(folder.parent), load_col=columns, topk=[3], valid_metric="MRR@3")
    known = ["[PAD]", "gone", *(f"i{n}" for n in range(8, -1, -1))]
    config[ITEM_ORDER] = ItemOrder("a.pth", tuple(known))
    dataset = prepare(config)[0]
    assert list(dataset.field2id_token["item_id"]) == known
    first = dataset.sequences.items[:6]
    assert dataset.id2token("item_id", first).tolist() == [item for user, item, _ in ROWS if user == "u0"]
    for number in range(1, 10):
        token = dataset.id2token("item_id", number)
        if token != "gone":
            assert dataset.id2token("class", int(dataset.item_feat["class"][number])) == f"k{token[1:]}"


@pytest.mark.parametrize("name", ["separator", "drop_duplicates"])
def test_options_of_logs_are_refused_where_there_is_no_log(name: str) -> None:
    with pytest.raises(UserError, match=f"`{name}`.*--dataset=FILE"):
        run(dataset="ml-100k", options={name: "x"})


@pytest.mark.parametrize("way", ["flags", "options", "file"])
def test_a_run_reads_a_log_as_it_is_told(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [f"{user}^José {item}^{time}" for user, item, time in [*ROWS, ROWS[-1]]]
    (tmp_path / "log.csv").write_bytes("\n".join(["^".join(NAMES), *rows]).encode("cp1252"))
    given: dict[str, Any] = {"separator": "^", "encoding": "cp1252", "drop_duplicates": True}
    if way == "flags":
        monkeypatch.setattr("sys.argv", ["run.py", *(f"--{name}={value}" for name, value in given.items())])
    (tmp_path / "how.yaml").write_text(json.dumps(given if way == "file" else {"seed": 1}))
    options = {**QUIET, **(given if way == "options" else {})}
    run(dataset=str(tmp_path / "log.csv"), options=options, config_files=["how.yaml"])
    record = read_record(tmp_path / "log")
    assert (record["interactions"], record["rows"]) == (len(ROWS), len(ROWS) + 1)
    assert "José i3" in (tmp_path / "log" / "log.inter").read_text("cp1252")


def test_a_folder_that_cannot_be_written_to_is_named_in_one_line(log: Path, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("in the way")
    with pytest.raises(UserError, match=r"log\.csv: .*log ") as caught:
        atomic_file(str(log), *NAMES)
    assert "\n" not in str(caught.value)
