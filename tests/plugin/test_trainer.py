"""The training: its batches, its updates, its best epoch kept, the same again from the same seed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from recbole.utils.case_study import full_sort_topk

from recbole_bert4rec import checkpoints
from recbole_bert4rec.system.errors import UserError
from tests.helpers.data import histories_to_rows
from tests.helpers.runs import make_config, make_trainer, prepare
from tests.helpers.small import SMALL, equal, start, weights


def test_the_same_seed_gives_the_same_result_bit_for_bit_twice(options: dict) -> None:
    results = []
    for _ in range(2):
        trainer, train, valid, test = start(**options, epochs=2)
        results.append((trainer.fit(train, valid, verbose=False), trainer.evaluate(test), weights(trainer)))
    assert results[0][:2] == results[1][:2]
    assert equal(results[0][2], results[1][2])
    other, train, valid, _ = start(**options, epochs=2, seed=7)
    other.fit(train, valid, verbose=False)
    assert not equal(results[0][2], weights(other))


@pytest.mark.parametrize("split", ["valid_and_test", "valid_only"])
def test_the_best_epoch_is_loaded_for_the_test_also_where_there_is_none(options: dict, split: str) -> None:
    arguments = {"split": {"LS": split}, "order": "TO", "mode": "full"}
    trainer, train, valid, test = start(**options, epochs=5, eval_args=arguments)
    trainer.fit(train, valid, verbose=False)
    state = checkpoints.read(trainer.saved_model_file)
    later = {**state, "state_dict": {name: torch.ones_like(value) for name, value in state["state_dict"].items()}}
    checkpoints.write(checkpoints.last_of(trainer.saved_model_file), later)  # of an epoch after the best
    for parameter in trainer.model.parameters():
        parameter.data.zero_()
    assert (trainer.evaluate(test) is None) == (split == "valid_only")
    assert equal(state["state_dict"], weights(trainer))
    again = trainer.evaluate(valid, load_best_model=False)
    assert dict(again) == state["best_valid_result"] == trainer.best_valid_result


@pytest.mark.parametrize("more", [{}, {"objective": "next"}], ids=str)
def test_recboles_case_study_works(options: dict, more: dict) -> None:
    trainer, _, _, test = start(**options, **more)
    users = test.dataset.inter_feat["user_id"][:3].tolist()
    scores, items = full_sort_topk(users, trainer.model, test, k=4)
    assert scores.shape == items.shape == (3, 4)
    assert (items > 0).all()
    scores, items = full_sort_topk([0], trainer.model, test, k=4)  # nobody's row
    assert scores.shape == items.shape == (0, 4)


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


def test_an_epoch_shows_every_sequence_dupe_factor_times(options: dict) -> None:
    trainer, train, *_ = start(**options, dupe_factor=3, epochs=1)
    users = torch.cat([batch["user_id"] for batch in train])
    assert (users.bincount()[1:] == 3).all()
    assert len(train) == -(-3 * 30 // 4)
    trainer.fit(train, saved=False, verbose=False)
    assert trainer.step_count == len(train)


def test_worker_processes_give_the_same_batches(options: dict) -> None:
    alone, helped = (prepare(make_config(**options, worker=workers))[1] for workers in (0, 2))
    for a, b in zip(alone, helped, strict=True):
        assert torch.equal(a["item_id_list"], b["item_id_list"])


@pytest.mark.parametrize(("window", "epochs"), [("random", 60), ("sliding", 1), ("last", 1)])
def test_every_training_item_is_shown_in_its_order_and_no_other_or_the_most_recent_ones(
    window: str, epochs: int, write_inter: Any
) -> None:
    histories = {f"u{u}": [f"i{u}-{t}" for t in range(3 + u % 12)] for u in range(1, 31)}
    log = write_inter(histories_to_rows(histories))
    dataset, train, *_ = prepare(make_config(**{**SMALL, **log, "MAX_ITEM_LIST_LENGTH": 4}, window=window))
    users, items = (dataset.field2id_token[field] for field in ("user_id", "item_id"))
    # validation and test hold out the last two, and of three items the last
    trained = {user: own[:-2] if len(own) > 3 else own[:-1] for user, own in histories.items()}
    shown: dict[str, set[str]] = {}
    for _ in range(epochs):
        for batch in train:
            for user, row in zip(batch["user_id"].tolist(), batch["item_id_list"].tolist(), strict=True):
                own = [items[item] for item in row if item]
                first = trained[users[user]].index(own[0])
                assert own == trained[users[user]][first : first + 4][: len(own)]
                shown.setdefault(users[user], set()).update(own)
    assert shown == {user: set(own[-4:] if window == "last" else own) for user, own in trained.items()}


def test_without_shuffling_the_batches_of_every_epoch_are_the_same(options: dict) -> None:
    _, train, *_ = prepare(make_config(**{**options, "MAX_ITEM_LIST_LENGTH": 4}, window="last", shuffle=False))
    batches = [torch.cat([b["user_id"] for b in train]).tolist() for _ in range(2)]
    assert batches[0] == batches[1] == sorted(batches[0])
