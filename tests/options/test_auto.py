"""Options that are `auto`: the rules, and when they are applied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recbole.data import create_dataset

from recbole_bert4rec.options.auto import RULES, LogSize, dropout, epochs, loss, negatives, rate, settle
from recbole_bert4rec.options.kinds import AUTO
from recbole_bert4rec.options.table import OPTIONS
from recbole_bert4rec.system.errors import UserError
from tests.helpers.data import benchmark_files
from tests.helpers.runs import make_config, prepare
from tests.helpers.small import ROWS, SMALL

COUNTS = st.integers(0, 10**9)
SHAPE = {"hidden_size": 64, "batch_sequences": None}
SMALL_BATCHES = {**SHAPE, "train_batch_size": 1000}


@given(COUNTS, COUNTS, COUNTS)
def test_every_log_gets_values_that_the_options_take(users: int, items: int, interactions: int) -> None:
    options = {**SHAPE, **dict.fromkeys(RULES, AUTO)}
    assert set(settle(options, LogSize(users, items, interactions))) == set(RULES)
    for name in RULES:
        assert options[name] != AUTO
        assert OPTIONS[name].kind.accepts(options[name])


@given(st.integers(1, 10**6), COUNTS, COUNTS)
def test_dropout_falls_on_both_sides_of_16_interactions_an_item(items: int, few: int, more: int) -> None:
    low, high = sorted((few, more))
    values = dropout({}, LogSize(9, items, low)), dropout({}, LogSize(9, items, high))
    assert all(0.1 <= value <= 0.5 for value in values)
    if low >= 16 * items:
        assert values[0] >= values[1]
    if high <= 16 * items:
        assert values[0] <= values[1]


def test_training_on_the_logs_that_the_rules_were_made_from() -> None:
    logs = {
        LogSize(40_226, 54_542, 353_962): (2, 1000, 0.001, 19, 0.4),  # beauty
        LogSize(19_412, 11_924, 167_597): (2, 1000, 0.001, 40, 0.5),  # toys-5core
        LogSize(22_363, 12_101, 198_502): (2, 1000, 0.001, 40, 0.5),  # beauty-5core
        LogSize(1_090, 3_646, 52_551): (2, 1000, 0.001, 40, 0.5),  # lastfm
        LogSize(943, 1_682, 100_000): (2, 1000, 0.001, 40, 0.4),  # ml-100k
        LogSize(6_040, 3_416, 999_611): (4, 2000, 0.002, 24, 0.25),  # ml-1m
        LogSize(400, 30, 3_360): (2, 1000, 0.001, 40, 0.3),  # too small for large batches
    }
    names = ("n_layers", "train_batch_size", "learning_rate", "epochs", "hidden_dropout_prob")
    for size, wanted in logs.items():
        options = {**SHAPE, **dict.fromkeys(RULES, AUTO)}
        settle(options, size)
        assert tuple(options[name] for name in names) == wanted


def test_only_large_batches_are_trained_at_twice_the_rate_and_in_fewer_epochs() -> None:
    dense, sparse = LogSize(9, 9, 10**5), LogSize(9, 9, 9 * 50)
    large = {**SHAPE, "train_batch_size": 2000}
    rates = [rate(asked, dense) for asked in (large, {**large, "hidden_size": 256}, SMALL_BATCHES)]
    assert rates == [0.002, 0.0008, 0.001]
    assert [epochs(large, dense), epochs(large, sparse), epochs(SMALL_BATCHES, dense)] == [24, 40, 40]
    by_users = {**large, "batch_sequences": 16}
    assert (rate(by_users, dense), epochs(by_users, dense)) == (0.001, 40)


def test_a_large_catalogue_is_sampled_by_popularity() -> None:
    small, large = LogSize(9, 10_000, 10**6), LogSize(9, 10_001, 10**6)
    assert (loss({}, small), loss({}, large)) == ("CE", "sampled_softmax")
    wanted = {"sampled_softmax": "popularity", "CE": "uniform", "BCE": "uniform", "gBCE": "uniform"}
    assert {name: negatives({"loss_type": name}, large) for name in wanted} == wanted


def test_what_the_user_gives_stays() -> None:
    chosen = {**dict.fromkeys(RULES, 0.5), "epochs": 3, "loss_type": "gBCE"}
    options = {**chosen, "negatives": AUTO}
    assert settle(options, LogSize(9, 9, 9)) == ("negatives",)
    assert options == {**chosen, "negatives": "uniform"}


def test_what_is_auto_is_settled_with_the_data(write_inter: Any) -> None:
    config = make_config("SASRecPlus", **{**SMALL, **write_inter(ROWS)})
    assert config["hidden_dropout_prob"] == config["loss_type"] == AUTO
    prepare(config)
    names = ("train_batch_size", "learning_rate", "epochs", "hidden_dropout_prob", "loss_type", "negatives")
    assert [config[name] for name in names] == [1000, 0.001, 30, 0.45, "CE", "uniform"]


def test_an_option_that_means_nothing_to_what_auto_became_is_named_once(
    write_inter: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING"):
        config = make_config("BERT4Rec", **{**SMALL, **write_inter(ROWS), "n_negatives": 5, "mask_ratio": 0.3})
        prepare(config)
        prepare(config)
    assert sum("`n_negatives`" in record.message for record in caplog.records) == 1


def test_what_does_not_go_with_the_loss_that_auto_became_is_refused(write_inter: Any) -> None:
    config = make_config("BERT4Rec", **{**SMALL, **write_inter(ROWS), "sparse_update": True})
    with pytest.raises(UserError, match="`sparse_update`"):
        prepare(config)


def test_of_a_log_every_line_counts_and_of_benchmark_files_the_longest_row_of_a_user(
    write_inter: Any, tmp_path: Path
) -> None:
    rows = ["u1\ti1\ti2", "u1\ti1 i2\ti3", "u2\ti2\ti1"]
    parts = {"train": rows, "valid": ["u1\ti1 i2 i3\ti4"], "test": ["u2\ti2 i1\ti5"]}
    options = benchmark_files(tmp_path, parts) | {"topk": [1], "metrics": ["MRR"], "valid_metric": "MRR@1"}
    for asked, wanted in ((write_inter(ROWS), len(ROWS)), (options, 4 + 3)):
        dataset = create_dataset(make_config("SASRecPlus", **asked))
        dataset.build()
        assert dataset.log_size.interactions == wanted
