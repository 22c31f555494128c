"""``completion``: a script that lets a shell complete commands, flags and options."""

from __future__ import annotations

import argparse
import importlib

import shtab

from recbole_bert4rec.cli.main import COMMANDS
from recbole_bert4rec.cli.words import add_documented, nothing_changed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("shell", choices=shtab.SUPPORTED_SHELLS, help='for bash: `eval "$(... completion bash)"`')


def execute(options: argparse.Namespace, flags: dict[str, str]) -> None:
    """Print the script for a shell.

    Args:
        options: the command's own flags.
        flags: none.
    """
    everything = argparse.ArgumentParser(prog="recbole-bert4rec")
    commands = everything.add_subparsers()
    for name, command in COMMANDS.items():
        parser = commands.add_parser(name, help=command.purpose)
        importlib.import_module(command.module).add_arguments(parser)
        if command.takes_options:
            add_documented(parser, [])
    print(shtab.complete(everything, options.shell))


left_behind = nothing_changed
