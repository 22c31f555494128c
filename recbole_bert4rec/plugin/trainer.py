"""BERT4Rec's trainer: optimizer, learning-rate schedule, epochs and their steps."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from logging import getLogger
from typing import Any, cast

import recbole.trainer.trainer as recbole_trainer
import torch
import torch.distributed as dist
from recbole.config import Config
from recbole.data.dataloader import AbstractDataLoader
from recbole.data.interaction import Interaction
from recbole.utils import get_gpu_usage, set_color
from torch import Tensor, optim

from recbole_bert4rec.checkpoints import checkpoint
from recbole_bert4rec.core.fast.adam import Adam, AdamW
from recbole_bert4rec.core.fast.lazy_adamw import LazyAdamW, clip
from recbole_bert4rec.core.fast.products import faster_products
from recbole_bert4rec.options.kinds import AUTO
from recbole_bert4rec.plugin.advice import advice_on_steps
from recbole_bert4rec.plugin.dataset import BERT4RecDataset
from recbole_bert4rec.plugin.distributed import (
    anywhere,
    mean_of_all,
    of_all_labels,
    share_checkpoint_name,
    share_rows,
)
from recbole_bert4rec.plugin.evaluating import EvaluationRanker
from recbole_bert4rec.plugin.faults import Faults
from recbole_bert4rec.plugin.loader import WindowDataLoader
from recbole_bert4rec.plugin.model import BERT4Rec
from recbole_bert4rec.plugin.precision import StepSeconds, time_steps
from recbole_bert4rec.plugin.progress import Losses, Progress
from recbole_bert4rec.plugin.ranking import RankingCollector
from recbole_bert4rec.plugin.resuming import ResumableTrainer
from recbole_bert4rec.system.constants import FOR_THE_USER
from recbole_bert4rec.system.errors import UserError

LossFunction = Callable[[Interaction], Tensor | tuple[Tensor, ...]]
"""Of a batch; several losses are summed."""
_MANY = 1 << 13
"""Positions of a batch, from which on its products may be oneDNN's; with fewer, blocks cost what they save."""
_FUSED = {"adam": Adam, "adamw": AdamW}


