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
from recbole_bert4rec.logs.interactions import InteractionFile, read_part
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
@pytest.mark.parametrize("count", [1, 4])
def test_every_row_is_in_the_part_of_its_user_once(form: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interactions, "_ROWS", 13)
    source = InteractionFile(written(form), FIELDS)
    parts = [read_part(file, FIELDS) for file in source.divide(Path("parts"), count)]
    users = [set(part["user"]) for part in parts]
    assert sum(map(len, users)) == 7
    assert len(parts) == 1 if count == 1 else len(parts) > 1
    together = pd.concat(parts).astype({"time": float}).sort_values("time")
    assert list(together.itertuples(index=False, name=None)) == ROWS
    assert [file.name for file in source.divide(Path("parts"), count)] == [
        file.name for file in sorted(Path("parts").iterdir())
    ]


def test_half_a_division_is_done_anew() -> None:
    source = InteractionFile(written(".csv"), FIELDS)
    unfinished = Path("parts.unfinished")
    unfinished.mkdir()
    (unfinished / "00000.arrow").write_bytes(b"half")
    assert sum(len(read_part(file, FIELDS)) for file in source.divide(Path("parts"), 3)) == len(ROWS)
    assert not unfinished.exists()


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
        InteractionFile(name, FIELDS).divide(Path("parts"), 2)
    assert "\n" not in str(error.value)
    assert content == b"user,item\n" or not Path("parts").exists()


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
    (part,) = InteractionFile("log", FIELDS).divide(Path("parts"), 1)
    assert read_part(part, FIELDS).to_dict("list") == {"user": ["08", "08"], "item": ["1", "2"], "time": [1.0, 2.0]}


def test_rows_without_an_id_are_left_out_and_counted_and_a_time_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(interactions, "getLogger", lambda name: SimpleNamespace(warning=said.append))
    Path("a.csv").write_text("item,user\n1,a\n,a\n2,\n3,b\n")
    (part,) = InteractionFile("a.csv", FIELDS).divide(Path("parts"), 1)
    assert read_part(part, FIELDS).to_dict("list") == {"user": ["a", "b"], "item": ["1", "3"]}
    about_time, about_rows = said
    assert "'time'" in about_time
    assert about_rows.startswith("a.csv: 2 rows")


def test_quotes_of_an_atomic_file_are_signs_like_others(tmp_path: Path) -> None:
    Path("a.inter").write_text('user:token\titem:token\tnote:token\na\t1\t"open\nb\t"2"\tx\nc\t3\tclose"\n')
    table = interactions_of(InteractionFile("a.inter", FIELDS), tmp_path)
    assert table.to_pydict() == {"user": ["a", "b", "c"], "item": ["1", '"2"', "3"]}
