"""RecBole's models rank sampled candidates from one encoding of each history, with RecBole's scores."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from recbole.trainer import Trainer

from recbole_bert4rec.plugin.candidates import ENCODED_ONCE
from tests.helpers.runs import make_config, make_trainer, prepare

ROWS = [(f"u{user}", f"i{(3 * user + 2 * step) % 31}", step) for user in range(40) for step in range(4 + user % 5)]


def evaluated(model: str, write_inter: Any, **more: Any) -> tuple[Any, list[Any]]:
    """A trainer of a model that is not trained, and its batches of validation."""
    options = {**write_inter(ROWS), "eval_args": {"mode": "uni20"}, "eval_batch_size": 100, **more}
    if model == "GRU4RecPlus":
        options["train_neg_sample_args"] = None
    config = make_config(model=model, **options)
    _, train, valid, _ = prepare(config)
    trainer = make_trainer(config, train)
    trainer.tot_item_num, trainer.model = valid._dataset.item_num, trainer.model.eval()
    return trainer, list(valid)


@pytest.mark.parametrize("model", ENCODED_ONCE)
def test_scores_of_candidates_are_recboles_and_each_history_is_encoded_once(model: str, write_inter: Any) -> None:
    trainer, batches = evaluated(model, write_inter)
    with torch.no_grad():
        wanted = [Trainer._neg_sample_batch_eval(trainer, batch) for batch in batches]
        trainer.model.predict = None  # it is not asked for single items
        found = [trainer._neg_sample_batch_eval(batch) for batch in batches]
    assert len(found) > 1
    for (_, scores, users, items), (_, others, other_users, other_items) in zip(found, wanted, strict=True):
        assert torch.equal(torch.isinf(scores), torch.isinf(others))
        assert int((~torch.isinf(scores)).sum(1).min()) > 10  # uni20 draws with replacement
        assert torch.allclose(scores, others, atol=1e-5)
        of_item = [column[~torch.isinf(column)].unique() for column in others.T]
        assert any(len(scores_of_users) > 1 for scores_of_users in of_item)
        assert torch.equal(users, other_users)
        assert torch.equal(items, other_items)


@pytest.mark.parametrize(
    ("model", "more"), [("NeuMF", {}), ("GRU4Rec", {"eval_args": {"split": {"RS": [6, 2, 2]}, "mode": "uni20"}})]
)
def test_other_models_and_users_of_several_targets_are_ranked_as_recbole_ranks_them(
    model: str, more: dict[str, Any], write_inter: Any
) -> None:
    trainer, batches = evaluated(model, write_inter, **more)
    with torch.no_grad():
        for batch in batches:
            found, wanted = trainer._neg_sample_batch_eval(batch)[1], Trainer._neg_sample_batch_eval(trainer, batch)[1]
            assert torch.allclose(found, wanted, atol=1e-6)
