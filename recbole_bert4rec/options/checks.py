"""Checks of a whole configuration: every value against the table, the values against each other, and the names.

All mistakes are reported in one error. Of its own options RecBole looks at the values; here at their types.
"""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterable, Mapping, MutableMapping
from functools import cache
from logging import getLogger
from pathlib import Path
from typing import Any

from recbole_bert4rec.options.kinds import AUTO, Kind, anything, literal, misfits, one_of, or_null, real, whole
from recbole_bert4rec.options.table import FOLLOWED_BY_ALL, OPTIONS, RECBOLES
from recbole_bert4rec.system.constants import SAMPLED_LOSSES, UNCALIBRATED_LOSSES, OptionValues
from recbole_bert4rec.system.environment import folder_of_recbole
from recbole_bert4rec.system.errors import UserError, nearest, short, short_list
from recbole_bert4rec.system.yaml_files import read_yaml

_KINDS: Mapping[str, Kind] = {name: option.kind for name, option in OPTIONS.items()}
_UNLISTED = {"model", "dataset", "config_files", "nproc", "ip", "port", "world_size", "group_offset", "offset"}
_UNLISTED |= {"local_rank", "model_file", "conversion", "device", "encoding", "tail_ratio", "token_num_threshold"}
_UNLISTED |= {"mask_ratio", "ft_ratio", "neg_sampling", "training_neg_sample_num"}
"""Options of every model that stand in no list of RecBole: of programs, launchers and logs, of its code and of its
older versions."""
_NULL = type(None)
_TYPES: Mapping[Any, tuple[str, tuple[type, ...]]] = {
    bool: ("True or False", (bool,)),
    (int, float): ("a number", (int, float)),
    str: ("a text", (str, int, float, tuple, list, _NULL)),
    list: ("a list", (list, int, str, tuple, _NULL)),
    dict: ("a dictionary", (dict, _NULL)),
}
"""What an option takes by the type of its default; the command line makes numbers and tuples of texts; an interval
may be a list."""
_ANYTHING = anything("anything")
_WITHOUT_DEFAULT = {
    "rm_dup_inter": or_null(one_of("first", "last")),
    **dict.fromkeys(("threshold", "unused_col"), Kind("a dictionary", lambda value: isinstance(value, dict | None))),
}
"""Options of RecBole's that are null unless the user says otherwise."""
_GLOBAL_TIME = {"quantile": real(0, 1, "()"), "target": one_of("last")}
_GLOBAL_TIME |= {"validation": one_of("GT", "LTI")}
"""What ``eval_args: {split: {GT: ...}}`` may hold."""
_SINGLE_SCORES = ("auc", "logloss", "mae", "rmse")
"""Metrics of single scores; the others look at rankings."""
_WITHOUT_K = ("gauc", *_SINGLE_SCORES)


def mistakes_of_options(config: Mapping[str, Any], written: Iterable[str], defaults: Mapping[str, Any]) -> list[str]:
    """List all mistakes in the values of one of our models, in words; :func:`unknown_names` checks the names."""
    others = {name for name in written if name not in OPTIONS or OPTIONS[name].default is RECBOLES}
    mistakes = misfits(config, _KINDS) or _mistakes_of_types(config, others, defaults)
    return mistakes or mistakes_between(config)


def mistakes_of_another_model(
    config: Mapping[str, Any], written: Iterable[str], defaults: Mapping[str, Any]
) -> list[str]:
    """List mistakes in a user's options for RecBole's models."""
    written = {*written}
    ours = [name for name in sorted(written & FOLLOWED_BY_ALL) if config.get(name) is not None]
    mistakes = misfits(config, {name: _KINDS[name] for name in ours})
    return mistakes + _mistakes_of_types(config, written - FOLLOWED_BY_ALL, defaults) + mistakes_of_metrics(config)


def _mistakes_of_types(config: Mapping[str, Any], names: Iterable[str], defaults: Mapping[str, Any]) -> list[str]:
    """List the options whose value is of another type than the default of RecBole, or of the user's own model."""
    stated = [name for name in sorted(names) if config.get(name) != "None"]  # which RecBole takes for null
    return misfits(config, {name: _WITHOUT_DEFAULT.get(name, _like(defaults.get(name))) for name in stated})


