"""The training loop: repeatable, its best epoch kept, its averaged weights ranked with, RecBole's tools at home."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from recbole.utils.case_study import full_sort_topk

from recbole_bert4rec.plugin import checkpoint
from tests.unit.conftest import equal, start, weights


def test_the_same_seed_gives_the_same_result_bit_for_bit_twice(options: dict) -> None:
    results = []
    for _ in range(2):
        trainer, train, valid, test = start(**options, epochs=3)
        results.append((trainer.fit(train, valid, verbose=False), trainer.evaluate(test), weights(trainer)))
    assert results[0][:2] == results[1][:2]
    assert equal(results[0][2], results[1][2])
    other, train, valid, _ = start(**options, epochs=3, seed=7)
    other.fit(train, valid, verbose=False)
    assert not equal(results[0][2], weights(other))


def test_the_moving_average_of_the_weights_is_what_is_ranked_with_and_kept(options: dict) -> None:
    trainer, train, valid, test = start(**options, ema_decay=0.7, epochs=2)
    parameter = trainer.model.encoder.item_embedding.weight
    mean, steps, after = parameter.detach().clone(), 0, trainer._after_step

    def watch(*arguments: Any) -> None:
        nonlocal mean, steps
        steps += 1
        decay = min(0.7, (1 + steps) / (10 + steps))
        mean = decay * mean + (1 - decay) * parameter.detach()
        after(*arguments)

    trainer._after_step = watch
    trainer._train_epoch(train, 0)
    trained = parameter.detach().clone()
    ranked_with = []
    rank = trainer.model.best_items
    trainer.model.best_items = lambda *a: (ranked_with.append(parameter.detach().clone()), rank(*a))[1]
    trainer._valid_epoch(valid)
    torch.testing.assert_close(ranked_with[0], mean)
    assert torch.equal(parameter, trained)  # training goes on from its own weights
    assert not torch.allclose(trained, mean, atol=1e-4)
    trainer.item_tokens = ["[PAD]", "x"]
    trainer._save_checkpoint(0, verbose=False)
    kept = checkpoint.read(trainer.saved_model_file)["state_dict"]
    torch.testing.assert_close(kept["encoder.item_embedding.weight"], mean)
    trainer.evaluate(test)
    torch.testing.assert_close(ranked_with[-1], mean)
    trainer.evaluate(test, load_best_model=False)  # still the weights that were loaded
    torch.testing.assert_close(ranked_with[-1], mean)


def test_the_best_epoch_is_loaded_for_the_test(options: dict) -> None:
    trainer, train, valid, test = start(**options, epochs=5)
    trainer.fit(train, valid, verbose=False)
    state = checkpoint.read(trainer.saved_model_file)
    for parameter in trainer.model.parameters():
        parameter.data.zero_()
    trainer.evaluate(test)
    assert equal(state["state_dict"], weights(trainer))
    again = trainer.evaluate(valid, load_best_model=False)
    assert dict(again) == state["best_valid_result"] == trainer.best_valid_result


def test_without_a_test_part_the_best_weights_are_loaded_all_the_same(options: dict) -> None:
    arguments = {"split": {"LS": "valid_only"}, "order": "TO", "mode": "full"}
    trainer, train, valid, test = start(**options, epochs=2, eval_args=arguments)
    trainer.fit(train, valid, verbose=False)
    best = checkpoint.read(trainer.saved_model_file)["state_dict"]
    for parameter in trainer.model.parameters():
        parameter.data.zero_()
    assert trainer.evaluate(test) is None
    assert equal(best, weights(trainer))


def test_two_trainers_of_one_second_have_checkpoints_of_their_own(options: dict) -> None:
    names = {start(**options)[0].saved_model_file for _ in range(3)}
    assert len(names) == 3


@pytest.mark.parametrize("more", [{}, {"time_bias": True}, {"objective": "next"}], ids=str)
def test_recboles_case_study_works(options: dict, more: dict) -> None:
    trainer, _, _, test = start(**options, **more)
    users = test.dataset.inter_feat["user_id"][:3].tolist()
    scores, items = full_sort_topk(users, trainer.model, test, k=4)
    assert scores.shape == items.shape == (3, 4)
    assert (items > 0).all()
    scores, items = full_sort_topk([0], trainer.model, test, k=4)  # nobody's row
    assert scores.shape == items.shape == (0, 4)
