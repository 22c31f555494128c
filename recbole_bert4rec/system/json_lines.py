"""What a program reads of the screen: an object a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any


def json_line(seconds: float, level: str, event: str | None, message: str, fields: Mapping[str, Any]) -> str:
    """Return one line.

    Args:
        seconds: since 1970, when it was said; written as ISO 8601 in UTC.
        level: such as ``info``.
        event: what it tells; None for lines that are for people alone.
        message: the same in words.
        fields: the event's values; what JSON does not know is written as text.
    """
    time = datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds")
    return json.dumps({"time": time, "level": level, "event": event, "message": message, **fields}, default=str)
