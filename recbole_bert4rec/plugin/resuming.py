"""Checkpoints of a training, from which it can go on exactly."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from logging import getLogger
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from recbole.config import Config
from torch import optim

from recbole_bert4rec import checkpoints
from recbole_bert4rec.options.table import FIXED_ON_RESUME, PROTOCOL
from recbole_bert4rec.plugin.callbacks import Callbacks
from recbole_bert4rec.plugin.config import plain_config
from recbole_bert4rec.plugin.contents import check_contents
from recbole_bert4rec.plugin.dataset import BERT4RecDataset
from recbole_bert4rec.plugin.distributed import rank_of
from recbole_bert4rec.plugin.loading import item_tokens
from recbole_bert4rec.plugin.model import BERT4Rec
from recbole_bert4rec.plugin.warm_start import WarmStart, begin_warm, changed_since, feature_values
from recbole_bert4rec.system.errors import UserError


def generator_states(device: torch.device) -> dict[str, Any]:
    """Return the states of this process's random generators, as plain values."""
    numpy_state: Any = np.random.get_state()
    kind, keys, *more = numpy_state
    states = {"torch": torch.get_rng_state(), "numpy": (kind, keys.tolist(), *more), "python": random.getstate()}
    return states | ({"cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else {})


def restore_generators(states: Mapping[str, Any], device: torch.device) -> None:
    """Set all generators: torch draws dropout, NumPy candidates, Python whatever a model draws; masks need none."""
    torch.set_rng_state(states["torch"].cpu())
    np.random.set_state(states["numpy"])
    random.setstate(states["python"])
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"].cpu(), device)


class Checkpoints:
    """Writes checkpoints of plain values, and goes on from them exactly."""

    def __init__(self, config: Config, model: BERT4Rec, optimizer: optim.Optimizer, callbacks: Callbacks) -> None:
        self._config, self._model, self._optimizer, self._callbacks = config, model, optimizer, callbacks
        # of what the model is trained on; until that is known, placeholders
        self.data: dict[str, Any] = {"fingerprint": "", "item_tokens": [], "item_counts": torch.empty(0).long()}
        self.warm_start: WarmStart | None = None  # what the training began with

    def begin(self, training: BERT4RecDataset) -> None:
        """Load the weights of ``warm_start``, once; a resumed training has its own."""
        if self._config["warm_start"] is not None and self.warm_start is None:
            self.warm_start = begin_warm(self._config, self._model, training)

    def describe(self, training: BERT4RecDataset, file: str, may_differ: bool) -> None:
        """Compare the data with those of a resumed checkpoint, and describe them in later checkpoints."""
        fingerprint = training.fingerprint()
        if self.data["fingerprint"] not in ("", fingerprint):
            message = f"the interactions of {training.dataset_name!r} are others than {file} was trained on"
            if not may_differ:
                raise checkpoints.OtherDataError(
                    f"{message}; train anew, without --resume, or evaluate it on these, without training, by --epochs=1"
                )
            getLogger().warning(message)
        cold_items = training.contents[1]
        more = {
            "histories": training.all_histories() if self._config["keep_histories"] else None,
            "cold_items": cold_items and cold_items._asdict(),
            "preload_weight": {field: torch.from_numpy(table) for field, table in training._preloaded_weight.items()},
            "feature_values": feature_values(training),
        }
        counts = training.training_counts()
        self.data = {"fingerprint": fingerprint, "item_tokens": item_tokens(training), "item_counts": counts}
        self.data |= {name: value for name, value in more.items() if value}

    def write(self, file: str, epoch: int, selection: Mapping[str, Any]) -> None:
        """Write a checkpoint."""
        generators = [generator_states(self._config["device"])]
        if not self._config["single_spec"]:
            generators *= self._config["world_size"]
            dist.all_gather_object(generators, generators[0])
            if rank_of(self._config) != 0:
                return
        state = {
            "config": plain_config(self._config),
            "epoch": epoch,
            **selection,
            "optimizer": self._optimizer.state_dict(),
            "generators": generators,
            "callbacks": self._callbacks.states(),
            **self.data,
            "state_dict": self._model.state_dict(),
            "other_parameter": self._model.other_parameter(),
        }
        if self.warm_start is not None:
            state["warm_start"] = self.warm_start
        checkpoints.write(file, state)

    def check(self, file: str | os.PathLike[str], state: Mapping[str, Any], epochs_left: bool) -> None:
        """Refuse a checkpoint that this run cannot go on from."""
        if not state["optimizer"]["param_groups"]:
            raise UserError(f"{file} cannot be resumed: items were appended to it; --warm_start={file} begins with it")
        self._check_options(file, state, epochs_left)
        if len(state["item_tokens"]) != self._model.n_items:
            raise checkpoints.OtherDataError(
                f"{file} was trained on {len(state['item_tokens']) - 1} items, but the data set has "
                f"{self._model.n_items - 1}; train anew, or begin with it: --warm_start={file}"
            )
        check_contents(str(file), state["state_dict"], self._model.state_dict(), same=True)
        if checkpoints.best_of(file) != str(file):
            _check_best(checkpoints.best_of(file), file, state)

    def resume(self, file: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint that was checked."""
        self.data["fingerprint"] = state["fingerprint"]
        self.warm_start = state.get("warm_start")
        with checkpoints.explain_misfit(file):
            self._model.load_state_dict(state["state_dict"])
            settings = [{**group} for group in self._optimizer.param_groups]
            self._optimizer.load_state_dict(state["optimizer"])
        for group, chosen in zip(self._optimizer.param_groups, settings, strict=True):
            group.clear()
            group.update(chosen)  # the options may be others than those of the checkpoint
        self._callbacks.restore(state["callbacks"])
        rank = rank_of(self._config)
        if rank < len(state["generators"]):
            restore_generators(state["generators"][rank], self._config["device"])

    def _check_options(self, file: str | os.PathLike[str], state: Mapping[str, Any], epochs_left: bool) -> None:
        """Refuse a checkpoint of a run whose options do not allow this one to go on from it."""
        fixed = ["model", *FIXED_ON_RESUME]
        if self._config["valid_users"] is not None:  # with another seed others have trained what is held out
            fixed.append("seed")
        if changed := changed_since(state["config"], self._config, fixed):
            raise UserError(f"cannot resume {file}: {changed}")
        if not epochs_left:
            return
        if changed := changed_since(state["config"], self._config, PROTOCOL):
            raise UserError(
                f"cannot resume {file}: {changed}, so later epochs could not be compared with its best one. "
                "Keep these options, or evaluate it anew, without training, by --epochs=1"
            )
        processes = 1 if self._config["single_spec"] else self._config["world_size"]
        if processes != len(state["generators"]):
            raise UserError(
                f"cannot resume {file}: {len(state['generators'])} processes trained it, but here are "
                f"{processes}; give --nproc={len(state['generators'])}"
            )


def _check_best(best: str, last: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
    """Refuse a last checkpoint without the best one, whose weights it lacks."""
    if state["best_epoch"] < 0:
        return
    if not os.path.isfile(best):
        raise UserError(f"{last} goes on only beside {best}, which holds the best epoch so far and is missing")
    kept = checkpoints.read(best)
    same = kept["epoch"] == state["best_epoch"] and kept["best_valid_score"] == state["best_valid_score"]
    # the run may have ended between writing a better checkpoint and its last one
    of_one_run = kept["fingerprint"] == state["fingerprint"] and kept["config"]["seed"] == state["config"]["seed"]
    if not (same or (of_one_run and kept["epoch"] > state["best_epoch"])):
        raise UserError(f"{best} does not hold the best epoch that {last} names; go on with --resume={best}")
