"""Watch files, and reload each when it is replaced."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from logging import getLogger
from typing import Generic, TypeVar

T = TypeVar("T")
_SECONDS = 0.5
"""Between two looks at the files."""
_LONGEST_PAUSE = 60.0
"""Seconds between two tries of a file that may be readable later."""


class ReloadingFile(Generic[T]):
    """An object that is loaded from a file, and loaded again when the file is replaced.

    Attributes:
        current: the loaded object. It is replaced, never changed, so its users may keep it.
        loaded: time of the last load, in UTC.
        loads: number of loads.
        failure: why the latest file could not be loaded, or None.
        reload_asked: whether to reload a file that looks the same; a signal may set it.
    """

    def __init__(self, path: str, make: Callable[[], T], observe: Callable[[bool], None] = lambda _: None) -> None:
        self.path, self._make, self._observe = path, make, observe
        self.reload_asked = False
        self._seen = self._look()
        self.current = make()
        self.loaded, self.loads = datetime.now(UTC), 1
        self.failure: str | None = None
        self._pause, self._again = _SECONDS, float("inf")  # when to try once more

    def update(self) -> None:
        """Reload the object if the file has changed; keep the old one if that fails.

        After an error that may pass, such as too many open files, it tries again after longer and longer pauses.
        """
        seen = self._look()
        if seen is None and self.reload_asked:
            self.reload_asked = False
            self._fail("there is no such file")
        changed, again = seen != self._seen or self.reload_asked, time.monotonic() >= self._again
        if seen is None or not (changed or again):
            return
        self._pause = _SECONDS if changed else min(2 * self._pause, _LONGEST_PAUSE)
        self._seen, self.reload_asked, self._again = seen, False, float("inf")
        try:
            self.current = self._make()
        except Exception as error:  # whatever is wrong with the file, the service goes on
            if _may_pass(error):
                self._again = time.monotonic() + self._pause
            if changed or str(error) != self.failure:
                self._fail(str(error))
            return
        self.failure = None
        self.loaded, self.loads = datetime.now(UTC), self.loads + 1
        getLogger(__name__).warning("%s was loaded anew", self.path)
        self._observe(True)

    def _fail(self, why: str) -> None:
        self.failure = why
        getLogger(__name__).warning("%s cannot be loaded, so the one before stays: %s", self.path, why)
        self._observe(False)

    def _look(self) -> tuple[int, int, int] | None:
        try:
            status = os.stat(self.path)
        except OSError:  # being replaced
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino


def _may_pass(error: BaseException | None) -> bool:
    """Tell whether an error may pass: it is, or comes from, one of the system or of memory."""
    while error is not None and not isinstance(error, (OSError, MemoryError)):
        error = error.__cause__
    return error is not None


def follow(files: Sequence[ReloadingFile[T]]) -> threading.Event:
    """Watch files in a thread."""
    end = threading.Event()

    def look() -> None:
        while not end.wait(_SECONDS):
            for file in files:
                file.update()

    threading.Thread(target=look, name="reload", daemon=True).start()
    return end
