"""RecBole's sequential dataset without its padded copies: a row stores where its history ends, not the history."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from recbole.data.interaction import Interaction
from recbole.utils import EvaluatorType, FeatureSource, FeatureType
from torch import Tensor

from recbole_bert4rec.core.item_features import Contents
from recbole_bert4rec.core.segments import segment_offsets
from recbole_bert4rec.core.sequences import Sequences, order_by_user_and_time
from recbole_bert4rec.options.auto import LogSize
from recbole_bert4rec.options.user_models import is_ours
from recbole_bert4rec.plugin.contents import ColdItems, contents_of
from recbole_bert4rec.plugin.loading import FastLoading
from recbole_bert4rec.plugin.split import (
    check_not_empty,
    keep_valid_users,
    split_rows,
    splits_by_global_time,
)
from recbole_bert4rec.system.constants import SEQUENCE, TARGET_POSITION
from recbole_bert4rec.system.errors import UserError

_WARNED_SHARE = 0.01
"""Share of rows from which on the user is warned; smaller ones are only in the log file."""


class BERT4RecDataset(FastLoading):
    """The rows, splits and order of RecBole's SequentialDataset; histories are cut out when a row is asked for."""

    sequences: Sequences  # of all interactions; train, valid and test share them, and their rows point into them
    full_sequence_of_user: tuple[Tensor, Tensor]  # users with items, and the sequence of all of each's; (S,), (S,)
    log_size: LogSize  # of the whole log; set when it is split
    inter_feat: Interaction

    def _our_option(self, name: str) -> Any:
        """Return an option that only our models have; None for RecBole's models on whole windows."""
        return self.config[name] if is_ours(self.config.model_class) else None

    def _change_feat_format(self) -> None:
        """Turn frames into tensors; those hold times as float32, so exact times are kept until rows are sorted."""
        if self.benchmark_filename_list is None and self.time_field in self.inter_feat:
            self._times = np.array(self.inter_feat[self.time_field], dtype=np.float64)
        super()._change_feat_format()
        if self.benchmark_filename_list is not None:
            self._flatten_benchmark_rows()

    def data_augmentation(self) -> None:
        """Sort interactions by user and time, and make a row of each except a user's first."""
        self._aug_presets()
        self._check_field("uid_field", "time_field")
        if self.time_field not in self.inter_feat:
            raise UserError(f"the time column {self.time_field!r} is not loaded; name it in load_col")
        exact = torch.from_numpy(self.__dict__.pop("_times"))
        everything = _rows(self.inter_feat, self._order_by_user_and_time(exact))
        users = everything[self.uid_field]
        offsets = torch.searchsorted(users.contiguous(), torch.arange(self.user_num + 1))
        sequences = Sequences(everything[self.iid_field].to(torch.int32), offsets)
        self._take(sequences, everything, torch.arange(len(users)))

    def _take(self, sequences: Sequences, interactions: Interaction, positions: Tensor) -> None:
        """Take all sequences, and make rows of interactions at flat positions (R,), except each user's first."""
        self.sequences = sequences
        present = (sequences.lengths > 0).nonzero().squeeze(1)
        self.full_sequence_of_user = (present, present)
        later = (positions > sequences.offsets[interactions[self.uid_field]]).nonzero().squeeze(1)
        self.inter_feat = _rows(interactions, later)
        self.inter_feat[TARGET_POSITION] = positions[later]

    def _order_by_user_and_time(self, exact: Tensor) -> Tensor:
        """Return the order by RecBole's float32 times, or by exact ones (``exact_time``); ties stay as in the file."""
        users, rounded = self.inter_feat[self.uid_field], self.inter_feat[self.time_field]
        if self._our_option("exact_time"):
            return order_by_user_and_time(users, exact)
        order = order_by_user_and_time(users, rounded)
        user, time, float32 = users[order], exact[order], rounded[order]
        merged = (user[1:] == user[:-1]) & (time[1:] != time[:-1]) & (float32[1:] == float32[:-1])
        if merged.any():
            report = self.logger.warning if merged.float().mean() >= _WARNED_SHARE else self.logger.info
            report(
                f"{int(merged.sum())} interactions of {len(user[1:][merged].unique())} users have a time that "
                "RecBole's float32 cannot tell from the user's previous one; they keep the order of the file. "
                "exact_time: True orders them"
            )
        return order

    def _flatten_benchmark_rows(self) -> None:
        """Make a sequence of each row of benchmark files: its history, padded on the right, followed by its target."""
        columns = dict(self.inter_feat.interaction)
        histories, lengths = columns.pop(self.item_id_list_field), columns.pop(self.item_list_length_field)
        rows = torch.arange(len(lengths))
        table = torch.cat([histories, torch.zeros_like(histories[:, :1])], 1)  # (R, L + 1)
        table[rows, lengths] = columns[self.iid_field]
        inside = torch.arange(table.shape[1]) <= lengths.unsqueeze(1)
        offsets = segment_offsets(lengths + 1)
        self.sequences = Sequences(table[inside].to(torch.int32), offsets)
        pointers = {SEQUENCE: rows, TARGET_POSITION: offsets[1:] - 1}
        columns = {field: values for field, values in columns.items() if values.dim() == 1}
        users, begin, _ = self.sequences.longest_slices(columns[self.uid_field], *pointers.values())
        self.full_sequence_of_user = (users, torch.searchsorted(self.sequences.offsets, begin))
        self._aug_presets()
        self.inter_feat = Interaction({**columns, **pointers})

    def _aug_presets(self) -> None:
        """Declare the fields that :meth:`__getitem__` adds; RecBole's other ``*_list`` fields are never read."""
        self.item_id_list_field = self.iid_field + self.config["LIST_SUFFIX"]
        setattr(self, f"{self.iid_field}_list_field", self.item_id_list_field)
        for field, kind, length in (
            (self.item_id_list_field, FeatureType.TOKEN_SEQ, self.max_item_list_len),
            (self.item_list_length_field, FeatureType.TOKEN, 1),
        ):
            self.set_field_property(field, kind, FeatureSource.INTERACTION, length)

    def sequence_of(self, rows: Interaction) -> Tensor:
        """Return the sequence of each row, (R,): its user's, or the row's own in a benchmark file."""
        return rows[SEQUENCE] if SEQUENCE in rows else rows[self.uid_field]

    def __getitem__(
        self, index: int | slice | list[int] | NDArray[np.int64] | Tensor, join: bool = True
    ) -> Interaction:
        """Return rows as RecBole has them: target, history padded to MAX_ITEM_LIST_LENGTH, and its length."""
        rows = super().__getitem__(index, join)
        if not hasattr(self, "sequences"):
            return rows
        owners, targets = self.sequence_of(rows), rows[TARGET_POSITION]
        width = self.max_item_list_len
        begin, length = self.sequences.before(owners.reshape(-1), targets.reshape(-1), width)
        items = self.sequences.windows(begin, length, width)
        rows[self.item_id_list_field] = items.reshape(*owners.shape, width)
        rows[self.item_list_length_field] = length.reshape(owners.shape)
        return rows

    def slices(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return one whole sequence for each user of this part; see :meth:`Sequences.longest_slices`."""
        rows = self.inter_feat
        return self.sequences.longest_slices(rows[self.uid_field], self.sequence_of(rows), rows[TARGET_POSITION])

    def item_features(self, names: list[str]) -> tuple[tuple[Tensor, int], ...]:
        """Return the values (N + 1, width) of each categorical feature, none for [MASK], and how many ids it has."""
        columns = [] if self.item_feat is None else self.item_feat.columns
        loaded = [field for field in columns if field != self.iid_field]
        tables = []
        for field in names:
            if field not in loaded:
                raise UserError(
                    f"`selected_features` names {field!r}, but the loaded columns of the .item file are {loaded}; name "
                    f"it in load_col: item too, such as {{'item': ['{self.iid_field}', '{field}']}}"
                )
            if field in self.numeric_features:
                continue
            values = self.item_feat[field].view(self.item_num, -1)
            tables.append((torch.cat([values, torch.zeros_like(values[:1])]), self.num(field)))
        return tuple(tables)

    @cached_property
    def contents(self) -> tuple[Contents | None, ColdItems | None]:
        """Contents of the items, and items without an interaction; see :func:`contents_of`."""
        return contents_of(self, self.training_counts().float())

    def fingerprint(self) -> str:
        """Return a digest of all interactions, and of this part's slices of them."""
        digest = hashlib.sha256()
        for tensor in (self.sequences.items, self.sequences.offsets, *self.slices()):
            digest.update(str(tensor.shape).encode())
            digest.update(tensor.contiguous().numpy().data)
        return digest.hexdigest()

    def inter_matrix(self, form: str = "coo") -> Any:
        """Return the matrix of all interactions of this part, users by items; all values are 1.

        A user's first interaction has no row; it is added if the user's second one is in this part.
        """
        rows = self.inter_feat
        before = rows[TARGET_POSITION] - 1
        firsts = before == self.sequences.offsets[self.sequence_of(rows)]
        users = torch.cat([rows[self.uid_field], rows[self.uid_field][firsts]])
        items = torch.cat([rows[self.iid_field], self.sequences.items[before[firsts]].long()])
        pairs = Interaction({self.uid_field: users, self.iid_field: items})
        return self._create_sparse_matrix(pairs, self.uid_field, self.iid_field, form, None)

    def build(self) -> list[BERT4RecDataset]:
        """Split as RecBole does, but without its loops over rows; the parts, their rows and order are the same."""
        if self.config["eval_type"] == EvaluatorType.VALUE and self.label_field not in self.inter_feat:
            raise UserError(
                f"mode labeled needs a column {self.label_field!r} (LABEL_FIELD): name it in load_col, or derive it "
                "from another column with threshold, such as {'rating': 4}"
            )
        files, split = self.benchmark_filename_list, self.config["eval_args"]["split"]
        interactions = self.inter_num
        if files:  # a row is a history with its target, so only each user's longest one counts
            longest = self.inter_feat.groupby(self.uid_field)[self.item_list_length_field].max()
            interactions = int((longest + 1).sum())
        self.log_size = LogSize(self.user_num - 1, self.item_num - 1, interactions)
        datasets = super().build() if files or splits_by_global_time(self) else self._split()
        split = {"benchmark_filename": files} if files else split
        check_not_empty([len(dataset) for dataset in datasets], split, self.dataset_name)
        self._report_unseen_targets(datasets)
        return datasets

    def _split(self) -> list[BERT4RecDataset]:
        """Split the rows under ``eval_args`` and ``valid_users``."""
        arguments = self.config["eval_args"]
        if arguments["order"] != "TO":
            raise UserError(f"eval_args order must be TO for a sequential model, but is {arguments['order']!r}")
        self._change_feat_format()
        users, times = self.inter_feat[self.uid_field], self.inter_feat[self.time_field]
        parts = split_rows(users.numpy(), times.numpy(), arguments, self._calcu_split_ids)
        parts = keep_valid_users(parts, self._our_option("valid_users"), self.config["seed"])
        self._drop_unused_col()
        datasets = [self.copy(_rows(self.inter_feat, torch.from_numpy(part))) for part in parts]
        if "popularity" in (self.config[f"{phase}_neg_sample_args"]["distribution"] for phase in ("valid", "test")):
            # RecBole's sampler numbers its table in the order of these rows
            self.inter_feat = _rows(self.inter_feat, times.sort(stable=True).indices)
        return datasets

    def training_counts(self) -> Tensor:
        """Count the occurrences of each item in this part's sequences, (N,)."""
        _, begin, length = self.slices()
        return self.sequences.counts_in(begin, length, self.item_num)

    def all_histories(self) -> dict[str, Any]:
        """Return the whole histories, valid and test included: external ids (U,), items (T,) and offsets (U + 1,)."""
        sequences, (users, latest) = self.sequences, self.full_sequence_of_user
        kept = sequences.slices(sequences.offsets[latest], sequences.lengths[latest])
        return {
            "users": [str(token) for token in self.field2id_token[self.uid_field][users.numpy()]],
            "items": kept.items,
            "offsets": kept.offsets,
        }

    def _report_unseen_targets(self, datasets: list[BERT4RecDataset]) -> None:
        """Report how many targets are in no training sequence; they are ranked like all others, untrained."""
        untrained = datasets[0].training_counts() == 0
        for name, dataset in zip(("valid", "test"), datasets[1:], strict=True):
            unseen = int(untrained[dataset.inter_feat[self.iid_field]].sum())
            if unseen:
                report = self.logger.warning if unseen >= _WARNED_SHARE * len(dataset) else self.logger.info
                report(
                    f"{unseen} of {len(dataset)} {name} targets are items that no training sequence holds; "
                    "they are ranked like all others"
                )


def _rows(table: Interaction, index: Tensor) -> Interaction:
    """Return ``table[index]``; RecBole's own indexing makes a Python list of the index first."""
    return Interaction({field: values[index] for field, values in table.interaction.items()})
