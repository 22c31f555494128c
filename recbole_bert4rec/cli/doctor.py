"""``doctor``: libraries that are installed or missing, and changes of RecBole."""

from __future__ import annotations

import argparse
import sys

from recbole_bert4rec.cli.words import nothing_changed
from recbole_bert4rec.plugin.patches import doctor


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no flag: the command has none."""


def execute(options: argparse.Namespace, flags: dict[str, str]) -> None:
    """Print the findings, and exit with 1 if BERT4Rec cannot run."""
    sys.exit(doctor.main())


left_behind = nothing_changed
