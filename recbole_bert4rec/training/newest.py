"""Which checkpoint ``--resume`` means where it names none: the newest one of the folder that fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from logging import getLogger
from pathlib import Path
from typing import Any

from recbole_bert4rec.checkpoints import checkpoint
from recbole_bert4rec.checkpoints.checkpoint import Opened
from recbole_bert4rec.checkpoints.sealed import ForeignFileError
from recbole_bert4rec.logs.table import is_table
from recbole_bert4rec.options.flags import literal
from recbole_bert4rec.options.kinds import AUTO
from recbole_bert4rec.options.table import WITHOUT_EFFECT
from recbole_bert4rec.options.user_models import class_name
from recbole_bert4rec.system.constants import MODEL_NAME
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.inputs import check_ours, named_model
from recbole_bert4rec.training.request import RunRequest

_FOLDER = "saved"
"""RecBole's default."""
_MAY_CHANGE = {*WITHOUT_EFFECT, "epochs", "stopping_step", "model", "dataset"}
"""Options that a run may go on with other values of."""


def newest_checkpoint(request: RunRequest) -> Opened | None:
    """Return the newest checkpoint in ``checkpoint_dir`` of a run that the request can go on with.

    Args:
        request: its model, data set and options must be the checkpoint's, where they are given.

    Returns:
        The last state, or that of the best epoch; None where there is no such run.
    """
    given = _given(request)
    check_ours("--resume", given.get("model", MODEL_NAME))
    folder = Path(str(given.get("checkpoint_dir", _FOLDER)))
    refused: list[str] = []
    for found in runs_in(folder):
        config = found.state["config"]
        stored = {**config, "model": class_name(config["model"])}
        if any(given.get(name, stored.get(name)) != stored.get(name) for name in ("model", "dataset", "warm_start")):
            continue
        matter = [name for name in given if name in stored and name not in _MAY_CHANGE]
        changed = [name for name in matter if not _same(given[name], stored[name])]
        if not changed:
            return _furthest(found)
        refused.append(f"{found.path} has {', '.join(f'{name}={stored.get(name)!r}' for name in changed)}")
    other = f" with these options: {refused[0]}" if refused else ""
    getLogger().warning(f"--resume finds no run in {folder}{other}; a new one begins")
    return None


def _furthest(found: Opened) -> Opened:
    """Return the last state of a file's run where that is further; a clock that was set back makes it look older."""
    last = checkpoint.last_of(found.path)
    if last == found.path or not Path(last).is_file():
        return found
    try:
        return max(found, Opened(last, checkpoint.read(last)), key=_progress)
    except UserError:  # a damaged one
        return found


def _progress(found: Opened) -> tuple[int, int]:
    return found.state["epoch"], found.state.get("middle", {}).get("batches", 0)


def _same(given: object, stored: object) -> bool:
    """Tell whether an option has the value of a checkpoint, where the user may have written a part of it alone."""
    if given == AUTO:
        return True
    if isinstance(given, Mapping) and isinstance(stored, Mapping):
        return all(name in stored and _same(value, stored[name]) for name, value in given.items())
    if isinstance(stored, list) and not isinstance(given, (list, tuple)):
        given = [given]
    if isinstance(given, tuple):
        given = list(given)
    return given == stored or str(given) == str(stored)


def runs_in(folder: Path) -> Iterator[Opened]:
    """Give the checkpoints of a folder, the newest first.

    Damaged ones are named in the log and left out, as are those of RecBole's other models.
    """
    for file in sorted(folder.glob("*.pth"), key=lambda file: file.stat().st_mtime, reverse=True):
        try:
            yield Opened(str(file), checkpoint.read(file))
        except ForeignFileError:
            continue
        except UserError as error:
            getLogger().warning(f"not resumed: {error}")


def _given(request: RunRequest) -> dict[str, Any]:
    """Return the options that the user wrote; model and data set by their names."""
    layers = request.layers()
    spoken = {name: literal(value) if isinstance(value, str) else value for name, value in layers.spoken.items()}
    given = {**layers.in_files, **spoken}
    if (model := named_model(request, layers)) is not None:
        given["model"] = class_name(model)
    if request.dataset is not None:
        given["dataset"] = request.dataset
    if is_table(str(given.get("dataset", ""))):
        given["dataset"] = Path(str(given["dataset"])).stem
    return given
