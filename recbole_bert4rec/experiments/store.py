"""A folder of runs: each is made once, in a process of its own, and answers at once when it is asked for again."""

from __future__ import annotations

import glob
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from recbole.config import Config

from recbole_bert4rec.checkpoints import is_plain, last_of
from recbole_bert4rec.logs.items import digests
from recbole_bert4rec.options.table import WITHOUT_EFFECT
from recbole_bert4rec.options.user_models import digest_of_code
from recbole_bert4rec.plugin.config import Layers, PluginConfig, without_effect
from recbole_bert4rec.system.environment import environment, find_config, suppress_dependency_warnings
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.files import digest_of
from recbole_bert4rec.system.processes import FailedError, in_own_process
from recbole_bert4rec.system.yaml_files import read_yaml
from recbole_bert4rec.training.inputs import begun_training
from recbole_bert4rec.training.record import counted, read_record
from recbole_bert4rec.training.run import run
from recbole_bert4rec.training.screen import silence

Watch = Callable[[dict[str, Any]], None]
"""Is called with the record of a run whenever the one on the disk has changed: after every epoch."""


def run_once(
    folder: Path,
    model: str,
    dataset: str,
    options: Mapping[str, Any],
    seed: int,
    *,
    label: str | None = None,
    config_files: Sequence[Mapping[str, Any]] = (),
    budget: float | None = None,
    protocols: Sequence[str] = (),
    test: bool = True,
    data: str = "",
    threads: int | None = None,
    watch: Watch = lambda record: None,
) -> dict[str, Any]:
    """Return the record of a run: a finished one answers at once, an interrupted one goes on.

    The files of a run lie in ``folder``: NAME.json (its record), .parquet (the ranks of its test), .log, .pth (its
    weights), and .last.pth while it is not finished. Its name begins with ``label``, by default the model, and
    depends on ``data``, the :func:`fingerprint` of the data set. ``options`` win over ``config_files``. If the run
    fails, the error says why, and names its log file.
    """
    options = {**options, "seed": seed}
    config = silent_config(model, dataset, config_files, options)
    name = name_of(label or config["model"], config, budget, protocols, data, test)
    folder.mkdir(parents=True, exist_ok=True)
    file, log = folder / f"{name}.json", folder / f"{name}.log"
    record = _whole_record(file, test) or {}
    if "unfinished" not in record:
        if record.get("best_epoch") is not None:
            return record
        file.unlink(missing_ok=True)  # it, or the ranks beside it, is damaged
    arguments: dict[str, Any] = {"model": model, "dataset": dataset, "options": options}
    arguments |= {"config_files": [*config_files], "flags": {}, "budget": budget, "protocols": protocols, "test": test}
    written = 0

    def tick() -> None:
        nonlocal written
        with suppress(OSError, UserError):
            before, written = written, file.stat().st_mtime_ns
            if written != before:
                watch(read_record(file))

    try:
        in_own_process(train_here, folder, name, arguments, threads, log=log, tick=tick)
    except FailedError as error:
        raise FailedError(f"{error} (log: {log})") from None
    tick()
    return read_record(file)


def silent_config(
    model: str, dataset: str, config_files: Sequence[Mapping[str, Any]], options: Mapping[str, Any]
) -> Config:
    """Return the configuration of a run; what it has to say is said once, for all runs."""
    with silence():
        return PluginConfig(model, dataset, Layers(files=tuple(config_files), options=options))


def train_here(folder: Path, name: str, arguments: Mapping[str, Any], threads: int | None) -> None:
    """Make a run, or go on with it, in this process."""
    suppress_dependency_warnings()
    torch.set_num_threads(threads or torch.get_num_threads())
    weights = folder / f"{name}.pth"
    ranks = folder / f"{name}.parquet" if arguments["test"] else None
    begun = begun_training(weights)
    result = run(**arguments, checkpoint=weights, ranks=ranks, resume=begun and begun.path)
    if result.record["best_epoch"] is None:
        raise UserError(f"{name} ended without a validation, by which it could be selected")
    Path(last_of(weights)).unlink(missing_ok=True)


def _whole_record(file: Path, with_ranks: bool) -> dict[str, Any] | None:
    """Return a record; None if there is none, or it is damaged, or what a finished run wrote beside it."""
    try:
        record = read_record(file)
        if with_ranks and "unfinished" not in record:
            pd.read_parquet(file.with_suffix(".parquet"))
    except (OSError, ValueError):
        return None
    return record


def how_far(record: Mapping[str, Any], metric: str) -> str:
    """Say how far a run is."""
    score = record["best_valid_score"]
    return counted(len(record["epochs"])) + ("" if score is None else f", best {metric} {score:.4f}")


def name_of(
    label: str,
    config: Config,
    budget: float | None = None,
    protocols: Sequence[str] = (),
    data: str = "",
    test: bool = True,
) -> str:
    """Return the name of a run: label, seed and a digest of all that its result depends on but threads and machine."""
    options = config.final_config_dict
    idle = WITHOUT_EFFECT | without_effect(config, options).keys()
    plain = {key: value for key, value in sorted(options.items()) if key not in idle and is_plain(value)}
    installed = environment()["versions"]
    versions = {name: installed.get(name) for name in ("recbole_bert4rec", "recbole", "torch")}
    files = [(Path(file).name, read_yaml(find_config(file))) for file in protocols]
    vectors, code = digests(options.get("item_vectors")), digest_of_code(config.model_class)
    parts = [label, plain, budget, files, vectors, code, data, versions, test]
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:8]
    readable = re.sub(r"[^\w.=+-]+", "-", label)
    return f"{readable}-{config['seed']}-{digest}"


def fingerprint(config: Config) -> str:
    """Return a digest of all files of the data set: ``NAME.inter``, ``NAME.item`` and so on."""
    digest = hashlib.sha256()
    for path in sorted(Path(config["data_path"]).glob(f"{glob.escape(config['dataset'])}.*")):
        digest.update(path.name.encode())
        digest.update(bytes.fromhex(digest_of(path)))
    return digest.hexdigest()
