"""What a log may hold that is not what it seems: it is read rightly, counted, or refused with its line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from recbole_bert4rec.logs import read
from recbole_bert4rec.logs.formats import Reading
from recbole_bert4rec.logs.read import Log
from recbole_bert4rec.recommend.ids import Items
from recbole_bert4rec.system.errors import UserError
from tests.helpers.data import atomic_file
from tests.helpers.runs import make_config, prepare

FIELDS = ("user", "item", "time")
ROWS = [(f"u{n % 5}", f"i{n % 7}", 1_600_000_000 + 60 * n) for n in range(40)]


def csv(*lines: str, name: str = "log.csv") -> str:
    Path(name).write_text("\n".join(["user,item,time,title", *lines, ""]))
    return name


def table(name: str = "log.parquet", **columns: Any) -> str:
    parquet.write_table(
        pa.table({**dict(zip(FIELDS, map(list, zip(*ROWS, strict=True)), strict=True)), **columns}), name
    )
    return name


def converted(log: str, **reading: Any) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The interactions of a log, and what was found."""
    file = atomic_file(log, *FIELDS, Reading(**reading))
    frame = pd.read_csv(file, sep="\t", dtype={"user:token": str, "item:token": str}, keep_default_na=False)
    return frame.set_axis(FIELDS, axis=1), json.loads((file.parent / "conversion.json").read_text("utf-8"))


def plays(titles: dict[int, str], separator: str = ",") -> list[str]:
    return [separator.join(map(str, (*row, titles.get(n, "song")))) for n, row in enumerate(ROWS)]


@pytest.mark.parametrize(
    "titles",
    [
        {9: '"Heroes', 30: '"Low'},  # neither is closed
        {9: '"Heroes', 30: 'Low"'},  # the second closes the first
        {9: '"Heroes', 10: 'Low"'},
    ],
)
def test_a_quote_that_swallows_rows_is_refused_with_its_line_and_can_be_read_as_a_sign(titles: dict[int, str]) -> None:
    log = csv(*plays(titles))
    with pytest.raises(UserError, match=r"log\.csv, line 11: "):
        converted(log)
    frame, _ = converted(log, quote="none")
    assert list(frame.itertuples(index=False, name=None)) == ROWS


def test_line_breaks_inside_of_quotes_are_read_and_counted() -> None:
    frame, found = converted(csv(*plays({3: '"two\nlines"', 20: '"a, b\n\n""c"""'})))
    assert len(frame) == len(ROWS)
    (said,) = found["doubts"]
    assert re.match(r"2 rows .* line 5", said)


def test_rows_that_a_quote_seems_to_swallow_are_one_value_where_the_quote_is_given() -> None:
    frame, _ = converted(csv(*plays({9: '"Heroes', 10: 'Low"'})), quote='"')
    assert len(frame) == len(ROWS) - 1


@pytest.mark.parametrize(("other", "joined"), [(" {} ", True), ("{}\u2003", True), ("{}.0", False), ("{}.00", False)])
def test_ids_that_differ_in_blanks_or_a_point_are_counted_and_blanks_are_left_out(other: str, joined: bool) -> None:
    spelt = [("{}" if n < 20 else other).format(n % 7) for n in range(40)]
    frame, record = converted(table(item=spelt))
    (said,) = record["doubts"]
    assert re.match("14 ids of 'item' .*'0'", said)
    assert frame["item"].tolist() == ([f"{n % 7}" for n in range(40)] if joined else spelt)
    assert Items(["[PAD]", *map(str, range(7))]).ids_of([other.format(3), "4", "other"]).tolist() == [4, 5, 0]


def test_ids_that_differ_in_more_stay_apart_and_nothing_is_said() -> None:
    frame, found = converted(table(item=[f"{'iI'[n % 2]}{n % 7}" for n in range(40)]))
    assert frame["item"].nunique() == 14
    assert found["doubts"] == []


@pytest.mark.parametrize(
    ("form", "moments"),
    [
        ("%d%m%Y", pd.date_range("2023-10-27", periods=40)),
        ("%m%d%Y", pd.date_range("2023-09-05", periods=40)),
        ("%Y%m%d%H%M", pd.date_range("2023-11-05 08:15", periods=40, freq="7h")),
        ("%Y%m%d%H%M%S", pd.date_range("2023-11-05 08:15:01", periods=40, freq="7h")),
    ],
)
def test_dates_run_together_are_refused_until_their_form_is_told(form: str, moments: pd.DatetimeIndex) -> None:
    numbers = [int(f"{moment:{form}}") for moment in moments]
    for times in ([f"{moment:{form}}" for moment in moments], list(map(str, numbers)), numbers):
        log = table(time=times)
        with pytest.raises(UserError, match=f'--date_format="{form}"$'):
            converted(log)
        frame, _ = converted(log, date_format=form)
        assert frame["time"].tolist() == [moment.timestamp() for moment in moments]


def test_ties_are_counted_where_they_are_most_or_stand_the_wrong_way_round() -> None:
    days = [86400 * (n // 20) for n in range(40)]
    (said,) = converted(table(time=days))[1]["doubts"]
    (reversed_too,) = converted(table(time=days[::-1]))[1]["doubts"]
    assert said.startswith("30 of 40 rows")
    assert reversed_too.startswith("30 of 40 rows")
    assert said != reversed_too
    assert converted(table(time=[n // 2 for n in range(40)]))[1]["doubts"] == []


@pytest.mark.parametrize("model", ["BERT4Rec", "SASRec"])
def test_quotes_of_an_atomic_file_swallow_no_rows(model: str, write_inter: Any) -> None:
    header = "user_id:token\titem_id:token\ttimestamp:float\tsummary:token"
    notes = {5: '"Best', 9: 'ever"', 20: '"'}
    options = write_inter([(*row, notes.get(n, "good")) for n, row in enumerate(ROWS)], header=header)
    config = make_config(model, topk=5, valid_metric="MRR@5", **options)
    _, train, *_ = prepare(config)
    assert config["load_col"] is None or "summary" not in config["load_col"]["inter"]
    assert train.dataset.user_num == 6
    assert train.dataset.item_num == 8


def test_titles_beside_a_converted_log_may_hold_quotes() -> None:
    log = csv(*plays({}))
    converted(log)
    titles = {1: '"Open', 4: 'closed"'}
    rows = [f"i{n}\t{titles.get(n, 'plain')}" for n in range(7)]
    Path("log/log.item").write_text("\n".join(["item:token\ttitle:token", *rows, ""]))
    columns = {"inter": list(FIELDS), "item": ["item", "title"]}
    names = dict(zip(("USER_ID_FIELD", "ITEM_ID_FIELD", "TIME_FIELD"), FIELDS, strict=True))
    config = make_config("BERT4Rec", "log", data_path=".", load_col=columns, topk=5, valid_metric="MRR@5", **names)
    dataset, *_ = prepare(config)
    assert dataset.item_num == 8
    assert '"Open' in dataset.field2id_token["title"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("block", [1, 3, 1 << 24])
def test_lines_are_counted_whatever_ends_them_and_wherever_a_block_does(
    end: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "_COUNTED", block)
    for last in ("", end):
        Path("log.csv").write_bytes((end.join(["user,item,time", 'a,"x",1', "b,y,2"]) + last).encode())
        assert Log("log.csv", Reading())._unpacked(Path())[1] == 3
