"""The trainer that RecBole finds for this package's models; a run of RecBole's leaves the same record as ours."""

from __future__ import annotations

from typing import Any

from recbole.config import Config
from recbole.data.dataloader import AbstractDataLoader
from recbole.model.abstract_recommender import AbstractRecommender
from recbole.trainer import Trainer

from recbole_bert4rec.options.user_models import is_ours
from recbole_bert4rec.plugin import hooks, trainer
from recbole_bert4rec.plugin.hooks import Hook
from recbole_bert4rec.system.constants import OUR_MODELS
from recbole_bert4rec.training.epochs import EpochLog
from recbole_bert4rec.training.record import RecordWriter


class BERT4RecTrainer(trainer.BERT4RecTrainer):
    """This package's trainer with the record of the run beside the checkpoint; without ``saved`` nothing is written."""

    def __new__(cls, config: Config, model: AbstractRecommender) -> Any:
        """Make RecBole's own trainer for a class of the user's that only has the name of a model of ours."""
        return super().__new__(cls) if is_ours(type(model)) else Trainer(config, model)

    def _begin(self, train_data: AbstractDataLoader, saved: bool) -> None:
        log = EpochLog()
        self.callbacks[:] = [log, RecordWriter(log)] if saved else []
        super()._begin(train_data, saved)


hooks.HOOKS += [
    Hook(
        "recbole.trainer",
        f"{name}Trainer",
        BERT4RecTrainer,
        "utils/utils.py:99",
        "RecBole finds a model's trainer by this name",
    )
    for name in OUR_MODELS
]
