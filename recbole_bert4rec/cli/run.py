"""``run`` and ``compare``: one model once; several models, variants or seeds side by side."""

from __future__ import annotations

import argparse

from recbole_bert4rec.cli.flags import (
    Commands,
    Parser,
    add_command,
    flags_for,
    from_1,
    models_of,
    of_ray,
    of_several_runs,
    of_training,
    uses_ray,
)
from recbole_bert4rec.system.constants import VERBOSE
from recbole_bert4rec.system.environment import is_one_of_several
from recbole_bert4rec.system.errors import UserError

_OF_SEVERAL = "what is finished is kept, the same command does the rest and writes the reports"
"""What a comparison leaves behind."""


def add_to(commands: Commands[Parser]) -> None:
    """Add the commands."""
    left_behind = "the same command begins anew, or goes on with --resume if an epoch is finished"
    parents: tuple[Parser, ...] = of_training(can_be_verbose=True), of_several_runs(), of_ray()
    defaults = {"execute": _run, "left_behind": left_behind, "variants": None}
    parser = add_command(commands, "run", "train and test a model", *parents, **defaults)
    add = parser.add_argument_group("what is done besides").add_argument
    add("--recommend", metavar="FILE", help="write every user's top k next items (.csv or .parquet)")
    add("--k", type=int, help="items a user for --recommend (default: 10)")
    text = "go on from an interrupted run's checkpoint (default: the newest one in `checkpoint_dir` that fits)"
    add("--resume", metavar="CHECKPOINT", nargs="?", const=True, help=text)
    add = parser.add_argument_group("several processes").add_argument
    add("--nproc", type=from_1, default=1, help="processes that train together (default: %(default)s)")
    add("--ip", default="localhost", help="address of the first process (default: %(default)s)")
    add("--port", type=int, help="port of the first process (default: a free one)")

    purpose, parents = "compare models, or variants of one, on the same rows", (of_training(), of_several_runs())
    parser = add_command(commands, "compare", purpose, *parents, execute=_compare, left_behind=_OF_SEVERAL)
    text = "YAML file of variants to compare, or a name of properties/study"
    parser.add_argument("--study", dest="variants", metavar="FILE", help=text)


def _compare(arguments: argparse.Namespace) -> None:
    """Compare models, or the variants of a study."""
    models = models_of(arguments)
    from recbole_bert4rec.experiments.compare import compare

    seeds = 1 if arguments.seeds is None else arguments.seeds
    compare(**flags_for(compare, arguments, models=models, seeds=seeds))


def _run(arguments: argparse.Namespace) -> None:
    """Run one model, or compare several."""
    starters = {"torchrun": is_one_of_several(), "--nproc": arguments.nproc > 1, "--engine=ray": uses_ray(arguments)}
    used = [name for name, is_used in starters.items() if is_used]
    if arguments.seeds is not None or len(models_of(arguments)) > 1:
        refused = [f"--{name}" for name in ("recommend", "resume", "k") if getattr(arguments, name) is not None]
        if refused := [*refused, *used, *["--verbose"] * (arguments.screen == VERBOSE)]:
            raise UserError(f"{', '.join(refused)}: for a single run of one model, not for several models or --seeds")
        arguments.left_behind = _OF_SEVERAL
        return _compare(arguments)
    if arguments.folder is not None:
        raise UserError("--output_dir is for several models or --seeds; a single run writes to `checkpoint_dir`")
    if len(used) > 1:
        raise UserError(f"{' and '.join(used)} start processes that train together; leave all but one out")
    refused = [f"--{name}" for name in ("budget", "protocols") if used and getattr(arguments, name)]
    if refused:
        raise UserError(f"{', '.join(refused)}: in one process only; leave {used[0]} out")
    k = 10 if arguments.k is None else arguments.k
    if arguments.k is not None and arguments.recommend is None:  # some models of RecBole have an option `k`
        from recbole_bert4rec.options.user_models import is_ours, known_as

        if arguments.model is None or is_ours(known_as(arguments.model)):
            raise UserError("--k says how many items --recommend=FILE writes; give that too")
        arguments.options["k"] = k
    from recbole_bert4rec.training.run import run

    how = flags_for(run, arguments, flags={}, k=k)
    if not used:
        run(**how)
    elif starters["--engine=ray"]:
        from recbole_bert4rec.training.on_ray import run_on_ray

        run_on_ray(how, arguments.num_workers or 1, arguments.ray_address)
    else:
        from recbole_bert4rec.training.processes import run_processes, run_rank

        run_rank(how) if starters["torchrun"] else run_processes(how, arguments.nproc, arguments.ip, arguments.port)
    return None
