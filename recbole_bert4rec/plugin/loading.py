"""Load the files of a data set as RecBole does, but faster, and with one clear line for each mistake in them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from textwrap import shorten
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import recbole.data.dataset.dataset as recbole_dataset
from numpy.typing import NDArray
from recbole.data.dataset import Dataset, SequentialDataset
from recbole.utils import FeatureSource, FeatureType

from recbole_bert4rec.logs.atomic import (
    check_benchmark_files,
    check_data_set,
    check_inter_file,
    check_not_mapped,
    check_rows,
    load_interactions,
    read_columns,
    reader_of,
)
from recbole_bert4rec.logs.conversion import folder_read, has_quotes, read_record
from recbole_bert4rec.options.checks import INTERVALS
from recbole_bert4rec.options.kinds import misfits
from recbole_bert4rec.plugin.split import build_by_global_time, splits_by_global_time
from recbole_bert4rec.system.errors import UserError, short, short_list
from recbole_bert4rec.system.stand_in import StandIn

COUNTS = ("user_inter_num_interval", "item_inter_num_interval")
"""Options that filter users and items by their number of interactions."""
ITEM_ORDER = "item_order"
"""Key of the :class:`ItemOrder` in the configuration of a run that goes on from a checkpoint."""


@dataclasses.dataclass(frozen=True)
class ItemOrder:
    """The items that a model knows, in the order in which a data set must number them."""

    path: str  # of the checkpoint
    tokens: tuple[str, ...] = dataclasses.field(repr=False)  # their external ids, padding first


def item_tokens(dataset: Dataset) -> list[str]:
    """Return the items' external ids in the order of the internal ones, padding first."""
    return [str(token) for token in dataset.field2id_token[dataset.iid_field]]


def _check_texts(dataset: Dataset, name: str, field: str, wanted: object) -> None:
    known = {text for feat in dataset.field2feats(field) for text in feat[field].dropna().unique()}
    shown = f"its values are texts: {short_list(sorted(map(str, known)))}"
    if not isinstance(wanted, (list, tuple)):
        raise UserError(f"`{name}` must be a list such as ['buy', 'view'], but is {short(wanted)}; {shown}")
    if unknown := [text for text in wanted if text not in known]:
        message = f"`{name}` wants {short_list(unknown)}, which no row has; {shown}"
        if len(unknown) == len(wanted):
            raise UserError(message)
        dataset.logger.warning(message)


class CheckedLoading(Dataset):
    """Checks for any data set of RecBole, as a base class before it: no row is lost in silence; ``GT`` is a split."""

    def _load_inter_feat(self, token: str, dataset_path: str) -> None:
        """Load NAME.inter, or NAME.inter.gz."""
        load_interactions(super()._load_inter_feat, self, token, dataset_path)

    def _load_feat(
        self, filepath: str, source: FeatureSource | str, read_csv: Callable[..., Any] = pd.read_csv
    ) -> pd.DataFrame | None:
        """Read an atomic file; only in a converted log quotes enclose values, and ``NA`` and ``None`` are ids.

        RecBole offers no hook for a reader, so the name ``pd`` in its module changes while it reads; all other modules
        still get pandas' own.
        """
        converted = read_record(Path(filepath).parent) is not None
        ids = [f"{field}:token" for field in (self.uid_field, self.iid_field)] if converted else []
        read_csv = reader_of(read_csv, has_quotes(Path(filepath)), ids)
        with patch.object(recbole_dataset, "pd", StandIn(pd, read_csv=read_csv)):
            return super()._load_feat(filepath, source)

    def _filter_by_field_value(self) -> None:
        """Refuse filters by values that mean nothing for a column; warn of texts that no row has."""
        for field in self.config["threshold"] or ():
            if self.field2type.get(field) == FeatureType.TOKEN:
                raise UserError(f"`threshold: {field}` needs numbers, but the column holds texts")
        for field, wanted in (self.config["val_interval"] or {}).items():
            name, kind = f"val_interval: {field}", self.field2type.get(field)
            if kind not in (FeatureType.TOKEN, FeatureType.FLOAT):  # RecBole cannot filter by several values of a row
                raise UserError(
                    f"`{name}` must be a column of one value that `load_col` loads: {short_list(self.field2type)}"
                )
            if kind == FeatureType.TOKEN:
                _check_texts(self, name, field, wanted)
            elif mistakes := misfits({name: wanted}, {name: INTERVALS}):
                raise UserError(*mistakes)
        super()._filter_by_field_value()

    def _benchmark_presets(self) -> None:
        """Name the column of histories after the column of items, whatever that is called."""
        self.item_id_list_field = self.iid_field + self.config["LIST_SUFFIX"]
        super()._benchmark_presets()

    def build(self) -> list[Any]:
        """Split at one moment for all users if the protocol asks for it, else as RecBole does."""
        return build_by_global_time(self) if splits_by_global_time(self) else super().build()


