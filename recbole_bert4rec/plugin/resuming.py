"""What a checkpoint keeps of a training, and how the training goes on from it to the same end."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Mapping
from logging import getLogger
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from recbole.trainer import Trainer
from recbole.utils import set_color
from torch import Tensor

from recbole_bert4rec.checkpoints import checkpoint
from recbole_bert4rec.options.kinds import AUTO
from recbole_bert4rec.options.table import FIXED_ON_RESUME, PROTOCOL
from recbole_bert4rec.options.user_models import class_name
from recbole_bert4rec.plugin.dataset import BERT4RecDataset
from recbole_bert4rec.plugin.distributed import rank_of
from recbole_bert4rec.plugin.faults import Faults
from recbole_bert4rec.plugin.items import check_items, item_tokens
from recbole_bert4rec.plugin.layered_config import plain_config
from recbole_bert4rec.plugin.model import BERT4Rec
from recbole_bert4rec.plugin.progress import Progress
from recbole_bert4rec.plugin.warm_start import WarmStart, begin_warm
from recbole_bert4rec.system.constants import FOR_THE_USER
from recbole_bert4rec.system.errors import UserError, short

_STATES = (
    {"step", "exp_avg", "exp_avg_sq"},  # adam, adamw
    {"step", "exp_avg", "exp_avg_sq", "decayed", "row_step", "row_decayed"},  # with sparse_update
    {"step", "sum"},  # adagrad
    {"step", "square_avg"},  # rmsprop
)
"""What optimizers keep of a weight; sgd keeps nothing."""


class ResumableTrainer(Trainer):
    """RecBole's trainer with checkpoints of plain values, from which a run goes on exactly.

    Attributes:
        faults: what is not finite.
        progress: how far it is.
        item_tokens: external ids of the items, padding first.
        item_counts: how often each stands in training. *Shape:* (N,)
        histories: of all users, with ``keep_histories``; see :meth:`BERT4RecDataset.all_histories`.
        preloaded: tables of ``preload_weight``, by the fields of their ids.
        fingerprint: digest of the data; empty where they are not known yet.
        warm_start: what the training began with; None before it begins, and without ``warm_start``.
        best_epoch: the epoch whose weights are kept, from 0; None before any is.
        valid_result: metrics of the last validation.
        any_data: whether a finished training may be evaluated on other data than it was trained on.
    """

    model: BERT4Rec
    faults: Faults
    saved_model_file: str
    progress: Progress
    item_tokens: list[str]
    item_counts: Tensor
    histories: dict[str, Any] | None
    preloaded: dict[str, Tensor]
    fingerprint: str
    best_epoch: int | None
    best_valid_result: dict[str, float] | None
    valid_result: dict[str, float]
    warm_start: WarmStart | None = None
    any_data = True

    def begin(self, training: BERT4RecDataset) -> None:
        """Take over the weights of ``warm_start``, once; a resumed training has its own."""
        if self.config["warm_start"] is not None and self.warm_start is None:
            self.warm_start = begin_warm(self.config, self.model, training)

    def callback_states(self) -> dict[str, dict[str, Any]]:
        """Return what the callbacks keep in a checkpoint, by their names; this trainer has none."""
        return {}

    def restore_callbacks(self, states: Mapping[str, dict[str, Any]]) -> None:
        """Give the callbacks back what they kept; this trainer has none."""

    def random_states(self) -> dict[str, Any]:
        """Return the states of every random generator that this process draws from, as plain lists and tensors.

        Torch draws dropout, the model's own generator masks and negatives, NumPy the sampled candidates of an
        evaluation, Python what a model may.
        """
        kind, keys, position, has_gauss, cached_gaussian = np.random.get_state()
        version, internal, gauss_next = random.getstate()
        states: dict[str, Any] = {
            "torch": torch.get_rng_state(),
            "numpy": [kind, np.asarray(keys).tolist(), position, has_gauss, cached_gaussian],
            "python": [version, list(internal), gauss_next],
        }
        if self.device.type == "cuda":
            states["cuda"] = torch.cuda.get_rng_state(self.device)
        if self.model.generator_state is not None:
            states["masks"] = self.model.generator_state
        return states

    def _restore_random_states(self, states: Mapping[str, Any]) -> None:
        """Set the random generators to what :meth:`random_states` returned."""
        torch.set_rng_state(states["torch"].cpu())
        kind, keys, position, has_gauss, cached_gaussian = states["numpy"]
        np.random.set_state((kind, np.array(keys, dtype=np.uint32), position, has_gauss, cached_gaussian))
        version, internal, gauss_next = states["python"]
        random.setstate((version, tuple(internal), gauss_next))
        if self.device.type == "cuda" and "cuda" in states:
            torch.cuda.set_rng_state(states["cuda"].cpu(), self.device)

    def _save_checkpoint(self, epoch: int, verbose: bool = True, **kwargs: Any) -> None:
        """Write the checkpoint of the best epoch: all that recommending and an exact resume need."""
        self.best_epoch = epoch
        file = kwargs.pop("saved_model_file", self.saved_model_file)
        self._write(file, epoch, self.valid_result, self.random_states())
        if verbose:
            self.logger.info(set_color("Saving current", "blue") + f": {file}")

    def save_last(self, inside: bool, random_states: dict[str, Any] | None = None) -> None:
        """Write the checkpoint that training goes on from.

        Args:
            inside: whether the epoch under way is yet to be ended, by more batches or by its validation.
            random_states: of the place to go on from, where generators have drawn since.
        """
        file, states = checkpoint.last_of(self.saved_model_file), random_states or self.random_states()
        middle = self.progress.middle() if inside else None
        self._write(file, self.progress.epoch - inside, self.best_valid_result or {}, states, middle)

    def _write(
        self,
        file: str,
        epoch: int,
        best_result: Mapping[str, float],
        random_states: dict[str, Any],
        middle: dict[str, Any] | None = None,
    ) -> None:
        """Write a checkpoint of what is finished after ``epoch``, and of the ``middle`` of the next one."""
        self.faults.check_weights()
        generators = [random_states]
        if not self.config["single_spec"]:
            generators *= self.config["world_size"]
            dist.all_gather_object(generators, random_states)
            if rank_of(self.config) != 0:
                return
        state = {
            "config": plain_config(self.config),
            "epoch": epoch,
            "cur_step": self.cur_step,
            "best_epoch": -1 if self.best_epoch is None else self.best_epoch,
            "best_valid_score": float(self.best_valid_score),
            "best_valid_result": {name: float(value) for name, value in best_result.items()},
            "optimizer": self.optimizer.state_dict(),
            "generators": generators,
            "callbacks": self.callback_states(),
            "skipped_steps": self.faults.skipped_steps,
            "fingerprint": self.fingerprint,
            "item_tokens": self.item_tokens,
            "item_counts": self.item_counts,
            "state_dict": self.model.state_dict(),
        }
        if self.histories is not None:
            state["histories"] = self.histories
        if self.preloaded:
            state["preload_weight"] = self.preloaded
        if self.warm_start is not None:
            state["warm_start"] = self.warm_start
        if middle is not None:
            state["middle"] = middle
        checkpoint.write(file, state)

    def resume_checkpoint(self, resume_file: str | os.PathLike[str], state: dict[str, Any] | None = None) -> None:
        """Go on from a checkpoint as if never stopped: weights, optimizer, early stopping, random numbers.

        Args:
            resume_file: the best epoch's or the last one.
            state: what is in it. Default: it is read.

        Raises:
            UserError: an option that shapes the weights or the optimizer's state has changed; epochs are left, which
                would be selected under another protocol than the current best; or the best epoch's checkpoint, which
                the last one needs beside it, is missing, damaged or of another training.
        """
        state = state or checkpoint.read(resume_file, self.device)
        if not state["optimizer"]["param_groups"]:
            raise UserError(
                f"{resume_file} cannot be resumed: items were appended to it; --warm_start={resume_file} begins with it"
            )
        epochs_left = state["epoch"] + 1 < self.epochs
        self._check_options(resume_file, state, epochs_left)
        if len(state["item_tokens"]) != self.model.n_items:
            raise checkpoint.OtherDataError(
                f"{resume_file} was trained on {len(state['item_tokens']) - 1} items, but the data set has "
                f"{self.model.n_items - 1}; train anew, or begin with it: --warm_start={resume_file}"
            )
        self.saved_model_file = checkpoint.best_of(resume_file)
        if self.saved_model_file != str(resume_file):
            _check_pair(self.saved_model_file, resume_file, state)
        if self.config["enable_amp"] == AUTO:
            self.config["enable_amp"] = state["config"]["enable_amp"]  # which the first steps decided
        self.start_epoch = state["epoch"] + 1
        self.cur_step, self.faults.skipped_steps = state["cur_step"], state["skipped_steps"]
        self.best_valid_score, self.valid_result = state["best_valid_score"], state["best_valid_result"]
        self.best_valid_result = self.valid_result or None
        self.best_epoch = state["best_epoch"] if state["best_epoch"] >= 0 else None
        self.item_tokens, self.item_counts = state["item_tokens"], state["item_counts"]
        self.fingerprint = state["fingerprint"]
        self.warm_start = state.get("warm_start")
        with checkpoint.explain_misfit(resume_file):
            self.model.load_state_dict(state["state_dict"])
            self._restore_optimizer(state["optimizer"])
        self.restore_callbacks(state["callbacks"])
        rank, masks = rank_of(self.config), None
        if rank < len(state["generators"]):
            masks = state["generators"][rank].get("masks")
            try:
                self._restore_random_states(state["generators"][rank])
            except (RuntimeError, ValueError, TypeError, OverflowError) as error:
                raise UserError(f"the random generators in {resume_file} cannot be restored: {error}") from error
        self.progress.resume(state["epoch"], state.get("middle"), masks)
        inside = f", batch {self.progress.batches}" if self.progress.batches else ""
        getLogger(FOR_THE_USER).info(
            f"Checkpoint loaded: {resume_file}. Resume training from epoch {self.start_epoch}{inside}"
        )

    def _check_options(self, resume_file: str | os.PathLike[str], state: Mapping[str, Any], epochs_left: bool) -> None:
        """Refuse a checkpoint of a run whose options do not allow this one to go on from it."""
        fixed = ["model", *FIXED_ON_RESUME]
        if self.config["valid_users"] is not None:  # with another seed others have trained what is held out
            fixed.append("seed")
        stored = {**state["config"], "model": class_name(state["config"]["model"])}
        if changed := self._changed_since(stored, fixed):
            raise UserError(f"cannot resume {resume_file}: {changed}")
        if not epochs_left:
            return
        if changed := self._changed_since(state["config"], PROTOCOL):
            raise UserError(
                f"cannot resume {resume_file}: {changed}, so later epochs could not be compared with its best one. "
                "Keep these options, or evaluate it anew, without training, by --epochs=1"
            )
        processes = 1 if self.config["single_spec"] else self.config["world_size"]
        if processes != len(state["generators"]):
            raise UserError(
                f"cannot resume {resume_file}: {len(state['generators'])} processes trained it, but here are "
                f"{processes}; give --nproc={len(state['generators'])}"
            )

    def _changed_since(self, stored: Mapping[str, Any], names: Iterable[str]) -> str:
        """Say which of some options a checkpoint was made with other values of; nothing where none."""
        changed = [name for name in names if stored.get(name) != self.config[name]]
        return "; ".join(
            f"the checkpoint has {name}={stored.get(name)!r}, this run {self.config[name]!r}" for name in changed
        )

    def _restore_optimizer(self, stored: dict[str, Any]) -> None:
        """Give the optimizer its state back; its settings are the options' own.

        Raises:
            ValueError: the state is one that no step could go on from.
        """
        settings = [{**group} for group in self.optimizer.param_groups]
        self.optimizer.load_state_dict(stored)
        for group, own in zip(self.optimizer.param_groups, settings, strict=True):
            rate = group.get("lr")
            group.clear()
            group.update(own)
            if type(rate) is float:  # that of the last step, for a checkpoint that is written before the next one
                group["lr"] = rate
        states: dict[Any, Any] = dict(self.optimizer.state)
        for weight, state in states.items():
            if not isinstance(weight, torch.Tensor) or not isinstance(state, dict):
                raise ValueError(f"the optimizer's state of {short(weight)} is {short(state)}")
            for name, value in state.items():
                shapes = ((), weight.shape, (*weight.shape[:1], 1))
                if not isinstance(value, torch.Tensor) or value.shape not in shapes:
                    raise ValueError(f"the optimizer's {name} is {short(value)}")
            if state and not any(names == set(state) for names in _STATES):
                raise ValueError(f"the optimizer's state of a weight has {sorted(state)}")

    def check_data(self, training: BERT4RecDataset) -> None:
        """Compare the data with those of the resumed checkpoint, and keep what says what they are for the next one.

        Raises:
            OtherDataError: the items are others; or other interactions are to be trained on.
        """
        found = training.fingerprint()
        if self.item_tokens:
            check_items(self.saved_model_file, self.item_tokens, training)
        if self.fingerprint not in ("", found):
            message = (
                f"the interactions of {training.dataset_name!r} are others than {self.saved_model_file} was trained on"
            )
            if not (self.finished and self.any_data):
                raise checkpoint.OtherDataError(
                    f"{message}; train anew, without --resume, or evaluate it on these, without training, by --epochs=1"
                )
            self.logger.warning(message)
        self.item_tokens, self.item_counts = item_tokens(training), training.training_counts()
        self.histories = training.all_histories() if self.config["keep_histories"] else None
        self.preloaded = training.preloaded_tables()
        self.fingerprint = found

    @property
    def finished(self) -> bool:
        """Whether a resumed run has all its epochs, or was ended by early stopping."""
        return self.start_epoch > 0 and (self.start_epoch >= self.epochs > 0 or self.cur_step > self.stopping_step)


def _check_pair(best: str, last: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
    """Refuse a last checkpoint without its best one, of which it has the metrics alone."""
    if state["best_epoch"] < 0:
        return
    if not os.path.isfile(best):
        raise UserError(f"{last} goes on only beside {best}, which holds the best epoch so far and is missing")
    kept = checkpoint.read(best)
    same = kept["epoch"] == state["best_epoch"] and kept["best_valid_score"] == state["best_valid_score"]
    # a better one may have been written, and the run have ended before its last one was
    of_one_run = kept["fingerprint"] == state["fingerprint"] and kept["config"]["seed"] == state["config"]["seed"]
    if not (same or (of_one_run and kept["epoch"] > state["best_epoch"])):
        raise UserError(f"{best} does not hold the best epoch that {last} speaks of; go on with --resume={best}")
