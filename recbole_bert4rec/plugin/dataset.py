"""RecBole's sequential dataset without its padded copies: a row keeps where its history ends, not the history."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import torch
from recbole.data.dataset import SequentialDataset
from recbole.data.interaction import Interaction
from recbole.utils import FeatureSource, FeatureType
from torch import Tensor

from recbole_bert4rec.constants import SEQUENCE, TARGET_POSITION
from recbole_bert4rec.data import splits
from recbole_bert4rec.data.sequences import Sequences
from recbole_bert4rec.errors import UserError
from recbole_bert4rec.plugin.atomic import check_benchmark_files, check_inter_file, explain_load_failure
from recbole_bert4rec.plugin.reader import read_columns


class BERT4RecDataset(SequentialDataset):
    """The rows, splits and order of RecBole's SequentialDataset; histories are cut out when a row is asked for.

    Attributes:
        sequences: all items; shared by the train, valid and test datasets, whose rows point into it.
        latest: every user with items, and the sequence that holds all of them. *Shape:* (S,), (S,)
    """

    sequences: Sequences
    latest: tuple[Tensor, Tensor]
    inter_feat: Interaction

    def _load_data(self, token: str, dataset_path: str) -> None:
        if self.benchmark_filename_list is None:
            check_inter_file(self.config, dataset_path)
        else:
            check_benchmark_files(self.config, dataset_path)
        try:
            super()._load_data(token, dataset_path)
        except UserError:
            raise
        except ValueError as error:
            explain_load_failure(self.config, dataset_path, error)

    def _load_feat(self, filepath: str, source: Any) -> pd.DataFrame | None:
        """As RecBole's, with a faster reader for interactions."""
        if source != FeatureSource.INTERACTION or len(self.config["field_separator"]) != 1:
            return super()._load_feat(filepath, source)
        with mock.patch.object(pd, "read_csv", read_columns):
            return super()._load_feat(filepath, source)

    def _remap(self, remap_list: list[tuple[pd.DataFrame, str, FeatureType]]) -> None:
        """As RecBole's: ids by first appearance; of a dictionary-encoded column, numbers are remapped and not text."""
        columns = [feat[field] for feat, field, _ in remap_list]
        if len(columns) != 1 or not isinstance(columns[0].dtype, pd.CategoricalDtype):
            for (feat, field, _), column in zip(remap_list, columns, strict=True):
                if isinstance(column.dtype, pd.CategoricalDtype):
                    feat[field] = column.astype(object)
            return super()._remap(remap_list)
        feat, field, _ = remap_list[0]
        ids, order = pd.factorize(columns[0].cat.codes.to_numpy())
        if -1 in order:  # a missing value is padding
            gap = int(np.flatnonzero(order == -1)[0])
            ids = np.where(ids == gap, -1, ids - (ids > gap))
            order = np.delete(order, gap)
        tokens = np.array(["[PAD]", *columns[0].cat.categories[order]])
        feat[field] = ids + 1
        if field not in self.field2id_token:
            self.field2id_token[field] = tokens
            self.field2token_id[field] = {token: number for number, token in enumerate(tokens)}
        return None

    def _change_feat_format(self) -> None:
        """Frames become tensors; float32 times sort as RecBole's do, or exactly where ``exact_time`` asks for it."""
        frame = self.inter_feat
        if self.benchmark_filename_list is None and isinstance(frame, pd.DataFrame) and self.time_field in frame:
            if self.config["exact_time"]:
                self.inter_feat = frame.sort_values(self.time_field, kind="stable", ignore_index=True)
            else:
                self._report_merged_times(frame)
        super()._change_feat_format()
        if self.benchmark_filename_list is not None:
            self._flatten_benchmark_rows()

    def _report_merged_times(self, frame: pd.DataFrame) -> None:
        order = np.lexsort((frame[self.time_field], frame[self.uid_field]))
        user, time = frame[self.uid_field].to_numpy()[order], frame[self.time_field].to_numpy()[order]
        merged = (user[1:] == user[:-1]) & (time[1:] != time[:-1])
        merged &= time[1:].astype(np.float32) == time[:-1].astype(np.float32)
        if merged.any():
            self.logger.warning(
                f"{merged.sum()} interactions of {len(np.unique(user[1:][merged]))} users have a time that RecBole's "
                "float32 cannot tell from the user's previous one; they stay in the order of the file. "
                "exact_time: True orders them"
            )

    def data_augmentation(self) -> None:
        """Sort by user and time and keep one row a possible target: every interaction but a user's first."""
        self._aug_presets()
        self._check_field("uid_field", "time_field")
        self.sort(by=[self.uid_field, self.time_field], ascending=True)
        users = self.inter_feat[self.uid_field]
        self.sequences = Sequences.from_sorted(users, self.inter_feat[self.iid_field], self.user_num)
        present = (self.sequences.offsets[1:] > self.sequences.offsets[:-1]).nonzero().squeeze(1)
        self.latest = (present, present)
        position = torch.arange(len(users))
        targets = position[position > self.sequences.offsets[users]]
        columns = {field: values[targets] for field, values in self.inter_feat.interaction.items()}
        self.inter_feat = Interaction({**columns, TARGET_POSITION: targets})

    def _flatten_benchmark_rows(self) -> None:
        """Rows of benchmark files bring their history along: each is a sequence, its target the last item."""
        columns = dict(self.inter_feat.interaction)
        lists, length = columns.pop(self.item_id_list_field), columns.pop(self.item_list_length_field)
        inside = torch.arange(lists.shape[1] + 1) < length.unsqueeze(1)  # (R, longest + 1)
        table = torch.cat([lists, torch.zeros_like(lists[:, :1])], 1)
        table[torch.arange(len(length)), length] = columns[self.iid_field]
        inside[torch.arange(len(length)), length] = True
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), (length + 1).cumsum(0)])
        self.sequences = Sequences(table[inside].to(torch.int32), offsets)
        columns = {field: values for field, values in columns.items() if values.dim() == 1}
        pointers = {SEQUENCE: torch.arange(len(length)), TARGET_POSITION: offsets[1:] - 1}
        users, begin, _ = self.sequences.longest_slices(columns[self.uid_field], *pointers.values())
        self.latest = (users, torch.searchsorted(offsets, begin))
        self._aug_presets()
        self.inter_feat = Interaction({**columns, **pointers})

    def _aug_presets(self) -> None:
        """Declare the fields that :meth:`__getitem__` adds; the other ``*_list`` fields of stock are never read."""
        self.item_id_list_field = self.iid_field + self.config["LIST_SUFFIX"]
        setattr(self, f"{self.iid_field}_list_field", self.item_id_list_field)
        for field, kind, length in (
            (self.item_id_list_field, FeatureType.TOKEN_SEQ, self.max_item_list_len),
            (self.item_list_length_field, FeatureType.TOKEN, 1),
        ):
            self.set_field_property(field, kind, FeatureSource.INTERACTION, length)

    def sequence_of(self, rows: Interaction) -> Tensor:
        """The sequence that each row points into: its user's, or in a benchmark file its own."""
        return rows[SEQUENCE] if SEQUENCE in rows else rows[self.uid_field]

    def __getitem__(self, index: Any, join: bool = True) -> Interaction:
        """Rows as stock has them: target, history padded to MAX_ITEM_LIST_LENGTH, and its length."""
        rows = super().__getitem__(index, join)
        if not hasattr(self, "sequences"):
            return rows
        owners, targets = self.sequence_of(rows), rows[TARGET_POSITION]
        items, length = self.sequences.histories(owners.reshape(-1), targets.reshape(-1), self.max_item_list_len)
        rows[self.item_id_list_field] = items.reshape(*owners.shape, -1)
        rows[self.item_list_length_field] = length.reshape(owners.shape)
        return rows

    def slices(self) -> tuple[Tensor, Tensor, Tensor]:
        """One whole sequence a user of this part; see :meth:`Sequences.longest_slices`."""
        rows = self.inter_feat
        return self.sequences.longest_slices(rows[self.uid_field], self.sequence_of(rows), rows[TARGET_POSITION])

    def inter_matrix(self, form: str = "coo", value_field: str | None = None) -> Any:
        """Users x items of every interaction; see RecBole's. First interactions are no rows and are added back."""
        if value_field is not None:
            raise UserError(f"inter_matrix of a BERT4Rec dataset holds ones only, but value_field is {value_field!r}")
        rows = self.inter_feat
        before = rows[TARGET_POSITION] - 1
        firsts = before == self.sequences.offsets[self.sequence_of(rows)]
        users = torch.cat([rows[self.uid_field], rows[self.uid_field][firsts]])
        items = torch.cat([rows[self.iid_field], self.sequences.items[before[firsts]].long()])
        pairs = Interaction({self.uid_field: users, self.iid_field: items})
        return self._create_sparse_matrix(pairs, self.uid_field, self.iid_field, form, None)

    def leave_one_out(self, group_by: str | None, leave_one_mode: str) -> list[BERT4RecDataset]:
        """RecBole's, without its loops."""
        groups = splits.Groups(self.inter_feat[group_by].numpy())
        parts = splits.leave_one_out(groups, 2 if leave_one_mode == "valid_and_test" else 1)
        nothing = np.empty(0, dtype=np.int64)
        if leave_one_mode == "valid_only":
            parts = [*parts, nothing]
        elif leave_one_mode == "test_only":
            parts = [parts[0], nothing, parts[1]]
        return self._parts(parts)

    def split_by_ratio(self, ratios: list[float], group_by: str | None = None) -> list[BERT4RecDataset]:
        """RecBole's, without its loops."""
        ratios = [ratio / sum(ratios) for ratio in ratios]
        users = self.inter_feat[self.uid_field].numpy()
        groups = splits.Groups(np.zeros_like(users) if group_by is None else users)
        return self._parts(splits.by_ratio(groups, lambda size: self._calcu_split_ids(size, ratios)))

    def time_based_split(self, ratios: list[float], group_by: str | None) -> list[BERT4RecDataset]:
        """RecBole's, without its loops."""
        ratios = [ratio / sum(ratios) for ratio in ratios]
        groups = splits.Groups(self.inter_feat[group_by].numpy())
        return self._parts(splits.by_time(groups, self.inter_feat[self.time_field].numpy(), ratios))

    def _parts(self, index: list[splits.Index]) -> list[BERT4RecDataset]:
        self._drop_unused_col()
        return [self.copy(self.inter_feat[torch.from_numpy(rows)]) for rows in index]

    def build(self) -> list[BERT4RecDataset]:
        """Split as RecBole does; see the errors for what the split needs."""
        datasets: list[BERT4RecDataset] = super().build()
        if max(self.config["topk"]) >= self.item_num:
            raise UserError(f"topk {self.config['topk']} is more than the {self.item_num - 1} items of the catalogue")
        split = self.config["eval_args"]["split"]
        wanted = (True, True, True) if self.benchmark_filename_list else _wanted_parts(split)
        for name, dataset, needed in zip(("train", "valid", "test"), datasets, wanted, strict=True):
            if needed and not len(dataset):
                raise UserError(
                    f"the {name} part is empty: eval_args split {split} leaves no user of [{self.dataset_name}] an "
                    "item for it (leave-one-out into valid and test needs users with 4 interactions or more; TS, "
                    "interactions later than most others); use longer histories or another split"
                )
        self._report_unseen_targets(datasets)
        return datasets

    def _report_unseen_targets(self, datasets: list[BERT4RecDataset]) -> None:
        """Count targets that no training sequence holds; they are ranked like any other, with an untrained vector."""
        _, begin, length = datasets[0].slices()
        steps = torch.zeros(len(self.sequences.items) + 1, dtype=torch.int32)
        steps.index_add_(0, begin, torch.ones_like(begin, dtype=torch.int32))
        steps.index_add_(0, begin + length, -torch.ones_like(begin, dtype=torch.int32))
        trained = torch.zeros(self.item_num, dtype=torch.bool)
        trained[self.sequences.items[steps[:-1].cumsum(0) > 0].long()] = True
        for name, dataset in zip(("valid", "test"), datasets[1:], strict=True):
            unseen = int((~trained[dataset.inter_feat[self.iid_field]]).sum())
            if unseen:
                self.logger.warning(
                    f"{unseen} of {len(dataset)} {name} targets are items that no training sequence holds; "
                    "they are evaluated like all others"
                )


def _wanted_parts(split: dict[str, Any]) -> tuple[bool, bool, bool]:
    """Which of train, valid and test a split asks for."""
    mode, value = next(iter(split.items()))
    if mode == "LS":
        return True, value != "test_only", value != "valid_only"
    return tuple(ratio > 0 for ratio in value)
