"""``tune``: search the hyper-parameters of any RecBole model."""

from __future__ import annotations

import argparse

from recbole_bert4rec.cli.flags import Commands, Parser, add_command, flags_for, from_1, of_training
from recbole_bert4rec.system.constants import ALGORITHMS, SCHEDULERS, TOOLS
from recbole_bert4rec.system.environment import OF_A_SEARCH, need


def add_to(commands: Commands[Parser]) -> None:
    """Add the command."""
    left_behind = "the trials that ended are kept, the same command goes on from there"
    purpose = "search hyper-parameters"
    parser = add_command(commands, "tune", purpose, of_training(), execute=_execute, left_behind=left_behind)
    add = parser.add_argument_group("the search").add_argument
    add("--params_file", required=True, help="the space: lines such as `n_layers choice [1,2]`, or YAML")
    text = "results (default: %(default)s); the trials, the best options and weights get names beside it"
    add("--output_file", dest="output", metavar="FILE", default="hyper.result", help=text)
    add("--display_file", dest="display", metavar="FILE", help="page of plots (default: beside the results)")
    text = "Hyperopt: one trial after the other; Ray: side by side, here or on a cluster (default: %(default)s)"
    add("--tool", choices=TOOLS, default=TOOLS[0], help=text)
    text = "(default: exhaustive, or random with --max_evals)"
    add("--algo", dest="algorithm", choices=ALGORITHMS, help=text)
    add("--max_evals", "--num_samples", type=int, metavar="N", help="trials of random and bayes (default: 10)")
    text = "with Ray: what stops hopeless trials early (default: %(default)s)"
    add("--scheduler", choices=SCHEDULERS, default=SCHEDULERS[0], help=text)
    add = parser.add_argument_group("what trials may take").add_argument
    add("--cpus_per_trial", type=from_1, help="threads of a trial (default: all with Hyperopt, 1 with Ray)")
    text = "with Ray; a share such as 0.5 is possible (default: 1 where there is one)"
    add("--gpus_per_trial", type=float, help=text)
    add("--max_concurrent", type=from_1, help="with Ray: trials at once (default: as many as there is room for)")
    add("--ray_address", help="of a running Ray cluster (default: start Ray on this machine, loopback only)")


def _execute(arguments: argparse.Namespace) -> None:
    """Search, judge the trials on validation, and test the best one once."""
    on_ray = arguments.tool == "Ray"
    need("a search", *OF_A_SEARCH, *["ray"] * on_ray)
    import torch

    from recbole_bert4rec.experiments.tune import tune

    cpus = arguments.cpus_per_trial or (1 if on_ray else torch.get_num_threads())
    gpus = arguments.gpus_per_trial
    gpus = float(on_ray and torch.cuda.is_available()) if gpus is None else gpus
    tune(**flags_for(tune, arguments, cpus=cpus, gpus=gpus))
