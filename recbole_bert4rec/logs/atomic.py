"""Reads RecBole's atomic files, about twenty times as fast as RecBole does, and names a mistake in them in one line."""

from __future__ import annotations

import csv
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import csv as arrow_csv

from recbole_bert4rec.logs.conversion import folder_read, has_quotes
from recbole_bert4rec.logs.formats import (
    STAND_IN,
    UNREADABLE,
    check_encoding,
    data_set_name,
    is_table,
    open_bytes,
    open_text,
    unreadable,
)
from recbole_bert4rec.logs.mapped import is_mapped
from recbole_bert4rec.system.constants import OUR_MODELS
from recbole_bert4rec.system.environment import folder_of_recbole, shipped
from recbole_bert4rec.system.errors import UserError, nearest, short, short_list
from recbole_bert4rec.system.yaml_files import read_yaml

if TYPE_CHECKING:
    from recbole.config import Config
    from recbole.data.dataset import Dataset

_BLOCK = 1 << 26  # bytes read at once; each block has its own dictionary until all are unified
_MISSING = ["", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A"]
_MISSING += ["NA", "NULL", "NaN", "None", "n/a", "nan", "null"]
"""Texts that pandas reads as a missing value (documented under ``read_csv(na_values)``)."""
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*(e[+-]?\d+)?|\.\d+(e[+-]?\d+)?|inf|infinity)\s*", re.IGNORECASE)


# ---- reading


def reader_of(
    read_csv: Callable[..., pd.DataFrame], quoting: bool, ids: Collection[str]
) -> Callable[..., pd.DataFrame]:
    """Return a reader to which quotes are signs like others, or not; columns of ``ids`` may hold ``NA``."""

    def read(*arguments: object, **options: Any) -> pd.DataFrame:
        options["na_values"] = {column: [""] if column in ids else _MISSING for column in options["usecols"]}
        options["quoting"] = csv.QUOTE_MINIMAL if quoting else csv.QUOTE_NONE
        return read_csv(*arguments, keep_default_na=False, **options)

    return read


def read_columns(
    path: str,
    delimiter: str,
    usecols: list[str],
    dtype: dict[str, Any],
    na_values: Mapping[str, list[str]],
    quoting: int,
    encoding: str | None = None,
    **_: object,
) -> pd.DataFrame:
    """Read an atomic file as ``pandas.read_csv`` does when RecBole calls it."""
    kinds = {}
    for name in usecols:
        text = pa.dictionary(pa.int32(), pa.string()) if name.endswith(":token") else pa.string()
        kinds[name] = pa.float64() if dtype[name] is np.float64 else text
    table = arrow_csv.read_csv(
        path,
        read_options=arrow_csv.ReadOptions(block_size=_BLOCK, encoding=encoding or "utf8"),
        parse_options=arrow_csv.ParseOptions(
            delimiter=delimiter, quote_char=False if quoting == csv.QUOTE_NONE else '"'
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types=kinds, include_columns=usecols, null_values=_MISSING, strings_can_be_null=False
        ),
    )
    frame = table.unify_dictionaries().to_pandas(split_blocks=True, self_destruct=True)
    for name in usecols:
        column = frame[name]
        if isinstance(column.dtype, pd.CategoricalDtype):
            frame[name] = column.cat.remove_categories(column.cat.categories.intersection(na_values[name]))
        elif dtype[name] is str:
            frame[name] = column.mask(column.isin(na_values[name]))
        elif not column.to_numpy().flags.writeable:  # of one block of the file, where RecBole would fill gaps
            frame[name] = column.to_numpy().copy()
    return frame


