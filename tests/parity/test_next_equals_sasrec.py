"""With copied weights and no dropout, objective next has the hidden states and the loss of RecBole's SASRec."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from recbole.model.sequential_recommender.sasrec import SASRec
from torch import nn

from recbole_bert4rec.plugin.model import BERT4Rec
from tests.helpers.data import Catalogue, histories_to_rows, overlapping_histories
from tests.helpers.runs import make_config, make_trainer, prepare
from tests.helpers.stock import copy_weights

SIZE = {"hidden_size": 16, "inner_size": 32, "n_heads": 2}
SHARED = {**SIZE, "hidden_dropout_prob": 0.0, "attn_dropout_prob": 0.0, "position": "start"}
HISTORIES = overlapping_histories(9)


def copied(ours: BERT4Rec, theirs: nn.Module) -> None:
    torch.manual_seed(3)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.3)
    with torch.no_grad():
        theirs.item_embedding.weight[0] = 0
        mask_row = ours.encoder.item_embedding.weight[-1:]
    copy_weights(theirs, ours)
    ours.encoder.item_embedding.weight.data = torch.cat([theirs.item_embedding.weight.data, mask_row])
    ours.encoder.output_bias.data.zero_()


def test_hidden_states_are_those_of_sasrec_at_every_position() -> None:
    options = {**SHARED, "MAX_ITEM_LIST_LENGTH": 10}
    ours = BERT4Rec(make_config(objective="next", output_projection=False, **options), Catalogue(40)).eval()
    theirs = SASRec(make_config("SASRec", loss_type="CE", **options), Catalogue(40)).eval()
    copied(ours, theirs)
    items = torch.tensor([[1, 2, 3, 39, 5, 6, 7, 8, 9, 10], [4, 39, 3, 0, 0, 0, 0, 0, 0, 0]])
    with torch.no_grad():
        hidden = ours.encoder(items, two_sided=torch.tensor([1, 1]))
        for row, length in enumerate((10, 3)):
            for end in range(1, length + 1):
                prefix = torch.zeros_like(items[:1])
                prefix[0, :end] = items[row, :end]
                expected = theirs(prefix, torch.tensor([end]))[0]
                assert (hidden[row, end - 1] - expected).abs().max() < 1e-5
        own, _ = ours.encode(items, torch.tensor([10, 3]))
        assert (own - theirs(items, torch.tensor([10, 3]))).abs().max() < 1e-5


def test_the_loss_is_the_mean_over_recboles_prefix_rows(write_inter: Any) -> None:
    """Padding takes no part in our softmax; in RecBole's it is an item whose logit is 0."""
    data = write_inter(histories_to_rows(HISTORIES))
    options = {**SHARED, **data, "MAX_ITEM_LIST_LENGTH": 12}
    plain = {"output_projection": False, "bias_init": "zero", "seen_bias": False}
    config = make_config(**options, **plain, objective="next", batch_sequences=4)
    _, train, _, _ = prepare(config)
    ours = make_trainer(config, train).model
    rival = make_config("SASRec", **options, loss_type="CE", train_batch_size=1000)
    _, rows, _, _ = prepare(rival)
    theirs = SASRec(rival, rows.dataset)
    copied(ours, theirs)

    prefix_rows = next(iter(rows))
    hidden = theirs(prefix_rows["item_id_list"], prefix_rows["item_length"])
    logits = (hidden @ theirs.item_embedding.weight.T)[:, 1:]
    expected = F.cross_entropy(logits, prefix_rows["item_id"] - 1)
    total, labels = torch.zeros(()), 0
    for batch in train:
        count = int((batch["item_length"] - 1).sum())
        total, labels = total + ours.calculate_loss(batch) * count, labels + count
    assert labels == len(prefix_rows)
    torch.testing.assert_close(total / labels, expected, atol=1e-5, rtol=1e-5)
    (total / labels).backward()
    expected.backward()
    own, wanted = (
        [one.item_embedding.weight.grad, one.position_embedding.weight.grad] for one in (ours.encoder, theirs)
    )
    torch.testing.assert_close([own[0][1:-1], own[1]], [wanted[0][1:], wanted[1]], atol=1e-5, rtol=1e-4)