class FastLoading(CheckedLoading, SequentialDataset):
    """RecBole's loading, filtering and numbering of ids; the resulting tables are the same.

    Tokens are dictionary-encoded while they are read, so that filters and ids work on integers.
    """

    inter_feat: Any  # a pandas frame while data are loaded; RecBole makes it an ``Interaction`` later
    unknown_numbers: dict[str, NDArray[np.bool_]]
    """Items without a value, which RecBole makes up, by numeric column of ``selected_features``. *Shape:* (N,) each"""

    def _load_data(self, token: str, dataset_path: str) -> None:
        """Check the files, then load them as RecBole does."""
        check_data_set(self.config)
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
            reason = shorten(str(error), 300)
            raise UserError(f"data set {token!r} cannot be read from {dataset_path}: {reason}") from error

    def _load_feat(
        self, filepath: str, source: FeatureSource | str, read_csv: Callable[..., Any] = pd.read_csv
    ) -> pd.DataFrame | None:
        """Load the rows of a file that have ids: interactions with our reader, features after a check."""
        ids = {
            FeatureSource.INTERACTION: [self.uid_field, self.iid_field],
            FeatureSource.USER: [self.uid_field],
            FeatureSource.ITEM: [self.iid_field],
        }.get(source, [])
        field = None
        if source == FeatureSource.INTERACTION:
            read_csv = read_columns if len(self.config["field_separator"]) == 1 else read_csv
        elif ids and self._get_load_and_unload_col(source)[0] != set():
            (field,) = ids
            check_rows(self.config, filepath, field)
        try:
            frame = super()._load_feat(filepath, source, read_csv)
        except ValueError as error:
            check_rows(self.config, filepath, field, numbers=True)
            raise UserError(f"{filepath} cannot be read: {shorten(str(error), 300)}") from error
        if frame is None:
            return None
        for field in ids:
            if field not in frame or not (missing := frame.index[frame[field].isnull()]).size:
                continue
            lines = f"{list(missing[:10] + 2)}{' and others' if len(missing) > 10 else ''}"
            self.logger.warning(
                f"In {Path(filepath).name}, line {lines}, {field} do not exist, so they will be removed "
                f"({len(missing)} lines)."
            )
            frame = frame.drop(index=missing)
        return frame

    def _concat_remaped_tokens(self, remap_list: list[tuple[pd.DataFrame, str, FeatureType]]) -> tuple[Any, Any]:
        """Leave a column as it is that is numbered by itself: pandas reads the codes if it is dictionary-encoded."""
        feat, field, kind = remap_list[0]
        if len(remap_list) > 1 or kind != FeatureType.TOKEN:
            return super()._concat_remaped_tokens(remap_list)
        return feat[field].values, []

    def _remap_ID_all(self) -> None:  # noqa: N802  RecBole's name
        """Number ids as RecBole does; items of a checkpoint keep its numbers, and new items follow.

        Items that the data lack keep their numbers too, so that the checkpoint's weights fit.
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
        """Filter as RecBole does; name the filters if they leave nothing."""
        try:
            super()._data_filtering()
        except ValueError as error:
            if "feat is empty" not in str(error):  # the message of RecBole's _reset_index
                raise
            names = ("val_interval", *COUNTS, "filter_inter_by_user_or_item")
            filters = {name: self.config[name] for name in names if self.config[name]}
            raise UserError(f"the filters leave nothing of data set {self.dataset_name!r}: {filters}") from error

    def _filter_inter_by_user_or_item(self) -> None:
        """Drop interactions whose user or item has no row in the .user or .item file, and report how many."""
        before = len(self.inter_feat)
        super()._filter_inter_by_user_or_item()
        if len(self.inter_feat) < before:
            self.logger.warning(
                f"{before - len(self.inter_feat)} interactions are left out: their user or item is not in the .user "
                "or .item file (filter_inter_by_user_or_item: False keeps them)"
            )

    @property
    def numeric_features(self) -> list[str]:
        """Columns of ``selected_features`` that hold numbers."""
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
        intervals = [self._parse_intervals_str(self.config[option]) for option in COUNTS]
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
