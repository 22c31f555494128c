"""One pass over a window trains RecBole's causal models as their prefix rows do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from recbole.quick_start import load_data_and_model, run_recbole

from recbole_bert4rec.experiments.compare import contestants_of
from recbole_bert4rec.experiments.equal_rows import check_equal_rows
from recbole_bert4rec.plugin.config import CAUSAL_MODELS
from recbole_bert4rec.plugin.loader import WindowDataLoader
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.inputs import user_layers
from tests.helpers.data import histories_to_rows, overlapping_histories
from tests.helpers.runs import MRR_OF_3, QUIET, make_config, make_trainer, prepare

HISTORIES = overlapping_histories(9)
SMALL = {
    "hidden_size": 16,
    "inner_size": 32,
    "embedding_size": 16,
    "hidden_dropout_prob": 0.0,
    "attn_dropout_prob": 0.0,
    "dropout_prob": 0.0,
    "loss_type": "CE",
    "train_batch_size": 1000,
    "epochs": 2,
    **MRR_OF_3,
}


@pytest.mark.parametrize("model", CAUSAL_MODELS)
def test_gradients_are_those_of_the_prefix_rows(model: str, write_inter: Any) -> None:
    options, found = {**SMALL, **write_inter(histories_to_rows(HISTORIES)), "MAX_ITEM_LIST_LENGTH": 12}, []
    for rows in (None, "user"):
        config = make_config(model, **options, training_rows=rows)
        _, train, _, _ = prepare(config)
        own = make_trainer(config, train).model
        (batch,) = train
        loss = own.calculate_loss(batch)
        loss.backward()
        found.append({"loss": loss.detach(), **{name: one.grad for name, one in own.named_parameters()}})
    torch.testing.assert_close(found[1], found[0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("model", "mode"), [("SASRec", "full"), ("GRU4Rec", "pop5")])
def test_they_are_judged_on_the_same_rows(model: str, mode: str, write_inter: Any) -> None:
    options = {**SMALL, **write_inter(histories_to_rows(HISTORIES))}
    results = []
    for rows in (None, "user"):
        config = make_config(model, **options, training_rows=rows, eval_args={"mode": mode}, MAX_ITEM_LIST_LENGTH=5)
        _, train, valid, test = prepare(config)
        trainer = make_trainer(config, train)
        trainer.eval_collector.data_collect(train)
        results.append([trainer.evaluate(loader, load_best_model=False) for loader in (valid, test)])
    assert results[0] == results[1]


@pytest.mark.parametrize("length", [4, 11, 12, 22, 35])
def test_every_label_of_a_history_is_trained_once(length: int, write_inter: Any) -> None:
    data = write_inter([(user, f"i{t % 17}", t) for user in "abcd" for t in range(length)])
    options = {**SMALL, **data, "train_batch_size": 20, "MAX_ITEM_LIST_LENGTH": 10}
    _, train, _, _ = prepare(make_config("SASRec", **options, training_rows="user"))
    _, rows, _, _ = prepare(make_config("SASRec", **options))
    found = [label for batch in train for label in batch["item_id_list"][:, 1:].flatten().tolist() if label]
    assert sorted(found) == sorted(rows._dataset.inter_feat["item_id"].tolist())


def test_recboles_own_program_trains_gru4rec_plus_on_windows_and_loads_what_it_trained(write_inter: Any) -> None:
    data = write_inter(histories_to_rows(HISTORIES))
    options = {**QUIET, **SMALL, **data, "MAX_ITEM_LIST_LENGTH": 6}
    result = run_recbole("GRU4RecPlus", options.pop("dataset"), config_dict=options)
    assert result["best_valid_result"]
    (file,) = Path("saved").glob("GRU4RecPlus-*.pth")
    _, loaded, _, train, _, _ = load_data_and_model(str(file))  # this process saved it
    assert isinstance(train, WindowDataLoader)
    assert loaded.calculate_loss(next(iter(train))).isfinite()


def test_options_of_our_models_change_nothing(write_inter: Any) -> None:
    data = write_inter([(user, f"i{t % 17}", t) for user in "abcdef" for t in range(9)])
    found = []
    for more in ({}, {"valid_users": 3, "exact_time": True}):
        config = make_config("SASRec", **SMALL, **data, **more, training_rows="user")
        _, train, valid, _ = prepare(config)
        found.append((len(valid._dataset.inter_feat), sorted(next(iter(train)).interaction)))
    assert found[0] == found[1] == (6, ["item_id_list", "item_length", "user_id"])


def test_a_data_set_is_saved_and_read_again_with_its_rows(write_inter: Any) -> None:
    data = write_inter(histories_to_rows(HISTORIES))
    config = make_config("SASRec", **SMALL, **data, training_rows="user", save_dataset=True)
    prepare(config)
    (file,) = Path("saved").glob("*.pth")
    assert "BERT4RecDataset" in file.name
    data |= {"training_rows": "user", "dataset_save_path": str(file), "trust_pickles": True}
    _, train, _, _ = prepare(make_config("SASRec", **SMALL, **data))
    assert len(train.users) == len(HISTORIES)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"training_rows": "all"}, "`training_rows`"),
        ({"loss_type": "BPR", "train_neg_sample_args": {"distribution": "uniform", "sample_num": 1}}, "`loss_type`"),
    ],
    ids=["value", "loss"],
)
def test_what_cannot_be_trained_so_is_refused(given: dict[str, Any], named: str, write_inter: Any) -> None:
    data = write_inter(histories_to_rows(HISTORIES))
    with pytest.raises(UserError, match=named):
        prepare(make_config("SASRec", **{**data, **SMALL, "training_rows": "user", **given}))


def test_a_comparison_notices_histories_in_another_order(write_inter: Any) -> None:
    """RecBole's float32 merges the two first times of each user, which the file has the wrong way round."""
    day = 1_700_000_000
    rows = [(f"u{u}", f"i{(u + t) % 9}", day + (2 - t if t < 2 else 1000 * t)) for u in range(9) for t in range(6)]
    rules = {"data_path": write_inter(rows)["data_path"], "topk": "[3]", "metrics": "['MRR']", "valid_metric": "MRR@3"}

    def check(**asked: str) -> None:
        contestants = contestants_of(["BERT4Rec", "SASRec"], {}, user_layers(rules | asked, (), {}))
        check_equal_rows(contestants["BERT4Rec"], contestants, "toy")

    for more in ({}, {"training_rows": "user"}):
        with pytest.raises(UserError, match="SASRec sees other histories"):
            check(exact_time="True", **more)
    check(training_rows="user")
