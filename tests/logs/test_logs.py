"""Logs in as many shapes as people have them are read rightly, or refused in one line that names what is wrong."""

from __future__ import annotations

import gzip
import json
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from recbole_bert4rec.logs.formats import Reading
from recbole_bert4rec.logs.interactions import InteractionFile
from recbole_bert4rec.system.errors import UserError
from tests.helpers.data import atomic_file, interactions_of

FIELDS = ("who", "what", "when")
NOON = 1706702400  # 2024-01-31 12:00:00 UTC
Rows = list[tuple[str, str, float]]


def text(
    *lines: str, header: str = "who,what,when", name: str = "log.csv", encoding: str = "utf-8", end: str = "\n"
) -> Callable[[Path], Path]:
    """A file of lines."""

    def write(folder: Path) -> Path:
        content = "".join(line + end for line in (header, *lines) if line is not None).encode(encoding)
        (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return folder / name

    return write


def raw(content: bytes, name: str = "log.csv") -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return write


def table(who: Any, what: Any, when: Any) -> Callable[[Path], Path]:
    """A Parquet file of three columns."""

    def write(folder: Path) -> Path:
        parquet.write_table(pa.table({"who": who, "what": what, "when": when}), folder / "log.parquet")
        return folder / "log.parquet"

    return write


def parts(folder: Path) -> Path:
    """A folder as Spark leaves it, with partitions."""
    for day, user in (("2024-01-31", "a"), ("2024-02-01", "b")):
        place = folder / "events" / f"when={day}"
        place.mkdir(parents=True)
        parquet.write_table(pa.table({"who": [user], "what": ["x"]}), place / "part-0.parquet")
        (place / "._part-0.parquet").write_bytes(b"no Parquet")
    (folder / "events" / "_SUCCESS").write_text("")
    return folder / "events"


def jsonl(*records: Any, name: str = "log.jsonl") -> Callable[[Path], Path]:
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    return text(*lines[1:], header=lines[0], name=name)


@dataclass
class Shape:
    """A log, and what is read of it; or what is named of it."""

    write: Callable[[Path], Path]
    expected: Rows | str
    reading: Reading = field(default_factory=Reading)


ONE: Rows = [("a", "x", 1), ("b", "y", 2)]
AT_NOON: Rows = [("a", "x", NOON)]
SHAPES = {
    # ---- separators
    "tab in a .csv": Shape(text("a\tx\t1", "b\ty\t2", header="who\twhat\twhen"), ONE),
    "spaces": Shape(text("a x 1", "b y 2", header="who what when"), ONE),
    "a tab, given": Shape(text("a\tx\t1", "b\ty\t2", header="who\twhat\twhen"), ONE, Reading(separator="\\t")),
    "two signs as a separator, given": Shape(
        text("a||x||1", "b||y||2", header="who||what||when"), ONE, Reading(separator="||")
    ),
    "two signs that differ": Shape(text("a", header="who"), "--separator=':;'", Reading(separator=":;")),
    "spaces after commas": Shape(text("a, x, 1", "b, y, 2", header="who, what, when"), ONE),
    "semicolons in quotes": Shape(text('"a;1";x;1', header="who;what;when"), [("a;1", "x", 1)]),
    "columns in another order, and more of them": Shape(
        text("9,1,,x,a", "9,2,,y,b", header=",when,note,what,who"), ONE
    ),
    # ---- without a header, times, or a row an interaction
    "no header, as MovieLens": Shape(
        text("b::y::4::2", header="a::x::5::1", name="ratings.dat"), ONE, Reading(columns="who,what,stars,when")
    ),
    "no header, an id in quotes": Shape(text('b,"y",2', header='a,"x",1'), ONE, Reading(columns="who,what,when")),
    "a header of fewer columns all the same": Shape(
        text("a,x,1", "b,y,2"), ONE, Reading(columns="who,what,stars,when")
    ),
    "no header that is not told": Shape(text("2,y,2", header="1,x,1"), "--columns=user_id,item_id,timestamp"),
    "no header, and too few names": Shape(
        text("b,y,5,2", header="a,x,4,1"), "log.csv, line 1: --columns .* 4 ", Reading(columns="who,what,when")
    ),
    "no header, a line too short": Shape(
        text("b,y", header="a,x,1"), "log.csv, line 2: ", Reading(columns="who,what,when")
    ),
    "no header, a time that is none": Shape(
        text("b,y,soon", header="a,x,1"), "log.csv, line 2: 'when'", Reading(columns="who,what,when")
    ),
    "no times": Shape(text("b,y", "a,x", header="who,what"), [("b", "y", 0), ("a", "x", 1)], Reading(in_order=True)),
    "times that do not count": Shape(text("b,y,2", "a,x,1"), [("b", "y", 0), ("a", "x", 1)], Reading(in_order=True)),
    "no times that is not told": Shape(text("b,y", header="who,what"), "--in_order=True"),
    "a list of objects": Shape(
        text('[{"who": "a", "what": "x", "when": 1}]', header="", name="log.json"), "log.json, line 2"
    ),
    "dictionaries of Python": Shape(
        text(header="{'who': 'a', 'what': 7, 'when': 1}", name="log.json"), "log.json, line 1"
    ),
    "a session a line": Shape(
        jsonl(
            {"who": "a", "what": ["x", 7], "when": [2, 1]},
            {"who": "b", "what": [], "when": []},
            {"who": "c", "what": "y", "when": 3},
        ),
        [("a", "7", 1), ("a", "x", 2), ("c", "y", 3)],
    ),
    "a session with one time": Shape(
        jsonl({"who": "a", "what": ["x", "y"], "when": 5}), [("a", "x", 5), ("a", "y", 5)]
    ),
    "a session with lists that differ": Shape(
        jsonl({"who": "a", "what": ["x"], "when": [2]}, {"who": "b", "what": ["x", "y"], "when": [1]}),
        "log.jsonl, line 2: .*'what' and 'when' in row 2 .* 2 and 1 ",
    ),
    "a time in a session that is none": Shape(
        jsonl({"who": "a", "what": ["x"], "when": [2]}, {"who": "b", "what": ["x", "y"], "when": [1, "soon"]}),
        "log.jsonl, line 2: 'when' .* in row 3",
    ),
    "a session in a row": Shape(
        table(["a", "b"], [["x", "z"], ["y"]], [[1, 2], [3]]), [("a", "x", 1), ("a", "z", 2), ("b", "y", 3)]
    ),
    "six digits that are dates": Shape(text("a,x,090124", "b,y,311223"), "'when' .*'090124'.*--date_format=\"%d%m%y\""),
    # ---- files
    "a packed file that is cut": Shape(
        raw(gzip.compress(b"who,what,when\n" + b"a,x,1\n" * 9999)[:-30], "log.csv.gz"), "log.csv.gz"
    ),
    "no packed file": Shape(raw(b"who,what,when\na,x,1\n", "log.csv.gz"), "log.csv.gz"),
    "lines of Windows, with a mark": Shape(text("a,x,1", "b,y,2", encoding="utf-8-sig", end="\r\n"), ONE),
    "lines of an old Mac": Shape(text("a,x,1", "b,y,2", end="\r"), ONE),
    "blank lines": Shape(text("", "a,x,1", "", "b,y,2", ""), ONE),
    "Parquet with categories": Shape(
        table(pa.array(["a", "b"]).dictionary_encode(), pa.array(["x", "y"]).dictionary_encode(), [1, 2]), ONE
    ),
    "a folder of Parquet": Shape(parts, [("a", "x", NOON - 12 * 3600), ("b", "x", NOON + 12 * 3600)]),
    "JSON lines": Shape(
        jsonl({"who": "a", "what": "x", "when": 1}, {"when": "2", "who": "b", "what": "y", "more": [1]}), ONE
    ),
    # ---- encodings
    "UTF-16 without a mark": Shape(text("José,ß,1", encoding="utf-16-le"), [("José", "ß", 1)]),
    "Latin, given": Shape(text("José,ß,1", encoding="cp1252"), [("José", "ß", 1)], Reading(encoding="cp1252")),
    "Latin, not given": Shape(
        text("a,x,1", "José,ß,2", encoding="cp1252"),
        "log.csv, line 3, 'José,ß,2' .*--encoding=cp1252",
    ),
    "no encoding": Shape(text("a,x,1"), "--encoding=nonsense", Reading(encoding="nonsense")),
    # ---- ids
    "ids that look missing": Shape(
        text("NA,None,1", "null,nan,2", "N/A,NULL,3"), [("NA", "None", 1), ("null", "nan", 2), ("N/A", "NULL", 3)]
    ),
    "blanks around ids": Shape(text("a ,x\u3000,1", '" a",x,2'), [("a", "x", 1), ("a", "x", 2)]),
    "leading zeros": Shape(text("007,00,1", "7,0,2"), [("007", "00", 1), ("7", "0", 2)]),
    "quotes, commas and breaks": Shape(
        text('"a, ""b""",x,1', '"c",y,2', header='"who",what,when'), [('a, "b"', "x", 1), ("c", "y", 2)]
    ),
    "another quote, and an escape": Shape(
        text("a,'x, y',1", r"b,'it\'s',2"), [("a", "x, y", 1), ("b", "it's", 2)], Reading(quote="'", escape="\\")
    ),
    "a quote of two signs": Shape(text("a,x,1"), "--quote='ab'", Reading(quote="ab")),
    "an escape that is the quote": Shape(text("a,x,1"), "--escape=", Reading(escape='"')),
    "a line break in an id": Shape(text("a,x,1", '"b\nc",y,2', "d,z,3"), "log.csv, line 3: .*'who'"),
    "RecBole's name of padding": Shape(text("a,[PAD],1"), "log.csv, line 2: 'what' .*'.PAD.'"),
    "true numbers as ids": Shape(
        table([1, 2**60 + 1], [Decimal("1.5"), Decimal("2.5")], [1, 2]), [("1", "1.5", 1), (f"{2**60 + 1}", "2.5", 2)]
    ),
    "numbers and texts as ids in JSON": Shape(
        jsonl({"who": 7, "what": "x", "when": 1}, {"who": "7", "what": 1e3, "when": 2}),
        [("7", "x", 1), ("7", "1000.0", 2)],
    ),
    "numbers beside gaps keep every digit": Shape(
        table(pa.array([2**60 + 1, None], pa.int64()), ["x", "y"], [1, 2]), [(f"{2**60 + 1}", "x", 1)]
    ),
    "floats beside gaps": Shape(table([1.0, math.nan, None], ["x", "y", "z"], [1, 2, 3]), [("1", "x", 1)]),
    "whole numbers in decimals": Shape(
        table(pa.array([Decimal(7)], pa.decimal128(38, 9)), ["x"], [1]), [("7", "x", 1)]
    ),
    "floats that have lost digits": Shape(table([1285704473650888017.0], ["x"], [1]), "'who' .*9,007,199,254,740,992"),
    "short floats that have lost digits": Shape(
        table(pa.array([2.0**24], pa.float32()), ["x"], [1]), "'who' .*16,777,216"
    ),
    "objects as ids in Parquet": Shape(table([{"id": "a"}], ["x"], [1]), "'who' .*struct"),
    "no user at all": Shape(table(pa.array([None]), ["x"], [1]), "all values of 'who'"),
    "no user at all, but numbers": Shape(table([math.nan, math.nan], ["x", "y"], [1, 2]), "all values of 'who'"),
    "no item at all": Shape(table(["a", "b"], ["", " "], [1, 2]), "all values of 'what'"),
    # ---- numbers as times
    "zeros beside Unix times": Shape(text("a,x,0", f"b,y,{NOON}"), [("a", "x", 0), ("b", "y", NOON)]),
    "times of two units": Shape(
        text(f"a,x,{NOON}", f"b,y,{NOON}000", f"c,z,{NOON}"),
        "line 3: 'when' .*2 in seconds.*1 in milliseconds.*row 2",
    ),
    "numbers without a sign": Shape(
        table(["b", "a"], ["y", "x"], pa.array([20, 10], pa.uint64())), [("a", "x", 10), ("b", "y", 20)]
    ),
    "fractions": Shape(text("a,x,1.5"), [("a", "x", 1.5)]),
    "a decimal comma": Shape(
        text("b;y;2", "a;x;1,5", header="who;what;when"), "log.csv, line 3: 'when' .* '1,5' in row 2"
    ),
    "decimals of a database": Shape(table(["a"], ["x"], [Decimal("1706702400.00")]), AT_NOON),
    # ---- dates
    "ISO times with zones": Shape(
        text("a,x,2024-01-31T12:00:00Z", "b,y,2024-01-31 14:00:01+02:00"), [*AT_NOON, ("b", "y", NOON + 1)]
    ),
    "times of BigQuery": Shape(
        text("a,x,2024-01-31 12:00:00 UTC", "b,y,2024-01-31 12:00:00.500000 UTC"), [*AT_NOON, ("b", "y", NOON + 0.5)]
    ),
    "German dates": Shape(text("a,x,31.01.2024 12:00"), AT_NOON),
    "British dates": Shape(
        text("b,y,01/02/2024 12:00:00", "a,x,31/01/2024 12:00:00"), [*AT_NOON, ("b", "y", NOON + 86400)]
    ),
    "American dates": Shape(
        text("a,x,1/31/2024 12:00 PM", "b,y,2/1/2024 12:00 AM"), [*AT_NOON, ("b", "y", NOON + 43200)]
    ),
    "dates that could be British or American": Shape(
        text("a,x,03/04/2024", "b,y,05/06/2024"), '--date_format="%d/%m/%Y" or "%m/%d/%Y"'
    ),
    "the same, given": Shape(text("a,x,03/04/2024"), [("a", "x", 1712102400)], Reading(date_format="%d/%m/%Y")),
    "dates with slashes, year first": Shape(text("a,x,2024/01/31 12:00:00"), AT_NOON),
    "dates run together": Shape(
        text("a,x,20240131", "b,y,20240201"), [("a", "x", NOON - 43200), ("b", "y", NOON + 43200)]
    ),
    "days that could be months": Shape(
        text("a,x,05112023", "b,y,06112023"), '\'05112023\'.*--date_format="%d%m%Y" or "%m%d%Y"'
    ),
    "dates of a web server, given": Shape(
        text("a,x,31/Jan/2024:13:00:00 +0100"), AT_NOON, Reading(date_format="%d/%b/%Y:%H:%M:%S %z")
    ),
    "dates of a web server": Shape(text("a,x,31/Jan/2024:13:00:00 +0100"), "log.csv, line 2: 'when' .*--date_format"),
    "a form that is none": Shape(text("a,x,31.01.2024"), "--date_format='%d.%Q'", Reading(date_format="%d.%Q")),
    "dates of another form than the one given": Shape(
        text("a,x,31.01.2024", "b,y,2024-01-31"),
        "line 3: 'when' .*%d.%m.%Y.* 1 of 2 .*'2024-01-31' in row 2",
        Reading(date_format="%d.%m.%Y"),
    ),
    "times of a place": Shape(text("a,x,2024-01-31 13:00"), AT_NOON, Reading(timezone="Europe/Berlin")),
    "times of a place in Parquet": Shape(
        table(["a"], ["x"], [datetime(2024, 1, 31, 13)]), AT_NOON, Reading(timezone="Europe/Berlin")
    ),
    "an hour that the clocks repeat, and one that they leave out": Shape(
        text("a,x,2024-03-31 02:30", "b,y,2024-10-27 02:30"),
        [("a", "x", 1711848600), ("b", "y", 1729992600)],
        Reading(timezone="Europe/Berlin"),
    ),
    "no place": Shape(text("a,x,1"), "--timezone=Mars/North", Reading(timezone="Mars/North")),
    "days in Parquet": Shape(table(["a"], ["x"], [date(2024, 1, 31)]), [("a", "x", NOON - 43200)]),
    "nanoseconds with a zone in Parquet": Shape(
        table(["a"], ["x"], pa.array([datetime(2024, 1, 31, 12, tzinfo=UTC)], pa.timestamp("ns", "UTC"))),
        AT_NOON,
    ),
    "far dates in Parquet": Shape(
        table(["a"], ["x"], pa.array([datetime(9999, 12, 31)], pa.timestamp("us"))), [("a", "x", 253402214400)]
    ),
    "lengths of time in Parquet": Shape(table(["a"], ["x"], pa.array([1], pa.duration("s"))), "'when' .*duration"),
    # ---- rows
    "equal times keep the log's order": Shape(
        text("b,y,2", "a,x,2", "a,w,1"), [("a", "w", 1), ("b", "y", 2), ("a", "x", 2)]
    ),
    "rows without ids": Shape(text("a,x,1", ",x,2", "a,,3", "b,y,4"), [("a", "x", 1), ("b", "y", 4)]),
    "no row with both ids": Shape(text(",x,1", "a,,2"), "'who' and 'what'"),
    "duplicates, not wanted": Shape(
        text("a,x,1", "b,x,1", "a,x,1", "a,x,2"),
        [("a", "x", 1), ("b", "x", 1), ("a", "x", 2)],
        Reading(drop_duplicates=True),
    ),
    "an empty file": Shape(raw(b""), "log.csv"),
    "only a header": Shape(text(), "log.csv"),
    "only blank lines": Shape(raw(b"\n\n\n"), "log.csv"),
    "one column": Shape(text("a", header="who"), r"'what'.*\['who'\]"),
    "a header in capitals": Shape(text("a,x,1", header="Who,What,When"), "--USER_ID_FIELD=Who"),
    "a column twice": Shape(text("a,x,1,2", header="who,what,when,when"), "'when'"),
    "a short line": Shape(text("a,x,1", "b,y", "c,z,3"), "log.csv, line 3: .* 2, .* 3 .*'b,y'"),
    "a long line after a value of two lines": Shape(
        text("a,x,1", '"b\nb",y,2', "c,z,3,4"), "log.csv, line 5: .* 4, .* 3 "
    ),
    "a time that is none, after a value of two lines": Shape(
        text("a,x,1,", 'b,y,2,"no\nte"', "c,z,soon,", header="who,what,when,note"),
        "log.csv, line 5: 'when' .* 1 of 3 .*'soon' in row 3",
    ),
    "a time that is missing": Shape(text("a,x,1", "b,y,"), "log.csv, line 3: 'when' .* 1 of 2 "),
    "a time that is no number": Shape(text("a,x,1", "b,y,NaN"), "log.csv, line 3: 'when' .* 1 of 2 "),
    "a date among numbers": Shape(text("a,x,2020-01-01", "b,y,2020-01-01", "c,z,7"), "'when' .* 1 of 3 .*'7' in row 3"),
    "a time without end": Shape(text("a,x,1", "b,y,inf"), "log.csv, line 3: 1 .*'when'"),
    "truth values as times": Shape(table(["a", "b"], ["x", "y"], [True, None]), "'when'"),
    "no JSON": Shape(jsonl({"who": "a", "what": "x", "when": 1}, "", "{who: 1}"), "log.jsonl, line 3"),
    "an object in JSON": Shape(
        jsonl({"who": "a", "what": {"id": "x"}, "when": 1}), "log.jsonl, line 1: .*'what' .* what.id"
    ),
    "no objects in JSON": Shape(jsonl("[1, 2]"), "log.jsonl, line 1"),
    "a column that no object has": Shape(jsonl({"who": "a", "item": "x", "when": 1}), "'what'"),
    "binary zeros": Shape(raw(b"who,what,when\na\0b,x,1\n"), "line 2: .*'who'"),
    "no Parquet": Shape(raw(b"PAR1", "log.parquet"), "log.parquet"),
    "no file": Shape(lambda folder: folder / "no.csv", "no.csv"),
    "another separator, not given": Shape(
        text("a+b+1", header="who+what+when"), "'who'.*'who.what.when'.*--separator="
    ),
}


def read(path: Path, reading: Reading | None = None) -> Rows:
    return read_columns(path, *FIELDS, reading=reading)


def read_columns(path: Path, *fields: str, reading: Reading | None = None) -> Rows:
    """What is in the atomic file that is made of a log, read by the simplest means there are."""
    encoding = (reading and reading.encoding) or "utf-8"
    frame = pd.read_csv(
        atomic_file(str(path), *fields, reading), sep="\t", dtype=str, keep_default_na=False, encoding=encoding
    )
    assert list(frame) == [f"{field}:{kind}" for field, kind in zip(fields, ("token", "token", "float"), strict=True)]
    return [(user, item, float(time)) for user, item, time in frame.itertuples(index=False)]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_log_is_read_rightly_or_refused_in_one_line(shape: Shape, tmp_path: Path) -> None:
    path = shape.write(tmp_path)
    if not isinstance(shape.expected, str):
        assert read(path, shape.reading) == shape.expected
        return
    with pytest.raises(UserError, match=shape.expected) as caught:
        atomic_file(str(path), *FIELDS, shape.reading)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.rglob("*.inter"))


