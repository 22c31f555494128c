"""Users, histories and targets of validation and test are RecBole's own, row by row; so are its counters."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.conftest import make_config, prepare

SPLITS = [
    {"LS": "valid_and_test"},
    {"LS": "valid_only"},
    {"LS": "test_only"},
    {"RS": [0.8, 0.1, 0.1]},
    {"RS": [0.5, 0.3, 0.2]},
    {"RS": [0.9, 0.1, 0.0]},
]
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


def both(options: dict[str, Any], split: dict[str, Any]) -> tuple[Any, Any]:
    arguments = {"split": split, "order": "TO", "group_by": "user", "mode": "full"}
    ours = prepare(make_config("BERT4Rec", eval_args=arguments, **options))
    stock = prepare(make_config("SASRec", eval_args=arguments, **options))
    return ours, stock


def assert_equal_rows(ours: Any, stock: Any) -> None:
    for part in (1, 2, 3):
        a, b = ours[part]._dataset, stock[part]._dataset
        assert len(a) == len(b)
        if len(a) == 0:
            continue
        rows, theirs = a[np.arange(len(a))], b[np.arange(len(b))]
        for field in ("user_id", "item_id", "timestamp", "item_id_list", "item_length"):
            assert torch.equal(rows[field], theirs[field]), field
        assert a.item_counter == b.item_counter
        assert a.user_counter == b.user_counter
        assert a.inter_num == b.inter_num
        assert a.avg_actions_of_users == b.avg_actions_of_users
        assert a.sparsity == b.sparsity
        assert str(a).split("Remain")[0] == str(b).split("Remain")[0]
        assert (a.inter_matrix("csr") != b.inter_matrix("csr")).nnz == 0


@pytest.mark.parametrize("split", [SPLITS[0], SPLITS[3]], ids=str)
def test_rows_of_ml_100k_equal_stock(split: dict[str, Any]) -> None:
    assert_equal_rows(*both({"MAX_ITEM_LIST_LENGTH": 20}, split))


@pytest.mark.parametrize("split", SPLITS, ids=str)
def test_rows_with_ties_duplicates_and_short_histories_equal_stock(split: dict[str, Any], write_inter: Any) -> None:
    draw = random.Random(5)
    rows = [
        (f"u{user}", f"i{draw.randrange(30)}", draw.randrange(6)) for user in range(40) for _ in range(1 + user % 9)
    ]
    draw.shuffle(rows)
    assert_equal_rows(*both({**write_inter(rows), "MAX_ITEM_LIST_LENGTH": 4}, split))


def test_rows_equal_stock_under_filters_and_duplicate_removal(write_inter: Any) -> None:
    draw = random.Random(6)
    rows = [(f"u{draw.randrange(30)}", f"i{draw.randrange(25)}", draw.randrange(50)) for _ in range(600)]
    filters = {
        "rm_dup_inter": "first",
        "user_inter_num_interval": "[5,inf)",
        "item_inter_num_interval": "[5,inf)",
        "val_interval": {"timestamp": "[3,inf)"},
    }
    assert_equal_rows(*both({**write_inter(rows), **filters}, {"LS": "valid_and_test"}))


@pytest.mark.skipif(not (SHARED / "lastfm").is_dir(), reason="the lastfm file is not beside this checkout")
def test_rows_of_lastfm_equal_stock(tmp_path: Path) -> None:
    (tmp_path / "lastfm").mkdir()
    with gzip.open(SHARED / "lastfm" / "lastfm.inter.gz") as packed:
        (tmp_path / "lastfm" / "lastfm.inter").write_bytes(packed.read())
    assert_equal_rows(*both({"dataset": "lastfm", "data_path": str(tmp_path)}, {"LS": "valid_and_test"}))


@pytest.mark.parametrize("mode", ["full", "uni20", "pop20"])
def test_evaluation_loaders_give_the_same_batches(mode: str, write_inter: Any) -> None:
    rows = [(f"u{u}", f"i{(u * 7 + t * 3) % 30}", t) for u in range(30) for t in range(4 + u % 5)]
    options = {**write_inter(rows), "eval_batch_size": 64}
    arguments = {"split": {"RS": [0.5, 0.25, 0.25]}, "order": "TO", "mode": mode}
    loaders = [prepare(make_config(model, eval_args=arguments, **options))[3] for model in ("BERT4Rec", "SASRec")]
    np.random.seed(0)
    ours = list(loaders[0])
    np.random.seed(0)
    stock = list(loaders[1])
    assert len(ours) == len(stock)
    for a, b in zip(ours, stock, strict=True):
        for field in ("user_id", "item_id", "item_id_list", "item_length"):
            assert torch.equal(a[0][field], b[0][field]), field
        for left, right in zip(a[1:], b[1:], strict=True):
            assert left is right is None or torch.equal(left, right)
