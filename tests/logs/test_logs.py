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
from uuid import UUID

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from recbole_bert4rec.logs.formats import Reading
from recbole_bert4rec.logs.interactions import InteractionFile
from recbole_bert4rec.recommend.ids import Items
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


def parts(*columns: Any, **placed: Any) -> Callable[[Path], Path]:
    """A folder of Parquet files as Spark leaves it: parts of these columns, or by name where they lie."""

    def write(folder: Path) -> Path:
        named = placed or {f"{number}.parquet": part for number, part in enumerate(columns)}
        for name, part in named.items():
            file = folder / "events" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            parquet.write_table(pa.table(part), file)
            (file.parent / f"._{file.name}").write_bytes(b"no Parquet")
        (folder / "events" / "_SUCCESS").write_text("")
        return folder / "events"

    return write


def of_type(kind: Any) -> dict[str, Any]:
    """A part whose times are of some type."""
    return {"who": ["a"], "what": ["x"], "when": pa.nulls(1, kind)}


def jsonl(*records: Any, name: str = "log.jsonl") -> Callable[[Path], Path]:
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    return text(*lines[1:], header=lines[0], name=name)


@dataclass
class Shape:
    """A log, and what is read of it; or what is named of it.

    Attributes:
        said: what is doubted of it; empty where nothing is.
    """

    write: Callable[[Path], Path]
    expected: Rows | str
    reading: Reading = field(default_factory=Reading)
    fields: tuple[str, str, str] = FIELDS
    said: str | None = None


SESSIONS = [
    {"session": {"id": 7}, "events": [{"aid": 31, "at": {"ts": 5}}, {"aid": 12, "at": {"ts": 6}}]},
    {"session": {"id": 8}, "events": []},
    {"session": {"id": 9}, "events": [{"aid": 31, "at": {"ts": 4}}]},
]
IN_SESSIONS = ("session.id", "events.aid", "events.at.ts")
OF_SESSIONS: Rows = [("9", "31", 4), ("7", "31", 5), ("7", "12", 6)]
IN_E = ("who", "e.what", "e.when")