def take_numbers(config: MutableMapping[str, Any], written: Iterable[str], defaults: Mapping[str, Any]) -> None:
    """Replace texts such as ``16`` by their value, and 1.0 by 1, where an option only takes that.

    RecBole's options, and those of a user's own model, take what is like their default.
    """
    for name in {*written} & config.keys():
        value, default = config[name], defaults.get(name)
        number = _number(value)
        kinds = (_KINDS.get(name, _ANYTHING), _like(default))
        misfit = any(not kind.accepts(value) and kind.accepts(number) for kind in kinds)
        if misfit or type(number) is type(default) is int:
            config[name] = number


def _like(default: object) -> Kind:
    """Return the values of the type of a default; null turns off what is no number."""
    wanted, types = next((_TYPES[kind] for kind in _TYPES if isinstance(default, kind)), ("", (object, bool)))
    return Kind(wanted, lambda value: isinstance(value, types) and isinstance(value, bool) <= (bool in types))


def _number(value: object) -> object:
    """Return the whole number that a float is, or the literal that a text is; else the value itself."""
    value = literal(value.strip()) if isinstance(value, str) else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def mistakes_between(config: Mapping[str, Any]) -> list[str]:
    """List values of one of our models that do not go together."""
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
    return mistakes + _mistakes_of_intervals(config) + (_mistakes_of_protocol(config) or mistakes_of_metrics(config))


def _mistakes_of_loss(config: Mapping[str, Any]) -> list[str]:
    mistakes = []
    loss, negatives, learner = config["loss_type"], config["negatives"], config["learner"]
    if config["seen_bias"] and loss == "BPR":
        mistakes.append("`seen_bias` cannot be learnt with `loss_type` BPR, whose negatives are never of the history.")
    if loss in UNCALIBRATED_LOSSES and negatives not in ("uniform", AUTO):
        mistakes.append(
            f"`negatives` must be uniform with {loss}, which does not correct for how they are drawn, but is "
            f"{negatives!r}: all items would end up with the same score."
        )
    if config["sparse_update"] and loss not in SAMPLED_LOSSES:
        mistakes.append(
            f"`sparse_update` needs `loss_type` {' or '.join(SAMPLED_LOSSES)}, whose batches touch few items, but the "
            f"loss is {loss}."
        )
    if config["sparse_update"] and learner != "adamw":
        mistakes.append(f"`sparse_update` needs `learner` adamw, but the learner is {learner}.")
    return mistakes


def _mistakes_of_protocol(config: Mapping[str, Any]) -> list[str]:
    """List the mistakes in ``eval_args``."""
    arguments = config["eval_args"]
    if not isinstance(arguments, dict):
        example = "{'split': {'LS': 'valid_and_test'}, 'order': 'TO', 'mode': 'full'}"
        return [f"`eval_args` must be a dictionary such as {example}, but is {short(arguments)} instead."]
    keys = ["split", "order", "group_by", "mode"]
    mistakes = [f"`eval_args` has no {key!r}, but {keys}." for key in arguments if key not in keys]
    if not all(re.fullmatch(r"full|labeled|(uni|pop)\d+", mode) for mode in _modes(arguments)):
        mistakes.append(
            f"`eval_args` mode must be full, uni100, pop100 (any number) or labeled, but is {short(arguments['mode'])}."
        )
    split, files = arguments.get("split"), config.get("benchmark_filename")
    if config["valid_users"] is not None and (files or split != {"LS": "valid_and_test"}):
        mistakes.append(
            "`valid_users` trains most users' validation items: `eval_args` split must be {'LS': 'valid_and_test'}, "
            f"but the split is {f'in the files {files}' if files else split}."
        )
    return mistakes or mistakes_of_split(split)


def _modes(arguments: object) -> list[str]:
    mode = arguments.get("mode", "full") if isinstance(arguments, dict) else "full"
    return list(dict.fromkeys(map(str, mode.values() if isinstance(mode, dict) else [mode])))


