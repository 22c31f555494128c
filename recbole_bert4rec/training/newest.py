"""Finds the checkpoint that ``--resume`` means if it names none: the newest one of the folder that fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from logging import getLogger
from pathlib import Path
from typing import Any

from recbole_bert4rec import checkpoints
from recbole_bert4rec.checkpoints import ForeignFileError, Opened
from recbole_bert4rec.logs.formats import is_table
from recbole_bert4rec.options.kinds import AUTO, literal
from recbole_bert4rec.options.table import WITHOUT_EFFECT
from recbole_bert4rec.options.user_models import class_name
from recbole_bert4rec.system.constants import MODEL_NAME
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.inputs import named_model, refuse_other_models
from recbole_bert4rec.training.request import RunRequest

_FOLDER = "saved"
"""RecBole's default."""
_MAY_CHANGE = {*WITHOUT_EFFECT, "epochs", "stopping_step", "model", "dataset"}
"""Options that may have other values when a run goes on."""


def newest_checkpoint(request: RunRequest) -> Opened | None:
    """Return the newest checkpoint in ``checkpoint_dir`` of a run that the request can go on with."""
    options = _options_of(request)
    refuse_other_models("--resume", options.get("model", MODEL_NAME))
    folder = Path(str(options.get("checkpoint_dir", _FOLDER)))
    refused: list[str] = []
    for opened in runs_in(folder):
        config = opened.state["config"]
        stored = {**config, "model": class_name(config["model"])}
        if any(options.get(name, stored.get(name)) != stored.get(name) for name in ("model", "dataset", "warm_start")):
            continue
        matter = [name for name in options if name in stored and name not in _MAY_CHANGE]
        changed = [name for name in matter if not _same(options[name], stored[name])]
        if not changed:
            return _furthest(opened)
        refused.append(f"{opened.path} has {', '.join(f'{name}={stored.get(name)!r}' for name in changed)}")
    other = f" with these options: {refused[0]}" if refused else ""
    getLogger().warning(f"--resume finds no run in {folder}{other}; a new one begins")
    return None


def _furthest(opened: Opened) -> Opened:
    """Return the last state of a checkpoint's run if it is further; after a clock was set back it may look older."""
    last = checkpoints.last_of(opened.path)
    if last == opened.path or not Path(last).is_file():
        return opened
    try:
        return max(Opened(last, checkpoints.read(last)), opened, key=lambda one: one.state["epoch"])
    except UserError:  # a damaged one
        return opened


def _same(value: object, stored: object) -> bool:
    """Tell whether an option has the value of a checkpoint; of a dictionary, the user may have named a part."""
    if value == AUTO:
        return True
    if isinstance(value, Mapping) and isinstance(stored, Mapping):
        return all(name in stored and _same(part, stored[name]) for name, part in value.items())
    if isinstance(stored, list) and not isinstance(value, (list, tuple)):
        value = [value]
    if isinstance(value, tuple):
        value = list(value)
    return value == stored or str(value) == str(stored)


def runs_in(folder: Path) -> Iterator[Opened]:
    """Give the checkpoints of a folder, the newest first.

    Damaged ones are named in the log and left out, as are those of RecBole's other models.
    """
    for file in sorted(folder.glob("*.pth"), key=lambda file: file.stat().st_mtime, reverse=True):
        try:
            yield Opened(str(file), checkpoints.read(file))
        except ForeignFileError:
            continue
        except UserError as error:
            getLogger().warning(f"not resumed: {error}")


def _options_of(request: RunRequest) -> dict[str, Any]:
    """Return the options of the user; model and data set by their names."""
    layers = request.layers()
    spoken = {name: literal(value) if isinstance(value, str) else value for name, value in layers.spoken.items()}
    options = {**layers.in_files, **spoken}
    if (model := named_model(request, layers)) is not None:
        options["model"] = class_name(model)
    if request.dataset is not None:
        options["dataset"] = request.dataset
    if is_table(str(options.get("dataset", ""))):
        options["dataset"] = Path(str(options["dataset"])).stem
    return options
