"""Files of histories are divided by users without losing or doubling a row, and names of items are read."""

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


@pytest.mark.parametrize("size", [1 << 18, 100, 1])
@pytest.mark.parametrize("as_lists", [False, True])
def test_users_have_the_order_of_the_file_and_their_rows_that_of_time(
    as_lists: bool, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interactions, "_PART", size)
    rows = [("z", str(n), n) for n in range(600)] + [(f"u{n * 7919 % 50}", str(n % 7), n) for n in range(600)]
    frame = pd.DataFrame(rows, columns=list(FIELDS)).sample(frac=1.0, random_state=1)
    if as_lists:
        lists = frame.groupby("user", sort=False).agg(list).reset_index()
        parquet.write_table(pa.Table.from_pandas(lists), "a.parquet", row_group_size=2)
    else:
        frame.to_parquet("a.parquet")
    parts = list(InteractionFile("a.parquet", FIELDS).parts())
    wanted = frame.assign(place=frame.groupby("user", sort=False).ngroup()).sort_values(["place", "time"])
    assert pd.concat(parts).to_dict("list") == wanted[["user", "item"]].to_dict("list")
    assert sum(part["user"].nunique() for part in parts) == 51
    assert len(parts) == {1 << 18: 1, 100: 8, 1: 51}[size]


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
        ("a.csv", b"user,item\na,\n,b\n", "a.csv: .*'user'.*'item'"),
        ("a.csv", b"user,\xf5\n", "a.csv, line 1"),
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
        'sku:token\tname:token_seq\r\n7\tA "big" one\n',
        'sku;name\n7;"A ""big"" one"\n',
        'sku,name\n7,"A ""big"" one"\r\n',
    ],
    ids=["item with mixed line ends", "semicolon", "comma with mixed line ends"],
)
def test_what_items_are_is_read_from_an_item_file_and_from_csv(text: str) -> None:
    Path("items.txt").write_text(text, newline="")
    assert read_names("items.txt", "sku") == (["7"], ['A "big" one'])


def test_rows_without_an_id_are_left_out_and_counted_and_a_time_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(interactions, "getLogger", lambda name: SimpleNamespace(warning=said.append))
    Path("a.csv").write_text("item,user\n1,a\n,a\n2,\n3,b\n")
    (part,) = InteractionFile("a.csv", FIELDS).parts()
    assert part.to_dict("list") == {"user": ["a", "b"], "item": ["1", "3"]}
    about_time, about_rows = said
    assert "'time'" in about_time
    assert about_rows.startswith("a.csv: 2 rows")


def test_quotes_of_an_atomic_file_are_signs_like_others() -> None:
    Path("a.inter").write_text('user:token\titem:token\tnote:token\na\t1\t"open\nb\t"2"\tx\nc\t3\tclose"\n')
    table = interactions_of(InteractionFile("a.inter", FIELDS))
    assert table.to_dict("list") == {"user": ["a", "b", "c"], "item": ["1", '"2"', "3"]}
