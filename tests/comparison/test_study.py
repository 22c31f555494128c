"""Studies: the shipped ones hold no mistake, bad ones are explained, and a variant's options win over all others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from recbole_bert4rec.comparison.compare import _check_options
from recbole_bert4rec.comparison.comparison import Comparison
from recbole_bert4rec.comparison.study import read_study
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.resources import find_config
from tests.helpers.runs import make_config

STUDIES = sorted((Path(__file__).resolve().parents[2] / "properties" / "study").glob("*.yaml"))


@pytest.mark.parametrize("file", STUDIES, ids=lambda file: file.stem)
def test_a_shipped_study_is_found_by_its_bare_name_and_has_no_mistake(file: Path) -> None:
    assert file.samefile(find_config(file.name, "study"))
    study = read_study(str(file))
    assert len(study.variants) >= 3
    for options in study.variants.values():
        own = dict(options)
        config = make_config(model=own.pop("model", "BERT4Rec"), **own)
        assert all(config[key] == value for key, value in own.items())


BAD: list[tuple[dict[Any, Any], list[str]]] = [
    ({"variants": {}}, ["`variants`"]),
    ({"variants": {"a": 3}}, ["`variants`", "{'a': 3}"]),
    ({"variant": {"a": {}}}, ["['variant']"]),
    ({"variants": {"a": {"mask_ratio": 0.1}, "b": {}}, "axis": "mask_ratio"}, ["mask_ratio", "'b'"]),
    ({"variants": {"a": {"norm": "pre"}}, "axis": "norm"}, ["norm", "'a'", "'pre'"]),
    ({"variants": {"a": {}}, "axis": ["mask_ratio"]}, ["`axis`"]),
    ({"variants": {"a": {}}, 1: 2}, ["is 1"]),
    ({"variants": {"a": {1: 2}}}, ["'a' sets 1"]),
    ({"variants": {"a": {"exclude_seen": True}}}, ["'a'", "['exclude_seen']"]),
    ({"variants": {"a": {"seed": 1}, "b": {"refit": "train+valid"}}}, ["'a'", "['seed']", "'b'", "['refit']"]),
]


@pytest.mark.parametrize(("content", "named"), BAD, ids=str)
def test_what_is_no_study_is_refused_by_its_file_and_key(
    content: dict[Any, Any], named: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(content))
    with pytest.raises(UserError) as error:
        read_study(str(file))
    for words in [str(file), *named]:
        assert words in str(error.value)


def test_a_variant_s_options_win_over_files_and_flags_and_may_name_a_model(tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    study.write_text(
        "variants:\n  wide / deep: {hidden_size: 32}\n  wide-deep: {model: SASRec, hidden_size: 16}\n"
        "  slow: {learning_rate: 1e-5}\n"
    )
    base = tmp_path / "base.yaml"
    base.write_text("hidden_size: 8\nn_layers: 1\n")
    found = read_study(str(study))
    flags = {"hidden_size": "64", "inner_size": "20", "use_gpu": "False", "state": "error"}
    comparison = Comparison(tuple(found.variants), "ml-100k", (str(base),), flags, (1,), study=found)
    configs = [comparison.config(name, {}) for name in comparison.models]
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
    base: str, options: dict[str, Any], named: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({"variants": {"a": options, "b": {}}}))
    study = read_study(str(file), base)
    comparison = Comparison(tuple(study.variants), "ml-100k", (), {"state": "error"}, (1,), study=study)
    if not named:
        _check_options(comparison)
        return
    with pytest.raises(UserError) as error:
        _check_options(comparison)
    said = str(error.value)
    assert all(words in said for words in named)
    assert "b: " not in said
