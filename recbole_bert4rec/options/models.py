"""The defaults in which the models of this package differ from BERT4Rec's, which the table of options has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recbole_bert4rec.constants import OUR_MODELS

_SHARED: Mapping[str, Any] = {"ablate": ["projection"], "seen_bias": True}

MODEL_DEFAULTS: Mapping[str, Mapping[str, Any]] = dict(
    zip(OUR_MODELS, ({}, {**_SHARED, "objective": "prefix"}, {**_SHARED, "objective": "next"}), strict=True)
)
"""Options of each model; all were chosen by validation."""

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
