"""Evaluation among sampled candidates: each history is encoded once, and any model can have the paper's draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from logging import getLogger
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from recbole.config import Config
from recbole.data.dataloader import NegSampleEvalDataLoader
from recbole.data.dataset import Dataset
from recbole.data.interaction import Interaction
from recbole.sampler.sampler import AbstractSampler
from recbole.utils import EvaluatorType
from torch import Tensor

from recbole_bert4rec.core.sampling import DistinctCandidates
from recbole_bert4rec.options.user_models import SHIPPED, source_of
from recbole_bert4rec.plugin.config import is_served
from recbole_bert4rec.plugin.mapped import MappedDataset


class CandidateDataLoader(NegSampleEvalDataLoader):
    """Yield one row for each history instead of one for each candidate, so that a history is encoded once.

    Candidates are drawn as RecBole draws them, in the same order. A batch has R rows of ``eval_batch_size`` users, the
    user of each row (R,) with its candidates, the target first, (R, C), and users and items of the targets (R,).
    """

    def _init_batch_size_and_step(self) -> None:
        self.step = self.config["eval_batch_size"]
        self.set_batch_size(self.step)

    def collate_fn(self, index: list[int]) -> Any:
        """Return the batch of some users."""
        slices = self.uid2index[self.uid_list[np.array(index)]]
        owner = torch.repeat_interleave(torch.tensor([part.stop - part.start for part in slices]))
        rows = self._dataset[torch.cat([torch.arange(part.start, part.stop) for part in slices])]
        users, targets = rows[self.uid_field].numpy(), rows[self.iid_field].numpy()
        bounds = np.cumsum([part.stop - part.start for part in slices])[:-1]
        by_user = zip(np.split(users, bounds), np.split(targets, bounds), strict=True)
        draws = [  # user by user, in RecBole's order
            self._sampler.sample_by_user_ids(user, target, self.neg_sample_num).numpy().reshape(-1, len(user))
            for user, target in by_user
        ]
        candidates = np.concatenate([targets[None], np.concatenate(draws, axis=1)]).T
        return rows, (owner, torch.from_numpy(candidates)), owner, rows[self.iid_field]


class PaperCandidates:
    """Draw candidates as the paper does: no item of the user, none twice (section 4.2).

    The class replaces a sampler of RecBole. A user's draw depends on (seed, user) alone, so it is the same for every
    model on the same data. Popularity counts the interactions of users with at least two; RecBole's sequential data
    sets hold no others.
    """

    def __init__(self, dataset: Dataset, distribution: str, seed: int, phase: str) -> None:
        self.phase = phase
        self.seed = seed
        self._matrix = dataset.inter_matrix(form="csr")
        several = self._matrix[np.asarray(self._matrix.sum(1)).ravel() > 1]
        weights = np.ones(dataset.item_num) if distribution == "uniform" else np.asarray(several.sum(0)).ravel()
        weights[0] = 0.0
        self._candidates = DistinctCandidates(weights.astype(np.float64))
        self._drawn: dict[tuple[int, int], Any] = {}

    def check(self, users: NDArray[np.int64], num: int) -> None:
        """Refuse, before training, a draw that would fail at the first evaluation."""
        counts = np.diff(self._matrix.indptr)[np.unique(users)]
        self._candidates.check(int(counts.max(initial=0)), num)

    def sample_by_user_ids(
        self, user_ids: Sequence[int] | NDArray[np.int64] | Tensor, item_ids: object, num: int
    ) -> Tensor:
        """Draw candidates in the layout of RecBole's samplers: the first of each row, then the second; (num * R,)."""
        drawn = [self._drawn_for(int(user), num) for user in user_ids]
        return torch.from_numpy(np.stack(drawn, axis=1).ravel())

    def _drawn_for(self, user: int, num: int) -> Any:
        if (user, num) not in self._drawn:
            items = self._matrix.indices[self._matrix.indptr[user] : self._matrix.indptr[user + 1]]
            drawn = self._candidates.draw(items, num, np.random.default_rng([self.seed, user]))
            self._drawn[user, num] = drawn.astype(np.int32)
        return self._drawn[user, num].astype(np.int64)


def create_samplers(
    original: Callable[..., tuple[AbstractSampler | None, ...]],
    config: Config,
    dataset: Dataset,
    built_datasets: list[Dataset],
) -> tuple[AbstractSampler | None, ...]:
    """Make RecBole's samplers; ``candidates: paper``, which RecBole does not know, replaces those of the evaluation."""
    if not is_served(config):
        return original(config, dataset, built_datasets)
    by_phase = {phase: config[f"{phase}_neg_sample_args"] for phase in ("valid", "test")}
    draws = {phase: "none" not in (of["distribution"], of["sample_num"]) for phase, of in by_phase.items()}
    if isinstance(dataset, MappedDataset) and not any(draws.values()):
        return None, None, None  # RecBole's would hold an empty set for each user, twice
    samplers = list(original(config, dataset, built_datasets))
    for number, (phase, arguments) in enumerate(by_phase.items(), 1):
        if config["candidates"] == "paper" and not draws[phase]:
            getLogger().warning(f"candidates: paper has no effect on {phase}: its mode draws no candidates")
        elif config["candidates"] == "paper":
            paper = samplers[number] = PaperCandidates(dataset, arguments["distribution"], config["seed"], phase)
            users = built_datasets[number].inter_feat[dataset.uid_field].numpy()
            paper.check(users, arguments["sample_num"])
    return tuple(samplers)


ENCODED_ONCE = ("Caser", "FPMC", "GRU4Rec", "SASRec", *SHIPPED)
"""Models whose ``predict`` and ``full_sort_predict`` give an item the same score."""

Batch = tuple[Interaction, Tensor, Tensor, Tensor]
"""Rows of users and candidates, the user of each, and users and items of the targets."""


def score_candidates(score: Callable[[Batch], Any], trainer: Any, batched_data: Batch) -> Any:
    """Score a batch of users' candidates; the scores are RecBole's up to rounding."""
    interaction, users, positive_u, positive_i = batched_data
    is_ranked = trainer.config["eval_type"] == EvaluatorType.RANKING
    if source_of(trainer.config.model_class) not in ENCODED_ONCE or not is_ranked:
        return score(batched_data)
    n_users = int(positive_u[-1]) + 1
    if len(positive_u) != n_users:  # each target of a user has its own history
        return score(batched_data)
    first = torch.searchsorted(users, torch.arange(n_users))
    whole = trainer.model.full_sort_predict(interaction[first].to(trainer.device)).view(n_users, -1)
    items = interaction[trainer.config["ITEM_ID_FIELD"]]
    scores = torch.full_like(whole, -torch.inf)
    scores[users, items] = whole[users, items]
    return interaction, scores, positive_u, positive_i
