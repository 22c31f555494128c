"""Reads plain atomic files with pyarrow, in place of the Python engine of pandas that RecBole asks for."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import csv

from recbole_bert4rec.errors import UserError

_BLOCK = 1 << 26  # bytes read at once; each block has a dictionary of its own until they are unified
_MISSING = ["", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A"]
_MISSING += ["NA", "NULL", "NaN", "None", "n/a", "nan", "null"]
"""What pandas takes for a missing value (documented under ``read_csv(na_values)``)."""


def read_columns(
    path: str, delimiter: str, usecols: list[str], dtype: dict[str, Any], encoding: str | None = None, **_: Any
) -> pd.DataFrame:
    """``pandas.read_csv`` as RecBole calls it for an atomic file, about twenty times faster.

    Args:
        path, delimiter, usecols, dtype, encoding: as pandas has them; columns are named ``FIELD:TYPE``.

    Returns:
        The columns in the order of the file: ``token`` ones are categorical, the others as ``dtype`` says.

    Raises:
        UserError: a line has not as many columns as the header.
        ValueError: a value has not its column's type, or a byte cannot be decoded.
    """
    kinds = {}
    for name in usecols:
        number = dtype[name] is np.float64
        kinds[name] = pa.float64() if number else _token_type(name)
    wrong: list[csv.InvalidRow] = []

    def note(row: csv.InvalidRow) -> Literal["skip"]:
        wrong.append(row)
        return "skip"

    table = csv.read_csv(
        path,
        read_options=csv.ReadOptions(block_size=_BLOCK, encoding=encoding or "utf8"),
        parse_options=csv.ParseOptions(delimiter=delimiter, invalid_row_handler=note),
        convert_options=csv.ConvertOptions(
            column_types=kinds, include_columns=usecols, null_values=_MISSING, strings_can_be_null=True
        ),
    )
    if wrong:
        row = wrong[0]
        with open(path, encoding=encoding) as file:
            place = next((f", line {n}," for n, line in enumerate(file, 1) if line.rstrip("\r\n") == row.text), "")
        raise UserError(
            f"{path}: {len(wrong)} lines have not as many columns as the header ({row.expected_columns}, separated by "
            f"{delimiter!r}); the first{place} has {row.actual_columns}: {row.text[:80]!r}"
        )
    return table.unify_dictionaries().to_pandas(split_blocks=True, self_destruct=True)


def _token_type(name: str) -> pa.DataType:
    return pa.dictionary(pa.int32(), pa.string()) if name.endswith(":token") else pa.string()
