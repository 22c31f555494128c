"""RecBole's causal models trained in one pass over a user's window, in place of one padded row a prefix."""

from __future__ import annotations

from typing import Any, cast

import torch
from recbole.config import Config
from recbole.data.interaction import Interaction
from recbole.model.abstract_recommender import SequentialRecommender
from torch import Tensor

from recbole_bert4rec.data.next_item import next_items
from recbole_bert4rec.errors import UserError
from recbole_bert4rec.options.checks import mistakes_of_values
from recbole_bert4rec.plugin.loader import WindowDataLoader
from recbole_bert4rec.scoped import replaced

CAUSAL_MODELS = ("GRU4Rec", "GRU4RecF", "SASRec", "SASRecF")
"""RecBole's models whose output at a position depends on nothing after it, and is read by ``gather_indexes``."""


def has_user_rows(config: Config) -> bool:
    """Tell whether a model of RecBole's is to be trained on whole windows.

    Raises:
        UserError: the options do not allow it.
    """
    if config["training_rows"] is None or config["model"] not in CAUSAL_MODELS:
        return False
    mistakes = mistakes_of_values(config.final_config_dict, ["training_rows"])
    if config["loss_type"] != "CE":
        mistakes.append(f"`training_rows` user needs `loss_type` CE, but the loss is {config['loss_type']}.")
    if mistakes:
        raise UserError(" ".join(mistakes))
    return True


class UserRowsDataLoader(WindowDataLoader):
    """Windows that cover each user's history, in batches of about ``train_batch_size`` items.

    RecBole's batch has so many rows, and each row one label: so steps and labels are as many.
    """

    def _extra_items(self) -> int:
        return 1

    def _cut_windows(self) -> None:
        self._slide(self.width - 1)  # the last item of a window is the first of the next: each is predicted once

    def _items_in_batch(self) -> int | None:
        items: int = self.config["train_batch_size"]
        return items


def train_on_user_rows(model: SequentialRecommender) -> None:
    """Let ``calculate_loss`` take whole sequences: the loss is then the mean over every prefix of them.

    Args:
        model: one of :data:`CAUSAL_MODELS`, changed in place.
    """
    of_rows = model.calculate_loss

    def calculate_loss(interaction: Interaction) -> Tensor:
        sequences, lengths = interaction[model.ITEM_SEQ], interaction[model.ITEM_SEQ_LEN]
        shown = next_items(sequences, lengths, model.n_items, torch.default_generator)

        def gather_everywhere(output: Tensor, last: Tensor) -> Tensor:
            """Return the output at every item, (M, H), where RecBole reads that of the last alone, (B, H)."""
            return output[shown.rows, shown.columns]

        rows: Any = {model.ITEM_SEQ: shown.item_seq, model.ITEM_SEQ_LEN: lengths - 1, model.POS_ITEM_ID: shown.labels}
        with replaced(model, "gather_indexes", gather_everywhere):
            return cast(Tensor, of_rows(rows))

    setattr(model, "calculate_loss", calculate_loss)  # noqa: B010  a method, to mypy
