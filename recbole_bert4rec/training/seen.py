"""One rule about seen items for every RecBole model: ranked like all others, or taken out of the ranking."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import torch
from recbole.data.dataloader import FullSortEvalDataLoader
from recbole.data.dataset import Dataset
from torch import Tensor

from recbole_bert4rec.errors import UserError
from recbole_bert4rec.segments import index_within_segment, pair_keys, split_keys

PHASES = ("valid", "test")


class Interactions:
    """Every interaction of a data set, kept before RecBole cuts it into rows.

    Args:
        frame: the data set's ``inter_feat`` as it was loaded and filtered.
        dataset: names its columns.
    """

    def __init__(self, frame: pd.DataFrame, dataset: Dataset) -> None:
        self._frame, self._fields = frame, (dataset.uid_field, dataset.iid_field)
        self.n_items = dataset.item_num if dataset.iid_field else 0

    @property
    def users(self) -> Any:
        """Internal ids. *Shape:* (T,)"""
        return self._frame[self._fields[0]].to_numpy()

    @property
    def items(self) -> Any:
        """Internal ids. *Shape:* (T,)"""
        return self._frame[self._fields[1]].to_numpy()

    def training_counts(self, loaders: Iterable[Any]) -> Any:
        """How often each item stands in the training part. *Shape:* (N,)

        Args:
            loaders: of validation and test, whose targets do not count.
        """
        counts = np.bincount(self.items, minlength=self.n_items)
        for loader, phase in zip(loaders, PHASES, strict=True):
            counts -= np.bincount(targets_of(loader, phase)[1], minlength=self.n_items)
        return counts


def targets_of(loader: Any, split: str) -> tuple[Any, Any]:
    """User and target of each row of an evaluation loader.

    Raises:
        UserError: a user has more than one target, so that what was seen before depends on the row.
    """
    dataset = loader._dataset
    users, items = (np.asarray(dataset.inter_feat[field]) for field in (dataset.uid_field, dataset.iid_field))
    if len(np.unique(users)) != len(users):
        raise UserError(
            f"some users have several {split} targets; this needs `eval_args` with split {{'LS': 'valid_and_test'}}"
        )
    return users, items


class SeenRule:
    """Makes a RecBole trainer, of whatever model but BERT4Rec (which does it itself), follow ``exclude_seen``.

    RecBole's sequential models rank the items of the history, its general models leave them out. With this both rank
    them or neither does; a target that the user had before stays, as in :class:`BERT4RecTrainer`. Full ranking
    only: candidates are drawn by RecBole's rules, and the paper's are never seen items.

    Args:
        trainer: its ``evaluate`` and ``_full_sort_batch_eval`` are replaced.
        exclude: take seen items out, or rank them.
        interactions: all of the data set's.
        valid_data, test_data: loaders with one target a user.
    """

    def __init__(
        self, trainer: Any, exclude: bool, interactions: Interactions, valid_data: Any, test_data: Any
    ) -> None:
        self._exclude, self._n_items = exclude, interactions.n_items
        self._evaluate, self._rank = trainer.evaluate, trainer._full_sort_batch_eval
        self._keys: dict[int, Any] = {}
        if exclude and any(isinstance(loader, FullSortEvalDataLoader) for loader in (valid_data, test_data)):
            everything = self._key(interactions.users, interactions.items)
            valid, test = (self._key(*targets_of(*pair)) for pair in zip((valid_data, test_data), PHASES, strict=True))
            self._keys[id(test_data)] = _without(everything, test)
            self._keys[id(valid_data)] = _without(everything, np.concatenate([valid, test]))
        trainer.evaluate, trainer._full_sort_batch_eval = self._evaluate_phase, self._rank_batch

    def _key(self, users: Any, items: Any) -> Any:
        return pair_keys(users.astype(np.int64), items, self._n_items)

    def _evaluate_phase(self, eval_data: Any, *args: Any, **kwargs: Any) -> Any:
        self._loader = eval_data
        return self._evaluate(eval_data, *args, **kwargs)

    def _rank_batch(self, batched_data: Any) -> tuple[Any, Tensor, Tensor, Tensor]:
        interaction, _, positive_u, positive_i = batched_data
        _, scores, *_ = self._rank((interaction, None, positive_u, positive_i))
        if self._exclude:
            dataset = self._loader._dataset
            rows, items = self._seen(np.asarray(interaction[dataset.uid_field]))
            targets = scores[positive_u, positive_i]
            scores[torch.from_numpy(rows), torch.from_numpy(items)] = -torch.inf
            scores[positive_u, positive_i] = targets
        return interaction, scores, positive_u, positive_i

    def _seen(self, users: Any) -> tuple[Any, Any]:
        """Rows (places in ``users``) and the items that they have seen."""
        keys = self._keys[id(self._loader)]
        begins, ends = (np.searchsorted(keys, self._key(users + shift, 0)) for shift in (0, 1))
        rows = np.repeat(np.arange(len(users)), ends - begins)
        index = begins[rows] + index_within_segment(rows, ends - begins)
        return rows, split_keys(keys[index], self._n_items)[1]


def _without(keys: Any, removed: Any) -> Any:
    """The distinct keys, sorted, that are left when one occurrence of each of ``removed`` is taken away."""
    distinct, counts = np.unique(keys, return_counts=True)
    taken, times = np.unique(removed, return_counts=True)
    counts[np.searchsorted(distinct, taken)] -= times
    return distinct[counts > 0]
