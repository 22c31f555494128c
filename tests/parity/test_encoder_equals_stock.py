"""With copied weights and no dropout, our encoder, scores and losses are those of RecBole's own BERT4Rec."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from recbole.model.sequential_recommender.recbolebert4rec import RecBoleBERT4Rec
from torch import nn

from recbole_bert4rec.plugin.model import BERT4Rec
from tests.helpers.data import Catalogue, padded
from tests.helpers.runs import make_config
from tests.helpers.stock import copy_weights

N_ITEMS = 40


def pair(**options: Any) -> tuple[BERT4Rec, nn.Module]:
    """Our model and the stock one with the same random weights."""
    torch.manual_seed(1)
    options = {"hidden_dropout_prob": 0.0, "attn_dropout_prob": 0.0, "position": "start", "hidden_size": 16, **options}
    stocks = {"MAX_ITEM_LIST_LENGTH": 10, "bias_init": "zero", "output_projection": True, "seen_bias": False}
    ours = BERT4Rec(make_config(**stocks, **options), Catalogue(N_ITEMS))
    stock = RecBoleBERT4Rec(make_config("RecBoleBERT4Rec", MAX_ITEM_LIST_LENGTH=10, **options), Catalogue(N_ITEMS))
    for parameter in stock.parameters():
        nn.init.normal_(parameter, std=0.3)
    copy_weights(stock, ours)
    return ours.eval(), stock.eval()


@pytest.mark.parametrize(
    ("hidden_act", "n_layers", "n_heads"),
    [("gelu", 1, 1), ("gelu", 3, 4), *((act, 2, 2) for act in ("relu", "swish", "tanh", "sigmoid"))],
)
def test_hidden_states_are_equal_at_every_item_also_with_padding(hidden_act: str, n_layers: int, n_heads: int) -> None:
    ours, stock = pair(hidden_act=hidden_act, n_layers=n_layers, n_heads=n_heads)
    item_seq, lengths = padded([[1, 2, 3, 40, 5, 6, 7, 8, 9, 10], [4, 40], [40]])
    a, b = ours(item_seq), stock(item_seq)
    real = torch.arange(10) < lengths.unsqueeze(1)
    assert (a - b)[real].abs().max() < 1e-5
    ((a[real] ** 2).sum() + (b[real] ** 2).sum()).backward()
    for table in ("item_embedding", "position_embedding"):
        own, wanted = (getattr(model, table).weight.grad for model in (ours.encoder, stock))
        torch.testing.assert_close(own[: len(wanted)], wanted[: len(own)], atol=1e-4, rtol=1e-4)


def test_scores_are_equal_where_stock_keeps_the_same_items() -> None:
    """Stock drops the oldest item always, we only if the history is full: so give stock one item more in front."""
    ours, stock = pair()

    def asked(lists: list[list[int]]) -> dict[str, torch.Tensor]:
        items, lengths = padded(lists)
        return {ours.ITEM_SEQ: items, ours.ITEM_SEQ_LEN: lengths, ours.ITEM_ID: torch.tensor([3, 4])}

    full = asked([[9, 1, 2, 3, 4, 5, 6, 7, 8, 10], [7] * 10])
    short, longer = asked([[1, 2, 3], [4, 5]]), asked([[9, 1, 2, 3], [9, 4, 5]])
    with torch.no_grad():
        for given, theirs in ((full, full), (short, longer)):
            assert (ours.full_sort_predict(given) - stock.full_sort_predict(theirs)).abs().max() < 1e-5
            assert (ours.predict(given) - stock.predict(theirs)).abs().max() < 1e-5
