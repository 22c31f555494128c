"""Make the network of a checkpoint, and score with it by torch, without data set and RecBole."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from recbole_bert4rec import checkpoints
from recbole_bert4rec.core.growth import CONTENTS, FEATURE_VALUES, VECTORS, feature_table
from recbole_bert4rec.core.item_features import Contents
from recbole_bert4rec.core.ranker import Catalogue, Ranker
from recbole_bert4rec.core.transformer import EncoderOptions
from recbole_bert4rec.options.table import OPTIONS
from recbole_bert4rec.options.user_models import chosen, class_name, known_as, named_in_file
from recbole_bert4rec.recommend.answers import Floats, check
from recbole_bert4rec.recommend.histories import Histories, Pairs
from recbole_bert4rec.recommend.ids import Items
from recbole_bert4rec.system.constants import PADDING, OptionValues
from recbole_bert4rec.system.errors import UserError

Best = tuple[Floats, NDArray[np.int64]]
"""Scores and items of the best, best first. *Shape:* (B, k) each."""


class TorchBackend:
    """Computes scores with a ranker in evaluation mode, on its device; ``counts`` (N,) are those of training."""

    makes_all_scores = False  # whether the search for best items holds all scores of a history in memory

    def __init__(self, ranker: Ranker, counts: Tensor) -> None:
        self.ranker, self.counts = ranker, counts.cpu().numpy()
        self.longest = ranker.objective.max_length - ranker.objective.appended  # items of a history that are read
        self.hidden_size = ranker.encoder.options.hidden_size
        self.seen_bias = None if ranker.seen_bias is None else ranker.seen_bias.item()

    @torch.no_grad()
    def best(
        self, items: NDArray[np.int64], seen: Pairs, k: int, removed: Pairs, allowed: NDArray[np.int64] | None
    ) -> Best:
        """Return the k best of the allowed items, without removed ones. *Shape:* (B, L), (C,) -> (B, k) each."""
        vectors, shown = self._encode(items)
        catalogue = self.ranker.catalogue(None if allowed is None else self._tensor(allowed))
        return _numpy(catalogue.best(vectors, k, self.ranker.changes(shown, self._pairs(removed), self._pairs(seen))))

    @torch.no_grad()
    def scores(self, items: NDArray[np.int64], seen: Pairs) -> Floats:
        """Score all items after histories; ``seen`` are pairs of whole histories. *Shape:* (B, L) -> (B, N)."""
        scores: Floats = self.ranker.scores_of(*self._encode(items), self._pairs(seen)).cpu().numpy()
        return scores

    @torch.no_grad()
    def vectors(self, items: NDArray[np.int64]) -> Floats:
        """Return the vector from which the next item of each history is read. *Shape:* (B, L) -> (B, H)."""
        vectors: Floats = self._encode(items)[0].float().cpu().numpy()
        return vectors

    @torch.no_grad()
    def item_vectors(self, with_bias: bool) -> Floats:
        """Return the items' vectors, padding first. *Shape:* (N, H), or (N, H + 1) with the bias."""
        vectors, bias, _ = self.ranker.catalogue()
        both: Floats = (torch.cat([vectors, bias.unsqueeze(1)], 1) if with_bias else vectors).float().cpu().numpy()
        return both

    @torch.no_grad()
    def similar(self, items: NDArray[np.int64], k: int, batch_size: int) -> Best:
        """Return the k highest cosines with each item's vector, and their items. *Shape:* (C,) -> (C, k) each."""
        vectors = F.normalize(self.ranker.encoder.catalogue, dim=1)
        catalogue, best = Catalogue(vectors, vectors.new_zeros(len(vectors))), []
        for some in self._tensor(items).split(batch_size):
            itself = torch.arange(len(some), device=some.device), some, vectors.new_full(some.shape, -torch.inf)
            best.append(catalogue.best(vectors[some], k, [itself]))
        cosines, others = zip(*best, strict=True)
        return _numpy((torch.cat(cosines), torch.cat(others)))

    def _encode(self, items: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Return the vectors of histories, (B, H), and the encoder's sequences, (B, L)."""
        return self.ranker.encode(self._tensor(items), self._tensor((items != PADDING).sum(1)))

    def _pairs(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        return self._tensor(pairs[0]), self._tensor(pairs[1])

    def _tensor(self, values: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(values).to(self.ranker.encoder.output_bias.device)


def _numpy(best: tuple[Tensor, Tensor]) -> Best:
    return best[0].cpu().numpy(), best[1].cpu().numpy()


class TrainedRanker(Ranker):
    """The ranker of a checkpoint, without what only training needs."""

    def __init__(self, config: OptionValues, encoder: EncoderOptions, tokens: Iterable[str]) -> None:
        super().__init__()
        self._init_ranker(config, encoder, tokens)


def model_of_checkpoint(
    path: str | os.PathLike[str],
    state: Mapping[str, Any],
    device: torch.device | str | None = None,
    logit_adjustment: float | None = None,
    model: str | type | None = None,
) -> tuple[TorchBackend, Items, dict[str, Any], Histories | None]:
    """Return what a Recommender is made of; arguments and errors are those of :func:`recbole_bert4rec.load`."""
    config = _Options(state["config"])
    user_class = _class_in(path, config["model"], model)
    if logit_adjustment is not None:
        config["logit_adjustment"] = logit_adjustment
        check("logit_adjustment", logit_adjustment, OPTIONS["logit_adjustment"].kind)
    for name, weight in state["state_dict"].items():
        if not weight.sum().isfinite() and not weight.isfinite().all():
            raise UserError(f"{path}: weight {name!r} has values that are not finite numbers; train the model again")
    with checkpoints.explain_misfit(path):
        ranker = _ranker(config, state, user_class)
    ranker.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    stored = state.get("histories")
    if stored is not None:
        users = np.array(stored["users"], dtype=object)
        stored = Histories(users, stored["items"].numpy(), stored["offsets"].numpy())
    return TorchBackend(ranker, state["item_counts"]), Items(state["item_tokens"]), config, stored


class _Options(dict[str, Any]):
    """Options as RecBole's configuration gives them: a missing one is None."""

    def __missing__(self, name: str) -> None:
        return None


class _DataSet:
    """Stands in for the data set, with all that the constructor of a user's own model may ask of it."""

    def __init__(
        self, state: Mapping[str, Any], features: tuple[tuple[Tensor, int], ...], contents: Contents | None
    ) -> None:
        self.counts: Tensor = state["item_counts"]
        self.features, self.contents = features, (contents, None)  # items without an interaction are among the others
        self.item_num = len(self.counts)
        tokens = {token: number for number, token in enumerate(state["item_tokens"])}
        self.field2token_id = {state["config"]["ITEM_ID_FIELD"]: tokens}
        self._preloaded = state.get("preload_weight", {})

    def num(self, field: str) -> int:
        return self.item_num  # whatever the column: a checkpoint only has items

    def training_counts(self) -> Tensor:
        return self.counts

    def item_features(self, names: list[str]) -> tuple[tuple[Tensor, int], ...]:
        return self.features

    def get_preload_weight(self, field: str) -> NDArray[np.float64]:
        if field not in self._preloaded:
            raise ValueError(f"Field [{field}] not in preload_weight")
        table: NDArray[np.float64] = self._preloaded[field].numpy()
        return table


def _class_in(path: str | os.PathLike[str], stored: str, model: str | type | None) -> type | None:
    """Return the user's own class of a checkpoint's model, whose name is stored; None for a model of this package."""
    name = None if model is None else known_as(model)
    if name not in (None, class_name(stored)):
        raise UserError(f"{path} holds a model of {stored}, but the one given is {name}")
    user_class = named_in_file(stored, str(path)) if model is None else chosen(model)
    if isinstance(user_class, str):
        return None
    if not issubclass(user_class, Ranker):
        raise UserError(f"{path} holds a model of {stored}, which is not a subclass of BERT4Rec")
    return user_class


def _ranker(config: Mapping[str, Any], state: Mapping[str, Any], user_class: type | None) -> Ranker:
    """Make the network with the weights of a checkpoint."""
    weights, counts = state["state_dict"], state["item_counts"]
    tables = [name.rpartition("_")[2] for name in weights if name.startswith(FEATURE_VALUES)]
    features = tuple(
        (weights[f"{FEATURE_VALUES}{number}"], len(weights[feature_table(number)]))
        for number in sorted(map(int, tables))
    )
    has_contents = VECTORS in weights
    contents = Contents(*(weights[CONTENTS + name] for name in Contents._fields)) if has_contents else None
    ranker: Ranker
    with torch.random.fork_rng(devices=[]):  # the weights drawn here are replaced: the user's generator stays as it is
        if user_class is None:
            options = EncoderOptions.from_config(config, len(counts), features, contents)
            ranker = TrainedRanker(config, options, state["item_tokens"])
        else:
            data_set = _DataSet(state, features, contents)
            ranker = user_class(_Options(config, device=torch.device("cpu")), data_set)
    ranker.load_state_dict(weights, assign=True)
    ranker.adjust(config["logit_adjustment"], counts)
    ranker.load_other_parameter(state.get("other_parameter"))
    ranker.eval().requires_grad_(False)
    ranker.encoder.forget_contents_()
    return ranker
