"""RecBole 1.2.1: from scores to metrics."""

from recbole.evaluator.collector import Collector as Collector
from recbole.evaluator.collector import DataStruct as DataStruct
from recbole.evaluator.evaluator import Evaluator as Evaluator
from recbole.evaluator.register import Register as Register
from recbole.evaluator.register import metrics_dict as metrics_dict
