"""Columns as codes into their distinct values, and columns of ids as codes into distinct texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recbole_bert4rec.system.errors import UserError, short

_WHOLE = r"^([+-]?\d+)\.0+$"
"""Pattern of a whole number in a column of which a program made floats."""
NO_ID = -1
"""Code of a value that is missing."""
_EXACT = {pa.float16(): 2**11, pa.float32(): 2**24, pa.float64(): 2**53}
"""The first whole number of which a float cannot tell the next one."""
PADDING_ID = "[PAD]"
"""RecBole's name of the item that fills histories up."""


class CodedIds(NamedTuple):
    """A column of ids.

    Attributes:
        codes: place of each row's id in ``tokens``; :data:`NO_ID` where there is none. *Shape:* (rows,)
        tokens: the distinct ids, as texts.
        written: the distinct values as the log has them.
    """

    codes: NDArray[np.int64]
    tokens: pa.Array[Any]
    written: pa.Array[Any]


def encode(column: pa.ChunkedArray[Any]) -> tuple[NDArray[np.int64], pa.Array[Any]]:
    """Return the place of each value among the distinct ones, :data:`NO_ID` for null, and the distinct values."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    encoded: Any = column.dictionary_encode().unify_dictionaries()
    if not encoded.num_chunks:
        return np.empty(0, np.int64), pa.array([], column.type)
    codes = [chunk.indices.fill_null(NO_ID).to_numpy(zero_copy_only=False) for chunk in encoded.chunks]
    return np.concatenate(codes).astype(np.int64), encoded.chunk(0).dictionary


def read_ids(column: pa.ChunkedArray[Any], name: str, where: Callable[[int | None], str]) -> CodedIds:
    """Read a column of ids. Only null, NaN and blank texts are missing: ``NA``, ``None`` and ``null`` are ids.

    Whole numbers that pandas made floats of, because others are missing, become whole numbers again.
    """
    try:
        codes, values = encode(column)
        of_value = distinct_texts(values)
    except pa.ArrowException as error:
        raise no_ids(name, column.type, where, error) from error
    ids = of_value._replace(codes=np.append(of_value.codes, NO_ID)[codes])
    check_ids(ids, name, where)
    return ids


def no_ids(name: str, kind: pa.DataType, where: Callable[[int | None], str], error: pa.ArrowException) -> UserError:
    """Say that values of some type cannot be ids; the arguments are those of :func:`read_ids`."""
    return UserError(f"{where(None)}: values of {name!r} have type {kind} and cannot be ids: {error}")


def distinct_texts(values: pa.Array[Any]) -> CodedIds:
    """Return the text of each value; where all are whole numbers that end in ``.0``, they are written without it."""
    written = as_texts(values)
    texts = cleaned(written)
    distinct: Any = (without_point(texts) if are_whole(texts) else texts).dictionary_encode()
    codes = distinct.indices.fill_null(NO_ID).to_numpy(zero_copy_only=False).astype(np.int64)
    return CodedIds(codes, distinct.dictionary, written)


def doubts(ids: CodedIds, name: str) -> list[str]:
    """Say how many ids differ from another one only in a ``.0`` at their end or in blanks around them."""
    plain: Any = without_point(cleaned(ids.written))
    counts: Any = pc.value_counts(plain.drop_null())
    several = counts.filter(pc.greater(counts.field(1), pa.scalar(1))).field(0)
    if not len(several):
        return []
    number = int(np.count_nonzero(pc.is_in(plain, several)))
    first, other, *_ = ids.written.filter(pc.equal(plain, several[0])).to_pylist()
    return [
        f"{number:,} ids of {name!r} differ from another one only in a '.0' or in blanks around them, such as "
        f"{short(first)} and {short(other)}; the blanks are left out, a '.0' is not"
    ]


def are_whole(texts: pa.Array[Any]) -> bool:
    """Tell whether ids are whole numbers that a program wrote as floats: all end in ``.0``."""
    return bool(pc.all(pc.match_substring_regex(texts, _WHOLE)).as_py())


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


def check_ids(ids: CodedIds, name: str, where: Callable[[int | None], str]) -> None:
    """Refuse ids that are all missing, that RecBole's files cannot hold, or that mean something to RecBole."""
    if (ids.codes == NO_ID).all():
        raise UserError(f"{where(None)}: all values of {name!r} are missing; it cannot be a column of ids")
    unfit, padding = (
        pc.match_substring_regex(ids.tokens, r"[\t\r\n\x00]"),
        pc.equal(ids.tokens, pa.scalar(PADDING_ID)),
    )
    if pc.any(unfit).as_py():
        row, token = _first(ids, unfit)
        raise UserError(
            f"{where(row)}: some values of {name!r} hold a tab or a line break (or a null character); "
            f"the first is {short(token)}"
        )
    if pc.any(padding).as_py():
        row, token = _first(ids, padding)
        raise UserError(f"{where(row)}: {name!r} holds {token!r}, which RecBole fills histories up with; rename it")


def _first(ids: CodedIds, wrong: pa.Array[Any]) -> tuple[int, str]:
    row = int(np.flatnonzero(np.isin(ids.codes, np.flatnonzero(wrong.to_numpy(zero_copy_only=False))))[0])
    return row, ids.tokens[ids.codes[row]].as_py()
