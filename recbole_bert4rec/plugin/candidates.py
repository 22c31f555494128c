"""Evaluation among sampled candidates: each history encoded once, and the paper's way to draw them for any model."""

from __future__ import annotations

from logging import getLogger
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from recbole.config import Config
from recbole.data.dataloader import NegSampleEvalDataLoader
from recbole.data.dataset import Dataset
from recbole.sampler import RepeatableSampler
from torch import Tensor

from recbole_bert4rec.data.candidates import DistinctCandidates
from recbole_bert4rec.errors import UserError


class AliasDraws:
    """RecBole's candidates, number for number, without its loops: any item but the target, with replacement.

    Args:
        n_items: N.
        table: RecBole's alias table (items, the probability to keep each, its alternative), or None to draw uniformly.
    """

    def __init__(self, n_items: int, table: tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]] | None):
        self._n_items = n_items
        self._table = table

    def draw(self, targets: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """``count`` candidates for each target of one user, from numpy's global numbers. *Shape:* (count, targets)"""
        items = self._sample(count * len(targets))
        again = np.flatnonzero(items.reshape(count, -1) == targets)
        while len(again):
            items[again] = self._sample(len(again))
            again = again[items[again] == targets[again % len(targets)]]
        return items.reshape(count, -1)

    def _sample(self, count: int) -> NDArray[np.int64]:
        if self._table is None:
            return np.random.randint(1, self._n_items, count)
        keys, kept, alias = self._table
        place = np.random.randint(0, len(keys), count)
        return np.where(kept[place] > np.random.random(count), keys[place], alias[place])


class CandidateDataLoader(NegSampleEvalDataLoader):
    """RecBole's candidates, drawn in RecBole's order, but a row for each history instead of one for each candidate.

    A batch is ``eval_batch_size`` users: their rows (R of them), the user of each row and its candidates with the
    target first, ((R,), (R, C)), and the targets by user as RecBole gives them. With mode ``labeled``: RecBole's.
    """

    def _init_batch_size_and_step(self) -> None:
        self.step = self.config["eval_batch_size"]
        self.set_batch_size(self.step)

    def collate_fn(self, index: list[int]) -> Any:
        """See the class."""
        if "none" in (self.neg_sample_args["distribution"], self.neg_sample_args["sample_num"]):
            return super().collate_fn(index)
        slices = self.uid2index[self.uid_list[np.array(index)]]
        owner = torch.repeat_interleave(torch.tensor([part.stop - part.start for part in slices]))
        rows = self._dataset[torch.cat([torch.arange(part.start, part.stop) for part in slices])]
        users, targets = rows[self.uid_field].numpy(), rows[self.iid_field].numpy()
        bounds = np.cumsum([part.stop - part.start for part in slices])[:-1]
        by_user = zip(np.split(users, bounds), np.split(targets, bounds), strict=True)
        negatives = [self._draw(user, target) for user, target in by_user]  # user by user, as RecBole does
        candidates = np.concatenate([targets[None], np.concatenate(negatives, axis=1)]).T
        return rows, (owner, torch.from_numpy(candidates)), owner, rows[self.iid_field]

    def _draw(self, users: Any, targets: Any) -> Any:
        """Candidates of one user's rows. *Shape:* (C - 1, rows)"""
        sampler = self._sampler
        if not isinstance(sampler, RepeatableSampler):
            return sampler.sample_by_user_ids(users, targets, self.neg_sample_num).view(-1, len(users)).numpy()
        if not hasattr(self, "_draws"):
            self._draws = AliasDraws(self._dataset.item_num, _alias_table(sampler))
        return self._draws.draw(targets, self.neg_sample_num)


def _alias_table(sampler: RepeatableSampler) -> Any:
    if sampler.distribution == "uniform":
        return None
    items = list(sampler.prob)
    columns = items, [sampler.prob[item] for item in items], [sampler.alias[item] for item in items]
    return tuple(np.array(column) for column in columns)


class PaperCandidates:
    """A sampler of RecBole's kind that draws as the paper: no item of the user, none twice, fixed by the seed.

    The draw of a user depends on (seed, user) alone, so it is the same for every model on the same data.

    Args:
        dataset: the whole data set; popularity counts all interactions of users with more than one (RecBole's
            sequential data sets know of no others).
        distribution: ``popularity`` or ``uniform``.
        seed: of the draws.
        phase: of RecBole's samplers; kept for it.
    """

    def __init__(self, dataset: Dataset, distribution: str, seed: int, phase: str) -> None:
        self.phase = phase
        self.seed = seed
        self.own = dataset.inter_matrix(form="csr")
        several = self.own[np.asarray(self.own.sum(1)).ravel() > 1]
        weights = np.ones(dataset.item_num) if distribution == "uniform" else np.asarray(several.sum(0)).ravel()
        weights[0] = 0.0
        self._candidates = DistinctCandidates(weights.astype(np.float64))
        self._drawn: dict[tuple[int, int], Any] = {}

    def check(self, users: Any, num: int) -> None:
        """Raise now what :meth:`sample_by_user_ids` would raise at the first evaluation.

        Raises:
            UserError: one of ``users`` has fewer than ``num`` items left.
        """
        own = np.diff(self.own.indptr)[np.unique(users)]
        self._candidates.check(int(own.max(initial=0)), num)

    def sample_by_user_ids(self, user_ids: Any, item_ids: Any, num: int) -> Tensor:
        """``num`` candidates for each user, laid out as RecBole's samplers do. *Shape:* (num * len(user_ids),)"""
        drawn = [self._of(int(user), num) for user in user_ids]
        return torch.from_numpy(np.stack(drawn, axis=1).ravel())

    def _of(self, user: int, num: int) -> Any:
        if (user, num) not in self._drawn:
            own = self.own.indices[self.own.indptr[user] : self.own.indptr[user + 1]]
            drawn = self._candidates.draw(own, num, np.random.default_rng([self.seed, user]))
            self._drawn[user, num] = drawn.astype(np.int32)
        return self._drawn[user, num].astype(np.int64)


def create_samplers(original: Any, config: Config, dataset: Dataset, built_datasets: list[Dataset]) -> tuple[Any, ...]:
    """RecBole's ``create_samplers``; ``candidates: paper`` replaces those of validation and test, for any model.

    Raises:
        UserError: ``candidates`` is neither recbole nor paper, or a user has too few items left to draw from.
    """
    samplers = list(original(config, dataset, built_datasets))
    if config["candidates"] not in (None, "recbole", "paper"):
        raise UserError(f"`candidates` must be one of ['recbole', 'paper'], but is {config['candidates']!r} instead.")
    if config["candidates"] == "paper":
        for place, phase in ((1, "valid"), (2, "test")):
            distribution = config[f"{phase}_neg_sample_args"]["distribution"]
            count = config[f"{phase}_neg_sample_args"]["sample_num"]
            if "none" in (distribution, count):
                getLogger().warning(f"candidates: paper has no effect on {phase}, whose mode draws no candidates")
                continue
            paper = samplers[place] = PaperCandidates(dataset, distribution, config["seed"], phase)
            paper.check(built_datasets[place].inter_feat[dataset.uid_field].numpy(), count)
    return tuple(samplers)
