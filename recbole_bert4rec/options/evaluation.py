"""Checks of the protocol's options, which depend on each other: split, candidates, metrics, intervals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from recbole_bert4rec.options.global_time import mistakes_of_global_time
from recbole_bert4rec.options.kinds import Real, Whole
from recbole_bert4rec.system.constants import OptionValues
from recbole_bert4rec.system.errors import nearest, short, short_list

_MOST = 30
"""Names of metrics that are checked; there are fewer metrics."""


def mistakes_of_evaluation(config: Mapping[str, Any]) -> list[str]:
    """List the mistakes in the options of the protocol, in words."""
    arguments = config["eval_args"]
    if not isinstance(arguments, dict):
        example = "{'split': {'LS': 'valid_and_test'}, 'order': 'TO', 'mode': 'full'}"
        return [f"`eval_args` must be a dictionary such as {example}, but is {short(arguments)} instead."]
    if not isinstance(config["metrics"], (str, list, tuple)) or not config["metrics"]:
        return [f"`metrics` must be a list such as ['NDCG', 'MRR'], but is {short(config['metrics'])}."]
    if not _are_lengths(config["topk"]):
        return [f"`topk` must be a whole number from 1, or a list of these, but is {short(config['topk'])}."]
    mistakes = _mistakes_of_metric_names(config) + _mistakes_of_intervals(config)
    keys = ("split", "order", "group_by", "mode")
    mistakes += [f"`eval_args` has no {key!r}, but {list(keys)}." for key in arguments if key not in keys]
    mode = arguments.get("mode", "full")
    modes = list(mode.values()) if isinstance(mode, dict) else [mode]
    if not all(isinstance(one, str) and re.fullmatch(r"full|labeled|(uni|pop)\d+", one) for one in modes):
        mistakes.append(f"`eval_args` mode must be full, uni100, pop100 (any number) or labeled, but is {short(mode)}.")
        return mistakes
    split, files = arguments.get("split"), config.get("benchmark_filename")
    if config["valid_users"] is not None and (files or split != {"LS": "valid_and_test"}):
        mistakes.append(
            "`valid_users` trains most users' validation items: `eval_args` split must be {'LS': 'valid_and_test'}, "
            f"but the split is {f'in the files {files}' if files else split}."
        )
    return mistakes + _mistakes_of_split(split) + mistakes_of_metrics(config)


def _mistakes_of_split(split: object) -> list[str]:
    if split is None or (isinstance(split, dict) and len(split) == 1 and set(split) - {"LS", "RS", "TS", "GT"}):
        return []  # the data set says what it knows
    if not isinstance(split, dict) or len(split) != 1:
        return [f"`eval_args` split must be a dictionary such as {{'LS': 'valid_and_test'}}, but is {short(split)}."]
    name, value = next(iter(split.items()))
    if name == "GT":
        return mistakes_of_global_time(value)
    if name == "LS":
        kinds = ["valid_and_test", "valid_only", "test_only"]
        return [] if value in kinds else [f"`eval_args` split LS must be one of {kinds}, but is {short(value)}."]
    if not isinstance(value, list) or len(value) != 3 or not all(map(Real(0).accepts, value)) or sum(value) <= 0:
        return [f"`eval_args` split {name} must have three ratios (train, valid, test), but is {short(value)}."]
    return [] if value[0] > 0 else [f"`eval_args` split {name} leaves nothing to train on: {short(value)}."]


def _are_lengths(topk: object) -> bool:
    lengths = topk if isinstance(topk, (list, tuple)) else [topk]
    return bool(lengths) and all(map(Whole(1).accepts, lengths))


def _mistakes_of_metric_names(config: OptionValues) -> list[str]:
    from recbole.evaluator.register import metrics_dict  # checks are imported where RecBole is not, too

    mistakes = []
    for name in dict.fromkeys(map(str, _listed(config["metrics"])[:_MOST])):
        if name.lower() not in metrics_dict:
            known = sorted(kind.__name__ for kind in metrics_dict.values())
            near = "Hit" if name.lower() in ("hr", "hitrate", "hitratio") else nearest(name, known)
            mistakes.append(
                f"`metrics`: {short(name)} is not one of {known}" + (f"; did you mean {near}?" if near else ".")
            )
    return mistakes


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


_WITHOUT_K = ("auc", "gauc", "logloss", "mae", "rmse")


def mistakes_of_metrics(config: OptionValues) -> list[str]:
    """List a ``valid_metric`` that is not computed, in words."""
    metrics, topk, chosen = config["metrics"], config["topk"], str(config["valid_metric"])
    metrics = _listed(metrics)
    topk = [topk] if isinstance(topk, int) else list(topk)
    name, _, k = chosen.partition("@")
    cuts = [""] if name.lower() in _WITHOUT_K else list(map(str, topk))
    if name.lower() in [str(metric).lower() for metric in metrics] and k in cuts:
        return []
    return [
        f"`valid_metric` must be one of `metrics` {short_list(metrics)} at one of `topk` {short_list(topk)}, but is "
        f"{short(chosen)} instead."
    ]


def _listed(value: str | Iterable[Any]) -> list[Any]:
    return [value] if isinstance(value, str) else list(value)
