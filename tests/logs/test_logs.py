"""Logs in as many shapes as people have them are read rightly, or refused in one clear line."""

from __future__ import annotations

import gzip
import json
import os
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from recbole_bert4rec.logs.interactions import InteractionFile
from recbole_bert4rec.logs.reading import Reading
from recbole_bert4rec.system.errors import UserError
from tests.helpers.data import atomic_file

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
    """A log, and what is read of it; or a part of what is said of it."""

    write: Callable[[Path], Path]
    expected: Rows | str
    reading: Reading = field(default_factory=Reading)


ONE: Rows = [("a", "x", 1), ("b", "y", 2)]
AT_NOON: Rows = [("a", "x", NOON)]
SHAPES = {
    # ---- separators
    "comma": Shape(text("a,x,1", "b,y,2"), ONE),
    "semicolon": Shape(text("a;x;1", "b;y;2", header="who;what;when"), ONE),
    "tab in a .csv": Shape(text("a\tx\t1", "b\ty\t2", header="who\twhat\twhen"), ONE),
    "bar": Shape(text("a|x|1", "b|y|2", header="who|what|when"), ONE),
    "spaces": Shape(text("a x 1", "b y 2", header="who what when"), ONE),
    "a .tsv": Shape(text("a\tx\t1", "b\ty\t2", header="who\twhat\twhen", name="log.tsv"), ONE),
    "another separator, given": Shape(text("a^x^1", "b^y^2", header="who^what^when"), ONE, Reading(separator="^")),
    "a tab, given": Shape(text("a\tx\t1", "b\ty\t2", header="who\twhat\twhen"), ONE, Reading(separator="\\t")),
    "two signs as a separator": Shape(text("a::x::1", "b::y::2", header="who::what::when", name="log.dat"), ONE),
    "two signs as a separator, given": Shape(
        text("a||x||1", "b||y||2", header="who||what||when"), ONE, Reading(separator="||")
    ),
    "two signs that differ": Shape(text("a", header="who"), "must be one character", Reading(separator=":;")),
    "spaces after commas": Shape(text("a, x, 1", "b, y, 2", header="who, what, when"), ONE),
    "semicolons in quotes": Shape(text('"a;1";x;1', header="who;what;when"), [("a;1", "x", 1)]),
    "columns in another order, and more of them": Shape(
        text("9,1,,x,a", "9,2,,y,b", header=",when,note,what,who"), ONE
    ),
    # ---- without a header, times, or a row an interaction
    "no header": Shape(text("b,y,2", header="a,x,1"), ONE, Reading(columns="who,what,when")),
    "no header, as MovieLens": Shape(
        text("b::y::4::2", header="a::x::5::1", name="ratings.dat"), ONE, Reading(columns="who,what,stars,when")
    ),
    "no header, an id in quotes": Shape(text('b,"y",2', header='a,"x",1'), ONE, Reading(columns="who,what,when")),
    "a header all the same": Shape(text("a,x,1", "b,y,2"), ONE, Reading(columns="who,what,when")),
    "a header of fewer columns all the same": Shape(
        text("a,x,1", "b,y,2"), ONE, Reading(columns="who,what,stars,when")
    ),
    "no header that is not told": Shape(
        text("2,y,2", header="1,x,1"), "its first line is no header, .*--columns=user_id,item_id,timestamp"
    ),
    "no header, and too few names": Shape(
        text("b,y,5,2", header="a,x,4,1"),
        "log.csv, line 1: --columns must name each of the 4 columns",
        Reading(columns="who,what,when"),
    ),
    "no header, a line too short": Shape(
        text("b,y", header="a,x,1"), "log.csv, line 2: the number of columns is 2", Reading(columns="who,what,when")
    ),
    "no header, a time that is none": Shape(
        text("b,y,soon", header="a,x,1"), "log.csv, line 2: 'when' must hold", Reading(columns="who,what,when")
    ),
    "no times": Shape(text("b,y", "a,x", header="who,what"), [("b", "y", 0), ("a", "x", 1)], Reading(in_order=True)),
    "times that do not count": Shape(text("b,y,2", "a,x,1"), [("b", "y", 0), ("a", "x", 1)], Reading(in_order=True)),
    "no times that is not told": Shape(text("b,y", header="who,what"), "--in_order=True needs no times"),
    "a list of objects": Shape(
        text('[{"who": "a", "what": "x", "when": 1}]', header="", name="log.json"),
        "log.json, line 2 must hold an object",
    ),
    "objects a line in a .json": Shape(
        jsonl({"who": "a", "what": "x", "when": 1}, {"who": "b", "what": "y", "when": 2}, name="log.json"), ONE
    ),
    "dictionaries of Python": Shape(
        text(header="{'who': 'a', 'what': 7, 'when': 1}", name="log.json"), "log.json, line 1 is no JSON"
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
        "log.jsonl, line 2: the lists 'what' and 'when' in row 2 have 2 and 1 values",
    ),
    "a time in a session that is none": Shape(
        jsonl({"who": "a", "what": ["x"], "when": [2]}, {"who": "b", "what": ["x", "y"], "when": [1, "soon"]}),
        "log.jsonl, line 2: 'when' must hold .* in row 3",
    ),
    "a session in a row": Shape(
        table(["a", "b"], [["x", "z"], ["y"]], [[1, 2], [3]]), [("a", "x", 1), ("a", "z", 2), ("b", "y", 3)]
    ),
    "six digits that are dates": Shape(
        text("a,x,090124", "b,y,311223"), r"'when' holds dates such as '090124'; .*--date_format=%d%m%y"
    ),
    "six digits that are dates, told": Shape(
        text("a,x,090124", "b,y,311223"),
        [("b", "y", 1703980800), ("a", "x", 1704758400)],
        Reading(date_format="%d%m%y"),
    ),
    # ---- files
    "packed .csv": Shape(text("a,x,1", "b,y,2", name="log.csv.gz"), ONE),
    "packed .tsv": Shape(text("a\tx\t1", "b\ty\t2", header="who\twhat\twhen", name="log.tsv.gz"), ONE),
    "a packed file that is cut": Shape(
        raw(gzip.compress(b"who,what,when\n" + b"a,x,1\n" * 9999)[:-30], "log.csv.gz"), "log.csv.gz is damaged"
    ),
    "no packed file": Shape(raw(b"who,what,when\na,x,1\n", "log.csv.gz"), "log.csv.gz is damaged"),
    "lines of Windows, with a mark": Shape(text("a,x,1", "b,y,2", encoding="utf-8-sig", end="\r\n"), ONE),
    "lines of an old Mac": Shape(text("a,x,1", "b,y,2", end="\r"), ONE),
    "blank lines": Shape(text("", "a,x,1", "", "b,y,2", ""), ONE),
    "no line break at the end": Shape(raw(b"who,what,when\na,x,1\nb,y,2"), ONE),
    "Parquet": Shape(table(["a", "b"], ["x", "y"], [1, 2]), ONE),
    "Parquet with categories": Shape(
        table(pa.array(["a", "b"]).dictionary_encode(), pa.array(["x", "y"]).dictionary_encode(), [1, 2]), ONE
    ),
    "a folder of Parquet": Shape(parts, [("a", "x", NOON - 12 * 3600), ("b", "x", NOON + 12 * 3600)]),
    "JSON lines": Shape(
        jsonl({"who": "a", "what": "x", "when": 1}, {"when": "2", "who": "b", "what": "y", "more": [1]}), ONE
    ),
    "packed JSON lines": Shape(jsonl(*({"who": u, "what": i, "when": t} for u, i, t in ONE), name="log.jsonl.gz"), ONE),
    # ---- encodings
    "UTF-16": Shape(text("José,ß,1", encoding="utf-16"), [("José", "ß", 1)]),
    "UTF-16 without a mark": Shape(text("José,ß,1", encoding="utf-16-le"), [("José", "ß", 1)]),
    "Latin, given": Shape(text("José,ß,1", encoding="cp1252"), [("José", "ß", 1)], Reading(encoding="cp1252")),
    "Latin, not given": Shape(
        text("a,x,1", "José,ß,2", encoding="cp1252"),
        r"log.csv, line 3, 'José,ß,2' as cp1252 reads it: b'\\xe9' is not utf-8; .*--encoding=cp1252",
    ),
    "Japanese, given": Shape(
        text("山田,本,1", encoding="shift_jis"), [("山田", "本", 1)], Reading(encoding="shift_jis")
    ),
    "no encoding": Shape(text("a,x,1"), "--encoding=nonsense is no encoding", Reading(encoding="nonsense")),
    # ---- ids
    "ids that look missing": Shape(
        text("NA,None,1", "null,nan,2", "N/A,NULL,3"), [("NA", "None", 1), ("null", "nan", 2), ("N/A", "NULL", 3)]
    ),
    "blanks around ids": Shape(text("a ,x\u3000,1", '" a",x,2'), [("a", "x", 1), ("a", "x", 2)]),
    "leading zeros": Shape(text("007,00,1", "7,0,2"), [("007", "00", 1), ("7", "0", 2)]),
    "quotes, commas and breaks": Shape(
        text('"a, ""b""",x,1', '"c",y,2', header='"who",what,when'), [('a, "b"', "x", 1), ("c", "y", 2)]
    ),
    "a line break in an id": Shape(
        text("a,x,1", '"b\nc",y,2', "d,z,3"), "log.csv, line 3: some values of 'who' hold a tab or a line break"
    ),
    "RecBole's name of padding": Shape(text("a,[PAD],1"), "log.csv, line 2: 'what' holds '.PAD.'"),
    "true numbers as ids": Shape(
        table([1, 2**60 + 1], [Decimal("1.5"), Decimal("2.5")], [1, 2]), [("1", "1.5", 1), (f"{2**60 + 1}", "2.5", 2)]
    ),
    "numbers and texts as ids in JSON": Shape(
        jsonl({"who": 7, "what": "x", "when": 1}, {"who": "7", "what": 1e3, "when": 2}),
        [("7", "x", 1), ("7", "1000.0", 2)],
    ),
    # ---- numbers as times
    "milliseconds": Shape(table(["a"], ["x"], [NOON * 1000]), [("a", "x", NOON * 1000)]),
    "fractions": Shape(text("a,x,1.5"), [("a", "x", 1.5)]),
    "a decimal comma": Shape(
        text("b;y;2", "a;x;1,5", header="who;what;when"), "log.csv, line 3: 'when' .* '1,5' in row 2"
    ),
    "decimals of a database": Shape(table(["a"], ["x"], [Decimal("1706702400.00")]), AT_NOON),
    # ---- dates
    "ISO dates": Shape(text("a,x,2024-01-31"), [("a", "x", NOON - 12 * 3600)]),
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
        text("a,x,03/04/2024", "b,y,05/06/2024"),
        'the day or the month could come first; say which with --date_format="%d/%m/%Y" or',
    ),
    "the same, given": Shape(text("a,x,03/04/2024"), [("a", "x", 1712102400)], Reading(date_format="%d/%m/%Y")),
    "dates with slashes, year first": Shape(text("a,x,2024/01/31 12:00:00"), AT_NOON),
    "dates run together": Shape(
        text("a,x,20240131", "b,y,20240201"), [("a", "x", NOON - 43200), ("b", "y", NOON + 43200)]
    ),
    "times run together": Shape(
        text("a,x,20240131120000"), "dates such as '20240131120000'; .*--date_format=%Y%m%d%H%M%S"
    ),
    "dates of a web server, given": Shape(
        text("a,x,31/Jan/2024:13:00:00 +0100"), AT_NOON, Reading(date_format="%d/%b/%Y:%H:%M:%S %z")
    ),
    "dates of a web server": Shape(
        text("a,x,31/Jan/2024:13:00:00 +0100"), "log.csv, line 2: 'when' must hold numbers only.*--date_format"
    ),
    "a form that is none": Shape(
        text("a,x,31.01.2024"), "--date_format='%d.%Q' cannot be read", Reading(date_format="%d.%Q")
    ),
    "dates of another form than the one given": Shape(
        text("a,x,31.01.2024", "b,y,2024-01-31"),
        "line 3: 'when' must hold dates like %d.%m.%Y, but 1 of 2 .*'2024-01-31' in row 2",
        Reading(date_format="%d.%m.%Y"),
    ),
    "times of a place": Shape(text("a,x,2024-01-31 13:00"), AT_NOON, Reading(timezone="Europe/Berlin")),
    "times of a place in Parquet": Shape(
        table(["a"], ["x"], [datetime(2024, 1, 31, 13)]), AT_NOON, Reading(timezone="Europe/Berlin")
    ),
    "an hour that the clocks repeat, and one that they leave out": Shape(
        text("a,x,2024-03-31 02:30", "b,y,2024-10-27 02:30"),
        [("a", "x", 1711846800), ("b", "y", 1729992600)],
        Reading(timezone="Europe/Berlin"),
    ),
    "no place": Shape(text("a,x,1"), "--timezone=Mars/North must be a name", Reading(timezone="Mars/North")),
    "days in Parquet": Shape(table(["a"], ["x"], [date(2024, 1, 31)]), [("a", "x", NOON - 43200)]),
    "nanoseconds with a zone in Parquet": Shape(
        table(["a"], ["x"], pa.array([datetime(2024, 1, 31, 12, tzinfo=UTC)], pa.timestamp("ns", "UTC"))),
        AT_NOON,
    ),
    "dates as texts in Parquet": Shape(table(["a"], ["x"], ["31.01.2024 12:00:00"]), AT_NOON),
    "far dates in Parquet": Shape(
        table(["a"], ["x"], pa.array([datetime(9999, 12, 31)], pa.timestamp("us"))), [("a", "x", 253402214400)]
    ),
    "lengths of time in Parquet": Shape(table(["a"], ["x"], pa.array([1], pa.duration("s"))), "has type duration"),
    # ---- rows
    "equal times keep the log's order": Shape(
        text("b,y,2", "a,x,2", "a,w,1"), [("a", "w", 1), ("b", "y", 2), ("a", "x", 2)]
    ),
    "rows without ids": Shape(text("a,x,1", ",x,2", "a,,3", "b,y,4"), [("a", "x", 1), ("b", "y", 4)]),
    "no row with both ids": Shape(text(",x,1", "a,,2"), "no row has both 'who' and 'what'"),
    "duplicates": Shape(text("a,x,1", "a,x,1", "a,x,2"), [("a", "x", 1), ("a", "x", 1), ("a", "x", 2)]),
    "duplicates, not wanted": Shape(
        text("a,x,1", "b,x,1", "a,x,1", "a,x,2"),
        [("a", "x", 1), ("b", "x", 1), ("a", "x", 2)],
        Reading(drop_duplicates=True),
    ),
    "users with one item": Shape(text("a,x,1", "b,x,2", "c,x,3"), [("a", "x", 1), ("b", "x", 2), ("c", "x", 3)]),
    "one row": Shape(text("a,x,1"), [("a", "x", 1)]),
    "an empty file": Shape(raw(b""), "log.csv is empty; its first line must name the columns"),
    "an empty packed file": Shape(raw(gzip.compress(b""), "log.csv.gz"), "log.csv.gz is empty"),
    "only a header": Shape(text(), "has a header but no rows"),
    "only blank lines": Shape(raw(b"\n\n\n"), "is empty"),
    "one column": Shape(text("a", header="who"), r"has no column 'what'; its columns are \['who'\]"),
    "another header": Shape(text("b,y,2", header="a,x,1"), r"has no column 'who'; its columns are \['a', 'x', '1'\]"),
    "a header in capitals": Shape(text("a,x,1", header="Who,What,When"), "did you mean --USER_ID_FIELD=Who"),
    "a column twice": Shape(text("a,x,1,2", header="who,what,when,when"), "two columns have the same name, 'when'"),
    "a short line": Shape(
        text("a,x,1", "b,y", "c,z,3"), "log.csv, line 3: the number of columns is 2, but the header has 3 .*'b,y'"
    ),
    "a long line after a value of two lines": Shape(
        text("a,x,1", '"b\nb",y,2', "c,z,3,4"), "log.csv, line 5: the number of columns is 4"
    ),
    "a quote that is not closed": Shape(
        text("a,x,1", '"b,y,2', "c,z,3"), "log.csv, line 3: a value begins with a quote that is not closed"
    ),
    "a time that is none, after a value of two lines": Shape(
        text("a,x,1,", 'b,y,2,"no\nte"', "c,z,soon,", header="who,what,when,note"),
        "log.csv, line 5: 'when' must hold .* 1 of 3 values do not fit; the first is 'soon' in row 3",
    ),
    "a time that is missing": Shape(text("a,x,1", "b,y,"), "log.csv, line 3: 'when' is missing in 1 of 2 rows"),
    "no JSON": Shape(jsonl({"who": "a", "what": "x", "when": 1}, "", "{who: 1}"), "log.jsonl, line 3 is no JSON"),
    "an object in JSON": Shape(
        jsonl({"who": "a", "what": {"id": "x"}, "when": 1}), "log.jsonl, line 1: column 'what' must hold .* what.id"
    ),
    "no objects in JSON": Shape(jsonl("[1, 2]"), "log.jsonl, line 1 must hold an object"),
    "a column that no object has": Shape(jsonl({"who": "a", "item": "x", "when": 1}), "has no column 'what'"),
    "binary zeros": Shape(raw(b"who,what,when\na\0b,x,1\n"), "line 2: some values of 'who' hold"),
    "no Parquet": Shape(raw(b"PAR1", "log.parquet"), "log.parquet cannot be read"),
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
    assert report["read_as"]["when"] == "ISO 8601 dates, all without a time zone, taken as UTC"


