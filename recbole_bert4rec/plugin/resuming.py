"""What a checkpoint keeps of a training, and how the training goes on from it to the same end."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from recbole.trainer import Trainer
from recbole.utils import set_color
from torch import Tensor

from recbole_bert4rec.errors import UserError
from recbole_bert4rec.nn.average import MovingAverage
from recbole_bert4rec.options.table import FIXED_ON_RESUME, PROTOCOL
from recbole_bert4rec.plugin import checkpoint
from recbole_bert4rec.plugin.model import BERT4Rec


class ResumableTrainer(Trainer):
    """RecBole's trainer with checkpoints of plain values, from which a run goes on exactly.

    Attributes:
        average: moving average of the weights, with ``ema_decay``.
        item_tokens: external ids of the items, padding first.
        item_counts: how often each stands in training. *Shape:* (N,)
        histories: of all users, with ``keep_histories``; see :func:`checkpoint.histories`.
        best_epoch: the epoch whose weights are kept, from 0; None before any is.
        valid_result: metrics of the last validation.
    """

    model: BERT4Rec
    average: MovingAverage | None
    saved_model_file: str
    item_tokens: list[str]
    item_counts: Tensor
    histories: dict[str, Any] | None
    best_epoch: int | None
    best_valid_result: dict[str, float] | None
    valid_result: dict[str, float]

    def _restart_average(self) -> None:
        """Start a new moving average from the weights as they are, with ``ema_decay``."""
        decay = self.config["ema_decay"]
        self.average = MovingAverage(self.model.parameters(), decay) if decay else None

    def _ranking_weights(self) -> AbstractContextManager[None]:
        """Return a context in which the model has the weights that are judged: their average, with ``ema_decay``."""
        return nullcontext() if self.average is None or not self.average.steps else self.average.applied()

    def _save_checkpoint(self, epoch: int, verbose: bool = True, **kwargs: Any) -> None:
        """Write all that recommending and an exact resume need, as plain tensors and values."""
        self.best_epoch = epoch
        if not self.config["single_spec"] and self.config["local_rank"] != 0:
            return
        file = kwargs.pop("saved_model_file", self.saved_model_file)
        state = {
            "config": checkpoint.plain_config(self.config),
            "epoch": epoch,
            "cur_step": self.cur_step,
            "best_valid_score": float(self.best_valid_score),
            "best_valid_result": {name: float(value) for name, value in self.valid_result.items()},
            "optimizer": self.optimizer.state_dict(),
            **_random_states(self.device),
            "item_tokens": self.item_tokens,
            "item_counts": self.item_counts,
        }
        if self.histories is not None:
            state["histories"] = self.histories
        if self.average is not None:
            trained = {name: weight.clone() for name, weight in self.model.state_dict().items()}
            state |= {"trained": trained, "average_steps": self.average.steps}
        with self._ranking_weights():
            checkpoint.write(file, {**state, "state_dict": self.model.state_dict()})
        if verbose:
            self.logger.info(set_color("Saving current", "blue") + f": {file}")

    def resume_checkpoint(self, resume_file: str | os.PathLike[str]) -> None:
        """Go on after the checkpoint's epoch as if never stopped: weights, optimizer, early stopping, random numbers.

        Args:
            resume_file: the checkpoint.

        Raises:
            UserError: an option that shapes the weights or the optimizer's state has changed; or epochs are left, which
                would be selected under another protocol than the current best.
        """
        state = checkpoint.read(resume_file, self.device)
        fixed = ["model", *FIXED_ON_RESUME]
        if self.config["valid_users"] is not None:  # with another seed others have trained what is held out
            fixed.append("seed")
        if changed := self._changed_since(state["config"], fixed):
            raise UserError(f"cannot resume {resume_file}: {changed}")
        if state["epoch"] + 1 < self.epochs and (changed := self._changed_since(state["config"], PROTOCOL)):
            raise UserError(
                f"cannot resume {resume_file}: {changed}, so later epochs could not be compared with its best one. "
                "Keep these options, or evaluate it anew, without training, by --epochs=1"
            )
        if len(state["item_tokens"]) != self.model.n_items:
            raise UserError(
                f"{resume_file} was trained on {len(state['item_tokens']) - 1} items, but the data set has "
                f"{self.model.n_items - 1}; train anew"
            )
        self.saved_model_file = str(resume_file)
        self.start_epoch = state["epoch"] + 1
        self.cur_step = state["cur_step"]
        self.best_valid_score = state["best_valid_score"]
        self.valid_result = state["best_valid_result"]
        self.best_valid_result = self.valid_result or None
        self.best_epoch = state["epoch"]
        self.item_tokens, self.item_counts = state["item_tokens"], state["item_counts"]
        self.model.load_state_dict(state["state_dict"])
        if self.average is not None:
            self._restart_average()  # as what was ranked with
            self.average.steps = state["average_steps"]
            self.model.load_state_dict(state["trained"])
        self.optimizer.load_state_dict(state["optimizer"])
        _restore_random_states(state, self.device)
        self.logger.info(f"Checkpoint loaded. Resume training from epoch {self.start_epoch}")

    def _changed_since(self, stored: Mapping[str, Any], names: Iterable[str]) -> str:
        """Say which of some options a checkpoint was made with other values of; nothing where none."""
        changed = [name for name in names if stored.get(name) != self.config[name]]
        return "; ".join(
            f"the checkpoint has {name}={stored.get(name)!r}, this run {self.config[name]!r}" for name in changed
        )


def _random_states(device: torch.device) -> dict[str, Any]:
    """Return the states of every random generator that a run draws from, as plain lists and tensors.

    Torch draws masks and dropout, NumPy the sampled candidates of an evaluation, Python what a model may.
    """
    kind, keys, position, has_gauss, cached_gaussian = np.random.get_state()
    version, internal, gauss_next = random.getstate()
    states: dict[str, Any] = {
        "random_state": torch.get_rng_state(),
        "numpy_random_state": [kind, np.asarray(keys).tolist(), position, has_gauss, cached_gaussian],
        "python_random_state": [version, list(internal), gauss_next],
    }
    if device.type == "cuda":
        states["cuda_random_state"] = torch.cuda.get_rng_state(device)
    return states


def _restore_random_states(states: dict[str, Any], device: torch.device) -> None:
    """Set the random generators to what :func:`_random_states` returned."""
    torch.set_rng_state(states["random_state"].cpu())
    kind, keys, position, has_gauss, cached_gaussian = states["numpy_random_state"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), position, has_gauss, cached_gaussian))
    version, internal, gauss_next = states["python_random_state"]
    random.setstate((version, tuple(internal), gauss_next))
    if device.type == "cuda" and "cuda_random_state" in states:
        torch.cuda.set_rng_state(states["cuda_random_state"].cpu(), device)
