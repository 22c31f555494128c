"""Proof that all models of a comparison are tested on the same rows: users, targets, histories, and items to rank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch
from recbole.config import Config
from recbole.utils import ModelType

from recbole_bert4rec.experiments.results import OF_RANKS
from recbole_bert4rec.experiments.store import fingerprint, silent_config
from recbole_bert4rec.options.auto import most_epochs
from recbole_bert4rec.options.table import SAME_IN_COMPARISON, SINGLE_RUN
from recbole_bert4rec.plugin.hooks import in_program
from recbole_bert4rec.plugin.split import asks_for_global_time
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.build import Data, load_data, read_dataset
from recbole_bert4rec.training.ranks import PHASES, targets_of
from recbole_bert4rec.training.screen import parts_text

LEAST_INTERACTIONS = 4
"""RecBole's sequential models need one more than its general ones to validate and test a user."""
Contestant = Mapping[str, Any]
"""Arguments of a run: ``model``, ``config_files`` (what is in them) and ``options``, which win."""


def under_rules(contestant: Contestant, rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a contestant's runs: shared rules win, but for its columns beside the interactions."""
    files, options = contestant["config_files"], contestant["options"]
    rules = dict(rules)
    if "load_col" in rules:
        loaded = [given.get("load_col") or {} for given in (*files, options)]
        more = {source: names for one in loaded for source, names in one.items() if source != "inter"}
        rules["load_col"] = {**rules["load_col"], **more}
    options = {name: value for name, value in options.items() if name not in rules}
    # texts of options are read as the values that they spell; those of a file are values
    return {"model": contestant["model"], "config_files": [*files, rules], "options": options}


def config_of(contestant: Contestant, dataset: str, rules: Mapping[str, Any]) -> Config:
    """Return the configuration of a contestant."""
    return silent_config(dataset=dataset, **under_rules(contestant, rules))


@in_program()
def check_equal_rows(reference: Contestant, contestants: Mapping[str, Contestant], dataset: str) -> dict[str, Any]:
    """Refuse models that would be tested on other rows than BERT4Rec; return the shared rules and facts of the data."""
    config = config_of(reference, dataset, {})
    whole = read_dataset(config)
    counts = pd.Series(np.asarray(whole.inter_feat[whole.uid_field])).value_counts()
    few = bool((counts < LEAST_INTERACTIONS).any()) and not asks_for_global_time(config["eval_args"])
    rules = shared_rules(config, few)
    data = load_data(config_of(reference, dataset, rules))
    items, rows = data.dataset.field2id_token[data.dataset.iid_field], _rows(data)
    for label, contestant in contestants.items():
        other = load_data(config_of(contestant, dataset, rules))
        if not np.array_equal(items, other.dataset.field2id_token[other.dataset.iid_field]):
            raise UserError(f"{label} reads other items than BERT4Rec; the two cannot be compared")
        for phase, ours, theirs in zip(PHASES, rows, _rows(other), strict=True):
            if not ours[["user", "target"]].equals(theirs[["user", "target"]]):
                raise UserError(
                    f"{label} has other users or targets in {phase} than BERT4Rec: {len(theirs)} rows, not the same "
                    f"{len(ours)}"
                )
            read_by_both = ours.columns.intersection(theirs.columns, sort=False)
            if not ours[read_by_both].equals(theirs[read_by_both]):
                raise UserError(f"{label} sees other histories in {phase} than BERT4Rec")
    return {
        "rules": rules,
        "dropped": len(counts) - (data.dataset.user_num - 1),
        "users": data.dataset.user_num - 1,
        "items": len(items) - 1,
        "interactions": data.interactions,
        "fingerprint": fingerprint(config),
        "parts": parts_text(data),
        "rows": rows[1][["user"]],
    }


def _rows(data: Data) -> list[pd.DataFrame]:
    """Return the rows of validation and test by user: user, target and, for sequential models, history.

    Column 0 is the last item before the target, column 1 the one before it; 0 where a history has no more.
    """
    tables = []
    for loader, phase in zip((data.valid, data.test), PHASES, strict=True):
        dataset = loader._dataset
        users, targets = targets_of(loader, phase)
        table = pd.DataFrame({"user": np.asarray(dataset.field2id_token[dataset.uid_field])[users], "target": targets})
        if data.config["MODEL_TYPE"] == ModelType.SEQUENTIAL:
            rows = dataset[torch.arange(len(dataset))]
            histories = rows[dataset.iid_field + data.config["LIST_SUFFIX"]].int()
            places = rows[dataset.item_list_length_field].unsqueeze(1) - 1 - torch.arange(histories.shape[1])
            latest_first = histories.gather(1, places.clamp_min(0)).where(places >= 0, 0)
            table = table.join(pd.DataFrame(latest_first.numpy()))
        tables.append(table.sort_values("user", ignore_index=True))
    return tables


def shared_rules(reference: Config, few: bool) -> dict[str, Any]:
    """Return the options that all runs share, in place of the models' defaults; refuse what not all models can follow.

    ``few``: some users have too few interactions for some models; they are dropped for all.
    """
    arguments, interval = reference["eval_args"], reference["user_inter_num_interval"]
    one_target = arguments["split"] == {"LS": "valid_and_test"} or asks_for_global_time(arguments)
    if not one_target or arguments["order"] != "TO":
        raise UserError(
            "models are compared by leave-one-out in the order of time, or at one moment with one target a user "
            f"(protocol-global-time.yaml), but `eval_args` asks for {arguments}; leave split and order out"
        )
    if alone := [name for name in (*SINGLE_RUN, "benchmark_filename") if reference[name] is not None]:
        raise UserError(f"`{alone[0]}` is for a single run; leave it out of a comparison")
    if reference["eval_step"] < 1 or most_epochs(reference) < 1:
        raise UserError("`eval_step` and `epochs` must be at least 1: models are selected on validation")
    if strange := [name for name in reference["metrics"] if name.lower() not in OF_RANKS]:
        raise UserError(f"models are compared by {OF_RANKS}; leave `metrics` {strange} out")
    rules = {name: reference[name] for name in SAME_IN_COMPARISON}
    rules["eval_args"] = {"split": arguments["split"], "order": "TO", "group_by": "user", "mode": arguments["mode"]}
    rules["show_progress"] = False
    if arguments["mode"] != {"valid": "full", "test": "full"}:
        rules["candidates"] = "paper"  # the same for every model, at every evaluation
    if few and interval not in (None, "[0,inf)"):
        raise UserError(
            f"some users have fewer than {LEAST_INTERACTIONS} interactions, which some models cannot be tested on: "
            f"`user_inter_num_interval` {interval} must begin at {LEAST_INTERACTIONS}"
        )
    return rules | ({"user_inter_num_interval": f"[{LEAST_INTERACTIONS},inf)"} if few else {})
