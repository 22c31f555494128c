"""Conversions of a log: the newest, earlier ones that models were trained on, and whether the log has changed since."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.files import atomic_write

RECORD = "conversion.json"
_EARLIER = "earlier"
_SORTED = "sorted"
"""Folder of the conversions of a large log, each in a folder named by its digest."""


def read_record(folder: Path) -> dict[str, Any] | None:
    """Return the record ``conversion.json`` of a folder's atomic file; None if no log was converted into it.

    A damaged record is returned as ``{}``: the conversion is then made again.
    """
    try:
        content = json.loads((folder / RECORD).read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) and _is_record(content) else {}


def _is_record(content: dict[str, Any]) -> bool:
    """Tell whether a record names only files of its folder, in the form that this package writes."""
    log, digest, made_from = content.get("log", "log"), content.get("digest", ""), content.get("made_from", {})
    files = made_from.get("files", []) if isinstance(made_from, dict) else None
    return (
        isinstance(log, str)
        and Path(log).name == log
        and "\0" not in log
        and isinstance(digest, str)
        and re.fullmatch("[0-9a-f]*", digest) is not None
        and isinstance(files, list)
        and all(isinstance(file, list) and len(file) > 2 and isinstance(file[0], str) for file in files)
    )


def has_quotes(file: Path) -> bool:
    """Tell whether quotes mean something in an atomic file: in that of a converted log, whose ids may need them."""
    return file.name.removesuffix(".gz").endswith(".inter") and read_record(file.parent) is not None


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """Write ``conversion.json``."""
    with atomic_write(folder / RECORD) as temporary:
        temporary.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def keep(folder: Path, name: str) -> None:
    """Link the folder's conversion, if there is one, into a second folder, where it stays when the first is replaced.

    Args:
        folder: of the data set.
        name: of the data set.
    """
    record, file = read_record(folder), folder / f"{name}.inter"
    if not record or not isinstance(record.get("digest"), str) or not file.is_file():
        return
    earlier = folder / _EARLIER / record["digest"]
    if not (earlier / file.name).is_file():
        earlier.mkdir(parents=True, exist_ok=True)
        with atomic_write(earlier / file.name) as temporary:
            try:
                os.link(file, temporary)
            except OSError:  # a file system without links
                shutil.copyfile(file, temporary)
        write_record(earlier, record)


def sorted_folder(folder: Path, digest: object) -> Path:
    """Return the folder with the files of a large log that is sorted.

    Args:
        folder: of the data set.
        digest: of the conversion.
    """
    return folder / _SORTED / str(digest)


def folder_read(folder: str, name: str, digest: str | None, warn: Callable[[str], None] | None = None) -> str:
    """Return the folder whose atomic file is to be read, or whose files of a large log.

    Args:
        folder: of the data set.
        name: of the data set.
        digest: of the conversion that a run began with, or that a model was trained on; None for the newest.
        warn: is told if the log has changed since.

    Returns:
        ``folder``, or the place of an earlier conversion in it, or of one of a large log.

    Raises:
        UserError: that conversion is gone.
    """
    newest = read_record(Path(folder))
    if not newest:
        return folder
    log = Path(folder).parent / str(newest.get("log"))
    read, record = folder, newest
    in_order = sorted_folder(Path(folder), newest.get("digest") if digest is None else digest)
    if in_order.is_dir():
        read, record = str(in_order), read_record(in_order) or newest
    elif digest is not None and digest != newest.get("digest"):
        read = str(Path(folder) / _EARLIER / digest)
        if not (Path(read) / f"{name}.inter").is_file():
            raise UserError(
                f"{read} is gone, the conversion of {log} that was trained on; --dataset={log} reads the log as it is "
                "now"
            )
        record = read_record(Path(read)) or newest
    if warn is not None and _has_changed(log, record):
        warn(
            f"{log} has changed since it was converted ({record.get('made_at')}), and the conversion is read; "
            f"--dataset={log} reads the log as it is now"
        )
    return read


def _has_changed(log: Path, record: dict[str, Any]) -> bool:
    """Tell whether one of the log's files has another size or time of change, or is gone; a whole log may be gone."""
    if not log.exists():
        return False
    files = record.get("made_from", {}).get("files", [])
    for name, size, changed, *_ in files:
        try:
            state = (log.parent / name).stat()
        except OSError:
            return True
        if (state.st_size, state.st_mtime) != (size, changed):
            return True
    return False