def report_of(path: Path, **reading: Any) -> dict[str, Any]:
    """``conversion.json``."""
    content: dict[str, Any] = json.loads(
        (atomic_file(str(path), *FIELDS, Reading(**reading)).parent / "conversion.json").read_text("utf-8")
    )
    return content


def test_the_report_counts_what_is_in_the_log_and_names_the_lines_left_out(tmp_path: Path) -> None:
    lines = ["a,x,2024-01-31", "a,x,2024-01-31", ',x,2024-01-31,"two\nlines"', "a,,2024-02-01", "b,x,2024-02-02"]
    lines = [
        line if line.count(",") > 2 else f"{line}," for line in [*lines, "a,y,2024-02-03", "a,x,2024-02-04", ",,1"]
    ]
    report = report_of(text(*lines, header="who,what,when,note")(tmp_path))
    assert report["rows"] == 8
    assert report["left_out"] == {"who": {"rows": 2, "lines": [4, 10]}, "what": {"rows": 1, "lines": [6]}}
    assert (report["interactions"], report["users"], report["items"], report["repeats"]) == (5, 2, 2, 2)
    assert (report["exact_duplicates"], report["duplicates_left_out"]) == (1, False)
    assert (report["first"][:10], report["last"][:10]) == ("2024-01-31", "2024-02-04")
    assert report["read_as"]["separator"] == ","