def mistakes_of_split(split: object) -> list[str]:
    """List the mistakes in ``eval_args: {split: ...}``."""
    if split is None:
        return []  # the data set says what it knows
    if not isinstance(split, dict) or len(split) != 1:
        return [f"`eval_args` split must be a dictionary such as {{'LS': 'valid_and_test'}}, but is {short(split)}."]
    ((name, value),) = split.items()
    if name == "GT":
        return _mistakes_of_global_time(value)
    kinds = ["valid_and_test", "valid_only", "test_only"]
    if name == "LS" and value not in kinds:
        return [f"`eval_args` split LS must be one of {kinds}, but is {short(value)}."]
    if name in ("RS", "TS"):
        if not isinstance(value, list) or len(value) != 3 or not all(map(real(0).accepts, value)) or sum(value) <= 0:
            return [f"`eval_args` split {name} must have three ratios (train, valid, test), but is {short(value)}."]
        return [] if value[0] > 0 else [f"`eval_args` split {name} leaves nothing to train on: {short(value)}."]
    return []


def _mistakes_of_global_time(rule: object) -> list[str]:
    about = "`eval_args` split GT"
    if not isinstance(rule, dict):
        return [f"{about} must be a dictionary such as {{'quantile': 0.9}}, but is {rule!r}."]
    mistakes = [f"{about} has no {name!r}, but {[*_GLOBAL_TIME]}." for name in rule if name not in _GLOBAL_TIME]
    given = {name: kind for name, kind in _GLOBAL_TIME.items() if name in rule}
    return mistakes + [f"{about}: {mistake}" for mistake in misfits(rule, given)]


def _mistakes_of_intervals(config: Mapping[str, Any]) -> list[str]:
    """List intervals that RecBole cannot read; it would leave them out and keep no row."""
    intervals = {key: config.get(key) for key in ("user_inter_num_interval", "item_inter_num_interval")}
    values = config.get("val_interval") or {}
    if not isinstance(values, dict):
        return [f"`val_interval` must be a dictionary such as {{'rating': '[3,inf)'}}, but is {values!r}."]
    intervals |= {f"val_interval: {field}": value for field, value in values.items() if isinstance(value, str)}
    stated = {key: value for key, value in intervals.items() if value not in (None, "None")}
    return [mistake for key, value in stated.items() if (mistake := mistake_of_interval(key, value)) is not None]


def mistake_of_interval(name: str, value: object) -> str | None:
    """Say why a value is not an interval of numbers, or several; None if it is."""
    if all(map(_is_interval, str(value).split(";"))):
        return None
    is_date = re.search(r"\d{4}-\d\d", str(value))
    hint = " A date is written in Unix seconds: 2024-04-01 is 1711929600." if is_date else ""
    return f"`{name}` must be intervals such as '[5,inf)' or '(0,1];[3,4)', but is {short(value)}.{hint}"


def _is_interval(text: str) -> bool:
    text = text.strip()
    try:
        low, high = map(float, text[1:-1].split(","))
    except ValueError:
        return False
    return text[0] in "([" and text[-1] in ")]" and low <= high


