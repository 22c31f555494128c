"""Every mistake in the data gets one clear line that says what, where and how to mend it."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import pytest
from recbole.data import create_dataset

from recbole_bert4rec.system.errors import UserError
from tests.helpers.runs import make_config, prepare

ROWS = [(f"u{u}", f"i{(u + t) % 9}", t) for u in range(9) for t in range(6)]


def error_of(options: dict[str, Any], **more: Any) -> str:
    with pytest.raises(UserError) as caught:
        prepare(make_config(**{**options, **more}))
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_missing_folder_names_the_nearest_one(write_inter: Any) -> None:
    message = error_of(write_inter(ROWS), dataset="toyy")
    assert "folder" in message
    assert "data/toyy does not exist" in message
    assert "Did you mean --dataset=toy?" in message
    assert "--data_path" in message


def test_a_log_that_was_named_without_its_ending_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.csv").write_text("user_id,item_id,timestamp\n")
    Path("shop.7z").write_text("")
    assert "A log is named with its ending: --dataset=shop.csv." in error_of({"dataset": "shop"})


def test_a_misspelt_data_set_is_guessed(write_inter: Any) -> None:
    assert "Did you mean --dataset=ml-100k?" in error_of(write_inter(ROWS), dataset="ml-100")


def test_filters_that_leave_nothing_are_named(write_inter: Any) -> None:
    message = error_of(write_inter(ROWS), user_inter_num_interval="[99,inf)")
    assert message.startswith("the filters leave nothing of data set 'toy': {'user_inter_num_interval': '[99,inf)'")


@pytest.mark.parametrize("model", ["BERT4Rec", "SASRec"])
@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"timestamp": ["5"]}, "`val_interval: timestamp` must be intervals .* but is \\['5'\\]"),
        ({"timestamp": ["2024-04-01"]}, "2024-04-01 is 1711929600"),
        ({"item_id": ["i1", "i99"]}, None),
        (
            {"item_id": ["i99"]},
            "`val_interval: item_id` wants \\['i99'\\], which no row has; its values are texts: .*'i0'",
        ),
        ({"item_id": "[1,3]"}, "`val_interval: item_id` must be a list such as"),
        ({"price": "[1,3]"}, "`val_interval: price`: `load_col` loads no such column, but \\['user_id', 'item_id'"),
        ({"item_id": [1]}, "wants \\[1\\], which no row has; its values are texts: \\['i0'"),
    ],
)
def test_a_filter_by_value_that_means_nothing_is_refused(
    model: str, wanted: dict[str, Any], words: str | None, write_inter: Any, caplog: pytest.LogCaptureFixture
) -> None:
    options = {**write_inter(ROWS), "state": "warning", "model": model, "val_interval": wanted}
    if words is not None:
        assert re.search(words, error_of(options))
    else:
        create_dataset(make_config(**options))
        assert "wants ['i99'], which no row has" in caplog.text


def test_a_filter_of_a_column_that_is_not_there_is_not_blamed_on_the_data(write_inter: Any) -> None:
    with pytest.raises(ValueError, match="foo"):
        prepare(make_config(**write_inter(ROWS), val_interval={"foo": "[1,3]"}))


def test_interactions_that_the_item_file_drops_are_counted(write_inter: Any, tmp_path: Any, caplog: Any) -> None:
    options = write_inter(ROWS)
    lines = ["item_id:token\tclass:token", *(f"i{i}\ta" for i in range(8))]
    (tmp_path / "data" / "toy" / "toy.item").write_text("\n".join(lines) + "\n")
    columns = {"inter": ["user_id", "item_id", "timestamp"], "item": ["item_id", "class"]}
    with caplog.at_level("WARNING"):
        prepare(make_config(**options, load_col=columns, topk=[3], valid_metric="MRR@3"))
    assert "6 interactions are left out: their user or item is not in the .user or .item file" in caplog.text


def test_an_item_file_of_which_no_item_is_in_the_interactions_is_refused_with_an_example_of_each_side(
    write_inter: Any, tmp_path: Any
) -> None:
    options = write_inter(ROWS)
    lines = ["item_id:token\tclass:token", *(f"{i}.0\ta" for i in range(8))]
    (tmp_path / "data" / "toy" / "toy.item").write_text("\n".join(lines) + "\n")
    columns = {"inter": ["user_id", "item_id", "timestamp"], "item": ["item_id", "class"]}
    with pytest.raises(UserError, match=r"toy.item has no row for any item_id .*such as 'i\d+', but for such as '0.0'"):
        prepare(make_config(**options, load_col=columns))


def test_labels_that_are_not_loaded_are_asked_for(write_inter: Any) -> None:
    options = {"eval_args": {"mode": "labeled"}, "metrics": ["AUC"], "valid_metric": "AUC"}
    assert "mode labeled needs a column 'label' (LABEL_FIELD)" in error_of(write_inter(ROWS), **options)


def test_a_byte_order_mark_is_named_and_its_encoding_helps(write_inter: Any, tmp_path: Any) -> None:
    options = write_inter(ROWS)
    path = tmp_path / "data" / "toy" / "toy.inter"
    path.write_text(path.read_text(), encoding="utf-8-sig")
    assert "begins with a byte order mark" in error_of(options)
    dataset = prepare(make_config(**options, encoding="utf-8-sig", topk=[3], valid_metric="MRR@3"))[0]
    assert dataset.inter_num == len(ROWS) - 9  # a user's first interaction is no row


def test_a_quote_is_a_sign_like_others_and_swallows_no_rows(write_inter: Any) -> None:
    rows = [*ROWS, ('"u1', "i3", 7), ("u2", "i4", 8)]
    dataset, *_ = prepare(make_config(**write_inter(rows), topk=[3], valid_metric="MRR@3"))
    assert '"u1' in dataset.field2id_token["user_id"]
    assert dataset.user_num == 1 + len({user for user, _, _ in rows})


def test_interactions_without_a_time_are_counted(write_inter: Any, caplog: Any) -> None:
    with caplog.at_level("WARNING"):
        prepare(make_config(**write_inter([*ROWS, ("u1", "i1", "")]), topk=[3], valid_metric="MRR@3"))
    assert "1 interactions have no timestamp; RecBole gives them the mean time" in caplog.text


def test_candidates_that_a_user_has_not_left_are_refused_before_training(write_inter: Any) -> None:
    options = {**write_inter(ROWS), "topk": [3], "valid_metric": "MRR@3", "candidates": "paper"}
    message = error_of(options, eval_args={"mode": "uni7"})
    assert "cannot draw 7 candidates: a user has only 3 items left" in message


def test_candidates_without_effect_are_told(write_inter: Any, caplog: Any) -> None:
    with caplog.at_level("WARNING"):
        prepare(make_config(**write_inter(ROWS), topk=[3], valid_metric="MRR@3", candidates="paper"))
    assert "candidates: paper has no effect on valid: its mode draws no candidates" in caplog.text


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
    assert "column 'timestamp' must be timestamp:float, but is 'timestamp:token'" in message


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
    assert "line 5: column 'timestamp' must be a number, but is 'yesterday'" in message


def test_bytes_of_another_encoding_are_explained(write_inter: Any, tmp_path: Any) -> None:
    options = write_inter(ROWS)
    path = tmp_path / "data" / "toy" / "toy.inter"
    path.write_bytes(path.read_bytes().replace(b"i3", "é".encode("latin-1")))
    assert "cannot be decoded" in error_of(options)
    assert "name its encoding with --encoding" in error_of(options, encoding="nonsense")
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


def test_an_order_that_is_not_by_time_is_refused(write_inter: Any) -> None:
    arguments = {"split": {"LS": "valid_and_test"}, "order": "RO", "mode": "full"}
    assert "order must be TO for a sequential model" in error_of(write_inter(ROWS), eval_args=arguments)


def test_an_unknown_split_is_refused(write_inter: Any) -> None:
    arguments = {"split": {"KF": 5}, "order": "TO", "mode": "full"}
    assert "split {'KF': 5} with group_by 'user' is not known" in error_of(write_inter(ROWS), eval_args=arguments)


@pytest.mark.parametrize(
    ("files", "header", "more", "wanted"),
    [
        (["train", "valid"], "user_id:token", {}, "must name three files"),
        (["final", "valid", "test"], "user_id:token", {}, "toy.final.inter does not exist"),
        (["train", "valid", "test"], "user_id:token\titem_id:token", {}, "need a column item_id_list:token_seq"),
        (
            ["train", "valid", "test"],
            "user_id:token\titem_id_list:token_seq\titem_id:token",
            {},
            "need alias_of_item_id: [item_id_list]",
        ),
    ],
)
def test_benchmark_files_without_histories_are_refused(
    files: list[str], header: str, more: dict[str, Any], wanted: str, write_inter: Any, tmp_path: Any
) -> None:
    options = write_inter(ROWS)
    for part in ("train", "valid", "test"):
        (tmp_path / "data" / "toy" / f"toy.{part}.inter").write_text(f"{header}\nu\ti\tj\n")
    assert wanted in error_of(options, benchmark_filename=files, **more)


def test_a_column_named_twice_is_refused(write_inter: Any) -> None:
    rows = [(*row, row[0]) for row in ROWS]
    header = "user_id:token\titem_id:token\ttimestamp:float\tuser_id:token"
    message = error_of(write_inter(rows, header=header))
    assert "line 1: two columns have the same name: ['user_id', 'item_id', 'timestamp', 'user_id']" in message


def test_lines_with_another_separator_are_named(write_inter: Any) -> None:
    options = write_inter([*ROWS, ("u1,i1,7",), ("u2,i2,8",)])
    message = error_of(options)
    assert f"toy.inter, line {len(ROWS) + 2}: the number of columns is 1, but the header has 3" in message
    assert "separated by '\\t': 'u1,i1,7'" in message


def test_a_word_for_a_number_is_named_though_other_lines_are_too_long(write_inter: Any) -> None:
    message = error_of(write_inter([*ROWS[:3], ("u1", "i1", 5, "more"), *ROWS[3:], ("u1", "i2", "today")]))
    assert f"toy.inter, line {len(ROWS) + 3}: column 'timestamp' must be a number, but is 'today'" in message


def test_blank_lines_count_in_the_number_of_the_line(write_inter: Any) -> None:
    message = error_of(write_inter([*ROWS[:3], ("",), ("",), ("u1", "i1", "yesterday"), *ROWS[3:]]))
    assert "line 7: column 'timestamp' must be a number, but is 'yesterday'" in message


def test_a_separator_of_two_characters_has_its_lines_named_too(write_inter: Any) -> None:
    rows = ["::".join(map(str, row)) for row in [*ROWS[:3], ("u1", "i1", "yesterday"), *ROWS[3:]]]
    options = write_inter([(row,) for row in rows], header="user_id:token::item_id:token::timestamp:float")
    message = error_of(options, field_separator="::")
    assert "line 5: column 'timestamp' must be a number, but is 'yesterday'" in message


def packed(write_inter: Any, tmp_path: Any, cut: int | None = None) -> dict[str, Any]:
    """The toy data as .inter.gz, cut off after ``cut`` bytes."""
    options = write_inter([(user, item, time * 7) for user, item, time in ROWS] * 20)
    plain = tmp_path / "data" / "toy" / "toy.inter"
    (plain.parent / "toy.inter.gz").write_bytes(gzip.compress(plain.read_bytes())[:cut])
    plain.unlink()
    return options


def test_a_truncated_archive_is_named(write_inter: Any, tmp_path: Any) -> None:
    for cut in (60, 8, 200):
        message = error_of(packed(write_inter, tmp_path, cut))
        assert "toy.inter.gz is damaged" in message


@pytest.mark.parametrize("model", ["BERT4Rec", "GRU4Rec", "Pop"])
def test_an_archive_is_read_like_the_file_in_it(model: str, write_inter: Any, tmp_path: Any) -> None:
    columns = {"inter": ["user_id", "item_id", "timestamp"]}
    options = {"load_col": columns, "topk": [3], "valid_metric": "MRR@3"}
    rows = [(user, item, time * 7) for user, item, time in ROWS] * 20
    plain = prepare(make_config(model, **write_inter(rows), **options))[0]
    assert str(prepare(make_config(model, **packed(write_inter, tmp_path), **options))[0]) == str(plain)
    assert not (tmp_path / "data" / "toy" / "toy.inter").exists()


def test_a_mistake_in_an_archive_names_the_archive(write_inter: Any, tmp_path: Any) -> None:
    write_inter([*ROWS, ("u1,i1,7",)])
    plain = tmp_path / "data" / "toy" / "toy.inter"
    (plain.parent / "toy.inter.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    message = error_of({"dataset": "toy", "data_path": str(tmp_path / "data")})
    assert message.startswith(f"{plain}.gz, line {len(ROWS) + 2}: the number of columns is 1, but the header has 3")


def test_rows_without_a_user_or_an_item_are_left_out_with_a_warning(write_inter: Any, caplog: Any) -> None:
    holes = [("", "i1", 3), ("nan", "i2", 4), ("u1", "", 5), ("u2", "NULL", 6)]
    with caplog.at_level("WARNING"):
        dataset = prepare(make_config(**{**write_inter([*ROWS, *holes]), "topk": [3], "valid_metric": "MRR@3"}))[0]
    assert len(dataset.sequences.items) == len(ROWS)
    assert "user_id do not exist, so they will be removed" in caplog.text


def test_negative_times_come_first(write_inter: Any) -> None:
    rows = [(user, item, time - 3) for user, item, time in ROWS]
    dataset = prepare(make_config(**{**write_inter(rows[::-1]), "topk": [3], "valid_metric": "MRR@3"}))[0]
    first = dataset.id2token("item_id", dataset.sequences.items[dataset.sequences.offsets[1]])
    user = dataset.id2token("user_id", 1)
    assert first == next(item for who, item, time in rows if who == user and time == -3)


def test_a_user_with_one_item_is_neither_trained_on_nor_evaluated(write_inter: Any) -> None:
    rows = [*ROWS, ("lonely", "i1", 3)]
    dataset, train, valid, test = prepare(make_config(**{**write_inter(rows), "topk": [3], "valid_metric": "MRR@3"}))
    lonely = dataset.token2id("user_id", "lonely")
    assert lonely not in train.users
    assert lonely not in valid.dataset.inter_feat["user_id"]
    assert lonely not in test.dataset.inter_feat["user_id"]
    assert lonely in dataset.full_sequence_of_user[0]


def test_targets_that_training_never_saw_are_evaluated_and_counted_once(write_inter: Any, caplog: Any) -> None:
    rows = [*ROWS, ("u1", "new", 99), ("u2", "newer", 99)]
    with caplog.at_level("WARNING"):
        test = prepare(make_config(**{**write_inter(rows), "topk": [3], "valid_metric": "MRR@3"}))[3]
    assert len(test.dataset) == 9
    assert caplog.text.count("2 of 9 test targets are items that no training sequence holds") == 1


def test_times_that_float32_merges_are_counted_and_exact_time_orders_them(write_inter: Any, caplog: Any) -> None:
    begin = 1_700_000_000  # float32 knows only every 128th second here
    rows = [(f"u{u}", f"i{(u + t) % 9}", begin + t) for u in range(9) for t in range(6)][::-1]
    options = {**write_inter(rows), "topk": [3], "valid_metric": "MRR@3"}
    with caplog.at_level("WARNING"):
        merged = prepare(make_config(**options))[0]
    assert "45 interactions of 9 users have a time that RecBole's float32 cannot tell" in caplog.text
    caplog.clear()
    with caplog.at_level("WARNING"):
        exact = prepare(make_config(**options, exact_time=True))[0]
    assert "float32" not in caplog.text
    user = exact.token2id("user_id", "u4")
    for dataset, wanted in ((exact, [4, 5, 6, 7, 8, 0]), (merged, [0, 8, 7, 6, 5, 4])):
        items = dataset.sequences.items[dataset.sequences.offsets[user] : dataset.sequences.offsets[user + 1]]
        assert dataset.id2token("item_id", items.long()).tolist() == [f"i{i}" for i in wanted]


def test_a_known_data_set_that_is_not_there_names_the_file_with_its_source(tmp_path: Path) -> None:
    message = error_of({"dataset": "beauty", "data_path": str(tmp_path)})
    assert "beauty.yaml says where it comes from. Put NAME.inter into DATA_PATH/NAME/" in message
