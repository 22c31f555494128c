"""Proof that every model of a comparison is evaluated on the same rows: users, targets and histories."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from recbole.config import Config
from recbole.data.dataset import Dataset, SequentialDataset
from recbole.utils import dataset_arguments

from recbole_bert4rec.comparison.comparison import LEAST_INTERACTIONS, Comparison, is_general, reference_config
from recbole_bert4rec.comparison.study import Study
from recbole_bert4rec.plugin.dataset import BERT4RecDataset
from recbole_bert4rec.plugin.hooks import in_program
from recbole_bert4rec.plugin.split import asks_for_global_time
from recbole_bert4rec.system.constants import TARGET_POSITION
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.files import digest_of
from recbole_bert4rec.training.build import load_data, read_dataset
from recbole_bert4rec.training.interactions import PHASES, targets_of
from recbole_bert4rec.training.screen import data_facts, parts_text

_SHAPING = ("load_col", "unload_col", "MAX_ITEM_LIST_LENGTH", "USER_ID_FIELD", "ITEM_ID_FIELD", "TIME_FIELD")
"""Options that decide which rows a model reads, apart from RecBole's ``dataset_arguments``."""


@in_program()
def check_equal_rows(comparison: Comparison, report: Callable[[str], None]) -> dict[str, Any]:
    """Read the data as every model reads them, and refuse models that would be evaluated on other rows."""
    reference = reference_config(comparison)
    comparison.check_metrics(reference)
    counts = _interactions_of_users(read_dataset(reference))
    few = bool((counts < LEAST_INTERACTIONS).any()) and not asks_for_global_time(reference["eval_args"])
    rules = comparison.rules(reference, few)
    reference_rows = ReferenceRows(replace(comparison, study=Study()).config(reference["model"], rules))
    compared: set[str] = set()
    for model in comparison.models:
        config = comparison.config(model, comparison.rules_of(model, rules, reference["seed"]))
        dataset = read_dataset(config)
        kind = type(dataset).__name__ + str([config[name] for name in (*dataset_arguments, *_SHAPING)])
        if kind not in compared:
            reference_rows.compare(model, config, dataset)
            compared.add(kind)
        report(model)
    about = reference_rows.about()
    return {"rules": rules, "dropped": len(counts) - about["users"], **about}


def _interactions_of_users(dataset: Dataset) -> pd.Series:
    return pd.Series(np.asarray(dataset.inter_feat[dataset.uid_field])).value_counts()


class ReferenceRows:
    """The rows that BERT4Rec is evaluated on, from the flat sequences of all users; others are compared with them."""

    def __init__(self, config: Config) -> None:
        self._config = config
        data = load_data(config)
        self._parts = parts_text(data_facts(data))
        self._tokens = _tokens(data.dataset)
        self._loaders = (data.valid, data.test)
        self._sequences = self._loaders[1]._dataset.sequences
        self._rows = [_sorted(*targets_of(pair[0], pair[1])) for pair in zip(self._loaders, PHASES, strict=True)]

    def compare(self, model: str, config: Config, dataset: Dataset) -> None:
        """Refuse a model whose rows differ."""
        for field, ours, theirs in zip(("users", "items"), self._tokens, _tokens(dataset), strict=True):
            if not np.array_equal(ours, theirs):
                raise UserError(f"{model} reads other {field} than BERT4Rec; the two cannot be compared")
        data = load_data(config, dataset)
        for number, loader in enumerate((data.valid, data.test)):
            phase, (users, targets) = PHASES[number], self._rows[number]
            their_users, their_targets = _sorted(*targets_of(loader, phase))
            if not (np.array_equal(users, their_users) and np.array_equal(targets, their_targets)):
                raise UserError(
                    f"{model} has other users or targets in {phase} than BERT4Rec: "
                    f"{len(their_users)} rows, not the same {len(users)}"
                )
            if not is_general(config) and hasattr(loader._dataset, "item_list_length_field"):
                self._compare_histories(model, number, loader._dataset)

    def _compare_histories(self, model: str, number: int, theirs: SequentialDataset) -> None:
        if isinstance(theirs, BERT4RecDataset):  # histories are cut out of the sequences
            ours, other = self._sequences, theirs.sequences
            same = torch.equal(ours.items, other.items) and torch.equal(ours.offsets, other.offsets)
        else:
            table, our_table = theirs.inter_feat, self._loaders[number]._dataset.inter_feat
            rows, our_rows = (part[theirs.uid_field].sort(stable=True).indices for part in (table, our_table))
            lists = table[theirs.iid_field + theirs.config["LIST_SUFFIX"]][rows]
            users, targets = our_table[theirs.uid_field][our_rows], our_table[TARGET_POSITION][our_rows]
            begins, lengths = self._sequences.before(users, targets, lists.shape[1])
            histories = self._sequences.windows(begins, lengths, lists.shape[1])
            same = np.array_equal(table[theirs.item_list_length_field][rows], lengths)
            same = same and np.array_equal(lists, histories)
        if not same:
            raise UserError(f"{model} sees other histories in {PHASES[number]} than BERT4Rec")

    def about(self) -> dict[str, Any]:
        """Return the result of :func:`check_equal_rows` without rules and dropped users."""
        users, _ = self._rows[1]
        lengths = np.diff(self._sequences.offsets.numpy())
        return {
            "users": int((lengths > 0).sum()),
            "items": len(self._tokens[1]) - 1,
            "interactions": len(self._sequences.items),
            "fingerprint": _fingerprint(self._config),
            "parts": self._parts,
            "rows": pd.DataFrame({"user": self._tokens[0][users]}),
        }


def _fingerprint(config: Config) -> str:
    """Return a digest of all files of the data set: ``NAME.inter``, ``NAME.item`` and so on."""
    digest = hashlib.sha256()
    for path in sorted(Path(config["data_path"]).glob(f"{config['dataset']}.*")):
        digest.update(path.name.encode())
        digest.update(bytes.fromhex(digest_of(path)))
    return digest.hexdigest()


def _tokens(dataset: Dataset) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
    names = dataset.field2id_token
    return np.asarray(names[dataset.uid_field]), np.asarray(names[dataset.iid_field])


def _sorted(users: NDArray[np.int64], targets: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    order = np.argsort(users, kind="stable")
    return users[order], targets[order]