def test_the_report_on_the_screen_is_short_and_is_said_once(tmp_path: Path) -> None:
    said: list[str] = []
    path = text("a,x,2024-01-31T00:00Z", "a,x,2024-01-31T00:00Z", "b,,2024-01-31", "b,y,2024-02-02")(tmp_path)
    for _ in range(2):
        atomic_file(str(path), *FIELDS, say=said.append)
    assert said == [
        "log.csv: 4 rows, encoding 'utf-8', separator ',', when 'ISO 8601 dates, 1 of 3 without a time zone, taken as "
        "UTC'\n"
        "  3 interactions of 2 users with 2 items, 2024-01-31 00:00:00+00:00 to 2024-02-02 00:00:00+00:00\n"
        "  1 rows left out: 'what' is empty (line 4)\n"
        "  1 rows have user, item and time of another row: kept (--drop_duplicates=True leaves them out)\n"
        "  33.3% of interactions repeat an item that the user had\n"
        f"  all of this in {tmp_path / 'log' / 'conversion.json'}"
    ]


@pytest.mark.parametrize("scale", [1, 1000, 10**6, 10**9])
def test_numbers_that_are_plausible_unix_times_have_a_period_of_dates(scale: int, tmp_path: Path) -> None:
    report = report_of(text(f"a,x,{NOON * scale}", f"a,y,{(NOON + 60) * scale}")(tmp_path))
    assert (report["first"], report["last"]) == ("2024-01-31 12:00:00+00:00", "2024-01-31 12:01:00+00:00")


