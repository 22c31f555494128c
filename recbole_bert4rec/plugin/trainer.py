"""BERT4Rec's trainer: epochs and their steps, validation, the memory, checkpoints."""

from __future__ import annotations

import math
import os
from collections import OrderedDict
from logging import getLogger
from typing import Any, cast

import recbole.trainer.trainer as recbole_trainer
import torch
import torch.distributed as dist
from recbole.config import Config
from recbole.data.dataloader import AbstractDataLoader
from recbole.data.interaction import Interaction
from recbole.trainer import Trainer
from recbole.utils import calculate_valid_score, get_gpu_usage, set_color
from scipy.sparse import csr_array
from torch import Tensor, optim

from recbole_bert4rec import checkpoints
from recbole_bert4rec.core.memory import count_transitions, fit_memory
from recbole_bert4rec.core.ranker import digest_of_items
from recbole_bert4rec.plugin.callbacks import BestValidation, Callbacks, Losses, Metrics, Observed
from recbole_bert4rec.plugin.dataset import BERT4RecDataset
from recbole_bert4rec.plugin.distributed import mean_of_all, of_all_labels, rank_of, share_rows
from recbole_bert4rec.plugin.evaluating import EvaluationRanker, RankingCollector
from recbole_bert4rec.plugin.loader import WindowDataLoader
from recbole_bert4rec.plugin.model import BERT4Rec
from recbole_bert4rec.plugin.optimizer import Adam, AdamW, LazyAdamW, LearningRate, clip, parameter_groups
from recbole_bert4rec.plugin.resuming import Checkpoints
from recbole_bert4rec.system.constants import FOR_THE_USER
from recbole_bert4rec.system.errors import UserError

_FEW_STEPS = 10
"""Steps of an epoch below which the user is warned."""


