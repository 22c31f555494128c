"""RecBole's configuration as a checkpoint has it."""

from __future__ import annotations

from typing import Any

from recbole.config import Config

from recbole_bert4rec.plugin.checkpoint import without_places
from recbole_bert4rec.user_models import class_of, named_in_file


class StoredConfig(Config):
    """A configuration from stored values alone: the command line is not read and no text is evaluated.

    Args:
        values: what :func:`~recbole_bert4rec.plugin.checkpoint.plain_config` returned; places in it are ignored.
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
