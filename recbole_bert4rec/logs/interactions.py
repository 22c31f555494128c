"""Reads interactions of any number from a log or an atomic file, some whole users at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from logging import getLogger
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pyarrow as pa
from tqdm import tqdm

from recbole_bert4rec.logs.formats import Reading
from recbole_bert4rec.logs.ids import code_ids, join_codes
from recbole_bert4rec.logs.read import Log, ask, connected, fetch
from recbole_bert4rec.logs.times import no_times

_PART = 1 << 18  # interactions of a part, about


class InteractionFile:
    """A file, or a folder of files, with a row an interaction, or a row a user with a list of items."""

    def __init__(
        self,
        path: str,
        fields: tuple[str, str, str],
        reading: Reading | None = None,
        flag: str = "--input",
        needs_times: bool = False,
    ) -> None:
        self.path, self._reading = Path(path), reading or Reading()
        self._log, self._examples = Log(path, self._reading, flag), list[str]()
        needed = list(fields if needs_times else fields[:2])
        has_order = needs_times or self._reading.in_order or flag != "--input"  # of targets a user has one
        self._columns = self._log.present(needed, [] if has_order else [fields[2]])
        if len(self._columns) < 3 and not has_order:
            self._log.doubts.append(no_times(fields[2]))

    def parts(self) -> Iterator[pd.DataFrame]:
        """Yield users and items of some whole users at a time, in the order in which the file first names them.

        A user's rows are in the order of time; equal times, and rows without times, keep the file's. Ids are texts.
        Only the distinct ids and a part are in memory; DuckDB sorts the rest in the folder for temporary files.
        """
        with TemporaryDirectory() as folder, connected(Path(folder)) as connection:
            rows = self._log.read(connection, self._columns, Path(folder))
            users, items = (code_ids(connection, f"c{n}", self._columns[n], self._log).tokens for n in (0, 1))
            kept, times = join_codes(connection, self._log, self._columns)
            if rows > kept:
                self._log.doubts.append(f"{rows - kept:,} rows are left out, whose user or item is empty")
            for doubt in self._log.doubts:
                getLogger(__name__).warning(f"{self.path}: {doubt}")
            self._log.doubts.clear()
            self._examples = [str(users[0]), str(items[0])]
            ask(connection, f"CREATE TABLE sorted AS SELECT user, item FROM kept ORDER BY user, {times.sql}, row")
            lengths = fetch(connection, "SELECT count(*) AS n FROM kept GROUP BY user ORDER BY user")["n"]
            ask(connection, "DROP TABLE kept")
            ends = lengths.to_numpy().cumsum()
            last = ends[np.flatnonzero(np.diff(ends // _PART, append=-1))]
            for begin, end in tqdm(list(pairwise([0, *last.tolist()])), desc="parts", ncols=100, disable=None):
                of_user, of_item = fetch(
                    connection, f"SELECT user, item FROM sorted WHERE rowid >= {begin} AND rowid < {end}"
                ).columns
                names = self._columns[:2]
                yield pa.table([users.take(of_user), items.take(of_item)], names=names).to_pandas()

    def example(self, column: int = 1) -> str:
        """Return the first item, or for column 0 the first user; :meth:`parts` reads them."""
        return self._examples[column]
