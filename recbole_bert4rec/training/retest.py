"""Tests trained weights under another configuration than that of their training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from recbole.config import Config

from recbole_bert4rec.options.checks import read_options
from recbole_bert4rec.plugin.compat import trust
from recbole_bert4rec.system.constants import FOR_THE_USER
from recbole_bert4rec.system.environment import find_config
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.build import Experiment, load_data
from recbole_bert4rec.training.inputs import configure
from recbole_bert4rec.training.logs import silence
from recbole_bert4rec.training.request import RunRequest

_DRAWN_BY = ("split", "order", "group_by")


def test_result(experiment: Experiment, checkpoint: Path | str) -> dict[str, float]:
    """Return the test metrics of trained weights."""
    trust(checkpoint)
    trainer, data = experiment.trainer, experiment.data
    trainer.eval_collector.data_collect(data.train)  # as trainer.fit does
    metrics = trainer.evaluate(data.test, load_best_model=True, model_file=str(checkpoint))
    return {name: float(value) for name, value in (metrics or {}).items()}


def protocols_of(request: RunRequest, config: Config) -> Mapping[str, Config]:
    """Return the configuration of each protocol that a request names besides its own, by the name of its file."""
    configs = {}
    for file in request.also_test:
        protocol = read_options(find_config(file))
        options, flags = (
            {name: value for name, value in layer.items() if name not in protocol}
            for layer in (request.options, request.flags or {})
        )
        arguments = {**config["eval_args"], **protocol.get("eval_args", {})}
        options, files = {**options, "eval_args": arguments}, (*request.config_files, protocol)
        protocol_config = configure(replace(request, config_files=files, options=options, flags=flags))
        for name in _DRAWN_BY:
            if protocol_config["eval_args"][name] != config["eval_args"][name]:
                raise UserError(
                    f"--also_test={file}: its {name} is {protocol_config['eval_args'][name]}, but the training's is "
                    f"{config['eval_args'][name]}; a model is tested on the split that it was trained on"
                )
        with silence(FOR_THE_USER):  # the run will say of this log what is to be said
            load_data(protocol_config)  # raises its errors now and not after hours of training
        configs[Path(file).name] = protocol_config
    return configs
