"""One rule about seen items for every RecBole model: ranked like all others, or taken out of the ranking."""

from __future__ import annotations

import numpy as np
import torch
from recbole.config import Config
from recbole.data.dataloader import AbstractDataLoader, FullSortEvalDataLoader
from recbole.trainer import Trainer

from recbole_bert4rec.core.segments import index_within_segment, pair_keys, split_keys
from recbole_bert4rec.options.user_models import is_ours
from recbole_bert4rec.plugin.callbacks import Callback, EvalBatch, RankedBatch
from recbole_bert4rec.training.interactions import PHASES, Ids, Interactions, targets_of


def needs_seen_rule(config: Config) -> bool:
    """Tell whether ``exclude_seen`` is set for a model of RecBole's; this package's models follow it by themselves."""
    return not is_ours(config.model_class) and config["exclude_seen"] is not None


class SeenRule(Callback):
    """Lets RecBole's models follow ``exclude_seen``; BERT4Rec does so itself.

    RecBole's sequential models rank the items of the history, its general models leave them out. With this callback
    both rank them, or neither does. A target that the user had before stays, as in
    :class:`~recbole_bert4rec.plugin.trainer.BERT4RecTrainer`. It acts in full ranking only: RecBole draws candidates by
    rules of its own, and the paper's candidates are never seen items.
    """

    def __init__(
        self,
        exclude: bool,
        interactions: Interactions,
        valid_data: AbstractDataLoader,
        test_data: AbstractDataLoader,
    ) -> None:
        self._exclude, self._n_items = exclude, interactions.n_items
        self._keys: dict[int, Ids] = {}
        self._loader: AbstractDataLoader | None = None
        loaders = (valid_data, test_data)
        if not exclude or not any(isinstance(loader, FullSortEvalDataLoader) for loader in loaders):
            return
        if all(hasattr(loader._dataset, "histories") for loader in loaders):  # split at one moment for all users
            for loader, phase in zip(loaders, PHASES, strict=True):
                users, _ = targets_of(loader, phase)
                earlier = interactions.first_of(users, loader._dataset.histories.numpy())
                self._keys[id(loader)] = np.unique(self._key(*earlier))
        else:
            everything = self._key(interactions.users, interactions.items)
            valid, test = (self._key(*targets_of(*pair)) for pair in zip((valid_data, test_data), PHASES, strict=True))
            self._keys[id(test_data)] = _without(everything, test)
            self._keys[id(valid_data)] = _without(everything, np.concatenate([valid, test]))

    def _key(self, users: Ids, items: Ids) -> Ids:
        return pair_keys(users.astype(np.int64), items, self._n_items)

    def on_validation_begin(self, trainer: Trainer, epoch: int, loader: AbstractDataLoader) -> None:
        """Note the loader, whose histories count."""
        self._loader = loader

    def on_test_begin(self, trainer: Trainer, loader: AbstractDataLoader) -> None:
        """Note the loader, whose histories count."""
        self._loader = loader

    def on_ranking_begin(self, trainer: Trainer, batch: EvalBatch) -> EvalBatch | None:
        """Let RecBole score all items: it takes the history out for general models."""
        return batch._replace(excluded=None) if isinstance(self._loader, FullSortEvalDataLoader) else None

    def on_ranking_end(self, trainer: Trainer, ranked: RankedBatch) -> None:
        """Take the history out, if the rule says so; targets stay."""
        if not self._exclude or not isinstance(self._loader, FullSortEvalDataLoader):
            return
        interaction, scores, *targets = ranked
        rows, items = self._seen(np.asarray(interaction[self._loader._dataset.uid_field]))
        target_scores = scores[tuple(targets)]
        scores[torch.from_numpy(rows), torch.from_numpy(items)] = -torch.inf
        scores[tuple(targets)] = target_scores

    def _seen(self, users: Ids) -> tuple[Ids, Ids]:
        """Return rows (places in ``users``) and the items that they have seen."""
        keys = self._keys[id(self._loader)]
        begins, ends = (
            np.searchsorted(keys, self._key(users + shift, np.zeros(1, dtype=np.int64))) for shift in (0, 1)
        )
        rows = np.repeat(np.arange(len(users)), ends - begins)
        key_rows = begins[rows] + index_within_segment(rows, ends - begins)
        return rows, split_keys(keys[key_rows], self._n_items)[1]


def _without(keys: Ids, removed: Ids) -> Ids:
    """Return the distinct keys, sorted, that are left when one occurrence of each of ``removed`` is taken away."""
    distinct, counts = np.unique(keys, return_counts=True)
    taken, times = np.unique(removed, return_counts=True)
    counts[np.searchsorted(distinct, taken)] -= times
    remaining: Ids = distinct[counts > 0]
    return remaining
