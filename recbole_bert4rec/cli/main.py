"""The command line: finds the sub-command, turns a user's mistake into one line, and sets the exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from recbole_bert4rec.cli.words import Parser, add_documented, check_flags, joined, parse_flags, unknown
from recbole_bert4rec.system.constants import INSTALL_RECBOLE
from recbole_bert4rec.system.environment import suppress_dependency_warnings
from recbole_bert4rec.system.errors import UserError, nearest
from recbole_bert4rec.system.interrupts import Interrupted, handled

DONE, MISSING, MISTAKE = 0, 1, 2
"""Exit codes: done; something that is needed is not installed; a user's mistake. A signal's is 128 and its number."""


class Command(NamedTuple):
    """A sub-command.

    Attributes:
        module: has ``add_arguments(parser)``, ``execute(options, flags)``, whose flags are options by their names, and
            ``left_behind(options)``, which says what an interrupted command leaves behind. It is imported when the
            command is called, so that ``doctor`` works even if RecBole does not.
        purpose: one line for the list of commands.
        takes_options: whether it trains, and so takes options of RecBole and of the model.
    """

    module: str
    purpose: str
    takes_options: bool = True


COMMANDS = {
    "run": Command("recbole_bert4rec.cli.run", "train and test a model"),
    "compare": Command("recbole_bert4rec.cli.compare", "compare models, or variants of one, on the same rows"),
    "tune": Command("recbole_bert4rec.cli.tune", "search hyper-parameters"),
    "doctor": Command("recbole_bert4rec.cli.doctor", "say what is installed and what is changed in RecBole", False),
    "recommend": Command("recbole_bert4rec.cli.recommend", "recommend to anybody, from a checkpoint", False),
    "similar": Command("recbole_bert4rec.cli.similar", "list the items that are like an item", False),
    "evaluate": Command("recbole_bert4rec.cli.evaluate", "judge a checkpoint on given histories", False),
    "serve": Command("recbole_bert4rec.cli.serve", "answer over HTTP, with a page to look at it", False),
    "info": Command("recbole_bert4rec.cli.info", "say what is in a checkpoint", False),
    "export": Command("recbole_bert4rec.cli.export", "write a checkpoint as ONNX, which needs no torch", False),
}
_OPTIONS = "Any option of RecBole or of the model can be given as --key=value."


@contextmanager
def _reader_may_leave() -> Iterator[None]:
    """End quietly if nobody reads the output to its end, as in ``... | head``."""
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:  # it is closed, as by `>&-`
                sys.stdout.flush()
    except BrokenPipeError:
        output = select.poll()
        output.register(sys.stdout.fileno(), 0)
        if not output.poll(0):  # somebody reads; another pipe is broken
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python writes the rest at its end
        sys.exit(128 + signal.SIGPIPE)


@_reader_may_leave()
def main(arguments: list[str] | None = None, name: str | None = None) -> int:
    """Run a sub-command."""
    words = sys.argv[1:] if arguments is None else arguments
    program = Path(sys.argv[0]).name
    if name is None:
        program = "python -m recbole_bert4rec" if program == "__main__.py" else "recbole-bert4rec"
        if words[:1] in (["-h"], ["--help"]):
            print(_overview(program))
            return DONE
        name, words = (words[0], words[1:]) if words and not words[0].startswith("-") else ("run", words)
        program = f"{program} {name}"
    suppress_dependency_warnings()
    with handled():
        try:
            return _execute(name, words, program)
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)
            return MISSING if isinstance(error, ImportError) else MISTAKE
        except ImportError as error:
            install = f"`{INSTALL_RECBOLE}` installs it; " if error.name == "recbole" else ""
            active = "is the virtual environment active? " if sys.prefix == sys.base_prefix else ""
            more = f"{active}{install}`python -m recbole_bert4rec doctor` says what is missing"
            print(f"error: {error}; {more}", file=sys.stderr)
            return MISSING
        except Interrupted as stop:
            print(f"interrupted; {stop.left_behind or 'nothing was begun'}", file=sys.stderr)
            return 128 + stop.number  # as shells have it


def _overview(program: str) -> str:
    """Return the list of commands."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {command.purpose}" for name, command in COMMANDS.items()]
    return f"usage: {program} COMMAND [--help] [--key=value ...]\n\n" + "\n".join(lines)


def _execute(name: str, words: list[str], program: str) -> int:
    if name not in COMMANDS:
        near = nearest(name, COMMANDS)
        hint = f"did you mean {near}?" if near else f"the commands are {', '.join(COMMANDS)}"
        raise UserError(f"there is no command {name!r}; {hint}")
    command = importlib.import_module(COMMANDS[name].module)
    parser, takes_options = parser_of(name, program), COMMANDS[name].takes_options
    if takes_options and {"-h", "--help"} & {*words}:
        add_documented(parser, words)
    own_flags = {word for action in parser._actions for word in action.option_strings}
    options, flags = parser.parse_known_args(joined(words, own_flags) if takes_options else words)
    if takes_options:
        check_flags(flags, own_flags)
    elif flags:
        raise UserError(unknown(flags, own_flags, name))
    try:
        command.execute(options, parse_flags(flags))
    except KeyboardInterrupt as error:
        stop = error if isinstance(error, Interrupted) else Interrupted(signal.SIGINT)
        raise Interrupted(stop.number, stop.left_behind or command.left_behind(options)) from error
    except SystemExit as end:
        return int(end.code or 0)
    return DONE


def parser_of(name: str, program: str) -> argparse.ArgumentParser:
    """Return the parser of a command's own flags."""
    purpose = COMMANDS[name].purpose
    parser = Parser(
        prog=program,
        description=f"{purpose[0].upper()}{purpose[1:]}. {_OPTIONS if COMMANDS[name].takes_options else ''}",
        allow_abbrev=False,
    )
    importlib.import_module(COMMANDS[name].module).add_arguments(parser)
    return parser
