"""Opens a trained model, whatever form it has: a checkpoint in torch, or an exported folder in onnxruntime."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recbole_bert4rec.recommend.exported import ExportedModel
from recbole_bert4rec.system.errors import UserError

if TYPE_CHECKING:
    import torch

    from recbole_bert4rec.recommend.recommender import Recommender


def load(
    path: str | os.PathLike[str],
    device: torch.device | str | None = None,
    logit_adjustment: float | None = None,
    batch_size: int | None = None,
    model: str | type | None = None,
    cold_items: bool = True,
) -> Recommender | ExportedModel:
    """Load a trained model of this package.

    Args:
        path: of the checkpoint, which the summary of its run names; or of a folder that ``export`` wrote, which needs
            onnxruntime and no torch.
        device: where a checkpoint computes. Default: the GPU, where torch can use one, or else the processor.
        logit_adjustment: the option of that name, for a checkpoint: rank by score - this * log(n + 1), n the item's
            count in training. Default: the checkpoint's.
        batch_size: histories that are encoded at once. Default: 256.
        model: the class, or ``module:Class``, of a checkpoint's model of one's own; a file does not say which module is
            run.
        cold_items: know the items of ``item_vectors``, too, that stand in no interaction. False: a checkpoint knows
            those that it was evaluated with.

    Returns:
        The model.

    Raises:
        UserError: the file is damaged or not a model of this package; it holds a model of one's own, and its class
            is not given; or an argument has a value that it cannot have.
    """
    arguments: dict[str, Any] = {} if batch_size is None else {"batch_size": batch_size}
    if not Path(path).is_dir():
        from recbole_bert4rec.recommend.load import load as load_checkpoint

        arguments |= {"model": model, "cold_items": cold_items}
        return load_checkpoint(path, device, logit_adjustment, **arguments)
    if logit_adjustment is not None:
        raise UserError("`logit_adjustment` of an exported model is that of the export; give it there")
    if not cold_items:
        raise UserError("an exported model knows the items that it was exported with; export it without `cold_items`")
    if model is not None:
        raise UserError("an exported model is complete and needs no class; leave `model` out")
    if device not in (None, "cpu"):
        raise UserError(f"an exported model computes on the processor, but `device` is {device}")
    return ExportedModel(path, **arguments)
