"""The command line of the stress: each kind ends with exit code 0 where nothing was lost or mixed."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import recbole_bert4rec  # noqa: F401  registers BERT4Rec
from tests.stress.cluster import cluster
from tests.stress.disks import disks
from tests.stress.flips import flips
from tests.stress.kills import kills
from tests.stress.loop import loop
from tests.stress.pairs import pairs
from tests.stress.programs import run_to_end, the_one


def main() -> int:
    """Run one kind of stress; flags that are not its own go to run.py."""
    parser = argparse.ArgumentParser(prog="python -m tests.stress", description="What a run of ml-100k survives.")
    parser.add_argument("kind", choices=["kills", "flips", "disks", "pairs", "loop", "cluster"])
    parser.add_argument(
        "--count", type=int, help="kills, pairs, or changed bytes (default: 10; of cluster 20, of flips all)"
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="of loop (default: %(default)s)")
    parser.add_argument("--stress_seed", type=int, default=1, help="of moments and bytes (default: %(default)s)")
    options, flags = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if options.kind == "kills":
            good = kills(
                folder, options.count or 10, ["--epochs=12", "--stopping_step=99", *flags], options.stress_seed
            )
        elif options.kind == "flips":
            run_to_end(folder, "--epochs=1", "--hidden_size=4", "--inner_size=4", "--n_heads=1", *flags)
            good = flips(the_one(folder, ".last.pth"), folder / "changed.pth", options.count, options.stress_seed)
        elif options.kind == "cluster":
            good = cluster(
                folder, options.count or 20, 3, ["--epochs=30", "--stopping_step=99", *flags], options.stress_seed
            )
        elif options.kind == "disks":
            good = disks(folder)
        elif options.kind == "pairs":
            good = pairs(folder, options.count or 10, ["--epochs=2", *flags])
        else:
            good = loop(options.minutes)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
