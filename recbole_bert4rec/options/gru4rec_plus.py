"""The allowed values of GRU4Rec+'s options; their defaults are in ``properties/model/GRU4RecPlus.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from recbole_bert4rec.options.kinds import Kind, OneOf, Real, Whole, misfits

_KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "embedding_size": Whole(1),
        "hidden_size": Whole(1),
        "num_layers": Whole(1),
        "dropout_prob": Real(0, 1),
        "loss_type": OneOf(("BPR-max", "CE")),
        "n_sample": Whole(0),
        "sample_alpha": Real(0, 1, "[]"),
        "bpreg": Real(0),
        "training_rows": OneOf(("user",)),
    }
)


def mistakes_of_gru4rec_plus(config: Mapping[str, Any]) -> list[str]:
    """List the options of GRU4Rec+ with a value that is not allowed, in words."""
    return misfits(config, _KINDS)
