"""Weights by item for another catalogue: known items keep their rows, new ones get the mean of others."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from recbole_bert4rec.core.segments import segment_offsets
from recbole_bert4rec.system.constants import PADDING

ITEM_EMBEDDING = "encoder.item_embedding.weight"
OUTPUT_BIAS = "encoder.output_bias"
FEATURE_VALUES = "encoder.features.values_"
"""Beginning of the names of the tables of features by item; their numbers follow."""
CONTENTS = "encoder.contents."
"""Beginning of the names of what is known of items' contents; fields of :class:`Contents` follow."""
VECTORS = f"{CONTENTS}vectors"
Neighbours = tuple[Tensor, Tensor]
"""New items, and rows of known items whose mean they get. *Shape:* (P,) each"""


def feature_table(number: int) -> str:
    """Return the name of the embeddings of a feature's values."""
    return f"encoder.features.tables.{number}.weight"


def rows_for(table: Tensor, source: Tensor, beside: Neighbours | None = None) -> Tensor:
    """Return the rows of another catalogue, whose items are a selection of the table's, in any order, and new ones.

    ``source`` is the row of each item in the table, PADDING for padding and for new items. A new item gets the mean of
    the known ones that are ``beside`` it, each as often as it stands there; without any, the mean of all.

    *Shape:* (N, ...), (N',), (P,) each -> (N', ...)
    """
    flat = table.reshape(len(table), -1)
    rows = flat[source]
    new = source == PADDING
    new[PADDING] = False
    rows[new] = flat[PADDING + 1 :].mean(0)
    if beside is not None:
        items, known = beside
        count = torch.bincount(items, minlength=len(source))
        means = F.embedding_bag(known[items.argsort()], flat, segment_offsets(count)[:-1], mode="mean")
        rows[count > 0] = means[count > 0]
    return rows.reshape(len(source), *table.shape[1:])


def encoder_rows(weights: dict[str, Tensor], source: Tensor, beside: Neighbours | None = None) -> dict[str, Tensor]:
    """Return an encoder's embedding and output bias for another catalogue, by their names; see :func:`rows_for`.

    Before it is trained, a new item thus scores the mean of what the items beside it score, where scores are products.
    Embeddings end with the row of [MASK], which stays.
    """
    embedding, bias = (weights[name] for name in (ITEM_EMBEDDING, OUTPUT_BIAS))
    grown = torch.cat([rows_for(embedding[:-1], source, beside), embedding[-1:]])
    return {ITEM_EMBEDDING: grown, OUTPUT_BIAS: rows_for(bias, source, beside)}
