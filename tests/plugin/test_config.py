"""A configuration of ours: its layers, texts that are values and not programs, pickles where they are trusted."""

from __future__ import annotations

import math
import os
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recbole.config import Config
from recbole.evaluator.metrics import NDCG

from recbole_bert4rec.options.checks import read_options
from recbole_bert4rec.plugin.config import Layers, PluginConfig
from recbole_bert4rec.plugin.distributed import name_of_this_process
from recbole_bert4rec.system.errors import UserError
from tests.helpers.runs import QUIET, make_config, prepare
from tests.helpers.small import SMALL, start

ROWS = [(f"u{u}", f"i{(u + t) % 23}", t) for u in range(60) for t in range(9)]

TEXTS = ["1", "-3", "1_000", "0.5", "1e-3", "true", "FALSE", "none", "[]", "['a','b']", "0,1", "'text'", "text"]
TEXTS += ["{'max_norm': 5.0, 'x': [None, True]}", "[5,inf)", "", "  7", "b'bytes'", "...", "007"]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_becomes_the_value_that_it_spells_as_in_recbole(text: str) -> None:
    found, recboles = (kind._convert_config_dict(None, {"x": text})["x"] for kind in (PluginConfig, Config))
    assert (type(found), found) == (type(recboles), recboles)


def test_what_is_no_text_stays_what_it_is() -> None:
    given = OrderedDict(a=1, b=[None], c={"d": "1+1"}, e=None)
    assert PluginConfig._convert_config_dict(None, given) is given
    assert given == {"a": 1, "b": [None], "c": {"d": "1+1"}, "e": None}


PROGRAMS = ["__import__('os').system('touch pwned')", "[open('pwned', 'w') for _ in (1,)]", "9**9**9", "\0"]
PROGRAMS += ["(lambda: open('pwned', 'w'))()", "re.compile", "[" * 5000, "-" * 100_000 + "1"]


@pytest.mark.parametrize("text", PROGRAMS, ids=range(8))
@pytest.mark.parametrize("model", ["BERT4Rec", "Pop"])
def test_a_program_stays_a_text_and_does_not_run(model: str, text: str) -> None:
    flags = Layers(options=QUIET, flags={"wandb_project": text})
    assert PluginConfig(model, "ml-100k", flags)["wandb_project"] == text
    assert make_config(model, wandb_project=text)["wandb_project"] == text
    assert not Path("pwned").exists()


class Evil:
    def __reduce__(self):
        return (Path.touch, (Path("pwned"),))


@pytest.mark.parametrize("model", ["BERT4Rec", "SASRec", "Pop"])
def test_a_pickle_that_merely_lies_there_is_not_opened(model: str, write_inter: Any) -> None:
    config = make_config(model, **write_inter(ROWS))
    name = {"BERT4Rec": "BERT4RecDataset", "SASRec": "SequentialDataset", "Pop": "Dataset"}[model]
    Path("saved").mkdir()
    for file in (f"toy-{name}.pth", f"toy-for-{model}-dataloader.pth"):
        (Path("saved") / file).write_bytes(pickle.dumps(Evil()))
    prepare(config)
    assert not Path("pwned").exists()


def test_a_pickle_that_the_user_names_and_trusts_is_read(write_inter: Any) -> None:
    options = write_inter(ROWS)
    for model, name in (("BERT4Rec", "BERT4RecDataset"), ("Pop", "Dataset")):
        first, *_ = prepare(make_config(model, **options, save_dataset=True, save_dataloaders=True))
        named = {
            "dataset_save_path": f"saved/toy-{name}.pth",
            "dataloaders_save_path": f"saved/toy-for-{model}-dataloader.pth",
            "trust_pickles": True,
        }
        write_inter(ROWS[:60])  # what is read now is not what is in the pickles
        again, train, *_ = prepare(make_config(model, **options, **named))
        assert again.user_num == first.user_num == 61
        assert train.dataset.user_num == 61
        write_inter(ROWS)


