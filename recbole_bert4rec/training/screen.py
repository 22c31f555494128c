"""Shows a run: the users and times that are trained and tested, the plan, a line an epoch."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from recbole.data.dataloader import AbstractDataLoader
from recbole.data.dataset import Dataset
from recbole.trainer import Trainer

from recbole_bert4rec.logs.times import unit_of
from recbole_bert4rec.plugin.callbacks import Callback, Metrics
from recbole_bert4rec.training.budget import Budget
from recbole_bert4rec.training.build import Data, Experiment
from recbole_bert4rec.training.epochs import EpochLog, EpochRecord, counted
from recbole_bert4rec.training.logs import say

_FEW_STEPS = 1500
"""With fewer steps a training may end too early; BERT4Rec's defaults make as many from 75,000 rows on."""
_FEW_EPOCHS = 10
"""With fewer epochs the user does not expect a good model, and needs no advice."""


LEAVE_ONE_OUT = (
    "leave-one-out: training reads what other users did after the tested interactions; "
    "protocol-global-time.yaml cuts at one moment"
)
"""The reader of a figure must know this of the split."""


def show_data(data: Data) -> None:
    """Say how large the data are, how many users each part has, and where a split in time cuts."""
    facts = data_facts(data)
    users = facts["users"]
    text = (
        f"data    {users['all']:,} users, {facts['items']:,} items, {facts['interactions']:,} interactions"
        f"{_period(facts['period'], dates_only=True)}\n"
        f"users   {users['trained']:,} in training, {users['validated']:,} in validation, {users['tested']:,} in the "
        f"test, {users['only recommended to']:,} in none of them"
    )
    if "parts" in facts:
        text += f"\nsplit   {facts['split']}: {parts_text(facts)}"
        if facts["trained after the first test"]:
            text += "\n        training reads what is later than the first tested interaction"
    elif facts["trained after the first test"]:
        text += f"\nsplit   {LEAVE_ONE_OUT}"
    say(text)


def parts_text(facts: dict[str, Any]) -> str:
    """Return rows and period of each part, from :func:`data_facts`; an empty text if the split is leave-one-out."""
    parts = facts.get("parts", {}).items()
    return "; ".join(f"{part} {about['rows']:,} rows{_period(about['period'])}" for part, about in parts)


def data_facts(data: Data) -> dict[str, Any]:
    """Return the sizes of a data set and of its parts."""
    parts = [loader._dataset for loader in (data.train, data.valid, data.test)]
    taking = [_users_of(part) for part in parts]
    everybody = data.dataset.user_num - 1
    times = [_times_of(part) for part in parts]
    facts: dict[str, Any] = {
        "users": {
            "all": everybody,
            **{name: len(users) for name, users in zip(("trained", "validated", "tested"), taking, strict=True)},
            "only recommended to": everybody - len(np.unique(np.concatenate(taking))),
        },
        "items": data.dataset.item_num - 1,
        "interactions": len(data.interactions),
        "period": data.interactions.period,
        "trained after the first test": bool(len(times[0]) and len(times[2]) and times[0].max() > times[2].min()),
    }
    split = data.config["eval_args"]["split"]
    if isinstance(split, dict) and "LS" in split and not data.config["benchmark_filename"]:
        return facts
    names = ("train", "valid", "test")
    facts["split"] = " ".join(f"{key} {value}" for key, value in split.items())
    facts["parts"] = {
        name: {"rows": len(part), "period": _ends(time)} for name, part, time in zip(names, parts, times, strict=True)
    }
    return facts


def _users_of(part: Dataset) -> NDArray[np.int64]:
    users: NDArray[np.int64] = np.unique(np.asarray(part.inter_feat[part.uid_field]))
    return users


def _times_of(part: Dataset) -> NDArray[np.float64]:
    """Return the times of a part's rows, as exactly as RecBole's rows have them; none if no times are loaded."""
    if part.time_field not in part.inter_feat:
        return np.empty(0)
    return np.asarray(part.inter_feat[part.time_field], dtype=np.float64)


def _ends(times: NDArray[np.float64]) -> tuple[float, float] | None:
    return (float(times.min()), float(times.max())) if len(times) else None


def _period(ends: tuple[float, float] | None, dates_only: bool = False) -> str:
    """Return the first and the last time as a text; an empty one without times."""
    size = None if ends is None else unit_of(*ends)
    if ends is None or (dates_only and size is None):
        return ""
    first, last = (
        f"{time:.6g}" if size is None else f"{datetime.fromtimestamp(time / size, UTC):%Y-%m-%d %H:%M}" for time in ends
    )
    return f", {first} to {last}"


