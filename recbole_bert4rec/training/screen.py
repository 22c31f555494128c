"""What a run says: to the screen the data, the plan and a line an epoch; to its log file that and RecBole's lines."""

from __future__ import annotations

import logging
import math
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TextIO
from unittest.mock import patch

import numpy as np
import recbole.trainer.trainer as recbole_trainer
import recbole.utils.logger as recbole_logger
import torch
from colorlog import ColoredFormatter
from numpy.typing import NDArray
from recbole.config import Config
from recbole.data.dataloader import AbstractDataLoader
from recbole.data.dataset import Dataset
from recbole.trainer import Trainer
from recbole.utils import get_local_time
from tqdm.auto import tqdm

from recbole_bert4rec.logs.times import unit_of
from recbole_bert4rec.plugin.callbacks import Callback, Metrics, Observed
from recbole_bert4rec.plugin.distributed import name_of_this_process
from recbole_bert4rec.system.constants import FOR_THE_USER, QUIET, SCREENS, SHORT, VERBOSE
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.budget import Budget
from recbole_bert4rec.training.build import Data
from recbole_bert4rec.training.record import Record, counted

_SCREEN_ONLY = f"{FOR_THE_USER}.screen"
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_FEW_STEPS = 1500
"""With fewer steps a training may end too early; BERT4Rec's defaults make as many from 75,000 rows on."""
_FEW_EPOCHS = 10
"""With fewer epochs the user does not expect a good model, and needs no advice."""
LEAVE_ONE_OUT = (
    "leave-one-out: training reads what other users did after the tested interactions; "
    "protocol-global-time.yaml cuts at one moment"
)
"""The reader of a figure must know this of the split."""


def say(text: str, in_file: bool = True) -> None:
    """Tell the user something."""
    logging.getLogger(FOR_THE_USER if in_file else _SCREEN_ONLY).info(text)


@contextmanager
def at_level(level: int, name: str | None = None) -> Iterator[None]:
    """Let a logger, by default the root's, have another level inside the block."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.setLevel(before)


silence = partial(at_level, logging.ERROR)
"""Hides what is said inside the block, but for errors."""


@contextmanager
def shown(screen: str = SHORT, stream: TextIO | None = None) -> Iterator[None]:
    """Show what is said inside the block; warnings go to stderr."""
    if screen not in SCREENS:
        raise UserError(f"`screen` must be one of {list(SCREENS)}, but is {screen!r}")
    root, terminals = logging.getLogger(), (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    others = [one for one in root.handlers if type(one) is logging.StreamHandler and one.stream in terminals]
    handler: logging.Handler = _Screen(screen, stream or sys.stderr)
    if screen == VERBOSE:
        handler = logging.NullHandler() if others else _verbose()
    else:  # these, of logging.basicConfig(), need not show the same
        for other in others:
            other.addFilter(_is_not_shown)
    root.addHandler(handler)
    try:
        with at_level(logging.INFO, FOR_THE_USER):  # whatever the root's is, which is RecBole's `state`
            yield
    finally:
        root.removeHandler(handler)
        for other in others:
            other.removeFilter(_is_not_shown)


def _is_not_shown(record: logging.LogRecord) -> bool:
    """Tell whether a line is another handler's to show, and not :class:`_Screen`'s."""
    return record.levelno < logging.WARNING and not record.name.startswith(FOR_THE_USER)


def no_bars(screen: str = SHORT) -> bool | None:
    """Return tqdm's ``disable``: bars are for terminals and notebooks, and not with ``quiet``."""
    if screen == QUIET:
        return True
    return False if "ipykernel" in sys.modules else None


@contextmanager
def logged(config: Config, screen: str = SHORT) -> Iterator[Path]:
    """Log a run as RecBole does, to a file of its own; :func:`shown` decides about the screen.

    RecBole's own file gets no second run of a process (logger.py:115).
    """
    folder = Path("log") / config["model"]
    folder.mkdir(parents=True, exist_ok=True)
    name = name_of_this_process(f"{config['model']}-{config['dataset']}-{get_local_time()}")
    file = _LogFile(folder / f"{name}.log")
    file.setFormatter(logging.Formatter("%(asctime)-15s %(levelname)s  %(message)s", "%a %d %b %Y %H:%M:%S"))
    file.addFilter(recbole_logger.RemoveColorFilter())
    file.addFilter(lambda record: record.name != _SCREEN_ONLY)
    level = getattr(logging, str(config["state"] or "INFO").upper(), logging.INFO)
    bars = patch.object(recbole_trainer, "tqdm", partial(_bar, no_bars(screen)))
    root = logging.getLogger()
    root.addHandler(file)
    try:
        with at_level(level), at_level(level, FOR_THE_USER), bars:
            yield Path(file.baseFilename)
    except Exception as error:  # the screen gets one line of it
        file.handle(logging.LogRecord(__name__, logging.ERROR, __file__, 0, "the run ended", (), sys.exc_info()))
        error.add_note(f"its traceback is in {os.path.relpath(file.baseFilename)}")
        raise
    finally:
        root.removeHandler(file)
        file.close()


