"""The command line of the stress: exit code 0 where nothing was lost."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import recbole_bert4rec  # noqa: F401  registers BERT4Rec
from tests.stress.kills import kills


def main() -> int:
    """Kill and resume runs; flags that are not its own go to run.py."""
    parser = argparse.ArgumentParser(prog="python -m tests.stress", description="What a run of ml-100k survives.")
    parser.add_argument("--count", type=int, default=10, help="of kills (default: %(default)s)")
    parser.add_argument("--stress_seed", type=int, default=1, help="of moments (default: %(default)s)")
    options, flags = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--epochs=12", "--stopping_step=99", *flags]
        return 0 if kills(Path(folder), options.count, flags, options.stress_seed) else 1


if __name__ == "__main__":
    sys.exit(main())
