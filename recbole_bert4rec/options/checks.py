"""Checks of a whole configuration: every value against the table of options, then the values against each other.

All mistakes are reported in one error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from types import MappingProxyType
from typing import Any

from recbole_bert4rec.options.arithmetic import calculated
from recbole_bert4rec.options.evaluation import mistakes_of_evaluation, mistakes_of_single_scores
from recbole_bert4rec.options.kinds import AUTO, Anything, Kind, OneOf, Text, misfits, or_null
from recbole_bert4rec.options.known import FOLLOWED_BY_ALL, mistakes_of_names
from recbole_bert4rec.options.recboles import documented
from recbole_bert4rec.options.table import OPTIONS
from recbole_bert4rec.system.constants import MODEL_NAME, NAMES_OF_COLUMNS, SAMPLED_LOSSES, UNCALIBRATED_LOSSES
from recbole_bert4rec.system.errors import UserError

Kinds = Mapping[str, Kind]
"""What values of some options may be, by name."""
_NONE: Kinds = MappingProxyType({})
_TEXTS = (*NAMES_OF_COLUMNS, "LIST_SUFFIX", "ITEM_LIST_LENGTH_FIELD", "NEG_PREFIX", "field_separator", "seq_separator")
"""RecBole's options of which parts of names are made, and which it does not check."""
_CHOICES: Kinds = MappingProxyType(
    {
        "rm_dup_inter": or_null(OneOf(("first", "last"))),
        **dict.fromkeys(("user_inter_num_interval", "item_inter_num_interval"), Anything("intervals")),
        **dict.fromkeys(("entity_kg_num_interval", "relation_kg_num_interval"), Anything("intervals")),
    }
)
"""RecBole's options with few values, which it hands on unchecked, looked at in a checkpoint, too; and intervals, which
may be texts or, closed ones, pairs of numbers."""


def check(
    config: Mapping[str, Any],
    given: Iterable[str] = (),
    known: Iterable[str] = (),
    model: str = MODEL_NAME,
    own: Kinds = _NONE,
) -> None:
    """Refuse a configuration of one of our models that has mistakes.

    Args:
        config: all options with their final values.
        given: the keys that the user wrote.
        known: keys that mean something to this run besides those of the table.
        model: which of our models it is.
        own: values of the options that a model of the user's own documents.

    Raises:
        UserError: naming every mistake that :func:`mistakes` finds.
    """
    found = mistakes(config, given, known, own)
    if found:
        raise UserError(f"the configuration of {model} has mistakes:\n  " + "\n  ".join(found))


def mistakes(
    config: Mapping[str, Any],
    given: Iterable[str] = (),
    known: Iterable[str] = (),
    own: Kinds = _NONE,
) -> list[str]:
    """List everything that is wrong with a configuration, in words; arguments as in :func:`check`."""
    given = set(given)
    found = mistakes_of_values(config, OPTIONS)
    found += misfits(config, {name: Text() for name in _TEXTS if name in config})
    free = [name for name in given if name in own or name not in OPTIONS or isinstance(OPTIONS[name].kind, Anything)]
    found += mistakes_of_types(config, free, MODEL_NAME, own)
    found += _mistakes_between(config) if not found else []
    return found if config["allow_unknown"] else found + unknown_names(given, known)


def mistakes_of_another_model(
    config: Mapping[str, Any], given: Iterable[str], model: str, own: Kinds = _NONE
) -> list[str]:
    """List what is wrong with options that a user wrote for RecBole's models; arguments as in :func:`check`."""
    given = set(given)
    ours = [name for name in sorted(given & FOLLOWED_BY_ALL) if config.get(name) is not None]
    found = mistakes_of_values(config, ours) + mistakes_of_types(config, given - FOLLOWED_BY_ALL, model, own)
    return found or mistakes_of_single_scores(config)


def unknown_names(given: Iterable[str], known: Iterable[str]) -> list[str]:
    """List the names that mean nothing, and how they are accepted; arguments as in :func:`check`."""
    found = mistakes_of_names(given, known)
    return [*found, "`allow_unknown: True` accepts names that nobody reads."] if found else []


