"""RecBole 1.2.1: the bases of the models."""

from logging import Logger
from typing import Any, TypeAlias

import torch
from recbole.config import Config
from recbole.data.dataset import Dataset
from recbole.data.interaction import Interaction
from recbole.utils import InputType, ModelType
from torch import Tensor, nn

class AbstractRecommender(nn.Module):
    logger: Logger

    def __init__(self) -> None: ...
    def calculate_loss(self, interaction: Interaction) -> Tensor | tuple[Tensor, ...]: ...
    def predict(self, interaction: Interaction) -> Tensor: ...
    def full_sort_predict(self, interaction: Interaction) -> Tensor: ...
    def other_parameter(self) -> dict[str, Any]: ...
    def load_other_parameter(self, para: dict[str, Any] | None) -> None: ...

class GeneralRecommender(AbstractRecommender):
    type: ModelType  # type: ignore[assignment]  # torch has a method of the name
    input_type: InputType  # of the models themselves
    USER_ID: str
    ITEM_ID: str
    NEG_ITEM_ID: str
    n_users: int
    n_items: int
    device: torch.device

    def __init__(self, config: Config, dataset: Dataset) -> None: ...

class SequentialRecommender(AbstractRecommender):
    type: ModelType  # type: ignore[assignment]  # torch has a method of the name
    input_type: InputType  # of some models themselves
    USER_ID: str
    ITEM_ID: str
    ITEM_SEQ: str
    ITEM_SEQ_LEN: str
    POS_ITEM_ID: str
    NEG_ITEM_ID: str
    max_seq_length: int
    n_items: int
    device: torch.device

    def __init__(self, config: Config, dataset: Dataset) -> None: ...
    def gather_indexes(self, output: Tensor, gather_index: Tensor) -> Tensor: ...
    def get_attention_mask(self, item_seq: Tensor, bidirectional: bool = False) -> Tensor: ...

class KnowledgeRecommender(AbstractRecommender):
    type: ModelType  # type: ignore[assignment]  # torch has a method of the name
    input_type: InputType
    device: torch.device

    def __init__(self, config: Config, dataset: Dataset) -> None: ...

class ContextRecommender(AbstractRecommender):
    type: ModelType  # type: ignore[assignment]  # torch has a method of the name
    input_type: InputType
    device: torch.device

    def __init__(self, config: Config, dataset: Dataset) -> None: ...

# The stub's name for what can be made of a configuration and a data set, as the common base cannot.
ConcreteRecommender: TypeAlias = GeneralRecommender | SequentialRecommender | KnowledgeRecommender | ContextRecommender