@pytest.mark.parametrize("model", ["BERT4Rec", "SASRec", "Pop"])
def test_a_pickle_that_is_only_named_is_refused(model: str, write_inter: Any) -> None:
    Path("evil.pth").write_bytes(pickle.dumps(Evil()))
    for option in ("dataset_save_path", "dataloaders_save_path"):
        for trust in ({}, {"trust_pickles": False}, {"trust_pickles": 1}):
            with pytest.raises(UserError, match="trust_pickles"):
                prepare(make_config(model, **write_inter(ROWS), **{option: "evil.pth"}, **trust))
    assert not Path("pwned").exists()


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("trust_pickles: True", "`trust_pickles`"),
        ("wandb_project: !!python/object/apply:os.system ['touch pwned']", ""),
        ("wandb_project: !!python/tuple [1]", ""),
        ("wandb_project: !x y", ""),
    ],
)
def test_a_file_neither_trusts_pickles_nor_runs_code_by_a_tag(line: str, named: str) -> None:
    Path("a.yaml").write_text(f"dataset_save_path: evil.pth\n{line}\n")
    with pytest.raises(UserError, match=rf"a\.yaml.*{named}") as error:
        read_options("a.yaml")
    assert "\n" not in str(error.value)
    assert not Path("pwned").exists()


@pytest.mark.parametrize("model", ["BERT4Rec", "Pop"])
def test_the_name_of_a_data_set_is_no_path(model: str) -> None:
    for name in ("../x", "/etc/x", "x/y", "..", "x/", "x\0"):
        with pytest.raises(UserError, match="NAME"):
            make_config(model, name)


def test_names_of_one_second_and_one_process_differ() -> None:
    names = [name_of_this_process("now") for _ in range(50)]
    assert len(set(names)) == 50
    assert all(str(os.getpid()) in name for name in names)


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


BOTH = pytest.mark.parametrize("model", ["BERT4Rec", "SASRec"])


def test_a_batch_has_so_many_interactions_as_the_size_says(write_inter: Any) -> None:
    options = {**SMALL, **write_inter(ROWS), "batch_sequences": None, "train_batch_size": 64}
    _, train, *_ = prepare(make_config(**options))
    sizes = [batch["item_id_list"].numel() for batch in train]
    assert max(sizes) <= 64
    assert len(train) == math.ceil(60 / (64 // 7))  # of 9 items, 7 are trained


@BOTH
def test_values_of_numpy_and_paths_are_pythons_own(model: str) -> None:
    given = {"learning_rate": np.float32(0.5), "topk": np.array([5]), "checkpoint_dir": Path("kept")}
    config = make_config(model, **given, valid_metric="MRR@5")
    for name, value in {"learning_rate": 0.5, "topk": [5], "checkpoint_dir": "kept"}.items():
        assert (type(config[name]), config[name]) == (type(value), value)


@BOTH
def test_recboles_spellings_are_understood(model: str, write_inter: Any) -> None:
    data = write_inter(ROWS)
    assert make_config(model, learner="Adam")["learner"] == "adam"
    for interval in ("[2,30]", [2, 30], "(1,31)", "[2,inf)"):
        dataset, *_ = prepare(make_config(model, **data, user_inter_num_interval=interval))
        assert dataset.user_num == 61
    with pytest.raises(Exception, match=r"filter|empty"):
        prepare(make_config(model, **data, user_inter_num_interval=[90, 99]))


def test_a_metric_that_is_not_finite_keeps_a_checkpoint_readable(
    write_inter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NDCG, "metric_info", lambda self, positions, lengths: np.full(positions.shape, np.nan))
    trainer, train, valid, test = start(**write_inter(ROWS), **SMALL, epochs=1, metrics=["MRR", "NDCG"])
    trainer.fit(train, valid)
    assert math.isnan(trainer.evaluate(test)["ndcg@10"])
