"""Load interactions as RecBole does, but faster and with one clear line for each mistake in the files."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from recbole.data.dataset import Dataset, SequentialDataset
from recbole.utils import FeatureSource, FeatureType

from recbole_bert4rec.logs.atomic import (
    check_benchmark_files,
    check_feature_file,
    check_inter_file,
    check_not_mapped,
    explain_load_failure,
    load_interactions,
)
from recbole_bert4rec.logs.conversion import folder_read
from recbole_bert4rec.logs.reader import read_columns
from recbole_bert4rec.plugin.cleaning import check_filters, read_file
from recbole_bert4rec.system.errors import UserError, short

ITEM_ORDER = "item_order"
"""Key of the :class:`ItemOrder` in the configuration of a run that goes on from a checkpoint."""
_FILTERS = ("rm_dup_inter", "val_interval", "user_inter_num_interval", "item_inter_num_interval")


@dataclasses.dataclass(frozen=True)
class ItemOrder:
    """The items that a model knows; a data set numbers its items in the same order.

    Attributes:
        path: of the checkpoint.
        tokens: their external ids, padding first.
    """

    path: str
    tokens: tuple[str, ...] = dataclasses.field(repr=False)


def item_tokens(dataset: Dataset) -> list[str]:
    """Return the items' external ids, in the order of the internal ones; the first stands for padding."""
    return [str(token) for token in dataset.field2id_token[dataset.iid_field]]


