"""The conversion of a log that lies in a folder, and what it was made from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.files import atomic_write

RECORD = "conversion.json"
SORTED = "sorted"
"""Folder of a large log's files, and the key of their digest in the record; the atomic file's is ``digest``."""


def read_record(folder: Path) -> dict[str, Any] | None:
    """Return ``conversion.json`` of a folder: None if no log was converted into it, ``{}`` if it is damaged."""
    try:
        content = json.loads((folder / RECORD).read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def has_quotes(file: Path) -> bool:
    """Tell whether quotes mean something in an atomic file: in that of a converted log, whose ids may need them."""
    return file.name.removesuffix(".gz").endswith(".inter") and read_record(file.parent) is not None


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """Write ``conversion.json``."""
    with atomic_write(folder / RECORD) as temporary:
        temporary.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def folder_read(folder: str, digest: str | None) -> str:
    """Return the folder to read: that of the atomic file, or that of a large log's sorted files."""
    record = read_record(Path(folder))
    if not record:
        return folder
    made = {record.get("digest"): folder, record.get(SORTED): str(Path(folder) / SORTED)}
    if digest is None:  # the atomic file, if there is one
        return next((place for known, place in made.items() if known is not None), folder)
    if digest not in made:
        log = Path(folder).parent / str(record.get("log"))
        raise UserError(
            f"{folder} holds another conversion of {log} than was trained on, for the log or the way to read it has "
            f"changed; --dataset={log} reads the log as it is now"
        )
    return made[digest]
