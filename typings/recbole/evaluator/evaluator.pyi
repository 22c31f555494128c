"""RecBole 1.2.1: calculates the metrics."""

from collections import OrderedDict

from recbole.config import Config
from recbole.evaluator.collector import DataStruct

class Evaluator:
    config: Config
    metrics: list[str]

    def __init__(self, config: Config) -> None: ...
    def evaluate(self, dataobject: DataStruct) -> OrderedDict[str, float]: ...