class BERT4RecTrainer(ResumableTrainer):
    """Trains as RecBole does: same log lines, early stopping, result; the methods say what differs."""

    def __init__(self, config: Config, model: BERT4Rec) -> None:
        self.total_steps: int | None = None  # known when training data are
        self.step_count = 0
        self.time_share: Callable[[], float] | None = None  # of a budget that ends the training, instead of steps
        self.item_tokens: list[str] = []
        self.item_counts = torch.empty(0, dtype=torch.int64)
        self.histories: dict[str, Any] | None = None
        self.preloaded: dict[str, Tensor] = {}
        self.best_epoch: int | None = None
        self.valid_result: dict[str, float] = {}
        self.fingerprint = ""
        if config["sparse_update"] and not config["single_spec"]:
            raise UserError(
                "`sparse_update` works in one process only: RecBole shares dense gradients; leave --nproc out"
            )
        super().__init__(config, model)
        self.progress = Progress()
        self.faults = Faults(self.model, self.optimizer, self.progress, self._best_file)
        self.eval_collector = RankingCollector(config)
        self.ranker = EvaluationRanker(config, model, self.eval_collector, self.faults)
        self.clip_grad_norm = None  # RecBole would clip gradients before the scaler is taken out of them
        share_checkpoint_name(self)

    def _set_format(self, amp: bool) -> None:
        """Train with ``enable_amp`` or without; it means bfloat16, for RecBole's float16 overflows without a scaler."""
        self.enable_amp = amp
        if not amp:
            return
        if self.device.type == "cuda" and torch.cuda.is_bf16_supported():
            torch.set_autocast_dtype("cuda", torch.bfloat16)
        capabilities: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()  # newer than torch 2.6
        if self.device.type == "cpu" and not capabilities.get("avx512_bf16", True):
            self.logger.warning("enable_amp: this processor does not multiply in bfloat16; training will be slower")

    def _build_optimizer(self, **kwargs: Any) -> optim.Optimizer:
        """Make RecBole's ``learner``; weight decay spares LayerNorm and biases (authors' code); Adam(W) is fused."""
        named = list(self.model.named_parameters())
        groups: list[dict[str, Any]] = [
            {"params": [p for n, p in named if not _spared(n)]},
            {"params": [p for n, p in named if _spared(n)], "weight_decay": 0.0},
        ]
        learner = _FUSED.get(self.learner.lower())
        if learner is None:
            return super()._build_optimizer(params=groups, **kwargs)
        arguments = {"lr": self.learning_rate, "weight_decay": self.weight_decay}
        if self.config["sparse_update"]:
            return LazyAdamW(groups, **arguments)
        # with a scaler, hooks of a fused one would see scaled gradients
        optimizer: optim.Optimizer = learner(groups, fused=not self.enable_scaler, **arguments)
        return optimizer

    def learning_rate_at(self, step: int) -> float:
        """Return the learning rate of a step, from 0: linear warm-up, then constant, or linear or cosine decay to 0."""
        schedule, total = self.config["lr_schedule"], self.total_steps
        warmup: int = self.config["warmup_steps"]
        if total is not None:
            warmup = min(warmup, total // 10)  # a short run is not all warm-up
        if step < warmup:
            return self.learning_rate * (step + 1) / warmup
        if schedule == "constant" or total is None:
            return self.learning_rate
        progress = min(1.0, (step - warmup) / max(1, total - warmup)) if self.time_share is None else self.time_share()
        share = 1.0 - progress if schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * progress))
        return self.learning_rate * share

    def _before_step(self, optimizer: optim.Optimizer) -> None:
        for group in optimizer.param_groups:
            group["lr"] = self.learning_rate_at(self.step_count)
        self.step_count += 1

    def _train_epoch(
        self,
        train_data: AbstractDataLoader,
        epoch_idx: int,
        loss_func: LossFunction | None = None,
        show_progress: bool = False,
    ) -> Losses | None:
        """Train one pass over all users; masks, windows and order depend on (seed, epoch) alone.

        A resumed run goes on after the batches of the epoch that are done.

        Returns:
            The sum of the batches' losses, as RecBole logs it.
        """
        masks = self.progress.begin(epoch_idx)
        self._training: BERT4RecDataset = train_data._dataset
        self.total_steps = self.epochs * len(train_data)
        self.step_count = epoch_idx * len(train_data) + self.progress.batches
        if self.config["enable_amp"] == AUTO:
            self._choose_format(train_data, epoch_idx, loss_func or self.model.calculate_loss)
        cast(WindowDataLoader, train_data).set_epoch(epoch_idx, self.progress.batches)
        self.model.set_epoch(epoch_idx, masks)
        self.model.train()
        self._scaler = torch.amp.GradScaler(self.device.type, enabled=self.enable_scaler)
        shown = set_color(f"Train {epoch_idx:>5}", "pink")
        batches: Any = train_data
        if show_progress:  # RecBole's bar, which a run shows where it is wanted
            batches = recbole_trainer.tqdm(
                train_data, total=len(train_data), ncols=100, desc=shown, initial=self.progress.batches
            )
        for interaction in batches:
            self._step(interaction, loss_func or self.model.calculate_loss)
            self.progress.batches += 1
            if self.gpu_available and show_progress:
                batches.set_postfix_str(set_color("GPU RAM: " + get_gpu_usage(self.device), "yellow"))
        if isinstance(self.optimizer, LazyAdamW):
            self.optimizer.catch_up()
        return self.progress.losses or 0.0

    def _choose_format(self, train_data: AbstractDataLoader, epoch: int, loss_func: LossFunction) -> None:
        """Give ``enable_amp: auto`` its value, by steps on the epoch's first batch; weights and draws stay as they are.

        The checkpoint has the value, so a run that goes on keeps it.
        """
        if self.device.type == "cuda":
            chosen, why = torch.cuda.is_bf16_supported(), "by what the GPU can do"
        else:
            states = self.random_states()
            cast(WindowDataLoader, train_data).set_epoch(epoch, 0)
            self.model.set_epoch(epoch, None)
            self.model.train()
            batch = next(iter(train_data)).to(self.device)

            def step(amp: bool) -> None:
                with self._multiplying(batch):
                    with torch.autocast(self.device.type, torch.bfloat16, enabled=amp):
                        found = loss_func(batch)
                    cast(Tensor, sum(found) if isinstance(found, tuple) else found).backward()

            took = time_steps(step, anywhere)
            if not self.config["single_spec"]:
                took = StepSeconds(*mean_of_all(list(took), self.device))
            self.optimizer.zero_grad()
            self._restore_random_states(states)
            milliseconds = [f"{1000 * seconds:.0f} ms" for seconds in took]
            chosen, why = took.bfloat16_wins, "a step takes {} in float32, {} in bfloat16".format(*milliseconds)
        self.config["enable_amp"] = chosen
        self._set_format(chosen)
        getLogger(FOR_THE_USER).info(f"{AUTO} is enable_amp {chosen}: {why}")

    def _multiplying(self, batch: Interaction) -> AbstractContextManager[None]:
        """Return the block in which a batch's products are made."""
        return faster_products(self.device.type == "cpu" and batch[self.model.ITEM_SEQ].numel() >= _MANY)

    def _step(self, interaction: Interaction, loss_func: LossFunction) -> None:
        """Train one batch; leave it out where its loss or its gradient is not finite."""
        self.optimizer.zero_grad()
        alone: bool = self.config["single_spec"]
        if not alone:
            self.set_reduce_hook()
        with self._multiplying(interaction):
            with torch.autocast(device_type=self.device.type, enabled=self.enable_amp):
                found = loss_func(interaction.to(self.device))
            losses = found if isinstance(found, tuple) else (found,)
            if not alone:
                count = getattr(self.model, "n_averaged", len(interaction))
                losses = tuple(of_all_labels(loss, count) for loss in losses)
            loss = cast(Tensor, sum(losses))
            self._scaler.scale(loss if alone else loss + self.sync_grad_loss()).backward()
        self._before_step(self.optimizer)
        self._scaler.unscale_(self.optimizer)
        norm = clip(self.model.parameters(), **(self.config["clip_grad_norm"] or {})).item()
        values = [loss.item() for loss in losses]
        if not alone:
            values = mean_of_all(values, self.device)
        if math.isfinite(norm) and math.isfinite(sum(values)):  # all processes have the same gradient and loss
            self.faults.trained()
            self.progress.add(values)
            self._scaler.step(self.optimizer)
        elif not self.enable_scaler:  # which leaves such a batch out by itself, and scales the next one less
            self.faults.skip(values, norm, self._users_of(interaction))
        self._scaler.update()

    def _valid_epoch(
        self, valid_data: AbstractDataLoader, show_progress: bool = False
    ) -> tuple[float, dict[str, float]]:
        self.faults.check_weights()
        score, self.valid_result = super()._valid_epoch(valid_data, show_progress)
        return score, self.valid_result

    def evaluate(
        self,
        eval_data: AbstractDataLoader,
        load_best_model: bool = True,
        model_file: str | None = None,
        show_progress: bool = False,
    ) -> OrderedDict[str, float] | None:
        """Evaluate as RecBole does; the checkpoint is read without unpickling, and ``exclude_seen`` holds."""
        if load_best_model:
            if not self.config["single_spec"]:
                dist.barrier()
            self._load_best(model_file or self.saved_model_file)
        if not eval_data:
            return None
        self.ranker.begin(eval_data._dataset)
        share_rows(eval_data)
        return super().evaluate(eval_data, load_best_model=False, show_progress=show_progress)

    def _full_sort_batch_eval(self, batched_data: Any) -> Any:
        return self.ranker.rank_catalogue(batched_data)

    def _neg_sample_batch_eval(self, batched_data: Any) -> Any:
        return self.ranker.rank_candidates(batched_data)

    def _map_reduce(self, result: dict[str, float], num_sample: int) -> dict[str, float]:
        """Return the metrics as they are: the collector has the users of all processes."""
        return result

    def _best_file(self) -> str | None:
        """Return the checkpoint of the best epoch; None before there is one."""
        return None if self.best_valid_result is None else self.saved_model_file

    def _load_best(self, file: str) -> None:
        """Give the model the weights that a checkpoint ranks with."""
        self.model.load_state_dict(checkpoint.read(file, self.device)["state_dict"])
        self.logger.info(f"Loading model structure and parameters from {file}")

    def fit(
        self,
        train_data: AbstractDataLoader,
        valid_data: AbstractDataLoader | None = None,
        verbose: bool = True,
        saved: bool = True,
        show_progress: bool = False,
        callback_fn: Callable[[int, float], None] | None = None,
    ) -> tuple[float, dict[str, float] | None]:
        """Train as RecBole does, and keep what the checkpoint says of the data: items and, if asked for, histories.

        Where the resumed training is finished, validate its best epoch under the current options and leave it as it is.

        Raises:
            UserError: the resumed checkpoint was trained on other data, or ``warm_start`` names none that fits.
        """
        self._set_format(self.config["enable_amp"] is True)
        if verbose:
            for said in advice_on_steps(self.config, len(train_data), self.epochs - self.start_epoch):
                self.logger.warning(said)
        self.begin(train_data._dataset)
        self.check_data(train_data._dataset)
        if self.finished:  # RecBole would write a checkpoint of epoch -1 over the resumed one
            self.logger.warning(f"nothing to train: {self.start_epoch} epochs are done and epochs is {self.epochs}")
            self._load_best(self.saved_model_file)
            if valid_data:  # the options may have it ranked in another way
                self.best_valid_score, self.best_valid_result = self._valid_epoch(valid_data)
            return self.best_valid_score, self.best_valid_result
        with torch.autograd.set_detect_anomaly(False):  # importing RecBole turns it on: 2.5 times slower (sine.py:25)
            return super().fit(train_data, valid_data, verbose, saved, show_progress, callback_fn)

    def _users_of(self, interaction: Interaction) -> list[str]:
        """Return whose sequences a training batch holds, by their external ids."""
        field = self._training.uid_field
        return [str(name) for name in self._training.id2token(field, interaction[field].tolist())]


def _spared(name: str) -> bool:
    return name.endswith("bias") or "norm" in name
