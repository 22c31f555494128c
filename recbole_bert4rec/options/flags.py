"""Options as users write them: ``--name=value`` on a command line, or a YAML file of them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Any

from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.yaml_files import read_yaml


def parse_flags(flags: Iterable[str]) -> dict[str, str]:
    """Return the value of each option by its name, as text; of an option that is given twice, the last.

    Args:
        flags: words of a command line. Those that are not written ``--name=value`` are left out.
    """
    return dict(flag[2:].split("=", 1) for flag in flags if flag.startswith("--") and "=" in flag)


def literal(text: str) -> Any:
    """Return the Python value that a text spells; the text itself where it spells none.

    Numbers, texts in quotes, lists, tuples, dictionaries, None and booleans (in lower case too) are read.
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
    # the types that RecBole lets through; bytes, sets, complex numbers and `...` stay texts
    return value if value is None or isinstance(value, (str, int, float, list, tuple, dict)) else text


def read_options(file: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of a configuration file; those that stand in no file are returned as they are.

    Raises:
        UserError: it is no dictionary of plain values, names a key twice, or trusts pickles.
    """
    if isinstance(file, Mapping):
        return file
    options = read_yaml(file)
    if "trust_pickles" in options:
        raise UserError(f"{file} sets `trust_pickles`; a file may come from elsewhere: say it on the command line")
    return options
