"""Logs of our programs with RecBole: a file for each run, no line twice."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from weakref import WeakSet

import recbole.utils.logger as recbole_logger
from recbole.config import Config

from recbole_bert4rec.plugin.patches.patch import policy
from recbole_bert4rec.system.scoped import StandIn, replaced

_HANDLERS: WeakSet[logging.Handler] = WeakSet()
"""The handlers of RecBole's ``init_logger``."""


def writes_to_terminal(handler: logging.Handler) -> bool:
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


def init_logger(original: Callable[[Config], None], config: Config) -> None:
    """Give each run its own log file."""
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if handler in _HANDLERS]:
        root.removeHandler(handler)
        handler.close()

    has_terminal = any(map(writes_to_terminal, root.handlers))  # of a program that called logging.basicConfig

    def attach(level: int, handlers: list[logging.Handler]) -> None:
        root.setLevel(level)
        for handler in handlers:
            if has_terminal and not isinstance(handler, logging.FileHandler):
                continue
            if os.environ.get("NO_COLOR") and not isinstance(handler, logging.FileHandler):
                handler.setFormatter(logging.Formatter("%(asctime)-15s %(levelname)s  %(message)s", "%d %b %H:%M"))
                handler.addFilter(recbole_logger.RemoveColorFilter())
            root.addHandler(handler)
            _HANDLERS.add(handler)

    of_colorama = vars(recbole_logger)["init"]

    def wrap(autoreset: bool) -> None:
        if type(sys.stdout).__name__ != "StreamWrapper":  # each run would put one more around the last one
            of_colorama(autoreset=autoreset)

    with (
        replaced(recbole_logger, "logging", StandIn(logging, basicConfig=attach, FileHandler=_LogFile)),
        replaced(recbole_logger, "init", wrap),
    ):
        original(config)


def set_color(original: Callable[[str, str, bool], str], log: str, color: str, highlight: bool = True) -> str:
    """Colour nothing if the environment has ``NO_COLOR`` (https://no-color.org)."""
    return log if os.environ.get("NO_COLOR") else original(log, color, highlight)


PATCHES = (
    policy(
        "recbole.utils.logger",
        "init_logger",
        init_logger,
        "A second run in a process logs into the first one's file, and a run where a program has logged before into "
        "none (logger.py:115).",
    ),
    policy(
        "recbole.utils.logger",
        "set_color",
        set_color,
        "RecBole colours its lines whatever NO_COLOR says (logger.py:46).",
    ),
)
