"""Lines on the screen for programs: a JSON object each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def json_line(seconds: float, level: str, event: str | None, message: str, fields: Mapping[str, Any]) -> str:
    """Return one line.

    Args:
        seconds: time of the line, since 1970; written as ISO 8601 in UTC.
        level: such as ``info``.
        event: name of the line; None if it is for people alone.
        message: the line in words.
        fields: values of the event; those that JSON does not know are written as text.
    """
    time = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": time, "level": level, "event": event, "message": message, **fields}, default=str)
