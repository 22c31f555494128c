"""One contract for every objective, loss, norm, position and window: what holds after a real training step."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch

from recbole_bert4rec.system.constants import LOSSES, PADDING, SAMPLED_LOSSES
from tests.helpers.data import histories_to_rows, overlapping_histories
from tests.helpers.runs import MRR_OF_3, make_config, make_trainer, prepare

HISTORIES = overlapping_histories(10)
SMALL = {
    "epochs": 1,
    "MAX_ITEM_LIST_LENGTH": 6,
    "hidden_size": 8,
    "inner_size": 16,
    "n_layers": 2,
    "n_heads": 2,
    "n_negatives": 5,
    "learning_rate": 0.05,
    "warmup_steps": 0,
    **MRR_OF_3,
}

NAMES = ("objective", "loss_type", "norm", "position", "window", "sparse_update")
VALUES = (("cloze", "next", "prefix"), LOSSES, ("post", "pre"), ("start", "end", "none", "relative"))
CHOICES = [
    (objective, loss, norm, position, window, sparse)
    for objective, loss, norm, position, window, sparse in itertools.product(
        *VALUES, ("random", "last", "sliding"), (False, True)
    )
    if (objective == "cloze" or ((norm, position) == ("post", "relative") and window != "last"))
    and (not sparse or (loss in SAMPLED_LOSSES and window == "random"))
]
FAST = 13  # of so many choices one is in the fast suite: each value of each option then is
assert {*itertools.chain(*CHOICES)} == {*itertools.chain(*CHOICES[::FAST])}


@pytest.mark.parametrize(
    "choice",
    [pytest.param(one, marks=pytest.mark.slow if number % FAST else ()) for number, one in enumerate(CHOICES)],
    ids=lambda choice: "-".join(map(str, choice)),
)
def test_after_a_training_step_the_contract_holds(choice: tuple[Any, ...], write_inter: Any) -> None:
    options = dict(zip(NAMES, choice, strict=True))
    config = make_config(**write_inter(histories_to_rows(HISTORIES)), **SMALL, **options)
    _, train, valid, test = prepare(config)
    trainer = make_trainer(config, train)
    model = trainer.model
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}

    trainer.fit(train, valid, verbose=False)
    assert math.isfinite(trainer.train_loss_dict[0])
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        gradient = parameter.grad.to_dense()
        assert gradient.isfinite().all(), name
        assert gradient.abs().sum() > 0, name
        assert not torch.equal(parameter, before[name]), name
    embedding = model.encoder.item_embedding
    assert embedding.weight.grad.is_sparse is options["sparse_update"]
    assert embedding.weight[PADDING].abs().sum() == 0

    model.eval()
    rows = test.dataset[torch.arange(len(test.dataset))]
    nothing = (torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64))
    with torch.no_grad():
        scores = model.full_sort_predict(rows)
        _, items = model.best_items(rows, model.n_items - 1, nothing)
        alone = torch.cat([model.full_sort_predict(rows[torch.tensor([n])]) for n in range(len(rows))])
    assert scores.shape == (len(HISTORIES), model.n_items)
    assert all(sorted(row) == list(range(1, model.n_items)) for row in items.tolist())  # neither [PAD] nor [MASK]
    torch.testing.assert_close(alone, scores, atol=1e-5, rtol=1e-5)

    again = make_trainer(config, train)
    again.resume_checkpoint(trainer.saved_model_file)
    with torch.no_grad():
        assert torch.equal(again.model.eval().full_sort_predict(rows), scores)
