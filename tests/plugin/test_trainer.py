"""The training loop: repeatable, its best epoch kept, its averaged weights ranked with, RecBole's tools at home."""

from __future__ import annotations

import pytest
from recbole.utils.case_study import full_sort_topk

from recbole_bert4rec import checkpoints
from tests.helpers.small import equal, start, weights


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
