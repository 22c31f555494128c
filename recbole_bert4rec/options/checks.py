"""Checks of a whole configuration: every value against the table of options, then the values against each other.

All mistakes are reported in one error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from logging import getLogger
from types import MappingProxyType
from typing import Any

from recbole_bert4rec.options.evaluation import mistakes_of_evaluation
from recbole_bert4rec.options.flags import literal
from recbole_bert4rec.options.kinds import AUTO, Anything, Kind, NonEmpty, OneOf, misfits, or_null
from recbole_bert4rec.options.known import FOLLOWED_BY_ALL, is_known, near_known
from recbole_bert4rec.options.recboles import documented
from recbole_bert4rec.options.table import OPTIONS
from recbole_bert4rec.system.constants import MODEL_NAME, NAMES_OF_COLUMNS, SAMPLED_LOSSES, UNCALIBRATED_LOSSES

Kinds = Mapping[str, Kind]
"""The allowed values of some options, by name."""
_NONE: Kinds = MappingProxyType({})
_TEXTS = (*NAMES_OF_COLUMNS, "LIST_SUFFIX", "ITEM_LIST_LENGTH_FIELD", "NEG_PREFIX", "field_separator", "seq_separator")
"""RecBole's options that become parts of column names; RecBole does not check them."""
_CHOICES: Kinds = MappingProxyType(
    {
        "rm_dup_inter": or_null(OneOf(("first", "last"))),
        **dict.fromkeys(("user_inter_num_interval", "item_inter_num_interval"), Anything("intervals")),
        **dict.fromkeys(("entity_kg_num_interval", "relation_kg_num_interval"), Anything("intervals")),
    }
)
"""RecBole's options with few values, which it does not check; those of a checkpoint are checked, too. Intervals may be
texts or, if closed, pairs of numbers."""


def mistakes_of_options(
    config: Mapping[str, Any],
    written: Iterable[str] = (),
    extra: Kinds = _NONE,
) -> list[str]:
    """List all mistakes of a configuration of one of our models, in words; ``extra``: of the user's own model."""
    written = set(written)
    mistakes = mistakes_of_values(config, OPTIONS)
    mistakes += misfits(config, {name: NonEmpty() for name in _TEXTS if name in config})
    free = [
        name for name in written if name in extra or name not in OPTIONS or isinstance(OPTIONS[name].kind, Anything)
    ]
    mistakes += mistakes_of_types(config, free, MODEL_NAME, extra)
    return mistakes if mistakes else _mistakes_between(config)


def mistakes_of_another_model(
    config: Mapping[str, Any], written: Iterable[str], model: str, extra: Kinds = _NONE
) -> list[str]:
    """List mistakes in a user's options for RecBole's models."""
    written = set(written)
    ours = [name for name in sorted(written & FOLLOWED_BY_ALL) if config.get(name) is not None]
    return mistakes_of_values(config, ours) + mistakes_of_types(config, written - FOLLOWED_BY_ALL, model, extra)


def unknown_names(written: Iterable[str], known: set[str], refuse_all: bool) -> list[str]:
    """List unknown names, and the option that accepts them.

    Unless all are refused, as in a program of the user's own, those that are near no known one are noted in the log.
    """
    mistakes, others = [], []
    for name in sorted(name for name in written if not is_known(name, known)):
        if near := near_known(name, known, of_any_model=refuse_all):
            mistakes.append(f"`{name}`: did you mean `{near}`?")
        elif refuse_all:
            mistakes.append(f"`{name}`: neither RecBole nor BERT4Rec has an option of this name.")
        else:
            others.append(name)
    if others:
        getLogger().warning(f"read by neither RecBole nor BERT4Rec: {', '.join(others)}")
    return [*mistakes, "`allow_unknown: True` accepts names that nobody reads."] if mistakes else []


def take_numbers(config: MutableMapping[str, Any], written: Iterable[str], model: str, extra: Kinds = _NONE) -> None:
    """Replace texts such as ``16`` by their value, and 1.0 by 1, where an option only takes that."""
    ours = {name: option.kind for name, option in OPTIONS.items() if not isinstance(option.kind, Anything)}
    kinds: dict[str, Kind] = {**documented(model), **ours, **extra}
    for name in kinds.keys() & set(written):
        if not kinds[name].accepts(config.get(name)) and kinds[name].accepts(number := _number(config.get(name))):
            config[name] = number


def _number(value: object) -> object:
    """Return the whole number that a float is, or the literal that a text is; else the value itself."""
    value = literal(value.strip()) if isinstance(value, str) else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def mistakes_of_values(config: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """List the options whose value the table does not allow, in words."""
    return misfits(config, {name: OPTIONS[name].kind for name in names})


def mistakes_of_types(config: Mapping[str, Any], names: Iterable[str], model: str, extra: Kinds = _NONE) -> list[str]:
    """List the options whose value has another type than RecBole, or the user's own model, documents."""
    types = {**documented(model), **_CHOICES, **extra}
    looked_at = {*names, *(_CHOICES.keys() & config.keys())}
    return misfits(config, {name: types[name] for name in sorted(looked_at) if name in types})


def _mistakes_between(config: Mapping[str, Any]) -> list[str]:
    mistakes = []
    hidden_size, n_heads = config["hidden_size"], config["n_heads"]
    if hidden_size % n_heads:
        mistakes.append(f"`hidden_size` must be divisible by `n_heads`, but is {hidden_size} with {n_heads} heads.")
    shares = config["mask_random_share"] + config["mask_keep_share"]
    if shares > 1:
        mistakes.append(f"`mask_random_share` and `mask_keep_share` must add up to at most 1, but give {shares:g}.")
    if config["position"] == "end" and config["objective"] != "cloze":
        mistakes.append(
            f"`position` end needs `objective` cloze, but the objective is {config['objective']}: its positions are "
            "read as the ends of histories of other lengths."
        )
    if config["loss_type"] != AUTO:  # else it is checked when the data are known
        mistakes += _mistakes_of_loss(config)
    mistakes += mistakes_of_evaluation(config)
    return mistakes


def _mistakes_of_loss(config: Mapping[str, Any]) -> list[str]:
    mistakes = []
    if config["seen_bias"] and config["loss_type"] == "BPR":
        mistakes.append("`seen_bias` cannot be learnt with `loss_type` BPR, whose negatives are never of the history.")
    if config["loss_type"] in UNCALIBRATED_LOSSES and config["negatives"] not in ("uniform", AUTO):
        mistakes.append(
            f"`negatives` must be uniform with {config['loss_type']}, which does not correct for how they are drawn, "
            f"but is {config['negatives']!r}: all items would end up with the same score."
        )
    if config["sparse_update"]:
        mistakes += _mistakes_of_sparse_update(config)
    return mistakes


def _mistakes_of_sparse_update(config: Mapping[str, Any]) -> list[str]:
    mistakes = []
    if config["loss_type"] not in SAMPLED_LOSSES:
        mistakes.append(
            f"`sparse_update` needs `loss_type` {' or '.join(SAMPLED_LOSSES)}, whose batches touch few items, but the "
            f"loss is {config['loss_type']}."
        )
    if config["learner"] != "adamw":
        mistakes.append(f"`sparse_update` needs `learner` adamw, but the learner is {config['learner']}.")
    return mistakes
