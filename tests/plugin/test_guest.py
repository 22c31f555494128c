"""A plain import is a guest in RecBole: other models, and programs of others, are as they are without it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.data import inter_writer
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
OWN = {**SOFTMAX, "transform": "mask_itemseq", "mask_ratio": 0.3, "n_heads": 1, "inner_size": 8}


OF_ITS_OWN = """
import argparse
from recbole.data.dataset import SequentialDataset
from recbole.model.sequential_recommender import BERT4Rec as Ours
from recbole.model.abstract_recommender import SequentialRecommender
from recbole.model.sequential_recommender import SASRec as Theirs
from recbole.trainer import Trainer
from recbole.quick_start import load_data_and_model, run_recbole
from recbole.utils import InputType

print([name for name, value in own.items() if mine[name] is not value])
sys.argv = ["theirs.py", "--output_dir=out", "--top_n=10"]
flags = argparse.ArgumentParser()
flags.add_argument("--output_dir")
flags.add_argument("--top_n")
flags.parse_args()
options = {**asked["options"], "train_neg_sample_args": None}

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
    config = Config(model, "toy", config_dict={**options, **defaults, "my_alpha": 0.5, "my_note": "x"})
    dataset = MyDataset(config)
    made = create_dataset(config)
    train, valid, test = data_preparation(config, dataset)
    trainer = MyTrainer(config, model(config, train.dataset))
    trainer.fit(train, valid, saved=False)
    metrics = trainer.evaluate(test, load_best_model=False)
    print(type(made).__name__, type(train).__name__, trainer.note, dataset.note, "ndcg@10" in metrics)
print(Config("Pop", "toy", config_dict={**options, "my_note": 1, "device": "cuda", "gpu_id": -1})["my_note"])
config = Config("BERT4Rec", "toy", config_dict=options)
print("output_dir" in config.cmd_config_dict)
print(type(create_dataset(Config(Stock, "toy", config_dict={**options, "transform": "mask_itemseq"}))).__name__)

class Subclass(Ours):
    def calculate_loss(self, rows):
        return rows[self.MASK_ITEM_SEQ]

config = Config(Subclass, "toy", config_dict=options)
train, *_ = data_preparation(config, create_dataset(config))
for step in (
    lambda: data_preparation(config, MyDataset(config)),
    lambda: Subclass(config, train.dataset).calculate_loss(next(iter(train))),
):
    try:
        step()
    except Exception as error:
        print(type(error).__name__, error)
for saved in (False, True):
    found = run_recbole("BERT4Rec", "toy", config_dict=dict(options), saved=saved)
    print(sorted(path.suffix for path in Path().rglob("saved/BERT4Rec-*")))
sys.argv = sys.argv[:1]
config, model, *_ = load_data_and_model(str(*Path("saved").glob("BERT4Rec-*.pth")))
print(type(model).__module__, config["hidden_size"], "ndcg@10" in found["test_result"])
"""


def runs(mode: str, folder: Path, models: dict[str, Any], then: str = "") -> tuple[dict[str, Any], list[str]]:
    """What each model leaves, see ``tests/helpers/guest.py``; and what the same program prints afterwards."""
    data = inter_writer(folder)(ROWS, header=HEADER)
    options = {**QUIET, **SMALL, "data_path": "data"}
    asked = json.dumps({"dataset": data["dataset"], "options": options, "models": models})
    lines = python(GUEST.read_text("utf-8") + then, mode, asked, folder=folder)
    return dict(map(json.loads, lines[: len(models)])), lines[len(models) :]


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], list[str]]:
    return runs("guest", tmp_path_factory.mktemp("guest"), {**SIX, "RecBoleBERT4Rec": OWN}, then=OF_ITS_OWN)


def test_six_models_are_bit_for_bit_as_without_the_import_and_recboles_bert4rec_under_its_other_name(
    guest: tuple[dict[str, Any], list[str]], tmp_path: Path
) -> None:
    stock, _ = runs("stock", tmp_path, {**SIX, "BERT4Rec": OWN})
    assert {model: guest[0][model] for model in SIX} == {model: stock[model] for model in SIX}
    assert all(isinstance(found, dict) for found in stock.values())
    for result in ("losses", "validation", "test", "weights"):
        assert guest[0]["RecBoleBERT4Rec"][result] == stock["BERT4Rec"][result]


@pytest.mark.slow
def test_models_of_all_families_are_bit_for_bit_as_without_the_import(tmp_path: Path) -> None:
    (stock, _), (guest, _) = (runs(mode, tmp_path / mode, MORE) for mode in ("stock", "guest"))
    run = {model: found for model, found in stock.items() if isinstance(found, dict)}  # on these libraries
    assert {model: guest[model] for model in run} == run
    assert len(SIX) + len(run) >= 25, MORE.keys() - run.keys()


def test_a_programs_own_names_flags_keys_and_classes_are_its_own_and_it_trains_our_model_or_is_refused_by_name(
    guest: tuple[Any, list[str]],
) -> None:
    unchanged, *trained, note, flag, of_stock, dataset, field, unsaved, saved, loaded = guest[1]
    assert unchanged == "[]"
    assert trained == ["SequentialDataset TrainDataLoader x x True"] * 2
    assert (note, flag, of_stock) == ("1", "True", "SequentialDataset")
    assert dataset.startswith("UserError ")
    assert "MyDataset" in dataset
    assert field.startswith("AttributeError ")
    assert "MASK_ITEM_SEQ" in field
    assert (unsaved, loaded) == ("[]", "recbole_bert4rec.plugin.model 8 True")
    assert saved == "['.pth']"
