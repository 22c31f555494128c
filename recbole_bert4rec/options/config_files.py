"""Options as users write them in a YAML file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.yaml_files import read_yaml


def read_options(file: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of a configuration file, which may not trust pickles; a dictionary is returned as it is."""
    if isinstance(file, Mapping):
        return file
    options = read_yaml(file)
    if "trust_pickles" in options:
        raise UserError(f"{file} sets `trust_pickles`; a file may come from elsewhere: say it on the command line")
    return options
