"""The rules of a comparison: which files and flags hold for which model, and what all have in common."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recbole_bert4rec.comparison.compare import _Run
from recbole_bert4rec.comparison.comparison import Comparison, at_least, reference_config
from recbole_bert4rec.comparison.rows import _fingerprint
from recbole_bert4rec.options.flags import parse_flags
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.yaml_files import read_yaml
from tests.helpers.runs import make_config

ROWS = [(f"u{u}", f"i{(u + t) % 9}", t) for u in range(20) for t in range(6)]


def comparison(*flags: str, files: tuple[str, ...] = (), models: tuple[str, ...] = ("BERT4Rec", "Pop")) -> Comparison:
    return Comparison(models, "ml-100k", files, parse_flags(["--use_gpu=False", "--state=error", *flags]), (2020,))


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (None, "[4,inf)"),
        ("[0,inf)", "[4,inf)"),
        ("[5,inf)", "[5,inf)"),
        ("(2, 100]", "[4,100]"),
        ("[1,3];[4,9);[20,inf)", "[4,9);[20,inf)"),
    ],
)
def test_users_with_fewer_than_four_interactions_leave_any_interval(given: str | None, wanted: str) -> None:
    assert at_least(4, given) == wanted


def test_a_file_that_names_a_model_is_for_it_alone(tmp_path: Path) -> None:
    texts = {"all": "epochs: 3\n", "best": "model: SASRec\nhidden_size: 32\n", "list": "model: Pop,SASRec\nseed: 1\n"}
    for name, text in texts.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    files = tuple(str(tmp_path / f"{name}.yaml") for name in texts)
    contents = [read_yaml(file) for file in files]
    assert comparison(files=files).files_of("SASRec") == contents
    assert comparison(files=files).files_of("Pop") == [contents[0], contents[2]]
    assert comparison(files=files).config("SASRec", {})["hidden_size"] == 32


def test_flags_that_the_rules_decide_do_not_reach_a_run() -> None:
    rules = {"seed": 1, "use_gpu": True, "state": 0}
    assert comparison("--seed=7", "--epochs=2").options_beside("Pop", rules) == {"epochs": "2"}
    assert comparison("--seed=7").config("Pop", {"seed": 1})["seed"] == 1


def test_all_models_rank_alike() -> None:
    one = comparison("--exclude_seen=True", "--topk=[5]", "--valid_metric=NDCG@5", "--metrics=['NDCG']")
    rules = one.rules(reference_config(one), few=False)
    assert rules["exclude_seen"] is True
    assert (rules["topk"], rules["metrics"], rules["valid_metric"]) == ([5], ["NDCG"], "NDCG@5")
    assert "user_inter_num_interval" not in rules
    assert "candidates" not in rules
    config = one.config("Pop", rules)
    assert config["eval_args"]["split"] == {"LS": "valid_and_test"}
    assert config["eval_args"]["order"] == "TO"


def test_sampled_candidates_are_the_same_for_all() -> None:
    one = comparison("--eval_args={'mode':'pop50'}")
    rules = one.rules(reference_config(one), few=True)
    assert rules["candidates"] == "paper"
    assert rules["user_inter_num_interval"] == "[4,inf)"


@pytest.mark.parametrize(
    ("flag", "named"),
    [
        ("--eval_args={'split':{'RS':[0.8,0.1,0.1]}}", "leave-one-out"),
        ("--eval_args={'order':'RO'}", "leave-one-out"),
        ("--eval_step=0", "`eval_step`"),
        ("--metrics=['NDCG','GAUC']", "'GAUC'"),
        ("--user_inter_num_interval=[1,3]", "`user_inter_num_interval`"),
        ("--user_inter_num_interval=five", "`user_inter_num_interval`"),
    ],
)
def test_a_protocol_that_not_all_models_can_follow_is_refused(flag: str, named: str) -> None:
    one = comparison(flag)
    with pytest.raises(UserError, match=named):
        one.rules(reference_config(one), few=True)
        one.check_metrics(reference_config(one))


def test_time_alone_ends_a_training_unless_epochs_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "sas.yaml").write_text("model: SASRec\nepochs: 3\n")
    one = replace(comparison("--stopping_step=5", files=(str(tmp_path / "sas.yaml"),)), budget=60.0)
    rules = one.rules(reference_config(one), few=False)
    assert one.rules_of("Pop", rules, 1)["epochs"] > 10**5
    assert "epochs" not in one.rules_of("SASRec", rules, 1)
    assert "stopping_step" not in one.rules_of("Pop", rules, 1)
    assert one.rules_of("Pop", rules, 7)["seed"] == 7
    assert "epochs" not in replace(one, budget=None).rules_of("Pop", rules, 1)


@pytest.mark.parametrize(
    ("model", "flag", "same"),
    [
        ("SASRecPlus", "--training_rows=user", True),
        ("SASRec", "--training_rows=user", False),
        ("SASRec", "--mask_ratio=0.7", True),
        ("BERT4Rec", "--mask_ratio=0.7", False),
        ("Pop", "--n_layers=3", True),
        ("GRU4Rec", "--MAX_ITEM_LIST_LENGTH=9", False),
    ],
)
def test_a_run_is_another_one_only_by_options_that_its_model_follows(model: str, flag: str, same: bool) -> None:
    found = []
    for flags in ((), (flag,)):
        one = comparison(*flags, models=("BPR", model))
        about = {"rules": one.rules(reference_config(one), few=False), "fingerprint": "x"}
        found.append(_Run.of(one, about, model, 2020).name)
    assert (found[0] == found[1]) is same


def test_a_models_file_may_load_features_besides(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text("model: FDSA\nload_col: {inter: [user_id], item: [item_id, class]}\n")
    one = comparison(files=(str(tmp_path / "f.yaml"),))
    rules = one.rules(reference_config(one), few=False)
    assert one.rules_of("FDSA", rules, 1)["load_col"] == {**rules["load_col"], "item": ["item_id", "class"]}
    assert one.rules_of("Pop", rules, 1)["load_col"] == rules["load_col"]


def test_a_changed_file_of_features_makes_other_data(write_inter: Any, tmp_path: Path) -> None:
    config = make_config("Pop", **write_inter(ROWS))
    feature, prints = tmp_path / "data" / "toy" / "toy.item", [_fingerprint(config)]
    for text in ("item_id:token\tclass:token\ni1\ta\n", "item_id:token\tclass:token\ni1\tb\n"):
        feature.write_text(text)
        prints.append(_fingerprint(config))
    assert len(set(prints)) == 3
    assert _fingerprint(config) == prints[-1]