class _LogFile(logging.FileHandler):
    """A run's log file; if it cannot be written, the run warns once and goes on."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  logging's name
        """Warn of a full disk and the like; other faults are shown as logging's own handlers show them."""
        error = sys.exc_info()[1]
        if isinstance(error, OSError):
            print(f"warning: {self.baseFilename} cannot be written: {error.strerror}", file=sys.stderr)
            self.stream = open(os.devnull, "w")  # noqa: SIM115  the handler closes it
        else:
            super().handleError(record)


def _verbose() -> logging.Handler:
    """Return RecBole's handler of the screen; without colours where https://no-color.org asks for none."""
    plain = bool(os.environ.get("NO_COLOR"))
    screen = logging.StreamHandler()
    screen.addFilter(lambda record: record.name != _SCREEN_ONLY)
    form, colours = "%(log_color)s%(asctime)-15s %(levelname)s  %(message)s", recbole_logger.log_colors_config
    screen.setFormatter(ColoredFormatter(form, "%d %b %H:%M", log_colors={} if plain else colours, reset=not plain))
    if plain:
        screen.addFilter(recbole_logger.RemoveColorFilter())
    return screen


def _bar(disable: bool | None, batches: Iterable[Any], desc: str = "", **more: Any) -> tqdm[Any]:
    """Return RecBole's bar without colours, which goes when it is full."""
    return tqdm(batches, desc=_COLOUR.sub("", desc), leave=False, disable=disable, **more)


class _Screen(logging.Handler):
    """Writes lines for the user, and all warnings, without breaking progress bars; a warning begins with its level."""

    def __init__(self, screen: str, stream: TextIO) -> None:
        super().__init__(logging.WARNING if screen == QUIET else logging.INFO)
        self._stream = stream
        self.addFilter(lambda record: not _is_not_shown(record))

    def emit(self, record: logging.LogRecord) -> None:
        is_warning = record.levelno >= logging.WARNING
        stream = sys.stderr if is_warning else self._stream
        try:
            text = self.format(record)
            tqdm.write(f"{record.levelname.lower()}: {text}" if is_warning else text, file=stream)
            stream.flush()
        except Exception:  # as logging's own handlers
            self.handleError(record)


def show_data(data: Data) -> None:
    """Say how large the data are, how many users each part has, and where a split in time cuts."""
    parts = [loader._dataset for loader in (data.train, data.valid, data.test)]
    users = [np.unique(np.asarray(part.inter_feat[part.uid_field])) for part in parts]
    everybody, items = data.dataset.user_num - 1, data.dataset.item_num - 1
    trained, validated, tested = map(len, users)
    nowhere = everybody - len(np.unique(np.concatenate(users)))
    lines = [
        f"data    {everybody:,} users, {items:,} items, {data.interactions:,} interactions{_period(data.period)}",
        f"users   {trained:,} in training, {validated:,} in validation, {tested:,} in the test, {nowhere:,} in none of "
        "them",
    ]
    training, test = _times_of(parts[0]), _times_of(parts[2])
    later = len(training) > 0 and len(test) > 0 and training.max() > test.min()
    if sizes := parts_text(data):
        split = data.config["eval_args"]["split"]
        lines.append(f"split   {' '.join(f'{key} {value}' for key, value in split.items())}: {sizes}")
        if later:
            lines.append("        training reads what is later than the first tested interaction")
    elif later:
        lines.append(f"split   {LEAVE_ONE_OUT}")
    say("\n".join(lines))


def parts_text(data: Data) -> str:
    """Return rows and period of each part; an empty text if the split is leave-one-out."""
    split = data.config["eval_args"]["split"]
    if isinstance(split, dict) and "LS" in split and not data.config["benchmark_filename"]:
        return ""
    parts = {"train": data.train._dataset, "valid": data.valid._dataset, "test": data.test._dataset}
    return "; ".join(f"{name} {len(part):,} rows{_period(_times_of(part))}" for name, part in parts.items())


