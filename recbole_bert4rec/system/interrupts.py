"""SIGINT and SIGTERM: what must not be torn apart is finished first, all else ends at once; a second signal always."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_requested: int | None = None
_deferred = False


class Interrupted(KeyboardInterrupt):
    """A signal asked this process to end.

    Args:
        number: of the signal.
        kept: what is left of the work, and how it goes on; empty where nobody says so.
    """

    def __init__(self, number: int, kept: str = "") -> None:
        super().__init__(number)
        self.number, self.kept = number, kept

    @property
    def exit_code(self) -> int:
        """Return the exit status that a shell expects of a process that a signal ended."""
        return 128 + self.number


@contextmanager
def handled(signals: tuple[signal.Signals, ...] = _SIGNALS) -> Iterator[None]:
    """Raise :class:`Interrupted` at the first of the signals, at once or when what is :func:`deferred` lets it.

    The second signal ends the process as if nobody handled it. Only the main thread can call this.
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
    """Let signals wait until the block ends, or until something in it asks for what is :func:`requested`."""
    global _deferred
    before, _deferred = _deferred, True
    try:
        yield
    finally:
        _deferred = before
    if _requested and not _deferred:
        raise Interrupted(_requested)


def requested() -> int:
    """Return the signal that asked this process to end; 0 where none did."""
    return _requested or 0