def test_numbers_that_are_no_unix_times_have_a_period_of_numbers(tmp_path: Path) -> None:
    report = report_of(text("a,x,1", "a,y,12")(tmp_path))
    assert (report["first"], report["last"]) == (1, 12)


words = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=6).filter(
    lambda word: (
        word.strip() not in ("", "[PAD]")  # which is refused
        and not re.fullmatch(r"[-+]?\d+\.0*", word.strip())  # read as whole numbers where all ids end so
    )
)
log_rows = st.lists(st.tuples(words, words, st.integers(2 * 10**8, 10**9)), min_size=1, max_size=30)  # no dates


@given(log_rows, st.sampled_from([",", ";", "\t", "|"]))
def test_any_ids_survive_any_separator(
    tmp_path_factory: pytest.TempPathFactory, rows: Iterable[tuple[str, str, int]], separator: str
) -> None:
    frame = pd.DataFrame(rows, columns=list(FIELDS))
    path = tmp_path_factory.mktemp("logs") / "log.csv"
    frame.to_csv(path, index=False, sep=separator)
    ordered = frame.sort_values("when", kind="stable")
    assert read(path) == [
        (user.strip(), item.strip(), float(when)) for user, item, when in ordered.itertuples(index=False)
    ]


@pytest.mark.slow
def test_a_million_rows_are_read_in_seconds(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    size = 1_000_000
    frame = pd.DataFrame(
        {
            "who": np.char.add("u", draw.integers(0, 50_000, size).astype(str)),
            "what": draw.integers(0, 20_000, size),
            "when": pd.to_datetime(draw.integers(1_600_000_000, 1_700_000_000, size), unit="s"),
        }
    )
    path = tmp_path / "log.csv.gz"
    frame.to_csv(path, index=False)
    began = time.perf_counter()
    report = report_of(path)
    assert time.perf_counter() - began < 60
    assert report["rows"] == report["interactions"] == size
    assert report["users"] == frame["who"].nunique()
    assert report["repeats"] == int(frame.duplicated(["who", "what"]).sum())
    assert report["exact_duplicates"] == int(frame.duplicated().sum())
    ordered = frame.sort_values("when", kind="stable")
    made = pd.read_csv(tmp_path / "log" / "log.inter", sep="\t")
    assert made["who:token"].tolist() == ordered["who"].tolist()
    assert made["what:token"].tolist() == ordered["what"].tolist()


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
    asked = pa.concat_tables(source.tables()).to_pylist()
    assert sorted((int(row["events.ts"]), row["session.id"], row["events.aid"]) for row in asked) == [
        (4, "9", "31"),
        (5, "7", "31"),
        (6, "7", "12"),
    ]
    with pytest.raises(UserError, match=r"has no column 'events.id'; its columns are .*'events.aid'"):
        read_columns(log, "session.id", "events.id", "events.ts")


NAIVE, AWARE = pa.timestamp("us"), pa.timestamp("us", "UTC")


def folder_of(tmp_path: Path, **columns: tuple[Any, Any]) -> Path:
    """A folder of two files, whose columns differ as is said."""
    folder = tmp_path / "parts"
    folder.mkdir()
    for number in (0, 1):
        table = {"who": ["a", "b"], "what": ["x", "y"], "when": [NOON + number, NOON + number]}
        table |= {name: values[number] for name, values in columns.items()}
        parquet.write_table(pa.table(table), folder / f"{number}.parquet")
    return folder


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.int64(), pa.timestamp("ms")),
        (NAIVE, pa.int64()),
        (pa.float64(), NAIVE),
        (NAIVE, AWARE),
        (AWARE, NAIVE),
        (pa.date32(), NAIVE),
        (pa.string(), NAIVE),
        (pa.string(), pa.int64()),
    ],
)
def test_columns_of_a_folder_that_mean_different_things_are_refused(first: Any, second: Any, tmp_path: Path) -> None:
    times = pa.array([NOON, NOON], pa.int64())

    def of_type(kind: Any) -> Any:
        dates = times.cast(pa.timestamp("s"))
        return times.cast(kind) if pa.types.is_floating(kind) or kind == pa.int64() else dates.cast(kind)

    folder = folder_of(tmp_path, when=(of_type(first), of_type(second)))
    words = re.escape(
        f"{folder / '1.parquet'}: Unable to merge: Field when has incompatible types: {first} vs {second}"
    )
    with pytest.raises(UserError, match=words):
        read(folder)
    with pytest.raises(UserError, match=words):
        list(InteractionFile(str(folder), FIELDS).tables())


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.int32(), pa.int64()),
        (pa.int64(), pa.float64()),
        (pa.timestamp("ns"), pa.timestamp("ms")),
        (pa.timestamp("s"), pa.timestamp("us")),
        (pa.timestamp("s", "UTC"), AWARE),
        (pa.decimal128(19, 0), pa.int64()),
    ],
)
def test_times_of_a_folder_of_one_sort_are_read_whatever_their_width(first: Any, second: Any, tmp_path: Path) -> None:
    def of_type(seconds: int, kind: Any) -> Any:
        times = pa.array([seconds, seconds], pa.int64())
        return times.cast(pa.timestamp("s", getattr(kind, "tz", None)) if pa.types.is_timestamp(kind) else kind).cast(
            kind
        )

    folder = folder_of(tmp_path, when=(of_type(NOON, first), of_type(NOON + 1, second)))
    assert read(folder) == [("a", "x", NOON), ("b", "y", NOON), ("a", "x", NOON + 1), ("b", "y", NOON + 1)]
    assert len(pa.concat_tables(InteractionFile(str(folder), FIELDS).tables())) == 4


