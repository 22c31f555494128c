"""Makes RecBole's atomic file of a log, once, or the files of a large one; and says what was found in the log."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

from filelock import FileLock

from recbole_bert4rec.logs.conversion import SORTED, read_record, write_record
from recbole_bert4rec.logs.events import Events
from recbole_bert4rec.logs.formats import Reading, data_set_name
from recbole_bert4rec.logs.read import Log, connected
from recbole_bert4rec.system.constants import NAMES_OF_COLUMNS
from recbole_bert4rec.system.errors import UserError, why
from recbole_bert4rec.system.files import digest_of, keep_made

LARGE = 20_000_000
"""Of a log of more rows the files of a MappedLog are written; ML-20M has as many."""
_FORMAT = 5
"""Format of conversions."""


def convert(
    log: str,
    user: str,
    item: str,
    time: str,
    reading: Reading | None = None,
    say: Callable[[str], None] | None = None,
    may_be_mapped: bool = True,
    more: Sequence[str] = (),
    filters: Mapping[str, str] = MappingProxyType({}),
) -> Path:
    """Write ``FOLDER/NAME/NAME.inter`` for the log ``FOLDER/NAME.csv``, and ``conversion.json`` beside it.

    They are written again only if the log, the columns or the way to read them have changed. Of a log of more than
    :data:`LARGE` rows that ``may_be_mapped`` the files of a :class:`~recbole_bert4rec.logs.mapped.MappedLog` are
    written instead, into ``FOLDER/NAME/sorted``.
    """
    reading = reading or Reading()
    source = Log(log, reading)
    name = data_set_name(source.path)
    folder = source.path.parent / name
    target = folder / f"{name}.inter"
    needed = [user, item] if reading.in_order else [user, item, time]
    kept = source.present([*needed, *more, *filters], [])[len(needed) :]
    columns = [user, item, time, *kept]
    _check_names(source.path, columns)
    how = asdict(reading) | {"header": reading.columns, "columns": columns, "filters": dict(filters)}
    made_from = {"format": _FORMAT, "files": source.status(), **how}
    existing = read_record(folder)
    if target.is_file() and existing is None:
        raise UserError(
            f"{target} exists and was not made from {log}; use it with --dataset={name} "
            f"--data_path={source.path.parent}, or move it away"
        )
    may_be_mapped = may_be_mapped and not kept
    if existing and existing.get("made_from") == made_from:
        place, key = _place(target, may_be_mapped and existing["rows"] > LARGE)
        if key in existing and place.exists():
            return folder
    try:
        with (
            TemporaryDirectory(prefix=f".{name}.", dir=source.path.parent, ignore_cleanup_errors=True) as temporary,
            connected(scratch := Path(temporary)) as connection,
        ):
            events = Events(connection, source, columns, filters, scratch)
            place, key = _place(target, may_be_mapped and events.rows > LARGE)
            made = scratch / place.name
            found = events.write_sorted(made) if key == SORTED else events.write_atomic(made)
            record = {
                "log": source.path.name,
                "made_at": datetime.now(UTC).isoformat(sep=" ", timespec="seconds"),
                **found,
                "made_from": made_from,
                key: _digest(made),
            }
            _put(made, place, key, record)
    except OSError as error:
        raise UserError(
            f"--dataset={log}: {folder} cannot be written to ({why(error)}); the log is converted "
            "there: make room, or copy the log elsewhere"
        ) from error
    if say is not None:
        say(summary(record) + f"\n  all of this in {folder / 'conversion.json'}")
    return folder


def _check_names(log: Path, columns: list[str]) -> None:
    """Refuse names that no atomic file can have."""
    if len(set(columns)) < len(columns):
        raise UserError(f"USER_ID_FIELD, ITEM_ID_FIELD and TIME_FIELD must be three columns, but are {columns}")
    for column in columns:
        if ":" in column or "\t" in column:
            option = f" ({NAMES_OF_COLUMNS[columns.index(column)]})" if columns.index(column) < 3 else ""
            raise UserError(f"{log}: the name of column {column!r}{option} must hold neither ':' nor a tab")


def _place(target: Path, is_large: bool) -> tuple[Path, str]:
    """Return where a conversion lies, and the key of its digest in the record."""
    return (target.parent / SORTED, SORTED) if is_large else (target, "digest")


def _put(made: Path, place: Path, key: str, record: dict[str, Any]) -> None:
    """Put what was made of a log beside what else was made of it, and in the place of what was made of another one."""
    folder = place.parent
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".conversion.lock"):
        existing = read_record(folder) or {}
        if existing.get("made_from") == record["made_from"]:
            if key in existing and place.exists():  # made by another process meanwhile
                return
            record = {**existing, **record}
        else:
            write_record(folder, {})  # what is unfinished is then known to be ours, and the next run replaces it
            shutil.rmtree(folder / SORTED, ignore_errors=True)
            if key == SORTED:
                (folder / f"{folder.name}.inter").unlink(missing_ok=True)
        keep_made(made, place)
        write_record(folder, record)


def _digest(made: Path) -> str:
    """Return a digest of a file, or of all files of a folder."""
    if made.is_file():
        return digest_of(made)[:16]
    names = "".join(f"{path.name} {digest_of(path)}\n" for path in sorted(made.iterdir()))
    return hashlib.sha256(names.encode()).hexdigest()[:16]


def summary(record: Mapping[str, Any]) -> str:
    """Put the content of ``conversion.json`` into a few lines."""
    facts, left_out, doubles = record["interactions"], record["left_out"], record["exact_duplicates"]
    how = ", ".join(f"{name} {value!r}" for name, value in record["read_as"].items())
    lines = [
        f"{record['log']}: {record['rows']:,} rows, {how}",
        f"  {facts:,} interactions of {record['users']:,} users with {record['items']:,} items, "
        f"{record['first']} to {record['last']}",
    ]
    for column, about in left_out.items():
        shown = ", ".join(map(str, about["lines"][:5]))
        where = f" (line {shown}{', ...' if about['rows'] > 5 else ''})" if shown else ""
        lines.append(f"  {about['rows']:,} rows left out: {column!r} is empty{where}")
    if doubles:
        done = "left out" if record["duplicates_left_out"] else "kept (--drop_duplicates=True leaves them out)"
        lines.append(f"  {doubles:,} rows have user, item and time of another row: {done}")
    lines.append(f"  {record['repeats'] / facts:.1%} of interactions repeat an item that the user had")
    return "\n".join(lines)
