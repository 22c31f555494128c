"""One pass over a window trains RecBole's causal models as their prefix rows do."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from recbole_bert4rec.errors import UserError
from recbole_bert4rec.plugin.user_rows import CAUSAL_MODELS
from tests.conftest import histories_to_rows, make_config, make_trainer, prepare

HISTORIES = {f"u{u}": [f"i{(3 * u + t * (u % 4 + 1)) % 14}" for t in range(4 + u)] for u in range(9)}
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
    "topk": [3],
    "metrics": ["MRR"],
    "valid_metric": "MRR@3",
}


def options_of(model: str, write_inter: Any, tmp_path: Any) -> dict[str, Any]:
    data = write_inter(histories_to_rows(HISTORIES))
    if not model.endswith("F"):
        return {**SMALL, **data}
    lines = ["item_id:token\tkind:token", *(f"i{i}\tk{i % 3}" for i in range(14))]
    (tmp_path / "data" / "toy" / "toy.item").write_text("\n".join(lines) + "\n")
    columns = {"inter": ["user_id", "item_id", "timestamp"], "item": ["item_id", "kind"]}
    return {**SMALL, **data, "load_col": columns, "selected_features": ["kind"], "pooling_mode": "sum"}


@pytest.mark.parametrize("model", CAUSAL_MODELS)
def test_gradients_are_those_of_the_prefix_rows(model: str, write_inter: Any, tmp_path: Any) -> None:
    options = {**options_of(model, write_inter, tmp_path), "MAX_ITEM_LIST_LENGTH": 12}
    found = []
    for rows in (None, "user"):
        config = make_config(model, **options, training_rows=rows)
        _, train, _, _ = prepare(config)
        own = make_trainer(config, train).model
        (batch,) = train
        loss = own.calculate_loss(batch)
        loss.backward()
        found.append((loss.detach(), {name: one.grad for name, one in own.named_parameters()}))
    torch.testing.assert_close(found[1][0], found[0][0], atol=1e-5, rtol=1e-5)
    for name, gradient in found[0][1].items():
        torch.testing.assert_close(found[1][1][name], gradient, atol=1e-5, rtol=1e-4, msg=name)


@pytest.mark.parametrize("model", ["SASRec", "GRU4Rec"])
@pytest.mark.parametrize("mode", ["full", "pop5"])
def test_they_are_judged_on_the_same_rows(model: str, mode: str, write_inter: Any, tmp_path: Any) -> None:
    options = options_of(model, write_inter, tmp_path)
    results = []
    for rows in (None, "user"):
        config = make_config(model, **options, training_rows=rows, eval_args={"mode": mode}, MAX_ITEM_LIST_LENGTH=5)
        _, train, valid, test = prepare(config)
        trainer = make_trainer(config, train)
        trainer.eval_collector.data_collect(train)
        results.append([trainer.evaluate(loader, load_best_model=False) for loader in (valid, test)])
    assert results[0] == results[1]


def test_every_label_of_a_long_history_is_trained_once_and_the_batches_are_as_many(write_inter: Any) -> None:
    data = write_inter([(user, f"i{t % 17}", t) for user in "abcd" for t in range(43)])
    config = make_config(
        "SASRec", **{**SMALL, **data, "train_batch_size": 20, "MAX_ITEM_LIST_LENGTH": 10}, training_rows="user"
    )
    _, train, valid, _ = prepare(config)
    labels = sum(int((batch["item_length"] - 1).sum()) for batch in train)
    assert labels == 4 * 40
    trainer = make_trainer(config, train)
    trainer.fit(train, valid, verbose=False)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"training_rows": "all"}, "`training_rows` must be one of"),
        (
            {"loss_type": "BPR", "train_neg_sample_args": {"distribution": "uniform", "sample_num": 1}},
            "needs `loss_type` CE",
        ),
    ],
    ids=["value", "loss"],
)
def test_what_cannot_be_trained_so_is_refused(given: dict[str, Any], said: str, write_inter: Any) -> None:
    data = write_inter(histories_to_rows(HISTORIES))
    config = make_config("SASRec", **{**data, **SMALL, "training_rows": "user", **given})
    with pytest.raises(UserError, match=said):
        prepare(config)


def test_other_models_say_that_it_has_no_effect(write_inter: Any, caplog: pytest.LogCaptureFixture) -> None:
    data = write_inter(histories_to_rows(HISTORIES))
    make_config("Caser", **data, **SMALL, training_rows="user")
    assert "`training_rows` is for GRU4Rec, GRU4RecF, SASRec, SASRecF and has no effect on Caser" in caplog.text
