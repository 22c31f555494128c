"""``doctor``: what is installed, what is missing, and what is changed in RecBole."""

from __future__ import annotations

import argparse
import sys

from recbole_bert4rec.plugin.patches import doctor


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no flag: the command has none."""


def execute(options: argparse.Namespace, flags: dict[str, str]) -> None:
    """Print the findings, and exit with 1 where BERT4Rec cannot run."""
    sys.exit(doctor.main())


def kept(options: argparse.Namespace) -> str:
    """Say what an interrupted command leaves behind."""
    return "nothing was changed"
