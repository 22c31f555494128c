"""exclude_seen for every model: the ranking equals a naive one, and targets stay."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

from recbole_bert4rec.errors import UserError
from recbole_bert4rec.training.seen import Interactions, SeenRule
from tests.conftest import make_config, make_trainer

LEAVE_ONE_OUT = {"split": {"LS": "valid_and_test"}, "order": "TO", "group_by": "user", "mode": "full"}


def log() -> list[tuple[str, str, int]]:
    """Users who come back to their items, also to their targets."""
    draw = random.Random(5)
    return [(f"u{u}", f"i{draw.randrange(12)}", t) for u in range(30) for t in range(5 + u % 6)]


def start(model: str, write_inter: Any, **options: Any) -> tuple[Any, Any, Any]:
    sizes: dict[str, Any] = {"MAX_ITEM_LIST_LENGTH": 4, "eval_batch_size": 7, "topk": [5], "valid_metric": "MRR@5"}
    sizes["load_col"] = {"inter": ["user_id", "item_id", "timestamp"]}
    config = make_config(model, **sizes, **{"eval_args": LEAVE_ONE_OUT, **options}, **write_inter(log()))
    dataset, train, *evaluation = prepare_with_interactions(config)
    trainer = make_trainer(config, train)
    trainer.eval_collector.data_collect(train)
    trainer._train_epoch(train, 0)  # Pop counts
    return trainer, dataset, evaluation


def prepare_with_interactions(config: Any) -> Any:
    from recbole.data import create_dataset, data_preparation

    dataset = create_dataset(config)
    return (Interactions(dataset.inter_feat, dataset), *data_preparation(config, dataset))


def scores_of(trainer: Any, loader: Any) -> dict[int, tuple[int, Any]]:
    """Target and scores of each user."""
    found = {}
    rank = trainer._full_sort_batch_eval

    def listening(batch: Any) -> Any:
        interaction, scores, positive_u, positive_i = rank(batch)
        users = interaction[trainer.config["USER_ID_FIELD"]].tolist()
        found.update({u: (int(i), s.clone()) for u, i, s in zip(users, positive_i, scores, strict=True)})
        return interaction, scores, positive_u, positive_i

    trainer._full_sort_batch_eval = listening
    trainer.evaluate(loader, load_best_model=False)
    trainer._full_sort_batch_eval = rank
    return found


@pytest.mark.parametrize("exclude", [True, False])
@pytest.mark.parametrize("model", ["SASRec", "Pop", "BPR"])
@pytest.mark.parametrize("phase", [0, 1])
def test_what_is_ranked_equals_a_naive_rule(model: str, exclude: bool, phase: int, write_inter: Any) -> None:
    trainer, interactions, loaders = start(model, write_inter)
    SeenRule(trainer, exclude, interactions, *loaders)
    dataset = loaders[phase].dataset
    tokens = [dataset.field2id_token[field] for field in (dataset.uid_field, dataset.iid_field)]
    histories: dict[str, list[str]] = {}
    for user, item, _ in log():
        histories.setdefault(user, []).append(item)
    found = scores_of(trainer, loaders[phase])
    assert len(found) == 30
    for user, (target, scores) in found.items():
        items = histories[tokens[0][user]]
        before = items[: len(items) - 2 + phase]
        assert tokens[1][target] == items[len(items) - 2 + phase]
        wanted = {0} | ({i for i in range(1, len(scores)) if tokens[1][i] in before} - {target} if exclude else set())
        assert {i for i, score in enumerate(scores) if score == -torch.inf} == wanted


def test_bert4rec_and_the_rule_for_others_take_the_same_items_out(write_inter: Any) -> None:
    ours, _, evaluation = start("BERT4Rec", write_inter, exclude_seen=True, metrics=["GAUC", "MRR"])
    trainer, interactions, loaders = start("SASRec", write_inter)
    SeenRule(trainer, True, interactions, *loaders)
    for phase in (0, 1):
        a, b = scores_of(ours, evaluation[phase]), scores_of(trainer, loaders[phase])
        assert a.keys() == b.keys()
        for user in a:
            assert a[user][0] == b[user][0]
            assert torch.equal(a[user][1] == -torch.inf, b[user][1] == -torch.inf)


def test_training_counts_leave_the_targets_out(write_inter: Any) -> None:
    _, interactions, loaders = start("SASRec", write_inter)
    counts = interactions.training_counts(loaders)
    assert counts.sum() == len(log()) - 2 * 30
    assert counts[0] == 0
    assert (counts >= 0).all()


def test_a_split_with_several_targets_a_user_is_refused(write_inter: Any) -> None:
    split = {"split": {"RS": [0.4, 0.3, 0.3]}, "order": "TO", "group_by": "user", "mode": "full"}
    trainer, interactions, loaders = start("SASRec", write_inter, eval_args=split)
    with pytest.raises(UserError, match="several valid targets"):
        SeenRule(trainer, True, interactions, *loaders)


def test_a_sequence_of_users_may_come_in_any_order(write_inter: Any) -> None:
    trainer, interactions, loaders = start("SASRec", write_inter)
    rule = SeenRule(trainer, True, interactions, *loaders)
    rule._loader = loaders[1]
    users = np.array([9, 3, 3, 20])
    rows, items = rule._seen(users)
    for place, user in enumerate(users):
        alone = rule._seen(np.array([user]))[1]
        assert sorted(items[rows == place]) == sorted(alone)
