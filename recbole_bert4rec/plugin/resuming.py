"""Checkpoints of a training, from which it goes on to the same end."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Mapping
from logging import getLogger
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from recbole.config import Config
from torch import Tensor, optim

from recbole_bert4rec.checkpoints import checkpoint
from recbole_bert4rec.options.table import FIXED_ON_RESUME, PROTOCOL
from recbole_bert4rec.options.user_models import class_name
from recbole_bert4rec.plugin.callbacks import Callbacks
from recbole_bert4rec.plugin.contents import ColdItems, check_contents
from recbole_bert4rec.plugin.dataset import BERT4RecDataset
from recbole_bert4rec.plugin.distributed import rank_of
from recbole_bert4rec.plugin.layered_config import plain_config
from recbole_bert4rec.plugin.loading import item_tokens
from recbole_bert4rec.plugin.model import BERT4Rec
from recbole_bert4rec.plugin.warm_start import WarmStart, begin_warm
from recbole_bert4rec.system.errors import UserError


class Generators:
    """The random generators that this process draws from.

    Torch draws dropout, NumPy the sampled candidates of an evaluation, Python what a model may. Masks and negatives
    depend on (seed, epoch) alone.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def states(self) -> dict[str, Any]:
        """Return the states of all, as plain lists and tensors."""
        kind, keys, position, has_gauss, cached_gaussian = np.random.get_state()
        version, internal, gauss_next = random.getstate()
        states: dict[str, Any] = {
            "torch": torch.get_rng_state(),
            "numpy": [kind, np.asarray(keys).tolist(), position, has_gauss, cached_gaussian],
            "python": [version, list(internal), gauss_next],
        }
        if self._device.type == "cuda":
            states["cuda"] = torch.cuda.get_rng_state(self._device)
        return states

    def restore(self, states: Mapping[str, Any]) -> None:
        """Set all to what :meth:`states` returned."""
        torch.set_rng_state(states["torch"].cpu())
        kind, keys, position, has_gauss, cached_gaussian = states["numpy"]
        np.random.set_state((kind, np.array(keys, dtype=np.uint32), position, has_gauss, cached_gaussian))
        version, internal, gauss_next = states["python"]
        random.setstate((version, tuple(internal), gauss_next))
        if self._device.type == "cuda" and "cuda" in states:
            torch.cuda.set_rng_state(states["cuda"].cpu(), self._device)


class KnownData:
    """The data that a model is trained on, as a checkpoint describes them.

    Attributes:
        item_tokens: external ids of the items, padding first.
        item_counts: how often each stands in training. *Shape:* (N,)
        histories: of all users, or None; see :meth:`BERT4RecDataset.all_histories`.
        cold_items: which have a vector and no interaction, or None.
        preloaded: tables of ``preload_weight``, by the fields of their ids.
        fingerprint: digest of the data; empty where they are not known yet.
    """

    def __init__(self, keep_histories: bool) -> None:
        self._keep_histories = keep_histories
        self.item_tokens: list[str] = []
        self.item_counts = torch.empty(0, dtype=torch.int64)
        self.histories: dict[str, Any] | None = None
        self.cold_items: ColdItems | None = None
        self.preloaded: dict[str, Tensor] = {}
        self.fingerprint = ""

    def resume(self, state: Mapping[str, Any]) -> None:
        """Take over what a checkpoint says."""
        self.fingerprint = state["fingerprint"]

    def check(self, training: BERT4RecDataset, file: str, may_differ: bool) -> None:
        """Compare data with those of a resumed checkpoint, and describe them from now on."""
        fingerprint = training.fingerprint()
        if self.fingerprint not in ("", fingerprint):
            message = f"the interactions of {training.dataset_name!r} are others than {file} was trained on"
            if not may_differ:
                raise checkpoint.OtherDataError(
                    f"{message}; train anew, without --resume, or evaluate it on these, without training, by --epochs=1"
                )
            getLogger().warning(message)
        self.item_tokens, self.item_counts = item_tokens(training), training.training_counts()
        self.histories = training.all_histories() if self._keep_histories else None
        self.cold_items = training.told[1]
        self.preloaded = training.preloaded_tables()
        self.fingerprint = fingerprint