def load_interactions(load: Callable[[str, str], None], dataset: Dataset, token: str, folder: str) -> None:
    """Load NAME.inter, or NAME.inter.gz if there is no NAME.inter, by RecBole's ``load(token, folder)``."""
    folder = folder_read(folder, dataset.config["conversion"])
    check_not_mapped(dataset.config, folder)
    packed, plain = Path(folder) / f"{token}.inter.gz", Path(folder) / f"{token}.inter"
    if dataset.benchmark_filename_list is not None or plain.is_file() or not packed.is_file():
        return load(token, folder)
    with tempfile.TemporaryDirectory() as temporary:
        unpacked = Path(temporary) / plain.name
        try:
            with open_bytes(packed) as source, unpacked.open("wb") as target:
                shutil.copyfileobj(source, target)
            load(token, temporary)
        except UNREADABLE as error:
            raise unreadable(packed, error, "") from error
        except UserError as error:
            raise UserError(str(error).replace(str(unpacked), str(packed))) from error
    return None


# ---- mistakes


def check_data_set(config: Config) -> None:
    """Refuse a data set that has no folder, and that RecBole does not download; say what was probably meant."""
    name, folder = config["dataset"], config["data_path"]
    downloads = folder_of_recbole() / "properties" / "dataset" / "url.yaml"
    if os.path.exists(folder) or name in read_yaml(str(downloads)):
        return
    parent = Path(folder).parent
    folders = [entry.name for entry in parent.iterdir() if entry.is_dir()] if parent.is_dir() else []
    near, hint = nearest(name, [*folders, "ml-100k"]), ""
    if near and near != name:
        hint = f" Did you mean --dataset={near}?"
    if logs := [log for log in os.listdir() if data_set_name(log) == name and is_table(log)]:
        hint += f" A log is named with its ending: --dataset={min(logs)}."
    about = shipped("dataset") / f"{name}.yaml"
    if about.is_file():
        hint += f" {about} says where it comes from."
    raise UserError(
        f"data set {name!r}: folder {folder} does not exist.{hint} Put NAME.inter into DATA_PATH/NAME/ and pass "
        "--data_path=DATA_PATH"
    )


def check_not_mapped(config: Config, folder: str, reader: str | None = None) -> None:
    """Refuse a large log, which was not made into an atomic file."""
    if is_mapped(folder):
        raise UserError(
            f"data set {config['dataset']!r} is of a large log, sorted on the disk, where {', '.join(OUR_MODELS)} read "
            f"it; {reader or config['model']} needs an atomic file, which is made where the log is named by its path"
        )


def check_inter_file(config: Config, folder: str) -> None:
    """Refuse a .inter file without rows or without the columns that a sequential model needs.

    A missing folder is allowed here, because RecBole may download the data set.
    """
    if not os.path.isdir(folder):
        return
    path = os.path.join(folder, f"{config['dataset']}.inter")
    if not os.path.isfile(path) and os.path.isfile(f"{path}.gz"):
        path += ".gz"
    kinds = {"USER_ID_FIELD": "token", "ITEM_ID_FIELD": "token", "TIME_FIELD": "float"}
    _check_header(config, path, {option: f"{config[option]}:{kind}" for option, kind in kinds.items()})
    loaded = "*" if config["load_col"] is None else config["load_col"].get("inter", [])
    for option in kinds:
        if loaded != "*" and config[option] not in loaded:
            raise UserError(f"load_col: inter must name {config[option]!r} ({option}) too, but names {loaded}")


def check_benchmark_files(config: Config, folder: str) -> None:
    """Refuse files of ``benchmark_filename`` that do not hold the history of each row."""
    user, item, names = config["USER_ID_FIELD"], config["ITEM_ID_FIELD"], config["benchmark_filename"]
    history = item + config["LIST_SUFFIX"]
    if not isinstance(names, list) or len(names) != 3:
        raise UserError(f"benchmark_filename must name three files (train, valid, test), but is {names!r}")
    for name in names:
        path = os.path.join(folder, f"{config['dataset']}.{name}.inter")
        needed = {"USER_ID_FIELD": f"{user}:token", "ITEM_ID_FIELD": f"{item}:token"}
        _check_header(config, path, {**needed, "LIST_SUFFIX": f"{history}:token_seq"})
    if config["candidates"] == "paper":
        raise UserError(
            "candidates: paper excludes all items of a user, but benchmark files do not hold them all; "
            "use candidates: recbole"
        )
    if history not in (config["alias_of_item_id"] or []):
        raise UserError(f"benchmark files need alias_of_item_id: [{history}], so that both columns name the same items")


