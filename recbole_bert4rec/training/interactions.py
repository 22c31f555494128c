"""All interactions of a data set, and the target of each user in validation and test."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from recbole.data.dataloader import AbstractDataLoader
from recbole.data.dataset import Dataset

from recbole_bert4rec.plugin.mapped import MappedDataset
from recbole_bert4rec.plugin.split import earlier_interactions
from recbole_bert4rec.system.errors import UserError

Ids = NDArray[np.int64]
"""Internal ids of users or items, or counts by id."""
PHASES = ("valid", "test")


class Interactions:
    """Every interaction of a data set, kept before RecBole cuts it into rows."""

    def __init__(self, frame: pd.DataFrame, dataset: Dataset) -> None:
        self._frame, self._fields = frame, (dataset.uid_field, dataset.iid_field)
        self._mapped = dataset.log if isinstance(dataset, MappedDataset) else None
        self._time_field: str = dataset.time_field
        self.n_items: int = dataset.item_num if dataset.iid_field else 0

    def __len__(self) -> int:
        return len(self._frame if self._mapped is None else self._mapped)

    @property
    def users(self) -> Ids:
        """Internal id of the user of each interaction. *Shape:* (T,)."""
        return np.asarray(self._frame[self._fields[0]])

    @property
    def items(self) -> Ids:
        """Internal id of the item of each interaction. *Shape:* (T,)."""
        return np.asarray(self._frame[self._fields[1]])

    def first_of(self, users: Ids, counts: Ids) -> tuple[Ids, Ids]:
        """Return the users and items of the earliest interactions of some users.

        *Shape:* users (R,), counts (R,) -> (P,) each
        """
        limit = np.zeros(int(self.users.max()) + 1, dtype=np.int64)
        limit[users] = counts
        order = np.lexsort((self.times, self.users))
        of_users = self.users[order]
        early = earlier_interactions(of_users, firsts_are_rows=True) < limit[of_users]
        return of_users[early], self.items[order][early]

    @property
    def times(self) -> NDArray[np.float32]:
        """Time of each interaction, as exactly as RecBole's rows have it. *Shape:* (T,)."""
        return np.asarray(self._frame[self._time_field], dtype=np.float32)

    @property
    def period(self) -> tuple[float, float] | None:
        """The first and the last time, as they are in the file or as RecBole scaled them; None without times."""
        if self._time_field not in self._frame:
            return None
        times = self._frame[self._time_field]
        return float(times.min()), float(times.max())


def targets_of(loader: AbstractDataLoader, phase: str) -> tuple[Ids, Ids]:
    """Return user and target of each row of an evaluation loader."""
    dataset = loader._dataset
    users, items = (np.asarray(dataset.inter_feat[field]) for field in (dataset.uid_field, dataset.iid_field))
    if len(np.unique(users)) != len(users):
        raise UserError(
            f"some users have several {phase} targets; this needs one a user: `eval_args` with split "
            "{'LS': 'valid_and_test'}, or GT; or `exclude_seen` False, which needs no history"
        )
    return users, items
