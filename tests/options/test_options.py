"""The table of options: each bad value is named, all at once, and every list that follows from it is right."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest
import yaml
from recbole.config import Config
from recbole.model.sequential_recommender import SASRec
from recbole.utils import dataset_arguments

from recbole_bert4rec.core.encoder import ACTIVATIONS, EncoderOptions
from recbole_bert4rec.options.checks import mistakes_of_options
from recbole_bert4rec.options.kinds import Anything, OneOf, Real, misfits
from recbole_bert4rec.options.known import FOLLOWED_BY_ALL, known_to_recbole
from recbole_bert4rec.options.table import (
    FIXED_ON_RESUME,
    OPTIONS,
    OURS_ONLY,
    PROTOCOL,
    RECBOLES,
    SHAPES_DATA,
    OnResume,
    default,
)
from recbole_bert4rec.system.constants import LOSSES
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.resources import shipped
from tests.helpers.runs import make_config

DEFAULTS: dict[str, Any] = {**make_config().final_config_dict}

BAD_VALUES = [
    ("hidden_size", 0, "a whole number at least 1"),
    ("inner_size", 0, "a whole number at least 1"),
    ("hidden_size", 64.5, "a whole number"),
    ("n_heads", "two", "a whole number"),
    ("n_layers", True, "a whole number"),
    ("hidden_dropout_prob", 1.0, "a number at least 0 and below 1"),
    ("attn_dropout_prob", -0.1, "a number at least 0 and below 1"),
    ("hidden_act", "gelu2", "one of"),
    ("layer_norm_eps", 0, "a number above 0"),
    ("initializer_range", -1, "a number above 0"),
    ("value_init", "eye", "one of ['identity', 'random']"),
    ("bias_init", 0, "one of ['frequency', 'zero']"),
    ("position", "middle", "one of ['start', 'end', 'none', 'relative']"),
    ("norm", "first", "one of ['post', 'pre']"),
    ("ablate", ["dropout"], "a list of some of ['residual', 'layer_norm', 'feed_forward'], or []"),
    ("ablate", "residual", "a list of some of"),
    ("drop_duplicates", 1, "one of [True, False]"),
    ("in_order", 1, "one of [True, False]"),
    ("dupe_factor", 0, "a whole number at least 1"),
    ("objective", "causal", "one of ['cloze', 'next', 'prefix']"),
    ("prefix_share", 1.5, "a number at least 0 and at most 1"),
    ("training_rows", "prefix", "one of ['user'], or null"),
    ("mask_ratio", 1.5, "a number above 0 and at most 1"),
    ("mask_ratio", 0.0, "a number above 0 and at most 1"),
    ("mask_ratio", float("nan"), "a number above 0"),
    ("ft_ratio", 2, "a number at least 0 and at most 1"),
    ("mask_count", "some", "one of ['bernoulli', 'exact']"),
    ("mask_random_share", 1.1, "at most 1"),
    ("mask_keep_share", -0.1, "at least 0"),
    ("loss_type", "XYZ", f"one of {list(LOSSES)}"),
    ("n_negatives", 0, "a whole number at least 1"),
    ("negatives", "hard", "one of ['uniform', 'popularity']"),
    ("gbce_t", 1.1, "a number at least 0 and at most 1"),
    ("sparse_update", 1, "one of [True, False]"),
    ("seen_bias", "on", "one of [True, False]"),
    ("memory", "often", "one of [True, False]"),
    ("output_projection", 0, "one of [True, False]"),
    ("loss_mean", "median", "one of ['mask', 'sequence']"),
    ("window", "first", "one of ['random', 'last', 'sliding']"),
    ("prop_sliding_window", 0, "a number above 0 and at most 1"),
    ("batch_sequences", 0, "a whole number at least 1, or null"),
    ("batch_sequences", "many", "a whole number at least 1, or null"),
    ("exact_time", "yes", "one of [True, False]"),
    ("candidates", "authors", "one of ['recbole', 'paper']"),
    ("selected_features", "class", "a list of columns of the .item file"),
    ("item_vectors", 3, "a list of files, such as"),
    ("lr_schedule", "step", "one of"),
    ("warmup_steps", -1, "at least 0"),
    ("exclude_seen", "maybe", "one of [True, False]"),
    ("exclude_seen", 1, "one of [True, False]"),
    ("allow_unknown", "yes", "one of [True, False]"),
    ("transform", "crop_itemseq", "one of ['mask_itemseq'], or null"),
    ("valid_users", 0, "a whole number at least 1, or null"),
    ("logit_adjustment", -0.5, "a number at least 0"),
    ("epochs", -5, "at least 0"),
    ("train_batch_size", 0, "at least 1"),
    ("eval_batch_size", None, "a whole number at least 1"),
    ("learning_rate", 0, "above 0"),
    ("learning_rate", float("inf"), "above 0"),
    ("weight_decay", -0.1, "at least 0"),
    ("clip_grad_norm", 5, "a dictionary such as {'max_norm': 5.0}, or null"),
    ("clip_grad_norm", {"max_norm": "a"}, "a dictionary such as"),
    ("clip_grad_norm", {"max_norm": 1.0, "other": 2}, "a dictionary such as"),
    ("learner", "adamm", "one of ['adam', 'adamw', 'sgd', 'adagrad', 'rmsprop']"),
    ("worker", -1, "at least 0"),
    ("stopping_step", -1, "at least 0"),
    ("refit", True, "one of ['train+valid'], or null"),
    ("keep_histories", "yes", "one of [True, False]"),
    ("trust_pickles", "yes", "one of [True, False]"),
    ("eval_step", 0.5, "a whole number"),
    ("enable_amp", 1, "one of [True, False]"),
    ("MAX_ITEM_LIST_LENGTH", 1, "at least 2"),
    ("seed", -1, "at least 0"),
]


@pytest.mark.parametrize(("key", "value", "wanted"), BAD_VALUES)
def test_a_bad_value_is_named_with_what_it_must_be_and_what_it_is(key: str, value: Any, wanted: str) -> None:
    found = mistakes_of_options({**DEFAULTS, key: value})
    assert len(found) == 1
    assert found[0].startswith(f"`{key}` must be ")
    assert wanted in found[0]
    assert f"but is {value!r} instead" in found[0]


def test_every_checked_option_has_a_bad_value_above_and_a_default() -> None:
    checked = {name for name, option in OPTIONS.items() if not isinstance(option.kind, Anything)}
    assert {key for key, _, _ in BAD_VALUES} == checked
    assert all(name in DEFAULTS for name in checked)


@pytest.mark.parametrize("topk", [None, [], 0, [10, -1]])
def test_lengths_of_lists_that_cannot_be_are_named(topk: Any, write_inter: Any) -> None:
    with pytest.raises(UserError, match="`topk` must be a whole number from 1, or a list of these, but is"):
        make_config(**write_inter([("a", "b", 1)]), topk=topk)


def test_a_number_that_no_float_holds_is_refused_and_shown_in_short() -> None:
    (message,) = misfits({"x": 10**400}, {"x": Real(0)})
    assert message.startswith("`x` must be a number at least 0, but is 1000")
    assert len(message) < 200


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_accepts_its_own_default_and_explains_itself_in_a_sentence(name: str) -> None:
    option = OPTIONS[name]
    assert option.default is RECBOLES or option.kind.accepts(option.default)
    assert option.help.endswith(".")
    assert option.kind.wanted[-1:] not in ("", ".")


def test_nobody_can_change_a_default_by_accident() -> None:
    default("clip_grad_norm")["max_norm"] = 0.0
    assert default("clip_grad_norm") == {"max_norm": 5.0}


def test_recbole_reads_our_defaults_from_the_property_file() -> None:
    ours = {name: option.default for name, option in OPTIONS.items() if option.default is not RECBOLES}
    assert yaml.safe_load((shipped("model") / "BERT4Rec.yaml").read_text("utf-8")) == ours
    assert {name: DEFAULTS[name] for name in ours if name not in ("train_neg_sample_args",)} == {
        name: value for name, value in ours.items() if name not in ("train_neg_sample_args",)
    }


def test_an_option_is_shared_if_another_model_of_recbole_has_it() -> None:
    shared = known_to_recbole() | FOLLOWED_BY_ALL
    wrong = [name for name, option in OPTIONS.items() if option.shared != (name in shared)]
    assert wrong == ["norm"]  # RecBole's code has a dictionary of this name, but no option


def test_the_encoder_takes_its_defaults_from_the_table() -> None:
    options = EncoderOptions(n_items=9, max_length=5)
    named = [field.name for field in fields(options) if field.name in OPTIONS]
    assert len(named) >= 14
    for name in set(named) - {"hidden_dropout_prob"}:  # which follows from a log
        value = getattr(options, name)
        assert (list(value) if isinstance(value, tuple) else value) == default(name), name


def test_every_activation_of_the_table_can_be_computed() -> None:
    kind = OPTIONS["hidden_act"].kind
    assert isinstance(kind, OneOf)
    assert set(kind.names) == set(ACTIVATIONS)


def test_every_option_that_makes_weights_or_state_must_be_the_checkpoints() -> None:
    assert {"hidden_size", "n_layers", "selected_features", "seen_bias", "learner", "sparse_update"} <= {
        *FIXED_ON_RESUME
    }
    assert {"eval_args", "exclude_seen", "candidates", "valid_metric"} <= {*PROTOCOL}
    assert OPTIONS["epochs"].on_resume is OnResume.FREE


def test_recbole_reads_the_data_anew_where_an_option_of_ours_shapes_them() -> None:
    assert {*SHAPES_DATA} <= {*dataset_arguments}
    assert {"exact_time", "valid_users", "candidates", "window"} <= {*SHAPES_DATA}
    assert {"objective", "training_rows"} <= {*SHAPES_DATA}


@pytest.mark.parametrize(
    ("option", "model", "warned"),
    [
        ({"mask_ratio": 0.3}, "SASRecPlus", "`mask_ratio` is for objective cloze and has no effect with next"),
        ({"prefix_share": 0.3}, "BERT4Rec", "`prefix_share` is for objective prefix and has no effect with cloze"),
        ({"mask_ratio": 0.3, "objective": "cloze"}, "SASRecPlus", None),
        ({"prefix_share": 0.3}, "BERT4RecPlus", None),
        ({"gbce_t": 0.5, "loss_type": "BCE"}, "BERT4Rec", "`gbce_t` is for loss_type gBCE and has no effect with BCE"),
        ({"negatives": "uniform", "loss_type": "CE"}, "SASRecPlus", "or BCE or gBCE and has no effect with CE"),
        ({"n_negatives": 5}, "BERT4Rec", None),  # loss_type is auto
        ({"n_negatives": 5, "loss_type": "BCE"}, "BERT4Rec", None),
        ({"prop_sliding_window": 0.3}, "BERT4Rec", "`prop_sliding_window` is for window sliding and has no effect"),
    ],
    ids=str,
)
def test_an_option_that_means_nothing_with_the_value_of_another_gives_a_warning(
    option: dict[str, Any], model: str, warned: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING"):
        make_config(model, **option)
    assert warned in caplog.text if warned else not caplog.text


@pytest.mark.parametrize("name", OURS_ONLY)
def test_an_option_that_only_bert4rec_has_gives_a_warning_on_another_model(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING"):
        make_config("SASRec", **{name: default(name), "train_neg_sample_args": None})
    assert f"option `{name}` is for BERT4Rec, BERT4RecPlus, SASRecPlus and has no effect on SASRec" in caplog.text


def test_an_option_of_another_model_gives_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING"):
        make_config(num_layers=2)  # GRU4Rec's
    assert "option `num_layers` is another model's and has no effect on BERT4Rec" in caplog.text
    make_config("SASRec", mask_ratio=0.3)
    assert "option `mask_ratio` is another model's and has no effect on SASRec" in caplog.text


@pytest.mark.parametrize("model", ["BERT4Rec", "SASRec", "Pop"])
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("qwertz", "neither RecBole nor BERT4Rec has an option of this name"),
        ("data-path", "did you mean `data_path`?"),
        ("epoch", "did you mean `epochs`?"),
        ("show_progres", "did you mean `show_progress`?"),
    ],
)
def test_a_misspelt_option_is_refused_for_every_model(model: str, name: str, hint: str) -> None:
    with pytest.raises(UserError, match=re.escape(f"`{name}`: {hint}")):
        make_config(model, **{name: 1})


@pytest.mark.parametrize("model", ["BERT4Rec", "SASRec"])
def test_unknown_options_are_accepted_where_the_user_says_so(model: str) -> None:
    assert make_config(model, my_note="x", allow_unknown=True, train_neg_sample_args=None)["my_note"] == "x"


def test_the_shipped_defaults_have_no_mistake() -> None:
    assert mistakes_of_options(DEFAULTS) == []


def test_all_mistakes_come_in_one_message() -> None:
    with pytest.raises(UserError) as error:
        make_config(mask_ratio=3, n_layers=0, loss_type="CE2", mask_ratoi=0.2)
    for part in ("`mask_ratio`", "`n_layers`", "`loss_type`", "`mask_ratoi`: did you mean `mask_ratio`?"):
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"hidden_size": 64, "n_heads": 3}, "`hidden_size` must be divisible by `n_heads`, but is 64 with 3 heads"),
        ({"mask_random_share": 0.6, "mask_keep_share": 0.6}, "must add up to at most 1, but give 1.2"),
        ({"seen_bias": True, "loss_type": "BPR"}, "`seen_bias` cannot be learnt with `loss_type` BPR"),
        ({"eval_args": {"split": {"TS": [0.8, 0.2]}}}, "split TS must have three ratios"),
        ({"eval_args": {"split": {"RS": [0.8, 0.1, "a"]}}}, "split RS must have three ratios"),
        ({"valid_users": 9, "eval_args": {"split": {"LS": "valid_only"}}}, "`valid_users` trains most users'"),
        ({"valid_users": 9, "benchmark_filename": ["a", "b", "c"]}, "but the split is in the files ['a', 'b', 'c']"),
        ({"eval_args": "full"}, "`eval_args` must be a dictionary such as"),
        ({"eval_args": {"split": {"RS": [0.8, 0.2]}}}, "RS must have three ratios (train, valid, test)"),
        (
            {"metrics": ["NDCG"]},
            "must be one of `metrics` ['NDCG'] at one of `topk` [10], but is 'MRR@10'",
        ),
        ({"loss_type": "gBCE", "negatives": "popularity"}, "`negatives` must be uniform with gBCE"),
        ({"sparse_update": True, "loss_type": "CE"}, "`sparse_update` needs `loss_type` sampled_softmax or BCE"),
        (
            {"sparse_update": True, "loss_type": "BCE", "learner": "sgd"},
            "`sparse_update` needs `learner` adamw, but the learner is sgd",
        ),
        ({"valid_metric": "NDCG@7"}, "`valid_metric` must be one of"),
    ],
)
def test_options_that_do_not_go_together_are_named(changes: dict[str, Any], wanted: str) -> None:
    found = mistakes_of_options({**DEFAULTS, **changes})
    assert len(found) == 1
    assert wanted in found[0]


def test_recbole_s_config_raises_the_message_before_anything_runs() -> None:
    with pytest.raises(UserError, match="mask_ratoi`: did you mean `mask_ratio`"):
        make_config(mask_ratoi=0.3)
    with pytest.raises(UserError, match="loss_type` must be one of"):
        make_config(loss_type="softmax")


def test_all_unknown_options_are_named_at_once() -> None:
    with pytest.raises(UserError) as error:
        make_config(my_own_note="x", use_gup=False)
    assert "`my_own_note`: neither RecBole nor BERT4Rec" in str(error.value)
    assert "`use_gup`: did you mean `use_gpu`?" in str(error.value)


def test_a_gap_in_eval_args_is_filled_with_leave_one_out_in_order_of_time() -> None:
    arguments = make_config(eval_args={"mode": "uni20"})["eval_args"]
    assert (arguments["split"], arguments["order"], arguments["mode"]["test"]) == (
        {"LS": "valid_and_test"},
        "TO",
        "uni20",
    )


def test_the_values_of_other_models_are_left_to_them() -> None:
    assert make_config("SASRec", hidden_size=-1, train_neg_sample_args=None)["hidden_size"] == -1


def test_a_model_of_the_users_own_may_have_options_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    class Mine(SASRec):
        def __init__(self, config: Config, dataset: Any) -> None:
            super().__init__(config, dataset)
            self.gate = config["my_gate"]

    with caplog.at_level("WARNING"):
        config = Config(model=Mine, dataset="ml-100k", config_dict={"my_gate": 0.5, "loss_type": "CE"})
    assert config["my_gate"] == 0.5
    assert not caplog.text
    with pytest.raises(UserError, match="`my_gat`: did you mean `my_gate`"):  # which nobody reads
        Config(model=Mine, dataset="ml-100k", config_dict={"my_gat": 0.5, "loss_type": "CE"})


BAD_EVALUATION = [
    ({"eval_args": {"mode": "popular100"}}, "`eval_args` mode must be full, uni100, pop100 (any number) or labeled"),
    ({"eval_args": {"split": "LS"}}, "`eval_args` split must be a dictionary"),
    ({"eval_args": {"split": {"LS": ["valid"]}}}, "split LS must be one of ['valid_and_test', "),
    ({"eval_args": {"split": {"TS": [0, 0, 1]}}}, "split TS leaves nothing to train on: [0, 0, 1]"),
    ({"eval_args": {"split": {"RS": [1, 1]}}}, "split RS must have three ratios"),
    ({"metrics": ["MRR", "HR"]}, "`metrics`: 'HR' is not one of ['AUC', "),
    ({"metrics": ["MRR", "HR"]}, "did you mean Hit?"),
    ({"metrics": ["MRR", "Recal"]}, "did you mean Recall?"),
    ({"user_inter_num_interval": "[5,inf"}, "`user_inter_num_interval` must be intervals such as '[5,inf)'"),
    ({"user_inter_num_interval": "[1.2.3,5]"}, "`user_inter_num_interval` must be intervals"),
    ({"user_inter_num_interval": "[5,3]"}, "`user_inter_num_interval` must be intervals"),
    ({"val_interval": "[3,inf)"}, "`val_interval` must be a dictionary such as"),
    ({"valid_metric": "NDCG"}, "`valid_metric` must be one of"),
    ({"eval_args": {"splt": {"LS": "valid_only"}}}, "`eval_args` has no 'splt', but ['split', 'order', "),
    ({"metrics": ["MRR", "NDGC"]}, "did you mean NDCG?"),
    ({"metrics": None}, "`metrics` must be a list such as"),
    ({"eval_args": {"mode": ["full"]}}, "`eval_args` mode must be full, "),
    ({"eval_args": {"mode": {"valid": ["full"]}}}, "`eval_args` mode must be full, "),
    ({"val_interval": {"rating": "3 to 5"}}, "`val_interval: rating` must be intervals"),
]


@pytest.mark.parametrize(("change", "wanted"), BAD_EVALUATION, ids=str)
def test_a_mistake_in_evaluation_or_filters_is_explained(change: dict[str, Any], wanted: str) -> None:
    found = mistakes_of_options({**DEFAULTS, **change})
    assert len(found) == 1
    assert wanted in found[0]


@pytest.mark.parametrize(
    "change",
    [
        {"user_inter_num_interval": "[5,inf)", "val_interval": {"rating": "[3,inf);(0, 1.5]", "class": ["a"]}},
        {"eval_args": {"mode": {"valid": "uni5", "test": "full"}, "split": {"TS": [0.8, 0.1, 0.1]}}},
        {"metrics": "mrr"},
        {"user_inter_num_interval": "[+5,Infinity)", "item_inter_num_interval": "[1_000,INF)"},
        {"user_inter_num_interval": "None"},
    ],
    ids=str,
)
def test_what_recbole_understands_is_no_mistake(change: dict[str, Any]) -> None:
    assert mistakes_of_options({**DEFAULTS, **change}) == []


def test_options_of_bert4rec_given_to_another_model_are_named(caplog: Any) -> None:
    with caplog.at_level("WARNING"):
        make_config("GRU4Rec", window="last", exclude_seen=True, hidden_size=32)
    assert "option `window` is for BERT4Rec, BERT4RecPlus, SASRecPlus and has no effect on GRU4Rec" in caplog.text
    assert "exclude_seen" not in caplog.text
    assert "hidden_size" not in caplog.text
