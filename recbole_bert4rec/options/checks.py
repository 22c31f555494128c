"""Checks of a whole configuration: every value against the table, the values against each other, and the names.

All mistakes are reported in one error. Options of RecBole's are checked for their types; RecBole checks their values.
"""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterable, Mapping, MutableMapping
from functools import cache
from logging import getLogger
from pathlib import Path
from typing import Any

from recbole_bert4rec.options.kinds import AUTO, SWITCH, Kind, anything, literal, misfits, one_of, or_null, real, whole
from recbole_bert4rec.options.table import FOLLOWED_BY_ALL, OPTIONS, RECBOLES
from recbole_bert4rec.system.constants import SAMPLED_LOSSES, UNCALIBRATED_LOSSES
from recbole_bert4rec.system.environment import folder_of_recbole
from recbole_bert4rec.system.errors import UserError, nearest, short, short_list
from recbole_bert4rec.system.yaml_files import read_yaml

_KINDS: Mapping[str, Kind] = {name: option.kind for name, option in OPTIONS.items()}
_UNLISTED = {"model", "dataset", "config_files", "nproc", "ip", "port", "world_size", "group_offset", "offset"}
_UNLISTED |= {"local_rank", "model_file", "conversion", "device", "encoding", "tail_ratio", "token_num_threshold"}
_UNLISTED |= {"mask_ratio", "ft_ratio", "neg_sampling", "training_neg_sample_num"}
"""Options of every model that are in no list of RecBole: of programs, launchers and logs, and of RecBole's code and
older versions."""
_ANYTHING = anything("anything")
_DICTIONARY = Kind("a dictionary, or null", lambda value: isinstance(value, dict | None))
_TYPES: Mapping[Any, Kind] = {
    bool: SWITCH,
    (int, float): Kind("a number", lambda value: isinstance(value, (int, float)) and not isinstance(value, bool)),
    str: Kind("a text", lambda value: not isinstance(value, (bool, dict))),
    list: Kind("a list", lambda value: not isinstance(value, (bool, dict, float))),
    dict: _DICTIONARY,
    object: _ANYTHING,
}
"""What an option takes, by the type of its default; the command line turns texts into numbers and tuples."""
INTERVALS = Kind(
    "intervals such as '[5,inf)' or '(0,1];[3,4)', in which 2024-04-01 is 1711929600",
    lambda value: all(map(_is_interval, str(value).split(";"))),
)
_RECBOLES = {
    "rm_dup_inter": or_null(one_of("first", "last")),
    **dict.fromkeys(("threshold", "unused_col", "val_interval", "train_neg_sample_args"), _DICTIONARY),
    **dict.fromkeys(("user_inter_num_interval", "item_inter_num_interval"), or_null(INTERVALS)),
}
"""Options of RecBole whose default does not tell what they take."""
_RATIOS = Kind(
    "three ratios (train, valid, test), the first above 0",
    lambda value: isinstance(value, list) and len(value) == 3 and all(map(real(0).accepts, value)) and value[0] > 0,
)
_EVAL_ARGS = {
    "split": Kind(
        "a dictionary of one entry such as {'LS': 'valid_and_test'}, or null",
        lambda value: value is None or (isinstance(value, dict) and len(value) == 1),
    ),
    **dict.fromkeys(("order", "group_by"), _ANYTHING),
    "mode": Kind(
        "full, uni100, pop100 (any number) or labeled",
        lambda mode: all(re.fullmatch(r"full|labeled|(uni|pop)\d+", each) for each in _modes({"mode": mode})),
    ),
}
_SPLITS = {
    "LS": one_of("valid_and_test", "valid_only", "test_only"),
    **dict.fromkeys(("RS", "TS"), _RATIOS),
    "GT": _ANYTHING,  # the next ones
}
_GLOBAL_TIME = {"quantile": real(0, 1, "()"), "target": one_of("last"), "validation": one_of("GT", "LTI")}
"""What ``eval_args``, its ``split``, and the ``GT`` of that may hold."""
_SINGLE_SCORES = ("auc", "logloss", "mae", "rmse")
"""Metrics of single scores; all others are of rankings."""


def mistakes_of_options(
    config: Mapping[str, Any], written: Iterable[str], defaults: Mapping[str, Any], ours: bool = True
) -> list[str]:
    """List the mistakes in the values of options of any model; :func:`unknown_names` checks the names.

    Options that the table leaves to RecBole, and those of a user's own model, have the type of their default.
    """
    of_all = sorted(FOLLOWED_BY_ALL.intersection(written))
    kinds = _KINDS if ours else {name: _KINDS[name] for name in of_all if config.get(name) is not None}
    others = sorted(name for name in written if name not in kinds or OPTIONS[name].default is RECBOLES)
    mistakes = misfits(config, kinds) or misfits(config, {name: _recboles(name, defaults) for name in others})
    return mistakes or (mistakes_between(config) if ours else mistakes_of_metrics(config))


