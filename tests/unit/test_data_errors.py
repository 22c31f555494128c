"""Every mistake in the data gets one clear line that says what, where and how to mend it."""

from __future__ import annotations

from typing import Any

import pytest

from recbole_bert4rec.errors import UserError
from tests.conftest import make_config, prepare

ROWS = [(f"u{u}", f"i{(u + t) % 9}", t) for u in range(9) for t in range(6)]


def error_of(options: dict[str, Any], **more: Any) -> str:
    with pytest.raises(UserError) as caught:
        prepare(make_config(**{**options, **more}))
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_missing_folder_names_what_lies_beside_it(write_inter: Any) -> None:
    message = error_of(write_inter(ROWS), dataset="toyy")
    assert "folder" in message
    assert "data/toyy does not exist" in message
    assert "holds toy." in message
    assert "--data_path" in message


def test_a_folder_without_the_inter_file_names_what_it_holds(write_inter: Any, tmp_path: Any) -> None:
    options = write_inter(ROWS)
    (tmp_path / "data" / "toy" / "toy.inter").rename(tmp_path / "data" / "toy" / "other.inter")
    assert "toy.inter does not exist (the folder holds other.inter)" in error_of(options)


@pytest.mark.parametrize("missing", ["user_id:token", "item_id:token", "timestamp:float"])
def test_a_missing_column_is_named_with_the_option_that_renames_it(write_inter: Any, missing: str) -> None:
    columns = [c for c in ("user_id:token", "item_id:token", "timestamp:float") if c != missing]
    message = error_of(write_inter([("a", "b")], header="\t".join(columns)))
    assert f"line 1: no column {missing.split(':')[0]!r}" in message
    assert "set --" in message
    assert str([c.split(":")[0] for c in columns]) in message


def test_a_column_of_the_wrong_type_is_named(write_inter: Any) -> None:
    message = error_of(write_inter(ROWS, header="user_id:token\titem_id:token\ttimestamp:token"))
    assert "column 'timestamp' must be timestamp:float, but is timestamp:token" in message


def test_a_header_without_types_is_explained(write_inter: Any) -> None:
    assert "column 'user_id' must be written NAME:TYPE" in error_of(write_inter(ROWS, header="user_id\titem_id\tts"))


def test_a_needed_column_that_load_col_leaves_out_is_named(write_inter: Any) -> None:
    message = error_of(write_inter(ROWS), load_col={"inter": ["user_id", "item_id"]}, RATING_FIELD="r")
    assert "load_col: inter must name 'timestamp' (TIME_FIELD) too, but names ['user_id', 'item_id']" in message
    assert "load_col: inter must name 'user_id'" in error_of(write_inter(ROWS), load_col={"item": ["item_id"]})


def test_an_empty_file_is_told_what_its_first_line_must_be(write_inter: Any) -> None:
    message = error_of(write_inter([], header=""))
    assert "toy.inter is empty" in message
    assert "user_id:token\\titem_id:token\\ttimestamp:float" in message


def test_a_file_without_interactions_is_refused(write_inter: Any) -> None:
    assert "has a header but no interactions" in error_of(write_inter([]))


def test_a_time_that_is_no_number_is_named_with_its_line(write_inter: Any) -> None:
    rows = [*ROWS[:3], ("u1", "i1", "yesterday"), *ROWS[3:], ("u1", "i2", "today")]
    message = error_of(write_inter(rows))
    assert "line 5: column 'timestamp' must be a number, but is 'yesterday' (2 such lines)" in message


def test_bytes_of_another_encoding_are_explained(write_inter: Any, tmp_path: Any) -> None:
    options = write_inter(ROWS)
    path = tmp_path / "data" / "toy" / "toy.inter"
    path.write_bytes(path.read_bytes().replace(b"i3", "é".encode("latin-1")))
    assert "cannot be decoded" in error_of(options)
    assert "name its --encoding" in error_of(options, encoding="nonsense")
    prepare(make_config(**options, encoding="latin-1", topk=[3], valid_metric="MRR@3"))


def test_a_wrong_value_in_another_file_is_not_blamed_on_the_inter_file(write_inter: Any, tmp_path: Any) -> None:
    options = write_inter(ROWS)
    (tmp_path / "data" / "toy" / "toy.item").write_text("item_id:token\tprice:float\ni1\tcheap\n")
    columns = {"inter": ["user_id", "item_id", "timestamp"], "item": ["item_id", "price"]}
    message = error_of(options, load_col=columns)
    assert "toy.inter" not in message
    assert "price" in message


def test_a_topk_beyond_the_catalogue_is_refused(write_inter: Any) -> None:
    assert "topk [10] is more than the 9 items of the catalogue" in error_of(write_inter(ROWS))


def test_histories_too_short_for_the_split_are_explained(write_inter: Any) -> None:
    rows = [(f"u{u}", f"i{2 * u + t}", t) for u in range(9) for t in range(2)]
    message = error_of(write_inter(rows))
    assert "the valid part is empty" in message
    assert "4 interactions or more" in message
    options = {**write_inter(rows), "eval_args": {"split": {"LS": "test_only"}, "order": "TO", "mode": "full"}}
    assert "the test part is empty" in error_of(options)


def test_one_interaction_a_user_leaves_nothing_to_train_on(write_inter: Any) -> None:
    assert "the train part is empty" in error_of(write_inter([(f"u{u}", f"i{u}", 1) for u in range(15)]))


@pytest.mark.parametrize(
    "arguments",
    [
        {"split": {"TS": [0.8, 0.1, 0.1]}, "group_by": "user"},
        {"split": {"RS": [0.8, 0.1, 0.1]}, "group_by": "none"},
        {"split": {"RS": [0.8, 0.1, 0.1]}, "group_by": None},
        {"split": {"LS": "valid_and_test"}, "order": "RO"},
    ],
)
def test_a_split_not_supported_yet_is_refused(write_inter: Any, arguments: dict[str, Any]) -> None:
    message = error_of(write_inter(ROWS), eval_args={"order": "TO", "mode": "full", **arguments})
    assert "is not supported by BERT4Rec yet; use split" in message


def test_pre_split_files_are_refused(write_inter: Any, tmp_path: Any) -> None:
    options = write_inter(ROWS)
    folder = tmp_path / "data" / "toy"
    for part in ("train", "valid", "test"):
        (folder / f"toy.{part}.inter").write_text("user_id:token\titem_id:token\ttimestamp:float\nu\ti\t1\n")
    assert "benchmark_filename is not supported" in error_of(options, benchmark_filename=["train", "valid", "test"])
