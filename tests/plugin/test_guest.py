"""A plain import is a guest in RecBole: other models, and programs of others, are as they are without it."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.programs import ROOT, python

GUEST = ROOT / "tests" / "helpers" / "guest.py"
ROWS = [(f"u{u}", f"i{(u * (t + 1) + t) % 40}", 1 + (u + t) % 5, t) for u in range(40) for t in range(8 + u % 5)]
HEADER = "user_id:token\titem_id:token\trating:float\ttimestamp:float"
COLUMNS = {"inter": ["user_id", "item_id", "rating", "timestamp"]}
SMALL = {"embedding_size": 8, "hidden_size": 8, "n_layers": 1, "MAX_ITEM_LIST_LENGTH": 6, "train_batch_size": 256}
QUIET = {"epochs": 1, "show_progress": False, "state": "ERROR", "load_col": COLUMNS}
SOFTMAX = {"loss_type": "CE", "train_neg_sample_args": None}
LABELLED = {"threshold": {"rating": 3}, "metrics": ["AUC", "LogLoss"], "valid_metric": "AUC"}
LABELLED["eval_args"] = {"mode": "labeled"}
SIX = {"Pop": {}, "BPR": {}, "NeuMF": {}, "SASRec": SOFTMAX, "GRU4Rec": SOFTMAX, "DeepFM": LABELLED}
MORE = {
    **{name: {} for name in ("Random", "ItemKNN", "DMF", "EASE", "SLIMElastic", "MultiVAE", "MultiDAE", "CDAE")},
    **{name: {} for name in ("LINE", "MacridVAE", "RecVAE", "ENMF", "DiffRec")},
    **dict.fromkeys(("LR", "FM", "NFM", "AFM", "DCN", "xDeepFM", "AutoInt"), LABELLED),
    **dict.fromkeys(("NARM", "STAMP", "LightSANs", "CORE", "NextItNet", "HGN", "SRGNN"), SOFTMAX),
    **{name: {"loss_type": "BPR"} for name in ("FPMC", "Caser")},
}


def runs(mode: str, folder: Path, data: dict[str, Any], models: dict[str, Any]) -> dict[str, Any]:
    """What each model leaves, see ``tests/helpers/guest.py``."""
    options = {**QUIET, **SMALL, "data_path": data["data_path"]}
    asked = json.dumps({"dataset": data["dataset"], "options": options, "models": models})
    lines = python(GUEST.read_text("utf-8"), mode, asked, folder=folder)
    return dict(map(json.loads, lines))


def assert_equal_runs(write_inter: Callable[..., dict[str, Any]], tmp_path: Path, models: dict[str, Any]) -> list[str]:
    """Compare; return the models that RecBole alone cannot run on these libraries."""
    data = write_inter(ROWS, header=HEADER)
    stock, guest = (runs(mode, tmp_path / mode, data, models) for mode in ("stock", "guest"))
    assert stock.keys() == guest.keys() == models.keys()
    for model, found in stock.items():
        if isinstance(found, dict):
            assert guest[model] == found, model
    return [model for model, found in stock.items() if not isinstance(found, dict)]


def test_six_models_of_recbole_are_bit_for_bit_as_without_the_import(write_inter: Any, tmp_path: Path) -> None:
    assert assert_equal_runs(write_inter, tmp_path, SIX) == []


@pytest.mark.slow
def test_models_of_all_families_are_bit_for_bit_as_without_the_import(write_inter: Any, tmp_path: Path) -> None:
    not_run = assert_equal_runs(write_inter, tmp_path, MORE)
    assert len(SIX) + len(MORE) - len(not_run) >= 25, not_run


def test_a_programs_own_flags_keys_and_classes_are_its_own(write_inter: Any, tmp_path: Path) -> None:
    data = write_inter(ROWS, header=HEADER)
    program = f"""
        import argparse
        import recbole_bert4rec
        import torch
        from recbole.config import Config
        from recbole.data import create_dataset, data_preparation
        from recbole.data.dataset import Dataset, SequentialDataset
        from recbole.model.abstract_recommender import SequentialRecommender
        from recbole.model.sequential_recommender import SASRec as Theirs
        from recbole.trainer import Trainer
        from recbole.utils import InputType

        flags = argparse.ArgumentParser()
        flags.add_argument("--output_dir")
        flags.add_argument("--top_n")
        flags.parse_args()
        options = {{**{QUIET!r}, **{SMALL!r}, "data_path": {data["data_path"]!r}, "train_neg_sample_args": None}}

        class SASRec(Theirs):
            def __init__(self, config, dataset):
                super().__init__(config, dataset)
                self.alpha = [config[name] for name in ("my_alpha",)][0]

        class BERT4Rec(SequentialRecommender):
            input_type = InputType.POINTWISE

            def __init__(self, config, dataset):
                super().__init__(config, dataset)
                self.items, self.loss = torch.nn.Embedding(self.n_items, 8), torch.nn.CrossEntropyLoss()

            def full_sort_predict(self, rows):
                items = self.items(rows[self.ITEM_SEQ])
                return self.gather_indexes(items, rows[self.ITEM_SEQ_LEN] - 1) @ self.items.weight.T

            def calculate_loss(self, rows):
                return self.loss(self.full_sort_predict(rows), rows[self.POS_ITEM_ID])

        class MyDataset(SequentialDataset):
            def _data_processing(self):
                super()._data_processing()
                self.note = self.config["my_note"]

        class MyTrainer(Trainer):
            def __init__(self, config, model):
                super().__init__(config, model)
                self.note = config["my_note"]

        defaults = dict(n_heads=1, inner_size=8, hidden_dropout_prob=0.1, attn_dropout_prob=0.1, hidden_act="gelu",
                        layer_norm_eps=1e-12, initializer_range=0.02, loss_type="CE")
        for model in (SASRec, BERT4Rec):
            config = Config(model, "toy", config_dict={{**options, **defaults, "my_alpha": 0.5, "my_note": "x"}})
            dataset = MyDataset(config)
            made = create_dataset(config)
            train, valid, test = data_preparation(config, dataset)
            trainer = MyTrainer(config, model(config, train.dataset))
            trainer.fit(train, valid, saved=False)
            metrics = trainer.evaluate(test, load_best_model=False)
            print(type(made).__name__, type(train).__name__, trainer.note, dataset.note, "ndcg@10" in metrics)
        print(Config("Pop", "toy", config_dict={{**options, "my_note": 1, "device": "cuda", "gpu_id": -1}})["my_note"])
        config = Config("BERT4Rec", "toy", config_dict=options)
        print("output_dir" in config.cmd_config_dict)
    """
    lines = python(program, "--output_dir=out", "--top_n=10", folder=tmp_path / "theirs")
    assert lines == ["SequentialDataset TrainDataLoader x x True"] * 2 + ["1", "True"]


def test_code_for_recboles_own_bert4rec_is_served_or_refused_by_name(write_inter: Any, tmp_path: Path) -> None:
    data = write_inter(ROWS, header=HEADER)
    program = f"""
        from recbole.model.sequential_recommender import BERT4Rec as Stock
        import recbole_bert4rec
        from recbole.config import Config
        from recbole.data import create_dataset, data_preparation
        from recbole.data.dataset import SequentialDataset
        from recbole.model.sequential_recommender import BERT4Rec
        options = {{**{QUIET!r}, **{SMALL!r}, "data_path": {data["data_path"]!r}}}
        theirs = {{**options, "transform": "mask_itemseq", "train_neg_sample_args": None}}
        print(type(create_dataset(Config(Stock, "toy", config_dict=theirs))).__name__)

        class Mine(SequentialDataset):
            pass

        class Subclass(BERT4Rec):
            def calculate_loss(self, rows):
                return rows[self.MASK_ITEM_SEQ]

        config = Config(Subclass, "toy", config_dict=options)
        train, *_ = data_preparation(config, create_dataset(config))
        for step in (
            lambda: data_preparation(config, Mine(config)),
            lambda: Subclass(config, train.dataset).calculate_loss(next(iter(train))),
        ):
            try:
                step()
            except Exception as error:
                print(type(error).__name__, error)
    """
    served, dataset, field = python(program, folder=tmp_path / "theirs")
    assert served == "SequentialDataset"
    assert dataset.startswith("UserError ")
    assert "Mine" in dataset
    assert field.startswith("AttributeError ")
    assert "MASK_ITEM_SEQ" in field


def test_recboles_own_bert4rec_is_trained_under_its_other_name(write_inter: Any, tmp_path: Path) -> None:
    data = write_inter(ROWS, header=HEADER)
    options = {**QUIET, **SMALL, "data_path": data["data_path"], "transform": "mask_itemseq", "mask_ratio": 0.3}
    options |= {"n_heads": 1, "inner_size": 8, "train_neg_sample_args": None}
    asked = {"dataset": data["dataset"], "options": options}
    program = GUEST.read_text("utf-8")
    found = [
        json.loads(*python(program, mode, json.dumps({**asked, "models": {model: {}}}), folder=tmp_path / mode))[1]
        for mode, model in (("stock", "BERT4Rec"), ("guest", "RecBoleBERT4Rec"))
    ]
    for result in ("losses", "validation", "test", "weights"):
        assert found[0][result] == found[1][result]


@pytest.mark.parametrize("first", ["recbole", "ours"])
def test_run_recbole_trains_our_model_and_leaves_a_checkpoint_or_nothing(
    first: str, write_inter: Any, tmp_path: Path
) -> None:
    data = write_inter(ROWS, header=HEADER)
    imports = ["import recbole_bert4rec", "from recbole.quick_start import run_recbole"]
    lines = imports if first == "ours" else imports[::-1]
    program = "\n".join(lines) + textwrap.dedent(f"""
        import sys
        from pathlib import Path
        from recbole.quick_start import load_data_and_model
        options = {{**{QUIET!r}, **{SMALL!r}, "data_path": {data["data_path"]!r}}}
        sys.argv += ["--top_n=7"]  # a flag of the program
        run_recbole("BERT4Rec", "toy", config_dict=dict(options), saved=False)
        print(sorted(path.suffix for path in Path().rglob("saved/*") if path.is_file()))
        found = run_recbole("BERT4Rec", "toy", config_dict=dict(options))
        print(sorted(path.suffix for path in Path("saved").iterdir()))
        (file,) = Path("saved").glob("*.pth")
        sys.argv.pop()
        config, model, dataset, train, valid, test = load_data_and_model(str(file))
        print(type(model).__module__, config["hidden_size"], "ndcg@10" in found["test_result"])
    """)
    assert python(program, folder=tmp_path / "theirs") == [
        "[]",
        "['.pth']",
        "recbole_bert4rec.plugin.model 8 True",
    ]


def test_a_line_with_more_columns_than_the_header_is_read_as_in_recbole_and_refused_in_our_programs(
    write_inter: Any,
) -> None:
    rows = [*ROWS[:9], (*ROWS[9], "beyond"), *ROWS[10:]]
    data = write_inter(rows, header=HEADER)
    program = f"""
        import recbole_bert4rec
        from recbole.config import Config
        from recbole.data import create_dataset
        options = {{**{QUIET!r}, "data_path": {data["data_path"]!r}}}
        print(create_dataset(Config("BERT4Rec", "toy", config_dict=options)).inter_num)
        try:
            recbole_bert4rec.run(model="BERT4Rec", dataset="toy", options=options)
        except recbole_bert4rec.UserError as error:
            print("line 11" in str(error))
    """
    assert python(program) == [str(len(ROWS)), "True"]
