"""Options beside a command's own flags: their spelling, mistakes in it, and their part of --help."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from typing import NoReturn

from recbole_bert4rec.options.kinds import Switch
from recbole_bert4rec.system.constants import MODEL_NAME, OUR_MODELS
from recbole_bert4rec.system.errors import UserError, nearest


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
    from recbole_bert4rec.options.recboles import documented
    from recbole_bert4rec.options.table import OPTIONS

    if name in OPTIONS and isinstance(OPTIONS[name].kind, Switch):
        return True
    return name in documented(MODEL_NAME) and "bool" in documented(MODEL_NAME)[name].types


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
    from recbole_bert4rec.options.known import known_to_recbole
    from recbole_bert4rec.options.table import OPTIONS

    known = {*OPTIONS, *known_to_recbole()}
    near = nearest(name.replace("-", "_"), sorted({*known, *own_names}))
    return near if name not in known and near in own_names else None


def add_documented(parser: argparse.ArgumentParser, words: list[str]) -> None:
    """Add the options of the model, in groups and with defaults, to the output of ``--help``."""
    from recbole_bert4rec.options.pages import default_of
    from recbole_bert4rec.options.recboles import documented, documented_in
    from recbole_bert4rec.options.table import OPTIONS, Role
    from recbole_bert4rec.options.user_models import known_as, options_read_by, parent_of, property_files

    parser.usage = f"{parser.format_usage().removeprefix('usage: ').rstrip()} [--option=value ...]"
    model_parser = argparse.ArgumentParser(add_help=False)
    model_parser.add_argument("--model", "-m", default=MODEL_NAME)
    named = known_as(model_parser.parse_known_args(words)[0].model.split(",")[0])
    model, user_options = parent_of(named), documented_in(property_files(named))
    taken = {word.removeprefix("--") for action in parser._actions for word in action.option_strings}
    if named != model:
        group = parser.add_argument_group(f"options of {named}, as --key=value; those of {model} follow")
        for name in sorted({*user_options} | options_read_by(named)):
            if name not in taken:
                taken.add(name)
                about = user_options.get(name)
                _add(group, name, about.default if about else "", about.help if about else "")
    if model in OUR_MODELS:
        for role in Role:
            group = parser.add_argument_group(f"{role.value}, as --key=value")
            for name, option in OPTIONS.items():
                if option.role is role and name not in taken:
                    _add(group, name, default_of(name, model), option.help)
        return
    group = parser.add_argument_group(f"options of RecBole's {model}, as --key=value")
    for name, about in documented(model).items():
        if name not in taken:
            _add(group, name, about.default, about.help)


def _add(group: argparse._ArgumentGroup, name: str, default: str, text: str) -> None:
    text = f"{text} (default: {default})" if default else text
    group.add_argument(f"--{name}", metavar="VALUE", help=text.replace("%", "%%"))


def nothing_changed(options: argparse.Namespace) -> str:
    """Say what an interrupted command leaves behind that only prints."""
    return "nothing was changed"
