"""Ask a trained model about a file of any number of users, part by part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from recbole_bert4rec.logs.interactions import InteractionFile
from recbole_bert4rec.recommend.answers import NOBODY
from recbole_bert4rec.recommend.recommender import Recommender
from recbole_bert4rec.system.constants import PADDING
from recbole_bert4rec.system.errors import UserError, short, why
from recbole_bert4rec.system.files import atomic_write

Answer = Callable[[Iterable[pd.DataFrame]], Iterator[tuple[pd.DataFrame, Counter[str]]]]
"""Yields what :func:`answer_part` returns for each part of a file, in order."""


def recommend_file(
    model: Recommender, source: InteractionFile, output: str, how: Mapping[str, Any], answer: Answer | None = None
) -> Counter[str]:
    """Write the recommendations for all users of a file, in memory that does not grow with it."""
    counts = Counter[str]()

    def tables() -> Iterator[pd.DataFrame]:
        parts = _parts(model, source)
        for table, count in map(partial(answer_part, model, how), parts) if answer is None else answer(parts):
            counts.update(count)
            yield table
        _refuse_strangers(model, source, counts["skipped"], counts["known"])

    write_tables(tables(), output)
    return counts


def answer_part(model: Recommender, how: Mapping[str, Any], part: pd.DataFrame) -> tuple[pd.DataFrame, Counter[str]]:
    """Return the recommendations for the users of a part of a file, and counts.

    Interactions are ``known``, or ``skipped`` as the model does not know their items. Of ``users``, some have no known
    item (``without_history``), and for some no item is left (``without_row``).
    """
    histories = model.read(part, warn=False)
    table, lengths = model.recommend(histories, **how), histories.lengths
    counts = Counter(users=int(table[model.fields[0]].nunique()), skipped=histories.skipped, known=int(lengths.sum()))
    counts.update(without_history=int((lengths == 0).sum()), without_row=len(histories) - counts["users"])
    return table, counts


def evaluate_file(
    model: Recommender,
    source: InteractionFile,
    targets: InteractionFile | None,
    topk: Sequence[int],
    filter_viewed: bool | None,
) -> tuple[dict[str, float], list[str]]:
    """Return the metrics of :meth:`Recommender.evaluate` over all users of a file, and words on what is left out."""
    user, count, metrics, left_out = model.fields[0], Counter[str](), list[dict[str, float]](), list[tuple[int, str]]()
    after: pd.Series[Any] | None = None
    if targets is not None:
        rows = pd.concat(_parts(model, targets))  # one for each user
        for twice in rows[user][rows[user].duplicated()][:1]:
            raise UserError(f"{targets.path}: user {short(twice)} has several rows; give each user one row")
        after = rows.set_index(user)[model.fields[1]]
    for part in _parts(model, source):
        wanted = None
        if after is not None:
            users = part[user].unique()
            wanted = after.reindex(users).dropna().to_dict()
            unknown = int((model.catalogue.ids_of(wanted.values()) == PADDING).sum())
            count.update({"targets": len(wanted), "unknown": unknown, "without target": len(users) - len(wanted)})
            part = part[part[user].isin(wanted)]
        histories = model.read(part, warn=False)
        count.update({"skipped": histories.skipped, "known": int(histories.lengths.sum())})
        if wanted or (wanted is None and histories.lengths.max() > 1):
            metrics.append(model.evaluate(histories, wanted, topk, filter_viewed))
    if targets is not None and after is not None:
        if not count["targets"]:
            raise UserError(
                f"{targets.path}: none of its {len(after)} users is in {source.path}, such as "
                f"{short(targets.example(0))} and {short(source.example(0))}"
            )
        _refuse_strangers(model, targets, count["unknown"], count["targets"] - count["unknown"])
        without_history = len(after) - count["targets"]
        left_out = [
            (count["without target"], f"users of {source.path} are left out: they are not in {targets.path}"),
            (without_history, f"users of {targets.path} are left out: they are not in {source.path}"),
            (count["unknown"], f"of {count['targets']} targets are items that the model does not know, and are missed"),
        ]
    _refuse_strangers(model, source, count["skipped"], count["known"])
    if not metrics:
        raise UserError(NOBODY)
    read = count["skipped"] + count["known"]
    left_out.append((count["skipped"], f"of {read} interactions are left out: the model does not know their items"))
    table = pd.DataFrame(metrics)
    n_users = table.pop("users")
    means = dict(zip(table.columns, np.average(table, axis=0, weights=n_users).tolist(), strict=True))
    return {**means, "users": n_users.sum()}, [f"{number} {what}" for number, what in left_out if number]


def write_tables(tables: Iterable[pd.DataFrame], output: str) -> None:
    """Write tables as one .csv or .parquet file, whole or not at all; columns that are not numbers become text."""
    with atomic_write(output) as temporary:
        if Path(output).suffix == ".csv":
            with open(temporary, "w", encoding="utf-8", newline="") as file:
                for number, table in enumerate(tables):
                    table.to_csv(file, index=False, header=not number)
            return
        rest = iter(tables)
        first = next(rest)
        types = [pa.string() if kind.kind == "O" else pa.from_numpy_dtype(kind) for kind in first.dtypes]
        schema = pa.schema(list(zip(map(str, first.columns), types, strict=True)))
        with parquet.ParquetWriter(temporary, schema) as writer:
            for table in chain([first], rest):
                columns = pa.Table.from_pandas(table, schema, preserve_index=False)
                writer.write_table(columns.replace_schema_metadata())


def _parts(model: Recommender, file: InteractionFile) -> Iterator[pd.DataFrame]:
    """Yield the parts of a file, with the model's names of the columns."""
    try:
        for part in file.parts():
            yield part.set_axis(list(model.fields[:2]), axis=1)
    except OSError as error:  # else it would be taken for an error of the output
        raise UserError(f"{file.path} cannot be read: {why(error)}") from error


def _refuse_strangers(model: Recommender, file: InteractionFile, unknown: int, known: int) -> None:
    """Refuse a file of whose items the model knows none."""
    if unknown and not known:
        model.catalogue.unknown(f"{file.path}: it", unknown, unknown, file.example())
