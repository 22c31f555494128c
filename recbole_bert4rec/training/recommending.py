"""Top-k next items for every user of a data set, ranked as in evaluation, with external ids."""

from __future__ import annotations

from collections.abc import Iterator
from logging import getLogger
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from recbole.data.interaction import Interaction
from tqdm.auto import tqdm

from recbole_bert4rec.plugin.dataset import BERT4RecDataset
from recbole_bert4rec.plugin.model import BERT4Rec
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.files import atomic_write, check_table


def check_destination(path: str, k: int) -> None:
    """Refuse, before hours of training, what :func:`write_recommendations` could not do after them.

    Args:
        path: of the file.
        k: items a user.

    Raises:
        UserError: ``k`` is below 1, or the file has a wrong ending or no folder.
    """
    if k < 1:
        raise UserError(f"--k must be at least 1, but is {k}")
    check_table("--recommend", path)


def write_recommendations(
    model: BERT4Rec, dataset: BERT4RecDataset, path: str, k: int, exclude_seen: bool, show_progress: bool = True
) -> int:
    """Write a file with the columns user, item, rank (from 1) and score, best first.

    Args:
        model: scores the items.
        dataset: any part of the data; its ``sequences`` hold every interaction, valid and test included.
        path: a .csv or .parquet file, written whole or not at all.
        k: items a user. With ``exclude_seen``, a user with fewer unseen items gets fewer.
        exclude_seen: see :func:`recommendations`.
        show_progress: show a bar on a terminal.

    Returns:
        Number of users written.
    """
    how = (
        "items of a user's history are left out (exclude_seen=True)"
        if exclude_seen
        else "items of a user's history may be recommended again, as they were ranked in evaluation "
        "(exclude_seen=False); --exclude_seen=True leaves them out"
    )
    getLogger().info(f"recommending: {how}")
    table = pd.concat(recommendations(model, dataset, k, exclude_seen, show_progress=show_progress), ignore_index=True)
    with atomic_write(path) as temporary:
        if Path(path).suffix == ".csv":
            table.to_csv(temporary, index=False)
        else:
            table.to_parquet(temporary, index=False)
    return len({*table[dataset.uid_field]})


@torch.no_grad()
def recommendations(
    model: BERT4Rec,
    dataset: BERT4RecDataset,
    k: int,
    exclude_seen: bool,
    batch_size: int = 256,
    show_progress: bool = True,
) -> Iterator[pd.DataFrame]:
    """Yield the rows of :func:`write_recommendations`, a batch of users at a time.

    The items are ranked as in evaluation, for a history that ends with the user's last interaction.

    Args:
        model: scores the items; with ``seen_bias`` it adds its learnt number to items of the history.
        dataset: any part of the data.
        k: items a user.
        exclude_seen: the option of that name. True leaves every item of the whole history out; False ranks them like
            all others, so that they may be recommended again.
        batch_size: users scored at once.
        show_progress: show a bar.
    """
    model.eval()
    device = next(model.parameters()).device
    sequences, (users, latest) = dataset.sequences, dataset.full_sequence_of_user
    user_tokens, item_tokens = (np.asarray(dataset.field2id_token[f]) for f in (dataset.uid_field, dataset.iid_field))
    nothing = torch.empty(0, dtype=torch.int64, device=device)
    for part in tqdm(
        torch.arange(len(users)).split(batch_size), desc="Recommend", ncols=100, disable=None if show_progress else True
    ):
        batch = users[part]
        now = sequences.offsets[latest[part] + 1]  # just after the last interaction
        width = model.max_seq_length
        begin, length = sequences.before(latest[part], now, width)
        fields = Interaction({model.ITEM_SEQ: sequences.windows(begin, length, width), model.ITEM_SEQ_LEN: length})
        if model.TIME_SEQ:
            fields[model.TIME_SEQ] = sequences.times_of(begin, length, width)
        seen_rows, seen_items = sequences.seen(latest[part], now)
        seen = (seen_rows.to(device), seen_items.to(device))
        removed = seen if exclude_seen else (nothing, nothing)
        best, items = model.best_items(fields.to(device), min(k, model.n_items - 1), removed, seen)
        best, items = best.cpu(), items.cpu()
        rows, ranks = torch.isfinite(best).nonzero(as_tuple=True)
        yield pd.DataFrame(
            {
                dataset.uid_field: user_tokens[batch[rows].numpy()],
                dataset.iid_field: item_tokens[items[rows, ranks].numpy()],
                "rank": ranks.numpy() + 1,
                "score": best[rows, ranks].numpy(),
            }
        )
