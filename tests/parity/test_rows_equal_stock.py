"""Users, histories and targets of validation and test are RecBole's own, row by row; so are its counters."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.helpers.data import benchmark_files
from tests.helpers.runs import make_config, make_trainer, prepare

SPLITS = [
    {"LS": "valid_and_test"},
    {"LS": "valid_only"},
    {"LS": "test_only"},
    {"RS": [0.8, 0.1, 0.1]},
    {"RS": [0.5, 0.3, 0.2]},
    {"RS": [0.9, 0.1, 0.0]},
    {"TS": [0.8, 0.1, 0.1]},
    {"TS": [0.5, 0.25, 0.25]},
]
BY_USER_OR_NOT = [*((split, "user") for split in SPLITS), (SPLITS[3], "none"), (SPLITS[4], None)]


def both(options: dict[str, Any], split: dict[str, Any], group_by: str | None = "user") -> tuple[Any, Any]:
    arguments = {"split": split, "order": "TO", "group_by": group_by, "mode": "full"}
    options = {"MAX_ITEM_LIST_LENGTH": 50, **options}
    ours = prepare(make_config("BERT4Rec", eval_args=arguments, **options))
    stock = prepare(make_config("SASRec", eval_args=arguments, **options))
    return ours, stock


def assert_equal_rows(ours: Any, stock: Any, timed: bool = True) -> None:
    for part in (1, 2, 3):
        a, b = ours[part].dataset, stock[part].dataset
        assert len(a) == len(b)
        if len(a) == 0:
            continue
        rows, theirs = a[np.arange(len(a))], b[np.arange(len(b))]
        for field in ("user_id", "item_id", "item_id_list", "item_length", *["timestamp"][:timed]):
            assert torch.equal(rows[field], theirs[field]), field
        for name in ("item_counter", "user_counter", "inter_num", "avg_actions_of_users", "sparsity"):
            assert getattr(a, name) == getattr(b, name), name
        assert str(a).split("Remain")[0] == str(b).split("Remain")[0]
        assert (a.inter_matrix("csr") != b.inter_matrix("csr")).nnz == 0


@pytest.mark.slow
@pytest.mark.parametrize(("split", "group_by"), BY_USER_OR_NOT, ids=str)
def test_rows_of_ml_100k_equal_stock(split: dict[str, Any], group_by: str | None) -> None:
    assert_equal_rows(*both({"MAX_ITEM_LIST_LENGTH": 2}, split, group_by))


@pytest.mark.parametrize(("split", "group_by"), BY_USER_OR_NOT, ids=str)
def test_rows_with_ties_duplicates_and_short_histories_equal_stock(
    split: dict[str, Any], group_by: str | None, write_inter: Any
) -> None:
    draw = random.Random(5)
    rows = [(f"u{u}", f"i{draw.randrange(30)}", draw.randrange(60)) for u in range(40) for _ in range(1 + u % 9)]
    draw.shuffle(rows)
    assert_equal_rows(*both({**write_inter(rows), "MAX_ITEM_LIST_LENGTH": 4}, split, group_by))


def test_missing_values_filters_and_other_columns_equal_stock(write_inter: Any) -> None:
    draw = random.Random(9)
    rows = [
        (
            f"u{draw.randrange(30)}",  # where an item is missing elsewhere, RecBole drops other rows
            "NA" if draw.random() < 0.02 else f'i"{draw.randrange(25)}"',
            "" if draw.random() < 0.05 else draw.randrange(50) / 7,
            "" if draw.random() < 0.2 else draw.choice("abc"),
        )
        for _ in range(600)
    ]
    header = "user_id:token\titem_id:token\ttimestamp:float\tdevice:token"
    fields = {"inter": ["user_id", "item_id", "timestamp", "device"]}
    for extra in (
        {},
        {"unused_col": {"inter": ["timestamp"]}},
        {"rm_dup_inter": "last"},
        {"val_interval": {"device": ["a", "b"], "timestamp": "[0.5,inf)"}},
        {"rm_dup_inter": "first", "user_inter_num_interval": "[10,inf)", "item_inter_num_interval": "[5,18]"},
    ):
        options = {**write_inter(rows, header=header), "load_col": fields, **extra}
        ours, stock = both(options, {"LS": "valid_and_test"})
        assert_equal_rows(ours, stock, timed="unused_col" not in extra)
        for field in ("user_id", "item_id", "device"):
            assert ours[0].field2id_token[field].tolist() == stock[0].field2id_token[field].tolist()
            assert ours[0].field2token_id[field] == stock[0].field2token_id[field]
        part, theirs = ours[1].dataset.inter_feat, stock[1].dataset.inter_feat
        assert torch.equal(part["device"], theirs["device"])


def test_an_item_file_beside_the_interactions_leaves_the_same_ids(write_inter: Any, tmp_path: Path) -> None:
    rows = [(f"u{u}", f"i{(u * 7 + t * 3) % 30}", t) for u in range(20) for t in range(5)]
    options = write_inter(rows)
    lines = ["item_id:token\tclass:token_seq", *(f"i{i}\tc{i % 3} c{i % 5}" for i in range(35))]
    (tmp_path / "data" / "toy" / "toy.item").write_text("\n".join(lines) + "\n")
    columns = {"inter": ["user_id", "item_id", "timestamp"], "item": ["item_id", "class"]}
    ours, stock = both({**options, "load_col": columns}, {"LS": "valid_and_test"})
    assert_equal_rows(ours, stock)
    assert torch.equal(ours[0].item_feat["class"], stock[0].item_feat["class"])


def prefixes_of_users() -> dict[str, list[str]]:
    """Lines of prefixes with their targets, by part."""
    draw, lines = random.Random(8), {}
    for part in ("train", "valid", "test"):
        lists = [(u, [f"i{draw.randrange(20)}" for _ in range(n + 1)]) for u in range(12) for n in range(1, 2 + u % 5)]
        lines[part] = [f"u{user}\t{' '.join(items[:-1])}\t{items[-1]}" for user, items in lists]
    return lines


@pytest.mark.parametrize("item", ["item_id", "p_id"])
def test_rows_of_benchmark_files_equal_stock_and_their_column_of_items_may_have_any_name(
    item: str, tmp_path: Path
) -> None:
    stock = prepare(make_config("SASRec", **benchmark_files(tmp_path, prefixes_of_users())))
    config = make_config("BERT4Rec", epochs=1, hidden_size=16, **benchmark_files(tmp_path, prefixes_of_users(), item))
    ours = prepare(config)
    for part in (1, 2, 3):
        a, b = ours[part].dataset, stock[part].dataset
        rows, theirs = a[np.arange(len(a))], b[np.arange(len(b))]
        for field, wanted in (("user_id", "user_id"), (item, "item_id"), ("item_length", "item_length")):
            assert torch.equal(rows[field], theirs[wanted]), field
        width = theirs["item_id_list"].shape[1]
        assert torch.equal(rows[f"{item}_list"][:, :width], theirs["item_id_list"])
        assert not rows[f"{item}_list"][:, width:].any()
    prefixes: dict[int, list[list[int]]] = {}
    rows = stock[1].dataset[np.arange(len(stock[1].dataset))]
    columns = (rows[field].tolist() for field in ("user_id", "item_id_list", "item_length", "item_id"))
    for user, items, count, target in zip(*columns, strict=True):
        prefixes.setdefault(user, []).append([*items[:count], target])
    users, begin, length = ours[1].dataset.slices()
    for user, first, count in zip(users.tolist(), begin.tolist(), length.tolist(), strict=True):
        assert count == max(map(len, prefixes[user]))
        assert ours[1].dataset.sequences.items[first : first + count].tolist() in prefixes[user]
    score, _ = make_trainer(config, ours[1]).fit(*ours[1:3], verbose=False, saved=False)
    assert 0 <= score <= 1
