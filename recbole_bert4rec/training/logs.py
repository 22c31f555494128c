"""Sends lines for the user to the screen and the log file of a run, RecBole's own lines to the file alone."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import recbole.trainer.trainer as recbole_trainer
import recbole.utils.logger as recbole_logger
from colorlog import ColoredFormatter
from recbole.config import Config
from recbole.utils import get_local_time
from tqdm.auto import tqdm

from recbole_bert4rec.plugin.distributed import name_of_this_process
from recbole_bert4rec.system.constants import FOR_THE_USER, QUIET, SCREENS, SHORT, VERBOSE
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.scoped import replaced

_SCREEN_ONLY = f"{FOR_THE_USER}.screen"
_NEVER = logging.CRITICAL + 1
_COLOUR = re.compile(r"\x1b\[[\d;]*m")


def say(text: str, in_file: bool = True) -> None:
    """Tell the user something."""
    logging.getLogger(FOR_THE_USER if in_file else _SCREEN_ONLY).info(text)


@contextmanager
def silence(name: str | None = None) -> Iterator[None]:
    """Hide what is said inside the block, but for errors."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def shown(screen: str = SHORT, stream: TextIO | None = None) -> Iterator[None]:
    """Show what is said inside the block; warnings go to stderr."""
    if screen not in SCREENS:
        raise UserError(f"`screen` must be one of {list(SCREENS)}, but is {screen!r}")
    root, ours, handler = logging.getLogger(), logging.getLogger(FOR_THE_USER), _Screen(screen, stream or sys.stderr)
    others = [other for other in root.handlers if _writes_to_terminal(other)]  # of logging.basicConfig()
    for other in others:
        other.addFilter(_is_not_shown)
    root.addHandler(handler)
    level = ours.level
    ours.setLevel(logging.INFO)  # whatever the root's is, which is RecBole's `state`
    try:
        yield
    finally:
        ours.setLevel(level)
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


def screen_now() -> str:
    """Return the screen of the innermost :func:`shown`; outside of it the default."""
    screens = [handler.screen for handler in logging.getLogger().handlers if isinstance(handler, _Screen)]
    return screens[-1] if screens else SHORT


@contextmanager
def logged(config: Config) -> Iterator[Path]:
    """Log a run as RecBole does, inside :func:`shown`, which decides about the screen."""
    root = logging.getLogger()
    level, before = root.level, root.handlers[:]
    screens = [handler for handler in before if isinstance(handler, _Screen)]
    screen = screen_now()
    level_of_run = getattr(logging, str(config["state"] or "INFO").upper(), logging.INFO)
    if type(sys.stdout).__name__ != "StreamWrapper":  # colorama's, which takes codes out where there is no terminal
        recbole_logger.init(autoreset=True)
    file = _log_file(config)
    added: list[logging.Handler] = [file]
    if screen == VERBOSE and not any(map(_writes_to_terminal, before)):  # of a program that called basicConfig
        added.append(_verbose())
    root.setLevel(level_of_run)
    for handler in added:
        handler.setLevel(level_of_run)
        handler.addFilter(lambda record: record.name != _SCREEN_ONLY)
        root.addHandler(handler)
    levels = [handler.level for handler in screens]
    for shown in screens:
        shown.setLevel(_NEVER if screen == VERBOSE else max(shown.level, level_of_run))
    try:
        with replaced(recbole_trainer, "tqdm", partial(_bar, no_bars(screen))):
            yield Path(file.baseFilename)
    finally:
        for handler in added:
            root.removeHandler(handler)
            handler.close()
        for handler, least in zip(screens, levels, strict=True):
            handler.setLevel(least)
        root.setLevel(level)


def _log_file(config: Config) -> _LogFile:
    """Open a log file of a run's own, where RecBole has it; RecBole's own gets no second run (logger.py:115)."""
    folder = Path("log") / config["model"]
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.md5("".join(map(str, config.final_config_dict.values())).encode()).hexdigest()[:6]  # noqa: S324
    name = name_of_this_process(f"{config['model']}-{config['dataset']}-{get_local_time()}")
    file = _LogFile(folder / f"{name}-{digest}.log")
    file.setFormatter(logging.Formatter("%(asctime)-15s %(levelname)s  %(message)s", "%a %d %b %Y %H:%M:%S"))
    file.addFilter(recbole_logger.RemoveColorFilter())
    return file


def _verbose() -> logging.Handler:
    """Return RecBole's handler of the screen."""
    screen = logging.StreamHandler()
    form = "%(asctime)-15s %(levelname)s  %(message)s", "%d %b %H:%M"
    if _no_colour():
        screen.setFormatter(logging.Formatter(*form))
        screen.addFilter(recbole_logger.RemoveColorFilter())
    else:
        colours = recbole_logger.log_colors_config
        screen.setFormatter(ColoredFormatter(f"%(log_color)s{form[0]}", form[1], log_colors=colours))
    return screen


def _no_colour() -> bool:
    """Tell whether the environment asks for no colours (https://no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))


def _writes_to_terminal(handler: logging.Handler) -> bool:
    """Tell whether a handler shows lines on the screen, as that of ``logging.basicConfig()`` does."""
    return type(handler) is logging.StreamHandler and handler.stream in (
        *(sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__),
    )


class _LogFile(logging.FileHandler):
    """A run's log file; if it cannot be written, the run warns once and goes on."""

    _warned = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  logging's name
        """Warn of a full disk and the like; other faults are shown as logging's own handlers show them."""
        if isinstance(error := sys.exc_info()[1], OSError):
            self._warn(error)
        else:
            super().handleError(record)

    def close(self) -> None:
        """Close the file, also if its last lines cannot be written."""
        try:
            super().close()
        except OSError as error:
            self._warn(error)

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            print(f"warning: {self.baseFilename} cannot be written: {error.strerror}", file=sys.stderr)


def _bar(disable: bool | None, batches: Iterable[Any], desc: str = "", **more: Any) -> tqdm[Any]:
    """Return RecBole's bar, which goes when it is full; a notebook has no use for the codes of its colour."""
    plain = disable is not None or _no_colour()
    return tqdm(batches, desc=_COLOUR.sub("", desc) if plain else desc, leave=False, disable=disable, **more)


class _Screen(logging.Handler):
    """Writes lines for the user, and all warnings, without breaking progress bars."""

    def __init__(self, screen: str, stream: TextIO) -> None:
        super().__init__(logging.WARNING if screen == QUIET else logging.INFO)
        self.screen, self._stream = screen, stream
        self.setFormatter(_Lines())
        self.addFilter(lambda record: not _is_not_shown(record))

    def emit(self, record: logging.LogRecord) -> None:
        stream = self._stream if record.levelno < logging.WARNING else sys.stderr
        try:
            tqdm.write(self.format(record), file=stream)
            stream.flush()
        except Exception:  # as logging's own handlers
            self.handleError(record)


class _Lines(logging.Formatter):
    """Writes lines without a date; a warning begins with its level."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return text if record.levelno < logging.WARNING else f"{record.levelname.lower()}: {text}"
