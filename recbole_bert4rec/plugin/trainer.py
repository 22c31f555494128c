"""RecBole's trainer with what BERT4Rec needs: a learning-rate schedule, safe checkpoints, seen items on request."""

from __future__ import annotations

import itertools
import math
import os
import random
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import numpy as np
import torch
import torch.distributed as dist
from recbole.config import Config
from recbole.data.dataloader import AbstractDataLoader
from recbole.data.interaction import Interaction
from recbole.trainer import Trainer
from recbole.utils import set_color
from torch import Tensor, optim

from recbole_bert4rec.constants import PADDING, TARGET_POSITION
from recbole_bert4rec.errors import UserError
from recbole_bert4rec.nn.average import MovingAverage
from recbole_bert4rec.nn.lazy_adamw import LazyAdamW, clip
from recbole_bert4rec.nn.topk import best_candidates
from recbole_bert4rec.options.table import FIXED_ON_RESUME, PROTOCOL
from recbole_bert4rec.plugin import checkpoint
from recbole_bert4rec.plugin.distributed import share_checkpoint_name
from recbole_bert4rec.plugin.loader import ClozeDataLoader
from recbole_bert4rec.plugin.model import BERT4Rec, Pairs
from recbole_bert4rec.plugin.ranking import Ranking, RankingCollector
from recbole_bert4rec.segments import pair_keys

_TRAINERS = itertools.count(1)
_FUSED = {"adam": optim.Adam, "adamw": optim.AdamW}


