"""Which files a log is, and how it is to be read; the name of a file tells its form."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TextIO

from recbole_bert4rec.system.constants import FORMATS
from recbole_bert4rec.system.errors import UserError, nearest, short, why

_TEXTS, _JSON = (".csv", ".tsv", ".txt", ".dat", ".data"), (".jsonl", ".ndjson", ".json")
_PARQUET, _ATOMIC = ".parquet", (".inter", ".item")
_DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error)
"""Errors of a packed file that is not whole."""
UNREADABLE = (*_DAMAGED, UnicodeDecodeError, OSError, csv.Error)
"""Errors of a file that cannot be read, which :func:`unreadable` explains."""
STAND_IN = "\x1f"
"""ASCII's sign between units, in the place of a separator of several signs, which Python's csv does not know."""
_SEPARATORS = ("::", ",", ";", "\t", "|", " ")


@dataclass(frozen=True)
class Reading:
    """How a log is to be read; a value of None is found out from the log.

    Attributes:
        separator: between the columns of a text.
        encoding: of a text, as Python names it.
        date_format: of dates, in the codes of Python's strptime, such as ``%d.%m.%Y``.
        timezone: of dates that name none, such as ``Europe/Berlin``; None: UTC.
        drop_duplicates: leave out rows whose user, item and time are those of an earlier row.
        quote: the sign around values of a text that hold separators; ``none``: there is none.
        escape: the sign before a quote that belongs to a value.
        columns: names of the columns of a text without a header, with commas.
        in_order: the rows are in the order of time; a column of times is neither needed nor read.
    """

    separator: str | None = None
    encoding: str | None = None
    date_format: str | None = None
    timezone: str | None = None
    drop_duplicates: bool = False
    quote: str | None = None
    escape: str | None = None
    columns: str | None = None
    in_order: bool = False


def names_with_commas(value: object) -> str:
    """Return the option ``columns`` as one text; it may be a list."""
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


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


def find_files(name: str, flag: str) -> tuple[str, list[Path], list[str]]:
    """Return the form of a log (``text``, ``json``, ``parquet`` or ``atomic``), its files, and doubts about them."""
    path = Path(name).resolve()
    if path.is_dir():
        files = _files_of(path)
        parts = [file for file in files if file.suffix == _PARQUET]
        if not parts:
            raise UserError(f"{flag}={name}: the folder holds no .parquet file")
        others = [file.name for file in files if file.suffix != _PARQUET and _ending(file)]
        doubts = [f"files that are no {_PARQUET} are not read, such as {short(other)}" for other in others[:1]]
        return "parquet", parts, doubts
    if not path.is_file():
        beside = sorted(entry.name for entry in path.parent.iterdir()) if path.parent.is_dir() else []
        near = nearest(path.name, beside)
        raise UserError(f"{flag}={name}: no such file" + (f"; did you mean {near}?" if near else ""))
    if path.name.removesuffix(".gz").endswith(_ATOMIC):
        return "atomic", [path], []
    ending = _ending(path)
    if ending is None:
        raise UserError(f"{flag}={name} must be a {FORMATS}, or one of RecBole's {' and '.join(_ATOMIC)}")
    return "parquet" if ending == _PARQUET else "json" if ending in _JSON else "text", [path], []


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


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file, packed or not."""
    return gzip.open(path) if path.name.lower().endswith(".gz") else open(path, "rb")  # type: ignore[return-value]


def open_text(path: Path, encoding: str) -> TextIO:
    """Open a text, packed or not, whose lines may end in any way."""
    return io.TextIOWrapper(open_bytes(path), encoding)


def encoding_of(start: bytes) -> str:
    """Return the encoding of a text that its first bytes tell; UTF-8 where they tell none."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if start.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if start.count(0) * 3 > len(start):  # every other byte of Latin letters in UTF-16
        return "utf-16-le" if start[1:2] == b"\0" else "utf-16-be"
    return "utf-8"


def find_encoding(path: Path, reading: Reading) -> str:
    """Return the encoding that is given, or the one that the first bytes tell."""
    with open_bytes(path) as file:
        found = encoding_of(file.read(1024))
    if reading.encoding is None:
        return found
    check_encoding(reading.encoding)
    name = codecs.lookup(reading.encoding).name
    return found if name == "utf-8" and found == "utf-8-sig" else name


def check_encoding(name: str) -> None:
    """Refuse a name that is not an encoding of texts."""
    try:
        "".encode(name)
    except (LookupError, UnicodeError) as error:
        raise UserError(f"--encoding={name} is no encoding of texts; write one such as cp1252") from error


def unreadable(path: Path, error: Exception, encoding: str) -> UserError:
    """Say why a file cannot be read; of bytes of another encoding, in which line, where lines can be told."""
    if isinstance(error, _DAMAGED):
        return UserError(f"{path} is damaged ({error}); download or compress it again")
    if not isinstance(error, UnicodeDecodeError):
        return UserError(f"{path} cannot be read: {why(error)}")
    wrong, line = error.object[error.start : error.start + 1], ""
    if not encoding.startswith("utf-16"):
        with open_bytes(path) as file:
            for number, text in enumerate(file, 1):
                try:
                    text.decode(encoding)
                except UnicodeDecodeError:
                    line = f", line {number}, {short(text.decode('cp1252', 'replace').strip())} as cp1252 reads it"
                    break
    return UserError(
        f"{path}{line}: {wrong!r} is not {encoding}; save it as UTF-8 or name its encoding, such as --encoding=cp1252"
    )


def separators(path: Path, reading: Reading) -> tuple[str, ...]:
    """Return the signs that may separate the columns of a text."""
    if reading.separator is None:
        return ("\t" if ".tsv" in path.name.lower() else ",", *_SEPARATORS)
    sign = {"\\t": "\t", "tab": "\t"}.get(reading.separator, reading.separator)
    twice = len(sign) == 2 and sign == 2 * sign[0] and sign.isascii()
    return (sign if twice else one_sign(sign, "--separator"),)


def one_sign(text: str, flag: str) -> str:
    """Return a text that must be one character."""
    forbidden = "\r\n" if flag == "--quote" else '"\r\n'
    if len(text) != 1 or not text.isascii() or text in forbidden:
        example = {"--separator": "; or \\t for a tab", "--quote": "', or none", "--escape": "\\"}[flag]
        raise UserError(f"{flag}={text!r} must be one character, such as {example}")
    return text
