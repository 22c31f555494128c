"""How the programs of this package read options, for models of RecBole too: texts, files, names, defaults, device."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from recbole.config import Config
from recbole.utils import ModelType

from recbole_bert4rec.options.checks import mistakes_of_another_model, read_options, unknown_names
from recbole_bert4rec.options.kinds import literal
from recbole_bert4rec.plugin.configuring import (
    choose_device,
    complete_split,
    lay_defaults,
    load_times,
    no_negatives_with_softmax,
    understood,
    warn_of_no_effect,
)
from recbole_bert4rec.plugin.effects import known_to
from recbole_bert4rec.plugin.global_split import asks_for_global_time
from recbole_bert4rec.plugin.layered_config import refuse
from recbole_bert4rec.plugin.patches.patch import policy
from recbole_bert4rec.plugin.patches.registration import is_of_this_package
from recbole_bert4rec.system.constants import NAMES_OF_COLUMNS

if TYPE_CHECKING:
    from recbole.model.abstract_recommender import AbstractRecommender


def load_config_files(
    original: Callable[[Config, list[str] | None], dict[str, Any]], self: Config, file_list: list[str] | None
) -> dict[str, Any]:
    """Refuse a configuration file that is not a dictionary of plain values, names a key twice, or trusts pickles."""
    for path in file_list or []:
        read_options(path)
    return original(self, file_list)


def convert_texts(original: Callable[..., Any], self: Config, config_dict: dict[str, Any]) -> dict[str, Any]:
    """Turn texts into the Python values that they spell; RecBole would run them as programs.

    The name of a column stays a text, whatever it spells.
    """
    for key, value in config_dict.items():
        if isinstance(value, str):
            parsed = literal(value)
            is_name = key in NAMES_OF_COLUMNS and isinstance(parsed, (bool, int, float))
            config_dict[key] = value if is_name else parsed
    return config_dict


def load_defaults(
    original: Callable[..., None], self: Config, name: str, model_class: type[AbstractRecommender], dataset: str
) -> None:
    """Give a user's own model the defaults of its parent and of its file, and a sequential one its times."""
    if is_of_this_package(self):
        return original(self, name, model_class, dataset)  # registration does it
    lay_defaults(original, self, name, model_class, dataset)
    if model_class.type == ModelType.SEQUENTIAL:
        no_negatives_with_softmax(self)
        load_times(self)
    elif asks_for_global_time(self.external_config_dict.get("eval_args")):
        load_times(self)
    return None


def check_options(original: Callable[[Config], None], self: Config) -> None:
    """Check the options of RecBole's models, complete their split, and name what nobody reads.

    In our programs an unknown name is an error, elsewhere a warning.
    """
    if is_of_this_package(self):
        return original(self)
    final = self.final_config_dict
    if final["MODEL_TYPE"] == ModelType.SEQUENTIAL:
        complete_split(self)
    written = understood(self)
    mistakes = mistakes_of_another_model(final, written)
    unknown = [] if final.get("allow_unknown") else unknown_names(written, known_to(self))
    refuse(self, mistakes + unknown)
    warn_of_no_effect(self)
    choose_device(self)
    return original(self)


PATCHES = (
    policy(
        "recbole.config.configurator:Config",
        "_load_config_files",
        load_config_files,
        "A mistake in a YAML file is said in one line, with the file (configurator.py:149).",
    ),
    policy(
        "recbole.config.configurator:Config",
        "_convert_config_dict",
        convert_texts,
        "RecBole runs every text of the command line and of dictionaries as a program (configurator.py:131).",
    ),
    policy(
        "recbole.config.configurator:Config",
        "_load_internal_config_dict",
        load_defaults,
        "A user's own model has its parent's defaults; a sequential one loads its times, and has no sampled negatives "
        "with CE, which RecBole would refuse (configurator.py:242).",
    ),
    policy(
        "recbole.config.configurator:Config",
        "_set_default_parameters",
        check_options,
        "Options are checked, and an unknown name is a mistake; sequential models get the split that RecBole demands "
        "(configurator.py:327).",
    ),
)