class _Unobserved(Trainer):
    """Trains, validates and saves; :class:`BERT4RecTrainer` calls callbacks around it."""

    callbacks: Callbacks
    epoch: int
    best_epoch: int
    model: BERT4Rec
    saved_model_file: str
    valid_result: Metrics
    best_valid_result: Metrics | None

    def __init__(self, config: Config, model: BERT4Rec) -> None:
        self.rate, self.step_count = LearningRate(config), 0
        self._any_data = True
        self._checked: object = None
        if config["sparse_update"] and not config["single_spec"]:
            raise UserError(
                "`sparse_update` works in one process only: RecBole shares dense gradients; leave --nproc out"
            )
        super().__init__(config, model)
        self.checkpoints = Checkpoints(config, self.model, self.optimizer, self.callbacks)
        self.eval_collector = RankingCollector(config)
        self.ranker = EvaluationRanker(config, model, self.eval_collector, self._diverged)

    def _build_optimizer(self) -> optim.Optimizer:
        """Make RecBole's ``learner``; Adam and AdamW are fused."""
        groups = parameter_groups(self.model)
        fused = {"adam": Adam, "adamw": LazyAdamW if self.config["sparse_update"] else AdamW}.get(self.learner.lower())
        if fused is None:
            return super()._build_optimizer(params=groups)
        return fused(groups, lr=self.learning_rate, weight_decay=self.weight_decay, fused=True)

    def _train_epoch(
        self, train_data: AbstractDataLoader, epoch_idx: int, show_progress: bool = False
    ) -> Losses | None:
        """Train one pass over all users; masks, windows and order depend on (seed, epoch) alone."""
        self.rate.total_steps = self.epochs * len(train_data)
        self.step_count = epoch_idx * len(train_data)
        cast(WindowDataLoader, train_data).set_epoch(epoch_idx)
        self.model.set_epoch(epoch_idx)
        self.model.train()
        batches: Any = train_data
        if show_progress:  # RecBole's bar, which a run shows where it is wanted
            shown = set_color(f"Train {epoch_idx:>5}", "pink")
            batches = recbole_trainer.tqdm(train_data, total=len(train_data), ncols=100, desc=shown)
        sums: list[float] = []
        for interaction in batches:
            losses = self._step(interaction)
            sums = list(map(sum, zip(sums, losses, strict=True))) if sums else losses
            if self.gpu_available and show_progress:
                batches.set_postfix_str(set_color("GPU RAM: " + get_gpu_usage(self.device), "yellow"))
        if isinstance(self.optimizer, LazyAdamW):
            self.optimizer.catch_up()
        return sums[0] if len(sums) == 1 else tuple(sums)

    def _step(self, interaction: Interaction) -> list[float]:
        """Train one batch and return its losses; a user's own model may have several."""
        self.optimizer.zero_grad()
        alone: bool = self.config["single_spec"]
        if not alone:
            self.set_reduce_hook()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.enable_amp):
            loss: Tensor | tuple[Tensor, ...] = self.model.calculate_loss(interaction.to(self.device))
        losses = loss if isinstance(loss, tuple) else (loss,)
        if not alone:
            count = len(interaction) if self.model.n_averaged is None else self.model.n_averaged
            losses = tuple(of_all_labels(mean, count) for mean in losses)
        total = cast(Tensor, sum(losses))
        (total if alone else total + self.sync_grad_loss()).backward()
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate.at(self.step_count)
        self.step_count += 1
        norm = clip(self.model.parameters(), **(self.config["clip_grad_norm"] or {})).item()
        values = [loss.item() for loss in losses]
        if not alone:
            values = mean_of_all(values, self.device)
        if not math.isfinite(norm + sum(values)):  # all processes have the same gradient and loss
            losses_shown = ", ".join(f"{value:g}" for value in values)
            raise self._diverged(f"the loss of a batch is {losses_shown}, the norm of its gradient {norm:g}")
        self.optimizer.step()
        return values

    def evaluate(
        self,
        eval_data: AbstractDataLoader,
        load_best_model: bool = True,
        model_file: str | None = None,
        show_progress: bool = False,
    ) -> OrderedDict[str, float] | None:
        """Evaluate as RecBole does, but read the checkpoint without unpickling, and follow ``exclude_seen``."""
        if load_best_model:
            self._load_best(model_file or self.saved_model_file)
        if not eval_data:
            return None
        self._check_items(eval_data._dataset)
        self.ranker.dataset = eval_data._dataset
        share_rows(eval_data)
        return super().evaluate(eval_data, load_best_model=False, show_progress=show_progress)

    def _full_sort_batch_eval(self, batched_data: Any) -> Any:
        return self.ranker.rank_catalogue(batched_data)

    def _neg_sample_batch_eval(self, batched_data: Any) -> Any:
        return self.ranker.rank_candidates(batched_data)

    def _map_reduce(self, result: dict[str, float], num_sample: int) -> dict[str, float]:
        """Return the metrics as they are: the collector has the users of all processes."""
        return result

    def _diverged(self, fault: str) -> UserError:
        """Return the error of a training whose numbers are no longer finite."""
        best = f"{self.saved_model_file} holds the best epoch before that"
        kept = "no epoch was kept" if self.best_valid_result is None else best
        return UserError(
            f"training diverged in epoch {self.epoch}, at a learning rate of "
            f"{self.optimizer.param_groups[0]['lr']:g}: {fault}; {kept}. Try a lower `learning_rate`, or "
            "`clip_grad_norm`. If it is the first batch, the reason is the data or the loss: in a `loss_of` of your "
            "own, column 0 of `logits_of` is -inf (docs/extending.md)"
        )

    def _load_best(self, file: str) -> dict[str, Any]:
        """Load weights and memory of a checkpoint into the model, and return its content.

        A finished run that is resumed without the option ``memory`` loses its memory.
        """
        state = checkpoints.read(file, self.device)
        with checkpoints.explain_misfit(file):
            self.model.load_state_dict(state["state_dict"])
        self.model.load_other_parameter(state.get("other_parameter") if self.config["memory"] else None)
        self.logger.info(f"Loading model structure and parameters from {file}")
        return state

    def fit(self, train_data: AbstractDataLoader, valid_data: Any, verbose: bool, *others: Any) -> BestValidation:
        """Train as RecBole does; only validate the best epoch of a finished training."""
        self.checkpoints.describe(train_data._dataset, self.saved_model_file, self.finished and self._any_data)
        if self.finished:  # RecBole would write a checkpoint of epoch -1 over the resumed one
            self.logger.warning(f"nothing to train: {self.start_epoch} epochs are done and epochs is {self.epochs}")
            self._load_best(self.saved_model_file)
            if valid_data:  # the options may ask for another ranking
                self.best_valid_score, self.best_valid_result = self._valid_epoch(valid_data)
            return self.best_valid_score, self.best_valid_result
        if verbose and self.epochs > 0 and len(train_data) < _FEW_STEPS:
            size = "batch_sequences" if self.config["batch_sequences"] else "train_batch_size"
            self.logger.warning(
                f"an epoch has few steps ({len(train_data)}); a smaller {size} makes more of them (now "
                f"{self.config[size]}), or give more epochs and a larger stopping_step, which counts epochs"
            )
        with torch.autograd.set_detect_anomaly(False):  # importing RecBole turns it on: 2.5 times slower (sine.py:25)
            best: BestValidation = super().fit(train_data, valid_data, verbose, *others)
        return best

    @property
    def finished(self) -> bool:
        """Whether a resumed run has all its epochs, or was stopped early."""
        return self.start_epoch > 0 and (self.start_epoch >= self.epochs > 0 or self.cur_step > self.stopping_step)

    def _save_checkpoint(self, epoch: int, verbose: bool = True, **kwargs: Any) -> None:
        """Write the checkpoint of the best epoch, with all that recommending and an exact resume need."""
        file = kwargs.pop("saved_model_file", self.saved_model_file)
        self.checkpoints.write(file, epoch, self._selection(self.valid_result))
        if verbose:
            self.logger.info(set_color("Saving current", "blue") + f": {file}")

    def save_last(self, epoch: int) -> None:
        """Write the checkpoint that training goes on from, after an epoch that is finished."""
        file, selection = checkpoints.last_of(self.saved_model_file), self._selection(self.best_valid_result or {})
        self.checkpoints.write(file, epoch, selection)

    def _selection(self, best_result: Metrics) -> dict[str, Any]:
        """Return a checkpoint's entries about the best epoch, given its metrics."""
        return {
            "cur_step": self.cur_step,
            "best_epoch": self.best_epoch,
            "best_valid_score": float(self.best_valid_score),
            "best_valid_result": {name: float(value) for name, value in best_result.items()},
        }

    def resume_checkpoint(
        self, resume_file: str | os.PathLike[str], state: dict[str, Any] | None = None, any_data: bool = True
    ) -> None:
        """Go on from a checkpoint as if never stopped: weights, optimizer, early stopping, random numbers."""
        state = state or checkpoints.read(resume_file, self.device)
        self.checkpoints.check(resume_file, state, state["epoch"] + 1 < self.epochs)
        self.checkpoints.resume(resume_file, state)
        self.saved_model_file, self._any_data = checkpoints.best_of(resume_file), any_data
        self.start_epoch, self.cur_step = state["epoch"] + 1, state["cur_step"]
        self.best_valid_score, self.valid_result = state["best_valid_score"], state["best_valid_result"]
        self.best_valid_result = self.valid_result or None
        self.best_epoch = state["best_epoch"]
        getLogger(FOR_THE_USER).info(f"Checkpoint loaded: {resume_file}. Resume training from epoch {self.start_epoch}")

    def _check_items(self, dataset: BERT4RecDataset) -> None:
        """Refuse data that number their items differently from those that the model was made with."""
        tokens = dataset.field2id_token[dataset.iid_field]
        if tokens is not self._checked and digest_of_items(tokens) != self.model.item_digest.cpu():
            raise checkpoints.OtherDataError(
                f"{dataset.dataset_name!r} has other items than the data that the model was made with, or numbers them "
                "in another way; make the model with the data that it is to rank"
            )
        self._checked = tokens  # the digest of a million ids may take as long as an evaluation


