"""The table of options: each bad value is named, all at once, and every list that follows from it is right."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
import torch
import yaml

from recbole_bert4rec.core.transformer import ACTIVATIONS, EncoderOptions
from recbole_bert4rec.options.checks import known_to_recbole, mistakes_of_options
from recbole_bert4rec.options.table import (
    FIXED_ON_RESUME,
    FOLLOWED_BY_ALL,
    OPTIONS,
    OURS_ONLY,
    PROTOCOL,
    RECBOLES,
    SHAPES_DATA,
    default,
)
from recbole_bert4rec.plugin.config import Layers, PluginConfig
from recbole_bert4rec.system.environment import shipped
from recbole_bert4rec.system.errors import UserError
from tests.helpers.runs import QUIET, make_config

DEFAULTS: dict[str, Any] = {**make_config().final_config_dict}

BAD_VALUES: list[tuple[Any, str]] = [
    (0, "hidden_size inner_size layer_norm_eps bias_init dupe_factor n_negatives output_projection batch_sequences"),
    (0, "prop_sliding_window valid_users train_batch_size learning_rate"),
    (1, "drop_duplicates in_order sparse_update enable_amp MAX_ITEM_LIST_LENGTH"),
    (-1, "initializer_range warmup_steps worker stopping_step seed epochs"),
    (-0.1, "attn_dropout_prob mask_keep_share weight_decay logit_adjustment"),
    (1.0, "hidden_dropout_prob"),
    (1.1, "mask_random_share gbce_t prefix_share mask_ratio ft_ratio"),
    (float("nan"), "mask_ratio"),
    (float("inf"), "learning_rate"),
    (0.5, "eval_step"),
    (3, "item_vectors"),
    (5, "clip_grad_norm"),
    ({"max_norm": 1.0, "other": 2}, "clip_grad_norm"),
    (["dropout"], "ablate"),
    (True, "n_layers refit"),
    (None, "eval_batch_size"),
    ("other", "n_heads hidden_act value_init position norm objective training_rows mask_count loss_type negatives"),
    ("other", "seen_bias memory loss_mean window exact_time candidates selected_features lr_schedule exclude_seen"),
    ("other", "allow_unknown transform keep_histories trust_pickles learner"),
]
"""Values, and the options that take none of such."""
BAD_PAIRS = [(name, value) for value, names in BAD_VALUES for name in names.split()]


@pytest.mark.parametrize(("key", "value"), BAD_PAIRS)
def test_a_bad_value_is_named_with_its_option(key: str, value: Any) -> None:
    (mistake,) = mistakes_of_options({**DEFAULTS, key: value}, (), {})
    assert f"`{key}`" in mistake
    assert f"is {value!r}" in mistake


def test_a_number_that_no_float_holds_is_refused_and_shown_in_short() -> None:
    (mistake,) = mistakes_of_options({**DEFAULTS, "weight_decay": 10**400}, (), {})
    assert "`weight_decay`" in mistake
    assert len(mistake) < 200


def test_every_checked_option_has_a_bad_value_above_and_a_default() -> None:
    checked = {name for name, option in OPTIONS.items() if not option.kind.accepts(object())}
    assert {key for key, _ in BAD_PAIRS} == checked
    assert all(name in DEFAULTS for name in checked)


def test_nobody_can_change_a_default_by_accident() -> None:
    default("clip_grad_norm")["max_norm"] = 0.0
    assert default("clip_grad_norm") == {"max_norm": 5.0}


def test_recbole_reads_our_defaults_from_the_property_file() -> None:
    ours = {name: option.default for name, option in OPTIONS.items() if option.default is not RECBOLES}
    assert yaml.safe_load((shipped("model") / "BERT4Rec.yaml").read_text("utf-8")) == ours
    del ours["train_neg_sample_args"]  # RecBole adds to it
    assert {name: DEFAULTS[name] for name in ours} == ours


def test_an_option_is_shared_if_another_model_of_recbole_has_it() -> None:
    assert set(OURS_ONLY) == set(OPTIONS) - known_to_recbole() - FOLLOWED_BY_ALL
    assert not known_to_recbole() & FOLLOWED_BY_ALL


def test_the_encoder_takes_its_defaults_and_all_activations_from_the_table() -> None:
    options = EncoderOptions(n_items=9, max_length=5)
    named = [field.name for field in fields(options) if field.name in OPTIONS]
    assert len(named) >= 14
    for name in set(named) - {"hidden_dropout_prob"}:  # which follows from a log
        value = getattr(options, name)
        assert (list(value) if isinstance(value, tuple) else value) == default(name), name
    assert set(OPTIONS["hidden_act"].kind.names) == set(ACTIVATIONS)


def test_every_option_that_makes_weights_or_state_must_be_the_checkpoints() -> None:
    assert {"hidden_size", "n_layers", "selected_features", "seen_bias", "learner", "sparse_update"} <= {
        *FIXED_ON_RESUME
    }
    assert {"eval_args", "exclude_seen", "candidates", "valid_metric"} <= {*PROTOCOL}
    assert {"exact_time", "valid_users", "candidates", "window", "objective", "training_rows"} <= {*SHAPES_DATA}
    assert "epochs" not in {*FIXED_ON_RESUME, *PROTOCOL}


@pytest.mark.parametrize(
    ("option", "model", "warned"),
    [
        ({"mask_ratio": 0.3}, "SASRecPlus", "mask_ratio"),
        ({"prefix_share": 0.3}, "BERT4Rec", "prefix_share"),
        ({"mask_ratio": 0.3, "objective": "cloze"}, "SASRecPlus", None),
        ({"gbce_t": 0.5, "loss_type": "BCE"}, "BERT4Rec", "gbce_t"),
        ({"n_negatives": 5}, "BERT4Rec", None),  # loss_type is auto
        ({"prop_sliding_window": 0.3}, "BERT4Rec", "prop_sliding_window"),
        ({"train_batch_size": 64, "batch_sequences": 4}, "BERT4Rec", "train_batch_size"),
        ({"num_layers": 2}, "BERT4Rec", "num_layers"),  # GRU4Rec's
        ({"learner": "sparse_adam"}, "SASRec", None),  # which is no learner of ours
        ({"window": "last", "exclude_seen": True, "hidden_size": 32}, "GRU4Rec", "window"),
    ],
    ids=str,
)
def test_an_option_that_means_nothing_beside_another_or_to_the_model_gives_a_warning(
    option: dict[str, Any], model: str, warned: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING"):
        make_config(model, **option)
    assert [f"`{warned}`" in record.message for record in caplog.records] == ([True] if warned else [])


@pytest.mark.parametrize("model", ["BERT4Rec", "SASRec", "Pop"])
def test_all_misspelt_options_are_refused_for_every_model_with_the_nearest_name(model: str) -> None:
    nearest = {"data-path": "data_path", "epoch": "epochs"}
    with pytest.raises(UserError) as error:
        make_config(model, qwertz=1, topk="abc", **dict.fromkeys(nearest, 1))
    for name in ("qwertz", "topk", *nearest, *nearest.values()):
        assert f"`{name}`" in str(error.value)


def test_a_gap_in_eval_args_is_filled_with_leave_one_out_in_order_of_time() -> None:
    arguments = make_config(eval_args={"mode": "uni20"})["eval_args"]
    wanted = {"LS": "valid_and_test"}, "TO", "uni20"
    assert (arguments["split"], arguments["order"], arguments["mode"]["test"]) == wanted


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"hidden_size": 64, "n_heads": 3}, "`n_heads`"),
        ({"mask_random_share": 0.6, "mask_keep_share": 0.6}, "`mask_random_share`"),
        ({"seen_bias": True, "loss_type": "BPR"}, "`seen_bias`"),
        ({"loss_type": "gBCE", "negatives": "popularity"}, "`negatives`"),
        ({"sparse_update": True, "loss_type": "CE"}, "`sparse_update`"),
        ({"sparse_update": True, "loss_type": "BCE", "learner": "sgd"}, "`learner`"),
        ({"valid_users": 9, "eval_args": {"split": {"LS": "valid_only"}}}, "`valid_users`"),
        ({"valid_users": 9, "benchmark_filename": ["a", "b", "c"]}, "['a', 'b', 'c']"),
        ({"topk": []}, "`topk`"),
        ({"topk": [10, -1]}, "`topk`"),
        ({"metrics": ["NDCG"]}, "'MRR@10'"),
        ({"metrics": None}, "`metrics`"),
        ({"metrics": ["MRR", "HR"]}, "Hit"),
        ({"metrics": ["MRR", "NDGC"]}, "NDCG"),
        ({"eval_args": {"mode": "labeled"}}, "'labeled'"),
        ({"metrics": ["AUC"], "valid_metric": "AUC"}, "'full'"),
        ({"metrics": ["AUC", "MRR"], "eval_args": {"mode": "uni9"}}, "'AUC', 'MRR'"),
        ({"valid_metric": "NDCG"}, "`valid_metric`"),
        ({"eval_args": "full"}, "`eval_args`"),
        ({"eval_args": {"splt": {"LS": "valid_only"}}}, "'splt'"),
        ({"eval_args": {"mode": "popular100"}}, "`eval_args: mode`"),
        ({"eval_args": {"mode": {"valid": ["full"]}}}, "`eval_args: mode`"),
        ({"eval_args": {"split": "LS"}}, "`eval_args: split`"),
        ({"eval_args": {"split": {"XS": 1}}}, "'XS'"),
        ({"eval_args": {"split": {"LS": ["valid"]}}}, "split: LS"),
        ({"eval_args": {"split": {"TS": [0.8, 0.2]}}}, "split: TS"),
        ({"eval_args": {"split": {"TS": [0, 0, 1]}}}, "[0, 0, 1]"),
        ({"eval_args": {"split": {"RS": [0.8, 0.1, "a"]}}}, "split: RS"),
        ({"user_inter_num_interval": "[1.2.3,5]"}, "`user_inter_num_interval`"),
        ({"user_inter_num_interval": "[5,3]"}, "`user_inter_num_interval`"),
        ({"val_interval": "[3,inf)"}, "`val_interval`"),
    ],
    ids=str,
)
def test_what_does_not_go_together_or_cannot_be_evaluated_is_named(changes: dict[str, Any], named: str) -> None:
    (mistake,) = mistakes_of_options({**DEFAULTS, **changes}, changes, {})
    assert named in mistake


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"user_inter_num_interval": "[5,inf)", "val_interval": {"rating": "[3,inf);(0, 1.5]", "class": ["a"]}},
        {"eval_args": {"mode": {"valid": "uni5", "test": "full"}, "split": {"TS": [0.8, 0.1, 0.1]}}},
        {"metrics": "mrr"},
        {"metrics": ["AUC"], "valid_metric": "auc", "eval_args": {"mode": "labeled"}},
        {"user_inter_num_interval": "[+5,Infinity)", "item_inter_num_interval": "[1_000,INF)"},
        {"user_inter_num_interval": None},
    ],
    ids=str,
)
def test_what_recbole_understands_is_no_mistake(change: dict[str, Any]) -> None:
    assert mistakes_of_options({**DEFAULTS, **change}, change, {}) == []


@pytest.mark.parametrize("model", ["BERT4Rec", "SASRec"])
def test_texts_and_floats_are_the_values_that_an_option_takes_and_none_is_null(model: str) -> None:
    given = {"epochs": 3.0, "eval_step": "3", "learning_rate": "1e-3", "wandb_project": "2026-11-25", "my_note": "x"}
    config = make_config(model, **given, allow_unknown=True)
    wanted = {**given, "epochs": 3, "eval_step": 3, "learning_rate": 0.001}
    assert {name: config[name] for name in given} == wanted
    files = (dict.fromkeys(("val_interval", "user_inter_num_interval", "train_neg_sample_args"), "None"),)
    config = PluginConfig(model, "ml-100k", Layers(files=files, options=QUIET))
    assert config["val_interval"] is config["user_inter_num_interval"] is None
    assert config["train_neg_sample_args"]["distribution"] == "none"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("model", ["BERT4Rec", "Pop"])
@pytest.mark.parametrize(
    ("option", "warned"),
    [
        ({"use_gpu": True, "gpu_id": 0}, "use_gpu"),
        ({"use_gpu": True, "gpu_id": -1}, None),
        ({"use_gpu": False, "gpu_id": 0}, None),
        ({"device": "cuda", "allow_unknown": True}, "`device`"),
    ],
    ids=str,
)
def test_without_a_gpu_the_processor_is_taken_and_what_cannot_be_followed_is_a_warning(
    model: str, option: dict[str, Any], warned: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING"):
        assert make_config(model, **option)["device"].type == "cpu"
    assert warned in caplog.text if warned else not caplog.records


TYPED = [("BERT4Rec", name, "x") for name in ("load_col", "rm_dup_inter", "threshold", "metric_decimal_place")]
TYPED += [("BPR", "embedding_size", "abc"), ("BPR", "learning_rate", "auto"), ("BPR", "epochs", "auto")]
TYPED += [("SASRec", "use_gpu", 1)]
OF_OTHERS = [
    ({"topk": "abc"}, "`topk`.*'abc'"),
    ({"metrics": ["NDGC"]}, "NDCG"),
    ({"valid_metric": "NDCG@7"}, "`valid_metric`"),
    ({"eval_args": {"mode": "labeled"}}, "labeled"),
    ({"candidates": "authors"}, "`candidates`"),
    ({"item_inter_num_interval": "5"}, "`item_inter_num_interval`"),
]


@pytest.mark.parametrize(
    ("model", "option", "named"),
    [(model, *row) for model in ("SASRec", "Pop") for row in OF_OTHERS]
    + [(model, {name: value}, rf"`{name}` must be .*{value!r}") for model, name, value in TYPED],
    ids=str,
)
def test_of_other_models_metrics_and_what_all_models_follow_and_types_of_recboles_options_are_checked(
    model: str, option: dict[str, Any], named: str
) -> None:
    with pytest.raises(UserError, match=named):
        make_config(model, **option)
