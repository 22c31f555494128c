"""The user's own models in our programs: by their class, or as ``module:Class``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from recbole.config import Config
from recbole.trainer import Trainer
from recbole.utils import ModelType

from recbole_bert4rec.options.user_models import chosen, class_of, named_in_file, parent_of
from recbole_bert4rec.plugin.patches.patch import policy

if TYPE_CHECKING:
    from recbole.model.abstract_recommender import AbstractRecommender


def get_model(original: Callable[[str], Any], model_name: str) -> Any:
    """Return the class of a model, also of the user's own, by its name."""
    return class_of(model_name) or original(model_name)


def get_trainer(original: Callable[[ModelType, str], type[Trainer]], model_type: ModelType, model_name: str) -> Any:
    """Return the trainer of a model; a user's own model has that of its parent."""
    return original(model_type, parent_of(model_name))


def get_model_and_dataset(
    original: Callable[..., tuple[str, type[AbstractRecommender], str]],
    self: Config,
    model: str | type[AbstractRecommender] | None,
    dataset: str | None,
) -> tuple[str, type[AbstractRecommender], str]:
    """Accept a class, or ``module:Class`` from the user; a name in a file imports nothing."""
    if model is None:
        model = {**self.variable_config_dict, **self.cmd_config_dict}.get("model")
    if model is None and "model" in self.file_config_dict:
        model = named_in_file(str(self.file_config_dict["model"]), "a configuration file")
    elif model is not None:
        model = chosen(model)
    return original(self, model, dataset)


PATCHES = (
    policy(
        "recbole.config.configurator:Config",
        "_get_model_and_dataset",
        get_model_and_dataset,
        "RecBole knows no `module:Class` (configurator.py:198).",
    ),
    policy(
        "recbole.utils.utils",
        "get_model",
        get_model,
        "RecBole finds a model in its own packages alone (utils.py:55).",
    ),
    policy(
        "recbole.utils.utils",
        "get_trainer",
        get_trainer,
        "RecBole finds a trainer by the name of the model, which a subclass does not share (utils.py:88).",
    ),
)
