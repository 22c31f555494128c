"""The defaults of the models of this package, where they are not the paper's or RecBole's, which the table has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recbole_bert4rec.constants import OUR_MODELS
from recbole_bert4rec.options.kinds import AUTO

_SHARED: Mapping[str, Any] = {
    "batch_tokens": 1000,
    "hidden_dropout_prob": AUTO,
    "loss_type": AUTO,
    "MAX_ITEM_LIST_LENGTH": 200,
    "n_negatives": 1024,
    "negatives": AUTO,
    "output_projection": False,
    "position": "relative",
    "seen_bias": True,
    "weight_decay": 0.01,
}
_CLOZE: Mapping[str, Any] = {**_SHARED, "epochs": 60}
_NEXT: Mapping[str, Any] = {**_SHARED, "epochs": 40}

MODEL_DEFAULTS: Mapping[str, Mapping[str, Any]] = dict(
    zip(OUR_MODELS, (_CLOZE, {**_NEXT, "objective": "prefix"}, {**_NEXT, "objective": "next"}), strict=True)
)
"""Options of each model."""

DECIDED = frozenset({"epochs", "n_negatives", "weight_decay"})
"""Those of them that were decided without a comparison; the others were chosen by validation."""

ABOUT: Mapping[str, str] = dict(
    zip(
        OUR_MODELS,
        (
            "the model of the paper, trained on the Cloze task",
            "the same model with two-sided and next-item training, and the options that go with it",
            "the causal rival on the same encoder: SASRec with a softmax",
        ),
        strict=True,
    )
)
"""What each model is."""
