"""Top-k next items for every user of a data set: full history used, seen items excluded, external ids."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from recbole.data.interaction import Interaction
from tqdm import tqdm

from recbole_bert4rec.errors import UserError
from recbole_bert4rec.files import atomic_write, check_writable
from recbole_bert4rec.plugin.dataset import BERT4RecDataset
from recbole_bert4rec.plugin.model import BERT4Rec


def check_destination(path: str, k: int) -> None:
    """Refuse, before hours of training, what :func:`write_recommendations` could not do after them."""
    if k < 1:
        raise UserError(f"--k must be at least 1, but is {k}")
    if Path(path).suffix not in (".csv", ".parquet"):
        raise UserError(f"--recommend must name a .csv or .parquet file, but is {path!r}")
    check_writable("--recommend", path)


def write_recommendations(model: BERT4Rec, dataset: BERT4RecDataset, path: str, k: int, batch_size: int = 256) -> int:
    """Write user, item, rank (from 1) and score, best first; a user whose unseen items run out gets fewer.

    Args:
        dataset: any part of the data; its ``sequences`` hold every interaction, valid and test included.
        path: a .csv or .parquet file, written whole or not at all.

    Returns:
        Number of users written.
    """
    frames = list(recommendations(model, dataset, k, batch_size))
    table = pd.concat(frames, ignore_index=True)
    with atomic_write(path) as temporary:
        if Path(path).suffix == ".csv":
            table.to_csv(temporary, index=False)
        else:
            table.to_parquet(temporary, index=False)
    return len({*table[dataset.uid_field]})


@torch.no_grad()
def recommendations(
    model: BERT4Rec, dataset: BERT4RecDataset, k: int, batch_size: int = 256, show_progress: bool = True
) -> Iterator[pd.DataFrame]:
    """The rows of :func:`write_recommendations`, a batch of users at a time."""
    model.eval()
    device = next(model.parameters()).device
    sequences, (users, latest) = dataset.sequences, dataset.full_sequence_of_user
    user_tokens, item_tokens = (np.asarray(dataset.field2id_token[f]) for f in (dataset.uid_field, dataset.iid_field))
    for part in tqdm(
        torch.arange(len(users)).split(batch_size), desc="Recommend", ncols=100, disable=not show_progress
    ):
        batch = users[part]
        now = sequences.offsets[latest[part] + 1]  # just after the last interaction
        width = model.max_seq_length
        begin, length = sequences.before(latest[part], now, width)
        fields = Interaction({model.ITEM_SEQ: sequences.windows(begin, length, width), model.ITEM_SEQ_LEN: length})
        if model.TIME_SEQ:
            fields[model.TIME_SEQ] = sequences.times_of(begin, length, width)
        fields = fields.to(device)
        seen_rows, seen_items = sequences.seen(latest[part], now)
        removed = (seen_rows.to(device), seen_items.to(device))
        best, items = (found.cpu() for found in model.best_items(fields, min(k, model.n_items - 1), removed))
        rows, ranks = torch.isfinite(best).nonzero(as_tuple=True)
        yield pd.DataFrame(
            {
                dataset.uid_field: user_tokens[batch[rows].numpy()],
                dataset.iid_field: item_tokens[items[rows, ranks].numpy()],
                "rank": ranks.numpy() + 1,
                "score": best[rows, ranks].numpy(),
            }
        )
