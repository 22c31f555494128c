"""Opens logs; the name of a file tells its form."""

from __future__ import annotations

import re
from pathlib import Path

from recbole_bert4rec.logs.json_lines import JsonLines
from recbole_bert4rec.logs.parquet_log import ParquetLog
from recbole_bert4rec.logs.reading import Log, Reading
from recbole_bert4rec.logs.texts import Atomic, Text
from recbole_bert4rec.system.constants import FORMATS
from recbole_bert4rec.system.errors import UserError, nearest, short

_TEXTS, _JSON = (".csv", ".tsv", ".txt", ".dat", ".data"), (".jsonl", ".ndjson", ".json")
_PARQUET, _ATOMIC = ".parquet", (".inter", ".item")


def is_table(name: str) -> bool:
    """Return whether the name of a data set is the path of a log."""
    if _ending(Path(name)) is not None:
        return True
    is_path = "/" in name.replace("\\", "/") or not (Path(name) / f"{name}.inter").exists()
    return is_path and any(file.suffix == _PARQUET for file in _files_of(Path(name)))


def data_set_name(log: str | Path) -> str:
    """Return the name of the data set that is made of a log: the log's own, without its ending."""
    path = Path(log)
    ending = _ending(path)
    if ending is None:  # a folder, beside which the data set needs a folder of another name
        return f"{path.resolve().name}-log"
    return path.name[: path.name.lower().rindex(ending)]


def open_log(name: str, reading: Reading, flag: str = "--dataset") -> Log:
    """Return a log, or an atomic file, that is not read yet."""
    path = Path(name).resolve()
    if path.is_dir():
        files = _files_of(path)
        parts = [file for file in files if file.suffix == _PARQUET]
        if not parts:
            raise UserError(f"{flag}={name}: the folder holds no .parquet file")
        log = ParquetLog(path, parts, reading)
        if others := [file.name for file in files if file.suffix != _PARQUET and _ending(file)]:
            log.doubts.append(f"files that are no {_PARQUET} are not read, such as {short(others[0])}")
        return log
    if not path.is_file():
        beside = sorted(entry.name for entry in path.parent.iterdir()) if path.parent.is_dir() else []
        near = nearest(path.name, beside)
        raise UserError(f"{flag}={name}: no such file" + (f"; did you mean {near}?" if near else ""))
    if path.name.removesuffix(".gz").endswith(_ATOMIC):
        return Atomic(path, [path], reading)
    ending = _ending(path)
    if ending is None:
        raise UserError(f"{flag}={name} must be a {FORMATS}, or one of RecBole's {' and '.join(_ATOMIC)}")
    kind = ParquetLog if ending == _PARQUET else JsonLines if ending in _JSON else Text
    return kind(path, [path], reading)


def _ending(path: Path) -> str | None:
    """Return the ending that tells the form of a log, without ``.gz``; None if it is not known."""
    name = path.name.lower()
    packed, ending = name.endswith(".gz"), Path(name.removesuffix(".gz")).suffix
    known = ending in (*_TEXTS, *_JSON) or (ending == _PARQUET and not packed)
    return ending if known else None


def _files_of(folder: Path) -> list[Path]:
    """Return the files of a folder and its folders, but for what Spark and others hide by ``_`` or ``.``.

    They are in the order of their names, in which numbers stand by their value: ``part.2`` before ``part.10``.
    """
    paths = sorted(folder.rglob("*.*"), key=_in_order) if folder.is_dir() else []
    return [
        file for file in paths if file.is_file() and not any(part[0] in "_." for part in file.relative_to(folder).parts)
    ]


def _in_order(file: Path) -> list[str | int]:
    """Return the name of a file as texts and numbers in turn."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"([0-9]+)", file.as_posix())]
