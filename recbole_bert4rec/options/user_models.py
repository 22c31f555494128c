"""Users' own models: subclasses of BERT4Rec or of any model of RecBole, found by their names.

RecBole looks models up by name. A user's class is known as soon as the user gives it, or writes ``module:Class`` on
the command line or in Python. A file that names a class imports nothing: importing a module runs it.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import TypeGuard

from recbole_bert4rec.system.constants import MODEL_NAME, OUR_MODELS, STOCK_MODEL_NAME
from recbole_bert4rec.system.environment import folder_of_recbole
from recbole_bert4rec.system.errors import UserError, reason_of, short

SHIPPED = dict.fromkeys(("GRU4RecPlus", "Transitions"), "recbole_bert4rec.plugin.baselines")
"""Modules of the package's models besides BERT4Rec, which have RecBole's trainer and checkpoints."""
_KNOWN: dict[str, type] = {}
"""The classes that the user has named in this process, by name; none has the name of another model."""
Model = str | type
"""A model by its name or its class; a user's own class may have the name of a model of RecBole."""
_OTHERS = {"recbole", "recbole_bert4rec", "torch", *sys.stdlib_module_names} - {"__main__"}
"""Packages whose classes are not users' own models."""


def known_as(model: Model) -> str:
    """Return the name by which RecBole finds a model; a user's own class is known from now on."""
    return class_name(chosen(model))


def chosen(model: Model) -> Model:
    """Return the class of a user's own model, given or written as ``module:Class``, or else RecBole's name of it."""
    if isinstance(model, str) and ":" not in model:
        return _KNOWN.get(model, model)
    model_class = _imported(model) if isinstance(model, str) else model
    if isinstance(model_class, type) and (name := _name_in_recbole(model_class)) is not None:
        return name
    if not _is_model(model_class):
        named = model if isinstance(model, str) else f"model={short(model)}"
        raise UserError(f"{named} is not a model of RecBole; a model is a subclass of BERT4Rec or of one of RecBole's")
    if model_class.__name__ not in models_of_others():
        _KNOWN[model_class.__name__] = model_class
    return model_class


def named_in_file(model: str, where: str) -> Model:
    """Return the class of a model that a file names, or RecBole's name of it, without importing anything."""
    name = class_name(model)
    if ":" in model and name not in _KNOWN:
        raise UserError(
            f"{where} names the model {model}; importing it runs its module, so name it yourself: --model={model}, or "
            "model=CLASS in Python"
        )
    return _KNOWN.get(name, name)


def class_name(model: Model) -> str:
    """Return the name of a class that may be written ``module:Class``."""
    return model.rpartition(":")[2] if isinstance(model, str) else model.__name__


def known_models() -> set[str]:
    """Return the names of all models: RecBole's, this package's, and those that the user has named."""
    return {*models_of_others(), *_KNOWN}


def models_of_others() -> set[str]:
    """Return the names of RecBole's models and of this package's."""
    files = (folder_of_recbole() / "properties" / "model").iterdir()
    return {*(file.stem for file in files), STOCK_MODEL_NAME, *SHIPPED, *OUR_MODELS}


def _lineage(model: Model) -> tuple[type, ...]:
    model = _KNOWN.get(model, model) if isinstance(model, str) else model
    return () if isinstance(model, str) else model.__mro__


def parent_of(model: Model) -> str:
    """Return the nearest model of RecBole or of this package that a model comes from, or else its own name."""
    return next(filter(None, map(_name_in_recbole, _lineage(model))), class_name(model))


def is_ours(model: Model) -> bool:
    """Tell whether a model is BERT4Rec, under one of its names, or a subclass; the name of a class does not count."""
    lineage = _lineage(model)
    return any(_name_in_recbole(parent) in OUR_MODELS for parent in lineage) if lineage else model in OUR_MODELS


def source_of(model: Model) -> str:
    """Return ``module:Class`` of a user's own model, as a checkpoint stores it, and the name of any other model."""
    name, lineage = class_name(model), _lineage(model)
    is_named = not lineage or _name_in_recbole(lineage[0]) is not None
    return name if is_named else f"{lineage[0].__module__}:{name}"


def importable(model: Model) -> str:
    """Return the name by which another process finds a model: :func:`source_of`, if that can be imported."""
    model = chosen(model)
    if isinstance(model, type) and (model.__module__ == "__main__" or model.__qualname__ != model.__name__):
        raise UserError(
            f"the processes of a comparison or a search cannot import {model.__name__} from a notebook, a program or a "
            "function; put the class into a module of its own"
        )
    return source_of(model)


def property_files(model: Model) -> list[Path]:
    """Return the user's files of defaults: ``CLASS.yaml`` beside the module of each class, the parents' first."""
    modules = ((parent, getattr(sys.modules.get(parent.__module__), "__file__", None)) for parent in _own(model))
    files = (Path(file).with_name(f"{parent.__name__}.yaml") for parent, file in modules if file)
    return [file for file in files if file.is_file()][::-1]


def options_read_by(model: Model) -> set[str]:
    """Collect the options that the code of a user's model reads as ``config["option"]``."""
    return {name for source in _sources(model) for name in re.findall(r"config\[[\"'](\w+)[\"']\]", source)}


def digest_of_code(model: Model) -> str | None:
    """Return a digest of the code of a user's own model; None for other models."""
    sources = _sources(model)
    return hashlib.sha256("\0".join(sources).encode()).hexdigest() if sources else None


def _own(model: Model) -> list[type]:
    """Return a user's model and its parents, without classes of RecBole, torch and this package."""
    return [parent for parent in _lineage(model) if parent.__module__.partition(".")[0] not in _OTHERS]


def _sources(model: Model) -> list[str]:
    sources = []
    for parent in _own(model):
        with suppress(OSError, TypeError):  # typed at a prompt
            sources.append(inspect.getsource(parent))
    return sources


def _name_in_recbole(model_class: type) -> str | None:
    """Return the name by which RecBole finds a class of RecBole or of this package; None for other classes."""
    package, _, module = model_class.__module__.rpartition(".")
    if package == "recbole_bert4rec.plugin" and model_class.__name__ in (*OUR_MODELS, *SHIPPED):
        return model_class.__name__
    if package.startswith("recbole.model.") and module == model_class.__name__.lower():
        return STOCK_MODEL_NAME if model_class.__name__ == MODEL_NAME else model_class.__name__
    return None


def _is_model(value: object) -> TypeGuard[type]:
    from recbole.model import abstract_recommender  # here, for `load` imports this module without RecBole

    abstract = abstract_recommender.AbstractRecommender
    return isinstance(value, type) and issubclass(value, abstract) and value.__module__ != abstract.__module__


def _imported(named: str) -> object:
    """Import the class that ``module:Class`` names."""
    if not re.fullmatch(r"\w+(\.\w+)*:\w+", named):
        raise UserError(f"--model={named} must be the name of a model, or MODULE:CLASS such as my_package.models:Mine")
    module_name, name = named.split(":")
    folder = os.getcwd()
    if not {"", folder} & {*sys.path}:  # as `python -m` has it
        sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise UserError(
            f"--model={named}: {module_name}, installed or in {folder}, cannot be imported: {reason_of(error)}"
        ) from error
    if hasattr(module, name):
        return getattr(module, name)
    models = [word for word, value in vars(module).items() if _is_model(value) and value.__module__ == module.__name__]
    raise UserError(f"--model={named}: {module_name} has no {name}; its models are {', '.join(models) or 'none'}")