LONG = "long " * 40_000
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
    "columns in another order, and more of them": Shape(
        text("9,1,,x,a", "9,2,,y,b", header=",when,note,what,who"), ONE
    ),
    # ---- without a header, times, or a row an interaction
    "no header, as MovieLens": Shape(
        text("b::y::4::2", header="a::x::5::1", name="ratings.dat"), ONE, Reading(columns="who,what,stars,when")
    ),
    "a header of fewer columns all the same": Shape(
        text("a,x,1", "b,y,2"), ONE, Reading(columns="who,what,stars,when")
    ),
    "no header that is not told": Shape(text("2,y,2", header="1,x,1"), "--columns=user_id,item_id,timestamp"),
    "no header, and too few names": Shape(
        text("b,y,5,2", header="a,x,4,1"), "log.csv, line 1: --columns .* 4 ", Reading(columns="who,what,when")
    ),
    "no header, a time that is none": Shape(
        text("b,y,soon", header="a,x,1"), "log.csv, line 2: 'when'", Reading(columns="who,what,when")
    ),
    "no times": Shape(text("b,y", "a,x", header="who,what"), [("b", "y", 0), ("a", "x", 1)], Reading(in_order=True)),
    "times that do not count": Shape(text("b,y,2", "a,x,1"), [("b", "y", 0), ("a", "x", 1)], Reading(in_order=True)),
    "no times that is not told": Shape(text("b,y", header="who,what"), "--in_order=True"),
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
    "six digits that are dates": Shape(text("a,x,090124", "b,y,311223"), "'when' .*'090124'.*--date_format=\"%d%m%y\""),
    # ---- files
    "a packed file that is cut": Shape(
        raw(gzip.compress(b"who,what,when\n" + b"a,x,1\n" * 9999)[:-30], "log.csv.gz"), "log.csv.gz"
    ),
    "no packed file": Shape(raw(b"who,what,when\na,x,1\n", "log.csv.gz"), "log.csv.gz"),
    "lines of Windows, with a mark": Shape(text("a,x,1", "b,y,2", encoding="utf-8-sig", end="\r\n"), ONE),
    "blank lines": Shape(text("", "a,x,1", "", "b,y,2", ""), ONE),
    "Parquet with categories": Shape(
        table(pa.array(["a", "b"]).dictionary_encode(), pa.array(["x", "y"]).dictionary_encode(), [1, 2]), ONE
    ),
    "a folder of Parquet": Shape(
        parts(
            **{
                f"when={day}/0.parquet": {"who": [user], "what": ["x"]}
                for day, user in (("2024-01-31", "a"), ("2024-02-01", "b"))
            }
        ),
        [("a", "x", NOON - 12 * 3600), ("b", "x", NOON + 12 * 3600)],
    ),
    "folders whose names are ids, and a part with an empty column": Shape(
        parts(
            **{
                "who=007/0.parquet": {"what": pa.nulls(2), "when": [1, 2]},
                "who=b%20c/0.parquet": {"what": ["x", "y"], "when": [1, 2]},
            }
        ),
        [("b c", "x", 1), ("b c", "y", 2)],
    ),
    "parts by the numbers in their names": Shape(
        parts(**{f"part.{n}.parquet": {"who": ["a"], "what": [f"x{n}"]} for n in (10, 2, 1)}),
        [("a", "x1", 0), ("a", "x2", 1), ("a", "x10", 2)],
        Reading(in_order=True),
    ),
    "a part that lacks a column": Shape(
        parts(of_type(pa.int64()), {"who": ["b"], "what": ["y"]}), r"1\.parquet .*'when'"
    ),
    **{
        f"parts of {first} and {second}": Shape(parts(of_type(first), of_type(second)), r"1\.parquet: .* when .* vs ")
        for first, second in (
            (pa.int64(), pa.timestamp("ms")),
            (pa.timestamp("us"), pa.timestamp("us", "UTC")),
            (pa.int64(), pa.uint64()),
        )
    },
    "names that differ in case": Shape(
        parts({"who": ["a"], "What": ["title"], "what": ["x"], "when": [1]}), "'what' only in case"
    ),
    "a column that is called like one of DuckDB's": Shape(
        parts(**{"who=a/0.parquet": {"filename": ["x"], "when": [1]}}),
        [("a", "x", 1)],
        fields=("who", "filename", "when"),
    ),
    "sessions in JSON": Shape(jsonl(*SESSIONS), OF_SESSIONS, fields=IN_SESSIONS, said="1 rows .*empty"),
    "sessions in Parquet": Shape(
        parts(pa.Table.from_pylist(SESSIONS).to_pydict()), OF_SESSIONS, fields=IN_SESSIONS, said="1 rows .*empty"
    ),
    "sessions without a key": Shape(
        jsonl(*SESSIONS), r"'events\.id'.*'events\.aid'", fields=("session.id", "events.id", "x")
    ),
    "an element without a key": Shape(
        jsonl({"who": "a", "e": [{"what": "x", "when": 1}, {"when": 2}, {"what": "z", "when": 3}]}),
        [("a", "x", 1), ("a", "z", 3)],
        fields=IN_E,
    ),
    "a key that holds lists in some lines, which are left out": Shape(
        jsonl({"who": "a", "e": [{"what": "x", "when": 1}]}, {"who": "b", "e": {"what": "y", "when": 2}}),
        [("b", "y", 2)],
        fields=IN_E,
    ),
    "a key with a dot comes first": Shape(
        jsonl({"who": "a", "what": "x", "when": 9, "e": {"t": 7}, "e.t": 1}),
        [("a", "x", 1)],
        fields=("who", "what", "e.t"),
    ),
    "lists in lists": Shape(jsonl({"who": "a", "what": ["x", ["y"]], "when": [1, 2]}), "line 1: column 'what'"),
    "blank lines between objects": Shape(
        raw(b'{"who": "a", "what": "x", "when": 1}\n\n  \t\n{"who": "b", "what": "y", "when": 2}\n\n', "log.jsonl"), ONE
    ),
    "long values": Shape(
        text(f'a,x,1,"{LONG}\n{LONG}"', "b,y,2,", ",y,2,", header="who,what,when,note"), ONE, said="1 rows .* line 2"
    ),
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
    "a mark, though UTF-8 is given": Shape(
        text("a,x,1", "b,y,2", encoding="utf-8-sig"), ONE, Reading(encoding="utf-8")
    ),
    "a name of two lines in the header": Shape(raw(b'\n\nwho,what,when,"Price\n(EUR)"\na,x,1,5\nb,y,2,5\n'), ONE),
    # ---- ids
    "ids that a program made floats of": Shape(
        text("23.0,7.0,1", "5.0,7.0,2"), [("23", "7", 1), ("5", "7", 2)], said=""
    ),
    **{
        f"ids that differ in a point or blanks, {other!r}": Shape(
            table(["0", other, "7"], ["x", "y", "z"], [1, 2, 3]),
            [("0", "x", 1), (other.strip(), "y", 2), ("7", "z", 3)],
            said="2 ids of 'who' .*'0'",
        )
        for other in ("0\u2003", "0.00")
    },
    "ids that differ in case": Shape(text("i,x,1", "I,x,2"), [("i", "x", 1), ("I", "x", 2)], said=""),
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
    "quotes after backslashes": Shape(text('a,"the \\"x\\"",1'), r"log\.csv, line 2: .*--escape="),
    "quotes after backslashes, given": Shape(text('a,"the \\"x\\"",1'), [("a", 'the "x"', 1)], Reading(escape="\\")),
    "line breaks inside of quotes": Shape(
        text('a,x,1,"two\nlines"', 'b,y,2,"a, b\n\n""c"""', header="who,what,when,note"), ONE, said="2 rows .* line 2"
    ),
    "lines that could be rows inside of a quote that is given": Shape(
        text('a,x,1,"Heroes', 'b,y,2,Low"', header="who,what,when,note"), [("a", "x", 1)], Reading(quote='"')
    ),
    "a quote after a blank": Shape(
        text('a,x,1, "Heroes', "b,y,2,t", 'c,z,3,Low"', header="who,what,when,note"), "line 2: "
    ),
    "a quote before a last separator": Shape(
        text('a,x,1,"Heroes', 'b,y,2,Low",', "d,w,4,t", header="who,what,when,note"), "line 2: "
    ),
    "an escape without quotes": Shape(text("a,x,1"), "--escape .*--quote=none", Reading(escape="\\", quote="none")),
    "a quote that separates": Shape(text("a,x,1"), "--quote=,", Reading(quote=",")),
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
    "a place that is this machine's": Shape(text("a,x,2024-01-31"), "localtime", Reading(timezone="localtime")),
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
    "a time without end": Shape(text("a,x,1", "b,y,1e999"), "log.csv, line 3: 'when' .* 1 of 2 "),
    "a time without end in Parquet": Shape(table(["a"], ["x"], [math.inf]), "'when' .* 1 of 1 "),
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


