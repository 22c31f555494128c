"""``tune``: search the hyper-parameters of any RecBole model."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from recbole_bert4rec.cli.inputs import add_names, add_screen, paths_of
from recbole_bert4rec.cli.words import seconds_of
from recbole_bert4rec.system.constants import ALGORITHMS, SCHEDULERS, TOOLS
from recbole_bert4rec.system.environment import OF_A_SEARCH, need
from recbole_bert4rec.system.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add_names(parser)
    add = parser.add_argument_group("the search").add_argument
    add("--params_file", required=True, help="the space: lines such as `n_layers choice [1,2]`, or YAML")
    add(
        "--output_file",
        type=Path,
        default=Path("hyper.result"),
        help="results (default: %(default)s); the trials, the best options and weights get names beside it",
    )
    add("--display_file", type=Path, help="page of plots (default: beside the results)")
    add(
        "--tool",
        choices=TOOLS,
        default="Hyperopt",
        help="Hyperopt: one trial after the other; Ray: side by side, on "
        "this machine or a cluster (default: %(default)s)",
    )
    add("--algo", choices=ALGORITHMS, help="(default: exhaustive, or random with --max_evals)")
    add("--max_evals", "--num_samples", type=int, metavar="N", help="trials of random and bayes (default: 10)")
    add("--budget", help="time of training and validation that a trial may take, such as 10m, whatever its epochs")
    add("--metric", help="validation metric to judge by, such as NDCG@10 (default: the option valid_metric)")
    add(
        "--scheduler",
        choices=SCHEDULERS,
        default="none",
        help="with Ray: what stops hopeless trials early (default: %(default)s)",
    )
    add = parser.add_argument_group("what trials may take").add_argument
    add("--cpus_per_trial", type=int, help="threads of a trial (default: all with Hyperopt, 1 with Ray)")
    add(
        "--gpus_per_trial", type=float, help="with Ray; a share such as 0.5 is possible (default: 1 where there is one)"
    )
    add("--max_concurrent", type=int, help="with Ray: trials at once (default: as many as there is room for)")
    add("--ray_address", help="of a running Ray cluster (default: start Ray on this machine, loopback only)")
    add_screen(parser)


def execute(options: argparse.Namespace, flags: dict[str, str]) -> None:
    """Search, judge the trials on validation, and test the best one once."""
    if mistakes := _mistakes(options, flags):
        raise UserError("; ".join(mistakes))
    budget = None if options.budget is None else seconds_of(options.budget)
    files = paths_of(options.config_files)  # which are looked for before libraries are imported
    need("a search", *OF_A_SEARCH, *(["ray"] if options.tool == "Ray" else []))
    import torch

    from recbole_bert4rec.experiments.tune import tune

    gpus = float(torch.cuda.is_available()) if options.gpus_per_trial is None else options.gpus_per_trial
    tune(
        options.model,
        options.dataset,
        options.params_file,
        flags if options.metric is None else {**flags, "valid_metric": options.metric},
        config_files=files,
        output=options.output_file,
        display=options.display_file,
        tool=options.tool,
        algorithm=options.algo,
        max_evals=options.max_evals,
        budget=budget,
        scheduler=options.scheduler,
        cpus=options.cpus_per_trial or (1 if options.tool == "Ray" else torch.get_num_threads()),
        gpus=gpus,
        max_concurrent=options.max_concurrent,
        ray_address=options.ray_address,
        screen=options.screen,
    )


def left_behind(options: argparse.Namespace) -> str:
    """Say what an interrupted command leaves behind."""
    return "the trials that ended are kept, the same command goes on from there"


def _mistakes(options: argparse.Namespace, flags: dict[str, str]) -> list[str]:
    """Say which flags do not go together, or have a number that they cannot have."""
    mistakes = []
    if options.tool != "Ray":
        only_ray = {"--scheduler": options.scheduler != "none", "--max_concurrent": options.max_concurrent}
        only_ray |= {"--ray_address": options.ray_address, "--gpus_per_trial": options.gpus_per_trial}
        mistakes += [f"{flag} needs --tool=Ray" for flag, is_given in only_ray.items() if is_given]
    elif "gpu_id" in flags:
        mistakes.append("--gpu_id does not go with --tool=Ray, which shares out the GPUs; leave it out")
    if options.algo == "exhaustive" and options.max_evals is not None:
        mistakes.append("--max_evals goes with --algo=random or bayes; exhaustive tries every combination")
    if options.budget is not None and options.scheduler == "asha":
        mistakes.append("--budget ends trials by time and --scheduler=asha by epochs; leave one of them out")
    if options.metric is not None and "valid_metric" in flags:
        mistakes.append("--metric and --valid_metric say the same; leave one of them out")
    for flag in ("max_evals", "cpus_per_trial", "max_concurrent"):
        value = getattr(options, flag)
        if value is not None and value < 1:
            mistakes.append(f"--{flag} must be at least 1, but is {value}")
    if not os.path.isfile(options.params_file):
        mistakes.append(f"there is no parameter file {options.params_file}")
    if (options.gpus_per_trial or 0) < 0:
        mistakes.append(f"--gpus_per_trial must be at least 0, but is {options.gpus_per_trial:g}")
    return mistakes