def calculate(config: MutableMapping[str, Any], given: Iterable[str], model: str, own: Kinds = _NONE) -> None:
    """Replace texts that an option does not take by the number that they calculate, where it takes that; 1.0 by 1.

    Args:
        config: all options; changed in place.
        given: the keys that the user wrote.
        model: whose documented types hold for the options that the table does not have.
        own: values of the options that a model of the user's own documents.
    """
    ours = {name: option.kind for name, option in OPTIONS.items() if not isinstance(option.kind, Anything)}
    kinds: dict[str, Kind] = {**documented(model), **ours, **own}
    for name in given:
        value, kind = config.get(name), kinds.get(name)
        if kind is None or kind.accepts(value):
            continue
        meant = _meant(value)
        if kind.accepts(meant):
            config[name] = meant


def _meant(value: object) -> object:
    """Return the number that a text calculates, or the whole number that a float is; else the value itself."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    try:
        return calculated(value) if isinstance(value, str) else value
    except ValueError:  # the check of the value names it
        return value


def mistakes_of_values(config: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """List which of some options have a value that the table does not take, in words."""
    return misfits(config, {name: OPTIONS[name].kind for name in names})


def mistakes_of_types(config: Mapping[str, Any], names: Iterable[str], model: str, own: Kinds = _NONE) -> list[str]:
    """List which of some options have a value of another type than RecBole, or the user's own model, documents."""
    types = {**documented(model), **_CHOICES, **own}
    looked_at = {*names, *(_CHOICES.keys() & config.keys())}
    return misfits(config, {name: types[name] for name in sorted(looked_at) if name in types})


def _mistakes_between(config: Mapping[str, Any]) -> list[str]:
    found = []
    hidden_size, n_heads = config["hidden_size"], config["n_heads"]
    if hidden_size % n_heads:
        found.append(f"`hidden_size` must be divisible by `n_heads`, but is {hidden_size} with {n_heads} heads.")
    shares = config["mask_random_share"] + config["mask_keep_share"]
    if shares > 1:
        found.append(f"`mask_random_share` and `mask_keep_share` must add up to at most 1, but give {shares:g}.")
    if config["position"] == "end" and config["objective"] != "cloze":
        found.append(
            f"`position` end needs `objective` cloze, but the objective is {config['objective']}: its positions are "
            "read as the ends of histories of other lengths."
        )
    if config["loss_type"] != AUTO:  # else it is checked when the data are known
        found += _mistakes_of_loss(config)
    if config["time_bias"] and config.get("benchmark_filename"):
        found.append(
            "`time_bias` needs the times of all interactions, which the rows of `benchmark_filename` do not have."
        )
    found += mistakes_of_evaluation(config)
    return found


def _mistakes_of_loss(config: Mapping[str, Any]) -> list[str]:
    found = []
    if config["seen_bias"] and config["loss_type"] == "BPR":
        found.append("`seen_bias` cannot be learnt with `loss_type` BPR, whose negatives are never of the history.")
    if config["loss_type"] in UNCALIBRATED_LOSSES and config["negatives"] not in ("uniform", AUTO):
        found.append(
            f"`negatives` must be uniform with {config['loss_type']}, which does not correct for how they are drawn, "
            f"but is {config['negatives']!r}: all items would end up with the same score."
        )
    if config["sparse_update"]:
        found += _mistakes_of_sparse_update(config)
    return found


def _mistakes_of_sparse_update(config: Mapping[str, Any]) -> list[str]:
    found = []
    if config["loss_type"] not in SAMPLED_LOSSES:
        found.append(
            f"`sparse_update` needs `loss_type` {' or '.join(SAMPLED_LOSSES)}, whose batches touch few items, but the "
            f"loss is {config['loss_type']}."
        )
    if config["learner"] != "adamw":
        found.append(f"`sparse_update` needs `learner` adamw, but the learner is {config['learner']}.")
    return found
