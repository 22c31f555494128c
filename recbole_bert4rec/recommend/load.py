"""Makes a trained model ready to be asked, from its checkpoint alone: no data set, no RecBole."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recbole_bert4rec import checkpoints
from recbole_bert4rec.core.beyond_paper import Contents
from recbole_bert4rec.core.encoder import EncoderOptions
from recbole_bert4rec.core.growth import CONTENTS, FEATURE_VALUES, VECTORS, feature_table
from recbole_bert4rec.core.ranker import Ranker
from recbole_bert4rec.options.kinds import misfits
from recbole_bert4rec.options.table import OPTIONS
from recbole_bert4rec.options.user_models import chosen, class_name, known_as, named_in_file
from recbole_bert4rec.recommend.base import BATCH_SIZE
from recbole_bert4rec.recommend.growing import with_cold_items
from recbole_bert4rec.recommend.histories import Histories
from recbole_bert4rec.recommend.ids import Items
from recbole_bert4rec.recommend.recommender import Recommender
from recbole_bert4rec.recommend.torch_scorer import TrainedRanker
from recbole_bert4rec.system.errors import UserError


def load(
    path: str | os.PathLike[str],
    device: torch.device | str | None = None,
    logit_adjustment: float | None = None,
    batch_size: int = BATCH_SIZE,
    model: str | type | None = None,
    cold_items: bool = True,
) -> Recommender:
    """Load a trained model of this package."""
    state = checkpoints.read(path, mapped=True)
    del state["optimizer"]  # it is not read from the disk
    shared = state["state_dict"].get(VECTORS), state["item_tokens"]  # vectors are read once, in here
    state = copy.deepcopy(state, {id(part): part for part in shared})  # the file may be written over later
    if cold_items:
        with checkpoints.explain_misfit(path):
            state = with_cold_items(state)
    return recommender_of(path, state, device, logit_adjustment, batch_size, model)


def recommender_of(
    path: str | os.PathLike[str],
    state: dict[str, Any],
    device: torch.device | str | None = None,
    logit_adjustment: float | None = None,
    batch_size: int = BATCH_SIZE,
    model: str | type | None = None,
) -> Recommender:
    """Return the model of a checkpoint's entries; arguments and errors as of :func:`load`."""
    config = _Options(state["config"])
    user_class = _class_in(path, config["model"], model)
    if logit_adjustment is not None:
        config["logit_adjustment"] = logit_adjustment
        if wrong := misfits(config, {"logit_adjustment": OPTIONS["logit_adjustment"].kind}):
            raise UserError(" ".join(wrong))
    items, counts = Items(state["item_tokens"]), state["item_counts"]
    for name, weight in state["state_dict"].items():
        if not weight.sum().isfinite() and not weight.isfinite().all():
            raise UserError(f"{path}: weight {name!r} has values that are not finite numbers; train the model again")
    with checkpoints.explain_misfit(path):
        ranker = _ranker(config, state, user_class)
    ranker.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    return Recommender(ranker, config, items, counts, _stored(state), batch_size)


class _Options(dict[str, Any]):
    """Options as RecBole's configuration gives them: one that is not there is None."""

    def __missing__(self, name: str) -> None:
        return None


class _Catalogue(NamedTuple):
    """Stands for the data set that a model is made for, with what a model asks of it.

    Attributes:
        counts: how often each item stands in training. *Shape:* (N,)
        features: those of ``selected_features``; see :attr:`EncoderOptions.features`.
        contents: what the items are, in numbers; None if the model reads ids alone.
        field2token_id: the items' numbers by their external ids, by the field of the items.
        preloaded: tables of ``preload_weight``, by the fields of their ids.
    """

    counts: Tensor
    features: tuple[tuple[Tensor, int], ...]
    contents: Contents | None
    field2token_id: Mapping[str, Mapping[str, int]]
    preloaded: Mapping[str, Tensor]

    @property
    def item_num(self) -> int:
        """N."""
        return len(self.counts)

    def num(self, field: str) -> int:
        """Return N, whatever the column: a checkpoint knows items alone."""
        return len(self.counts)

    def training_counts(self) -> Tensor:
        """Return the counts."""
        return self.counts

    def item_features(self, names: list[str]) -> tuple[tuple[Tensor, int], ...]:
        """Return the features."""
        return self.features

    def get_preload_weight(self, field: str) -> NDArray[np.float64]:
        """Return the table of a field, as RecBole's data set does."""
        if field not in self.preloaded:
            raise ValueError(f"Field [{field}] not in preload_weight")
        table: NDArray[np.float64] = self.preloaded[field].numpy()
        return table


def _class_in(path: str | os.PathLike[str], stored: str, model: str | type | None) -> type | None:
    """Return the user's own class that ``stored``, a checkpoint's model, names; None for a model of this package."""
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
    names = sorted((name for name in weights if name.startswith(FEATURE_VALUES)), key=_number)
    features = tuple((weights[name], len(weights[feature_table(_number(name))])) for name in names)
    has_contents = VECTORS in weights
    contents = Contents(*(weights[CONTENTS + name] for name in Contents._fields)) if has_contents else None
    ranker: Ranker
    with torch.random.fork_rng(devices=[]):  # weights are drawn, then replaced
        if user_class is None:
            options = EncoderOptions.from_config(config, len(counts), features, contents)
            ranker = TrainedRanker(config, options, state["item_tokens"])
        else:
            known = {config["ITEM_ID_FIELD"]: {token: number for number, token in enumerate(state["item_tokens"])}}
            catalogue = _Catalogue(counts, features, contents, known, state.get("preload_weight", {}))
            ranker = user_class(_Options(config, device=torch.device("cpu")), catalogue)
    ranker.load_state_dict(weights, assign=True)
    ranker.adjust(config["logit_adjustment"], counts)
    ranker.load_other_parameter(state.get("other_parameter"))
    ranker.eval().requires_grad_(False)
    ranker.encoder.forget_contents_()
    return ranker


def _number(name: str) -> int:
    return int(name.rpartition("_")[2])


def _stored(state: dict[str, Any]) -> Histories | None:
    """Return the histories of ``keep_histories``."""
    stored = state.get("histories")
    if stored is None:
        return None
    users = np.array(stored["users"], dtype=object)
    return Histories(users, stored["items"].numpy(), stored["offsets"].numpy())