def show_plan(experiment: Experiment) -> None:
    """Say how large the model is and how much there is to do."""
    trainer, batches = experiment.trainer, len(experiment.data.train)
    parameters = sum(weight.numel() for weight in experiment.model.parameters())
    config = experiment.data.config
    device = config["device"]
    on_gpu = device.type == "cuda"
    where = torch.cuda.get_device_name(device) if on_gpu else f"the processor, threads: {torch.get_num_threads()}"
    if not config["single_spec"]:
        where += f", processes: {config['world_size']}"
    epochs = max(0, trainer.epochs - trainer.start_epoch)
    more = "more" if trainer.start_epoch else ""
    training = f"at most {counted(epochs, more)}" if epochs else "nothing to train"
    say(
        f"plan    {parameters:,} parameters, an epoch of {batches:,} {'batch' if batches == 1 else 'batches'}, "
        f"{training}, on {where}"
    )


class EpochLines(Callback):
    """Shows a line an epoch: loss, validation, seconds, and how long the rest may take."""

    def __init__(self, log: EpochLog, budget: Budget | None = None) -> None:
        self._log, self._budget = log, budget
        self._shown = self._batches = 0
        self._began = time.perf_counter()

    def on_train_begin(self, trainer: Trainer) -> None:
        """Start the time; epochs of an earlier run have been shown."""
        self._shown, self._began = len(self._log.epochs), time.perf_counter()
        self._before = self._shown

    def on_epoch_begin(self, trainer: Trainer, epoch: int, batches: AbstractDataLoader) -> None:
        """Show the last epoch, if it was not validated."""
        self._show(trainer)
        self._batches = len(batches)

    def on_selection_end(self, trainer: Trainer, epoch: int, score: float) -> None:
        """Show the epoch."""
        self._show(trainer)

    def on_train_end(self, trainer: Trainer, best_score: float, best_metrics: Metrics | None) -> None:
        """Show the last epoch, if it was not validated, and why there are no more."""
        self._show(trainer)
        ended_early = trainer.cur_step > trainer.stopping_step
        if ended_early:
            passed = f"{trainer.cur_step} validations in a row were no better than the best"
            say(f"ended: {passed} (more than stopping_step, {trainer.stopping_step})", in_file=False)
        if self._budget is None:
            self._say_if_short(trainer, ended_early)

    def _say_if_short(self, trainer: Trainer, ended_early: bool) -> None:
        """Advise more of them if a training had so few steps that it ended too early."""
        epochs, best = len(self._log.epochs), self._log.best_epoch
        steps = epochs * self._batches
        if best is None or epochs < _FEW_EPOCHS or not 0 < steps < _FEW_STEPS:
            return
        if ended_early:
            say(
                f"note    these were {steps:,} steps only: a smaller --train_batch_size, or a larger --stopping_step "
                f"(now {trainer.stopping_step}), may do better"
            )
        elif 2 * best >= epochs == trainer.epochs:
            enough = 100 * math.ceil(_FEW_STEPS / self._batches / 100)
            say(
                f"note    the best epoch, {best}, is in the last half of {epochs}, and these were {steps:,} steps "
                f"only: --epochs={enough} may do better, and stopping_step ends it where it does not"
            )

    def _show(self, trainer: Trainer) -> None:
        if len(self._log.epochs) == self._shown:
            return
        self._shown = len(self._log.epochs)
        row = self._log.epochs[-1]
        left = self._seconds_left(trainer)
        text = f"epoch {row['epoch']:>{len(str(trainer.epochs))}} of {trainer.epochs}"
        say(f"{text}{self._scores(trainer, row)}{_duration(left)}", in_file=False)

    def _scores(self, trainer: Trainer, row: EpochRecord) -> str:
        seconds = row["train_seconds"] + row.get("valid_seconds", 0.0)
        loss, score = row["train_loss"], row.get("valid_score")
        text = "" if loss is None else f"  loss {loss:.4f}"
        if score is not None:
            text += (
                f"  valid {trainer.valid_metric} {score:.4f}{' *' if row['epoch'] == self._log.best_epoch else '  '}"
            )
        return f"{text}  {seconds:.1f} s"

    def _seconds_left(self, trainer: Trainer) -> float:
        """Return how long the rest takes if training does not end early."""
        if self._budget is not None:
            return round(self._budget.left, 1)
        mean = (time.perf_counter() - self._began) / (self._shown - self._before)
        return round(mean * (trainer.epochs - 1 - self._log.epochs[-1]["epoch"]), 1)


def _duration(seconds: float) -> str:
    if seconds < 1:
        return ""
    if seconds < 100:
        return f", {seconds:.0f} s left"
    return f", {seconds / 60:.0f} min left" if seconds < 6000 else f", {seconds / 3600:.1f} h left"
