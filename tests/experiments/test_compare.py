"""What is compared and how: files and flags of each model, rules that all share, studies, names of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from recbole_bert4rec.cli.flags import options_in
from recbole_bert4rec.experiments.compare import _endless, check_options, contestants_of, read_variants
from recbole_bert4rec.experiments.equal_rows import config_of, shared_rules, under_rules
from recbole_bert4rec.experiments.store import fingerprint, name_of
from recbole_bert4rec.system.environment import find_config
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.yaml_files import read_yaml
from recbole_bert4rec.training.inputs import user_layers
from tests.helpers.runs import make_config

ROWS = [(f"u{u}", f"i{(u + t) % 9}", t) for u in range(20) for t in range(6)]
STUDIES = sorted((Path(__file__).resolve().parents[2] / "properties" / "study").glob("*.yaml"))


def contestants(*flags: str, models: tuple[str, ...] = ("BERT4Rec", "Pop"), files: tuple[str, ...] = ()) -> Any:
    """Arguments of the runs of models, by their names."""
    layers = user_layers(options_in(["--use_gpu=False", "--state=error", *flags], ()), files, {})
    return contestants_of(models, {}, layers)


def rules_of(*flags: str, few: bool = False) -> dict[str, Any]:
    """The rules of a comparison of BERT4Rec on ml-100k."""
    return shared_rules(config_of(contestants(*flags)["BERT4Rec"], "ml-100k", {}), few)


def test_a_file_that_names_a_model_is_for_it_alone(tmp_path: Path) -> None:
    texts = {"all": "epochs: 3\n", "best": "model: SASRec\nhidden_size: 32\n", "list": "model: Pop,SASRec\nseed: 1\n"}
    for name, text in texts.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    files = tuple(str(tmp_path / f"{name}.yaml") for name in texts)
    contents = [read_yaml(file) for file in files]
    found = contestants(models=("SASRec", "Pop"), files=files)
    assert [file for file in found["SASRec"]["config_files"] if file] == contents
    assert [file for file in found["Pop"]["config_files"] if file] == [contents[0], contents[2]]
    assert config_of(found["SASRec"], "ml-100k", {})["hidden_size"] == 32


def test_flags_that_the_rules_decide_do_not_reach_a_run() -> None:
    rules = {"topk": [1], "use_gpu": True, "state": 0}
    assert under_rules(contestants("--topk=7", "--epochs=2")["Pop"], rules)["options"] == {"epochs": "2"}
    assert config_of(contestants("--seed=7")["Pop"], "ml-100k", {"seed": 1})["seed"] == 1


def test_all_models_rank_alike_and_among_the_same_candidates_without_users_of_few_interactions() -> None:
    flags = ("--exclude_seen=True", "--topk=[5]", "--valid_metric=NDCG@5", "--metrics=['NDCG']")
    rules = rules_of(*flags)
    assert rules.keys().isdisjoint({"user_inter_num_interval", "candidates"})
    config = config_of(contestants(*flags)["Pop"], "ml-100k", rules)
    chosen = {"exclude_seen": True, "topk": [5], "metrics": ["NDCG"], "valid_metric": "NDCG@5"}
    assert {name: config[name] for name in chosen} == chosen
    assert (config["eval_args"]["split"], config["eval_args"]["order"]) == ({"LS": "valid_and_test"}, "TO")
    rules = rules_of("--eval_args={'mode':'pop50'}", few=True)
    assert rules["candidates"] == "paper"
    assert rules["user_inter_num_interval"] == "[4,inf)"


@pytest.mark.parametrize(
    ("flag", "named"),
    [
        ("--eval_args={'split':{'RS':[0.8,0.1,0.1]}}", "leave-one-out"),
        ("--eval_args={'order':'RO'}", "leave-one-out"),
        ("--eval_step=0", "`eval_step`"),
        ("--metrics=['NDCG','GAUC']", "'GAUC'"),
        ("--user_inter_num_interval=[1,30]", "`user_inter_num_interval`"),
    ],
)
def test_a_protocol_that_not_all_models_can_follow_is_refused(flag: str, named: str) -> None:
    with pytest.raises(UserError, match=named):
        rules_of(flag, few=True)


def test_time_alone_ends_a_training_unless_epochs_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "sas.yaml").write_text("model: SASRec\nepochs: 3\n")
    files = (str(tmp_path / "sas.yaml"),)
    found = contestants("--stopping_step=5", models=("SASRec", "Pop"), files=files)
    assert _endless(found["Pop"])["epochs"] > 10**5
    assert _endless(found["SASRec"]) == {}
    assert "stopping_step" not in _endless(found["Pop"])


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
    names = [
        name_of(model, config_of(contestants(*flags, models=("BPR", model))[model], "ml-100k", rules_of(*flags)))
        for flags in ((), (flag,))
    ]
    assert (names[0] == names[1]) is same


def test_a_models_file_may_load_features_besides(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text("model: FDSA\nload_col: {inter: [user_id], item: [item_id, class]}\n")
    found = contestants(models=("FDSA", "Pop"), files=(str(tmp_path / "f.yaml"),))
    rules = rules_of()
    *_, of_fdsa = under_rules(found["FDSA"], rules)["config_files"]
    *_, of_pop = under_rules(found["Pop"], rules)["config_files"]
    assert of_fdsa["load_col"] == {**rules["load_col"], "item": ["item_id", "class"]}
    assert of_pop["load_col"] == rules["load_col"]


def test_a_changed_file_of_features_makes_other_data(write_inter: Any, tmp_path: Path) -> None:
    config = make_config("Pop", **write_inter(ROWS))
    feature, prints = tmp_path / "data" / "toy" / "toy.item", [fingerprint(config)]
    for text in ("item_id:token\tclass:token\ni1\ta\n", "item_id:token\tclass:token\ni1\tb\n"):
        feature.write_text(text)
        prints.append(fingerprint(config))
    assert len(set(prints)) == 3
    assert fingerprint(config) == prints[-1]


@pytest.mark.parametrize("file", STUDIES, ids=lambda file: file.stem)
def test_a_shipped_study_is_found_by_its_bare_name_and_has_no_mistake(file: Path) -> None:
    assert file.samefile(find_config(file.name, "study"))
    variants, _, name = read_variants(file.name)
    assert len(variants) >= 3
    assert name == file.stem
    for options in variants.values():
        own = dict(options)
        config = make_config(model=own.pop("model", "BERT4Rec"), **own)
        assert all(config[key] == value for key, value in own.items())


BAD: list[tuple[dict[Any, Any], list[str]]] = [
    ({"variants": {}}, ["`variants`"]),
    ({"variants": {"a": 3}}, ["`variants`", "{'a': 3}"]),
    ({"variant": {"a": {}}}, ["`variants`", "'variant'"]),
    ({"variants": {"a": {"mask_ratio": 0.1}, "b": {}}, "axis": "mask_ratio"}, ["mask_ratio", "'b'"]),
    ({"variants": {"a": {"norm": "pre"}}, "axis": "norm"}, ["norm", "'a'"]),
    ({"variants": {"a": {}}, "axis": ["mask_ratio"]}, ["`axis`"]),
    ({"variants": {"a": {}}, 1: 2}, ["is 1"]),
    ({"variants": {"a": {"exclude_seen": True}}}, ["'a'", "['exclude_seen']"]),
    ({"variants": {"a": {"seed": 1}, "b": {"refit": "train+valid"}}}, ["'a'", "['seed']"]),
]


@pytest.mark.parametrize(("content", "named"), BAD, ids=str)
def test_what_is_no_study_is_refused_by_its_file_and_key(
    content: dict[Any, Any], named: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(content))
    with pytest.raises(UserError) as error:
        read_variants(str(file))
    for words in [str(file), *named]:
        assert words in str(error.value)


def test_a_variant_s_options_win_over_files_and_flags_and_may_name_a_model(tmp_path: Path) -> None:
    variants: dict[str, dict[str, Any]] = {
        "wide / deep": {"hidden_size": 32},
        "wide-deep": {"model": "SASRec", "hidden_size": 16},
        "slow": {"learning_rate": 1e-5},
    }
    base = tmp_path / "base.yaml"
    base.write_text("hidden_size: 8\nn_layers: 1\n")
    flags = {"hidden_size": "64", "inner_size": "20", "use_gpu": "False", "state": "error"}
    found = contestants_of(["BERT4Rec"], variants, user_layers(flags, [str(base)], {}))
    configs = [config_of(contestant, "ml-100k", {}) for contestant in found.values()]
    assert [config["model"] for config in configs] == ["BERT4Rec", "SASRec", "BERT4Rec"]
    assert [config["hidden_size"] for config in configs] == [32, 16, 64]
    assert {config["n_layers"] for config in configs} == {1}
    assert {config["inner_size"] for config in configs} == {20}
    assert configs[2]["learning_rate"] == 1e-5


EFFECTS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("SASRec", {"mask_ratio": 0.3}, ["a: ", "`mask_ratio`", "SASRec"]),
    ("BERT4RecPlus", {"mask_ratio": 0.3}, ["a: ", "`mask_ratio`", "cloze"]),
    ("BERT4Rec", {"mask_ratoi": 0.1}, ["a: ", "`mask_ratio`"]),
    ("BERT4Rec", {"mask_ratio": 1.5}, ["a: ", "`mask_ratio`", "1.5"]),
    ("BERT4RecPlus", {"objective": "cloze", "mask_ratio": 0.3}, []),
    ("SASRec", {"training_rows": "user", "hidden_size": 32}, []),
]


@pytest.mark.parametrize(("base", "options", "named"), EFFECTS, ids=str)
def test_a_variant_sets_nothing_that_its_model_has_no_use_for(
    base: str, options: dict[str, Any], named: list[str]
) -> None:
    variants: dict[str, dict[str, Any]] = {"a": options, "b": {}}
    found = contestants_of([base], variants, user_layers({"state": "error"}, (), {}))
    if not named:
        check_options(found, variants, "ml-100k")
        return
    with pytest.raises(UserError) as error:
        check_options(found, variants, "ml-100k")
    said = str(error.value)
    assert all(words in said for words in named)
    assert "b: " not in said
