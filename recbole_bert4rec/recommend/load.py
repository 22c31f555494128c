"""Makes a trained model ready to be asked, from its checkpoint alone: no data set, no RecBole."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recbole_bert4rec.checkpoints import checkpoint
from recbole_bert4rec.core.growth import FEATURE_VALUES, feature_table
from recbole_bert4rec.core.ranker import Ranker
from recbole_bert4rec.logs.spellings import kinds_asked
from recbole_bert4rec.options.kinds import misfits
from recbole_bert4rec.options.table import OPTIONS, Role
from recbole_bert4rec.options.user_models import chosen, class_name, known_as, named_in_file
from recbole_bert4rec.recommend.base import BATCH_SIZE
from recbole_bert4rec.recommend.histories import Histories
from recbole_bert4rec.recommend.ids import Items
from recbole_bert4rec.recommend.index import digest_of_weights, read_index
from recbole_bert4rec.recommend.recommender import Recommender
from recbole_bert4rec.recommend.torch_scorer import TrainedRanker
from recbole_bert4rec.system.constants import NAMES_OF_COLUMNS
from recbole_bert4rec.system.errors import UserError

_NEEDED = {
    name: option.kind
    for name, option in OPTIONS.items()
    if option.role is Role.ARCHITECTURE or name in ("objective", "seen_bias", "logit_adjustment", "exclude_seen")
}


def load(
    path: str | os.PathLike[str],
    device: torch.device | str | None = None,
    logit_adjustment: float | None = None,
    batch_size: int = BATCH_SIZE,
    model: str | type | None = None,
    index: str | os.PathLike[str] | None = None,
) -> Recommender:
    """Load a trained model of this package.

    Args:
        path: of the checkpoint, which the summary of its run names.
        device: where the model computes. Default: the GPU, where torch can use one, or else the processor.
        logit_adjustment: the option of that name: rank by score - this * log(n + 1), n the item's count in training.
            Default: the checkpoint's.
        batch_size: histories that are encoded at once.
        model: the class, or ``module:Class``, of a model of one's own; a file does not say which module is run.
        index: of these weights, by which :meth:`Recommender.recommend` finds items; a file of :meth:`ItemIndex.save`.

    Returns:
        The model.

    Raises:
        UserError: the file is damaged or not a checkpoint of this package; it holds a model of one's own, and its class
            is not given; the index is of another one; or an argument has a value that cannot be.
    """
    found = recommender_of(path, checkpoint.read(path), device, logit_adjustment, batch_size, model)
    if index is not None:
        digest = digest_of_weights(found.ranker, found.config["logit_adjustment"])
        found.index = read_index(index, found.ranker.catalogue(), digest)
    return found


def recommender_of(
    path: str | os.PathLike[str],
    state: dict[str, Any],
    device: torch.device | str | None = None,
    logit_adjustment: float | None = None,
    batch_size: int = BATCH_SIZE,
    model: str | type | None = None,
) -> Recommender:
    """Return the model of what was read from a checkpoint; arguments and errors as of :func:`load`."""
    config = _Options(state["config"])
    own_class = _class_in(path, config["model"], model)
    if logit_adjustment is not None:
        config["logit_adjustment"] = logit_adjustment
    wrong = misfits(config, _NEEDED)
    wrong += [
        f"`{name}` must be a text, but is {config.get(name)!r}."
        for name in (*NAMES_OF_COLUMNS, "date_format", "timezone", "date_format_found")
        if type(config[name]) is not str and (name in NAMES_OF_COLUMNS or config[name] is not None)
    ]
    if wrong:
        raise UserError(f"{path}: {' '.join(wrong)}")
    items, counts = Items(state["item_tokens"], kinds_asked(config["clean_ids"])), state["item_counts"]
    if len(counts) != len(items.tokens):
        raise UserError(f"{path} has {len(items.tokens)} items, but counts of {len(counts)}")
    if config["n_layers"] > len(state["state_dict"]):  # each has several; to make them all would take minutes
        raise UserError(f"{path}: its weights are of fewer layers than `n_layers`, which is {config['n_layers']}")
    for name, weight in state["state_dict"].items():
        if not weight.sum().isfinite() and not weight.isfinite().all():
            raise UserError(f"{path}: weight {name!r} has values that are no finite numbers; train the model anew")
    with checkpoint.explain_misfit(path):
        ranker = _ranker(config, state, own_class)
        one = torch.ones(1, 1, dtype=torch.int64)
        ranker.encode(one, one[0], one.double() if config["time_bias"] else None)  # shapes that only a call shows
    ranker.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    return Recommender(ranker, config, items, counts, _stored(path, state, len(counts)), batch_size)


class _Options(dict[str, Any]):
    """Options as RecBole's configuration gives them: one that is not there is None."""

    def __missing__(self, name: str) -> None:
        return None


