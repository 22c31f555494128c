"""RecBole's sequential dataset without its padded copies: a row keeps where its history ends, not the history."""

from __future__ import annotations

from typing import Any

import torch
from recbole.config import Config
from recbole.data.dataset import SequentialDataset
from recbole.data.interaction import Interaction
from recbole.utils import FeatureSource, FeatureType
from torch import Tensor

from recbole_bert4rec.constants import TARGET_POSITION
from recbole_bert4rec.data.sequences import Sequences
from recbole_bert4rec.errors import UserError
from recbole_bert4rec.plugin.atomic import check_inter_file, explain_load_failure


class BERT4RecDataset(SequentialDataset):
    """The rows, splits and order of RecBole's SequentialDataset; histories are cut out when a row is asked for.

    Attributes:
        sequences: all users' items; shared by the train, valid and test datasets, whose rows point into it.
    """

    sequences: Sequences
    inter_feat: Interaction

    def __init__(self, config: Config) -> None:
        _check_split(config)
        super().__init__(config)

    def _load_data(self, token: str, dataset_path: str) -> None:
        check_inter_file(self.config, dataset_path)
        try:
            super()._load_data(token, dataset_path)
        except ValueError as error:
            explain_load_failure(self.config, dataset_path, error)

    def data_augmentation(self) -> None:
        """Sort by user and time and keep one row a possible target: every interaction but a user's first."""
        self._aug_presets()
        self._check_field("uid_field", "time_field")
        self.sort(by=[self.uid_field, self.time_field], ascending=True)
        users = self.inter_feat[self.uid_field]
        self.sequences = Sequences.from_sorted(users, self.inter_feat[self.iid_field], self.user_num)
        position = torch.arange(len(users))
        targets = position[position > self.sequences.offsets[users]]
        columns = {field: values[targets] for field, values in self.inter_feat.interaction.items()}
        self.inter_feat = Interaction({**columns, TARGET_POSITION: targets})

    def _aug_presets(self) -> None:
        """Declare the fields that :meth:`__getitem__` adds; the other ``*_list`` fields of stock are never read."""
        self.item_id_list_field = self.iid_field + self.config["LIST_SUFFIX"]
        setattr(self, f"{self.iid_field}_list_field", self.item_id_list_field)
        for field, kind, length in (
            (self.item_id_list_field, FeatureType.TOKEN_SEQ, self.max_item_list_len),
            (self.item_list_length_field, FeatureType.TOKEN, 1),
        ):
            self.set_field_property(field, kind, FeatureSource.INTERACTION, length)

    def __getitem__(self, index: Any, join: bool = True) -> Interaction:
        """Rows as stock has them: target, history padded to MAX_ITEM_LIST_LENGTH, and its length."""
        rows = super().__getitem__(index, join)
        if not hasattr(self, "sequences"):
            return rows
        users, targets = rows[self.uid_field], rows[TARGET_POSITION]
        items, length = self.sequences.histories(users.reshape(-1), targets.reshape(-1), self.max_item_list_len)
        rows[self.item_id_list_field] = items.reshape(*users.shape, -1)
        rows[self.item_list_length_field] = length.reshape(users.shape)
        return rows

    def training_slices(self) -> tuple[Tensor, Tensor, Tensor]:
        """One whole sequence a user of this (training) dataset; see :meth:`Sequences.training_slices`."""
        return self.sequences.training_slices(self.inter_feat[self.uid_field], self.inter_feat[TARGET_POSITION])

    def inter_matrix(self, form: str = "coo", value_field: str | None = None) -> Any:
        """Users x items of every interaction; see RecBole's. First interactions are no rows and are added back."""
        firsts = self.inter_feat[TARGET_POSITION] - 1 == self.sequences.offsets[self.inter_feat[self.uid_field]]
        users = torch.cat([self.inter_feat[self.uid_field], self.inter_feat[self.uid_field][firsts]])
        items = torch.cat(
            [self.inter_feat[self.iid_field], self.sequences.items[self.inter_feat[TARGET_POSITION][firsts] - 1].long()]
        )
        if value_field is not None:
            raise UserError(f"inter_matrix of a BERT4Rec dataset holds ones only, but value_field is {value_field!r}")
        pairs = Interaction({self.uid_field: users, self.iid_field: items})
        return self._create_sparse_matrix(pairs, self.uid_field, self.iid_field, form, None)

    def build(self) -> list[BERT4RecDataset]:
        """Split as RecBole does; see the errors for what the split needs."""
        if max(self.config["topk"]) >= self.item_num:
            raise UserError(f"topk {self.config['topk']} is more than the {self.item_num - 1} items of the catalogue")
        datasets: list[BERT4RecDataset] = super().build()
        split = self.config["eval_args"]["split"]
        for name, dataset, wanted in zip(("train", "valid", "test"), datasets, _wanted_parts(split), strict=True):
            if wanted and not len(dataset):
                raise UserError(
                    f"the {name} part is empty: eval_args split {split} leaves no user of [{self.dataset_name}] an "
                    "item for it (leave-one-out into valid and test needs users with 4 interactions or more); "
                    "use longer histories or another split"
                )
        return datasets


def _check_split(config: Config) -> None:
    arguments = config["eval_args"]
    mode = next(iter(arguments["split"] or {"none": None}))
    by_user = mode == "LS" or str(arguments["group_by"]).lower() == "user"
    if config["benchmark_filename"] is not None:
        raise UserError("benchmark_filename is not supported by BERT4Rec yet; give one .inter file and a split")
    if mode not in ("LS", "RS") or not by_user or arguments["order"] != "TO":
        raise UserError(
            f"eval_args: split {arguments['split']} with group_by {arguments['group_by']!r} and order "
            f"{arguments['order']!r} is not supported by BERT4Rec yet; use split {{'LS': 'valid_and_test'}} or "
            "{'RS': [.8, .1, .1]} with group_by user and order TO"
        )


def _wanted_parts(split: dict[str, Any]) -> tuple[bool, bool, bool]:
    """Which of train, valid and test a split asks for."""
    mode, value = next(iter(split.items()))
    if mode == "LS":
        return True, value != "test_only", value != "valid_only"
    return tuple(ratio > 0 for ratio in value)
