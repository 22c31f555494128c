"""Numbers the ids of a column that is read a part at a time, by when each first stands in time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recbole_bert4rec.logs.codes import NO_ID, CodedIds, distinct_texts

_NOWHERE = -1
"""First row of a value that no interaction has."""


class Numbers(NamedTuple):
    """RecBole's numbers of ids.

    Attributes:
        of_code: number of each code of a :class:`Dictionary`, from 1; 0 where no interaction has it. *Shape:* (codes,)
        tokens: the ids that interactions have, as texts, in the order of their numbers; the first has number 1.
    """

    of_code: NDArray[np.int32]
    tokens: pa.Array[Any]


class Dictionary:
    """The distinct values of a column, each with the time and the row of its first interaction.

    Memory grows with the distinct values, not with the rows.
    """

    def __init__(self) -> None:
        self._values: pa.Array[Any] | None = None
        self._times = np.empty(0)
        self._rows = np.empty(0, dtype=np.int64)

    def encode(self, column: pa.ChunkedArray[Any]) -> NDArray[np.int64]:
        """Return the code of each value of a part, and :data:`NO_ID` where it is missing; new values get new codes."""
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        values = column.combine_chunks()
        if self._values is None:
            self._values = values.slice(0, 0)
        codes = self._codes(values)
        unknown = codes == NO_ID
        if unknown.any():
            new = pc.unique(values.filter(pa.array(unknown)))
            new = new.filter(pa.array(distinct_texts(new).codes != NO_ID))
            if len(new):
                self._values = pa.concat_arrays([self._values, new])
                codes = self._codes(values)
        return codes

    def _codes(self, values: pa.Array[Any]) -> NDArray[np.int64]:
        assert self._values is not None
        codes = pc.index_in(values, value_set=self._values).fill_null(NO_ID)
        return codes.to_numpy(zero_copy_only=False).astype(np.int64)

    def note(self, codes: NDArray[np.int64], times: NDArray[Any], first_row: int) -> None:
        """Note when interactions are, so that ids can be numbered by their first one.

        *Shape:* codes (rows,), times (rows,)
        """
        assert self._values is not None
        more = len(self._values) - len(self._rows)
        greatest = np.inf if times.dtype.kind == "f" else np.iinfo(times.dtype).max
        self._times = np.append(self._times.astype(times.dtype), np.full(more, greatest, dtype=times.dtype))
        self._rows = np.append(self._rows, np.full(more, _NOWHERE))
        before = self._times[codes]
        np.minimum.at(self._times, codes, times)
        earlier = (times < before) | (self._rows[codes] == _NOWHERE)
        firsts = np.flatnonzero(earlier & (times == self._times[codes]))[::-1]  # of several the first is written last
        self._rows[codes[firsts]] = first_row + firsts

    def numbers(self) -> Numbers:
        """Number the ids as RecBole numbers those of a file in the order of time: by first appearance."""
        seen = np.flatnonzero(self._rows != _NOWHERE)
        in_time = seen[np.lexsort((self._rows[seen], self._times[seen]))]
        ids = self.texts()
        number, order = pd.factorize(ids.codes[in_time])
        of_code = np.zeros(len(ids.codes), dtype=np.int32)
        of_code[in_time] = number + 1
        return Numbers(of_code, ids.tokens.take(pa.array(order, pa.int64())))

    def texts(self) -> CodedIds:
        """Return the text of each code."""
        assert self._values is not None
        return distinct_texts(self._values)