class BERT4RecTrainer(Trainer):
    """Trains as RecBole does (same log lines, early stopping, result); see the methods for the differences."""

    model: BERT4Rec
    eval_collector: RankingCollector
    average: MovingAverage | None
    saved_model_file: str
    best_valid_result: dict[str, float] | None

    def __init__(self, config: Config, model: BERT4Rec) -> None:
        self.total_steps: int | None = None  # known when training data are
        self.step_count = 0
        self.time_share: Callable[[], float] | None = None  # of a budget that ends the training, instead of steps
        self.item_tokens: list[str] = []
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
        """RecBole's ``enable_amp`` means float16 on a GPU, which overflows without a scaler; bfloat16 does not."""
        if self.device.type == "cuda" and torch.cuda.is_bf16_supported():
            torch.set_autocast_dtype("cuda", torch.bfloat16)
        capabilities: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()  # newer than torch 2.6
        if self.device.type == "cpu" and not capabilities.get("avx512_bf16", True):
            self.logger.warning("enable_amp: this processor does not multiply in bfloat16; training will be slower")

    def _build_optimizer(self, **kwargs: Any) -> optim.Optimizer:
        """RecBole's ``learner``; weight decay spares LayerNorm and biases (authors' code); Adam(W) fused."""
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
        """Learning rate of optimizer step ``step`` (from 0): linear warm-up, then constant, linear or cosine to 0."""
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

    def _restart_average(self) -> None:
        """Average from the weights as they are, where ``ema_decay`` asks for it."""
        decay = self.config["ema_decay"]
        self.average = MovingAverage(self.model.parameters(), decay) if decay else None

    def _ranking_weights(self) -> AbstractContextManager[None]:
        """Inside, the model has the weights that it is judged by: their average, with ``ema_decay``."""
        return nullcontext() if self.average is None or not self.average.steps else self.average.applied()

    def _train_epoch(
        self,
        train_data: AbstractDataLoader,
        epoch_idx: int,
        loss_func: Callable[[Interaction], Tensor | tuple[Tensor, ...]] | None = None,
        show_progress: bool = False,
    ) -> float | tuple[float, ...] | None:
        """One pass over all users; masks, windows and order depend on (seed, epoch) alone.

        Returns:
            The sum of the batches' losses, as RecBole logs it.
        """
        self.total_steps = self.epochs * len(train_data)
        self.step_count = epoch_idx * len(train_data)
        cast(ClozeDataLoader, train_data).set_epoch(epoch_idx)
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

    def _seen(self, interaction: Interaction) -> tuple[Pairs, Pairs]:
        """Rows and items of the histories, and which of them ``exclude_seen`` takes out.

        A repeated target stays, as in the authors' code. Histories that nobody asks for are left empty.
        """
        nothing = torch.empty(0, dtype=torch.int64, device=self.device)
        if not self.config["exclude_seen"] and self.model.seen_bias is None:
            return (nothing, nothing), (nothing, nothing)
        dataset = self._eval_dataset
        rows, items = dataset.sequences.seen(dataset.sequence_of(interaction), interaction[TARGET_POSITION])
        kept = (items != interaction[dataset.iid_field][rows]).to(self.device)
        rows, items = rows.to(self.device), items.to(self.device)
        return (rows, items), (rows[kept], items[kept]) if self.config["exclude_seen"] else (nothing, nothing)

    def _full_sort_batch_eval(
        self, batched_data: tuple[Interaction, object, Tensor, Tensor]
    ) -> tuple[Interaction, Any, Tensor, Tensor]:
        """Rank the catalogue for each row; the matrix of all scores is made only where a metric needs it."""
        interaction, _, positive_u, positive_i = batched_data
        self.evaluated_rows += len(interaction)
        (seen, removed), moved = self._seen(interaction), interaction.to(self.device)
        if not self.eval_collector.needs_all_scores:
            _, items = self.model.best_items(moved, self.ranking_depth, removed, seen)
            return interaction, Ranking(items), positive_u, positive_i
        scores = self.model.full_sort_predict(moved, seen)
        scores[:, PADDING] = -torch.inf
        scores[removed] = -torch.inf
        return interaction, scores, positive_u, positive_i

    def _neg_sample_batch_eval(
        self, batched_data: tuple[Interaction, tuple[Tensor, Tensor] | None, Tensor, Tensor]
    ) -> tuple[Interaction, Any, Tensor, Tensor]:
        """Rank each user's candidates (see :class:`CandidateDataLoader`), or score labelled rows by a sigmoid."""
        interaction, candidates, positive_u, positive_i = batched_data
        moved = interaction.to(self.device)
        if candidates is None:
            self.evaluated_rows += len(interaction)
            return interaction, torch.sigmoid(self.model.predict(moved)), positive_u, positive_i
        owner, items = candidates[0].to(self.device), candidates[1].to(self.device)
        n_users, n_items = int(owner[-1]) + 1, self.model.n_items
        self.evaluated_rows += n_users  # a user's rows are one ranking here
        vectors, sequences = self.model.encode(*self.model.histories(moved))
        seen, removed = self._seen(interaction)
        scores = self.model.score_candidates(vectors, sequences, items, seen).T.flatten()
        rows = torch.arange(len(items), device=self.device).repeat(items.shape[1])
        users, items = owner[rows], items.T.flatten()  # for each user in RecBole's order: candidate by candidate
        if self.config["exclude_seen"]:
            out = torch.isin(pair_keys(rows, items, n_items), pair_keys(*removed, n_items))
            targets = pair_keys(positive_u.to(self.device), positive_i.to(self.device), n_items)
            scores[out & ~torch.isin(pair_keys(users, items, n_items), targets)] = -torch.inf
        if not self.eval_collector.needs_all_scores:
            _, best = best_candidates(users, items, scores, self.ranking_depth, n_users)
            return interaction, Ranking(best), positive_u, positive_i
        everything = torch.full((n_users, n_items), -torch.inf, device=self.device)
        everything[users, items] = scores
        return interaction, everything, positive_u, positive_i

    def evaluate(
        self,
        eval_data: AbstractDataLoader,
        load_best_model: bool = True,
        model_file: str | None = None,
        show_progress: bool = False,
    ) -> OrderedDict[str, float] | None:
        """As RecBole's; the checkpoint is read without unpickling and ``exclude_seen`` is honoured."""
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

    def _map_reduce(self, result: dict[str, float], num_sample: int) -> dict[str, float]:
        """Average over the ranks by users; RecBole weighs by the number of batches."""
        return super()._map_reduce(result, self.evaluated_rows)

    def fit(
        self, train_data: AbstractDataLoader, valid_data: AbstractDataLoader | None = None, *args: Any, **kwargs: Any
    ) -> tuple[float, dict[str, float] | None]:
        """As RecBole's; the items' external ids are kept for the checkpoint.

        Where the resumed checkpoint has all ``epochs``, it is validated as the options now say, and left as it is.

        Raises:
            UserError: the resumed checkpoint was trained on other items.
        """
        if self.start_epoch > 0:
            checkpoint.check_items(self.saved_model_file, self.item_tokens, train_data._dataset)
        self.item_tokens = checkpoint.item_tokens(train_data._dataset)
        if self.start_epoch >= self.epochs > 0:  # RecBole would write a checkpoint of epoch -1 over the resumed one
            self.logger.warning(f"nothing to train: {self.start_epoch} epochs are done and epochs is {self.epochs}")
            if valid_data:  # the options may have it ranked in another way
                self.best_valid_score, self.best_valid_result = self._valid_epoch(valid_data)
            return self.best_valid_score, self.best_valid_result
        return super().fit(train_data, valid_data, *args, **kwargs)

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
        }
        if self.average is not None:
            trained = {name: weight.clone() for name, weight in self.model.state_dict().items()}
            state |= {"trained": trained, "average_steps": self.average.steps}
        with self._ranking_weights():
            checkpoint.write(file, {**state, "state_dict": self.model.state_dict()})
        if verbose:
            self.logger.info(set_color("Saving current", "blue") + f": {file}")

    def resume_checkpoint(self, resume_file: str | os.PathLike[str]) -> None:
        """Go on after the checkpoint's epoch as if never stopped: weights, optimizer, early stopping, randomness.

        Raises:
            UserError: the checkpoint's network or optimizer is another than the configuration's, or epochs that are
                still to be trained would be chosen among by another evaluation than the best one so far.
        """
        state = checkpoint.read(resume_file, self.device)
        fixed = [*FIXED_ON_RESUME]
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
        self.item_tokens = state["item_tokens"]
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


def _spared(name: str) -> bool:
    return name.endswith("bias") or "norm" in name


def _unused_name(path: str) -> str:
    """Two trainers of the same second must not share a checkpoint."""
    stem, ending = os.path.splitext(path)
    return f"{stem}-{os.getpid()}-{next(_TRAINERS)}{ending}"
