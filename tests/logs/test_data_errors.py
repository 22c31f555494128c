"""Every mistake in the data gets one line that names the file, the line or the option; what is left out is counted."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import pytest

from recbole_bert4rec.system.errors import UserError
from tests.helpers.runs import make_config, prepare

ROWS = [(f"u{u}", f"i{(u + t) % 9}", t) for u in range(9) for t in range(6)]
SHORT = [(f"u{u}", f"i{2 * u + t}", t) for u in range(9) for t in range(2)]
HEADER = "user_id:token\titem_id:token\ttimestamp:float"
THREE = {"topk": [3], "valid_metric": "MRR@3"}
WRONG = ("u1", "i1", "yesterday")


def error_of(options: dict[str, Any], **more: Any) -> str:
    with pytest.raises(UserError) as caught:
        prepare(make_config(**{**options, **more}))
    message = str(caught.value)
    assert "\n" not in message
    return message


def evaluated(**arguments: Any) -> dict[str, Any]:
    return {"eval_args": {"order": "TO", "mode": "full", **arguments}}


MISTAKES: list[tuple[list[tuple[Any, ...]], str, dict[str, Any], str]] = [
    # the folder and the header
    (ROWS, HEADER, {"dataset": "toyy"}, r"data/toyy .*--dataset=toy\?.*--data_path"),
    (ROWS, HEADER, {"dataset": "ml-100"}, r"--dataset=ml-100k\?"),
    (ROWS, HEADER, {"dataset": "beauty"}, r"beauty\.yaml"),
    ([], "", {}, r"toy\.inter, line 1: .*item_id:token"),
    ([], HEADER, {}, r"toy\.inter"),
    (
        [("a", "b")],
        "user_id:token\ttimestamp:float",
        {},
        r"line 1: .*'item_id:token' \(ITEM_ID_FIELD\).*timestamp",
    ),
    ([("a", "b")], "user_id:token\titem_id:token", {}, r"line 1: .*'timestamp:float' \(TIME_FIELD\).*'item_id:token'"),
    (ROWS, HEADER.replace("float", "token"), {}, "line 1: .*timestamp:float.*timestamp:token"),
    (ROWS, "user_id\titem_id\tts", {}, "line 1: .*'user_id'.*NAME:TYPE"),
    ([(*row, row[0]) for row in ROWS], f"{HEADER}\tuser_id:token", {}, "line 1: .*user_id.*timestamp.*user_id"),
    (ROWS, HEADER, {"load_col": {"inter": ["user_id", "item_id"]}, "RATING_FIELD": "r"}, "load_col.*'timestamp'"),
    (ROWS, HEADER, {"load_col": {"item": ["item_id"]}}, "load_col.*'user_id'"),
    (ROWS, HEADER, {"encoding": "nonsense"}, "--encoding=nonsense"),
    # rows
    ([*ROWS[:3], WRONG, *ROWS[3:], ("u1", "i2", "today")], HEADER, {}, "line 5: .*'timestamp'.*'yesterday'"),
    ([*ROWS, ("u1,i1,7",), ("u2,i2,8",)], HEADER, {}, rf"line {len(ROWS) + 2}: .* 1, .* 3, .*'\\t': 'u1,i1,7'"),
    ([("u1", "i1", 5, "more"), *ROWS, ("u1", "i2", "today")], HEADER, {}, "line 2: .* 4, .* 3"),
    ([*ROWS[:3], ("",), ("",), WRONG, *ROWS[3:]], HEADER, {}, "line 7: .*'yesterday'"),
    (
        [("::".join(map(str, row)),) for row in [*ROWS[:3], WRONG, *ROWS[3:]]],
        HEADER.replace("\t", "::"),
        {"field_separator": "::"},
        "line 5: .*'yesterday'",
    ),
    # what is asked of them
    (ROWS, HEADER, {"topk": [10]}, r"\[10\].* 9 items"),
    (ROWS, HEADER, {"user_inter_num_interval": "[99,inf)"}, "'toy': {'user_inter_num_interval'"),
    (ROWS, HEADER, {"val_interval": {"timestamp": ["2024-04-01"]}}, "`val_interval: timestamp` .*1711929600"),
    (ROWS, HEADER, {"val_interval": {"item_id": ["i99"]}}, r"`val_interval: item_id` .*\['i99'\].*'i0'"),
    (ROWS, HEADER, {"val_interval": {"item_id": "[1,3]"}}, "`val_interval: item_id`"),
    (ROWS, HEADER, {"val_interval": {"price": "[1,3]"}}, "`val_interval: price`.*'user_id', 'item_id'"),
    (ROWS, HEADER, {"val_interval": {"item_id": [1]}, "model": "SASRec"}, r"\[1\].*'i0'"),
    (ROWS, HEADER, {**evaluated(mode="labeled"), "metrics": ["AUC"], "valid_metric": "AUC"}, "'label'"),
    (ROWS, HEADER, {**evaluated(mode="uni7"), **THREE, "candidates": "paper"}, " 7 candidates.* 3 items"),
    (ROWS, HEADER, evaluated(split={"LS": "valid_and_test"}, order="RO"), "order must be TO"),
    (ROWS, HEADER, evaluated(split={"RS": [8, 1, 1]}, group_by="item"), "group_by 'item'"),
    (SHORT, HEADER, {}, "valid part .* 4 interactions"),
    (SHORT, HEADER, evaluated(split={"LS": "test_only"}), "test part"),
    ([(f"u{u}", f"i{u}", 1) for u in range(15)], HEADER, {}, "train part"),
]


@pytest.mark.parametrize(("rows", "header", "options", "named"), MISTAKES, ids=[mistake[-1] for mistake in MISTAKES])
def test_a_mistake_is_refused_in_one_line_that_names_it(
    rows: list[tuple[Any, ...]], header: str, options: dict[str, Any], named: str, write_inter: Any
) -> None:
    assert re.search(named, error_of(write_inter(rows, header=header), **options))


def test_a_file_that_is_not_there_and_a_log_that_was_named_without_its_ending_are_named(write_inter: Any) -> None:
    Path("shop.csv").write_text("user_id,item_id,timestamp\n")
    Path("shop.7z").write_text("")
    assert "--dataset=shop.csv" in error_of({"dataset": "shop"})
    options = write_inter(ROWS)
    Path("data/toy/toy.inter").rename("data/toy/other.inter")
    assert "toy.inter" in error_of(options)


@pytest.mark.parametrize(("encoding", "named"), [("utf-8-sig", "--encoding=utf-8-sig"), ("latin-1", "toy.inter")])
def test_another_encoding_is_refused_and_read_if_it_is_named(
    encoding: str, named: str, write_inter: Any, tmp_path: Path
) -> None:
    options = write_inter(ROWS)
    path = tmp_path / "data" / "toy" / "toy.inter"
    path.write_text(path.read_text().replace("i3", "é"), encoding=encoding)
    assert named in error_of(options)
    dataset = prepare(make_config(**options, encoding=encoding, **THREE))[0]
    assert dataset.inter_num == len(ROWS) - 9  # a user's first interaction is no row
    assert "é" in dataset.field2token_id["item_id"]


def with_items(write_inter: Any, tmp_path: Path, *lines: str) -> dict[str, Any]:
    """Options that load the rows and a file of items."""
    options = write_inter(ROWS)
    (tmp_path / "data" / "toy" / "toy.item").write_text("\n".join(lines) + "\n")
    columns = [line.partition(":")[0] for line in lines[0].split("\t")]
    return {**options, "load_col": {"inter": ["user_id", "item_id", "timestamp"], "item": columns}}


def test_a_mistake_in_a_file_of_items_is_not_blamed_on_the_inter_file(write_inter: Any, tmp_path: Path) -> None:
    message = error_of(with_items(write_inter, tmp_path, "item_id:token\tprice:float", "i1\tcheap"))
    assert "toy.item, line 2: column 'price' must be a number, but is 'cheap'" in message
    options = with_items(write_inter, tmp_path, "item_id:token\tclass:token", *(f"{i}.0\ta" for i in range(8)))
    assert "filter_inter_by_user_or_item" in error_of(options)


@pytest.mark.parametrize(
    ("more", "items", "said"),
    [
        ([], range(8), "6 interactions are left out"),
        ([("u1", "i1", "")], range(9), "1 interactions have no timestamp"),
        ([("u1", "new", 99), ("u2", "newer", 99)], [*range(9), "new", "newer"], "2 of 9 test targets"),
    ],
)
def test_what_is_left_out_or_made_up_is_counted_once(
    more: list[tuple[Any, ...]], items: Any, said: str, write_inter: Any, tmp_path: Path, caplog: Any
) -> None:
    lines = [f"{item if isinstance(item, str) else f'i{item}'}\ta" for item in items]
    options = with_items(write_inter, tmp_path, "item_id:token\tclass:token", *lines)
    write_inter([*ROWS, *more])
    with caplog.at_level("WARNING"):
        test = prepare(make_config(**options, **THREE))[3]
    assert caplog.text.count(said) == 1
    assert len(test.dataset) == 9


@pytest.mark.parametrize(
    ("files", "header", "named"),
    [
        (["train", "valid"], "user_id:token", "benchmark_filename"),
        (["final", "valid", "test"], "user_id:token", "toy.final.inter"),
        (["train", "valid", "test"], "user_id:token\titem_id:token", "item_id_list:token_seq"),
        (["train", "valid", "test"], "user_id:token\titem_id_list:token_seq\titem_id:token", "alias_of_item_id"),
    ],
)
def test_benchmark_files_without_histories_are_refused(
    files: list[str], header: str, named: str, write_inter: Any, tmp_path: Path
) -> None:
    options = write_inter(ROWS)
    for part in ("train", "valid", "test"):
        (tmp_path / "data" / "toy" / f"toy.{part}.inter").write_text(f"{header}\nu\ti\tj\n")
    assert named in error_of(options, benchmark_filename=files)


def packed(write_inter: Any, tmp_path: Path, rows: list[tuple[Any, ...]], cut: int | None = None) -> dict[str, Any]:
    """The rows as .inter.gz, cut off after ``cut`` bytes."""
    options = write_inter(rows)
    plain = tmp_path / "data" / "toy" / "toy.inter"
    (plain.parent / "toy.inter.gz").write_bytes(gzip.compress(plain.read_bytes())[:cut])
    plain.unlink()
    return options


LONG = [(user, item, time * 7) for user, item, time in ROWS] * 20


def test_a_mistake_in_an_archive_names_the_archive(write_inter: Any, tmp_path: Path) -> None:
    for cut in (60, 8, 200):
        assert "toy.inter.gz" in error_of(packed(write_inter, tmp_path, LONG, cut))
    message = error_of(packed(write_inter, tmp_path, [*ROWS, ("u1,i1,7",)]))
    assert f"toy.inter.gz, line {len(ROWS) + 2}: " in message


@pytest.mark.parametrize("model", ["BERT4Rec", "GRU4Rec", "Pop"])
def test_an_archive_is_read_like_the_file_in_it(model: str, write_inter: Any, tmp_path: Path) -> None:
    options = {"load_col": {"inter": ["user_id", "item_id", "timestamp"]}, **THREE}
    plain = prepare(make_config(model, **write_inter(LONG), **options))[0]
    assert str(prepare(make_config(model, **packed(write_inter, tmp_path, LONG), **options))[0]) == str(plain)
    assert not (tmp_path / "data" / "toy" / "toy.inter").exists()


def test_rows_without_a_user_or_an_item_are_left_out_and_negative_times_come_first(write_inter: Any) -> None:
    rows = [(user, item, time - 3) for user, item, time in ROWS]
    holes = [("", "i1", 3), ("nan", "i2", 4), ("u1", "", 5), ("u2", "NULL", 6)]
    dataset = prepare(make_config(**{**write_inter([*rows[::-1], *holes]), **THREE}))[0]
    assert len(dataset.sequences.items) == len(ROWS)
    firsts = dataset.id2token("item_id", dataset.sequences.items[dataset.sequences.offsets[1:-1]])
    users = dataset.id2token("user_id", range(1, dataset.user_num))
    assert {*zip(users, firsts, strict=True)} == {(user, item) for user, item, time in rows if time == -3}


@pytest.mark.parametrize("model", ["BERT4Rec", "SASRec"])
def test_quotes_of_an_atomic_file_swallow_no_rows(model: str, write_inter: Any) -> None:
    notes = {5: '"Best', 9: 'ever"', 20: '"'}
    rows = [(*row, notes.get(n, "good")) for n, row in enumerate(ROWS)]
    config = make_config(model, **THREE, **write_inter(rows, header=f"{HEADER}\tsummary:token"))
    _, train, *_ = prepare(config)
    assert config["load_col"] is None or "summary" not in config["load_col"]["inter"]
    assert (train.dataset.user_num, train.dataset.item_num) == (10, 10)


def test_times_that_float32_merges_are_counted_and_exact_time_orders_them(write_inter: Any, caplog: Any) -> None:
    begin = 1_700_000_000  # float32 knows only every 128th second here
    options = {**write_inter([(user, item, begin + time) for user, item, time in ROWS][::-1]), **THREE}
    for exact, wanted in ((False, [0, 8, 7, 6, 5, 4]), (True, [4, 5, 6, 7, 8, 0])):
        caplog.clear()
        with caplog.at_level("WARNING"):
            dataset = prepare(make_config(**options, exact_time=exact))[0]
        assert ("45 interactions of 9 users" in caplog.text) != exact
        assert ("float32" in caplog.text) != exact
        user = dataset.token2id("user_id", "u4")
        items = dataset.sequences.items[dataset.sequences.offsets[user] : dataset.sequences.offsets[user + 1]]
        assert dataset.id2token("item_id", items.long()).tolist() == [f"i{i}" for i in wanted]
