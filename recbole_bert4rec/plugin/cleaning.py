"""Keep and drop rows as intended: filters by values, ids such as NA, quotes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import recbole.data.dataset.dataset as recbole_dataset
from recbole.data.dataset import Dataset
from recbole.utils import FeatureSource, FeatureType

from recbole_bert4rec.logs.conversion import has_quotes, read_record
from recbole_bert4rec.logs.reader import keeping_ids, without_quotes
from recbole_bert4rec.options.checks import mistake_of_interval
from recbole_bert4rec.system.errors import UserError, short, short_list
from recbole_bert4rec.system.scoped import StandIn, replaced


def check_filters(original: Callable[[Dataset], None], self: Dataset) -> None:
    """Filter by values; refuse what means nothing for a column, and name texts that no row has."""
    for field in self.config["threshold"] or ():
        if self.field2type.get(field) == FeatureType.TOKEN:
            raise UserError(f"`threshold: {field}` needs numbers, but the column holds texts")
    for field, wanted in (self.config["val_interval"] or {}).items():
        _check_filter(self, field, wanted)
    original(self)


def _check_filter(dataset: Dataset, field: str, wanted: object) -> None:
    """Refuse what means nothing for a column; warn of texts that no row has beside others."""
    name, kind = f"val_interval: {field}", dataset.field2type.get(field)
    if kind is None:
        raise UserError(f"`{name}`: `load_col` loads no such column, but {short_list(dataset.field2type)}")
    if kind in (FeatureType.TOKEN_SEQ, FeatureType.FLOAT_SEQ):
        raise UserError(f"`{name}`: a row has several values there, by which RecBole cannot filter; leave it out")
    if kind == FeatureType.FLOAT:
        if mistake := mistake_of_interval(name, wanted):
            raise UserError(mistake)
        return
    known = {text for feat in dataset.field2feats(field) for text in feat[field].dropna().unique()}
    shown = f"its values are texts: {short_list(sorted(map(str, known)))}"
    if not isinstance(wanted, (list, tuple)):
        raise UserError(f"`{name}` must be a list such as ['buy', 'view'], but is {short(wanted)}; {shown}")
    if unknown := [text for text in wanted if text not in known]:
        message = f"`{name}` wants {short_list(unknown)}, which no row has; {shown}"
        if len(unknown) == len(wanted):
            raise UserError(message)
        dataset.logger.warning(message)


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
