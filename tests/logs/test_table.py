"""CSV and Parquet logs become atomic files once."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from recbole.data import create_dataset

from recbole_bert4rec.logs import events
from recbole_bert4rec.logs.formats import Reading, is_table
from recbole_bert4rec.logs.read import ask, connected
from recbole_bert4rec.system.constants import NAMES_OF_COLUMNS
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.interrupts import Interrupted, handled
from recbole_bert4rec.training.run import run
from tests.helpers.data import atomic_file
from tests.helpers.runs import QUIET, configured, make_config, prepare

FRAME = pd.DataFrame(
    {
        "who": [f"u{u}" for u in range(9) for _ in range(6)],
        "what": [(u + t) % 12 for u in range(9) for t in range(6)],
        "when": [1_700_000_000 + t for _ in range(9) for t in range(6)],
        "extra": 1.5,
    }
)
FIELDS = ("who", "what", "when")
COLUMNS = dict(zip(NAMES_OF_COLUMNS, FIELDS, strict=True))


def write(frame: pd.DataFrame, path: Path) -> str:
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False)
    return str(path)


def test_it_is_made_once_and_again_only_when_log_columns_or_reading_change(tmp_path: Path) -> None:
    log = write(pd.concat([FRAME, FRAME[:1]]), tmp_path / "log.csv")
    target = atomic_file(log, *FIELDS)
    os.utime(target, (1, 1))
    assert atomic_file(log, *FIELDS).stat().st_mtime == 1
    assert atomic_file(log, "what", "who", "when").stat().st_mtime > 1
    sizes = [
        len(atomic_file(log, *FIELDS, Reading(drop_duplicates=drop)).read_text().splitlines())
        for drop in (False, True, False)
    ]
    assert sizes == [len(FRAME) + 2, len(FRAME) + 1, len(FRAME) + 2]
    os.utime(target, (1, 1))
    write(FRAME[:40], tmp_path / "log.csv")
    assert atomic_file(log, *FIELDS).stat().st_mtime > 1


@pytest.mark.parametrize("name", ["write_csv", "WriteOptions"])
@pytest.mark.parametrize(
    ("error", "shown", "said"),
    [(KeyboardInterrupt(), KeyboardInterrupt, None), (OSError(28, "No space"), UserError, "No space")],
    ids=["stopped", "full disk"],
)
def test_a_conversion_that_was_not_finished_leaves_the_old_one_and_is_made_again(
    error: BaseException,
    shown: type[BaseException],
    said: str | None,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    log = write(FRAME, tmp_path / "log.csv")
    target = atomic_file(log, *FIELDS)
    before = target.read_bytes()
    write(FRAME[:40], tmp_path / "log.csv")
    with monkeypatch.context() as patch, pytest.raises(shown, match=said):
        patch.setattr(events.csv, name, fail)
        atomic_file(log, *FIELDS)
    assert target.read_bytes() == before
    assert {path.name for path in target.parent.iterdir()} == {".conversion.lock", "conversion.json", "log.inter"}
    assert len(atomic_file(log, *FIELDS).read_text().splitlines()) == 41


def test_any_model_sees_a_log_in_its_exact_order(tmp_path: Path) -> None:
    begin = 1_700_000_000  # float32 knows only every 128th second here
    rows = [(f"u{u}", f"i{(u + t) % 9}", begin + t) for u in range(9) for t in range(6)][::-1]
    log = write(pd.DataFrame(rows, columns=["user_id", "item_id", "timestamp"]), tmp_path / "log.csv")
    target = atomic_file(log, "user_id", "item_id", "timestamp")
    options = {"data_path": str(target.parents[1]), "topk": [3], "valid_metric": "MRR@3"}
    dataset, _, _, test = prepare(make_config("GRU4Rec", "log", **options))
    history = test.dataset.inter_feat
    row = (history["user_id"] == dataset.token2id("user_id", "u4")).nonzero().item()
    items = [*history["item_id_list"][row, :5].tolist(), int(history["item_id"][row])]
    assert dataset.id2token("item_id", items).tolist() == [f"i{i}" for i in (4, 5, 6, 7, 8, 0)]


def test_one_column_cannot_be_two_of_the_three(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'what', 'what'"):
        atomic_file(write(FRAME, tmp_path / "log.csv"), "who", "what", "what")


def test_an_atomic_file_of_someone_else_is_not_overwritten(tmp_path: Path) -> None:
    log = write(FRAME, tmp_path / "log.csv")
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "log.inter").write_text("precious")
    with pytest.raises(UserError, match=r"log\.inter .*--dataset=log --data_path="):
        atomic_file(log, *FIELDS)
    assert (tmp_path / "log" / "log.inter").read_text() == "precious"


@pytest.mark.parametrize("name", ["data/log.csv.zip", "at/toy/toy.inter", "at/toy"])
def test_a_path_that_is_no_log_is_refused_at_once(name: str) -> None:
    with pytest.raises(UserError, match=f"{re.escape(name)}.*--data_path=FOLDER"):
        run(dataset=name)


@pytest.mark.parametrize("name", ["..csv", "...csv", f"{'ä' * 101}.csv", "ml-100k.csv"])
def test_a_log_whose_name_can_name_no_data_set_is_refused(name: str, tmp_path: Path) -> None:
    log = write(FRAME, tmp_path / name)
    with pytest.raises(UserError, match="--dataset="):
        run(dataset=log)
    assert [path.name for path in tmp_path.iterdir()] == [name]


RATED = pd.DataFrame(
    {
        **FRAME,
        "stars": [n % 5 + 0.5 for n in range(len(FRAME))],
        "event": ["buy" if n % 3 else 'a "view"' for n in range(len(FRAME))],
        "note": ["" if n % 4 else "x" for n in range(len(FRAME))],
    }
)


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".jsonl"])
def test_further_columns_are_kept_where_they_are_asked_for_with_their_types(ending: str, tmp_path: Path) -> None:
    log = write(RATED.iloc[::-1], tmp_path / f"log{ending}")
    file = atomic_file(log, *FIELDS, more=("stars", "event", "note"))
    assert file.read_text("utf-8").partition("\n")[0].split("\t")[3:] == ["stars:float", "event:token", "note:token"]
    frame = pd.read_csv(file, sep="\t", keep_default_na=False)
    expected = RATED.iloc[::-1].sort_values(FIELDS[2], kind="stable")
    for column, values in zip(frame.columns[3:], ("stars", "event", "note"), strict=True):
        assert frame[column].tolist() == expected[values].tolist()
    with pytest.raises(UserError, match=r"'price'.*'note'"):
        atomic_file(log, *FIELDS, more=("price",))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"val_interval": {"event": ["Buy"]}}, r"`val_interval: event` .*\['Buy'\].*'buy'"),
        ({"val_interval": {"stars": ["2.5"]}, "threshold": {"stars": 2}}, "`threshold` .*'stars'"),
        ({"val_interval": {"when": "[2024-04-01,inf)"}}, r"`val_interval: when` .*1711929600"),
        ({"val_interval": {"stars": [1.5]}}, r"1\.5.*\['1.5'\]"),
        ({"val_interval": {"event": "[3,5]"}}, r"line 2: 'event' .*'a \"view\"'"),
        ({"threshold": {"event": 3}}, "'event'"),
        ({"val_interval": {"price": "[3,5]"}}, r"'price'.*'stars'"),
    ],
)
def test_a_filter_that_cannot_be_meant_is_refused(options: dict[str, Any], named: str, tmp_path: Path) -> None:
    log = write(RATED, tmp_path / "log.csv")
    with pytest.raises(UserError, match=named):
        create_dataset(configured(dataset=log, **{**QUIET, **COLUMNS, **options}))


def test_a_user_column_with_the_name_of_a_column_of_the_table_is_refused_before_training(tmp_path: Path) -> None:
    log = write(FRAME.rename(columns={"who": "rank"}), tmp_path / "log.csv")
    with pytest.raises(UserError, match="'rank'"):
        run(dataset=log, options={**QUIET, **COLUMNS, "USER_ID_FIELD": "rank"}, recommend="top.csv")


def test_a_run_goes_on_with_a_log_whose_columns_have_other_names(tmp_path: Path) -> None:
    log = write(RATED, tmp_path / "log.csv")
    options = {**QUIET, "epochs": 1, "topk": [3], "valid_metric": "MRR@3"}
    first = run(dataset=log, options={**options, **COLUMNS, "val_interval": {"stars": "[1,9]"}})
    renamed = {"who": "customer", "what": "product", "when": "bought"}
    other = write(RATED.rename(columns=renamed), tmp_path / "other.csv")
    names = dict(zip(NAMES_OF_COLUMNS, renamed.values(), strict=True))
    config = configured(dataset=other, resume=first.checkpoint, **{**options, **names})
    assert config["load_col"]["inter"] == ["customer", "product", "bought", "stars"]


def test_all_columns_of_a_log_are_its_three(tmp_path: Path) -> None:
    log = write(RATED, tmp_path / "log.csv")
    config = configured(dataset=log, **QUIET, **COLUMNS, load_col={"inter": "*"})
    assert create_dataset(config).inter_num == len(RATED)


def test_a_folder_of_parquet_needs_no_slash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "events").mkdir()
    write(FRAME, tmp_path / "events" / "0.parquet")
    assert is_table("events")
    assert not is_table("nothing")
    (tmp_path / "events" / "events.inter").write_text("")
    assert not is_table("events")  # a data set of RecBole


def test_values_that_are_wanted_and_not_there_and_gaps_are_said(tmp_path: Path, caplog: Any) -> None:
    frame = RATED.astype({"stars": object})
    frame.loc[:4, "stars"] = "NULL"
    log = write(frame, tmp_path / "log.csv")
    filters = {"val_interval": {"event": ["buy", "vew"], "stars": "[0,9]"}}
    config = configured(dataset=log, **QUIET, **COLUMNS, **filters)
    assert "5 rows" in caplog.text
    assert create_dataset(config).inter_num == ((frame["event"] == "buy") & (frame["stars"] != "NULL")).sum()
    assert "['vew']" in caplog.text


@pytest.mark.parametrize("model", ["BERT4Rec", "SASRec"])
def test_a_log_is_filtered_by_its_own_columns_in_whatever_way_they_were_read_before(model: str, tmp_path: Path) -> None:
    log = write(RATED, tmp_path / "log.csv")
    numbers, texts = {"val_interval": {"stars": "[2,3]"}}, {"val_interval": {"stars": ["2.5"]}}
    more = {"val_interval": {"stars": "[2,inf)"}, "load_col": {"inter": [*FIELDS, "stars", "note"]}}
    asked = (numbers, texts, numbers, {"val_interval": {"stars": ["2.5", "4.5"]}}, more, {"threshold": {"stars": 2}})
    found = [create_dataset(configured(model, log, **{**QUIET, **COLUMNS, **options})) for options in asked]
    stars = RATED["stars"]
    wanted = [stars.between(2, 3), stars == 2.5, stars.between(2, 3), stars.isin([2.5, 4.5]), stars >= 2, stars > 0]
    assert [dataset.inter_num for dataset in found] == [rows.sum() for rows in wanted]
    assert found[-1].inter_feat["label"].sum() == (stars >= 2).sum()


def test_a_signal_ends_a_query_at_once(tmp_path: Path) -> None:
    begin = time.monotonic()
    with handled(), pytest.raises(Interrupted), connected(tmp_path) as connection:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
        ask(connection, "SELECT sum(hash(a.range + b.range)) FROM range(1000000) a, range(1000000) b")
    assert time.monotonic() - begin < 30
