"""Keep and drop rows as intended: without ids, simultaneous duplicates, ids such as NA, quotes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import recbole.data.dataset.dataset as recbole_dataset
from recbole.data.dataset import Dataset
from recbole.utils import FeatureSource, FeatureType

from recbole_bert4rec.logs.conversion import has_quotes, read_record
from recbole_bert4rec.logs.reader import keeping_ids, without_quotes
from recbole_bert4rec.options.evaluation import mistake_of_interval
from recbole_bert4rec.system.errors import UserError, short, short_list
from recbole_bert4rec.system.scoped import StandIn, replaced


def drop_rows_without_ids(original: Callable[[Dataset], None], self: Dataset) -> None:
    """Drop the rows that have no user or no item, and no others."""
    for field in (self.uid_field, self.iid_field):
        if field is None:
            continue
        missing = self.inter_feat.index[self.inter_feat[field].isnull()]
        if len(missing):
            lines = f"{list(missing[:10] + 2)}{' and others' if len(missing) > 10 else ''}"
            self.logger.warning(
                f"In inter_feat, line {lines}, {field} do not exist, so they will be removed ({len(missing)} lines)."
            )
            self.inter_feat.drop(index=missing, inplace=True)
    original(self)


def remove_duplication(original: Callable[[Any], None], self: Dataset) -> None:
    """Sort by time with a stable sort before duplicates are removed."""
    frame = self.inter_feat
    # on the frame itself: other frames, in this thread or another, are sorted as ever
    object.__setattr__(frame, "sort_values", partial(frame.sort_values, kind="stable"))
    try:
        original(self)
    finally:
        object.__delattr__(frame, "sort_values")


def check_filters(original: Callable[[Dataset], None], self: Dataset) -> None:
    """Filter by values; refuse what means nothing for a column, and name texts that no row has."""
    for field, wanted in (self.config["val_interval"] or {}).items():
        name, kind = f"val_interval: {field}", self.field2type.get(field)
        if kind in (FeatureType.FLOAT, FeatureType.FLOAT_SEQ) and (mistake := mistake_of_interval(name, wanted)):
            raise UserError(mistake)
        if kind != FeatureType.TOKEN:
            continue
        known = {text for feat in self.field2feats(field) for text in feat[field].unique()}
        shown = f"its values are {short_list(sorted(map(str, known)))}"
        if not isinstance(wanted, (list, tuple)):
            raise UserError(f"`{name}` must be a list of texts, for the column is one, but is {short(wanted)}; {shown}")
        if unknown := [text for text in wanted if text not in known]:
            message = f"`{name}` wants {short_list(unknown)}, which no row has; {shown}"
            if len(unknown) == len(wanted):
                raise UserError(message)
            self.logger.warning(message)
    original(self)


def read_file(
    original: Callable[..., pd.DataFrame | None],
    self: Dataset,
    filepath: str,
    source: FeatureSource | str,
    read_csv: Callable[..., Any] = pd.read_csv,
) -> pd.DataFrame | None:
    """Read an atomic file, in which a quote is a sign like others, except in that of a converted log.

    Beside a converted log, ``NA`` and ``None`` are ids: no row lacks its own. RecBole offers no hook for a reader, so
    the name ``pd`` in its module changes while it reads; all other modules still get pandas' own.
    """
    if not has_quotes(Path(filepath)):
        read_csv = without_quotes(read_csv)
    if read_record(Path(filepath).parent) is not None:
        read_csv = keeping_ids(read_csv, (self.uid_field, self.iid_field))
    with replaced(recbole_dataset, "pd", StandIn(pd, read_csv=read_csv)):
        return original(self, filepath, source)
