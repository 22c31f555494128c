"""Make data set, loaders, model and trainer of a configuration from RecBole's parts, for our programs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import wraps
from logging import getLogger
from typing import Any, cast
from unittest.mock import patch

import recbole.data.dataset
import recbole.data.utils as recbole_data
import recbole.utils.utils as recbole_utils
import torch
from recbole.config import Config
from recbole.data.dataloader import AbstractDataLoader
from recbole.data.dataset import Dataset, KnowledgeBasedDataset, SequentialDataset
from recbole.data.interaction import Interaction
from recbole.model.abstract_recommender import AbstractRecommender, GeneralRecommender, SequentialRecommender
from recbole.model.general_recommender import Pop
from recbole.trainer import Trainer
from recbole.utils import ModelType, init_seed
from torch import Tensor

from recbole_bert4rec.options.user_models import is_ours, parent_of
from recbole_bert4rec.plugin.baselines import WindowModel, has_user_rows, loss_of_windows
from recbole_bert4rec.plugin.callbacks import Callback, observed
from recbole_bert4rec.plugin.dataset import BERT4RecDataset
from recbole_bert4rec.plugin.distributed import rank_of
from recbole_bert4rec.plugin.loading import CheckedLoading
from recbole_bert4rec.plugin.mapped import MappedDataset, reads_mapped
from recbole_bert4rec.plugin.model import BERT4Rec
from recbole_bert4rec.plugin.trainer import BERT4RecTrainer
from recbole_bert4rec.system.errors import UserError


@wraps(BERT4RecDataset, updated=())  # RecBole's file of a saved data set has the name of the class
def make_dataset(config: Config) -> Dataset:
    """Make the data set that a configuration needs; a class that only has the name of one of ours gets RecBole's."""
    if isinstance(config, dict):
        raise UserError(
            "load_data_and_model was imported from RecBole before recbole_bert4rec, so it takes the checkpoint for "
            "one of RecBole's; import it after recbole_bert4rec"
        )
    if is_ours(config.model_class):
        return MappedDataset(config) if reads_mapped(config) else BERT4RecDataset(config)
    return BERT4RecDataset(config) if has_user_rows(config) else SequentialDataset(config)


def _reduce_to_recboles(self: Any) -> Any:
    """Pickle as RecBole's own class, which others read without us."""
    plain = Dataset.__new__(type(self).__mro__[2])
    vars(plain).update(vars(self))
    return plain.__reduce_ex__(1)


def _checked(dataset_class: Any) -> Any:
    """Return a subclass of one of RecBole's data sets that reads files as ours do."""
    return type(dataset_class.__name__, (CheckedLoading, dataset_class), {"__reduce__": _reduce_to_recboles})


def create_dataset(config: Config) -> Dataset:
    """Read the files of the data set, which is not yet split; a saved one is unpickled only with ``trust_pickles``.

    RecBole unpickles whatever lies in ``checkpoint_dir`` under the right name (data/utils.py:61).
    """
    home, name = recbole.data.dataset, f"{config['model']}Dataset"
    named: Any = getattr(home, name, None) or getattr(home, f"{parent_of(config.model_class)}Dataset", None)
    if named is not None and named.__module__.partition(".")[0] not in ("recbole", "recbole_bert4rec"):
        make: Any = named  # the user's own
    elif is_ours(config.model_class) or has_user_rows(config):
        make = make_dataset
    else:
        kinds: dict[Any, Any] = {ModelType.SEQUENTIAL: SequentialDataset, ModelType.KNOWLEDGE: KnowledgeBasedDataset}
        by_type = kinds.get(config["MODEL_TYPE"], Dataset)
        make = _checked(named if isinstance(named, type) else by_type)  # a class may only have the name of ours
    if _trusts_pickles(config, "dataset_save_path"):
        with patch.object(home, name, make, create=True):
            return recbole_data.create_dataset(config)
    dataset: Dataset = make(config)
    if config["save_dataset"]:
        dataset.save()
    return dataset


def data_preparation(config: Config, dataset: Dataset) -> tuple[AbstractDataLoader, ...]:
    """Return the loaders of the training, validation and test part; saved ones are unpickled with ``trust_pickles``."""
    trusted = _trusts_pickles(config, "dataloaders_save_path")
    saved = recbole_data.load_split_dataloaders if trusted else lambda config: None
    if type(dataset).__module__.startswith("recbole."):  # it was unpickled
        dataset.__class__ = _checked(type(dataset))
    with patch.object(recbole_data, "load_split_dataloaders", saved):
        loaders: tuple[AbstractDataLoader, ...] = recbole_data.data_preparation(config, dataset)
    return loaders


def _trusts_pickles(config: Config, option: str) -> bool:
    """Tell whether saved data may be unpickled; else refuse a file that ``option`` names."""
    if config["trust_pickles"] is True:
        return True
    if config[option]:
        raise UserError(
            f"`{option}` {config[option]} is a pickle, which can run any code when it is read; if you trust its maker, "
            "--trust_pickles=True reads it"
        )
    return False


class _OnWindows(SequentialRecommender):
    """A base class before a causal model of RecBole, whose loss then takes whole windows (sasrec.py:116)."""

    def calculate_loss(self: Any, interaction: Interaction) -> Tensor:
        """Return the loss of rows or windows."""
        return loss_of_windows(super().calculate_loss, self, interaction)


class _Counting(GeneralRecommender):
    """A base class before RecBole's Pop, which counts repeated items of a batch only once (pop.py:47)."""

    def calculate_loss(self: Any, interaction: Interaction) -> Tensor:
        """Count every interaction of a batch."""
        counts, items = self.item_cnt.clone(), interaction[self.ITEM_ID]
        loss: Tensor = super().calculate_loss(interaction)
        counts.index_add_(0, items, torch.ones_like(items).unsqueeze(1))
        self.item_cnt, self.max_cnt = counts, counts.max(dim=0)[0]
        return loss


def make_model(config: Config, train_data: AbstractDataLoader) -> AbstractRecommender:
    """Set the seed of this process, and make the untrained model."""
    init_seed(config["seed"] + rank_of(config), config["reproducibility"])
    model_class: Any = config.model_class
    if issubclass(model_class, Pop):
        model_class = type(model_class.__name__, (_Counting, model_class), {})
    elif not issubclass(model_class, (BERT4Rec, WindowModel)) and has_user_rows(config):
        model_class = type(model_class.__name__, (_OnWindows, model_class), {})
    model: AbstractRecommender = model_class(config, train_data._dataset).to(config["device"])
    getLogger().info(model)
    return model


def make_trainer(config: Config, model: AbstractRecommender, callbacks: Iterable[Callback] = ()) -> Trainer:
    """Make RecBole's trainer of the model, which calls the callbacks."""
    if is_ours(config.model_class):
        return BERT4RecTrainer(config, cast(BERT4Rec, model), callbacks)
    kind: type = recbole_utils.get_trainer(config["MODEL_TYPE"], parent_of(config.model_class))
    return observed(kind)(config, model, callbacks)
