"""The flags that hand a command's work to Ray."""

from __future__ import annotations

import argparse

from recbole_bert4rec.system.environment import need
from recbole_bert4rec.system.errors import UserError


def add_engine(group: argparse._ActionsContainer, purpose: str, workers: str) -> None:
    """Add the flags."""
    add = group.add_argument
    add("--engine", choices=["ray"], help=purpose)
    add("--num_workers", type=int, help=f"with --engine=ray: {workers} (default: 1)")
    add("--ray_address", help="with --engine=ray: of a running cluster (default: start Ray on this machine)")


def check_engine(options: argparse.Namespace) -> bool:
    """Return whether Ray does the work."""
    if options.engine is None:
        for name in ("num_workers", "ray_address"):
            if getattr(options, name) is not None:
                raise UserError(f"--{name} goes with --engine=ray; give that too")
        return False
    if options.num_workers is not None and options.num_workers < 1:
        raise UserError(f"--num_workers={options.num_workers} must be at least 1")
    need("--engine=ray", "ray")
    return True
