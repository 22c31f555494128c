"""Where a trained model looks, by layer and head, in the mean over users: the paper's Figure 2.

    python run.py --dataset=ml-1m --keep_histories=True
    python benchmarks/attention.py saved/FILE.pth map.png

Histories are shown without their last items, as in the test.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from recbole_bert4rec import Recommender, load

WIDTH = 10
"""Positions, counted backwards from the one that is read, as in the paper's figure."""


@torch.no_grad()
def mean_attention(model: Any, width: int = WIDTH) -> tuple[Tensor, int]:
    """Return the weights, (layers, heads, W, W) by query and key, and the number of users with W positions."""
    ranker, found = model.ranker, list[Tensor]()
    for layer in ranker.encoder.layers:
        layer.attention.register_forward_pre_hook(lambda part, inputs: found.append(weights(part, *inputs[:2])))
    histories, _ = model.stored.without_last()
    long = np.flatnonzero(histories.lengths + ranker.objective.appended >= width)
    total: Any = 0
    for rows in np.array_split(long, len(long) // 256 + 1):
        items = torch.from_numpy(histories.latest(rows, ranker.objective.max_length).astype(np.int64))
        shown, last, two_sided = ranker.objective.ask(items, (items != 0).sum(1))
        found.clear()
        ranker.encoder(shown, two_sided=two_sided)
        columns = last[:, None] - width + 1 + torch.arange(width)  # (B, W)
        each = torch.arange(len(rows))[:, None, None]
        by_position = torch.stack(found, 1).movedim((1, 2), (3, 4))  # (B, L, L, layers, heads)
        total = total + by_position[each, columns[:, :, None], columns[:, None]].sum(0)
    return (total / len(long)).movedim((2, 3), (0, 1)), len(long)


def weights(layer: Any, hidden: Tensor, mask: Any) -> Tensor:
    """Return the softmax of equation 2, (B, L, H) -> (B, heads, L, L)."""
    query, key, _ = layer.query_key_value(layer._pre_norm(hidden)).unflatten(-1, (3, layer.n_heads, -1)).unbind(2)
    logits = query.transpose(1, 2) @ key.movedim(1, 3) / query.shape[-1] ** 0.5 + (
        0 if mask.bias is None else mask.bias
    )
    return logits.masked_fill(~mask.allowed, -torch.inf).softmax(-1)


def main() -> None:
    """Draw the weights, a square for each layer and head."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", help="of a run with --keep_histories=True")
    parser.add_argument("picture", help="ends in .png, .pdf or .svg")
    options = parser.parse_args()
    model = load(options.checkpoint, "cpu")
    if not isinstance(model, Recommender):
        raise SystemExit(f"{options.checkpoint} is an exported folder; its graph gives no weights of attention")
    mean, users = mean_attention(model)
    layers, heads, width, _ = mean.shape
    figure = Figure(figsize=(3.1 * heads + 0.6, 2.6 * layers + 0.9), layout="constrained")
    ticks = [0, width // 2, width - 1]
    read = "[MASK]" if model.ranker.objective.appended else "last item"
    for layer, row in enumerate(figure.subplots(layers, heads, squeeze=False)):
        for head, axes in enumerate(row):
            figure.colorbar(axes.imshow(mean[layer, head], vmin=0), ax=axes, shrink=0.8)
            axes.set_title(f"layer {layer + 1}, head {head + 1}", fontsize=9)
            axes.set_xticks(ticks, [*(str(tick - width + 1) for tick in ticks[:-1]), read], fontsize=8)
            axes.set_yticks(ticks, [*(str(tick - width + 1) for tick in ticks[:-1]), read], fontsize=8)
    figure.suptitle(f"attention, mean over {users} users; each head has its own scale", fontsize=10)
    figure.supxlabel("looked at", fontsize=9)
    figure.supylabel("looking", fontsize=9)
    figure.savefig(options.picture, dpi=150)


if __name__ == "__main__":
    main()
