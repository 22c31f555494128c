"""A log becomes an atomic file once, again when it has changed, and yesterday's model finds its own ids in it."""

from __future__ import annotations

import json
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
from recbole.quick_start import load_data_and_model

from recbole_bert4rec.logs import events
from recbole_bert4rec.logs.conversion import read_record
from recbole_bert4rec.logs.formats import Reading, is_table
from recbole_bert4rec.logs.read import ask, connected
from recbole_bert4rec.plugin.loading import ITEM_ORDER, ItemOrder
from recbole_bert4rec.system.constants import NAMES_OF_COLUMNS
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.interrupts import Interrupted, handled
from recbole_bert4rec.training.run import run
from tests.helpers.data import atomic_file
from tests.helpers.runs import MRR_OF_3, QUIET, configured, make_config, prepare

NAMES = ("user_id", "item_id", "timestamp")
COLUMNS = dict(zip(NAMES_OF_COLUMNS, NAMES, strict=True))
ROWS = [(f"u{user}", f"i{(user + step) % 9}", 1_700_000_000 + step) for user in range(12) for step in range(6)]
SMALL = {**QUIET, **MRR_OF_3, "hidden_size": 16, "inner_size": 32, "epochs": 1}
EARLIEST = ("u0", "i7", 1_600_000_000)


def write(path: Path, rows: Any, columns: Any = NAMES) -> Path:
    """Write a log whose time of change tells how many rows it has."""
    frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows, columns=list(columns))
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False)
    os.utime(path, (len(frame), len(frame)))
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write(tmp_path / "log.csv", ROWS)


