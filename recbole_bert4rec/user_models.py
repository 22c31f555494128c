"""Models of the user's own: subclasses of BERT4Rec or of any class of RecBole's models, found by their names.

RecBole looks models up by name. A class of the user's is known as soon as the user gives it, or writes
``module:Class`` on the command line or in Python. A file that names one imports nothing: a module is a program.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import re
import sys
from pathlib import Path
from typing import TypeGuard

from recbole_bert4rec.constants import MODEL_NAME, OUR_MODELS, RIVAL, STOCK_MODEL_NAME
from recbole_bert4rec.errors import UserError, nearest, short
from recbole_bert4rec.options.known import READ
from recbole_bert4rec.workers import reason_of

_KNOWN: dict[str, type] = {}
"""The classes that the user has named in this process, by their names."""
_OTHERS = {"recbole", "recbole_bert4rec", "torch", *sys.stdlib_module_names} - {"__main__"}
"""Packages whose classes are nobody's own model."""


def known_as(model: str | type) -> str:
    """Return the name by which RecBole finds a model; one of the user's own is known from now on.

    Args:
        model: a class; ``module:Class``, which is imported, from the current folder too; or a name, which is returned.

    Raises:
        UserError: the module cannot be imported, has no such class, or the class is no model of RecBole.
    """
    if isinstance(model, str):
        if ":" not in model:
            return model
        found, said = _imported(model), model
    else:
        found, said = model, f"model={short(model)}"
    if isinstance(found, type) and (name := _name_in_recbole(found)) is not None:
        return name
    if not _is_model(found):
        raise UserError(f"{said} is no model of RecBole; a model is a subclass of BERT4Rec or of a model of RecBole")
    if found.__name__ in known_models() - _KNOWN.keys():
        raise UserError(f"{said} has the name of another model, and records would not tell the two apart; rename it")
    _KNOWN[found.__name__] = found
    return found.__name__


def named_in_file(model: str, where: str) -> str:
    """Return the name of a model that a file names, without importing anything.

    Args:
        model: as it stands in the file.
        where: the file, for the message.

    Raises:
        UserError: it is a class that the user has not named.
    """
    name = class_name(model)
    if ":" in model and name not in _KNOWN:
        raise UserError(
            f"{where} names the model {model}; importing it runs its module, so name it yourself: --model={model}, or "
            "model=CLASS in Python"
        )
    return name


def class_name(model: str) -> str:
    """Return the name of a class that may be written ``module:Class``."""
    return model.rpartition(":")[2]


def class_of(name: str) -> type | None:
    """Return a class of the user's own by its name; None for other models."""
    return _KNOWN.get(name)


def known_models() -> set[str]:
    """Return the names of all models: RecBole's, this package's, and those that the user has named."""
    from recbole_bert4rec.options.recboles import models_of_recbole  # reads YAML, which `load` does without

    return {*models_of_recbole(), STOCK_MODEL_NAME, RIVAL, *OUR_MODELS, *_KNOWN}


def parent_of(name: str) -> str:
    """Return the nearest model of RecBole or of this package that a model comes from, or else its own name."""
    lineage = _KNOWN[name].__mro__ if name in _KNOWN else ()
    return next(filter(None, map(_name_in_recbole, lineage)), name)


def is_ours(name: str) -> bool:
    """Tell whether a model is BERT4Rec, under one of its names or as a subclass."""
    return parent_of(name) in OUR_MODELS


def source_of(name: str) -> str:
    """Return ``module:Class`` of a model of the user's own, as a checkpoint has it; other names as they are."""
    found = _KNOWN.get(name)
    return name if found is None else f"{found.__module__}:{name}"


def importable(model: str | type) -> str:
    """Return what names a model in another process: ``module:Class``, or the name of a model of RecBole.

    Raises:
        UserError: only this process has the class.
    """
    name = known_as(model)
    found = _KNOWN.get(name)
    if found is not None and (found.__module__ == "__main__" or found.__qualname__ != name):
        raise UserError(
            f"the processes of a comparison or a search cannot import {name} from a notebook, a program or a function; "
            "put the class into a module of its own"
        )
    return source_of(name)


def property_files(name: str) -> list[Path]:
    """Return the user's own files of defaults: ``CLASS.yaml`` beside the module of each class, the parents' first."""
    files = [Path(file).with_name(f"{one.__name__}.yaml") for one in _own_classes(name) if (file := _file_of(one))]
    return [file for file in reversed(files) if file.is_file()]


def options_read_by(name: str) -> set[str]:
    """Collect the options that the code of a user's model reads as ``config["option"]``."""
    return {option for one in _own_classes(name) for option in re.findall(READ, _source(one))}


def digest_of_code(name: str) -> str | None:
    """Return a digest of the code of a user's own model; None for other models."""
    sources = [_source(one) for one in _own_classes(name)]
    return hashlib.sha256("\0".join(sources).encode()).hexdigest() if sources else None


def _own_classes(name: str) -> list[type]:
    """Return what a user's model is made of, itself first, without RecBole's classes, torch's and ours."""
    lineage = _KNOWN[name].__mro__ if name in _KNOWN else ()
    return [one for one in lineage if one.__module__.partition(".")[0] not in _OTHERS]


def _file_of(one: type) -> str | None:
    return getattr(sys.modules.get(one.__module__), "__file__", None)


def _source(one: type) -> str:
    try:
        return inspect.getsource(one)
    except (OSError, TypeError):  # typed at a prompt
        return ""


def _name_in_recbole(one: type) -> str | None:
    """Return the name by which RecBole finds a class of its own or of this package; None for other classes."""
    package, _, module = one.__module__.rpartition(".")
    if package == "recbole_bert4rec.plugin" and one.__name__ in (*OUR_MODELS, RIVAL):
        return one.__name__
    if package.startswith("recbole.model.") and module == one.__name__.lower():
        return STOCK_MODEL_NAME if one.__name__ == MODEL_NAME else one.__name__
    return None


def _is_model(found: object) -> TypeGuard[type]:
    from recbole.model import abstract_recommender  # this file serves `load`, too, which works without RecBole

    abstract = abstract_recommender.AbstractRecommender
    return isinstance(found, type) and issubclass(found, abstract) and found.__module__ != abstract.__module__


def _imported(named: str) -> object:
    """Return what ``module:Class`` names."""
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
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
            instead = _modules_in(folder, module_name)
            raise UserError(f"--model={named}: there is no module {error.name}{instead}") from error
        raise UserError(f"--model={named}: {module_name} cannot be imported: {reason_of(error)}") from error
    if hasattr(module, name):
        return getattr(module, name)
    own = [word for word, value in vars(module).items() if _is_model(value) and value.__module__ == module.__name__]
    near = nearest(name, own)
    hint = f"did you mean {near}?" if near else f"its models are {', '.join(own) or 'none'}"
    raise UserError(f"--model={named}: {module_name} has no {name}; {hint}")


def _modules_in(folder: str, wanted: str) -> str:
    """Say which modules there are instead of one that is not."""
    there = sorted(file.stem for file in Path(folder).glob("*.py"))
    near = nearest(wanted, there)
    if near:
        return f"; did you mean {near}?"
    return f", neither installed nor in {folder}, whose modules are {', '.join(there) or 'none'}"
