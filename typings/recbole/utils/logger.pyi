"""RecBole 1.2.1: its log."""

import logging
from collections.abc import Callable

from recbole.config import Config

ensure_dir: Callable[[str], None]

def set_color(log: str, color: str, highlight: bool = True) -> str: ...
def init_logger(config: Config) -> None: ...

class RemoveColorFilter(logging.Filter): ...