class _Catalogue(NamedTuple):
    """What a model asks of the data set that it is made for.

    Attributes:
        counts: how often each item stands in training. *Shape:* (N,)
        features: those of ``selected_features``; see :attr:`EncoderOptions.features`.
        field2token_id: the items' numbers by their external ids, by the field of the items.
        preloaded: tables of ``preload_weight``, by the fields of their ids.
    """

    counts: Tensor
    features: tuple[tuple[Tensor, int], ...]
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


def _class_in(path: str | os.PathLike[str], stored: str, given: str | type | None) -> type | None:
    """Return the class of the user's own that a checkpoint holds a model of; None for a model of this package.

    Raises:
        UserError: it is not given, another one is, or it ranks in another way than this package's models.
    """
    name = None if given is None else known_as(given)
    if name not in (None, class_name(stored)):
        raise UserError(f"{path} holds a model of {stored}, but the one given is {name}")
    model = named_in_file(stored, str(path)) if given is None else chosen(given)
    if isinstance(model, str):
        return None
    if not issubclass(model, Ranker):
        raise UserError(f"{path} holds a model of {stored}, which is no subclass of BERT4Rec")
    return model


def _ranker(config: Mapping[str, Any], state: Mapping[str, Any], own_class: type | None) -> Ranker:
    """Make the network with the weights of a checkpoint."""
    weights, counts = state["state_dict"], state["item_counts"]
    names = sorted((name for name in weights if name.startswith(FEATURE_VALUES)), key=_number)
    features = tuple((weights[name], len(weights[feature_table(_number(name))])) for name in names)
    ranker: Ranker
    with torch.random.fork_rng(devices=[]):  # weights are drawn, then replaced
        if own_class is None:
            ranker = TrainedRanker(config, len(counts), features)
        else:
            known = {config["ITEM_ID_FIELD"]: {token: number for number, token in enumerate(state["item_tokens"])}}
            catalogue = _Catalogue(counts, features, known, state.get("preload_weight", {}))
            ranker = own_class(_Options(config, device=torch.device("cpu")), catalogue)
    ranker.load_state_dict(weights, assign=True)
    ranker.adjust(config["logit_adjustment"], counts)
    return ranker.eval().requires_grad_(False)


def _number(name: str) -> int:
    return int(name.rpartition("_")[2])


def _stored(path: str | os.PathLike[str], state: dict[str, Any], n_items: int) -> Histories | None:
    """Return the histories of ``keep_histories``."""
    kept = state.get("histories")
    if kept is None:
        return None
    if len(kept["items"]) and not 0 < int(kept["items"].min()) <= int(kept["items"].max()) < n_items:
        raise UserError(f"{path}: its histories hold items that are not in its catalogue")
    users = np.array(kept["users"], dtype=object)
    times = None if kept["times"] is None else kept["times"].numpy()
    return Histories(users, kept["items"].numpy(), kept["offsets"].numpy(), times)
