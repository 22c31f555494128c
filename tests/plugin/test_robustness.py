"""No NaN and no crash, whatever the batch size, window, mask ratio and length of histories."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recbole.config import Config

from recbole_bert4rec.plugin.model import BERT4Rec
from recbole_bert4rec.system.constants import LOSSES
from tests.helpers.data import Catalogue, padded
from tests.helpers.runs import make_config

BASE: dict[str, Config] = {}
OPTIONS = {
    "MAX_ITEM_LIST_LENGTH": st.integers(2, 50),
    "mask_ratio": st.floats(0.01, 1.0),
    "ft_ratio": st.floats(0.0, 1.0),
    "mask_count": st.sampled_from(["bernoulli", "exact"]),
    "loss_type": st.sampled_from(LOSSES),
    "loss_mean": st.sampled_from(["mask", "sequence"]),
    "position": st.sampled_from(["start", "end"]),
}


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batch=st.integers(1, 8), options=st.fixed_dictionaries(OPTIONS), data=st.data())
def test_loss_gradients_and_scores_are_finite(batch: int, options: dict[str, Any], data: st.DataObject) -> None:
    config = BASE.setdefault(
        "config", make_config(hidden_size=8, inner_size=8, hidden_dropout_prob=0.2, negatives="uniform")
    )
    for key, value in options.items():
        config[key] = value
    config["seen_bias"] = options["loss_type"] != "BPR"
    history = st.lists(st.integers(1, 59), min_size=1, max_size=options["MAX_ITEM_LIST_LENGTH"])
    item_seq, lengths = padded(data.draw(st.lists(history, min_size=batch, max_size=batch)))
    model = BERT4Rec(config, Catalogue(60))
    rows = {"item_id_list": item_seq, "item_length": lengths, "item_id": torch.ones(batch, dtype=torch.long)}
    loss = model.calculate_loss(rows)
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    model.eval()
    assert torch.isfinite(model.full_sort_predict(rows)).all()
    assert torch.isfinite(model.predict(rows)).all()
