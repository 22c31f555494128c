"""Where the lines of a run go: RecBole's to its log file, those for the user to the screen as well."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import recbole.trainer.trainer as recbole_trainer
import recbole.utils.logger as recbole_logger
from recbole.config import Config
from tqdm.auto import tqdm

from recbole_bert4rec.constants import FOR_THE_USER
from recbole_bert4rec.errors import UserError
from recbole_bert4rec.scoped import replaced

SHORT, VERBOSE, JSON, QUIET = SCREENS = ("short", "verbose", "json", "quiet")
"""What the screen shows: a line an epoch and what a user reads besides; all that RecBole logs; a JSON object a line;
warnings alone."""
_SCREEN_ONLY = f"{FOR_THE_USER}.screen"


def say(text: str, event: str | None = None, fields: Mapping[str, Any] | None = None, in_file: bool = True) -> None:
    """Tell the user something.

    Args:
        text: a line, or several.
        event: what it tells, for programs that read JSON.
        fields: the same as values, for them.
        in_file: write it to the log file, too.
    """
    name = FOR_THE_USER if in_file else _SCREEN_ONLY
    logging.getLogger(name).info(text, extra={"event": event, "fields": fields or {}})


@contextmanager
def logged(config: Config, screen: str = SHORT) -> Iterator[Path]:
    """Log a run as RecBole does, with another screen.

    Args:
        config: of the run.
        screen: one of :data:`SCREENS`.

    Yields:
        The path of the log file.

    Raises:
        UserError: there is no such screen.
    """
    if screen not in SCREENS:
        raise UserError(f"`screen` must be one of {list(SCREENS)}, but is {screen!r}")
    root = logging.getLogger()
    level, before = root.level, root.handlers[:]
    recbole_logger.init_logger(config)  # as it is patched: it attaches its handlers in any case
    added = [handler for handler in root.handlers if handler not in before]
    files = [handler for handler in added if isinstance(handler, logging.FileHandler)]
    for file in files:
        file.addFilter(lambda record: record.name != _SCREEN_ONLY)
    for handler in set(added) - set(files):
        _adapt(handler, screen)
    bars = partial(tqdm, leave=False, disable=True if screen in (JSON, QUIET) else None)
    try:
        with replaced(recbole_trainer, "tqdm", bars):
            yield Path(files[0].baseFilename)
    finally:
        for handler in added:
            root.removeHandler(handler)
            handler.close()
        root.setLevel(level)


def _adapt(handler: logging.Handler, screen: str) -> None:
    """Turn RecBole's handler of the screen into another."""
    if screen == VERBOSE:
        handler.addFilter(lambda record: record.name != _SCREEN_ONLY)
        return
    handler.setFormatter(_JsonLines() if screen == JSON else _Lines())
    least = logging.WARNING if screen == QUIET else logging.INFO
    handler.setLevel(max(least, handler.level))
    handler.addFilter(lambda record: record.levelno >= logging.WARNING or record.name.startswith(FOR_THE_USER))


class _Lines(logging.Formatter):
    """What is said, without date; warnings say that they are such."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return text if record.levelno < logging.WARNING else f"{record.levelname.lower()}: {text}"


class _JsonLines(logging.Formatter):
    """An object a line: ``time`` (ISO 8601, UTC), ``level``, ``event`` or null, ``message``, and the event's values."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds")
        about = {"time": time, "level": record.levelname.lower(), "event": getattr(record, "event", None)}
        return json.dumps({**about, "message": super().format(record), **getattr(record, "fields", {})}, default=str)