def read(path: Path, reading: Reading | None = None, fields: tuple[str, str, str] = FIELDS) -> Rows:
    """What is in the atomic file that is made of a log, read by the simplest means there are."""
    encoding = (reading and reading.encoding) or "utf-8"
    file = atomic_file(str(path), *fields, reading)
    frame = pd.read_csv(file, sep="\t", dtype=str, keep_default_na=False, encoding=encoding)
    assert list(frame) == [f"{field}:{kind}" for field, kind in zip(fields, ("token", "token", "float"), strict=True)]
    return [(user, item, float(time)) for user, item, time in frame.itertuples(index=False)]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_log_is_read_rightly_or_refused_in_one_line(shape: Shape, tmp_path: Path) -> None:
    path = shape.write(tmp_path)
    if isinstance(shape.expected, str):
        with pytest.raises(UserError, match=shape.expected) as caught:
            atomic_file(str(path), *shape.fields, shape.reading)
        assert "\n" not in str(caught.value)
        assert not list(tmp_path.rglob("*.inter"))
        return
    assert read(path, shape.reading, shape.fields) == shape.expected
    if not shape.reading.drop_duplicates:
        asked = interactions_of(InteractionFile(str(path), shape.fields, shape.reading))
        of_users = asked.groupby(shape.fields[0], sort=False)[shape.fields[1]].agg(list).to_dict()
        assert of_users == {user: [what for who, what, _ in shape.expected if who == user] for user in of_users}
        assert len(asked) == len(shape.expected)
    if shape.said is not None:
        doubts = report_of(path, shape.fields, shape.reading)["doubts"]
        assert re.match(shape.said, doubts[0]) if shape.said else not doubts


def report_of(path: Path, fields: tuple[str, str, str] = FIELDS, reading: Reading | None = None) -> dict[str, Any]:
    """``conversion.json``."""
    record = atomic_file(str(path), *fields, reading).parent / "conversion.json"
    content: dict[str, Any] = json.loads(record.read_text("utf-8"))
    return content


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    "titles",
    [
        {2: '"Heroes', 5: '"Low'},  # neither is closed
        {2: '"Heroes', 5: 'Low"'},  # the second closes the first
        {2: '"Heroes', 3: 'Low"'},
    ],
)
def test_a_quote_that_swallows_rows_is_refused_with_its_line_and_can_be_read_as_a_sign(
    titles: dict[int, str], end: str, tmp_path: Path
) -> None:
    lines = [f"a,x,{n},{titles.get(n, 'song')}" for n in range(8)]
    log = text(*lines, header="who,what,when,title", end=end)(tmp_path)
    with pytest.raises(UserError, match=r"log\.csv, line 4: "):
        read(log)
    assert read(log, Reading(quote="none")) == [("a", "x", n) for n in range(8)]


