"""RecBole 1.2.1: the trainers; each is looked up here by name."""

from recbole.trainer.hyper_tuning import HyperTuning as HyperTuning
from recbole.trainer.trainer import AbstractTrainer as AbstractTrainer
from recbole.trainer.trainer import PretrainTrainer as PretrainTrainer
from recbole.trainer.trainer import TraditionalTrainer as TraditionalTrainer
from recbole.trainer.trainer import Trainer as Trainer
