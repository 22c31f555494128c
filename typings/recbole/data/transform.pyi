"""RecBole 1.2.1: what is done to each batch."""

from typing import Protocol

from recbole.config import Config
from recbole.data.dataset import Dataset
from recbole.data.interaction import Interaction

class Transform(Protocol):  # the classes share no base in RecBole
    def __call__(self, dataset: Dataset, interaction: Interaction) -> Interaction: ...

def construct_transform(config: Config) -> Transform: ...
