"""Writes docs/commands.md from the parsers of the commands.

``python -m recbole_bert4rec.cli.pages`` writes it; with ``--check`` it fails if the file is not up to date.
"""

from __future__ import annotations

import argparse
import sys

from recbole_bert4rec.cli.main import COMMANDS, parser_of
from recbole_bert4rec.options import pages

_HEAD = """# Command line

<!-- Made from the parsers of recbole_bert4rec/cli by `make pages`; edit those. -->

`recbole-bert4rec COMMAND` and `python -m recbole_bert4rec COMMAND` work from any folder. Without a command, `run` is
meant. `python run.py` is `run`, and `python run_hyper.py` is `tune`. `COMMAND --help` prints what stands here, and the
options. [Exit codes](operating.md#exit-codes) are the same for all."""


def reference() -> str:
    """Return the text of ``docs/commands.md``: a section a command, a table a group of flags."""
    lines = [f"| [`{name}`](#{name}) | {command.purpose} |" for name, command in COMMANDS.items()]
    parts = [_HEAD, "\n".join(["| command | what it does |", "|-|-|", *lines])]
    for name, command in COMMANDS.items():
        parser = parser_of(name, name)
        parts += [f"## {name}", f"{command.purpose[0].upper()}{command.purpose[1:]}."]
        for group in parser._action_groups:
            rows = [_row(parser, action) for action in group._group_actions if action.dest != "help"]
            if rows:
                untitled = group.title in ("options", "positional arguments")
                parts.append(
                    "\n".join([*([] if untitled else [f"{str(group.title).capitalize()}:\n"]), "| | |", "|-|-|", *rows])
                )
        if command.takes_options:
            parts.append("Besides, any [option](options.md) of RecBole or of the model, as `--key=value`.")
    return "\n\n".join(parts) + "\n"


def _row(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """Return a row of the table: a flag with the form of its value, and its meaning."""
    value = action.metavar or action.dest.upper()
    takes = "" if action.nargs == 0 else f"[={value}]" if action.nargs == "?" else f"={value}"
    names = [f"`{flag}{takes}`" if flag.startswith("--") else f"`{flag}`" for flag in action.option_strings]
    text = (action.help or "") % {**vars(action), "prog": parser.prog}
    if names and action.choices:
        text = f"{', '.join(f'`{choice}`' for choice in action.choices)}. {text}"
    return f"| {', '.join(names) or f'`{value}`'} | {text} |"


def main(arguments: list[str]) -> int:
    """Write the page, or compare it; see :func:`recbole_bert4rec.options.pages.write`."""
    return pages.write({pages.ROOT / "docs/commands.md": reference()}, arguments, "the commands")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
