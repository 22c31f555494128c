"""The best next items of every user of a run's data, by the model that it trained."""

from __future__ import annotations

from logging import getLogger
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from recbole_bert4rec.plugin.dataset import BERT4RecDataset
from recbole_bert4rec.plugin.loading import item_tokens
from recbole_bert4rec.plugin.model import BERT4Rec
from recbole_bert4rec.recommend.histories import Histories
from recbole_bert4rec.recommend.ids import Items
from recbole_bert4rec.recommend.recommender import Recommender
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.files import atomic_write, check_table

_USERS_AT_ONCE = 1 << 12


def check_destination(path: str, k: int) -> None:
    """Refuse, before hours of training, arguments with which :func:`write_recommendations` would fail after them."""
    if k < 1:
        raise UserError(f"--k must be at least 1, but is {k}")
    check_table("--recommend", path)


def recommender_of(model: BERT4Rec, dataset: BERT4RecDataset) -> Recommender:
    """Return a trained model with the whole history of every user, valid and test included."""
    all_histories = dataset.all_histories()
    users = np.array(all_histories["users"], dtype=object)
    histories = Histories(users, all_histories["items"].numpy(), all_histories["offsets"].numpy())
    config = dataset.config.final_config_dict
    items = Items(item_tokens(dataset))
    return Recommender(model.eval(), config, items, dataset.training_counts(), histories)


def write_recommendations(
    model: BERT4Rec, dataset: BERT4RecDataset, path: str, k: int, show_progress: bool = True
) -> int:
    """Write a file with the columns user, item, rank (from 1) and score, best first, as :class:`Recommender` says."""
    recommender = recommender_of(model, dataset)
    getLogger().info(f"recommending: {recommender.viewed.why}")
    everybody = recommender.read(None)
    starts = range(0, len(everybody), _USERS_AT_ONCE)
    parts = [np.arange(start, min(start + _USERS_AT_ONCE, len(everybody))) for start in starts]
    bar = tqdm(parts, desc="Recommend", ncols=100, disable=None if show_progress else True)
    table = pd.concat([recommender.recommend(everybody.take(rows), k) for rows in bar], ignore_index=True)
    with atomic_write(path) as temporary:
        if Path(path).suffix == ".csv":
            table.to_csv(temporary, index=False)
        else:
            table.to_parquet(temporary, index=False)
    return len({*table[dataset.uid_field]})
