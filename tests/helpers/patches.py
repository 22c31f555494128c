"""RecBole's own functions, beneath what is changed in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import recbole

RECBOLE = Path(recbole.__file__).parent


def original(function: Any) -> Any:
    """RecBole's own function under our layers."""
    while hasattr(function, "__wrapped__") and not function.__code__.co_filename.startswith(str(RECBOLE)):
        function = function.__wrapped__
    return function
