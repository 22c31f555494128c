"""Files of histories: read whatever their form, divided by users without losing or doubling a row."""

from __future__ import annotations

import gzip
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from recbole_bert4rec.logs import interactions
from recbole_bert4rec.logs.interactions import InteractionFile, join_tables, read_part, write_table
from recbole_bert4rec.logs.items import read_items
from recbole_bert4rec.system.errors import UserError

FIELDS = ("user", "item", "time")
ROWS = [(f"u{n % 7}", str(n * n % 11), float(n)) for n in range(60)]
FRAME = pd.DataFrame(ROWS, columns=list(FIELDS))


def written(form: str) -> str:
    """The rows in a file of some form."""
    text = FRAME.to_csv(index=False)
    typed = text.replace("user,item,time", "user:token,item:token,time:float").replace(",", "\t")
    if form == ".csv":
        Path("a.csv").write_text(text)
    elif form == ".csv.gz":
        Path("a.csv.gz").write_bytes(gzip.compress(text.encode()))
    elif form == ".tsv":
        Path("a.tsv").write_text(text.replace(",", "\t"))
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


@pytest.mark.parametrize("form", [".csv", ".csv.gz", ".tsv", ".inter", ".parquet", "folder", "lists"])
@pytest.mark.parametrize("count", [1, 4])
def test_every_row_is_in_the_part_of_its_user_once(form: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interactions, "_ROWS", 13)
    source = InteractionFile(written(form), FIELDS)
    parts = [read_part(file) for file in source.divide(Path("parts"), count)]
    users = [set(part["user"]) for part in parts]
    assert sum(map(len, users)) == 7
    assert len(parts) == 1 if count == 1 else len(parts) > 1
    together = pd.concat(parts).astype({"time": float}).sort_values("time")
    assert list(together.itertuples(index=False, name=None)) == ROWS
    assert [file.name for file in source.divide(Path("parts"), count)] == [
        file.name for file in sorted(Path("parts").iterdir())
    ]


def test_rows_without_an_id_are_left_out_and_a_time_is_not_needed() -> None:
    Path("a.csv").write_text("item,user\n1,a\n,a\n2,\n3,b\n")
    (part,) = InteractionFile("a.csv", FIELDS).divide(Path("parts"), 1)
    found = read_part(part)
    assert found.to_dict("list") == {"user": ["a", "b"], "item": ["1", "3"]}


def test_half_a_division_is_done_anew() -> None:
    source = InteractionFile(written(".csv"), FIELDS)
    unfinished = Path("parts.unfinished")
    unfinished.mkdir()
    (unfinished / "00000.arrow").write_bytes(b"half")
    assert sum(len(read_part(file)) for file in source.divide(Path("parts"), 3)) == len(ROWS)
    assert not unfinished.exists()


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_tables_that_are_joined_are_one_after_the_other(kind: str) -> None:
    tables = [FRAME[:5], FRAME[:0], FRAME[5:9]]
    paths = [Path(f"{number}{kind}") for number in range(3)]
    for table, path in zip(tables, paths, strict=True):
        write_table(table, path, kind)
    join_tables(paths, Path(f"all{kind}"), kind)
    found = pd.read_csv("all.csv", dtype={"item": str}) if kind == ".csv" else pd.read_parquet("all.parquet")
    pd.testing.assert_frame_equal(found, FRAME[:9])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", None, "--input=a.csv: no such file"),
        ("a.doc", "x", r"--input=a.doc must be a .csv, .tsv, .* or one of RecBole's .inter"),
        ("a.csv", "", "a.csv is empty; its first line must name the columns"),
        (
            "a.csv",
            "kunde;artikel;zeit\na;P03-04;2026-03-01 14:05\n",
            "a.csv has no column 'user'; its columns are .'kunde', 'artikel', 'zeit'.; name yours with --USER_ID_FIELD",
        ),
        (
            "a.csv",
            "who,item\n",
            "has no column 'user'; its columns are .'who', 'item'.; name yours with --USER_ID_FIELD",
        ),
        ("a.csv", "user,item\n", "a.csv holds no interactions"),
        (
            "a.csv",
            "user,item\na,1\nb,2,3\n",
            "a.csv, line 3: the number of columns is 3, but the header has 2",
        ),
        ("a.csv", "user,\udcf5\n", "a.csv, line 1, .* is not utf-8; save it as UTF-8 or name its encoding"),
        ("a.parquet", "user", "a.parquet cannot be read"),
        ("a.csv.gz", "user", "a.csv.gz is damaged .* download or compress it again"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_in_one_line(name: str, content: str | None, words: str) -> None:
    if content is not None:
        Path(name).write_text(content, errors="surrogateescape")
    with pytest.raises(UserError, match=words) as error:
        InteractionFile(name, FIELDS).divide(Path("parts"), 2)
    assert "\n" not in str(error.value)
    assert not Path("parts").exists() or "no interactions" in str(error.value)


def test_an_id_that_is_no_text_is_refused_in_one_line() -> None:
    broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"i\xff0"]).buffers())
    table = pa.table({"user": ["u"], "item": broken, "time": [1.0]})
    parquet.write_table(table, "a.parquet")
    with pytest.raises(UserError, match=r"a\.parquet cannot be read: .*UTF8") as error:
        InteractionFile("a.parquet", FIELDS).divide(Path("parts"), 2)
    assert "\n" not in str(error.value)


