"""The command line of the long run."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import recbole_bert4rec  # noqa: F401  registers BERT4Rec
from tests.fuzz.attack import attack, peak_mb
from tests.fuzz.readers import READERS


def main() -> int:
    """Attack all readers, or some; exit code 0 where all files were read or refused."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Damaged files for every reader.")
    parser.add_argument("readers", nargs="*", help=f"of {', '.join(READERS)} (default: all)")
    parser.add_argument("--count", type=int, default=10_000, help="files for each (default: %(default)s)")
    parser.add_argument("--fuzz_seed", type=int, default=1, help="(default: %(default)s)")
    parser.add_argument("--keep", type=Path, help="folder for the files that a reader fails at")
    options = parser.parse_args()
    keep = None if options.keep is None else options.keep.resolve()
    good = True
    for name in options.readers or READERS:
        began = time.monotonic()
        ends = attack(name, options.count, options.fuzz_seed, keep)
        print(f"{name:12}{ends}, {time.monotonic() - began:.0f} s, peak {peak_mb():.0f} MB", flush=True)
        good = good and not set(ends) - {"read", "refused"}
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
