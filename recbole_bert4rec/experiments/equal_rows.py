"""Proof that all models of a comparison are tested on the same rows: users, targets, and items to rank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from recbole.config import Config
from recbole.data.dataset import Dataset
from recbole.utils import ModelType, dataset_arguments
from torch import Tensor

from recbole_bert4rec.experiments.store import fingerprint
from recbole_bert4rec.options.auto import most_epochs
from recbole_bert4rec.options.table import SAME_IN_COMPARISON, SINGLE_RUN
from recbole_bert4rec.plugin.config import Layers, PluginConfig
from recbole_bert4rec.plugin.hooks import in_program
from recbole_bert4rec.plugin.split import asks_for_global_time
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.build import Data, load_data, read_dataset
from recbole_bert4rec.training.ranks import PHASES, targets_of
from recbole_bert4rec.training.screen import parts_text, silence

LEAST_INTERACTIONS = 4
"""RecBole's sequential models need one more than its general ones to validate and test a user."""
_SHAPING = ("load_col", "unload_col", "MAX_ITEM_LIST_LENGTH", "USER_ID_FIELD", "ITEM_ID_FIELD", "TIME_FIELD")
"""Options that decide which rows a model reads, apart from RecBole's ``dataset_arguments``."""
_METRICS = ("hit", "map", "mrr", "ndcg", "precision", "recall")
"""Those of a ranking with one target."""
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
    """Return the configuration of a contestant; what it has to say is said once, for all models and seeds."""
    given = under_rules(contestant, rules)
    with silence():
        layers = Layers(files=tuple(given["config_files"]), options=given["options"])
        return PluginConfig(given["model"], dataset, layers)


@in_program()
def check_equal_rows(reference: Contestant, contestants: Mapping[str, Contestant], dataset: str) -> dict[str, Any]:
    """Refuse models that would be tested on other rows than BERT4Rec; return the shared rules and facts of the data."""
    config = config_of(reference, dataset, {})
    whole = read_dataset(config)
    counts = pd.Series(np.asarray(whole.inter_feat[whole.uid_field])).value_counts()
    few = bool((counts < LEAST_INTERACTIONS).any()) and not asks_for_global_time(config["eval_args"])
    rules = shared_rules(config, few)
    data = load_data(config_of(reference, dataset, rules))
    items, rows = _items(data.dataset), _rows(data)
    compared = set()
    for label, contestant in contestants.items():
        config = config_of(contestant, dataset, rules)
        read = read_dataset(config)
        kind = type(read).__name__ + str([config[name] for name in (*dataset_arguments, *_SHAPING)])
        if kind in compared:
            continue
        compared.add(kind)
        if not np.array_equal(items, _items(read)):
            raise UserError(f"{label} reads other items than BERT4Rec; the two cannot be compared")
        data_of_model = load_data(config, read)
        for phase, ours, theirs in zip(PHASES, rows, _rows(data_of_model), strict=True):
            if not ours.equals(theirs):
                raise UserError(
                    f"{label} has other users or targets in {phase} than BERT4Rec: {len(theirs)} rows, not the same "
                    f"{len(ours)}"
                )
        if config["MODEL_TYPE"] == ModelType.SEQUENTIAL:
            _check_histories(label, data, data_of_model)
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


def _items(dataset: Dataset) -> NDArray[np.str_]:
    return np.asarray(dataset.field2id_token[dataset.iid_field])


def _rows(data: Data) -> list[pd.DataFrame]:
    """Return user and target of each row of validation and test, by their external ids."""
    tables = []
    for loader, phase in zip((data.valid, data.test), PHASES, strict=True):
        dataset = loader._dataset
        pairs = zip((dataset.uid_field, dataset.iid_field), targets_of(loader, phase), strict=True)
        user, target = (np.asarray(dataset.field2id_token[field])[ids] for field, ids in pairs)
        tables.append(pd.DataFrame({"user": user, "target": target}).sort_values("user", ignore_index=True))
    return tables


def _check_histories(label: str, ours: Data, theirs: Data) -> None:
    """Refuse a model that reads other items before a target, or in another order."""
    width = min(data.config["MAX_ITEM_LIST_LENGTH"] for data in (ours, theirs))
    for phase, loaders in zip(PHASES, ((ours.valid, theirs.valid), (ours.test, theirs.test)), strict=True):
        if not torch.equal(*(_histories(loader._dataset, width) for loader in loaders)):
            raise UserError(f"{label} sees other histories in {phase} than BERT4Rec")


def _histories(dataset: Dataset, width: int) -> Tensor:
    """Return the last items before each target, by user; zeros stand before shorter histories.

    *Shape:* (R, width)
    """
    rows = dataset[torch.arange(len(dataset))]
    places = rows[dataset.item_list_length_field].unsqueeze(1) - width + torch.arange(width)
    items = rows[dataset.iid_field + dataset.config["LIST_SUFFIX"]].gather(1, places.clamp_min(0))
    return torch.where(places >= 0, items, 0)[rows[dataset.uid_field].argsort()]


def shared_rules(reference: Config, few: bool) -> dict[str, Any]:
    """Return the options that all runs share, in place of the models' defaults.

    ``few``: some users have too few interactions for some models; they are dropped for all.
    """
    _check_protocol(reference)
    arguments = reference["eval_args"]
    rules = {name: reference[name] for name in SAME_IN_COMPARISON}
    rules["eval_args"] = {"split": arguments["split"], "order": "TO", "group_by": "user", "mode": arguments["mode"]}
    rules["show_progress"] = False
    if arguments["mode"] != {"valid": "full", "test": "full"}:
        rules["candidates"] = "paper"  # the same for every model, at every evaluation
    if few:
        interval = reference["user_inter_num_interval"]
        if interval not in (None, "[0,inf)"):
            raise UserError(
                f"some users have fewer than {LEAST_INTERACTIONS} interactions, which some models cannot be tested on: "
                f"`user_inter_num_interval` {interval} must begin at {LEAST_INTERACTIONS}"
            )
        rules["user_inter_num_interval"] = f"[{LEAST_INTERACTIONS},inf)"
    return rules


def _check_protocol(reference: Config) -> None:
    """Refuse a protocol that not all models can follow."""
    arguments = reference["eval_args"]
    split = arguments["split"]
    one_target = split == {"LS": "valid_and_test"} or (isinstance(split, dict) and set(split) == {"GT"})
    if not one_target or arguments.get("order") != "TO":
        raise UserError(
            "models are compared by leave-one-out in the order of time, or at one moment with one target a user "
            f"(protocol-global-time.yaml), but `eval_args` asks for {arguments}; leave split and order out"
        )
    if reference["benchmark_filename"]:
        raise UserError("models cannot be compared on benchmark files; give the whole log and let RecBole split it")
    for name in SINGLE_RUN:
        if reference[name] is not None:
            raise UserError(f"`{name}` is for a single run; leave it out of a comparison")
    for name, value in (("eval_step", reference["eval_step"]), ("epochs", most_epochs(reference))):
        if value < 1:
            raise UserError(f"`{name}` must be at least 1: models are selected on validation")
    if strange := [name for name in reference["metrics"] if name.lower() not in _METRICS]:
        raise UserError(f"models are compared by {_METRICS}; leave `metrics` {strange} out")
