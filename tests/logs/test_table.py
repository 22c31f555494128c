"""CSV and Parquet logs become atomic files once."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from recbole.data import create_dataset

from recbole_bert4rec.logs import table
from recbole_bert4rec.logs.table import is_table
from recbole_bert4rec.system.constants import NAMES_OF_COLUMNS
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.inputs import configure
from recbole_bert4rec.training.request import RunRequest
from recbole_bert4rec.training.run import run
from tests.helpers.data import atomic_file
from tests.helpers.runs import QUIET, make_config, prepare

FRAME = pd.DataFrame(
    {
        "who": [f"u{u}" for u in range(9) for _ in range(6)],
        "what": [(u + t) % 12 for u in range(9) for t in range(6)],
        "when": [1_700_000_000 + t for _ in range(9) for t in range(6)],
        "extra": 1.5,
    }
)
FIELDS = ("who", "what", "when")


def write(frame: pd.DataFrame, path: Path) -> str:
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    return str(path)


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet"])
@pytest.mark.parametrize("dates", [False, True])
def test_a_log_becomes_three_typed_columns(ending: str, dates: bool, tmp_path: Path) -> None:
    frame = FRAME.copy()
    if dates:
        frame["when"] = pd.to_datetime(frame["when"], unit="s", utc=True)
    log = write(frame, tmp_path / f"log{ending}")
    assert is_table(log)
    target = atomic_file(log, *FIELDS)
    assert target == tmp_path / "log" / "log.inter"
    read = pd.read_csv(target, sep="\t", dtype={"who:token": str, "what:token": str})
    assert list(read) == ["who:token", "what:token", "when:float"]
    ordered = FRAME.sort_values("when", kind="stable")
    assert read["who:token"].tolist() == ordered["who"].tolist()
    assert read["what:token"].tolist() == ordered["what"].astype(str).tolist()
    assert read["when:float"].tolist() == ordered["when"].tolist()


def test_it_is_made_once_and_again_only_when_log_or_columns_change(tmp_path: Path) -> None:
    log = write(FRAME, tmp_path / "log.csv")
    target = atomic_file(log, *FIELDS)
    os.utime(target, (1, 1))
    assert atomic_file(log, *FIELDS).stat().st_mtime == 1
    assert atomic_file(log, "what", "who", "when").stat().st_mtime > 1
    os.utime(target, (1, 1))
    write(FRAME[:40], tmp_path / "log.csv")
    assert atomic_file(log, "what", "who", "when").stat().st_mtime > 1


def test_whole_numbers_with_holes_stay_whole(tmp_path: Path) -> None:
    frame = FRAME.assign(what=FRAME["what"].astype(float).where(FRAME["what"] != 3))
    text = atomic_file(write(frame, tmp_path / "log.parquet"), *FIELDS).read_text()
    assert "u0\t0\t" in text
    assert "0.0\t" not in text
    assert len(text.splitlines()) == 1 + int(frame["what"].notna().sum())


@pytest.mark.parametrize(
    ("change", "fields", "message"),
    [
        ({}, ("who", "thing", "when"), "has no column 'thing'; its columns are .*--ITEM_ID_FIELD=NAME"),
        ({"when": "soon"}, FIELDS, "54 of 54 values do not fit; the first is 'soon'"),
        (
            {"when": [*range(53), "soon"]},
            FIELDS,
            "'when' must hold numbers only .* 1 of 54 values do not fit; the first is 'soon' in row 54",
        ),
        (
            {"when": [*(["2020-01-01"] * 53), "7"]},
            FIELDS,
            "'when' must hold numbers only .* 1 of 54 values do not fit; the first is '7' in row 54",
        ),
        ({"when": [*range(53), "inf"]}, FIELDS, "1 values of 'when' are infinite"),
        ({"when": [None, *range(53)]}, FIELDS, "'when' is missing in 1 of 54 rows, first in row 1"),
        ({"when": [1, "NaN", *range(52)]}, FIELDS, "'when' is missing in 1 of 54 rows, first in row 2"),
        ({}, ("who", "what", "what"), "must be three columns, but are"),
        ({"who": "a\tb"}, FIELDS, "some values of 'who' hold a tab or a line break"),
    ],
)
def test_a_log_that_cannot_be_used_is_refused_and_nothing_is_written(
    change: dict[str, Any], fields: tuple[str, str, str], message: str, tmp_path: Path
) -> None:
    log = write(FRAME.assign(**change), tmp_path / "log.csv")
    with pytest.raises(UserError, match=message):
        atomic_file(log, *fields)
    assert not (tmp_path / "log" / "log.inter").exists()


def test_missing_empty_and_broken_logs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        atomic_file(str(tmp_path / "no.csv"), *FIELDS)
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(UserError, match=r"empty\.csv is empty; its first line must name the columns"):
        atomic_file(str(tmp_path / "empty.csv"), *FIELDS)
    (tmp_path / "plus.csv").write_text("who+what+when\na+b+1\n")
    with pytest.raises(UserError, match=r"has no column 'who'; its columns are \['who\+what\+when'\]; .*--separator="):
        atomic_file(str(tmp_path / "plus.csv"), *FIELDS)
    (tmp_path / "latin.csv").write_bytes("who,what,when\nJosé,b,1\n".encode("latin-1"))
    with pytest.raises(UserError, match="save it as UTF-8"):
        atomic_file(str(tmp_path / "latin.csv"), *FIELDS)
    (tmp_path / "header.csv").write_text("who,what,when\n")
    with pytest.raises(UserError, match="has a header but no rows"):
        atomic_file(str(tmp_path / "header.csv"), *FIELDS)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(UserError, match="cannot be read"):
        atomic_file(str(tmp_path / "broken.parquet"), *FIELDS)


def test_long_numbers_beside_gaps_keep_every_digit(tmp_path: Path) -> None:
    users = pa.array([2**60 + 1, 2**60 + 3, None], pa.int64())
    parquet.write_table(pa.table({"who": users, "what": ["a", "b", "c"], "when": [1, 2, 3]}), tmp_path / "log.parquet")
    text = atomic_file(str(tmp_path / "log.parquet"), *FIELDS).read_text()
    assert text.splitlines()[1:] == [f"{2**60 + 1}\ta\t1", f"{2**60 + 3}\tb\t2"]


def test_unsigned_times_are_sorted_too(tmp_path: Path) -> None:
    times = pa.array([30, 20, 10], pa.uint64())
    parquet.write_table(pa.table({"who": ["u"] * 3, "what": ["c", "b", "a"], "when": times}), tmp_path / "log.parquet")
    assert atomic_file(str(tmp_path / "log.parquet"), *FIELDS).read_text().splitlines()[1:] == [
        "u\ta\t10",
        "u\tb\t20",
        "u\tc\t30",
    ]


def test_ids_that_cannot_be_text_are_refused(tmp_path: Path) -> None:
    columns = {"who": [{"id": "a"}, {"id": "b"}], "what": ["x", "y"], "when": [1, 2]}
    parquet.write_table(pa.table(columns), tmp_path / "log.parquet")
    with pytest.raises(UserError, match=r"values of 'who' have type struct<.*> and cannot be ids"):
        atomic_file(str(tmp_path / "log.parquet"), *FIELDS)


@pytest.mark.parametrize(
    "missing",
    [
        pa.array([None, None]),
        pa.array([None, None], pa.string()),
        pa.array([None, None], pa.float64()),
        pa.array([math.nan, math.nan]),
        pa.array(["", " "]),
    ],
    ids=["null", "null text", "null number", "nan", "text"],
)
@pytest.mark.parametrize("column", ["who", "what"])
def test_ids_that_are_all_missing_are_refused(column: str, missing: pa.Array, tmp_path: Path) -> None:
    columns = {"who": ["a", "b"], "what": ["x", "y"], "when": [1, 2], column: missing}
    parquet.write_table(pa.table(columns), tmp_path / "log.parquet")
    with pytest.raises(UserError, match=f"all values of '{column}' are missing; it cannot be a column of ids"):
        atomic_file(str(tmp_path / "log.parquet"), *FIELDS)
    assert not (tmp_path / "log" / "log.inter").exists()


def test_whole_numbers_beside_nan_stay_whole(tmp_path: Path) -> None:
    columns = {"who": [1.0, math.nan], "what": ["x", "y"], "when": [1, 2]}
    parquet.write_table(pa.table(columns), tmp_path / "log.parquet")
    assert atomic_file(str(tmp_path / "log.parquet"), *FIELDS).read_text().splitlines()[1:] == ["1\tx\t1"]


@pytest.mark.parametrize("times", [[True, False], [True, None]])
def test_truth_values_are_no_times(times: list[bool | None], tmp_path: Path) -> None:
    parquet.write_table(pa.table({"who": ["a", "b"], "what": ["x", "y"], "when": times}), tmp_path / "log.parquet")
    with pytest.raises(UserError, match="'when' holds true and false; times must be numbers or dates"):
        atomic_file(str(tmp_path / "log.parquet"), *FIELDS)


def test_quotes_commas_and_line_breaks_of_a_csv_are_understood(tmp_path: Path) -> None:
    lines = ["\ufeffwhen,what,note,who", '2,"x, ""y""","two\nlines",u', "1,z,,v"]
    (tmp_path / "log.csv").write_text("\n".join(lines), encoding="utf-8")
    read = pd.read_csv(atomic_file(str(tmp_path / "log.csv"), *FIELDS), sep="\t")
    assert read.to_numpy().tolist() == [["v", "z", 1], ["u", 'x, "y"', 2]]


