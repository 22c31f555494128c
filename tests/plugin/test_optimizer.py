"""What is decayed, which learners train, and which ways of updating are refused."""

from __future__ import annotations

import pytest
import torch

from recbole_bert4rec.system.errors import UserError
from tests.helpers.runs import make_config, make_trainer
from tests.helpers.small import equal, start, weights


def test_weight_decay_spares_layer_norms_and_biases(options: dict) -> None:
    trainer, *_ = start(**options, weight_decay=0.3)
    decayed, spared = trainer.optimizer.param_groups
    names = {id(p): n for n, p in trainer.model.named_parameters()}
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.3, 0.0)
    assert all("norm" in names[id(p)] or names[id(p)].endswith("bias") for p in spared["params"])
    assert all(names[id(p)].endswith("weight") and p.dim() == 2 for p in decayed["params"])
    assert len(decayed["params"]) + len(spared["params"]) == len(names)


@pytest.mark.parametrize("learner", ["adam", "adamw", "sgd", "adagrad", "rmsprop"])
def test_every_learner_of_recbole_trains(options: dict, learner: str) -> None:
    trainer, train, *_ = start(**options, learner=learner, epochs=1)
    before = weights(trainer)
    trainer.fit(train, saved=False, verbose=False)
    assert type(trainer.optimizer).__name__.lower() == learner
    assert not equal(before, weights(trainer))


def test_untouched_embeddings_are_decayed_by_the_end_of_an_epoch(options: dict) -> None:
    more = {"loss_type": "sampled_softmax", "n_negatives": 1, "sparse_update": True, "lr_schedule": "constant"}
    more |= {"weight_decay": 0.5, "warmup_steps": 0, "learning_rate": 0.01, "epochs": 1}
    trainer, train, *_ = start(**{**options, **more})
    table = trainer.model.encoder.item_embedding.weight
    table.data[0] = 1.0  # padding: no step touches it
    trainer.fit(train, saved=False, verbose=False)
    torch.testing.assert_close(table[0], torch.full_like(table[0], (1 - 0.01 * 0.5) ** len(train)))


def test_sparse_updates_are_refused_in_several_processes(options: dict) -> None:
    more = {"loss_type": "BCE", "sparse_update": True}
    _, train, *_ = start(**options)
    config = make_config(**{**options, **more}, hidden_dropout_prob=0.1, negatives="uniform")
    config["single_spec"] = False
    with pytest.raises(UserError, match="sparse_update"):
        make_trainer(config, train)