@pytest.mark.parametrize(
    ("first", "last", "period"),
    [
        (NOON, NOON + 60, ("2024-01-31 12:00:00+00:00", "2024-01-31 12:01:00+00:00")),
        (NOON * 10**9, (NOON + 60) * 10**9, ("2024-01-31 12:00:00+00:00", "2024-01-31 12:01:00+00:00")),
        (1, 12, (1, 12)),
    ],
)
def test_plausible_unix_times_have_a_period_of_dates(first: int, last: int, period: Any, tmp_path: Path) -> None:
    report = report_of(text(f"a,x,{first}", f"a,y,{last}")(tmp_path))
    assert (report["first"], report["last"]) == period


def test_nanoseconds_in_a_text_keep_their_last_digit(tmp_path: Path) -> None:
    path = atomic_file(str(text("a,x,1706702400000000001", "a,y,1706702400000000002")(tmp_path)), *FIELDS)
    assert [line.rpartition("\t")[2] for line in path.read_text().splitlines()[1:]] == [
        "1706702400000000001",
        "1706702400000000002",
    ]


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_what_objects_hold_is_named_with_dots(ending: str, tmp_path: Path) -> None:
    sessions = [
        {"session": {"id": 7}, "events": [{"aid": 31, "ts": 5}, {"aid": 12, "ts": 6}]},
        {"session": {"id": 8}, "events": []},
        {"session": {"id": 9}, "events": [{"aid": 31, "ts": 4}]},
    ]
    log = tmp_path / f"log{ending}"
    if ending == ".jsonl":
        log.write_text("".join(json.dumps(session) + "\n" for session in sessions))
    else:
        parquet.write_table(pa.Table.from_pylist(sessions), log)
    columns = ("session.id", "events.aid", "events.ts")
    expected = [("9", "31", 4), ("7", "31", 5), ("7", "12", 6)]
    assert read_columns(log, *columns) == expected
    source = InteractionFile(str(log), columns)
    asked = interactions_of(source).itertuples(index=False, name=None)
    assert sorted(asked) == [("7", "12"), ("7", "31"), ("9", "31")]
    with pytest.raises(UserError, match=r"'events\.id'.*'events\.aid'"):
        read_columns(log, "session.id", "events.id", "events.ts")


