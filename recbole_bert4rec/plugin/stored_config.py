"""RecBole's configuration as a checkpoint has it."""

from __future__ import annotations

from typing import Any

from recbole.config import Config

from recbole_bert4rec.checkpoints.checkpoint import is_plain, without_places
from recbole_bert4rec.options.user_models import class_of, named_in_file, source_of

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


class StoredConfig(Config):
    """A configuration from stored values alone: the command line is not read and no text is evaluated.

    Args:
        values: what :func:`plain_config` returned; places in it are ignored.
        **more: options of the caller's own, places among them, that go before.
    """

    def __init__(self, values: dict[str, Any], **more: Any) -> None:
        self._values = {**without_places(values), **more}
        super().__init__(model=values["model"], dataset=values["dataset"])

    def _get_model_and_dataset(self, model: str | type | None, dataset: str | None) -> tuple[str, Any, str]:
        named = named_in_file(str(model), "the checkpoint")
        found: tuple[str, Any, str] = super()._get_model_and_dataset(class_of(named) or named, dataset)
        return found

    def _load_config_files(self, file_list: list[str] | None) -> dict[str, Any]:
        return dict(self._values)

    def _load_cmd_line(self) -> dict[str, Any]:
        return {}


def plain_config(config: Config) -> dict[str, Any]:
    """Return the values from which ``StoredConfig`` makes the same configuration again."""
    of_the_program = config.cmd_config_dict.keys() - config.external_config_dict.keys()
    left_out = {*_DERIVED, *of_the_program}
    values = {key: value for key, value in config.final_config_dict.items() if key not in left_out and is_plain(value)}
    before_dataset_name = {**config.internal_config_dict, **config.external_config_dict}
    values["model"] = source_of(config.model_class)
    values["data_path"] = before_dataset_name.get("data_path")
    negatives = values.get("train_neg_sample_args")
    if isinstance(negatives, dict) and negatives.get("distribution") == "none":
        values["train_neg_sample_args"] = None
    return without_places(values)
