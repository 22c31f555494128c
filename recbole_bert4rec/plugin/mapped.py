"""The data set of a large log: sequences are memory-mapped, and only rows that a split reads are made."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from recbole.config import Config
from recbole.utils import FeatureSource, FeatureType

from recbole_bert4rec.checkpoints import OtherDataError
from recbole_bert4rec.core.segments import index_within_segment
from recbole_bert4rec.core.sequences import Sequences
from recbole_bert4rec.logs.conversion import folder_read, read_record
from recbole_bert4rec.logs.mapped import ITEMS, TIMES, MappedLog, NumberOf, is_mapped
from recbole_bert4rec.plugin.dataset import BERT4RecDataset
from recbole_bert4rec.plugin.loading import COUNTS, ITEM_ORDER, FastLoading, ItemOrder
from recbole_bert4rec.plugin.split import EVERYTHING
from recbole_bert4rec.system.errors import UserError

_FIRST, _LAST = 2, 3
"""How many interactions from the start and the end of each history become rows. Leave-one-out orders users by their
first row, the second interaction, and cuts the last three rows. The first and the last of all bound the period."""


def reads_mapped(config: Config) -> bool:
    """Tell whether the data set of a configuration is a large log."""
    if config["benchmark_filename"] is not None:
        return False
    return is_mapped(folder_read(config["data_path"], config["conversion"]))


class MappedDataset(BERT4RecDataset):
    """:class:`BERT4RecDataset` for a large log and leave-one-out; other protocols are refused.

    Training, validation and test are the same bit for bit. The training part has two rows of a user, the first and the
    last, which marks the end of training.
    """

    log: MappedLog  # all interactions, in memory-mapped files

    def _load_data(self, token: str, dataset_path: str) -> None:
        """Find the files, and read the interactions that become rows into memory."""
        folder = Path(folder_read(dataset_path, self.config["conversion"]))
        self.log = MappedLog(folder)
        fields = [self.uid_field, self.iid_field, self.time_field]
        _check_options(self.config, (read_record(Path(dataset_path)) or {}).get("made_from", {}).get("columns"), fields)
        for field, kind in zip(fields, (FeatureType.TOKEN, FeatureType.TOKEN, FeatureType.FLOAT), strict=True):
            self.set_field_property(field, kind, FeatureSource.INTERACTION, 1)
        self.field2bucketnum[self.time_field] = 2
        users, self._positions = self._ends_of_sequences()
        items, times = (self.log.read_at(name, self._positions) for name in (ITEMS, TIMES))
        # until RecBole makes tensors of it
        self.inter_feat = pd.DataFrame(dict(zip(fields, (users, items.astype(np.int64), times), strict=True)))
        self.user_feat = None
        self.item_feat = self._load_user_or_item_feat(token, dataset_path, FeatureSource.ITEM, "iid_field")

    def _ends_of_sequences(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return users and flat positions of each user's first and last interactions, in order; (R,), (R,)."""
        begin, length = self.log.offsets[:-1].numpy(), np.diff(self.log.offsets.numpy())
        kept = np.minimum(length, _FIRST + _LAST)
        users = np.repeat(np.arange(len(begin)), kept)
        rank = index_within_segment(users, kept)
        left_out = np.where(rank < _FIRST, 0, np.maximum(length[users] - _FIRST - _LAST, 0))
        return users, begin[users] + rank + left_out

    def _filter_inter_by_user_or_item(self) -> None:
        """Refuse an .item file that lacks items of the log, whose interactions RecBole would drop."""
        if self.config["filter_inter_by_user_or_item"] is not True or self.item_feat is None:
            return
        known = np.isin(self.log.item_tokens[1:], self.item_feat[self.iid_field].to_numpy(dtype=str))
        if not known.all():
            _refuse(
                f"`filter_inter_by_user_or_item` leaves out interactions, of {int((~known).sum())} items that the "
                f".item file lacks, such as {str(self.log.item_tokens[1:][~known][0])!r}; "
                "--filter_inter_by_user_or_item=False keeps them, without features"
            )

    def _filter_by_inter_num(self) -> None:
        """Refuse intervals that would leave out users or items."""
        counts = (np.diff(self.log.offsets.numpy())[1:], self.log.item_counts.numpy()[1:])
        intervals = [self._parse_intervals_str(self.config[option]) for option in COUNTS]
        for option, of_each, interval in zip(COUNTS, counts, intervals, strict=True):
            if interval and not np.all(self._within_intervals(of_each, interval)):
                _refuse(f"`{option}` {self.config[option]} leaves out users or items; change the log instead")
        if self.item_feat is not None and intervals[1] and intervals[1][0][1] > 0:
            # items that only the file has have no interaction
            in_log = np.isin(self.item_feat[self.iid_field].to_numpy(dtype=str), self.log.item_tokens)
            self.item_feat = self.item_feat[in_log]

    def _remap_ID_all(self) -> None:  # noqa: N802  RecBole's name
        """Number ids as the files do."""
        super(FastLoading, self)._remap_ID_all()
        order: ItemOrder | None = self.config[ITEM_ORDER]
        if order is not None and tuple(self.field2id_token[self.iid_field]) != order.tokens:
            raise OtherDataError(
                f"{order.path} numbers other items than {self.dataset_name!r} now has, or in another order, and those "
                "of a large log cannot be numbered anew; begin with it (--warm_start), or train anew"
            )

    def _remap(self, remap_list: list[tuple[pd.DataFrame, str, FeatureType]]) -> None:
        """Number the ids of features; interactions are numbered already, and items new to the log follow."""
        field = remap_list[0][1]
        if field not in (self.uid_field, self.iid_field):
            return super()._remap(remap_list)
        tokens = self.log.user_tokens if field == self.uid_field else self.log.item_tokens
        for feat, _, _ in remap_list[1:]:
            named = np.array(feat[field].unique(), dtype=str)
            new = named[~np.isin(named, tokens)]
            tokens = np.append(tokens, new) if len(new) else tokens
            feat[field] = pd.Index(tokens).get_indexer(pd.Index(feat[field]))
        self.field2id_token[field] = tokens
        numbers: Any = NumberOf(tokens)
        self.field2token_id[field] = numbers
        return None

    def data_augmentation(self) -> None:
        """Take the mapped sequences, and make rows of the interactions in memory."""
        self._aug_presets()
        del self._times
        sequences = Sequences(self.log.items, self.log.offsets)
        self._take(sequences, self.inter_feat, torch.from_numpy(self.__dict__.pop("_positions")))

    def counter(self, field: str) -> Counter[int]:
        """Count the rows of a training part by user or item, as RecBole does with a row for each."""
        users, begin, length = self.slices()
        counts = length - 1
        if field != self.uid_field:
            counts = self.sequences.counts_in(begin + 1, counts, self.item_num)
            users = torch.arange(len(counts))
        return +Counter(dict(zip(users.tolist(), counts.tolist(), strict=True)))

    def inter_matrix(self, form: str = "coo") -> NoReturn:
        """Refuse a matrix of all interactions."""
        _refuse("there is no matrix of all its interactions")

    @property
    def inter_num(self) -> int:
        """Number of interactions; of a part, of its rows."""
        rows: Any = self.inter_feat
        return len(self.log) if isinstance(rows, pd.DataFrame) else len(rows)

    @property
    def avg_actions_of_users(self) -> float:
        """Mean number of a user's interactions."""
        return len(self.log) / (self.user_num - 1)

    @property
    def avg_actions_of_items(self) -> float:
        """Mean number of an item's interactions."""
        return len(self.log) / int((self.log.item_counts > 0).sum())


