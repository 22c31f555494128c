"""Columns of ids: texts, and codes into the distinct ones. Only null, NaN and blank texts are missing."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recbole_bert4rec.logs.read import Connection, Log, add_table, ask, fetch, first_row
from recbole_bert4rec.logs.times import TimeColumn, Times
from recbole_bert4rec.system.errors import UserError, short

_WHOLE = r"^([+-]?\d+)\.0+$"
"""Pattern of a whole number in a column of which a program made floats."""
NO_ID = -1
"""Code of a value that is missing."""
_EXACT = {pa.float16(): 2**11, pa.float32(): 2**24, pa.float64(): 2**53}
"""The first whole number of which a float cannot tell the next one."""
PADDING_ID = "[PAD]"
"""RecBole's name of the item that fills histories up."""
_UNFIT = r"[\t\r\n\x00]|^\[PAD\]$"


class Ids(NamedTuple):
    """The distinct values of a column, in the order of the log.

    Attributes:
        codes: place of each value in ``tokens``; :data:`NO_ID` where it is missing. *Shape:* (values,)
        tokens: the distinct ids, as texts.
        written: the values as the log has them, as texts. *Shape:* (values,)
        rows: where each value first stands. *Shape:* (values,)
    """

    codes: NDArray[np.int64]
    tokens: pa.Array[Any]
    written: pa.Array[Any]
    rows: NDArray[np.int64]


def code_ids(connection: Connection, column: str, name: str, log: Log) -> Ids:
    """Read a column of the table ``log``, and make the table ``of_COLUMN`` of its values and their codes.

    Whole numbers that a program made floats of, because others are missing, become whole numbers again.
    """
    values = fetch(
        connection,
        f"SELECT {column} AS written, min(rowid) AS first FROM log WHERE {column} IS NOT NULL GROUP BY 1 ORDER BY 2",
    )
    written = values["written"].combine_chunks()
    try:
        texts = as_texts(written)
    except pa.ArrowException as error:
        raise UserError(
            f"{log.where()}: values of {name!r} have type {written.type} and cannot be ids: {error}"
        ) from error
    tokens = cleaned(texts)
    if pc.all(pc.match_substring_regex(tokens, _WHOLE)).as_py():
        tokens = without_point(tokens)
    distinct: Any = tokens.dictionary_encode()
    codes = distinct.indices.fill_null(NO_ID).to_numpy(zero_copy_only=False).astype(np.int64)
    ids = Ids(codes, distinct.dictionary, texts, values["first"].to_numpy())
    table = pa.table({"written": written, "code": codes.astype(np.int32)}).filter(pa.array(codes != NO_ID))
    add_table(connection, f"of_{column}", table)
    return ids


def join_codes(connection: Connection, log: Log, columns: list[str]) -> tuple[int, Times]:
    """Make the table ``kept`` of the table ``log``: rows that have user and item, as codes; return how many have both.

    Without a column of times, and with ``in_order``, the time of a row is its place.
    """
    in_order, further = log.reading.in_order or len(columns) < 3, range(3, len(columns))
    ask(
        connection,
        f"CREATE TABLE kept AS SELECT of_c0.code AS user, of_c1.code AS item, log.rowid AS row, "
        f"{'log.rowid' if in_order else 'c2'} AS time"
        + "".join(f", of_c{n}.code AS m{n}" for n in further)
        + " FROM log JOIN of_c0 ON c0 = of_c0.written JOIN of_c1 ON c1 = of_c1.written"
        + "".join(f" LEFT JOIN of_c{n} ON c{n} = of_c{n}.written" for n in further),
    )
    (count,) = first_row(connection, "SELECT count(*) FROM kept")
    if not count:
        raise UserError(f"{log.path}: no row has both {columns[0]!r} and {columns[1]!r}")
    times = Times("time", False, "numbers")
    if not in_order:
        dates = log.reading.date_format, log.reading.timezone
        times = TimeColumn(connection, "kept", columns[2], log.where, *dates).read()
    ask(connection, "DROP TABLE log")
    return count, times


def doubts(ids: Ids, name: str) -> list[str]:
    """Say how many ids differ from another one only in a ``.0`` at their end or in blanks around them."""
    alike: Any = without_point(cleaned(ids.written))
    counts: Any = pc.value_counts(alike.drop_null())
    several = counts.filter(pc.greater(counts.field(1), pa.scalar(1))).field(0)
    if not len(several):
        return []
    number = int(np.count_nonzero(pc.is_in(alike, several)))
    first, other, *_ = ids.written.filter(pc.equal(alike, several[0])).to_pylist()
    return [
        f"{number:,} ids of {name!r} differ from another one only in a '.0' or in blanks around them, such as "
        f"{short(first)} and {short(other)}; the blanks are left out, a '.0' is not"
    ]


def without_point(texts: pa.Array[Any]) -> pa.Array[Any]:
    """Return whole numbers without the ``.0`` at their end."""
    return pc.replace_substring_regex(texts, _WHOLE, r"\1")


def cleaned(texts: pa.Array[Any]) -> pa.Array[Any]:
    """Return ids without blanks around them; a blank one is missing."""
    texts = pc.utf8_trim_whitespace(texts)
    return pc.if_else(pc.equal(texts, pa.scalar("")), None, texts)


def as_texts(values: pa.Array[Any]) -> pa.Array[Any]:
    """Return ids as texts; whole numbers that were made floats or decimals, without a point."""
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), None, values)
        large = values.filter(pc.greater_equal(pc.abs(values), pa.scalar(_EXACT[values.type], values.type)))
        if len(large):
            raise pa.ArrowInvalid(
                f"{len(large)} are floats of {_EXACT[values.type]:,} or more, such as {large[0].as_py():.0f}, whose "
                "last digits are lost; store them as whole numbers or texts"
            )
    if pa.types.is_floating(values.type) or pa.types.is_decimal(values.type):
        whole: Any = pc.floor(values)
        if not pc.any(pc.not_equal(values, whole)).as_py():
            values = whole.cast(pa.decimal128(38, 0) if pa.types.is_decimal(values.type) else pa.int64())
    return values.cast(pa.string())


def check_ids(ids: Ids, name: str, log: Log) -> None:
    """Refuse ids that are all missing, that RecBole's files cannot hold, or that mean something to RecBole."""
    if not len(ids.tokens):
        raise UserError(f"{log.where()}: all values of {name!r} are missing")
    first: int = pc.index(pc.match_substring_regex(ids.tokens, _UNFIT), True).as_py()
    if first >= 0:
        row = int(ids.rows[(ids.codes == first).argmax()])
        raise UserError(
            f"{log.where(row)}: {name!r} holds {short(ids.tokens[first].as_py())}; values must hold no tab, line break "
            f"or null character, and {PADDING_ID} is what RecBole fills histories up with: rename it"
        )
