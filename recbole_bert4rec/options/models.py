"""The models of this package, and their defaults that differ from those of BERT4Rec in the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recbole_bert4rec.options.kinds import AUTO
from recbole_bert4rec.system.constants import OUR_MODELS

_NEXT: Mapping[str, Any] = dict.fromkeys(("train_batch_size", "learning_rate", "epochs", "hidden_dropout_prob"), AUTO)

MODEL_DEFAULTS: Mapping[str, Mapping[str, Any]] = dict(
    zip(OUR_MODELS, ({}, {**_NEXT, "objective": "prefix", "memory": True}, {**_NEXT, "objective": "next"}), strict=True)
)
"""Options of each model whose default is not that of BERT4Rec in the table."""

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
"""A description of each model."""