def test_a_folder_without_files_is_refused() -> None:
    Path("a").mkdir()
    with pytest.raises(UserError, match=r"--input=a: the folder holds no \.parquet file"):
        InteractionFile("a", FIELDS)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_of_a_text_is_found_by_the_columns_that_are_looked_for(separator: str) -> None:
    rows = ["kunde,artikel,zeit", "a,NA,1", '"b",0012,2']
    Path("log.csv").write_text("\n".join(rows).replace(",", separator) + "\n")
    (table,) = InteractionFile("log.csv", ("kunde", "artikel", "zeit")).tables()
    assert table.to_pylist() == [
        {"kunde": "a", "artikel": "NA", "zeit": "1"},
        {"kunde": "b", "artikel": "0012", "zeit": "2"},
    ]


@pytest.mark.parametrize(
    "text",
    ['sku:token\tname:token_seq\n7\tA "big" one\n', 'sku;name\n7;"A ""big"" one"\n', 'sku,name\n7,"A ""big"" one"\n'],
    ids=["item", "semicolon", "comma"],
)
def test_what_items_are_is_read_from_an_item_file_and_from_csv(text: str) -> None:
    Path("items.txt").write_text(text)
    assert read_items("items.txt", "sku") == {"sku": ["7"], "name": ['A "big" one']}


def test_a_file_without_the_ids_of_items_is_refused_with_its_columns() -> None:
    Path("items.txt").write_text("a,b\n1,2\n")
    with pytest.raises(
        UserError, match=r"--items=items.txt has no column 'sku', the ids of items; it has \['a', 'b'\]"
    ):
        read_items("items.txt", "sku")


def test_what_training_reads_is_read_here_alike() -> None:
    texts = FRAME.astype({"time": int}).astype(str)
    lines = ["user,item,time", *(",".join(row) for row in texts.itertuples(index=False))]
    Path("spaces.csv").write_text("\n".join(line.replace(",", " , ") for line in lines))
    Path("wide.csv").write_text("\n".join(lines), "utf-16")
    Path("bom.csv").write_text("\n".join(lines), "utf-8-sig")
    Path("log.jsonl").write_text("\n".join(row.to_json() for _, row in texts.iterrows()))
    Path("a.inter").write_text("user:token\titem:token\ttime:float\n" + "\n".join(lines[1:]).replace(",", "\t"))
    for place, (user, rows) in enumerate(FRAME.groupby("user", sort=False)):
        folder = Path("folders") / f"user={user}" / f"part={place:03}"
        folder.mkdir(parents=True)
        rows.drop(columns="user").to_parquet(folder / "1.parquet")
    for name in ("spaces.csv", "wide.csv", "bom.csv", "log.jsonl", "a.inter", "folders"):
        read = pa.concat_tables(list(InteractionFile(name, FIELDS).tables())).to_pandas().astype({"time": float})
        assert sorted(read.itertuples(index=False, name=None)) == sorted(ROWS), name


def test_names_of_folders_are_texts_and_a_part_may_have_empty_columns() -> None:
    for name, items in (("007", [None, None]), ("08", ["1", "2"])):
        folder = Path("log") / f"user={name}"
        folder.mkdir(parents=True)
        kind = pa.null() if items[0] is None else pa.string()
        parquet.write_table(pa.table({"item": pa.array(items, kind), "time": [1.0, 2.0]}), folder / "1.parquet")
    (part,) = InteractionFile("log", FIELDS).divide(Path("parts"), 1)
    assert read_part(part).to_dict("list") == {"user": ["08", "08"], "item": ["1", "2"], "time": [1.0, 2.0]}


def test_rows_that_are_left_out_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(interactions, "getLogger", lambda name: SimpleNamespace(warning=said.append))
    Path("a.csv").write_text("item,user\n1,a\n,a\n2,\n3,b\n")
    list(InteractionFile("a.csv", FIELDS).tables())
    assert said == [
        "a.csv: there is no column 'time', so that the rows are taken in their order",
        "a.csv: 2 rows are left out, whose user or item is empty",
    ]


def test_quotes_of_an_atomic_file_are_signs_like_others() -> None:
    Path("a.inter").write_text('user:token\titem:token\tnote:token\na\t1\t"open\nb\t"2"\tx\nc\t3\tclose"\n')
    (table,) = InteractionFile("a.inter", FIELDS).tables()
    assert table.to_pydict() == {"user": ["a", "b", "c"], "item": ["1", '"2"', "3"]}


def test_a_list_of_items_may_have_one_time() -> None:
    parquet.write_table(pa.table({"user": ["a", "b"], "item": [["1", "2"], ["3"]], "time": [5, 6]}), "a.parquet")
    (table,) = InteractionFile("a.parquet", FIELDS).tables()
    assert table.to_pydict() == {"user": ["a", "a", "b"], "item": ["1", "2", "3"], "time": [5, 5, 6]}