class BERT4RecTrainer(Observed, _Unobserved):
    """Trains as RecBole does, with the same log lines, early stopping and result; the methods say what differs."""

    def _begin(self, train_data: AbstractDataLoader, saved: bool) -> None:
        """Load the weights of ``warm_start``."""
        self._check_items(train_data._dataset)
        self.checkpoints.begin(train_data._dataset)

    def _end(
        self, best: BestValidation, train_data: AbstractDataLoader, valid_data: AbstractDataLoader
    ) -> BestValidation:
        """Give the selected weights their memory, and return their validation with it.

        The validation of the model alone still selects epochs, and is kept for a training that goes on.
        """
        if not self.config["memory"] or (self.finished and self.model.memory is not None):  # the file had it
            return best
        sign = 1 if self.valid_metric_bigger else -1

        def validate() -> tuple[float, Metrics]:
            metrics = dict(self.evaluate(valid_data, load_best_model=False) or {})
            return sign * calculate_valid_score(metrics, self.valid_metric), metrics

        if not self.config["single_spec"]:
            dist.barrier()
        state = self._load_best(self.saved_model_file)
        watching = self.callbacks[:]
        self.callbacks.clear()  # nobody hears of these validations
        (alone, _), (score, metrics) = fit_memory(self.model, transitions_of(train_data._dataset), validate)
        self.callbacks.extend(watching)
        self.best_valid_score, self.best_valid_result = sign * score, metrics
        memory = self.model.memory
        effect = "no better" if memory is None else f"{sign * score:.4f} (weight {memory.weight:g})"
        getLogger(FOR_THE_USER).info(
            f"memory: valid {self.valid_metric} is {sign * alone:.4f} without it, and with it {effect}"
        )
        if memory is not None and rank_of(self.config) == 0:
            checkpoints.write(self.saved_model_file, {**state, "other_parameter": self.model.other_parameter()})
        return self.best_valid_score, self.best_valid_result


def transitions_of(training: BERT4RecDataset) -> csr_array:
    """Count which item follows which in the training part of the histories."""
    _, begin, length = training.slices()
    sequences = training.sequences.slices(begin, length)
    items, offsets = sequences.items.numpy(), sequences.offsets.numpy()
    return count_transitions(items, offsets, training.item_num, training.log_size.is_dense)
