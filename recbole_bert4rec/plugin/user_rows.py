"""Train RecBole's causal models in one pass over a user's window, not on a padded row for each prefix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from recbole.config import Config
from recbole.data.interaction import Interaction
from recbole.model.abstract_recommender import SequentialRecommender
from recbole.utils import InputType
from torch import Tensor

from recbole_bert4rec.core.batching import covering_windows
from recbole_bert4rec.core.objectives import next_items
from recbole_bert4rec.options.kinds import Kind, misfits
from recbole_bert4rec.options.table import OPTIONS
from recbole_bert4rec.plugin.loader import WindowDataLoader
from recbole_bert4rec.system.errors import UserError

CAUSAL_MODELS = ("GRU4Rec", "SASRec")
"""RecBole's models whose output at a position depends on nothing after it, and is read by ``gather_indexes``."""


class WindowModel(SequentialRecommender):
    """A model that is always trained on whole windows; its loss takes the rows of :class:`UserRowsDataLoader`.

    Attributes:
        option_kinds: the values that its options take.
    """

    input_type = InputType.POINTWISE  # a row is a sequence; the loss draws its negatives
    option_kinds: ClassVar[Mapping[str, Kind]]


def has_user_rows(config: Config) -> bool:
    """Tell whether a model of RecBole is trained on whole windows."""
    if issubclass(config.model_class, WindowModel):
        return True
    if config["training_rows"] is None or config.model_class.__name__ not in CAUSAL_MODELS:
        return False
    mistakes = misfits(config.final_config_dict, {"training_rows": OPTIONS["training_rows"].kind})
    if config["loss_type"] != "CE":
        mistakes.append(f"`training_rows` user needs `loss_type` CE, but the loss is {config['loss_type']}.")
    if mistakes:
        raise UserError(" ".join(mistakes))
    return True


class UserRowsDataLoader(WindowDataLoader):
    """Windows that hold each label of a user once, in batches of about ``train_batch_size`` items.

    A batch of RecBole's has that many rows, and each row one label.
    """

    def _extra_items(self) -> int:
        return 1

    def _cut_windows(self) -> None:
        owner, self.begin, self.length = covering_windows(self.begin, self.length, self.width)
        self.users = self.users[owner]

    def _batch_sizes(self) -> tuple[int, None]:
        return self.config["train_batch_size"], None


def loss_of_windows(original: Callable[..., Tensor], self: Any, interaction: Interaction) -> Tensor:
    """Return the mean loss over every prefix of whole sequences; rows with a label are RecBole's own."""
    if self.POS_ITEM_ID in interaction.columns:
        return original(self, interaction)
    sequences, lengths = interaction[self.ITEM_SEQ], interaction[self.ITEM_SEQ_LEN]
    shown = next_items(sequences, lengths, None)

    def gather_everywhere(output: Tensor, last: Tensor) -> Tensor:
        """Return the output at every item, (M, H), though RecBole reads only that of the last, (B, H)."""
        return output[shown.rows, shown.columns]

    rows = {self.ITEM_SEQ: shown.item_seq, self.ITEM_SEQ_LEN: lengths - 1, self.POS_ITEM_ID: shown.labels}
    self.gather_indexes = gather_everywhere
    try:
        return original(self, rows)
    finally:
        del self.gather_indexes  # the class has its own
