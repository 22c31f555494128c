"""BERT4Rec's trainer: optimizer, learning-rate schedule, epochs."""

from __future__ import annotations

import itertools
import math
import os
from collections import OrderedDict
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, cast

import torch
import torch.distributed as dist
from recbole.config import Config
from recbole.data.dataloader import AbstractDataLoader
from recbole.data.interaction import Interaction
from torch import Tensor, optim

from recbole_bert4rec.errors import UserError
from recbole_bert4rec.nn.lazy_adamw import LazyAdamW, clip
from recbole_bert4rec.plugin import checkpoint
from recbole_bert4rec.plugin.dataset import BERT4RecDataset
from recbole_bert4rec.plugin.distributed import share_checkpoint_name
from recbole_bert4rec.plugin.evaluating import EvaluatingTrainer
from recbole_bert4rec.plugin.loader import WindowDataLoader
from recbole_bert4rec.plugin.model import BERT4Rec
from recbole_bert4rec.plugin.ranking import RankingCollector
from recbole_bert4rec.plugin.resuming import ResumableTrainer

_TRAINERS = itertools.count(1)
_FUSED = {"adam": optim.Adam, "adamw": optim.AdamW}


class BERT4RecTrainer(EvaluatingTrainer, ResumableTrainer):
    """Trains as RecBole does: same log lines, early stopping, result; the methods say what differs."""

    def __init__(self, config: Config, model: BERT4Rec) -> None:
        self.total_steps: int | None = None  # known when training data are
        self.step_count = 0
        self.time_share: Callable[[], float] | None = None  # of a budget that ends the training, instead of steps
        self.item_tokens: list[str] = []
        self.item_counts = torch.empty(0, dtype=torch.int64)
        self.histories: dict[str, Any] | None = None
        self.best_epoch: int | None = None
        self.valid_result: dict[str, float] = {}
        self.evaluated_rows = 0
        if config["sparse_update"] and not config["single_spec"]:
            raise UserError(
                "`sparse_update` works in one process only: RecBole shares dense gradients; leave --nproc out"
            )
        super().__init__(config, model)
        self._restart_average()
        self.eval_collector = RankingCollector(config)
        self.ranking_depth = max(config["topk"])
        self.clip_grad_norm = None  # RecBole would clip gradients before the scaler is taken out of them
        if self.enable_amp:
            self._prefer_bfloat16()
        self.saved_model_file = _unused_name(self.saved_model_file)
        share_checkpoint_name(self)

    def _prefer_bfloat16(self) -> None:
        """Let ``enable_amp`` mean bfloat16: RecBole's float16 overflows without a scaler."""
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

    def _before_step(self, optimizer: optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for group in optimizer.param_groups:
            group["lr"] = self.learning_rate_at(self.step_count)
        self.step_count += 1
        if self.config["clip_grad_norm"]:
            clip(self.model.parameters(), **self.config["clip_grad_norm"])

    def _after_step(self, optimizer: optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self.average is not None:
            self.average.update()

    def _train_epoch(
        self,
        train_data: AbstractDataLoader,
        epoch_idx: int,
        loss_func: Callable[[Interaction], Tensor | tuple[Tensor, ...]] | None = None,
        show_progress: bool = False,
    ) -> float | tuple[float, ...] | None:
        """Train one pass over all users; masks, windows and order depend on (seed, epoch) alone.

        Returns:
            The sum of the batches' losses, as RecBole logs it.
        """
        self.total_steps = self.epochs * len(train_data)
        self.step_count = epoch_idx * len(train_data)
        cast(WindowDataLoader, train_data).set_epoch(epoch_idx)
        self.model.set_epoch(epoch_idx)
        hooks = [
            self.optimizer.register_step_pre_hook(self._before_step),
            self.optimizer.register_step_post_hook(self._after_step),
        ]
        try:
            return super()._train_epoch(train_data, epoch_idx, loss_func, show_progress)
        finally:
            for hook in hooks:
                hook.remove()
            if isinstance(self.optimizer, LazyAdamW):
                self.optimizer.catch_up()

    def _valid_epoch(
        self, valid_data: AbstractDataLoader, show_progress: bool = False
    ) -> tuple[float, dict[str, float]]:
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
            file = model_file or self.saved_model_file
            self.model.load_state_dict(checkpoint.read(file, self.device)["state_dict"])
            self._restart_average()
            self.logger.info(f"Loading model structure and parameters from {file}")
        if not eval_data:
            return None
        self._eval_dataset = eval_data._dataset
        self.evaluated_rows = 0
        with nullcontext() if load_best_model else self._ranking_weights():  # the best one's are in the checkpoint
            return super().evaluate(eval_data, load_best_model=False, show_progress=show_progress)

    def fit(
        self, train_data: AbstractDataLoader, valid_data: AbstractDataLoader | None = None, *args: Any, **kwargs: Any
    ) -> tuple[float, dict[str, float] | None]:
        """Train as RecBole does, and keep what the checkpoint says of the data: items and, if asked for, histories.

        Where the resumed checkpoint has all ``epochs``, validate it under the current options and leave it as it is.

        Raises:
            UserError: the resumed checkpoint was trained on other items.
        """
        if self.start_epoch > 0:
            checkpoint.check_items(self.saved_model_file, self.item_tokens, train_data._dataset)
        dataset = cast(BERT4RecDataset, train_data._dataset)
        self.item_tokens, self.item_counts = checkpoint.item_tokens(dataset), dataset.training_counts()
        self.histories = checkpoint.histories(dataset) if self.config["keep_histories"] else None
        if self.start_epoch >= self.epochs > 0:  # RecBole would write a checkpoint of epoch -1 over the resumed one
            self.logger.warning(f"nothing to train: {self.start_epoch} epochs are done and epochs is {self.epochs}")
            if valid_data:  # the options may have it ranked in another way
                self.best_valid_score, self.best_valid_result = self._valid_epoch(valid_data)
            return self.best_valid_score, self.best_valid_result
        return super().fit(train_data, valid_data, *args, **kwargs)


def _spared(name: str) -> bool:
    return name.endswith("bias") or "norm" in name


def _unused_name(path: str) -> str:
    """Two trainers of the same second must not share a checkpoint."""
    stem, ending = os.path.splitext(path)
    return f"{stem}-{os.getpid()}-{next(_TRAINERS)}{ending}"
