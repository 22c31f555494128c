"""Checkpoints of plain tensors and plain values, written whole or not at all, read without unpickling code."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import torch
from recbole.config import Config

from recbole_bert4rec.errors import UserError
from recbole_bert4rec.files import atomic_write

FORMAT = "recbole_bert4rec checkpoint 1"

_DERIVED = {
    "MODEL_TYPE",
    "MODEL_INPUT_TYPE",
    "eval_type",
    "device",
    "valid_neg_sample_args",
    "test_neg_sample_args",
    "valid_metric_bigger",
    "single_spec",
    "local_rank",
    "world_size",
    "nproc",
    "offset",
    "ip",
    "port",
}
"""Values that RecBole works out by itself, or that belong to one process of a run."""


def write(path: str | os.PathLike[str], state: dict[str, Any]) -> None:
    """Save ``state``, whole or not at all."""
    with atomic_write(path) as temporary, open(temporary, "wb") as file:
        torch.save({"format": FORMAT, **state}, file)
        file.flush()
        os.fsync(file.fileno())


def read(path: str | os.PathLike[str], device: torch.device | str = "cpu") -> dict[str, Any]:
    """Load a checkpoint with ``weights_only=True``.

    Raises:
        UserError: the file is missing, damaged, or no checkpoint of this plugin (RecBole's own are pickles, which
            can run code; they are refused here).
    """
    if not Path(path).is_file():
        raise UserError(f"checkpoint {path} does not exist")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Detected pickle protocol", UserWarning)  # said of RecBole's own
            state = torch.load(path, map_location=device, weights_only=True)
    except Exception as error:  # torch raises many types for damaged files and for pickles
        raise UserError(
            f"{path} is not a checkpoint of recbole_bert4rec ({type(error).__name__}): it is damaged, or RecBole wrote "
            "it, as for all models but BERT4Rec; those are pickles, which can run code and are not read here"
        ) from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise UserError(f"{path} is not a checkpoint of recbole_bert4rec (no format {FORMAT!r} in it)")
    return state


def read_if_ours(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """What :func:`read` gives, or None where it would refuse the file."""
    try:
        return read(path)
    except UserError:
        return None


def plain_config(config: Config) -> dict[str, Any]:
    """The values from which :class:`StoredConfig` makes the same configuration again."""
    values = {key: value for key, value in config.final_config_dict.items() if key not in _DERIVED and is_plain(value)}
    before_dataset_name = {**config.internal_config_dict, **config.external_config_dict}
    values["data_path"] = before_dataset_name.get("data_path")
    negatives = values.get("train_neg_sample_args")
    if isinstance(negatives, dict) and negatives.get("distribution") == "none":
        values["train_neg_sample_args"] = None
    return values


def is_plain(value: Any) -> bool:
    """Whether a value is made of None, bool, int, float, str, list, tuple and dict alone."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return all(is_plain(item) for item in value)
    return value is None or type(value) in (bool, int, float, str)


class StoredConfig(Config):
    """A configuration from stored values alone: the command line is not read and no string is evaluated.

    Args:
        values: what :func:`plain_config` returned.
    """

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values
        super().__init__(model=values["model"], dataset=values["dataset"])

    def _load_config_files(self, file_list: Any) -> dict[str, Any]:
        return dict(self._values)

    def _load_cmd_line(self) -> dict[str, Any]:
        return {}