def _check_options(config: Config, columns: list[str], fields: list[str]) -> None:
    """Refuse columns that the log was not converted with, and options that need every interaction in memory."""
    loaded, unloaded = config["load_col"] or {}, config["unload_col"] or {}
    asked = loaded.get("inter", "*")
    if fields != columns or "user" in loaded or "inter" in unloaded or not (asked == "*" or {*asked} == {*columns}):
        _refuse(
            f"USER_ID_FIELD, ITEM_ID_FIELD, TIME_FIELD (now {fields}), `load_col` {loaded} and `unload_col` {unloaded} "
            f"must be its columns, {columns}, and no .user file; name the log by its path to read others"
        )
    changes = ("rm_dup_inter", "val_interval", "threshold", "discretization", "unused_col", "preload_weight")
    for option in (*changes, "alias_of_user_id", "alias_of_item_id", "additional_feat_suffix"):
        if config[option]:
            _refuse(f"`{option}` {config[option]} is for logs that fit into memory; leave it out, or change the log")
    if not config["exact_time"]:
        _refuse("`exact_time` must be True: it is kept in the order of its times; --exact_time=True says so")
    split = config["eval_args"]["split"]
    if split != EVERYTHING and (not isinstance(split, dict) or set(split) != {"LS"}):
        _refuse(f"`eval_args` split must be leave-one-out, such as {{'LS': 'valid_and_test'}}, but is {split}")
    if config["candidates"] == "paper" or any(
        config[f"{phase}_neg_sample_args"]["distribution"] == "popularity" for phase in ("valid", "test")
    ):
        _refuse("candidates are drawn by popularity or with `candidates` paper; use mode full, or uni100 (any number)")


def _refuse(why: str) -> NoReturn:
    raise UserError(f"the log is large and read from the disk: {why}")
