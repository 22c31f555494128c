"""What a log may hold that is not what it seems: it is read rightly, said with a count and an example, or refused."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from recbole_bert4rec.logs import texts
from recbole_bert4rec.logs.logs import open_log
from recbole_bert4rec.logs.reading import Reading
from recbole_bert4rec.logs.times import unit_of
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
    with pytest.raises(
        UserError, match=r"log\.csv, line 11: a value begins with a quote that is not closed before line"
    ):
        converted(log)
    frame, _ = converted(log, quote="none")
    assert list(frame.itertuples(index=False, name=None)) == ROWS


def test_line_breaks_inside_of_quotes_are_read_and_counted() -> None:
    frame, found = converted(csv(*plays({3: '"two\nlines"', 20: '"a, b\n\n""c"""'})))
    assert len(frame) == len(ROWS)
    (said,) = found["doubts"]
    assert said.startswith("2 rows hold line breaks inside of quotes, the first in line 5")


def test_rows_that_a_quote_seems_to_swallow_are_one_value_where_the_quote_is_given() -> None:
    frame, _ = converted(csv(*plays({9: '"Heroes', 10: 'Low"'})), quote='"')
    assert len(frame) == len(ROWS) - 1


@pytest.mark.parametrize(("name", "value"), [("quote", "ab"), ("quote", "\n"), ("escape", '"'), ("escape", "none")])
def test_a_quote_or_an_escape_of_another_length_is_refused(name: str, value: str) -> None:
    with pytest.raises(UserError, match=f"--{name}=.* must be one character, such as "):
        converted(csv("a,x,1,"), **{name: value})


def test_another_quote_and_an_escape_can_be_named() -> None:
    frame, _ = converted(csv("a,'x, y',1,", r"b,'it\'s',2,"), quote="'", escape="\\")
    assert frame["item"].tolist() == ["x, y", "it's"]


@pytest.mark.parametrize(("other", "joined"), [(" {} ", True), ("{}\u2003", True), ("{}.0", False), ("{}.00", False)])
def test_ids_that_differ_in_blanks_or_a_point_are_counted_and_blanks_are_left_out(other: str, joined: bool) -> None:
    spelt = [("{}" if n < 20 else other).format(n % 7) for n in range(40)]
    frame, record = converted(table(item=spelt))
    (said,) = record["doubts"]
    assert said.startswith("14 ids of 'item' differ from another one only in a '.0' or in blanks around them, such as ")
    assert "'0'" in said
    assert frame["item"].tolist() == ([f"{n % 7}" for n in range(40)] if joined else spelt)
    assert Items(["[PAD]", *map(str, range(7))]).ids_of([other.format(3), "4", "other"]).tolist() == [4, 5, 0]


def test_ids_that_differ_in_more_stay_apart_and_nothing_is_said() -> None:
    frame, found = converted(table(item=[f"{'iI'[n % 2]}{n % 7}" for n in range(40)]))
    assert frame["item"].nunique() == 14
    assert found["doubts"] == []


@pytest.mark.parametrize(
    "ids",
    [
        pa.array([float(n % 7) for n in range(40)]),
        pa.array([Decimal(n % 7) for n in range(40)], pa.decimal128(38, 9)),
        pa.array([f"{n % 7}.0" for n in range(40)]),
    ],
)
def test_whole_numbers_are_written_as_such_whatever_held_them(ids: pa.Array) -> None:
    frame, _ = converted(table(item=ids))
    assert frame["item"].tolist() == [str(n % 7) for n in range(40)]


def test_floats_that_have_lost_digits_are_no_ids() -> None:
    with pytest.raises(UserError, match="are floats of 9,007,199,254,740,992 or more, such as 12857"):
        converted(table(item=[float(1285704473650888017 + n) for n in range(40)]))
    with pytest.raises(UserError, match="floats of 16,777,216 or more"):
        converted(table(item=pa.array([2**24 + 2.0 * n for n in range(40)], pa.float32())))


def test_times_of_several_units_are_refused() -> None:
    mixed = [time if n % 2 else time * 1000 for n, (_, _, time) in enumerate(ROWS)]
    lines = [f"{user},{item},{time}," for (user, item, _), time in zip(ROWS, mixed, strict=True)]
    for log in (table(time=mixed), csv(*lines)):
        with pytest.raises(UserError, match="20 in seconds, such as 1600000060 in row 2; 20 in milliseconds, such as"):
            converted(log)


@pytest.mark.parametrize("scale", [1, 1000])
def test_one_unit_beside_zeros_and_small_numbers_is_taken_as_it_is(scale: int) -> None:
    frame, found = converted(table(time=[0, 5, *(time * scale for _, _, time in ROWS[2:])]))
    assert len(frame) == 40
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
        with pytest.raises(UserError, match=f"say how they are to be read, with --date_format={form}$"):
            converted(log)
        frame, _ = converted(log, date_format=form)
        assert frame["time"].tolist() == [moment.timestamp() for moment in moments]


def test_days_that_could_be_months_are_not_guessed() -> None:
    with pytest.raises(UserError, match=r"such as '05112023'; .* --date_format=%d%m%Y or %m%d%Y"):
        converted(table(time=["05112023", "06112023"] * 20))


def test_ties_are_said_where_they_are_most_or_stand_the_wrong_way_round() -> None:
    days = [86400 * (n // 20) for n in range(40)]
    assert converted(table(time=days))[1]["doubts"] == [
        "30 of 40 rows have the time of their user's previous one, and keep the log's order"
    ]
    assert converted(table(time=days[::-1]))[1]["doubts"][0].endswith("read the wrong way round; sort the log by time")
    assert converted(table(time=[n // 2 for n in range(40)]))[1]["doubts"] == []


def test_both_ends_of_a_period_have_one_unit() -> None:
    assert unit_of(1.6e9, 1.7e9) == 1
    assert unit_of(1.6e12, 1.7e12) == 1000
    assert unit_of(1.6e9, 1.7e12) is None
    assert unit_of(0.0, 1.0) is None


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
    monkeypatch.setattr(texts, "_COUNTED", block)
    for last in ("", end):
        Path("log.csv").write_bytes((end.join(["user,item,time", 'a,"x",1', "b,y,2"]) + last).encode())
        log = open_log("log.csv", Reading())
        assert isinstance(log, texts.Text)
        assert log._count_lines() == 3
