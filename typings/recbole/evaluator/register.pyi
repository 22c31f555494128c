"""RecBole 1.2.1: which metrics there are and what they need."""

from recbole.config import Config
from recbole.evaluator.base_metric import AbstractMetric

metrics_dict: dict[str, type[AbstractMetric]]  # by lower-case name

class Register:
    config: Config
    metrics: list[str]

    def __init__(self, config: Config) -> None: ...
    def has_metric(self, metric: str) -> bool: ...
    def need(self, key: str) -> bool: ...
