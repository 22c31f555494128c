"""RecBole 1.2.1: what every metric is."""

from recbole.config import Config
from recbole.evaluator.collector import DataStruct
from recbole.utils import EvaluatorType

class AbstractMetric:
    smaller: bool
    metric_need: list[str]
    metric_type: EvaluatorType  # not of the base itself

    def __init__(self, config: Config) -> None: ...
    def calculate_metric(self, dataobject: DataStruct) -> dict[str, float]: ...