NAIVE, AWARE = pa.timestamp("us"), pa.timestamp("us", "UTC")


def folder_of(tmp_path: Path, when: tuple[Any, Any]) -> Path:
    """A folder of two files, whose times are these."""
    folder = tmp_path / "parts"
    folder.mkdir()
    for number in (0, 1):
        columns = {"who": ["a", "b"], "what": ["x", "y"], "when": when[number]}
        parquet.write_table(pa.table(columns), folder / f"{number}.parquet")
    return folder


def times_of(seconds: int, kind: Any) -> Any:
    """The same time twice, as a column of some type."""
    times = pa.array([seconds, seconds], pa.int64())
    is_number = pa.types.is_floating(kind) or pa.types.is_decimal(kind) or kind == pa.int64()
    return (times if is_number else times.cast(pa.timestamp("s", getattr(kind, "tz", None)))).cast(kind)


@pytest.mark.parametrize(
    ("first", "second"),
    [(pa.int64(), pa.timestamp("ms")), (NAIVE, AWARE), (AWARE, NAIVE), (pa.date32(), NAIVE), (pa.string(), NAIVE)],
)
def test_columns_of_a_folder_that_mean_different_things_are_refused(first: Any, second: Any, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, when=(times_of(NOON, first), times_of(NOON, second)))
    named = re.escape(f"{folder / '1.parquet'}: 'when' ")
    with pytest.raises(UserError, match=named):
        read(folder)
    with pytest.raises(UserError, match=named):
        interactions_of(InteractionFile(str(folder), FIELDS))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.int64(), pa.float64()),
        (pa.timestamp("ns"), pa.timestamp("ms")),
        (pa.timestamp("s", "UTC"), AWARE),
        (pa.decimal128(19, 0), pa.int64()),
    ],
)
def test_times_of_a_folder_of_one_sort_are_read_whatever_their_width(first: Any, second: Any, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, when=(times_of(NOON, first), times_of(NOON + 1, second)))
    assert read(folder) == [("a", "x", NOON), ("b", "y", NOON), ("a", "x", NOON + 1), ("b", "y", NOON + 1)]
    assert len(interactions_of(InteractionFile(str(folder), FIELDS))) == 4


