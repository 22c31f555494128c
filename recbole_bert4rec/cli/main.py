"""The command line: finds the command, turns whatever goes wrong into one line, and sets the exit code."""

from __future__ import annotations

import argparse
import os
import select
import signal
import sys
import traceback
from pathlib import Path

from recbole_bert4rec.cli import doctor, run, trained, tune
from recbole_bert4rec.cli.flags import HELP, Parser, add_documented, joined, options_in
from recbole_bert4rec.system.constants import INSTALL_RECBOLE
from recbole_bert4rec.system.environment import suppress_dependency_warnings
from recbole_bert4rec.system.errors import UserError, nearest, reason_of, why
from recbole_bert4rec.system.interrupts import handled

DONE, FAULT, MISSING, MISTAKE = 0, 1, 1, 2
"""Exit codes: done; a fault of the program; something needed is not installed; a user's mistake. That of a signal is
128 plus its number, as in shells."""


def main(arguments: list[str] | None = None, name: str | None = None) -> int:
    """Run the command that the first word names, or else ``run``; return the exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    program = Path(sys.argv[0]).name
    if name is None:
        program = "python -m recbole_bert4rec" if program == "__main__.py" else "recbole-bert4rec"
    if name is not None or not words or (words[0].startswith("-") and words[0] not in HELP):
        words = [name or "run", *words]
    command = argparse.Namespace(left_behind="nothing was begun")
    suppress_dependency_warnings()
    with handled():
        try:
            try:
                command = parse(words, program, is_named=name is None)
                return command.execute(command) or DONE
            finally:
                if sys.stdout is not None:  # else it is closed, as by `>&-`
                    sys.stdout.flush()
        except KeyboardInterrupt as stop:
            left_behind = getattr(stop, "left_behind", None) or command.left_behind
            print(f"interrupted; {left_behind}", file=sys.stderr)
            return 128 + int(getattr(stop, "number", signal.SIGINT))
        except Exception as error:
            if "--debug" in words:
                traceback.print_exception(error)
            return _refusal(error)


def parse(words: list[str], program: str = "recbole-bert4rec", is_named: bool = True) -> argparse.Namespace:
    """Return the flags of a command, with its name, what executes it, and the options among the words.

    The command is not ``is_named`` in a program that has only one.
    """
    parser = Parser(prog=program, epilog="COMMAND --help lists the flags of a command.")
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", required=True)
    for room in (run, tune, trained, doctor):
        room.add_to(commands)
    own = commands.choices.get(words[0], parser)
    if own is parser and (near := nearest(words[0], commands.choices)):
        raise UserError(f"there is no command {words[0]!r}; did you mean `{near}`?")
    if not is_named:
        own.prog = program
    takes_options = own.get_default("takes_options")
    if takes_options and {*HELP} & {*words}:
        add_documented(own, words)
    arguments, others = parser.parse_known_args(words)
    flags = own._option_string_actions
    if takes_options:
        arguments.options = options_in(joined(others, words), flags)
    elif others:
        near = nearest(others[0].partition("=")[0], flags)
        hint = f"; did you mean `{near}`?" if near else ""
        raise UserError(f"{words[0]} does not know {' '.join(others)}{hint}")
    return arguments


def _refusal(error: Exception) -> int:
    """Say in one line what ended a command, and return the exit code."""
    text, code = str(error) or reason_of(error), MISTAKE
    if isinstance(error, BrokenPipeError):  # perhaps of the output, as in `... | head`
        output = select.poll()
        output.register(sys.stdout.fileno(), 0)
        if output.poll(0):  # nobody reads it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # where Python writes the rest at its end
            return 128 + signal.SIGPIPE
    if isinstance(error, OSError):
        text = ": ".join(str(part) for part in (error.filename, why(error)) if part) or text
    elif isinstance(error, ImportError):
        code = MISSING
        if not isinstance(error, UserError):
            active = "is the virtual environment active? " if sys.prefix == sys.base_prefix else ""
            install = f"`{INSTALL_RECBOLE}` installs it; " if error.name == "recbole" else ""
            text += f"; {active}{install}`python -m recbole_bert4rec doctor` says what is missing"
    elif not isinstance(error, UserError):
        code = FAULT
        where = "; ".join(getattr(error, "__notes__", [])) or "--debug shows the traceback"
        text = f"a fault of the program, {reason_of(error)}; {where}"
    print(f"error: {text}", file=sys.stderr)
    return code