def _times_of(part: Dataset) -> NDArray[np.float64]:
    """Return the times of a part's rows, as exactly as RecBole's rows have them; none if no times are loaded."""
    if part.time_field not in part.inter_feat:
        return np.empty(0)
    return np.asarray(part.inter_feat[part.time_field], dtype=np.float64)


def _period(times: NDArray[np.float64]) -> str:
    """Return the first and the last time as a text; an empty one if they are no dates."""
    ends = [float(time) for time in (times.min(), times.max())] if len(times) else []
    unit = unit_of(*ends) if ends else None
    if unit is None:
        return ""
    first, last = (f"{datetime.fromtimestamp(time / unit, UTC):%Y-%m-%d %H:%M}" for time in ends)
    return f", {first} to {last}"


def show_plan(data: Data, trainer: Trainer) -> None:
    """Say how large the model is and how much there is to do."""
    config, batches = data.config, len(data.train)
    parameters = sum(weight.numel() for weight in trainer.model.parameters())
    where = f"the processor, threads: {torch.get_num_threads()}"
    if config["device"].type == "cuda":
        where = torch.cuda.get_device_name(config["device"])
    if not config["single_spec"]:
        where += f", processes: {config['world_size']}"
    left = trainer.epochs - trainer.start_epoch
    more = f"at most {counted(left)}{' more' * (trainer.start_epoch > 0)}" if left > 0 else "nothing to train"
    say(
        f"plan    {parameters:,} parameters, an epoch of {batches:,} {'batch' if batches == 1 else 'batches'}, {more}, "
        f"on {where}"
    )


class EpochLines(Callback):
    """Shows a line an epoch: loss, validation, seconds, and how long the rest may take."""

    def __init__(self, record: Record, budget: Budget | None = None) -> None:
        self._record, self._budget = record, budget
        self._batches = 0  # of an epoch; none where nothing is trained

    def on_train_begin(self, trainer: Trainer) -> None:
        """Start the time; epochs of an earlier run have been shown."""
        self._shown = len(self._record.epochs)
        self._began = time.perf_counter()

    def on_epoch_begin(self, trainer: Observed, epoch: int, batches: AbstractDataLoader) -> None:
        """Show the last epoch, if it was not validated."""
        self._show(trainer)
        self._batches = len(batches)

    def on_selection_end(self, trainer: Observed, epoch: int, score: float) -> None:
        """Show the epoch."""
        self._show(trainer)

    def on_train_end(self, trainer: Observed, best_score: float, best_metrics: Metrics | None) -> None:
        """Show the last epoch, if it was not validated, and why there are no more; advise more steps after few."""
        self._show(trainer)
        epochs, steps = self._shown, self._shown * self._batches
        few = self._budget is None and epochs >= _FEW_EPOCHS and 0 < steps < _FEW_STEPS
        if trainer.cur_step > trainer.stopping_step:
            text = (
                f"ended: {trainer.cur_step} validations in a row were no better than the best (more than stopping_step)"
            )
            if few:
                text += f"\nnote    these were {steps:,} steps only: a smaller --train_batch_size, or a larger "
                text += f"--stopping_step (now {trainer.stopping_step}), may do better"
            say(text)
        elif few and best_metrics is not None and 2 * trainer.best_epoch >= epochs == trainer.epochs:
            enough = 100 * math.ceil(_FEW_STEPS / self._batches / 100)
            say(
                f"note    the best epoch, {trainer.best_epoch}, is in the last half of {epochs}, and these were "
                f"{steps:,} steps only: --epochs={enough} may do better, and stopping_step ends it where it does not"
            )

    def _show(self, trainer: Observed) -> None:
        if len(self._record.epochs) == self._shown:
            return
        self._shown = len(self._record.epochs)
        row = self._record.epochs[-1]
        text = f"epoch {row['epoch']:>{len(str(trainer.epochs))}} of {trainer.epochs}  loss {row['train_loss']:.4f}"
        if "valid_score" in row:
            best = " *" if row["epoch"] == trainer.best_epoch else "  "
            text += f"  valid {trainer.valid_metric} {row['valid_score']:.4f}{best}"
        if self._budget is None:  # as if training did not end early
            mean = (time.perf_counter() - self._began) / (row["epoch"] + 1 - trainer.start_epoch)
            left = mean * (trainer.epochs - 1 - row["epoch"])
        else:
            left = self._budget.left
        text += f"  {row['train_seconds'] + row.get('valid_seconds', 0.0):.1f} s"
        say(f"{text}, {tqdm.format_interval(left)} left" if left >= 1 else text, in_file=False)
