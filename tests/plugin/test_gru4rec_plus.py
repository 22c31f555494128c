"""GRU4Rec+ on our sequences and loaders: its loss, what a position sees, its scores and its options."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from recbole.data.interaction import Interaction

from recbole_bert4rec.core.losses import bpr_max, sampled_scores, sampled_softmax
from recbole_bert4rec.system.errors import UserError
from tests.helpers.data import histories_to_rows, overlapping_histories
from tests.helpers.runs import MRR_OF_3, make_config, make_trainer, prepare

SMALL = {"embedding_size": 8, "hidden_size": 12, "dropout_prob": 0.0, "n_sample": 20, "epochs": 2, **MRR_OF_3}


def made(write_inter: Any, **more: Any) -> tuple[Any, Any, Any]:
    data = write_inter(histories_to_rows(overlapping_histories(9)))
    _, train, valid, _ = prepare(make_config("GRU4RecPlus", **{**data, **SMALL, **more}))
    return make_trainer(train.config, train).model, train, valid


@pytest.mark.parametrize("n_sample", [0, 20])
@pytest.mark.parametrize("loss_type", ["BPR-max", "CE"])
def test_the_loss_is_that_of_every_prefix_on_its_own(loss_type: str, n_sample: int, write_inter: Any) -> None:
    model, train, _ = made(write_inter, loss_type=loss_type, n_sample=n_sample, train_batch_size=1000)
    (batch,) = train
    torch.manual_seed(3)
    found = model.calculate_loss(batch)
    torch.manual_seed(3)
    vectors, labels = [], []
    for items, length in zip(batch["item_id_list"], batch["item_length"].tolist(), strict=True):
        for end in range(1, length):
            vectors.append(model(items[:end].unsqueeze(0))[0, -1])
            labels.append(items[end])
    label = torch.stack(labels)
    drawn = model.negatives.draw_items(n_sample, torch.default_generator)
    arguments = torch.stack(vectors), model._outputs, label
    scores = sampled_scores(*arguments, torch.cat([label, drawn]))
    weights = torch.full((len(label),), 1 / len(label))
    wanted = bpr_max(scores, weights, 1.0)
    if loss_type == "CE":
        wanted = sampled_softmax(scores, torch.zeros(len(label) + n_sample), weights)
    torch.testing.assert_close(found, wanted)


def test_a_candidate_scores_as_in_the_full_ranking_and_padding_changes_nothing(write_inter: Any) -> None:
    model, _, _ = made(write_inter)
    histories = torch.tensor([[3, 1, 4, 0, 0], [2, 7, 1, 8, 2]])
    rows = Interaction(
        {"item_id_list": histories, "item_length": torch.tensor([3, 5]), "item_id": torch.tensor([5, 9])}
    )
    scores = model.full_sort_predict(rows)
    assert scores.shape == (2, model.n_items)
    torch.testing.assert_close(model.predict(rows), scores[[0, 1], [5, 9]])
    short = Interaction({"item_id_list": histories[:1, :3], "item_length": torch.tensor([3])})
    torch.testing.assert_close(model.full_sort_predict(short)[0], scores[0])


def test_all_bad_values_are_named_at_once() -> None:
    bad = {"loss_type": "TOP1", "n_sample": -1, "sample_alpha": 2, "bpreg": "much", "dropout_prob": 1}
    with pytest.raises(UserError) as error:
        make_config("GRU4RecPlus", **bad, training_rows=None, n_samples=3)
    for name in (*bad, "training_rows", "n_samples"):
        assert f"`{name}`" in str(error.value)