def take_numbers(config: MutableMapping[str, Any], written: Iterable[str], defaults: Mapping[str, Any]) -> None:
    """Replace texts such as ``16`` and ``None`` by their value, and 1.0 by 1, if the option takes only that.

    RecBole's options, and those of a user's own model, take values of the type of their default.
    """
    for name in {*written} & config.keys():
        value = config[name]
        number = literal(value.strip()) if isinstance(value, str) else value
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        kinds = (_KINDS.get(name, _ANYTHING), _recboles(name, defaults))
        misfit = any(not kind.accepts(value) and kind.accepts(number) for kind in kinds)
        if misfit or type(number) is type(defaults.get(name)) is int:
            config[name] = number


def _recboles(name: str, defaults: Mapping[str, Any]) -> Kind:
    return _RECBOLES.get(name) or next(kind for types, kind in _TYPES.items() if isinstance(defaults.get(name), types))


def mistakes_between(config: Mapping[str, Any]) -> list[str]:
    """List values of one of our models that do not fit together; a loss that is ``auto`` is chosen so that they do."""
    hidden_size, n_heads, objective = (config[name] for name in ("hidden_size", "n_heads", "objective"))
    loss, negatives, learner = (config[name] for name in ("loss_type", "negatives", "learner"))
    shares = config["mask_random_share"] + config["mask_keep_share"]
    wrong = {
        f"`hidden_size` must be divisible by `n_heads`, but is {hidden_size} with {n_heads} heads.": (
            hidden_size % n_heads > 0
        ),
        f"`mask_random_share` and `mask_keep_share` must add up to at most 1, but give {shares:g}.": shares > 1,
        f"`position` end needs `objective` cloze, but the objective is {objective}, which reads each position as the "
        "end of a shorter history.": config["position"] == "end" and objective != "cloze",
        "`seen_bias` cannot be learnt with `loss_type` BPR, whose negatives are never items of the history.": (
            config["seen_bias"] and loss == "BPR"
        ),
        f"`negatives` must be uniform with {loss}, which does not correct for how they are drawn, but is "
        f"{negatives!r}: all items would end up with the same score.": (
            loss in UNCALIBRATED_LOSSES and negatives not in ("uniform", AUTO)
        ),
        f"`sparse_update` needs `loss_type` {' or '.join(SAMPLED_LOSSES)}, whose batches touch few items, and "
        f"`learner` adamw, but they are {loss} and {learner}.": (
            config["sparse_update"] and (loss not in (AUTO, *SAMPLED_LOSSES) or learner != "adamw")
        ),
    }
    mistakes = [mistake for mistake, is_made in wrong.items() if is_made]
    return mistakes + (_mistakes_of_protocol(config) or mistakes_of_metrics(config))


def _mistakes_of_protocol(config: Mapping[str, Any]) -> list[str]:
    """List the mistakes in ``eval_args``."""
    if mistakes := _mistakes_within("eval_args", config["eval_args"], _EVAL_ARGS):
        return mistakes
    split, files = config["eval_args"].get("split"), config.get("benchmark_filename")
    if config["valid_users"] is not None and (files or split != {"LS": "valid_and_test"}):
        return [
            "`valid_users` trains most users' validation items: `eval_args` split must be {'LS': 'valid_and_test'}, "
            f"but the split is {f'in the files {files}' if files else split}."
        ]
    return [] if split is None else mistakes_of_split(split)  # without one, the data set says what it knows


def mistakes_of_split(split: Mapping[str, Any]) -> list[str]:
    """List the mistakes in ``eval_args: {split: ...}``."""
    mistakes = _mistakes_within("eval_args: split", split, _SPLITS)
    return mistakes or _mistakes_within("eval_args: split: GT", split.get("GT", {}), _GLOBAL_TIME)


def _mistakes_within(option: str, values: object, kinds: Mapping[str, Kind]) -> list[str]:
    """List the mistakes in an option that is a dictionary."""
    if not isinstance(values, dict):
        return [f"`{option}` must be a dictionary of some of {[*kinds]}, but is {short(values)} instead."]
    mistakes = [f"`{option}` has no {key!r}, but {[*kinds]}." for key in values if key not in kinds]
    named = {f"{option}: {key}": kinds[key] for key in values if key in kinds}
    return mistakes + misfits({f"{option}: {key}": value for key, value in values.items()}, named)


def _modes(arguments: object) -> list[str]:
    mode = arguments.get("mode", "full") if isinstance(arguments, dict) else "full"
    return [*map(str, mode.values() if isinstance(mode, dict) else [mode])]


