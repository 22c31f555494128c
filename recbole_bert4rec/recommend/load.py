"""Load a trained model of either form: a checkpoint by torch, or an exported folder by onnxruntime."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import TYPE_CHECKING

from recbole_bert4rec.recommend.recommender import BATCH_SIZE, Recommender
from recbole_bert4rec.system.errors import UserError

if TYPE_CHECKING:
    import torch


def load(
    path: str | os.PathLike[str],
    device: torch.device | str | None = None,
    logit_adjustment: float | None = None,
    batch_size: int = BATCH_SIZE,
    model: str | type | None = None,
    cold_items: bool = True,
) -> Recommender:
    """Load a trained model of this package.

    Args:
        path: of the checkpoint, which the summary of its run names; or of a folder that ``export`` wrote, which needs
            onnxruntime and no torch.
        device: where a checkpoint computes. Default: the GPU if torch can use one, else the processor.
        logit_adjustment: for a checkpoint, the option of that name: rank by score - this * log(n + 1), where n is the
            item's count in training. Default: the checkpoint's.
        batch_size: number of histories that are encoded at once.
        model: the class, or ``module:Class``, if the checkpoint holds a model of your own; the module is run only if
            you name it.
        cold_items: whether a checkpoint also knows the items of ``item_vectors`` that have no interaction. False: it
            knows only the items that it was evaluated with.

    Returns:
        The model.

    Raises:
        UserError: the file is damaged or not a model of this package; it holds a model of your own whose class is not
            given; or an argument has a wrong value.
    """
    if Path(path).is_dir():
        from recbole_bert4rec.recommend.onnx_backend import model_of_folder

        settled = {"model": model is not None, "logit_adjustment": logit_adjustment is not None}
        settled |= {"cold_items": not cold_items, "device": device not in (None, "cpu")}
        if given := [name for name, is_given in settled.items() if is_given]:
            raise UserError(f"{path} is an exported model, whose `{given[0]}` cannot be chosen; load its checkpoint")
        return Recommender(*model_of_folder(path), batch_size=batch_size)
    from recbole_bert4rec import checkpoints
    from recbole_bert4rec.core.growth import VECTORS
    from recbole_bert4rec.recommend.new_items import with_cold_items
    from recbole_bert4rec.recommend.torch_backend import model_of_checkpoint

    state = checkpoints.read(path, mapped=True)
    del state["optimizer"]  # it is not read from the disk
    shared = state["state_dict"].get(VECTORS), state["item_tokens"]  # vectors are read once, below
    state = copy.deepcopy(state, {id(part): part for part in shared})  # the file may be written over later
    if cold_items:
        with checkpoints.explain_misfit(path):
            state = with_cold_items(state)
    return Recommender(*model_of_checkpoint(path, state, device, logit_adjustment, model), batch_size=batch_size)
