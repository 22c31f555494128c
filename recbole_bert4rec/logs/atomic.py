"""Checks atomic .inter files before RecBole reads them, so that a mistake in one gets one clear line."""

from __future__ import annotations

import csv
import gzip
import os
import re
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, NoReturn, TextIO

from recbole_bert4rec.logs.conversion import folder_read, has_quotes
from recbole_bert4rec.logs.formats import data_set_name, is_table
from recbole_bert4rec.logs.mapped import is_mapped
from recbole_bert4rec.logs.reader import MISSING
from recbole_bert4rec.system.constants import OUR_MODELS
from recbole_bert4rec.system.environment import folder_of_recbole, shipped
from recbole_bert4rec.system.errors import UserError, nearest, short, short_list
from recbole_bert4rec.system.yaml_files import read_yaml

if TYPE_CHECKING:
    from recbole.config import Config
    from recbole.data.dataset import Dataset

_DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error)


def check_data_set(config: Config) -> None:
    """Refuse a data set that has no folder, and that RecBole does not download."""
    downloads = folder_of_recbole() / "properties" / "dataset" / "url.yaml"
    if not os.path.exists(config["data_path"]) and config["dataset"] not in read_yaml(str(downloads)):
        raise UserError(_missing(config, config["data_path"]))


def check_inter_file(config: Config, folder: str) -> None:
    """Refuse a .inter file without rows or without the columns that a sequential model needs.

    A missing folder is allowed here, because RecBole may download the data set.
    """
    if not os.path.isdir(folder):
        return
    path = _inter_path(config, folder)
    if not os.path.isfile(path):
        contents = ", ".join(sorted(os.listdir(folder))) or "nothing"
        raise UserError(f"{path} does not exist (the folder holds {contents}); RecBole reads FOLDER/NAME/NAME.inter")
    header, first_row = _first_lines(config, path)
    columns = _columns(path, header, config["field_separator"])
    loaded = "*" if config["load_col"] is None else config["load_col"].get("inter", [])
    for option, kind in (("USER_ID_FIELD", "token"), ("ITEM_ID_FIELD", "token"), ("TIME_FIELD", "float")):
        name = config[option]
        if name not in columns:
            raise UserError(
                f"{path}, line 1: no column {name!r} ({option}); the columns are {short_list(columns)}. "
                f"Rename one or set --{option}=NAME"
            )
        if loaded != "*" and name not in loaded:
            raise UserError(f"load_col: inter must name {name!r} ({option}) too, but names {loaded}")
        if columns[name] != kind:
            raise UserError(
                f"{path}, line 1: column {name!r} must be {name}:{kind}, but is {short(f'{name}:{columns[name]}')} "
                f"(columns are separated by {config['field_separator']!r}; --field_separator=... changes that)"
            )
    if not first_row.strip():
        raise UserError(f"{path} has a header but no interactions")


def check_feature_file(config: Config, path: str, field: str) -> None:
    """Refuse a .user or .item file that RecBole would read as something else than what it says.

    Where a line has more columns than the header, RecBole takes the first for the name of the row, and moves the rest.
    """
    separator = config["field_separator"]
    columns = _columns(path, _first_lines(config, path)[0], separator)
    from recbole.utils import FeatureType

    kinds = [kind.value for kind in FeatureType]
    if field not in columns:
        raise UserError(f"{path}, line 1: no column {field!r}; the columns are {short_list(columns)}")
    for name, kind in columns.items():
        if kind not in kinds:
            raise UserError(f"{path}, line 1: column {short(name)} must be of one of {kinds}, but is {short(kind)}")
    id_column, lines = list(columns).index(field), dict[str, int]()
    try:
        with _open(path, config["encoding"]) as file:
            rows = _split_lines(file, separator, path)
            next(rows)
            for line, fields in rows:
                if len(fields) > len(columns):
                    raise UserError(f"{path}, {_other_width(line, fields, len(columns), separator)}")
                name = fields[id_column] if id_column < len(fields) else ""
                if name not in MISSING and lines.setdefault(name, line) != line:
                    raise UserError(
                        f"{path}: {field} {short(name)} stands in lines {lines[name]} and {line}; leave one"
                    )
    except UnicodeDecodeError as error:
        raise _undecodable(path, error) from error
    except csv.Error as error:
        raise UserError(f"{path} cannot be read: {error}") from error


