"""RecBole's own functions find our BERT4Rec, and every other model unharmed."""

from __future__ import annotations

import importlib
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
from recbole.config import Config
from recbole.quick_start import quick_start, run_recbole
from recbole.trainer import HyperTuning
from recbole.utils import get_model

import recbole_bert4rec
from recbole_bert4rec.plugin.model import BERT4Rec
from recbole_bert4rec.plugin.patches import registration, registry
from tests.helpers.runs import QUIET, make_config, make_trainer, prepare

ROWS = [(f"u{u}", f"i{(u + t) % 15}", t) for u in range(20) for t in range(6)]


def test_registering_again_changes_nothing() -> None:
    stock = get_model("RecBoleBERT4Rec")
    loader, dataset = Config._load_internal_config_dict, quick_start.load_data_and_model
    registry.on_import()
    importlib.reload(recbole_bert4rec)
    assert get_model("BERT4Rec") is BERT4Rec
    assert get_model("RecBoleBERT4Rec") is stock
    assert Config._load_internal_config_dict is loader
    assert quick_start.load_data_and_model is dataset


def test_precedence_is_command_line_then_dictionary_then_file_then_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("mask_ratio: 0.3\nft_ratio: 0.4\nn_layers: 3\n")
    monkeypatch.setattr("sys.argv", ["x", "--n_layers=4"])
    config = Config("BERT4Rec", "ml-100k", [str(file)], {"ft_ratio": 0.6, "n_layers": 5, **QUIET})
    assert (config["mask_ratio"], config["ft_ratio"], config["n_layers"]) == (0.3, 0.6, 4)
    assert config["transform"] is None
    assert config["train_neg_sample_args"]["distribution"] == "none"


def test_columns_that_the_user_chooses_are_left_alone(write_inter: Any) -> None:
    chosen = {"inter": ["user_id", "item_id", "timestamp", "rating"]}
    assert make_config(load_col=chosen)["load_col"] == chosen
    assert make_config("Pop", dataset="unknown")["load_col"] == {"inter": ["user_id", "item_id"]}


def test_recboles_documented_example_runs(write_inter: Any) -> None:
    options = {**QUIET, **write_inter(ROWS), "epochs": 1}
    dataset = options.pop("dataset")
    pairwise = {"loss_type": "BPR", "neg_sampling": {"uniform": 1}, **options}
    result = run_recbole(model="BERT4Rec", dataset=dataset, config_dict=pairwise)
    assert set(result) == {"best_valid_score", "valid_score_bigger", "best_valid_result", "test_result"}


def test_negative_sampling_of_recbole_never_reaches_the_loader(write_inter: Any) -> None:
    negatives = {"distribution": "uniform", "sample_num": 2}
    config = make_config(loss_type="BPR", train_neg_sample_args=negatives, **write_inter(ROWS))
    _, train, valid, _ = prepare(config)
    assert sum(len(batch) for batch in train) == 20
    make_trainer(config, train).fit(train, valid, verbose=False, saved=False)


def test_hyper_tuning_of_recbole_tunes_our_model(write_inter: Any, tmp_path: Path) -> None:
    options = write_inter(ROWS)
    (tmp_path / "fixed.yaml").write_text(
        f"model: BERT4Rec\ndataset: {options['dataset']}\ndata_path: {options['data_path']}\nepochs: 1\n"
        "show_progress: False\nstate: error\nuse_gpu: False\n"
    )
    (tmp_path / "space.test").write_text("hidden_size choice [8,16]\nposition choice ['start','end']\n")
    tuning = HyperTuning(
        registration.objective_function,
        algo="exhaustive",
        params_file=str(tmp_path / "space.test"),
        fixed_config_file_list=[str(tmp_path / "fixed.yaml")],
    )
    tuning.run()
    assert len(tuning.params2result) == 4
    assert set(tuning.best_params) == {"hidden_size", "position"}


@pytest.mark.parametrize("name", ["run_recboles", "objective_function"])
def test_functions_that_travel_to_other_processes_bring_our_package_along(name: str) -> None:
    assert b"recbole_bert4rec.plugin.patches.registration" in pickle.dumps(getattr(quick_start, name))


def test_another_series_of_recbole_is_refused_and_another_release_warned_of() -> None:
    with pytest.raises(ImportError, match=r"1\.1\.0"):
        registry.check_recbole_version("1.1.0")
    with pytest.warns(UserWarning, match=r"1\.2\.2"):
        registry.check_recbole_version("1.2.2")


def test_pandas_3_is_refused_with_the_reason() -> None:
    with pytest.raises(ImportError, match=r"pandas 3\.0\.1"):
        registry.check_pandas_version("3.0.1")
    registry.check_pandas_version("2.3.3")


def test_another_python_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 1))
    with pytest.raises(ImportError, match=r"3\.11"):
        importlib.reload(recbole_bert4rec)