def mistakes_of_metrics(config: OptionValues) -> list[str]:
    """List the mistakes in ``metrics``, ``topk`` and ``valid_metric``, for any model, in words."""
    from recbole.evaluator.register import metrics_dict  # checks are imported where RecBole is not, too

    metrics, topk, chosen = config["metrics"], config["topk"], str(config["valid_metric"])
    metrics = [metrics] if isinstance(metrics, str) else metrics
    topk = topk if isinstance(topk, (list, tuple)) else [topk]
    if not isinstance(metrics, (list, tuple)) or not metrics:
        return [f"`metrics` must be a list such as ['NDCG', 'MRR'], but is {short(metrics)}."]
    if not topk or not all(map(whole(1).accepts, topk)):
        return [f"`topk` must be a whole number from 1, or a list of these, but is {short(config['topk'])}."]
    names = [str(metric).lower() for metric in metrics]
    known = sorted(kind.__name__ for kind in metrics_dict.values())
    for name, metric in zip(names, metrics, strict=True):
        if name not in metrics_dict:
            near = "Hit" if name in ("hr", "hitrate", "hitratio") else nearest(name, known)
            hint = f"; did you mean {near}?" if near else "."
            return [f"`metrics`: {short(metric)} is not one of {known}{hint}"]
    mistakes = []
    single = [name in _SINGLE_SCORES for name in names]
    modes = _modes(config["eval_args"])
    if any(single) != all(single) or ("full" in modes and any(single)) or ("labeled" in modes and not all(single)):
        mistakes.append(
            f"`metrics` {short_list(metrics)} cannot be computed with `eval_args` mode {short_list(modes)}: AUC, "
            "LogLoss, MAE and RMSE stand alone and need labeled, uni100 or pop100; all others full, uni100 or pop100."
        )
    name, _, k = chosen.partition("@")
    if name.lower() not in names or k not in ([""] if name.lower() in _WITHOUT_K else map(str, topk)):
        mistakes.append(
            f"`valid_metric` must be one of `metrics` {short_list(metrics)} at one of `topk` {short_list(topk)}, but "
            f"is {short(chosen)} instead."
        )
    return mistakes


def is_known(name: str, known: Iterable[str] = ()) -> bool:
    """Tell whether an option is read: by us, by any model of RecBole, or as one of ``known``."""
    return name in OPTIONS or name in {*known} or name in known_to_recbole()


def unknown_names(written: Iterable[str], known: Iterable[str], refuse_all: bool) -> list[str]:
    """List the unknown names, each with the name that was probably meant, and the option that accepts them.

    Unless all are refused, as in a program of the user's own, those that are near no name of ours are noted in the log.
    """
    known = {*known}
    ours = sorted({*OPTIONS, *known})
    mistakes, others = [], []
    for name in sorted(name for name in {*written} if not is_known(name, known)):
        near = nearest(name.replace("-", "_"), ours)
        if refuse_all:
            near = near or nearest(name, sorted({*ours, *known_to_recbole()}))
            hint = f"did you mean `{near}`?" if near else "neither RecBole nor BERT4Rec has an option of this name."
            mistakes.append(f"`{name}`: {hint}")
        elif near:
            mistakes.append(f"`{name}`: did you mean `{near}`?")
        else:
            others.append(name)
    if others:
        getLogger().warning(f"read by neither RecBole nor BERT4Rec: {', '.join(others)}")
    return [*mistakes, "`allow_unknown: True` accepts names that nobody reads."] if mistakes else []


@cache
def known_to_every_model() -> frozenset[str]:
    """Collect the options that RecBole reads for any model: those of its lists and its property files."""
    root = folder_of_recbole()
    lists = runpy.run_path(str(root / "utils" / "argument_list.py"))  # without its package, which takes seconds
    listed = (names for name, names in lists.items() if name.endswith("_arguments"))
    files = (file for file in (root / "properties").rglob("*.yaml") if file.parent.name != "model")
    return frozenset(_UNLISTED.union(described_in(files), *listed))


@cache
def known_to_recbole() -> frozenset[str]:
    """Collect the options of RecBole and of all its models."""
    return known_to_every_model().union(described_in((folder_of_recbole() / "properties" / "model").glob("*.yaml")))


def described_in(files: Iterable[Path]) -> dict[str, tuple[str, str]]:
    """Return the default of each option of property files, as it is written there, and its comment."""
    lines = (line.partition(":") for file in files for line in file.read_text("utf-8").splitlines())
    parts = ((name, rest.partition("#")) for name, colon, rest in lines if colon and name.isidentifier())
    return {name: (default.strip(), comment.strip()) for name, (default, _, comment) in parts}


def read_options(file: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of a configuration file, which may not trust pickles; a dictionary is returned as it is."""
    if isinstance(file, Mapping):
        return file
    options = read_yaml(file)
    if "trust_pickles" in options:
        raise UserError(f"{file} sets `trust_pickles`; a file may come from elsewhere: say it on the command line")
    return options