def test_a_conversion_that_was_stopped_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = write(FRAME, tmp_path / "log.csv")
    target = atomic_file(log, *FIELDS)
    write(FRAME[:40], tmp_path / "log.csv")
    for name in ("write_csv", "WriteOptions"):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(table.csv, name, stop)
            atomic_file(log, *FIELDS)
        assert len(target.read_text().splitlines()) == len(FRAME) + 1  # the old one stays until there is a new one
    assert len(atomic_file(log, *FIELDS).read_text().splitlines()) == 41


def test_a_first_conversion_that_was_stopped_before_its_mark_is_made_again(tmp_path: Path) -> None:
    log = write(FRAME, tmp_path / "log.csv")
    target = atomic_file(log, *FIELDS)
    target.with_name("conversion.json").write_text("{}")
    target.write_text("half")
    assert len(atomic_file(log, *FIELDS).read_text().splitlines()) == len(FRAME) + 1


def stop(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


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


def test_an_atomic_file_of_someone_else_is_not_overwritten(tmp_path: Path) -> None:
    log = write(FRAME, tmp_path / "log.csv")
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "log.inter").write_text("precious")
    with pytest.raises(UserError, match=r"was not made from .*--dataset=log --data_path="):
        atomic_file(log, *FIELDS)
    assert (tmp_path / "log" / "log.inter").read_text() == "precious"


