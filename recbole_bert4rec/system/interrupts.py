"""SIGINT and SIGTERM: a step that must not be interrupted ends first; a second signal ends the process at once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_requested: int | None = None
_deferred = False


class Interrupted(KeyboardInterrupt):
    """A signal asked this process to end."""

    def __init__(self, number: int, left_behind: str = "") -> None:
        super().__init__(number)
        self.number, self.left_behind = number, left_behind


@contextmanager
def handled(signals: tuple[signal.Signals, ...] = _SIGNALS) -> Iterator[None]:
    """Raise :class:`Interrupted` at the first of the signals, at once or as soon as :func:`deferred` allows it.

    The second signal ends the process as if it was not handled. Only the main thread can call this.
    """
    global _requested
    _requested = None
    before = {number: signal.signal(number, _note) for number in signals}
    try:
        yield
    finally:
        _requested = None
        for number, handler in before.items():
            signal.signal(number, handler)


def _note(number: int, frame: FrameType | None) -> None:
    global _requested
    _requested = number
    for other in _SIGNALS:
        if signal.getsignal(other) is _note:
            signal.signal(other, signal.SIG_DFL)
    if not _deferred:
        raise Interrupted(number)


@contextmanager
def deferred() -> Iterator[None]:
    """Let signals wait until the block ends, or until code in it calls :func:`requested`."""
    global _deferred
    before, _deferred = _deferred, True
    try:
        yield
    finally:
        _deferred = before
    if _requested and not _deferred:
        raise Interrupted(_requested)


def requested() -> int:
    """Return the signal that asked this process to end; 0 if none did."""
    return _requested or 0