def test_parts_of_a_folder_are_read_in_the_order_of_the_numbers_in_their_names(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for number in (10, 2, 1):
        parquet.write_table(pa.table({"who": ["a"], "what": [f"x{number}"]}), folder / f"part.{number}.parquet")
    (folder / "more.csv").write_text("who,what\na,y\n")
    (folder / "_delta_log").mkdir()
    (folder / "_delta_log" / "0.json").write_text("{}")  # hidden: it is no part
    assert [item for _, item, _ in read(folder, Reading(in_order=True))] == ["x1", "x2", "x10"]
    assert report_of(folder, in_order=True)["doubts"] == ["files that are no .parquet are not read, such as 'more.csv'"]


def test_ids_that_a_program_made_floats_of_are_the_same_when_they_are_asked_for(tmp_path: Path) -> None:
    log = text("23.0,7.0,1", "5.0,7.0,2")(tmp_path)
    assert read(log) == [("23", "7", 1), ("5", "7", 2)]
    (asked,) = InteractionFile(str(log), FIELDS).tables()
    assert asked.to_pydict() == {"who": ["23", "5"], "what": ["7", "7"], "when": ["1", "2"]}


def test_backslashes_before_quotes_are_told(tmp_path: Path) -> None:
    log = text('a,"the \\"x\\"",1')(tmp_path)
    assert report_of(log)["doubts"][0].startswith("a backslash stands before a quote 2 times")
    assert read(log, Reading(escape="\\")) == [("a", 'the "x"', 1)]


def test_rows_whose_lists_are_empty_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = table(["a", "b", "c"], pa.array([["x"], [], None], pa.list_(pa.string())), pa.array([[1], [], []]))(tmp_path)
    assert report_of(log)["doubts"] == ["2 rows are left out, whose lists are empty"]
    list(InteractionFile(str(log), FIELDS).tables())
    assert f"{log}: 2 rows are left out, whose lists are empty" in caplog.text


def test_a_log_that_took_the_place_of_another_with_its_size_and_time_is_read(tmp_path: Path) -> None:
    log = text("a,x,1", "b,y,2")(tmp_path)
    assert read(log) == ONE
    state = log.stat()
    other = text("a,z,1", "b,y,2", name="other.csv")(tmp_path)
    os.utime(other, (state.st_atime, state.st_mtime))
    other.replace(log)
    assert log.stat().st_mtime == state.st_mtime
    assert read(log) == [("a", "z", 1), ("b", "y", 2)]