def _check_header(config: Config, path: str, needed: Mapping[str, str]) -> dict[str, str]:
    """Return the types of the columns by name; ``needed`` holds columns such as ``item_id:token`` by option."""
    separator = config["field_separator"]
    with _opened(config, path) as file:
        header, first_row = file.readline().rstrip("\r\n"), file.readline()
    if header.startswith("\ufeff"):
        raise UserError(f"{path} begins with a byte order mark; save it without one, or pass --encoding=utf-8-sig")
    texts = header.split(separator)
    for text in texts:
        if ":" not in text:
            raise UserError(
                f"{path}, line 1: column {short(text)} must be written NAME:TYPE with TYPE token, float, token_seq or "
                f"float_seq, such as item_id:token (columns are separated by {separator!r})"
            )
    columns = {name: kind for name, _, kind in (text.partition(":") for text in texts)}
    if len(columns) < len(texts):
        raise UserError(f"{path}, line 1: two columns have the same name: {short_list(texts)}")
    for option, column in needed.items():
        if column not in texts:
            raise UserError(
                f"{path}, line 1: no column {column!r} ({option}); the columns are {short_list(texts)}, "
                f"separated by {separator!r}. Rename one, or set --{option}=... or --field_separator=..."
            )
    if needed and not first_row.strip():
        raise UserError(f"{path} has a header but no rows")
    return columns


def check_rows(config: Config, path: str, field: str | None = None, numbers: bool = False) -> None:
    """Refuse a line of another width than the header, two rows with one ``field``, and texts in columns of ``numbers``.

    RecBole takes the first value of a longer line for the name of the row, and moves the rest. Lines of features, whose
    id is ``field``, may be shorter.
    """
    needed = {option: f"{field}:token" for option in ("USER_ID_FIELD", "ITEM_ID_FIELD") if config[option] == field}
    separator, columns = config["field_separator"], _check_header(config, path, needed)
    sign = separator if len(separator) == 1 else STAND_IN  # RecBole's are regular expressions
    quoting: Any = csv.QUOTE_MINIMAL if has_quotes(Path(path)) else csv.QUOTE_NONE
    first_lines: dict[str, int] = {}
    with _opened(config, path) as file:
        lines = file if sign == separator else (re.sub(separator, sign, line) for line in file)
        reader = csv.reader(lines, delimiter=sign, quoting=quoting)
        next(reader)
        for values in reader:
            if len(values) > len(columns) or (field is None and 0 < len(values) < len(columns)):
                raise UserError(
                    f"{path}, line {reader.line_num}: the number of columns is {len(values)}, but the header has "
                    f"{len(columns)}, separated by {separator!r}: {short(separator.join(values))}"
                )
            for (name, kind), value in zip(columns.items(), values, strict=False):
                if value in _MISSING:
                    continue
                if numbers and kind == "float" and not _NUMBER.fullmatch(value):
                    raise UserError(
                        f"{path}, line {reader.line_num}: column {name!r} must be a number, but is {short(value)}"
                    )
                if name == field and (first := first_lines.setdefault(value, reader.line_num)) != reader.line_num:
                    raise UserError(
                        f"{path}: {field} {short(value)} stands in lines {first} and {reader.line_num}; leave one"
                    )


@contextmanager
def _opened(config: Config, path: str) -> Iterator[TextIO]:
    encoding = config["encoding"] or "utf-8"
    check_encoding(encoding)
    try:
        with open_text(Path(path), encoding) as file:
            yield file
    except UNREADABLE as error:
        raise unreadable(Path(path), error, encoding) from error