@pytest.mark.parametrize(
    ("form", "moments"),
    [
        ("%d%m%Y", pd.date_range("2023-10-27", periods=40)),
        ("%m%d%Y", pd.date_range("2023-09-05", periods=40)),
        ("%Y%m%d%H%M", pd.date_range("2023-11-05 08:15", periods=40, freq="7h")),
        ("%Y%m%d%H%M%S", pd.date_range("2023-11-05 08:15:01", periods=40, freq="7h")),
    ],
)
def test_dates_run_together_are_refused_until_their_form_is_told(
    form: str, moments: pd.DatetimeIndex, tmp_path: Path
) -> None:
    texts = [f"{moment:{form}}" for moment in moments]
    for times in (texts, [*map(int, texts)]):
        log = table(["a"] * 40, ["x"] * 40, times)(tmp_path)
        with pytest.raises(UserError, match=f'--date_format="{form}"$'):
            read(log)
        assert [when for *_, when in read(log, Reading(date_format=form))] == [one.timestamp() for one in moments]


def test_ties_are_counted_where_they_are_most_or_stand_the_wrong_way_round(tmp_path: Path) -> None:
    days = [86400 * (n // 20) for n in range(40)]
    found = [
        report_of(table([f"u{n % 5}" for n in range(40)], ["x"] * 40, times)(tmp_path))["doubts"]
        for times in (days, days[::-1], [n // 2 for n in range(40)])
    ]
    assert [len(said) for said in found] == [1, 1, 0]
    assert all(said[0].startswith("30 of 40 rows") for said in found[:2])
    assert found[0] != found[1]


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
    times = ["1706702400000000001", "1706702400000000002"]
    path = atomic_file(str(text(*(f"a,x,{time}" for time in times))(tmp_path)), *FIELDS)
    assert [line.rpartition("\t")[2] for line in path.read_text().splitlines()[1:]] == times


def test_a_log_that_took_the_place_of_another_with_its_size_and_time_is_read(tmp_path: Path) -> None:
    log = text("a,x,1", "b,y,2")(tmp_path)
    assert read(log) == ONE
    state, other = log.stat(), text("a,z,1", "b,y,2", name="other.csv")(tmp_path)
    os.utime(other, ns=(state.st_atime_ns, state.st_mtime_ns))
    other.replace(log)
    assert read(log) == [("a", "z", 1), ("b", "y", 2)]


@pytest.mark.parametrize("name", ["log[1].csv", "a*.csv", "what?.csv"])
def test_signs_of_patterns_in_a_name_are_signs(name: str, tmp_path: Path) -> None:
    for other in ("log1.csv", "ab.csv", "whats.csv"):
        text("other,x,1", name=other)(tmp_path)
    assert read(text("a,x,1", "b,y,2", name=name)(tmp_path)) == ONE


def test_folders_above_a_log_are_no_columns(tmp_path: Path) -> None:
    folder = tmp_path / "when=2020"
    folder.mkdir()
    log = parts({"who": ["a"], "what": ["x"], "when": [1]})(folder)
    (log / "more.csv").write_text("who,what\na,y\n")
    assert read(log) == [("a", "x", 1)]
    assert "'more.csv'" in report_of(log)["doubts"][0]


def test_moments_that_are_ids_are_the_same_on_every_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = pa.array([NOON, NOON + 1], pa.timestamp("s", "UTC"))
    log = table(["a", "b"], moments, [1, 2])(tmp_path)
    monkeypatch.setenv("TZ", "America/New_York")
    assert [item for _, item, _ in read(log)] == ["2024-01-31 12:00:00.000000Z", "2024-01-31 12:00:01.000000Z"]


def test_an_id_that_is_asked_for_with_blanks_or_a_point_or_as_an_object_of_uuids_is_found() -> None:
    asked = [" 3 ", "3\u2003", "3.0", "3.00", "4", "other"]
    assert Items(["[PAD]", *map(str, range(7))]).ids_of(asked).tolist() == [4, 4, 4, 4, 5, 0]
    shop = UUID(int=7)
    assert Items(["[PAD]", "a", str(shop)]).ids_of([shop, "a"]).tolist() == [2, 1]
