"""What each option of BERT4Rec may be; all mistakes of a configuration are reported in one error.

Defaults and meanings stand in ``properties/model/BERT4Rec.yaml``; this file holds the rules.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from recbole.evaluator.register import metrics_dict

from recbole_bert4rec.constants import PARTS, SAMPLED_LOSSES
from recbole_bert4rec.errors import UserError, nearest

Rule = Callable[[Any], "str | None"]
"""Says what a value must be where it is not, else None."""


def _number(low: float, high: float, brackets: str, whole: bool) -> Rule:
    kind = "a whole number" if whole else "a number"
    upper = "" if math.isinf(high) else f" and {'at most' if brackets[1] == ']' else 'below'} {high:g}"
    wanted = f"{kind} {'at least' if brackets[0] == '[' else 'above'} {low:g}{upper}"

    def rule(value: Any) -> str | None:
        right_type = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
        if not right_type:
            return wanted
        above = value >= low if brackets[0] == "[" else value > low
        below = value <= high if brackets[1] == "]" else value < high
        return None if above and below and math.isfinite(value) else wanted

    return rule


def _integer(low: int) -> Rule:
    return _number(low, math.inf, "[)", whole=True)


def _real(low: float, high: float = math.inf, brackets: str = "[)") -> Rule:
    return _number(low, high, brackets, whole=False)


def _one_of(*choices: Any) -> Rule:
    return lambda value: None if value in choices and type(value) in map(type, choices) else f"one of {list(choices)}"


def _clipping(value: Any) -> str | None:
    positive = _real(0, brackets="()")
    right = isinstance(value, dict) and not set(value) - {"max_norm", "norm_type"} and "max_norm" in value
    if value is None or (right and not any(map(positive, value.values()))):
        return None
    return "a dictionary such as {'max_norm': 5.0}, or null"


def _optional(rule: Rule) -> Rule:
    return lambda value: None if value is None else (wanted := rule(value)) and f"{wanted}, or null"


def _names(value: Any) -> str | None:
    right = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return None if right else "a list of columns of the .item file, such as ['class'], or []"


def _parts(value: Any) -> str | None:
    right = isinstance(value, list) and all(part in PARTS for part in value)
    return None if right else f"a list of some of {list(PARTS)}, or []"


RULES: dict[str, Rule] = {
    "hidden_size": _integer(1),
    "inner_size": _integer(1),
    "n_layers": _integer(1),
    "n_heads": _integer(1),
    "hidden_dropout_prob": _real(0, 1),
    "attn_dropout_prob": _real(0, 1),
    "hidden_act": _one_of("gelu", "relu", "swish", "tanh", "sigmoid", "swiglu"),
    "layer_norm_eps": _real(0, brackets="()"),
    "initializer_range": _real(0, brackets="()"),
    "value_init": _one_of("identity", "random"),
    "bias_init": _one_of("frequency", "zero"),
    "position": _one_of("start", "end", "none"),
    "norm": _one_of("post", "pre"),
    "without": _parts,
    "temperature": _optional(_real(0, brackets="()")),
    "mask_ratio": _real(0, 1, "(]"),
    "ft_ratio": _real(0, 1, "[]"),
    "ft_prefix": _one_of(True, False),
    "mask_count": _one_of("bernoulli", "exact"),
    "mask_recency": _real(0, 1, "(]"),
    "mask_random_share": _real(0, 1, "[]"),
    "mask_keep_share": _real(0, 1, "[]"),
    "loss_type": _one_of("CE", "BPR", *SAMPLED_LOSSES),
    "n_negatives": _integer(1),
    "negatives": _one_of("uniform", "popularity", "batch"),
    "gbce_t": _real(0, 1, "[]"),
    "sparse_update": _one_of(True, False),
    "label_smoothing": _real(0, 1),
    "seen_bias": _one_of(True, False),
    "loss_mean": _one_of("mask", "sequence"),
    "window": _one_of("random", "last", "sliding"),
    "prop_sliding_window": _real(0, 1, "(]"),
    "dupe_factor": _integer(1),
    "batch_tokens": _optional(_integer(1)),
    "exact_time": _one_of(True, False),
    "time_bias": _one_of(True, False),
    "candidates": _one_of("recbole", "paper"),
    "selected_features": _names,
    "lr_schedule": _one_of("constant", "linear", "cosine"),
    "warmup_steps": _integer(0),
    "exclude_seen": _one_of(True, False),
    "valid_users": _optional(_integer(1)),
    "popularity_discount": _real(0),
    "epochs": _integer(0),
    "train_batch_size": _integer(1),
    "eval_batch_size": _integer(1),
    "learner": _one_of("adam", "adamw", "sgd", "adagrad", "rmsprop"),
    "learning_rate": _real(0, brackets="()"),
    "weight_decay": _real(0),
    "ema_decay": _real(0, 1),
    "clip_grad_norm": _clipping,
    "stopping_step": _integer(0),
    "refit": _optional(_one_of("train+valid")),
    "eval_step": _integer(0),
    "MAX_ITEM_LIST_LENGTH": _integer(2),
    "seed": _integer(0),
    "worker": _integer(0),
}


def mistakes(config: Mapping[str, Any], given: Iterable[str] = (), known: Iterable[str] = ()) -> list[str]:
    """Everything that is wrong with a configuration, in words.

    Args:
        config: all options with their final values.
        given: the keys that the user wrote.
        known: keys that RecBole knows.
    """
    found = []
    for key, rule in RULES.items():
        wanted = rule(config.get(key))
        if wanted:
            found.append(f"`{key}` must be {wanted}, but is {config.get(key)!r} instead.")
    found += _mistakes_between(config) if not found else []
    candidates = sorted({*RULES, *known})
    for key in sorted(set(given) - set(candidates)):
        near = nearest(key, candidates)
        if near in RULES:
            found.append(f"`{key}`: did you mean `{near}`?")
    return found


def _mistakes_between(config: Mapping[str, Any]) -> list[str]:
    found = []
    hidden_size, n_heads = config["hidden_size"], config["n_heads"]
    if hidden_size % n_heads:
        found.append(f"`hidden_size` must be divisible by `n_heads`, but is {hidden_size} with {n_heads} heads.")
    shares = config["mask_random_share"] + config["mask_keep_share"]
    if shares > 1:
        found.append(f"`mask_random_share` and `mask_keep_share` must add up to at most 1, but give {shares:g}.")
    found += [
        f"`{key}` needs `loss_type` CE, but the loss is {config['loss_type']}."
        for key in ("seen_bias", "label_smoothing")
        if config[key] and config["loss_type"] != "CE"
    ]
    if config["loss_type"] in ("BCE", "gBCE") and config["negatives"] != "uniform":
        found.append(
            f"`negatives` must be uniform with {config['loss_type']}, which does not correct for how they are drawn, "
            f"but is {config['negatives']!r}: all items would end up with the same score."
        )
    if config["sparse_update"]:
        found += _mistakes_of_sparse_update(config)
    if config["time_bias"] and config.get("benchmark_filename"):
        found.append(
            "`time_bias` needs the times of all interactions, which the rows of `benchmark_filename` do not have."
        )
    found += _mistakes_of_evaluation(config)
    if config.get("transform") is not None:
        found.append(f"`transform` must be null (masks are drawn in the loss), but is {config['transform']!r} instead.")
    return found


def _mistakes_of_sparse_update(config: Mapping[str, Any]) -> list[str]:
    found = []
    if config["loss_type"] not in SAMPLED_LOSSES:
        found.append(
            f"`sparse_update` needs `loss_type` {' or '.join(SAMPLED_LOSSES)}, whose batches touch few items, but the "
            f"loss is {config['loss_type']}."
        )
    if config["temperature"] is not None:
        found.append(
            "`sparse_update` needs `temperature` null: norms of all embeddings are taken, but it is "
            f"{config['temperature']}."
        )
    if config["ema_decay"]:
        found.append(
            f"`sparse_update` needs `ema_decay` 0: an average touches all weights, but it is {config['ema_decay']}."
        )
    if config["learner"] != "adamw":
        found.append(f"`sparse_update` needs `learner` adamw, but the learner is {config['learner']}.")
    return found


def _mistakes_of_evaluation(config: Mapping[str, Any]) -> list[str]:
    arguments = config["eval_args"]
    if not isinstance(arguments, dict):
        example = "{'split': {'LS': 'valid_and_test'}, 'order': 'TO', 'mode': 'full'}"
        return [f"`eval_args` must be a dictionary such as {example}, but is {arguments!r} instead."]
    if not isinstance(config["metrics"], (str, list, tuple)) or not config["metrics"]:
        return [f"`metrics` must be a list such as ['NDCG', 'MRR'], but is {config['metrics']!r}."]
    found = _mistakes_of_metric_names(config) + _mistakes_of_intervals(config)
    keys = ("split", "order", "group_by", "mode")
    found += [f"`eval_args` has no {key!r}, but {list(keys)}." for key in arguments if key not in keys]
    mode = arguments.get("mode", "full")
    modes = list(mode.values()) if isinstance(mode, dict) else [mode]
    if not all(isinstance(one, str) and re.fullmatch(r"full|labeled|(uni|pop)\d+", one) for one in modes):
        found.append(f"`eval_args` mode must be full, uni100, pop100 (any number) or labeled, but is {mode!r}.")
        return found
    metrics = {str(metric).lower() for metric in _listed(config["metrics"])}
    values = metrics & {"auc", "logloss", "mae", "rmse"}
    if values & {"auc", "logloss"} and "labeled" not in modes:
        found.append(f"`metrics` {sorted(values)} judge single scores and need `eval_args` mode labeled, not {mode!r}.")
    elif "labeled" in modes and (
        set(modes) != {"labeled"} or values != set(map(str.lower, _listed(config["metrics"])))
    ):
        found.append(
            "`eval_args` mode labeled judges single scores: use it for validation and test, with `metrics` AUC or "
            f"LogLoss and no others, but the mode is {mode!r} and the metrics are {config['metrics']!r}."
        )
    elif "labeled" in modes and values - {"auc", "logloss"}:
        found.append(f"`metrics` of mode labeled must be AUC or LogLoss, for probabilities, but are {sorted(values)}.")
    if "labeled" in modes and config["popularity_discount"]:
        found.append("`popularity_discount` is for rankings; mode labeled judges probabilities, which it would change.")
    split, files = arguments.get("split"), config.get("benchmark_filename")
    if config["valid_users"] is not None and (files or split != {"LS": "valid_and_test"}):
        found.append(
            "`valid_users` trains most users' validation items: `eval_args` split must be {'LS': 'valid_and_test'}, "
            f"but the split is {f'in the files {files}' if files else split}."
        )
    return found + _mistakes_of_split(split) + mistakes_of_metrics(config)


def _mistakes_of_split(split: Any) -> list[str]:
    if split is None or (isinstance(split, dict) and len(split) == 1 and set(split) - {"LS", "RS", "TS"}):
        return []  # the data set says what it knows
    if not isinstance(split, dict) or len(split) != 1:
        return [f"`eval_args` split must be a dictionary such as {{'LS': 'valid_and_test'}}, but is {split!r}."]
    name, value = next(iter(split.items()))
    if name == "LS":
        kinds = ["valid_and_test", "valid_only", "test_only"]
        return [] if value in kinds else [f"`eval_args` split LS must be one of {kinds}, but is {value!r}."]
    if not isinstance(value, list) or len(value) != 3 or any(map(_real(0), value)) or sum(value) <= 0:
        return [f"`eval_args` split {name} must have three ratios (train, valid, test), but is {value!r}."]
    return [] if value[0] > 0 else [f"`eval_args` split {name} leaves nothing to train on: {value!r}."]


def _mistakes_of_metric_names(config: Mapping[str, Any]) -> list[str]:
    found = []
    for name in map(str, _listed(config["metrics"])):
        if name.lower() not in metrics_dict:
            known = sorted(kind.__name__ for kind in metrics_dict.values())
            near = "Hit" if name.lower() in ("hr", "hitrate", "hitratio") else nearest(name, known)
            found.append(f"`metrics`: {name!r} is not one of {known}" + (f"; did you mean {near}?" if near else "."))
    return found


def _mistakes_of_intervals(config: Mapping[str, Any]) -> list[str]:
    """RecBole leaves out an interval that it cannot read, and keeps no row then."""
    places = {key: config.get(key) for key in ("user_inter_num_interval", "item_inter_num_interval")}
    values = config.get("val_interval") or {}
    if not isinstance(values, dict):
        return [f"`val_interval` must be a dictionary such as {{'rating': '[3,inf)'}}, but is {values!r}."]
    places |= {f"val_interval: {field}": value for field, value in values.items() if isinstance(value, str)}
    return [
        f"`{key}` must be intervals such as '[5,inf)' or '(0,1];[3,4)', but is {value!r}."
        for key, value in places.items()
        if value not in (None, "None") and not all(map(_is_interval, str(value).split(";")))
    ]


def _is_interval(text: str) -> bool:
    text = text.strip()
    try:
        low, high = map(float, text[1:-1].split(","))
    except ValueError:
        return False
    return text[0] in "([" and text[-1] in ")]" and low <= high


_WITHOUT_K = ("auc", "gauc", "logloss", "mae", "rmse")


def mistakes_of_metrics(config: Mapping[str, Any]) -> list[str]:
    """Whether ``valid_metric``, by which the best epoch is chosen, is among those that are computed."""
    metrics, topk, chosen = config["metrics"], config["topk"], str(config["valid_metric"])
    metrics = _listed(metrics)
    topk = [topk] if isinstance(topk, int) else list(topk)
    name, _, k = chosen.partition("@")
    wanted = [""] if name.lower() in _WITHOUT_K else list(map(str, topk))
    if name.lower() in [str(metric).lower() for metric in metrics] and k in wanted:
        return []
    return [f"`valid_metric` must be one of `metrics` {metrics} at one of `topk` {topk}, but is {chosen!r} instead."]


def _listed(value: Any) -> list[Any]:
    return [value] if isinstance(value, str) else list(value)


def check(config: Mapping[str, Any], given: Iterable[str] = (), known: Iterable[str] = ()) -> None:
    """Raise one :class:`UserError` that names every mistake :func:`mistakes` finds."""
    found = mistakes(config, given, known)
    if found:
        raise UserError("the configuration of BERT4Rec has mistakes:\n  " + "\n  ".join(found))