def _columns(path: str, header: str, separator: str) -> dict[str, str]:
    """Return the types of the columns by name."""
    named = [_column(path, text) for text in header.split(separator)]
    if len(dict(named)) < len(named):
        raise UserError(f"{path}, line 1: two columns have the same name: {short_list(name for name, _ in named)}")
    return dict(named)


def _first_lines(config: Config, path: str) -> tuple[str, str]:
    """Return the header and the first row."""
    try:
        with _open(path, config["encoding"]) as file:
            header, first_row = file.readline().rstrip("\r\n"), file.readline()
    except (UnicodeDecodeError, LookupError) as error:
        raise _undecodable(path, error) from error
    except _DAMAGED as error:
        raise _damaged(path, error) from error
    if header.startswith("\ufeff"):
        raise UserError(f"{path} begins with a byte order mark; save it without one, or pass --encoding=utf-8-sig")
    if not header:
        raise UserError(f"{path} is empty; its first line must name the columns, such as {_example(config)!r}")
    return header, first_row


def _open(path: str, encoding: str | None) -> TextIO:
    opener = gzip.open if path.endswith(".gz") else open
    return opener(path, "rt", encoding=encoding or "utf-8")


def _undecodable(path: str, error: Exception) -> UserError:
    return UserError(f"{path} cannot be decoded ({error}); name its encoding with --encoding=..., such as latin-1")


def _damaged(path: str, error: Exception) -> UserError:
    return UserError(f"{path} is damaged ({error}); download or compress it again")


def load_interactions(load: Callable[[str, str], None], dataset: Dataset, token: str, folder: str) -> None:
    """Load NAME.inter, or NAME.inter.gz if there is no NAME.inter, by RecBole's ``load(token, folder)``."""
    folder = folder_read(folder, dataset.config["conversion"])
    check_not_mapped(dataset.config, folder)
    packed, plain = Path(folder) / f"{token}.inter.gz", Path(folder) / f"{token}.inter"
    if dataset.benchmark_filename_list is not None or plain.is_file() or not packed.is_file():
        return load(token, folder)
    with tempfile.TemporaryDirectory() as temporary:
        try:
            with gzip.open(packed) as source, open(Path(temporary) / plain.name, "wb") as target:
                shutil.copyfileobj(source, target)
        except _DAMAGED as error:
            raise _damaged(str(packed), error) from error
        try:
            load(token, temporary)
        except UserError as error:
            raise UserError(str(error).replace(str(Path(temporary) / plain.name), str(packed))) from error
    return None


def check_not_mapped(config: Config, folder: str, reader: str | None = None) -> None:
    """Refuse a large log, which was not made into an atomic file."""
    if is_mapped(folder):
        raise UserError(
            f"data set {config['dataset']!r} is of a large log, sorted on the disk, where {', '.join(OUR_MODELS)} read "
            f"it; {reader or config['model']} needs an atomic file, FOLDER/NAME/NAME.inter, or a .csv file"
        )


def explain_load_failure(config: Config, folder: str, error: ValueError) -> NoReturn:
    """Find the line of the .inter file at which loading failed."""
    path = _inter_path(config, folder)
    if not os.path.isfile(path):
        raise UserError(_missing(config, folder)) from error
    try:
        mistake = _find_mistake(path, config["field_separator"], config["encoding"])
    except (UnicodeDecodeError, LookupError) as failure:
        raise _undecodable(path, failure) from error
    except csv.Error:  # such as a quote that is never closed
        mistake = None
    if mistake is not None:
        raise UserError(f"{path}, {mistake}") from error
    raise UserError(
        f"data set {config['dataset']!r} cannot be read from {folder}: {shorten(str(error), 300)}"
    ) from error


def _find_mistake(path: str, separator: str, encoding: str | None) -> str | None:
    """Describe the first value that is not a number in a column of numbers, or else the first line of another width."""
    wrong_width = None
    with _open(path, encoding) as file:
        rows = _split_lines(file, separator, path)
        _, header = next(rows)
        numbers = {index: text[: -len(":float")] for index, text in enumerate(header) if text.endswith(":float")}
        for line, fields in rows:
            if len(fields) != len(header):
                wrong_width = wrong_width or _other_width(line, fields, len(header), separator)
                continue
            for index, name in numbers.items():
                if not _is_number_or_missing(fields[index]):
                    return f"line {line}: column {name!r} must be a number, but is {short(fields[index])}"
    return wrong_width