@pytest.mark.parametrize("model", ["BERT4Rec", "GRU4Rec"])
def test_a_run_takes_a_log_by_its_path(model: str, tmp_path: Path) -> None:
    log = write(FRAME.sample(frac=1.0, random_state=0), tmp_path / "log.csv")
    names = dict(zip(("USER_ID_FIELD", "ITEM_ID_FIELD", "TIME_FIELD"), FIELDS, strict=True))
    options = {"epochs": 1, "show_progress": False, "state": "error", "topk": [3], "valid_metric": "MRR@3", **names}
    result = run(model=model, dataset=log, options=options)
    assert 0 <= result.test_result["mrr@3"] <= 1


@pytest.mark.parametrize("name", ["data/log.csv.zip", "at/toy/toy.inter", "at/toy"])
def test_a_path_that_is_no_log_is_refused_at_once(name: str) -> None:
    with pytest.raises(UserError, match=r"is neither a log \(.csv, .tsv, .txt, .*\) nor a name; .*--data_path=FOLDER"):
        run(dataset=name)


@pytest.mark.parametrize("name", ["..csv", "...csv", f"{'n' * 201}.csv", f"{'ä' * 101}.csv"])
def test_a_log_whose_name_can_name_no_data_set_is_refused(name: str, tmp_path: Path) -> None:
    log = write(FRAME, tmp_path / name)
    with pytest.raises(UserError, match=r"a data set cannot be called .*; rename the log"):
        run(dataset=log)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_log_named_like_a_known_data_set_is_refused(tmp_path: Path) -> None:
    log = write(FRAME, tmp_path / "ml-100k.csv")
    with pytest.raises(UserError, match="'ml-100k' names a known data set"):
        run(dataset=log)


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
    with pytest.raises(UserError, match=r"has no column 'price'; its columns are .*'note'\]$"):
        atomic_file(log, *FIELDS, more=("price",))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"val_interval": {"event": ["Buy"]}}, r"wants \['Buy'\], which no row has; its values are texts: .*'buy'"),
        (
            {"val_interval": {"stars": ["4"]}},
            r"`val_interval: stars` wants \['4'\], which no row has; its values are texts: .*'4.5'",
        ),
        ({"val_interval": {"stars": ["2.5"]}, "threshold": {"stars": 2}}, "`threshold` reads 'stars' as numbers"),
        (
            {"val_interval": {"when": ["2024-04-01"]}},
            r"`val_interval: when` must be intervals .*2024-04-01 is 1711929600",
        ),
        ({"val_interval": {"when": "[2024-04-01,inf)"}}, r"`val_interval: when` must be .*2024-04-01 is 1711929600"),
        ({"val_interval": {"stars": [1.5]}}, r"values of a list are texts, but one is 1.5; write \['1.5'\]"),
        ({"val_interval": {"event": "[3,5]"}}, r"line 2: 'event' must hold numbers .* such as 'a \"view\"'; a list"),
        ({"threshold": {"event": 3}}, r"'event' must hold numbers to be filtered by"),
        ({"val_interval": {"price": "[3,5]"}}, r"has no column 'price'; its columns are .*'stars'"),
    ],
)
def test_a_filter_that_cannot_be_meant_is_refused(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    log = write(RATED, tmp_path / "log.csv")
    names = dict(zip(NAMES_OF_COLUMNS, FIELDS, strict=True))
    with pytest.raises(UserError, match=words):
        create_dataset(configure(RunRequest(dataset=log, options={**QUIET, **names, **options})))


def test_a_filter_that_leaves_nothing_is_one_line(tmp_path: Path) -> None:
    log = write(RATED, tmp_path / "log.csv")
    names = dict(zip(NAMES_OF_COLUMNS, FIELDS, strict=True))
    config = configure(RunRequest(dataset=log, options={**QUIET, **names, "val_interval": {"stars": "[90,99]"}}))
    with pytest.raises(UserError, match=r"the filters leave nothing of data set 'log': .*'val_interval'"):
        create_dataset(config)


def test_a_user_column_with_the_name_of_a_column_of_the_table_is_refused_before_training(tmp_path: Path) -> None:
    log = write(FRAME.rename(columns={"who": "rank"}), tmp_path / "log.csv")
    names = {"USER_ID_FIELD": "rank", "ITEM_ID_FIELD": "what", "TIME_FIELD": "when"}
    with pytest.raises(UserError, match="the table has a column 'rank' of its own"):
        run(dataset=log, options={**QUIET, **names}, recommend="top.csv")


def test_a_run_goes_on_with_a_log_whose_columns_have_other_names(tmp_path: Path) -> None:
    log = write(RATED, tmp_path / "log.csv")
    options = {**QUIET, "epochs": 1, "topk": [3], "valid_metric": "MRR@3"}
    names = dict(zip(NAMES_OF_COLUMNS, FIELDS, strict=True))
    first = run(dataset=log, options={**options, **names, "val_interval": {"stars": "[1,9]"}})
    renamed = {"who": "customer", "what": "product", "when": "bought"}
    other = write(RATED.rename(columns=renamed), tmp_path / "other.csv")
    names = dict(zip(NAMES_OF_COLUMNS, renamed.values(), strict=True))
    config = configure(RunRequest(dataset=other, resume=str(first.checkpoint), options={**options, **names}))
    assert config["load_col"]["inter"] == ["customer", "product", "bought", "stars"]


def test_all_columns_of_a_log_are_its_three(tmp_path: Path) -> None:
    log = write(RATED, tmp_path / "log.csv")
    names = dict(zip(NAMES_OF_COLUMNS, FIELDS, strict=True))
    config = configure(RunRequest(dataset=log, options={**QUIET, **names, "load_col": {"inter": "*"}}))
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
    names = dict(zip(NAMES_OF_COLUMNS, FIELDS, strict=True))
    filters = {"val_interval": {"event": ["buy", "vew"], "stars": "[0,9]"}}
    config = configure(RunRequest(dataset=log, options={**QUIET, **names, **filters}))
    assert "5 rows have no 'stars'" in caplog.text
    assert create_dataset(config).inter_num == ((frame["event"] == "buy") & (frame["stars"] != "NULL")).sum()
    assert "wants ['vew'], which no row has" in caplog.text


def test_a_conversion_is_made_again_if_a_column_is_read_in_another_way(tmp_path: Path) -> None:
    log = write(RATED, tmp_path / "log.csv")
    names = dict(zip(NAMES_OF_COLUMNS, FIELDS, strict=True))
    numbers, texts = {"val_interval": {"stars": "[2,3]"}}, {"val_interval": {"stars": ["2.5"]}}
    labels = {"threshold": {"stars": 2}}
    counts = [
        create_dataset(configure(RunRequest(dataset=log, options={**QUIET, **names, **options}))).inter_num
        for options in (numbers, texts, numbers, {"val_interval": {"stars": ["2.5", "4.5"]}})
    ]
    assert counts == [
        RATED["stars"].between(2, 3).sum(),
        (RATED["stars"] == 2.5).sum(),
        counts[0],
        RATED["stars"].isin([2.5, 4.5]).sum(),
    ]
    labelled = create_dataset(configure(RunRequest(dataset=log, options={**QUIET, **names, **labels})))
    assert labelled.inter_feat["label"].sum() == (RATED["stars"] >= 2).sum()


@pytest.mark.parametrize("model", ["BERT4Rec", "SASRec"])
@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"val_interval": {"stars": "[2,inf)"}}, (RATED["stars"] >= 2).sum()),
        ({"val_interval": {"event": ["buy"]}}, (RATED["event"] == "buy").sum()),
        ({"val_interval": {"stars": ["2.5", "4.5"]}}, RATED["stars"].isin([2.5, 4.5]).sum()),
        ({"threshold": {"stars": 2}}, len(RATED)),
        (
            {"val_interval": {"stars": "[2,inf)"}, "load_col": {"inter": [*FIELDS, "stars", "note"]}},
            (RATED["stars"] >= 2).sum(),
        ),
    ],
)
def test_a_log_is_filtered_by_a_column_of_its_own(
    model: str, options: dict[str, Any], count: int, tmp_path: Path
) -> None:
    log = write(RATED, tmp_path / "log.csv")
    names = dict(zip(NAMES_OF_COLUMNS, FIELDS, strict=True))
    config = configure(RunRequest(model=model, dataset=log, options={**QUIET, **names, **options}))
    assert create_dataset(config).inter_num == count
