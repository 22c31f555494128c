"""RecBole's sequential dataset without its padded copies: a row keeps where its history ends, not the history."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import torch
from recbole.data.dataset import SequentialDataset
from recbole.data.interaction import Interaction
from recbole.utils import EvaluatorType, FeatureSource, FeatureType
from torch import Tensor

from recbole_bert4rec.constants import SEQUENCE, TARGET_POSITION
from recbole_bert4rec.data import splits
from recbole_bert4rec.data.sequences import Sequences, order_by_user_and_time
from recbole_bert4rec.datafiles.atomic import check_benchmark_files, check_inter_file, check_times, explain_load_failure
from recbole_bert4rec.datafiles.reader import read_columns
from recbole_bert4rec.errors import UserError


class BERT4RecDataset(SequentialDataset):
    """The rows, splits and order of RecBole's SequentialDataset; histories are cut out when a row is asked for.

    Attributes:
        sequences: all items; shared by the train, valid and test datasets, whose rows point into it.
        latest: every user with items, and the sequence that holds all of them. *Shape:* (S,), (S,)
    """

    sequences: Sequences
    latest: tuple[Tensor, Tensor]

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
        tokens = np.array(["[PAD]", *columns[0].cat.categories.take(order)])
        feat[field] = ids + 1
        if field not in self.field2id_token:
            self.field2id_token[field] = tokens
            self.field2token_id[field] = {token: number for number, token in enumerate(tokens)}
        return None

    def _data_filtering(self) -> None:
        try:
            super()._data_filtering()
        except ValueError as error:
            if "feat is empty" not in str(error):  # what _reset_index says
                raise
            given = ("rm_dup_inter", "val_interval", "user_inter_num_interval", "item_inter_num_interval")
            filters = {key: self.config[key] for key in given if self.config[key]}
            raise UserError(f"the filters leave nothing of data set {self.dataset_name!r}: {filters}") from error

    def _filter_inter_by_user_or_item(self) -> None:
        before = len(self.inter_feat)
        super()._filter_inter_by_user_or_item()
        if len(self.inter_feat) < before:
            self.logger.warning(
                f"{before - len(self.inter_feat)} interactions are left out: the .user or .item file does not hold "
                "their user or item (filter_inter_by_user_or_item: False keeps them)"
            )

    def _fill_nan(self) -> None:
        missing = int(self.inter_feat[self.time_field].isna().sum()) if self.time_field in self.inter_feat else 0
        if missing:
            self.logger.warning(f"{missing} interactions have no {self.time_field}; RecBole gives them the mean time")
        super()._fill_nan()

    def _filter_by_inter_num(self) -> None:
        """RecBole's k-core filter, counted on the numbers of dictionary-encoded ids."""
        fields = (self.uid_field, self.iid_field)
        encoded = all(isinstance(self.inter_feat[field].dtype, pd.CategoricalDtype) for field in fields)
        if not encoded or self.user_feat is not None or self.item_feat is not None:
            return super()._filter_by_inter_num()
        options = ("user_inter_num_interval", "item_inter_num_interval")
        intervals = [self._parse_intervals_str(self.config[option]) for option in options]
        codes = [self.inter_feat[field].cat.codes.to_numpy() for field in fields]
        kept = np.ones(len(self.inter_feat), dtype=bool)
        dropped = True
        while dropped:
            illegal = np.zeros_like(kept)
            for code, interval in zip(codes, intervals, strict=True):
                if interval:
                    count = np.bincount(code[kept], minlength=int(code.max()) + 1)
                    illegal |= ~self._within_intervals(count, interval)[code]
            dropped = bool((kept & illegal).any())
            kept &= ~illegal
        if not kept.all():
            self.inter_feat = self.inter_feat[kept]
        return None

    def _normalize(self) -> None:
        """As RecBole's, whose ml-100k has times between 0 and 1; ``time_bias`` sees them as they were."""
        if self.config["time_bias"] and self.time_field in self.inter_feat:
            self._times_to_learn = np.array(self.inter_feat[self.time_field], dtype=np.float64)
        super()._normalize()

    def _change_feat_format(self) -> None:
        """Frames become tensors, in which times are float32; the exact ones are kept until the rows are sorted."""
        if self.benchmark_filename_list is None and self.time_field in self.inter_feat:
            self._times = np.array(self.inter_feat[self.time_field], dtype=np.float64)
        super()._change_feat_format()
        if self.benchmark_filename_list is not None:
            self._flatten_benchmark_rows()

    def data_augmentation(self) -> None:
        """Sort by user and time and keep one row a possible target: every interaction but a user's first."""
        self._aug_presets()
        self._check_field("uid_field", "time_field")
        if self.time_field not in self.inter_feat:
            raise UserError(f"the time column {self.time_field!r} is not loaded: name it in load_col")
        exact = torch.from_numpy(self.__dict__.pop("_times"))
        order = self._order_by_user_and_time(exact)
        everything = _rows(self.inter_feat, order)
        users, times = everything[self.uid_field], None
        if self.config["time_bias"]:
            times = torch.from_numpy(self.__dict__.pop("_times_to_learn"))[order]
            check_times(times, f"{self.time_field!r} of [{self.dataset_name}]")
        self.sequences = Sequences.from_sorted(users, everything[self.iid_field], self.user_num, times)
        present = (self.sequences.offsets[1:] > self.sequences.offsets[:-1]).nonzero().squeeze(1)
        self.latest = (present, present)
        targets = torch.arange(len(users))
        targets = targets[targets > self.sequences.offsets[users]]
        self.inter_feat = _rows(everything, targets)
        self.inter_feat[TARGET_POSITION] = targets

    def _order_by_user_and_time(self, exact: Tensor) -> Tensor:
        """RecBole's order, by float32 times, or the exact one; ties stay in the order of the file."""
        users, rounded = self.inter_feat[self.uid_field], self.inter_feat[self.time_field]
        if self.config["exact_time"]:
            return order_by_user_and_time(users, exact)
        order = order_by_user_and_time(users, rounded)
        user, time, known = users[order], exact[order], rounded[order]
        merged = (user[1:] == user[:-1]) & (time[1:] != time[:-1]) & (known[1:] == known[:-1])
        if merged.any():
            self.logger.warning(
                f"{int(merged.sum())} interactions of {len(user[1:][merged].unique())} users have a time that "
                "RecBole's float32 cannot tell from the user's previous one; they stay in the order of the file. "
                "exact_time: True orders them"
            )
        return order

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
        self.time_list_field = self.time_field + self.config["LIST_SUFFIX"] if self.config["time_bias"] else None
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
        width = self.max_item_list_len
        begin, length = self.sequences.before(owners.reshape(-1), targets.reshape(-1), width)
        items = self.sequences.windows(begin, length, width)
        rows[self.item_id_list_field] = items.reshape(*owners.shape, -1)
        rows[self.item_list_length_field] = length.reshape(owners.shape)
        if self.time_list_field:
            times = self.sequences.times_of(begin, length, width)
            rows[self.time_list_field] = times.reshape(*owners.shape, -1)
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

    def build(self) -> list[BERT4RecDataset]:
        """Split as RecBole does, without its loops over rows; the parts, their rows and order are the same.

        Raises:
            UserError: the split is not known, or leaves a part empty; topk is more than the catalogue has.
        """
        arguments = self.config["eval_args"]
        if self.config["eval_type"] == EvaluatorType.VALUE and self.label_field not in self.inter_feat:
            raise UserError(
                f"mode labeled needs a column {self.label_field!r} (LABEL_FIELD): name it in load_col, or make it of "
                "another with threshold, such as {'rating': 4}"
            )
        if self.benchmark_filename_list is not None:
            datasets = SequentialDataset.build(self)
        else:
            if arguments["order"] != "TO":
                raise UserError(f"eval_args order must be TO for a sequential model, but is {arguments['order']!r}")
            self._change_feat_format()
            parts = [torch.from_numpy(part) for part in self._with_valid_users(self._split(arguments))]
            times = self.inter_feat[self.time_field]
            self._drop_unused_col()
            datasets = [self.copy(_rows(self.inter_feat, part)) for part in parts]
            if "popularity" in (self.config[f"{phase}_neg_sample_args"]["distribution"] for phase in ("valid", "test")):
                # RecBole's sampler numbers its table in the order of these rows
                self.inter_feat = _rows(self.inter_feat, times.sort(stable=True).indices)
        if self.config["eval_type"] == EvaluatorType.RANKING and max(self.config["topk"]) >= self.item_num:
            raise UserError(f"topk {self.config['topk']} is more than the {self.item_num - 1} items of the catalogue")
        self._check_parts(datasets)
        self._report_unseen_targets(datasets)
        return datasets

    def _split(self, arguments: dict[str, Any]) -> list[splits.Index]:
        """Rows of train, valid and test under ``eval_args``."""
        times = self.inter_feat[self.time_field].numpy()
        mode, value = next(iter((arguments["split"] or {"none": None}).items()))
        by_user = str(arguments["group_by"]).lower() == "user"
        nothing = np.empty(0, dtype=np.int64)
        groups = splits.Groups(self.inter_feat[self.uid_field].numpy(), times)
        if mode == "LS" and value == "valid_and_test":
            return splits.leave_one_out(groups, 2)
        if mode == "LS" and value in ("valid_only", "test_only"):
            train, held_out = splits.leave_one_out(groups, 1)
            return [train, held_out, nothing] if value == "valid_only" else [train, nothing, held_out]
        ratios = [ratio / sum(value) for ratio in value] if isinstance(value, list) else []
        if mode == "RS" and by_user:
            return splits.by_ratio(groups, lambda size: self._calcu_split_ids(size, ratios))
        if mode == "RS" and str(arguments["group_by"]).lower() == "none":
            return np.split(np.argsort(times, kind="stable"), self._calcu_split_ids(len(times), ratios))
        if mode == "TS":
            return splits.by_time(groups, times, ratios)
        raise UserError(
            f"eval_args: split {arguments['split']} with group_by {arguments['group_by']!r} is not known; use "
            "{'LS': 'valid_and_test'}, {'LS': 'valid_only'}, {'LS': 'test_only'}, {'RS': [.8, .1, .1]} with group_by "
            "user or none, or {'TS': [.8, .1, .1]}"
        )

    def _with_valid_users(self, parts: list[splits.Index]) -> list[splits.Index]:
        """The parts with no more users in validation than ``valid_users``."""
        count = self.config["valid_users"]
        if count is None:
            return parts
        if count > len(parts[1]):
            raise UserError(
                f"`valid_users` is {count}, but only {len(parts[1])} users have a validation item; give fewer"
            )
        return splits.train_on_all_but(count, parts, self.config["seed"])

    def _check_parts(self, datasets: list[BERT4RecDataset]) -> None:
        split = self.config["eval_args"]["split"]
        wanted = (True, True, True) if self.benchmark_filename_list else _wanted_parts(split)
        for name, dataset, needed in zip(("train", "valid", "test"), datasets, wanted, strict=True):
            if needed and not len(dataset):
                raise UserError(
                    f"the {name} part is empty: eval_args split {split} leaves no user of [{self.dataset_name}] an "
                    "item for it (leave-one-out into valid and test needs users with 4 interactions or more; TS, "
                    "interactions later than most others); use longer histories or another split"
                )

    def training_counts(self) -> Tensor:
        """How often each item stands in the training sequences. *Shape:* (N,)"""
        _, begin, length = self.slices()
        steps = torch.zeros(len(self.sequences.items) + 1, dtype=torch.int32)
        steps.index_add_(0, begin, torch.ones_like(begin, dtype=torch.int32))
        steps.index_add_(0, begin + length, -torch.ones_like(begin, dtype=torch.int32))
        return torch.bincount(self.sequences.items[steps[:-1].cumsum(0) > 0], minlength=self.item_num)

    def _report_unseen_targets(self, datasets: list[BERT4RecDataset]) -> None:
        """Count targets that no training sequence holds; they are ranked like any other, with an untrained vector."""
        untrained = datasets[0].training_counts() == 0
        for name, dataset in zip(("valid", "test"), datasets[1:], strict=True):
            unseen = int(untrained[dataset.inter_feat[self.iid_field]].sum())
            if unseen:
                self.logger.warning(
                    f"{unseen} of {len(dataset)} {name} targets are items that no training sequence holds; "
                    "they are evaluated like all others"
                )


def _rows(table: Interaction, index: Tensor) -> Interaction:
    """``table[index]``; RecBole's own makes a Python list of the index first."""
    return Interaction({field: values[index] for field, values in table.interaction.items()})


def _wanted_parts(split: dict[str, Any]) -> tuple[bool, bool, bool]:
    """Which of train, valid and test a split asks for."""
    mode, value = next(iter(split.items()))
    if mode == "LS":
        return True, value != "test_only", value != "valid_only"
    return tuple(ratio > 0 for ratio in value)