class Checkpoints:
    """Writes checkpoints of plain values, from which a training goes on exactly, and goes on from them.

    Attributes:
        data: that the model is trained on.
        generators: of random numbers.
        warm_start: what the training began with; None before it begins, and without ``warm_start``.
    """

    def __init__(
        self,
        config: Config,
        model: BERT4Rec,
        optimizer: optim.Optimizer,
        callbacks: Callbacks,
    ) -> None:
        self._config, self._model, self._optimizer = config, model, optimizer
        self._callbacks = callbacks
        self.data, self.generators = KnownData(config["keep_histories"]), Generators(config["device"])
        self.warm_start: WarmStart | None = None

    def begin(self, training: BERT4RecDataset) -> None:
        """Take over the weights of ``warm_start``, once; a resumed training has its own."""
        if self._config["warm_start"] is not None and self.warm_start is None:
            self.warm_start = begin_warm(self._config, self._model, training)

    def write(self, file: str, epoch: int, selection: Mapping[str, Any]) -> None:
        """Write a checkpoint."""
        generators = [self.generators.states()]
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
            "fingerprint": self.data.fingerprint,
            "item_tokens": self.data.item_tokens,
            "item_counts": self.data.item_counts,
            "state_dict": self._model.state_dict(),
            "other_parameter": self._model.other_parameter(),
        }
        if self.data.histories is not None:
            state["histories"] = self.data.histories
        if self.data.cold_items is not None:
            state["cold_items"] = self.data.cold_items._asdict()
        if self.data.preloaded:
            state["preload_weight"] = self.data.preloaded
        if self.warm_start is not None:
            state["warm_start"] = self.warm_start
        checkpoint.write(file, state)

    def check(self, file: str | os.PathLike[str], state: Mapping[str, Any], epochs_left: bool) -> None:
        """Refuse a checkpoint that this run cannot go on from."""
        if not state["optimizer"]["param_groups"]:
            raise UserError(f"{file} cannot be resumed: items were appended to it; --warm_start={file} begins with it")
        self._check_options(file, state, epochs_left)
        if len(state["item_tokens"]) != self._model.n_items:
            raise checkpoint.OtherDataError(
                f"{file} was trained on {len(state['item_tokens']) - 1} items, but the data set has "
                f"{self._model.n_items - 1}; train anew, or begin with it: --warm_start={file}"
            )
        check_contents(str(file), state["state_dict"], self._model.state_dict(), same=True)
        best = checkpoint.best_of(file)
        if best != str(file):
            _check_pair(best, file, state)

    def resume(self, file: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint that was checked."""
        self.data.resume(state)
        self.warm_start = state.get("warm_start")
        with checkpoint.explain_misfit(file):
            self._model.load_state_dict(state["state_dict"])
            settings = [{**group} for group in self._optimizer.param_groups]
            self._optimizer.load_state_dict(state["optimizer"])
        for group, chosen in zip(self._optimizer.param_groups, settings, strict=True):
            group.clear()
            group.update(chosen)  # the options may be others than those of the checkpoint
        self._callbacks.restore(state["callbacks"])
        rank = rank_of(self._config)
        if rank < len(state["generators"]):
            self.generators.restore(state["generators"][rank])

    def _check_options(self, file: str | os.PathLike[str], state: Mapping[str, Any], epochs_left: bool) -> None:
        """Refuse a checkpoint of a run whose options do not allow this one to go on from it."""
        fixed = ["model", *FIXED_ON_RESUME]
        if self._config["valid_users"] is not None:  # with another seed others have trained what is held out
            fixed.append("seed")
        stored = {**state["config"], "model": class_name(state["config"]["model"])}
        if changed := self._changed_since(stored, fixed):
            raise UserError(f"cannot resume {file}: {changed}")
        if not epochs_left:
            return
        if changed := self._changed_since(state["config"], PROTOCOL):
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

    def _changed_since(self, stored: Mapping[str, Any], names: Iterable[str]) -> str:
        """Say which of some options a checkpoint was made with other values of; nothing where none."""
        changed = [name for name in names if stored.get(name) != self._config[name]]
        return "; ".join(
            f"the checkpoint has {name}={stored.get(name)!r}, this run {self._config[name]!r}" for name in changed
        )


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