class FastLoading(SequentialDataset):
    """RecBole's loading, filtering and numbering of ids; the resulting tables are the same.

    Tokens are dictionary-encoded while they are read, so that filters and ids work on integers.

    Attributes:
        inter_feat: a pandas frame while data are loaded; RecBole makes it an ``Interaction`` later.
        unknown_numbers: by numeric column of ``selected_features``, items without a value, which RecBole makes up.
            *Shape:* (N,) each
    """

    inter_feat: Any
    unknown_numbers: dict[str, NDArray[np.bool_]]

    def _load_data(self, token: str, dataset_path: str) -> None:
        """Check the files, then load them as RecBole does."""
        folder = dataset_path
        if self.benchmark_filename_list is None:
            folder = folder_read(dataset_path, self.config["conversion"])
            check_not_mapped(self.config, folder)
            check_inter_file(self.config, folder)
        else:
            check_benchmark_files(self.config, dataset_path)
        try:
            super()._load_data(token, dataset_path)
        except UserError:
            raise
        except ValueError as error:
            explain_load_failure(self.config, folder, error)

    def _load_inter_feat(self, token: str, dataset_path: str) -> None:
        """Load NAME.inter, or NAME.inter.gz."""
        load_interactions(SequentialDataset._load_inter_feat, self, token, dataset_path)

    def _filter_nan_user_or_item(self) -> None:
        """Drop the rows that have no user or no item, and no others."""
        for field in (self.uid_field, self.iid_field):
            missing = self.inter_feat.index[self.inter_feat[field].isnull()]
            if len(missing):
                lines = f"{list(missing[:10] + 2)}{' and others' if len(missing) > 10 else ''}"
                self.logger.warning(
                    f"In inter_feat, line {lines}, {field} do not exist, so they will be removed ({len(missing)} "
                    "lines)."
                )
                self.inter_feat.drop(index=missing, inplace=True)
        super()._filter_nan_user_or_item()

    def _filter_by_field_value(self) -> None:
        """Filter by values; refuse what means nothing for a column."""
        check_filters(SequentialDataset._filter_by_field_value, self)

    def _load_feat(self, filepath: str, source: FeatureSource | str) -> pd.DataFrame | None:
        """Load a file; those of interactions with our reader, those of users and items after a check."""
        if source in (FeatureSource.USER, FeatureSource.ITEM):
            return self._load_features(filepath, source)
        others = source != FeatureSource.INTERACTION
        read_csv = pd.read_csv if others or len(self.config["field_separator"]) != 1 else read_columns
        return read_file(SequentialDataset._load_feat, self, filepath, source, read_csv)

    def _load_features(self, filepath: str, source: FeatureSource) -> pd.DataFrame | None:
        """Load a file of users or items, without rows that lack the id."""
        if self._get_load_and_unload_col(source)[0] == set():
            return None
        field = self.uid_field if source == FeatureSource.USER else self.iid_field
        check_feature_file(self.config, filepath, field)
        frame = read_file(SequentialDataset._load_feat, self, filepath, source)
        if frame is None or field not in frame or not (missing := frame.index[frame[field].isnull()]).size:
            return frame
        self.logger.warning(
            f"In {source.value}_feat, line {list(missing + 2)}, {field} do not exist, so they will be removed."
        )
        return frame.drop(index=missing).reset_index(drop=True)

    def _remap(self, remap_list: list[tuple[pd.DataFrame, str, FeatureType]]) -> None:
        """Number ids by first appearance, as RecBole does; a dictionary-encoded column is read by its codes."""
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

    def _remap_ID_all(self) -> None:  # noqa: N802  RecBole's name
        """Number ids as RecBole does; a checkpoint's items keep its numbers, and new ones get the next.

        Items of the checkpoint that the data lack keep their numbers too, so that its weights fit.
        """
        super()._remap_ID_all()
        order: ItemOrder | None = self.config[ITEM_ORDER]
        numbered = self.field2id_token[self.iid_field]
        if order is None or tuple(numbered) == order.tokens:
            return
        tokens = np.array([*order.tokens, *np.setdiff1d(numbered, order.tokens)])
        numbers = {token: number for number, token in enumerate(tokens)}
        renumbered = np.array([numbers[token] for token in numbered])
        for alias in self.alias["item_id"]:
            for feat in self.field2feats(alias):
                if self.field2type[alias] == FeatureType.TOKEN:
                    feat[alias] = renumbered[feat[alias].to_numpy()]
                else:
                    feat[alias] = feat[alias].map(lambda items: renumbered[np.asarray(items, dtype=np.int64)])
            self.field2id_token[alias], self.field2token_id[alias] = tokens, numbers

    def _data_filtering(self) -> None:
        """Filter as RecBole does."""
        try:
            super()._data_filtering()
        except ValueError as error:
            if "feat is empty" not in str(error):  # the message of RecBole's _reset_index
                raise
            filters = {key: self.config[key] for key in _FILTERS if self.config[key]}
            raise UserError(f"the filters leave nothing of data set {self.dataset_name!r}: {filters}") from error

    def _filter_inter_by_user_or_item(self) -> None:
        """Drop interactions whose user or item has no row in the .user or .item file, and report how many."""
        before = len(self.inter_feat)
        if self.config["filter_inter_by_user_or_item"] is True:
            self._refuse_strangers("user", self.user_feat, self.uid_field)
            self._refuse_strangers("item", self.item_feat, self.iid_field)
        super()._filter_inter_by_user_or_item()
        if len(self.inter_feat) < before:
            self.logger.warning(
                f"{before - len(self.inter_feat)} interactions are left out: their user or item is not in the .user "
                "or .item file (filter_inter_by_user_or_item: False keeps them)"
            )

    def _refuse_strangers(self, kind: str, feat: pd.DataFrame | None, field: str) -> None:
        ids = self.inter_feat[field]
        if feat is not None and len(feat) and len(ids) and not ids.isin(feat[field]).any():
            raise UserError(
                f"{self.dataset_name}.{kind} has no row for any {field} of the interactions, which are such as "
                f"{short(ids.iloc[0])}, but for such as {short(feat[field].iloc[0])}: give both in the same spelling"
            )

    @property
    def numeric_features(self) -> list[str]:
        """Return the columns of ``selected_features`` that hold numbers."""
        names = self.config["selected_features"] or ()
        return [name for name in names if self.field2type.get(name) in (FeatureType.FLOAT, FeatureType.FLOAT_SEQ)]

    def _fill_nan(self) -> None:
        """Fill gaps as RecBole does, and report how many times were missing."""
        missing = int(self.inter_feat[self.time_field].isna().sum()) if self.time_field in self.inter_feat else 0
        if missing:
            self.logger.warning(f"{missing} interactions have no {self.time_field}; RecBole gives them the mean time")
        if self.item_feat is not None:
            columns = {name: self.item_feat[name] for name in self.numeric_features if name in self.item_feat}
            self.unknown_numbers = {
                name: (column.isna() | (column.map(np.size) == 0)).to_numpy() for name, column in columns.items()
            }
        super()._fill_nan()

    def _filter_by_inter_num(self) -> None:
        """Filter users and items by their number of interactions, as RecBole does, on the codes of the ids."""
        fields = (self.uid_field, self.iid_field)
        encoded = all(isinstance(self.inter_feat[field].dtype, pd.CategoricalDtype) for field in fields)
        if not encoded or not len(self.inter_feat) or self.user_feat is not None or self.item_feat is not None:
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