def test_parts_of_a_folder_are_read_in_the_order_of_the_numbers_in_their_names(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for number in (10, 2, 1):
        parquet.write_table(pa.table({"who": ["a"], "what": [f"x{number}"]}), folder / f"part.{number}.parquet")
    (folder / "more.csv").write_text("who,what\na,y\n")
    (folder / "_delta_log").mkdir()
    (folder / "_delta_log" / "0.json").write_text("{}")  # hidden: it is no part
    assert [item for _, item, _ in read(folder, Reading(in_order=True))] == ["x1", "x2", "x10"]
    assert "'more.csv'" in report_of(folder, in_order=True)["doubts"][0]


def test_ids_that_a_program_made_floats_of_are_the_same_when_they_are_asked_for(tmp_path: Path) -> None:
    log = text("23.0,7.0,1", "5.0,7.0,2")(tmp_path)
    assert read(log) == [("23", "7", 1), ("5", "7", 2)]
    asked = interactions_of(InteractionFile(str(log), FIELDS))
    assert asked.to_dict("list") == {"who": ["23", "5"], "what": ["7", "7"]}


def test_quotes_after_backslashes_are_refused_until_the_escape_is_told(tmp_path: Path) -> None:
    log = text('a,"the \\"x\\"",1')(tmp_path)
    with pytest.raises(UserError, match=r"log\.csv, line 2: .*--escape="):
        read(log)
    assert read(log, Reading(escape="\\")) == [("a", 'the "x"', 1)]


def test_rows_whose_lists_are_empty_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = table(["a", "b", "c"], pa.array([["x"], [], None], pa.list_(pa.string())), pa.array([[1], [], []]))(tmp_path)
    assert report_of(log)["doubts"][0].startswith("2 rows")
    interactions_of(InteractionFile(str(log), FIELDS))
    assert f"{log}: 2 rows" in caplog.text


def test_a_log_that_took_the_place_of_another_with_its_size_and_time_is_read(tmp_path: Path) -> None:
    log = text("a,x,1", "b,y,2")(tmp_path)
    assert read(log) == ONE
    state = log.stat()
    other = text("a,z,1", "b,y,2", name="other.csv")(tmp_path)
    os.utime(other, (state.st_atime, state.st_mtime))
    other.replace(log)
    assert log.stat().st_mtime == state.st_mtime
    assert read(log) == [("a", "z", 1), ("b", "y", 2)]


@pytest.mark.parametrize("name", ["log[1].csv", "a*.csv", "what?.csv"])
def test_signs_of_patterns_in_a_name_are_signs(name: str, tmp_path: Path) -> None:
    for other in ("log1.csv", "ab.csv", "whats.csv"):
        text("other,x,1", name=other)(tmp_path)
    assert read(text("a,x,1", "b,y,2", name=name)(tmp_path)) == ONE


def test_folders_above_a_log_are_no_columns(tmp_path: Path) -> None:
    for place, rows in (("when=2020/log", "log"), ("when=2020/parts/who=b%20c", "part")):
        folder = tmp_path / place
        folder.mkdir(parents=True)
        columns = {"who": ["a"], "what": ["x"], "when": [1]}
        parquet.write_table(pa.table(columns if rows == "log" else {"what": ["x"], "when": [1]}), folder / "0.parquet")
    assert read(tmp_path / "when=2020" / "log") == [("a", "x", 1)]
    assert read(tmp_path / "when=2020" / "parts") == [("b c", "x", 1)]


def test_a_log_may_have_a_column_that_is_called_like_one_of_duckdbs(tmp_path: Path) -> None:
    folder = tmp_path / "parts" / "who=a"
    folder.mkdir(parents=True)
    columns = {"filename": ["x"], "when": [1]}
    parquet.write_table(pa.table(columns), folder / "0.parquet")
    assert read_columns(tmp_path / "parts", "who", "filename", "when") == [("a", "x", 1)]
    parquet.write_table(pa.table({**columns, "who": ["a"], "what": ["y"]}), tmp_path / "log.parquet")
    assert read(tmp_path / "log.parquet") == [("a", "y", 1)]


def test_names_that_differ_only_in_case_and_types_that_lose_digits_are_refused(tmp_path: Path) -> None:
    log = tmp_path / "log.parquet"
    parquet.write_table(pa.table({"who": ["a"], "What": ["title"], "what": ["x"], "when": [1]}), log)
    with pytest.raises(UserError, match="'what' only in case"):
        read(log)
    for other in (pa.float32(), pa.uint64()):
        folder = tmp_path / str(other)
        folder.mkdir()
        for number, kind in enumerate((pa.int64(), other)):
            rows = {"who": ["a"], "what": ["x"], "when": pa.array([1_700_000_001]).cast(kind, safe=False)}
            parquet.write_table(pa.table(rows), folder / f"{number}.parquet")
        with pytest.raises(UserError, match=r"1\.parquet: 'when'"):
            read(folder)


def test_an_element_without_a_key_keeps_its_place_and_lists_in_lists_are_refused(tmp_path: Path) -> None:
    events = [{"what": "x", "when": 1}, {"when": 2}, {"what": "z", "when": 3}]
    log = jsonl({"who": "a", "e": events}, name="log.jsonl")(tmp_path)
    assert read_columns(log, "who", "e.what", "e.when") == [("a", "x", 1), ("a", "z", 3)]
    log = jsonl({"who": "a", "what": ["x", ["y"]], "when": [1, 2]}, name="other.jsonl")(tmp_path)
    with pytest.raises(UserError, match="line 1: column 'what'"):
        read(log)


def test_blank_lines_between_objects_are_no_rows(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(
        '{"who": "a", "what": "x", "when": 1}\n\n  \t\n{"who": "b", "what": "y", "when": 2}\n\n'
    )
    assert read(tmp_path / "log.jsonl") == ONE


def test_values_and_lines_may_be_long(tmp_path: Path) -> None:
    long = "long " * 40_000
    assert read(text(f'a,x,1,"{long}\n{long}"', "b,y,2,", ",y,2,", header="who,what,when,note")(tmp_path)) == ONE


def test_objects_in_objects_of_lists_are_named_with_dots(tmp_path: Path) -> None:
    log = tmp_path / "log.parquet"
    rows = [{"who": "a", "e": [{"item": {"id": "x"}, "when": 1}, {"item": {"id": "y"}, "when": 2}]}]
    parquet.write_table(pa.Table.from_pylist(rows), log)
    assert read_columns(log, "who", "e.item.id", "e.when") == [("a", "x", 1), ("a", "y", 2)]


@pytest.mark.parametrize(
    ("reading", "named"),
    [
        (Reading(escape="\\", quote="none"), "--escape .*--quote=none"),
        (Reading(quote=","), "--quote=,"),
        (Reading(timezone="localtime"), "localtime"),
    ],
)
def test_signs_and_zones_that_cannot_be_are_refused(reading: Reading, named: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=named):
        read(text("a,x,2024-01-31")(tmp_path), reading)


def test_a_mark_before_utf_8_is_no_part_of_a_name(tmp_path: Path) -> None:
    assert read(raw("\ufeffwho,what,when\na,x,1\nb,y,2\n".encode())(tmp_path), Reading(encoding="utf-8")) == ONE


@pytest.mark.parametrize("lines", [('a,x,1, "Heroes', "b,y,2,t", 'c,z,3,Low"'), ('a,x,1,"Heroes', 'b,y,2,Low",')])
def test_a_quote_after_a_blank_or_before_a_last_separator_swallows_no_rows(lines: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="line 2: a value begins with a quote"):
        read(text(*lines, "d,w,4,t", header="who,what,when,title")(tmp_path))


def test_a_name_of_two_lines_in_the_header_costs_no_row(tmp_path: Path) -> None:
    log = raw(b'\n\nwho,what,when,"Price\n(EUR)"\na,x,1,5\nb,y,2,5\n')(tmp_path)
    assert read(log) == ONE


def test_a_key_that_holds_objects_and_lists_is_refused_and_a_key_with_a_dot_comes_first(tmp_path: Path) -> None:
    objects = {"who": "b", "e": {"what": "y", "when": 2}}, {"who": "a", "e": [{"what": "x", "when": 1}]}
    for order in (objects, objects[::-1]):
        with pytest.raises(UserError, match=r"log\.jsonl .*objects in some lines, and lists in others"):
            read_columns(jsonl(*order)(tmp_path), "who", "e.what", "e.when")
    dotted = {"who": "a", "what": "x", "when": 9, "e": {"t": 7}, "e.t": 1}
    assert read_columns(jsonl(dotted)(tmp_path), "who", "what", "e.t") == [("a", "x", 1)]


def test_moments_that_are_ids_are_the_same_on_every_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = pa.array([NOON, NOON + 1], pa.timestamp("s", "UTC"))
    log = table(["a", "b"], moments, [1, 2])(tmp_path)
    monkeypatch.setenv("TZ", "America/New_York")
    assert [item for _, item, _ in read(log)] == ["2024-01-31 12:00:00.000000Z", "2024-01-31 12:00:01.000000Z"]
