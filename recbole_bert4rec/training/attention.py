"""Draws where a trained model looks, by layer and head: the paper's Figure 2."""

from __future__ import annotations

from pathlib import Path

import torch
from recbole.data.dataloader import AbstractDataLoader
from torch import Tensor

from recbole_bert4rec.plugin.model import BERT4Rec
from recbole_bert4rec.system.files import atomic_write

_WIDTH = 10
"""Positions, as in the paper's figure."""


@torch.no_grad()
def mean_attention(model: BERT4Rec, eval_data: AbstractDataLoader, width: int = _WIDTH) -> tuple[Tensor, int]:
    """Return how much each of the last positions attends to each other of them, on average over users.

    Args:
        model: whose weights are shown.
        eval_data: loader of histories, shown as to recommend: with [MASK] after each for the Cloze task.
        width: W, the number of positions, counted backwards from the one that is read; at most the length of the
            longest input. Shorter inputs are left out.

    Returns:
        The weights, by layer, head, query and key position, the one that is read last; and the number of users.
        *Shape:* (layers, heads, W, W)
    """
    model.eval()
    longest = 1 + max(int(model.objective.ask(*model.histories(batch[0])).last.max()) for batch in eval_data)
    width = min(width, model.max_seq_length, longest)
    total, users = torch.zeros(()), 0
    for batch in eval_data:
        histories = batch[0].to(model.device)
        sequences, last, two_sided = model.objective.ask(*model.histories(histories))
        long = last >= width - 1
        if not long.any():
            continue
        sequences, last = sequences[long], last[long]
        two_sided = two_sided if two_sided is None else two_sided[long]
        weights = model.encoder.attention(sequences, two_sided)  # (B, layers, heads, L, L)
        columns = last[:, None] - width + 1 + torch.arange(width, device=last.device)  # (B, W)
        rows = torch.arange(len(last), device=last.device)[:, None, None]
        total = total.to(weights) + weights.movedim((1, 2), (3, 4))[rows, columns[:, :, None], columns[:, None]].sum(0)
        users += len(last)
    return (total / users).movedim((2, 3), (0, 1)).cpu(), users


def write_attention(model: BERT4Rec, eval_data: AbstractDataLoader, path: str) -> int:
    """Draw :func:`mean_attention`, a square for each layer and head.

    Args:
        model: whose weights are shown.
        eval_data: loader of histories.
        path: of the picture; its ending says the format.

    Returns:
        The number of users.
    """
    from matplotlib.figure import Figure

    weights, users = mean_attention(model, eval_data)
    layers, heads, width, _ = weights.shape
    figure = Figure(figsize=(3.1 * heads + 0.6, 2.6 * layers + 0.9), layout="constrained")
    ticks = [0, width // 2, width - 1]
    names = [*(str(tick - width + 1) for tick in ticks[:-1]), model.objective.read_at]
    for layer, row in enumerate(figure.subplots(layers, heads, squeeze=False)):
        for head, axes in enumerate(row):
            image = axes.imshow(weights[layer, head], cmap="viridis", vmin=0)
            figure.colorbar(image, ax=axes, shrink=0.8).ax.tick_params(labelsize=7)
            axes.set_title(f"layer {layer + 1}, head {head + 1}", fontsize=9)
            axes.set_xticks(ticks, names, fontsize=8)
            axes.set_yticks(ticks, names, fontsize=8)
    figure.suptitle("attention, mean over users; each head has its own scale", fontsize=10)
    figure.supxlabel("looked at", fontsize=9)
    figure.supylabel("looking", fontsize=9)
    with atomic_write(path) as temporary:
        figure.savefig(temporary, dpi=150, format=Path(path).suffix[1:])
    return users