def _is_interval(text: str) -> bool:
    text = text.strip()
    try:
        low, high = map(float, text[1:-1].split(","))
    except ValueError:
        return False
    return text[0] in "([" and text[-1] in ")]" and low <= high


def mistakes_of_metrics(config: Mapping[str, Any]) -> list[str]:
    """List the mistakes in ``metrics``, ``topk`` and ``valid_metric`` of any model."""
    from recbole.evaluator.register import metrics_dict  # here, for this module is imported without RecBole, too

    metrics, topk = map(_listed, (config["metrics"], config["topk"]))
    names = [str(metric).lower() for metric in metrics]
    known = sorted(kind.__name__ for kind in metrics_dict.values())
    kinds = {
        "metrics": Kind(f"a list of some of {known}", lambda _: names != [] and metrics_dict.keys() >= {*names}),
        "topk": Kind(
            "a whole number from 1, or a list of these", lambda _: topk != [] and all(map(whole(1).accepts, topk))
        ),
    }
    if mistakes := misfits(config, kinds):
        return mistakes
    modes = _modes(config["eval_args"])
    single = [name in _SINGLE_SCORES for name in names]
    if any(single) != all(single) or ("full" in modes and any(single)) or ("labeled" in modes and not all(single)):
        mistakes.append(
            f"`metrics` {short_list(metrics)} cannot be computed with `eval_args` mode {short_list(modes)}: AUC, "
            "LogLoss, MAE and RMSE stand alone and need labeled, uni100 or pop100; all others full, uni100 or pop100."
        )
    ends = {name: [""] if name in ("gauc", *_SINGLE_SCORES) else [f"@{k}" for k in topk] for name in names}
    choices = [f"{metric}{end}" for metric in metrics for end in ends[str(metric).lower()]]
    wanted = f"one of {short_list(choices)}, by `metrics` and `topk`"
    is_one = Kind(wanted, lambda value: str(value).lower() in map(str.lower, choices))
    return mistakes + misfits(config, {"valid_metric": is_one})


def _listed(value: object) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def is_known(name: str, known: Iterable[str] = ()) -> bool:
    """Tell whether an option is ours, one of RecBole's or any of its models', or one of ``known``."""
    return name in OPTIONS or name in {*known} or name in known_to_recbole()


def unknown_names(written: Iterable[str], known: Iterable[str], refuse_all: bool) -> list[str]:
    """List the unknown names, each with the name that was probably meant, and the option that accepts them.

    If not all are refused, as in a user's own program, those that are close to no name of ours are only logged.
    """
    known = {*known}
    candidates = sorted({*OPTIONS, *known, *(known_to_recbole() if refuse_all else ())})
    mistakes, others = [], []
    for name in sorted(name for name in {*written} if not is_known(name, known)):
        if near := nearest(name.replace("-", "_"), candidates):
            mistakes.append(f"`{name}`: did you mean `{near}`?")
        elif refuse_all:
            mistakes.append(f"`{name}`: neither RecBole nor BERT4Rec has an option of this name.")
        else:
            others.append(name)
    if others:
        getLogger().warning(f"read by neither RecBole nor BERT4Rec: {', '.join(others)}")
    return [*mistakes, "`allow_unknown: True` accepts names that nobody reads."] if mistakes else []


@cache
def known_to_every_model() -> frozenset[str]:
    """Collect the options that RecBole reads for any model: those of its lists and its property files."""
    root = folder_of_recbole()
    lists = runpy.run_path(str(root / "utils" / "argument_list.py"))  # importing its package takes seconds
    listed = (names for name, names in lists.items() if name.endswith("_arguments"))
    files = (file for file in (root / "properties").rglob("*.yaml") if file.parent.name != "model")
    return frozenset(_UNLISTED.union(described_in(files), *listed))


@cache
def known_to_recbole() -> frozenset[str]:
    """Collect the options of RecBole and of all its models."""
    return known_to_every_model().union(described_in((folder_of_recbole() / "properties" / "model").glob("*.yaml")))


def described_in(files: Iterable[Path]) -> dict[str, tuple[str, str]]:
    """Return the default, as it is written, and the comment of each option in property files."""
    lines = (line.partition(":") for file in files for line in file.read_text("utf-8").splitlines())
    parts = ((name, rest.partition("#")) for name, colon, rest in lines if colon and name.isidentifier())
    return {name: (default.strip(), comment.strip()) for name, (default, _, comment) in parts}


def read_options(file: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of a configuration file, which must not trust pickles; a dictionary is returned as it is."""
    if isinstance(file, Mapping):
        return file
    options = read_yaml(file)
    if "trust_pickles" in options:
        raise UserError(f"{file} sets `trust_pickles`; a file may come from elsewhere: say it on the command line")
    return options
