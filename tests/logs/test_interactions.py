"""Files of histories: read whatever their form, divided by users without losing or doubling a row."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from recbole_bert4rec.logs import interactions
from recbole_bert4rec.logs.interactions import InteractionFile
from recbole_bert4rec.logs.items import read_names
from recbole_bert4rec.system.errors import UserError
from tests.helpers.data import interactions_of

FIELDS = ("user", "item", "time")
ROWS = [(f"u{n % 7}", str(n * n % 11), float(n)) for n in range(60)]
FRAME = pd.DataFrame(ROWS, columns=list(FIELDS))


def written(form: str) -> str:
    """The rows in a file of some form."""
    text = FRAME.to_csv(index=False)
    typed = text.replace("user,item,time", "user:token,item:token,time:float").replace(",", "\t")
    if form == ".csv":
        Path("a.csv").write_text(text)
    elif form == ".inter":
        Path("a.inter").write_text(typed)
    elif form == ".parquet":
        FRAME.assign(item=FRAME["item"].astype(float)).to_parquet("a.parquet")  # as pandas has ids with gaps
    elif form == "folder":
        Path("a").mkdir()
        FRAME[:20].to_parquet("a/1.parquet")
        FRAME[20:].to_parquet("a/2.parquet")
        return "a"
    elif form == "lists":
        lists = FRAME.groupby("user").agg(list).reset_index()
        parquet.write_table(pa.Table.from_pandas(lists), "a.parquet", row_group_size=2)
        return "a.parquet"
    return f"a{form}"


@pytest.mark.parametrize("form", [".csv", ".inter", ".parquet", "folder", "lists"])
@pytest.mark.parametrize("size", [1 << 18, 20, 1])
def test_every_row_is_once_among_those_of_its_user(form: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interactions, "_PART", size)
    parts = list(InteractionFile(written(form), FIELDS).parts())
    assert len(parts) == {1 << 18: 1, 20: 4, 1: 7}[size]
    rows = [row for part in parts for row in part.itertuples(index=False, name=None)]
    in_order = sorted(ROWS, key=lambda row: row[0])  # u0, u1, ... is the order in which they come
    assert rows == [(user, item) for user, item, _ in in_order]
    users = [user for part in parts for user in part["user"].unique()]
    assert len(users) == 7


def test_users_have_the_order_of_the_file_and_their_rows_that_of_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interactions, "_PART", 1000)
    rows = [("z", str(n), n) for n in range(10_000)] + [(f"u{n * 7919 % 500}", "1", n) for n in range(10_000)]
    frame = pd.DataFrame(rows, columns=list(FIELDS)).sample(frac=1.0, random_state=1)
    frame.to_parquet("a.parquet")
    parts = list(InteractionFile("a.parquet", FIELDS).parts())
    wanted = frame.assign(place=frame.groupby("user", sort=False).ngroup()).sort_values(["place", "time"])
    assert pd.concat(parts).to_dict("list") == wanted[["user", "item"]].to_dict("list")
    assert len(parts) > 8
    assert sum("z" in set(part["user"]) for part in parts) == 1
    assert all(len(part) <= 1020 for part in parts if "z" not in set(part["user"]))


def no_text() -> bytes:
    """A Parquet file with an id that is no UTF-8."""
    broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"i\xff0"]).buffers())
    parquet.write_table(pa.table({"user": ["u"], "item": broken, "time": [1.0]}), "broken")
    return Path("broken").read_bytes()


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("a.doc", b"x", "--input=a.doc"),
        ("a.csv", b"who,item\n", "'user'.*'who', 'item'.*--USER_ID_FIELD"),
        ("a.csv", b"user,item\n", "a.csv"),
        ("a.csv", b"user,item\na,1\nb,2,3\n", "a.csv, line 3: .* 3, .* 2 "),
        ("a.csv", b"user,\xf5\n", "a.csv, line 1"),
        ("a.parquet", b"user", "a.parquet"),
        ("a.parquet", no_text, "a.parquet"),
        ("a", None, "--input=a: "),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(name: str, content: Any, named: str) -> None:
    if content is None:
        Path(name).mkdir()
    else:
        Path(name).write_bytes(content() if callable(content) else content)
    with pytest.raises(UserError, match=named) as error:
        list(InteractionFile(name, FIELDS).parts())
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        'sku:token\tname:token_seq\n7\tA "big" one\n',
        'sku:token\tname:token_seq\r\n7\tA "big" one\n',
        'sku;name\n7;"A ""big"" one"\n',
        'sku,name\n7,"A ""big"" one"\r\n',
    ],
    ids=["item", "item with mixed line ends", "semicolon", "comma with mixed line ends"],
)
def test_what_items_are_is_read_from_an_item_file_and_from_csv(text: str) -> None:
    Path("items.txt").write_text(text, newline="")
    assert read_names("items.txt", "sku") == (["7"], ['A "big" one'])


def test_names_of_folders_are_texts_and_a_part_may_have_empty_columns() -> None:
    for name, items in (("007", [None, None]), ("08", ["1", "2"])):
        folder = Path("log") / f"user={name}"
        folder.mkdir(parents=True)
        kind = pa.null() if items[0] is None else pa.string()
        parquet.write_table(pa.table({"item": pa.array(items, kind), "time": [1.0, 2.0]}), folder / "1.parquet")
    (part,) = InteractionFile("log", FIELDS).parts()
    assert part.to_dict("list") == {"user": ["08", "08"], "item": ["1", "2"]}


def test_rows_without_an_id_are_left_out_and_counted_and_a_time_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(interactions, "getLogger", lambda name: SimpleNamespace(warning=said.append))
    Path("a.csv").write_text("item,user\n1,a\n,a\n2,\n3,b\n")
    (part,) = InteractionFile("a.csv", FIELDS).parts()
    assert part.to_dict("list") == {"user": ["a", "b"], "item": ["1", "3"]}
    about_time, about_rows = said
    assert "'time'" in about_time
    assert about_rows.startswith("a.csv: 2 rows")


def test_dates_of_one_form_are_told_by_all_rows_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interactions, "_PART", 2)
    days = ["05/03/2020", "04/04/2020", "03/05/2020", "02/06/2020", "30/03/2020", "29/03/2020"]
    pd.DataFrame({"user": list("aabbcc"), "item": list("123456"), "time": days}).to_csv("a.csv", index=False)
    parts = InteractionFile("a.csv", FIELDS).parts()
    assert [part["item"].tolist() for part in parts] == [["1", "2"], ["3", "4"], ["6", "5"]]


def test_quotes_of_an_atomic_file_are_signs_like_others() -> None:
    Path("a.inter").write_text('user:token\titem:token\tnote:token\na\t1\t"open\nb\t"2"\tx\nc\t3\tclose"\n')
    table = interactions_of(InteractionFile("a.inter", FIELDS))
    assert table.to_dict("list") == {"user": ["a", "b", "c"], "item": ["1", '"2"', "3"]}
