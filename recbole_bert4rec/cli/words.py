"""Options beside a command's own flags: their spelling, mistakes in it, and their part of --help."""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NoReturn

from recbole_bert4rec.system.constants import MODEL_NAME, OUR_MODELS
from recbole_bert4rec.system.environment import folder_of_recbole
from recbole_bert4rec.system.errors import UserError, nearest

_UNITS = {"s": 1, "m": 60, "h": 3600}


def parse_flags(flags: Iterable[str]) -> dict[str, str]:
    """Return the value of each option by its name, as text; of an option that is given twice, the last."""
    return dict(flag[2:].split("=", 1) for flag in flags if flag.startswith("--") and "=" in flag)


def seconds_of(text: str) -> float:
    """Return the seconds of a budget such as ``90s``, ``10m`` or ``1.5h``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh])", text.strip().lower())
    if match is None or float(match[1]) == 0:
        raise UserError(f"--budget={text} is not a time; write for instance --budget=90s, 10m or 1.5h")
    return float(match[1]) * _UNITS[match[2]]


def joined(words: list[str], own_flags: Collection[str]) -> list[str]:
    """Write options as RecBole reads them: ``--epochs 3`` becomes ``--epochs=3``, and a lone switch is switched on."""
    flags: list[str] = []
    following = iter([*words[1:], None])
    skipped = False
    for word in words:
        value = next(following)
        if skipped:
            skipped = False
        elif not word.startswith("--") or "=" in word or word in own_flags:
            flags.append(word)
        elif value is not None and not value.startswith("--"):
            flags.append(f"{word}={value}")
            skipped = True
        else:
            flags.append(f"{word}=True" if _is_switch(word.removeprefix("--")) else word)
    return flags


def _is_switch(name: str) -> bool:
    from recbole_bert4rec.options.kinds import SWITCH
    from recbole_bert4rec.options.table import OPTIONS

    ours = name in OPTIONS and OPTIONS[name].kind is SWITCH
    return ours or _recboles(MODEL_NAME).get(name, ("", ""))[0] in ("True", "False")


def _recboles(model: str) -> dict[str, tuple[str, str]]:
    """Return defaults and comments of RecBole's options of a model, and of all."""
    from recbole_bert4rec.options.checks import described_in

    root = folder_of_recbole() / "properties"
    files = (root / "overall.yaml", root / "dataset" / "sample.yaml", root / "model" / f"{model}.yaml")
    return described_in(filter(Path.is_file, files))


class Parser(argparse.ArgumentParser):
    """A parser whose mistakes are one line, without the usage before it."""

    def error(self, message: str) -> NoReturn:
        """Refuse the flags; argparse calls it with its message."""
        raise UserError(f"{message}; `{self.prog} --help` lists the flags")


def check_flags(flags: list[str], own_flags: Collection[str]) -> None:
    """Refuse words that are not written ``--key=value``, and misspelt flags of the command.

    Misspelt options are found with all other mistakes of the configuration.
    """
    mistakes = []
    values: dict[str, str] = {}
    for flag in flags:
        name, equals, value = flag.partition("=")
        if values.setdefault(name, value) != value:
            mistakes.append(f"`{name}` is given twice, as {values[name]} and as {value}")
        if not flag.startswith("--") or not equals:
            mistakes.append(f"argument {flag!r} is not understood; options are written --key=value")
        elif "=" in value:
            mistakes.append(f"argument {flag!r}: RecBole takes no '=' inside a value; put it into a config file")
        elif near := _misspelt(name.removeprefix("--"), [word.removeprefix("--") for word in own_flags]):
            mistakes.append(f"`{name}`: did you mean `--{near}`?")
    if mistakes:
        raise UserError("; ".join(mistakes))


def unknown(flags: list[str], own_flags: Collection[str], command: str) -> str:
    """Say that a command without options has no such flags, and name the one that was probably meant."""
    near = nearest(flags[0].partition("=")[0], own_flags)
    hint = f"; did you mean `{near}`?" if near else ""
    return f"{command} does not know {' '.join(flags)}{hint}"


def _misspelt(name: str, own_names: list[str]) -> str | None:
    """Return the flag of the program that a name most likely means, if it means no option."""
    from recbole_bert4rec.options.checks import known_to_recbole
    from recbole_bert4rec.options.table import OPTIONS

    known = {*OPTIONS, *known_to_recbole()}
    near = nearest(name.replace("-", "_"), sorted({*known, *own_names}))
    return near if name not in known and near in own_names else None


def add_documented(parser: argparse.ArgumentParser, words: list[str]) -> None:
    """Add the options of the model, in groups and with defaults, to the output of ``--help``."""
    from recbole_bert4rec.options.checks import described_in
    from recbole_bert4rec.options.table import MODEL_DEFAULTS, RECBOLES, SECTIONS
    from recbole_bert4rec.options.user_models import known_as, options_read_by, parent_of, property_files

    parser.usage = f"{parser.format_usage().removeprefix('usage: ').rstrip()} [--option=value ...]"
    model_parser = argparse.ArgumentParser(add_help=False)
    model_parser.add_argument("--model", "-m", default=MODEL_NAME)
    named = known_as(model_parser.parse_known_args(words)[0].model.split(",")[0])
    model, user_options = parent_of(named), described_in(property_files(named))
    recboles = _recboles(model)
    taken = {word.removeprefix("--") for action in parser._actions for word in action.option_strings}
    if named != model:
        group = parser.add_argument_group(f"options of {named}, as --key=value; those of {model} follow")
        for name in sorted({*user_options} | options_read_by(named)):
            if name not in taken:
                taken.add(name)
                _add(group, name, *user_options.get(name, ("", "")))
    if model in OUR_MODELS:
        for title, rows in SECTIONS.items():
            group = parser.add_argument_group(f"{title}, as --key=value")
            for name, option in rows.items():
                default = MODEL_DEFAULTS[model].get(name, option.default)
                default = recboles.get(name, ("", ""))[0] if default is RECBOLES else str(default)
                if name not in taken:
                    _add(group, name, default, option.help)
        return
    group = parser.add_argument_group(f"options of RecBole's {model}, as --key=value")
    for name, (default, about) in recboles.items():
        if name not in taken:
            _add(group, name, default, about)


def _add(group: argparse._ArgumentGroup, name: str, default: str, text: str) -> None:
    text = f"{text} (default: {default})" if default else text
    group.add_argument(f"--{name}", metavar="VALUE", help=text.replace("%", "%%"))


def nothing_changed(options: argparse.Namespace) -> str:
    """Say what an interrupted command leaves behind that only prints."""
    return "nothing was changed"