@pytest.fixture(scope="module")
def yesterday(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A log and a checkpoint that was trained on it; copies of both are used."""
    folder = tmp_path_factory.mktemp("yesterday")
    log = write(folder / "log.csv", ROWS)
    return log, run(dataset=str(log), options={**SMALL, "checkpoint_dir": str(folder / "saved")}).checkpoint


# ---- made once


def test_it_is_made_once_and_again_only_when_log_columns_or_reading_change(tmp_path: Path) -> None:
    log = write(tmp_path / "log.csv", [*ROWS, ROWS[0]])
    target = atomic_file(str(log), *NAMES)
    digest = read_record(target.parent)["digest"]
    os.utime(target, (1, 1))
    assert atomic_file(str(log), *NAMES).stat().st_mtime == 1
    assert atomic_file(str(log), "item_id", "user_id", "timestamp").stat().st_mtime > 1
    drops = (True, False)
    sizes = [
        len(atomic_file(str(log), *NAMES, Reading(drop_duplicates=drop)).read_text().splitlines()) for drop in drops
    ]
    assert sizes == [len(ROWS) + 1, len(ROWS) + 2]
    made_from = read_record(target.parent)["made_from"]
    os.utime(log, (5, 5))
    atomic_file(str(log), *NAMES)
    assert read_record(target.parent)["digest"] == digest, "the log is the same"
    assert read_record(target.parent)["made_from"] != made_from
    write(log, ROWS[:40])
    assert len(atomic_file(str(log), *NAMES).read_text().splitlines()) == 41


@pytest.mark.parametrize(
    ("error", "shown", "said"),
    [(KeyboardInterrupt(), KeyboardInterrupt, None), (OSError(28, "No space"), UserError, "No space")],
    ids=["stopped", "full disk"],
)
def test_a_conversion_that_was_not_finished_leaves_the_old_one_and_is_made_again(
    error: BaseException, shown: type[BaseException], said: str | None, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    target = atomic_file(str(log), *NAMES)
    before = target.read_bytes()
    write(log, ROWS[:40])
    with monkeypatch.context() as patch, pytest.raises(shown, match=said):
        patch.setattr(events.csv, "write_csv", fail)
        atomic_file(str(log), *NAMES)
    assert target.read_bytes() == before
    assert {path.name for path in target.parent.iterdir()} == {".conversion.lock", "conversion.json", "log.inter"}
    assert len(atomic_file(str(log), *NAMES).read_text().splitlines()) == 41


@pytest.mark.parametrize("content", ["", "[]", '{"digest": 7}'])
def test_a_damaged_record_leads_to_a_new_conversion(content: str, log: Path) -> None:
    target = atomic_file(str(log), *NAMES)
    target.write_text("half")
    (target.parent / "conversion.json").write_text(content)
    assert len(atomic_file(str(log), *NAMES).read_text().splitlines()) == len(ROWS) + 1


def test_what_is_in_the_place_of_the_atomic_file_is_kept_and_named(log: Path, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("in the way")
    with pytest.raises(UserError, match=r"log\.csv: .*log ") as caught:
        atomic_file(str(log), *NAMES)
    assert "\n" not in str(caught.value)
    (tmp_path / "log").unlink()
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "log.inter").write_text("precious")
    with pytest.raises(UserError, match=r"log\.inter .*--dataset=log --data_path="):
        atomic_file(str(log), *NAMES)
    assert (tmp_path / "log" / "log.inter").read_text() == "precious"
    with pytest.raises(UserError, match="'item_id', 'item_id'"):
        atomic_file(str(log), "user_id", "item_id", "item_id")


@pytest.mark.parametrize("name", ["data/log.csv.zip", "at/toy/toy.inter", "at/toy"])
def test_a_path_that_is_no_log_is_refused_at_once(name: str) -> None:
    with pytest.raises(UserError, match=f"{re.escape(name)}.*--data_path=FOLDER"):
        run(dataset=name)


@pytest.mark.parametrize("name", ["..csv", "...csv", "ml-100k.csv"])
def test_a_log_whose_name_can_name_no_data_set_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--dataset="):
        run(dataset=str(write(tmp_path / name, ROWS)))
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_folder_of_parquet_needs_no_slash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "events").mkdir()
    write(tmp_path / "events" / "0.parquet", ROWS)
    assert is_table("events")
    assert not is_table("nothing")
    (tmp_path / "events" / "events.inter").write_text("")
    assert not is_table("events")  # a data set of RecBole


def test_a_signal_ends_a_query_at_once(tmp_path: Path) -> None:
    begin = time.monotonic()
    with handled(), pytest.raises(Interrupted), connected(tmp_path) as (connection, _):
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
        ask(connection, "SELECT sum(hash(a.range + b.range)) FROM range(1000000) a, range(1000000) b")
    assert time.monotonic() - begin < 30


# ---- further columns


RATED = pd.DataFrame(ROWS, columns=list(NAMES)).assign(
    stars=[n % 5 + 0.5 for n in range(len(ROWS))],
    event=["buy" if n % 3 else 'a "view"' for n in range(len(ROWS))],
    note=["" if n % 4 else "x" for n in range(len(ROWS))],
)


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".jsonl"])
def test_further_columns_are_kept_where_they_are_asked_for_with_their_types(ending: str, tmp_path: Path) -> None:
    log = str(write(tmp_path / f"log{ending}", RATED.iloc[::-1]))
    file = atomic_file(log, *NAMES, more=("stars", "event", "note"))
    assert file.read_text("utf-8").partition("\n")[0].split("\t")[3:] == ["stars:float", "event:token", "note:token"]
    frame = pd.read_csv(file, sep="\t", keep_default_na=False)
    expected = RATED.iloc[::-1].sort_values(NAMES[2], kind="stable")
    for column, values in zip(frame.columns[3:], ("stars", "event", "note"), strict=True):
        assert frame[column].tolist() == expected[values].tolist()
    with pytest.raises(UserError, match=r"'price'.*'note'"):
        atomic_file(log, *NAMES, more=("price",))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"val_interval": {"event": ["Buy"]}}, r"`val_interval: event` .*\['Buy'\].*'buy'"),
        ({"val_interval": {"stars": ["2.5"]}, "threshold": {"stars": 2}}, "`threshold` .*'stars'"),
        ({"val_interval": {"timestamp": "[2024-04-01,inf)"}}, r"`val_interval: timestamp` .*1711929600"),
        ({"val_interval": {"stars": [1.5]}}, r"1\.5.*\['1.5'\]"),
        ({"val_interval": {"event": "[3,5]"}}, r"line 2: 'event' .*'a \"view\"'"),
        ({"threshold": {"event": 3}}, "'event'"),
        ({"val_interval": {"price": "[3,5]"}}, r"'price'.*'stars'"),
    ],
)
def test_a_filter_that_cannot_be_meant_is_refused(options: dict[str, Any], named: str, tmp_path: Path) -> None:
    log = str(write(tmp_path / "log.csv", RATED))
    with pytest.raises(UserError, match=named):
        create_dataset(configured(dataset=log, **{**QUIET, **options}))


def test_values_that_are_wanted_and_not_there_and_gaps_are_said(tmp_path: Path, caplog: Any) -> None:
    frame = RATED.astype({"stars": object})
    frame.loc[:4, "stars"] = "NULL"
    log = str(write(tmp_path / "log.csv", frame))
    filters = {"val_interval": {"event": ["buy", "vew"], "stars": "[0,9]"}}
    config = configured(dataset=log, **QUIET, **filters)
    assert "5 rows" in caplog.text
    assert create_dataset(config).inter_num == ((frame["event"] == "buy") & (frame["stars"] != "NULL")).sum()
    assert "['vew']" in caplog.text


def test_a_log_is_filtered_by_its_own_columns_in_whatever_way_they_were_read_before(tmp_path: Path) -> None:
    log, stars = str(write(tmp_path / "log.csv", RATED)), RATED["stars"]
    three, more = {"load_col": {"inter": "*"}}, {"load_col": {"inter": [*NAMES, "stars", "note"]}}
    for number, (options, wanted) in enumerate(
        [
            (three, stars > 0),
            ({"val_interval": {"stars": "[2,3]"}}, stars.between(2, 3)),
            ({"val_interval": {"stars": ["2.5"]}}, stars == 2.5),
            ({"val_interval": {"stars": "[2,3]"}}, stars.between(2, 3)),
            ({"val_interval": {"stars": ["2.5", "4.5"]}}, stars.isin([2.5, 4.5])),
            ({"val_interval": {"stars": "[2,inf)"}, **more}, stars >= 2),
            ({"threshold": {"stars": 2}}, stars > 0),
        ]
    ):
        dataset = create_dataset(configured(("BERT4Rec", "SASRec")[number % 2], log, **{**QUIET, **options}))
        assert dataset.inter_num == wanted.sum(), options
    assert dataset.inter_feat["label"].sum() == (stars >= 2).sum()


def test_a_run_goes_on_with_a_log_whose_columns_have_other_names(tmp_path: Path) -> None:
    log = write(tmp_path / "log.csv", RATED)
    first = run(dataset=str(log), options={**SMALL, "val_interval": {"stars": "[1,9]"}})
    renamed = dict(zip(NAMES, ("customer", "product", "bought"), strict=True))
    other = write(tmp_path / "other.csv", RATED.rename(columns=renamed))
    names = dict(zip(NAMES_OF_COLUMNS, renamed.values(), strict=True))
    config = configured(dataset=str(other), resume=first.checkpoint, **{**SMALL, **names})
    assert config["load_col"]["inter"] == ["customer", "product", "bought", "stars"]


def test_a_user_column_with_the_name_of_a_column_of_the_table_is_refused_before_training(tmp_path: Path) -> None:
    log = write(tmp_path / "log.csv", ROWS, ("rank", *NAMES[1:]))
    with pytest.raises(UserError, match="'rank'"):
        run(dataset=str(log), options={**QUIET, "USER_ID_FIELD": "rank"}, recommend="top.csv")


# ---- read by models


def test_any_model_sees_a_log_in_its_exact_order(tmp_path: Path) -> None:
    begin = 1_700_000_000  # float32 knows only every 128th second here
    rows = [(f"u{u}", f"i{(u + t) % 9}", begin + t) for u in range(9) for t in range(6)][::-1]
    target = atomic_file(str(write(tmp_path / "log.csv", rows)), *NAMES)
    dataset, _, _, test = prepare(make_config("GRU4Rec", "log", data_path=str(target.parents[1]), **MRR_OF_3))
    history = test.dataset.inter_feat
    row = (history["user_id"] == dataset.token2id("user_id", "u4")).nonzero().item()
    items = [*history["item_id_list"][row, :5].tolist(), int(history["item_id"][row])]
    assert dataset.id2token("item_id", items).tolist() == [f"i{i}" for i in (4, 5, 6, 7, 8, 0)]


@pytest.mark.parametrize("model", ["BERT4Rec", "SASRec", "Pop"])
def test_ids_that_look_missing_are_kept_by_every_model_and_titles_may_hold_quotes(model: str, tmp_path: Path) -> None:
    names = {"i1": "NA", "i2": "None", "i3": "null", "u3": "nan"}
    rows = [(names.get(user, user), names.get(item, item), time) for user, item, time in ROWS]
    folder = atomic_file(str(write(tmp_path / "log.csv", rows)), *NAMES).parent
    titles = {1: '"Open', 4: 'closed"'}
    items = [f"{names.get(f'i{n}', f'i{n}')}\tkind{n}\t{titles.get(n, 'plain')}" for n in range(9)]
    (folder / "log.item").write_text("\n".join(["item_id:token\tclass:token\ttitle:token", *items, ""]))
    columns = {"inter": list(NAMES), "item": ["item_id", "class", "title"]}
    dataset = prepare(make_config(model, "log", data_path=str(folder.parent), load_col=columns, **MRR_OF_3))[0]
    assert {"NA", "None", "null"} < set(dataset.field2id_token["item_id"])
    assert "nan" in dataset.field2id_token["user_id"]
    assert (dataset.user_num, dataset.item_num) == (13, 10)
    place = list(dataset.field2id_token["item_id"]).index("None")
    assert dataset.id2token("class", int(dataset.item_feat["class"][place])) == "kind2"
    assert '"Open' in dataset.field2id_token["title"]


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
    run(dataset=str(log), resume=str(checkpoint), options=SMALL, recommend=str(folder / "top.csv"), k=3)
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
    log = str(write(tmp_path / "log.csv", [("u0", "new", 1), *ROWS]))
    with pytest.raises(UserError, match=r" 9 items, .* 10"):
        run(dataset=log, resume=str(yesterday[1]), options=SMALL)


def test_items_keep_their_numbers_in_lists_and_features_too(log: Path) -> None:
    folder = atomic_file(str(log), *NAMES).parent
    (folder / "log.item").write_text("item_id:token\tclass:token\n" + "".join(f"i{n}\tk{n}\n" for n in range(9)))
    columns = {"inter": list(NAMES), "item": ["item_id", "class"]}
    config = make_config(dataset="log", data_path=str(folder.parent), load_col=columns, **MRR_OF_3)
    known = ["[PAD]", "gone", *(f"i{n}" for n in range(8, -1, -1))]
    config[ITEM_ORDER] = ItemOrder("a.pth", tuple(known))
    dataset = prepare(config)[0]
    assert list(dataset.field2id_token["item_id"]) == known
    items = dataset.id2token("item_id", dataset.sequences.items[:6]).tolist()
    assert items == [item for user, item, _ in ROWS if user == "u0"]
    classes = dataset.id2token("class", dataset.item_feat["class"]).tolist()
    assert classes[2:] == [f"k{n}" for n in range(8, -1, -1)]


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
    options = {**SMALL, "epochs": 0, **(given if way == "options" else {})}
    run(dataset=str(tmp_path / "log.csv"), options=options, config_files=["how.yaml"])
    record = read_record(tmp_path / "log")
    assert (record["interactions"], record["rows"]) == (len(ROWS), len(ROWS) + 1)
    assert "José i3" in (tmp_path / "log" / "log.inter").read_text("cp1252")
