"""Follows a file: when another one takes its place, what was made of it is made anew."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from logging import getLogger
from typing import Generic, TypeVar

T = TypeVar("T")
_SECONDS = 0.5
"""Between two looks at the files."""
_LONGEST_PAUSE = 60.0
"""Seconds between two tries of a file that may be readable later."""


class Followed(Generic[T]):
    """What was last made of a file.

    Args:
        path: of the file.
        make: makes it of the file as it is now.
        observe: is told of each later load whether it went well.

    Attributes:
        current: what was made. It is replaced, never changed, so whoever took it may go on with it.
        loaded: when it was made, in UTC.
        loads: how often it was made.
        failure: why the file as it is now could not be made, or None.
        asked: to make it anew though the file looks the same; a signal may set it.
    """

    def __init__(self, path: str, make: Callable[[], T], observe: Callable[[bool], None] = lambda _: None) -> None:
        self.path, self._make, self._observe = path, make, observe
        self.asked = False
        self._seen = self._look()
        self.current = make()
        self.loaded, self.loads = datetime.now(timezone.utc), 1
        self.failure: str | None = None
        self._pause, self._again = _SECONDS, float("inf")  # when to try once more

    def update(self) -> None:
        """Make it anew where the file has changed; keep what there is where that fails.

        What failed for a reason that may pass, such as files that are out, is tried again after longer and longer
        pauses.
        """
        seen = self._look()
        if seen is None and self.asked:
            self.asked = False
            self._fail("there is no such file")
        changed, again = seen != self._seen or self.asked, time.monotonic() >= self._again
        if seen is None or not (changed or again):
            return
        self._pause = _SECONDS if changed else min(2 * self._pause, _LONGEST_PAUSE)
        self._seen, self.asked, self._again = seen, False, float("inf")
        try:
            self.current = self._make()
        except Exception as error:  # whatever is wrong with the file, the service goes on
            if _may_pass(error):
                self._again = time.monotonic() + self._pause
            if changed or str(error) != self.failure:
                self._fail(str(error))
            return
        self.failure = None
        self.loaded, self.loads = datetime.now(timezone.utc), self.loads + 1
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
    """Say whether an error may be gone later: it is, or comes from, one of the system or of memory."""
    while error is not None and not isinstance(error, (OSError, MemoryError)):
        error = error.__cause__
    return error is not None


def follow(files: Sequence[Followed[T]]) -> threading.Event:
    """Look at files in a thread.

    Returns:
        An event that ends it.
    """
    end = threading.Event()

    def look() -> None:
        while not end.wait(_SECONDS):
            for one in files:
                one.update()

    threading.Thread(target=look, name="reload", daemon=True).start()
    return end
