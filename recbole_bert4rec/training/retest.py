"""Test trained weights under a configuration: that of their search, or another protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from recbole.config import Config

from recbole_bert4rec.options.config_files import read_options
from recbole_bert4rec.plugin.patches.compat import trust
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.resources import find_config
from recbole_bert4rec.training.build import Experiment, load_data
from recbole_bert4rec.training.inputs import configure
from recbole_bert4rec.training.request import RunRequest

_DRAWN_BY = ("split", "order", "group_by")


def test_result(experiment: Experiment, checkpoint: Path | str) -> dict[str, float]:
    """Return the test metrics of trained weights.

    Args:
        experiment: built from the configuration that says how to test; its model gets the weights.
        checkpoint: of this run's own training, for those of RecBole's own models are pickles.
    """
    trust(checkpoint)
    trainer, data = experiment.trainer, experiment.data
    trainer.eval_collector.data_collect(data.train)  # as trainer.fit does
    found = trainer.evaluate(data.test, load_best_model=True, model_file=str(checkpoint))
    return {name: float(value) for name, value in found.items()}


def protocols_of(request: RunRequest, config: Config) -> Mapping[str, Config]:
    """Return the configuration of each protocol that a request names besides its own, by the name of its file.

    Raises:
        UserError: a protocol has a mistake, asks what the data do not allow, or splits the data in another way.
    """
    found = {}
    for file in request.also_test:
        given = read_options(find_config(file))
        options, flags = (
            {name: value for name, value in layer.items() if name not in given}
            for layer in (request.options, request.flags or {})
        )
        arguments = {**config["eval_args"], **given.get("eval_args", {})}  # what it leaves out is the training's
        options, files = {**options, "eval_args": arguments}, (*request.config_files, given)
        one = configure(replace(request, config_files=files, options=options, flags=flags))
        for name in _DRAWN_BY:
            if one["eval_args"][name] != config["eval_args"][name]:
                raise UserError(
                    f"--also_test={file}: its {name} is {one['eval_args'][name]}, but the training's is "
                    f"{config['eval_args'][name]}; a model is tested on the split that it was trained on"
                )
        load_data(one)  # what the data do not allow is better said now than after hours of training
        found[Path(file).name] = one
    return found