def _other_width(line: int, fields: list[str], width: int, separator: str) -> str:
    """Say that a line has another number of columns than the header."""
    return (
        f"line {line}: the number of columns is {len(fields)}, but the header has {width}, separated by {separator!r}: "
        f"{short(separator.join(fields))}"
    )


def _split_lines(file: TextIO, separator: str, path: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the fields of each line that is not blank; longer separators are regular expressions."""
    if len(separator) == 1:
        quoting = csv.QUOTE_MINIMAL if has_quotes(Path(path)) else csv.QUOTE_NONE
        reader = csv.reader(file, delimiter=separator, quoting=quoting)  # type: ignore[arg-type]  # joined to int
        yield from ((reader.line_num, fields) for fields in reader if fields)
    else:
        lines = enumerate((line.rstrip("\r\n") for line in file), 1)
        yield from ((number, re.split(separator, line)) for number, line in lines if line)


def _is_number_or_missing(text: str) -> bool:
    if text in MISSING:
        return True
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # Python reads 1_000 as a number, other readers do not


def check_benchmark_files(config: Config, folder: str) -> None:
    """Refuse files of ``benchmark_filename`` that do not hold the history of each row."""
    history = config["ITEM_ID_FIELD"] + config["LIST_SUFFIX"]
    names = config["benchmark_filename"]
    if not isinstance(names, list) or len(names) != 3:
        raise UserError(f"benchmark_filename must name three files (train, valid, test), but is {names!r}")
    for name in names:
        path = os.path.join(folder, f"{config['dataset']}.{name}.inter")
        if not os.path.isfile(path):
            raise UserError(f"{path} does not exist (benchmark_filename: {names})")
        header, _ = _first_lines(config, path)
        columns = dict(_column(path, text) for text in header.split(config["field_separator"]))
        needed = {config["USER_ID_FIELD"]: "token", config["ITEM_ID_FIELD"]: "token", history: "token_seq"}
        for column, kind in needed.items():
            if columns.get(column) != kind:
                raise UserError(
                    f"{path}, line 1: benchmark files need a column {column}:{kind}, but the columns are "
                    f"{short_list(columns)}"
                )
    if config["candidates"] == "paper":
        raise UserError(
            "candidates: paper excludes all items of a user, but benchmark files do not hold them all; "
            "use candidates: recbole"
        )
    if history not in (config["alias_of_item_id"] or []):
        raise UserError(f"benchmark files need alias_of_item_id: [{history}], so that both columns name the same items")


def _missing(config: Config, folder: str) -> str:
    """Say that the folder is missing, and what was probably meant."""
    parent = os.path.dirname(os.path.normpath(folder))
    folders = [entry.name for entry in os.scandir(parent) if entry.is_dir()] if os.path.isdir(parent) else []
    near = nearest(config["dataset"], [*folders, "ml-100k"])
    hint = f" Did you mean --dataset={near}?" if near and near != config["dataset"] else ""
    if logs := [name for name in os.listdir() if data_set_name(name) == config["dataset"] and is_table(name)]:
        hint += f" A log is named with its ending: --dataset={min(logs)}."
    about = shipped("dataset") / f"{config['dataset']}.yaml"
    if about.is_file():
        hint += f" {about} says where it comes from."
    return (
        f"data set {config['dataset']!r}: folder {folder} does not exist.{hint} Put NAME.inter into "
        f"DATA_PATH/NAME/ and pass --data_path=DATA_PATH"
    )


def _inter_path(config: Config, folder: str) -> str:
    """Return the path of the .inter file, or of the .inter.gz file if only that exists."""
    path = os.path.join(folder, f"{config['dataset']}.inter")
    return path if os.path.isfile(path) or not os.path.isfile(f"{path}.gz") else f"{path}.gz"


def _example(config: Config) -> str:
    """Return a header that would do."""
    separator: str = config["field_separator"]
    return separator.join(
        [f"{config['USER_ID_FIELD']}:token", f"{config['ITEM_ID_FIELD']}:token", f"{config['TIME_FIELD']}:float"]
    )


def _column(path: str, text: str) -> tuple[str, str]:
    """Split ``NAME:TYPE``."""
    name, separator, kind = text.partition(":")
    if not separator:
        raise UserError(
            f"{path}, line 1: column {short(text)} must be written NAME:TYPE with TYPE token, float, token_seq "
            "or float_seq"
        )
    return name, kind
