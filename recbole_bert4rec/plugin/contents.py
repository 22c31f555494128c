"""Read the contents of items: vectors from files of ``item_vectors``, and numeric columns of the .item file."""

from __future__ import annotations

from collections.abc import Mapping
from logging import getLogger
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from recbole_bert4rec.core.growth import VECTORS
from recbole_bert4rec.core.item_features import Contents
from recbole_bert4rec.logs.items import ItemVectors, read_item_vectors
from recbole_bert4rec.plugin.loading import FastLoading, item_tokens
from recbole_bert4rec.system.constants import FOR_THE_USER, PADDING
from recbole_bert4rec.system.errors import UserError, short

_ROWS_AT_ONCE = 1 << 16


class ColdItems(NamedTuple):
    """Items that have a vector but no interaction."""

    tokens: list[str]  # external ids, (C,)
    vectors: Tensor  # contents, float16, (C, D)


def contents_of(training: FastLoading, counts: Tensor) -> tuple[Contents | None, ColdItems | None]:
    """Return contents of the items, which are trained ``counts`` (N,) times, and of items that only the files have."""
    option = training.config["item_vectors"]
    paths = [option] if isinstance(option, str) else option
    files = [read_item_vectors(path, training.iid_field) for path in paths]
    names = training.numeric_features
    if not files and not names:
        return None, None
    tokens = item_tokens(training)
    known = pd.Index(tokens)
    unknown = [file.items[known.get_indexer(pd.Index(file.items)) < 0] for file in files]
    cold = pd.unique(np.concatenate([np.empty(0, object), *unknown]))
    rows = known.append(pd.Index([None, *cold], dtype=object))  # None is [MASK]
    parts = [_contents_of_file(*named, rows, len(known)) for named in zip(paths, files, strict=True)]
    parts += [_contents_of_column(training, name, len(rows)) for name in names]
    tables, shifts, scales = zip(*parts, strict=True)
    table = torch.from_numpy(tables[0] if len(tables) == 1 else np.concatenate(tables, 1))
    contents = Contents(
        table[: len(known) + 1],
        torch.from_numpy(np.concatenate(shifts)),
        torch.from_numpy(np.concatenate(scales)),
        torch.cat([counts, counts.sum().view(1)]),
        torch.tensor(sum(file.vectors.shape[1] for file in files)),
    )
    return contents, ColdItems(cold.tolist(), table[len(known) + 1 :]) if len(cold) else None


def check_contents(path: str, stored: Mapping[str, Tensor], network: Mapping[str, Tensor], same: bool) -> None:
    """Refuse weights that were trained on other contents."""
    there, here = stored.get(VECTORS), network.get(VECTORS)
    widths = [0 if vectors is None else vectors.shape[1] for vectors in (there, here)]
    others = same and there is not None and here is not None and not torch.equal(there.cpu(), here.cpu())
    if widths[0] != widths[1] or others:
        raise UserError(
            f"{path} was trained with {widths[0]} numbers of each item, but `item_vectors` and the numeric columns of "
            f"`selected_features` are {widths[1]}{' others' if others else ''} here; give what it was trained with, or "
            "train anew"
        )


_Part = tuple[NDArray[np.float16], NDArray[np.float32], NDArray[np.float32]]
"""A number for each row and column; shift and scale of the columns. *Shape:* (R, width), (width,), (width,)"""


def _contents_of_file(path: str, file: ItemVectors, rows: pd.Index, n_items: int) -> _Part:
    """Return a file's vector of each item, or their mean if it has none; scaled, their mean length is 1."""
    places = rows.get_indexer(pd.Index(file.items))
    lacking = np.ones(n_items, bool)
    lacking[PADDING] = False
    lacking[places[places < n_items]] = False
    if lacking[1:].all():
        raise UserError(
            f"item_vectors={path} has vectors of {len(file.items)} items, such as {short(file.items[0])}, but of none "
            f"of the log's, such as {short(rows[1])}: give both in the same spelling"
        )
    without, more = rows[:n_items][lacking], file.items[places > n_items]
    examples = [f", such as {short(items[0])}" if len(items) else "" for items in (without, more)]
    getLogger(FOR_THE_USER).info(
        f"item_vectors={path}: {file.vectors.shape[1]} numbers an item; {len(without)} of {n_items - 1} items have none"
        f"{examples[0]}; {len(more)} items have some and no interaction{examples[1]}"
    )
    shift = file.vectors.mean(0, dtype=np.float32)
    parts = (file.vectors[begin : begin + _ROWS_AT_ONCE] for begin in range(0, len(file.vectors), _ROWS_AT_ONCE))
    squares = sum(float(np.square(part - shift).sum()) for part in parts)
    table = np.empty((len(rows), len(shift)), np.float16)
    table[:] = shift
    table[places] = file.vectors
    scale = 1 / max((squares / len(file.vectors)) ** 0.5, 1e-4)
    return table, shift, np.full(len(shift), scale, np.float32)


def _contents_of_column(training: FastLoading, name: str, n_rows: int) -> _Part:
    """Standardise a column of the .item file; an additional number marks items that lack it."""
    values = training.item_feat[name].view(training.item_num, -1).numpy().astype(np.float64)
    missing = training.unknown_numbers[name]
    known = values[~missing]
    getLogger(FOR_THE_USER).info(f"{name}: {missing[1:].sum()} of {len(values) - 1} items have no number")
    if not len(known):
        raise UserError(f"`selected_features` names {name!r}, but no item has a number there; leave it out")
    wrong = np.flatnonzero(~np.isfinite(values).all(1) & ~missing)
    if len(wrong):
        item = item_tokens(training)[wrong[0]]
        raise UserError(f"`selected_features` names {name!r}, but that of item {short(item)} is not a finite number")
    deviation = known.std(0)
    table = np.zeros((n_rows, values.shape[1] + 1), np.float16)
    table[:, -1] = 1.0
    table[: len(values), -1] = missing
    rows = np.flatnonzero(~missing)
    table[rows, :-1] = (known - known.mean(0)) / np.where(deviation > 0, deviation, 1)
    width = table.shape[1]
    return table, np.zeros(width, np.float32), np.ones(width, np.float32)
