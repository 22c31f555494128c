"""RecBole's own BERT4Rec with the weights of ours."""

from __future__ import annotations

import torch
from torch import nn

from recbole_bert4rec.plugin.model import BERT4Rec


def copy_weights(stock: nn.Module, ours: BERT4Rec) -> None:
    theirs = dict(stock.named_parameters())

    def take(target: nn.Module, *sources: str) -> None:
        for kind in ("weight", "bias"):
            if getattr(target, kind, None) is not None:
                getattr(target, kind).data = torch.cat([theirs[f"{name}.{kind}"].data for name in sources]).clone()

    encoder = ours.encoder
    take(encoder.item_embedding, "item_embedding")
    take(encoder.position_embedding, "position_embedding")
    take(encoder.embedding_norm, "LayerNorm")
    take(encoder.head, "output_ffn")
    take(encoder.head_norm, "output_ln")
    if "output_bias" in theirs:
        encoder.output_bias.data = theirs["output_bias"].data.clone()
    for i, layer in enumerate(encoder.layers):
        attention, feed_forward = (f"trm_encoder.layer.{i}.{part}" for part in ("multi_head_attention", "feed_forward"))
        take(layer.attention.query_key_value, *(f"{attention}.{name}" for name in ("query", "key", "value")))
        take(layer.attention.output, f"{attention}.dense")
        take(layer.attention.norm, f"{attention}.LayerNorm")
        take(layer.feed_forward.inner, f"{feed_forward}.dense_1")
        take(layer.feed_forward.output, f"{feed_forward}.dense_2")
        take(layer.feed_forward.norm, f"{feed_forward}.LayerNorm")
