"""``run``: one model once; several models or ``--seeds`` are compared."""

from __future__ import annotations

import argparse
import os
from typing import Any

from recbole_bert4rec.cli import compare
from recbole_bert4rec.cli.engine import add_engine, check_engine
from recbole_bert4rec.cli.inputs import add_names, add_screen, models_of, paths_of
from recbole_bert4rec.cli.words import seconds_of
from recbole_bert4rec.options.user_models import is_ours, known_as
from recbole_bert4rec.system.constants import VERBOSE
from recbole_bert4rec.system.errors import UserError

_OF_ONE_RUN = ("recommend", "resume", "k")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add_names(parser, "; several, separated by commas, are compared")
    add = parser.add_argument_group("what is done besides").add_argument
    add("--recommend", metavar="FILE", help="write every user's top k next items (.csv or .parquet)")
    add("--k", type=int, help="items a user for --recommend (default: 10)")
    add(
        "--resume",
        metavar="CHECKPOINT",
        nargs="?",
        const=True,
        help="go on from an interrupted run's checkpoint (default: the newest of `checkpoint_dir` that fits)",
    )
    compare.add_comparison(parser)
    add_screen(parser, one_run=True)
    together = parser.add_argument_group("several processes, or several machines")
    add = together.add_argument
    add("--nproc", type=int, default=1, help="processes that train together (default: %(default)s)")
    add("--ip", default="localhost", help="address of the first process (default: %(default)s)")
    add("--port", type=int, help="port of the first process (default: a free one)")
    purpose = "train in workers of Ray Train; a lost one goes on from the last checkpoint"
    add_engine(together, purpose, "workers that train together")


def execute(options: argparse.Namespace, flags: dict[str, str]) -> None:
    """Run one model, or compare several."""
    if _is_comparison(options):
        _compare(options, flags)
        return
    if options.output_dir is not None:
        raise UserError("--output_dir is for several models or --seeds; a single run writes to `checkpoint_dir`")
    k_of_model = options.k is not None and options.recommend is None  # some models of RecBole have an option `k`
    if k_of_model and (options.model is None or is_ours(known_as(options.model))):
        raise UserError("--k says how many items --recommend=FILE writes; give that too")
    starter = _starter(options, torchrun=False)  # flags are checked before libraries are imported
    if isinstance(options.resume, str) and not os.path.isfile(options.resume):
        raise UserError(f"checkpoint {options.resume} does not exist")
    arguments: dict[str, Any] = {
        "model": options.model,
        "dataset": options.dataset,
        "options": {"k": options.k, **flags} if k_of_model else flags,
        "config_files": paths_of(options.config_files),
        "flags": {},
        "recommend": options.recommend,
        "k": 10 if options.k is None else options.k,
        "resume": options.resume,
        "budget": None if options.budget is None else seconds_of(options.budget),
        "protocols": paths_of(options.protocols),
        "screen": options.screen,
    }
    from recbole_bert4rec.training.processes import is_one_of_several, run_processes, run_rank
    from recbole_bert4rec.training.run import run

    if is_one_of_several():
        _starter(options, torchrun=True)
        run_rank(arguments)
    elif starter is None:
        run(**arguments)
    elif starter == "--nproc":
        run_processes(arguments, options.nproc, options.ip, options.port)
    else:
        from recbole_bert4rec.training.on_ray import run_on_ray

        run_on_ray(arguments, options.num_workers or 1, options.ray_address)


def _starter(options: argparse.Namespace, torchrun: bool) -> str | None:
    """Return the name of the program or flag that starts several processes; None if there is one process."""
    used = {"torchrun": torchrun, "--nproc": options.nproc > 1, "--engine=ray": check_engine(options)}
    starters = [name for name, is_used in used.items() if is_used]
    if options.nproc < 1:
        raise UserError(f"--nproc={options.nproc} must be at least 1")
    if len(starters) > 1:
        raise UserError(f"{' and '.join(starters)} start processes that train together; leave all but one out")
    if not starters:
        return None
    for name in ("budget", "protocols"):
        if getattr(options, name) is not None:
            raise UserError(f"--{name} works in one process only; leave {starters[0]} out")
    return starters[0]


def left_behind(options: argparse.Namespace) -> str:
    """Say what an interrupted command leaves behind."""
    if _is_comparison(options):
        return compare.left_behind(options)
    if "LOCAL_RANK" in os.environ:  # torchrun ends its processes when one is lost
        return "the same command with --resume goes on from the last checkpoint, if there is one"
    return "nothing was trained; the same command begins anew"


def _is_comparison(options: argparse.Namespace) -> bool:
    return options.seeds is not None or len(models_of(options)) > 1


def _compare(options: argparse.Namespace, flags: dict[str, str]) -> None:
    """Compare models with the flags of a run."""
    for name in _OF_ONE_RUN:
        if getattr(options, name) is not None:
            raise UserError(f"--{name} is for a single run of one model, not for several models or --seeds")
    if options.screen == VERBOSE:
        raise UserError("--verbose is for a single run; compared runs log to files")
    if options.nproc > 1 or options.engine is not None:
        raise UserError("models are compared in one process each; leave --nproc and --engine out")
    compare.execute(argparse.Namespace(study=None, **vars(options)), flags)
