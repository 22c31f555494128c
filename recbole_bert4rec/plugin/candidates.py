"""Evaluation among sampled candidates: each history encoded once, and the paper's way to draw them for any model."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from recbole.config import Config
from recbole.data.dataloader import NegSampleEvalDataLoader
from recbole.data.dataset import Dataset
from torch import Tensor

from recbole_bert4rec.data.negatives import distinct_candidates
from recbole_bert4rec.errors import UserError


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
        negatives, begin = [], 0
        for part in slices:  # a call for each user, as RecBole does, so that the same numbers are drawn
            end = begin + part.stop - part.start
            drawn = self._sampler.sample_by_user_ids(users[begin:end], targets[begin:end], self.neg_sample_num)
            negatives.append(drawn.view(self.neg_sample_num, -1).T)
            begin = end
        candidates = torch.cat([rows[self.iid_field].unsqueeze(1), torch.cat(negatives)], dim=1)
        return rows, (owner, candidates), owner, rows[self.iid_field]


class PaperCandidates:
    """A sampler of RecBole's kind that draws as the paper: no item of the user, none twice, fixed by the seed.

    The draw of a user depends on (seed, user) alone, so it is the same for every model on the same data.

    Args:
        dataset: the whole data set; popularity counts all its interactions.
        distribution: ``popularity`` or ``uniform``.
        seed: of the draws.
        phase: of RecBole's samplers; kept for it.
    """

    def __init__(self, dataset: Dataset, distribution: str, seed: int, phase: str) -> None:
        self.phase = phase
        self.seed = seed
        self.own = dataset.inter_matrix(form="csr")
        weights = np.ones(dataset.item_num) if distribution == "uniform" else np.asarray(self.own.sum(0)).ravel()
        weights[0] = 0.0
        self.cumulative = np.cumsum(weights, dtype=np.float64)

    def sample_by_user_ids(self, user_ids: Any, item_ids: Any, num: int) -> Tensor:
        """``num`` candidates for each user, laid out as RecBole's samplers do. *Shape:* (num * len(user_ids),)"""
        drawn = [self._of(int(user), num) for user in user_ids]
        return torch.from_numpy(np.stack(drawn, axis=1).ravel())

    def _of(self, user: int, num: int) -> Any:
        own = self.own.indices[self.own.indptr[user] : self.own.indptr[user + 1]]
        return distinct_candidates(self.cumulative, own, num, np.random.default_rng([self.seed, user]))


def create_samplers(original: Any, config: Config, dataset: Dataset, built_datasets: list[Dataset]) -> tuple[Any, ...]:
    """RecBole's ``create_samplers``; ``candidates: paper`` replaces those of validation and test, for any model.

    Raises:
        UserError: ``candidates`` is neither recbole nor paper.
    """
    samplers = list(original(config, dataset, built_datasets))
    if config["candidates"] not in (None, "recbole", "paper"):
        raise UserError(f"`candidates` must be one of ['recbole', 'paper'], but is {config['candidates']!r} instead.")
    if config["candidates"] == "paper":
        for place, phase in ((1, "valid"), (2, "test")):
            distribution = config[f"{phase}_neg_sample_args"]["distribution"]
            if distribution != "none":
                samplers[place] = PaperCandidates(dataset, distribution, config["seed"], phase)
    return tuple(samplers)
