"""Studies: the shipped ones hold no mistake, bad ones are explained, and a variant's options win over all others."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from recbole_bert4rec.comparison import progress as progress_module
from recbole_bert4rec.comparison.compare import _check_options
from recbole_bert4rec.comparison.comparison import Comparison
from recbole_bert4rec.comparison.progress import RunProgress
from recbole_bert4rec.comparison.study import read_study
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.resources import find_config
from tests.helpers.runs import make_config

STUDIES = sorted((Path(__file__).resolve().parents[2] / "properties" / "study").glob("*.yaml"))


@pytest.mark.parametrize("file", STUDIES, ids=lambda file: file.stem)
def test_a_shipped_study_is_found_by_its_bare_name_and_has_no_mistake(file: Path) -> None:
    assert find_config(file.name, "study") == str(file)
    study = read_study(str(file))
    assert len(study.variants) >= 3
    for options in study.variants.values():
        own = dict(options)
        config = make_config(model=own.pop("model", "BERT4Rec"), **own)
        assert all(config[key] == value for key, value in own.items())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"variants": {}}, "`variants` must be lines of `name: {option: value}`"),
        ({"variants": {"a": 3}}, "`variants` must be lines of"),
        ({"variant": {"a": {}}}, "has ['variant'], but a study has `variants` and perhaps `axis`"),
        ({"variants": {"a": {"mask_ratio": 0.1}, "b": {}}, "axis": "mask_ratio"}, "which variant 'b' does not set"),
        ({"variants": {"a": {"norm": "pre"}}, "axis": "norm"}, "variant 'a' gives it no number: 'pre'"),
        ({"variants": {"a": {}}, "axis": ["mask_ratio"]}, "`axis` must be the name of an option"),
        ({"variants": {"a": {}}, "z": 2, "b": 3}, "has ['b', 'z']"),
        ({"variants": {"a": {}}, 1: 2}, "the name of an option must be a text, but one is 1"),
        ({"variants": {"a": {1: 2}}}, "variant 'a' sets 1, which is no name of an option"),
        ({"variants": {"a": {"exclude_seen": True}}}, "variant 'a' sets ['exclude_seen']"),
        ({"variants": {"a": {"valid_users": 9}}}, "['valid_users'], which are for a single run"),
    ],
)
def test_what_is_no_study_is_explained(content: dict, words: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(content))
    with pytest.raises(UserError) as error:
        read_study(str(file))
    assert words in str(error.value)
    assert str(file) in str(error.value)


def test_mistakes_of_all_variants_are_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("variants:\n  a: {seed: 1}\n  b: {refit: train+valid}\n")
    with pytest.raises(UserError, match=r"variant 'a' sets \['seed'\].*variant 'b' sets \['refit'\]"):
        read_study(str(file))
    file.write_text("variants:\n  a: {mask_ratoi: 0.1}\n  b: {mask_ratio: 1.5}\n  c: {}\n")
    found = read_study(str(file))
    with pytest.raises(UserError) as error:
        _check_options(Comparison(tuple(found.variants), "ml-100k", (), {"state": "error"}, (1,), study=found))
    said = str(error.value)
    assert [part in said for part in ("a: ", "did you mean `mask_ratio`", "b: ", "1.5", "c: ")] == [True] * 4 + [False]


def test_a_key_that_stands_twice_is_refused_with_its_lines(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("variants:\n  a: {mask_ratio: 0.1}\n  b: {}\n  a: {mask_ratio: 0.2}\n")
    with pytest.raises(UserError, match="`a` stands in line 2 and again in line 4"):
        read_study(str(file))


def test_no_time_is_guessed_from_runs_of_another_model(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(progress_module, "time", SimpleNamespace(monotonic=lambda: now))
    kinds = {"small": "BERT4Rec", "large": "BERT4Rec", "SASRec": "SASRec"}
    runs = [(name, seed) for seed in (1, 2) for name in kinds]
    progress = RunProgress(runs, kinds, None, "ndcg@10")
    record = {"best_valid_result": {}, "test_result": {"ndcg@10": 0.1}, "epochs": []}
    said = []
    for (name, seed), seconds in zip(runs, (10, 20, 100, 10, 20, 100), strict=True):
        progress.begin(name, seed)
        now += seconds
        progress.end(name, seed, {**record, "seconds": {"total": 1, "train": seconds}}, new=True)
        said.append(progress._time_left())
    progress.close()
    assert said == ["", "", ", about 2 min left", ", about 2 min left", ", about 2 min left", ""]


def test_a_long_run_without_a_terminal_says_once_a_minute_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 0.0
    monkeypatch.setattr(progress_module, "time", SimpleNamespace(monotonic=lambda: now))
    progress = RunProgress([("BERT4Rec", 7)], {"BERT4Rec": "BERT4Rec"}, None, "ndcg@10", no_bars=True)
    with caplog.at_level("INFO"):
        progress.begin("BERT4Rec", 7)
        for epoch in range(1, 8):
            now += 25.0
            progress.epoch({"epoch": epoch, "epochs": 9, "score": 0.1, "best": 0.1 + epoch / 100})
    progress.close()
    assert caplog.messages == [
        "BERT4Rec, seed 7: epoch 3, best ndcg@10 0.1300",
        "BERT4Rec, seed 7: epoch 6, best ndcg@10 0.1600",
    ]


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


@pytest.mark.parametrize(
    ("base", "options", "said"),
    [
        ("SASRec", {"mask_ratio": 0.3}, "a: `mask_ratio` is another model's and has no effect on SASRec"),
        (
            "SASRec",
            {"window": "last"},
            "`window` is for BERT4Rec, BERT4RecPlus, SASRecPlus and has no effect on SASRec",
        ),
        ("BERT4RecPlus", {"mask_ratio": 0.3}, "a: `mask_ratio` is for objective cloze and has no effect with prefix"),
        ("BERT4RecPlus", {"objective": "cloze", "mask_ratio": 0.3}, None),
        ("SASRec", {"training_rows": "user", "hidden_size": 32}, None),
    ],
    ids=str,
)
def test_a_variant_sets_nothing_that_its_model_has_no_use_for(
    base: str, options: dict, said: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({"variants": {"a": options, "b": {}}}))
    study = read_study(str(file), base)
    comparison = Comparison(tuple(study.variants), "ml-100k", (), {"state": "error"}, (1,), study=study)
    if said is None:
        _check_options(comparison)
        return
    with pytest.raises(UserError, match=said):
        _check_options(comparison)
