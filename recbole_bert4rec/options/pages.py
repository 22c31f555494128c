"""Write the pages that follow from the table: the property files and the reference of options.

``python -m recbole_bert4rec.options.pages`` writes them; with ``--check`` it fails if one is not up to date.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import yaml

from recbole_bert4rec.options.kinds import Switch
from recbole_bert4rec.options.models import ABOUT, MODEL_DEFAULTS
from recbole_bert4rec.options.recboles import documented
from recbole_bert4rec.options.table import OPTIONS, RECBOLES, InComparison, OnResume, Option, Role, Source
from recbole_bert4rec.system.constants import OUR_MODELS
from recbole_bert4rec.system.files import atomic_write

ROOT = Path(__file__).resolve().parents[2]
_MADE = "Made from recbole_bert4rec/options/table.py by `make pages`; edit that."
_SOURCES = (
    "Sources of the defaults: paper (Sun et al., CIKM 2019), authors (their code), RecBole (1.2.1), validation (chosen "
    "by validation NDCG@10 on ml-100k, ml-1m or beauty-5core), ours (decided without a comparison), off, as in the "
    "paper (the paper does without)."
)


def property_file(model: str) -> str:
    """Return the text of ``properties/model/MODEL.yaml``: a line an option whose default is ours."""
    about = f"Defaults of {model}: {ABOUT[model]}. {_MADE} {_SOURCES}"
    lines = [f"# {line}" for line in textwrap.wrap(about, 116)]
    defaults = MODEL_DEFAULTS[model]
    for role in Role:
        ours = [(name, option) for name, option in _of(role) if option.default is not RECBOLES]
        lines += ["", f"# {role.value}"] if ours else []
        for name, option in ours:
            setting = f"{name}: {_yaml(defaults.get(name, option.default))}"
            source = Source.OURS if name in defaults else option.source
            lines.append(f"{setting:<30}# ({_values(option)}) {option.help} [{source.value}]")
    return "\n".join(lines) + "\n"


def reference() -> str:
    """Return the text of ``docs/options.md``: a table a role."""
    parts = [
        "# Options",
        f"<!-- {_MADE} -->",
        "Give an option on the command line (`--mask_ratio=0.3`), in a YAML file (`--config_files=my.yaml`), or in "
        "Python. The command line wins over Python, Python over files, files over the defaults below. "
        "Options that are not listed here are RecBole's own.",
        _SOURCES,
        "A checkpoint is trained further with the same options; *free* ones may change. Options marked "
        "*BERT4Rec* do nothing for RecBole's models, which a warning says.",
    ]
    for role in Role:
        rows = ["| option | default | values | meaning | notes |", "|-|-|-|-|-|"]
        for name, option in _of(role):
            cells = [f"`{name}`", _defaults(name, option), _values(option), option.help, _notes(name, option)]
            rows.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
        parts += [f"## {role.value}", "\n".join(rows)]
    return "\n\n".join(parts) + "\n"


def _of(role: Role) -> Iterator[tuple[str, Option]]:
    return ((name, option) for name, option in OPTIONS.items() if option.role is role)


def _yaml(value: object) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=1000).strip().removesuffix("...").strip()
    return "~" if value is None else text.replace("false", "False").replace("true", "True")


def default_of(name: str, model: str) -> str:
    """Return the default of an option of one of our models as YAML has it; an empty text if RecBole documents none."""
    value = MODEL_DEFAULTS[model].get(name, OPTIONS[name].default)
    if value is not RECBOLES:
        return _yaml(value)
    return documented(model)[name].default if name in documented(model) else ""


def _defaults(name: str, option: Option) -> str:
    """Return the default of BERT4Rec, and the other models' defaults that differ."""
    of_model = {model: MODEL_DEFAULTS[model].get(name, option.default) for model in OUR_MODELS}
    texts = {model: f"`{value!r}`" if value is RECBOLES else f"`{_yaml(value)}`" for model, value in of_model.items()}
    first = texts[OUR_MODELS[0]]
    return "; ".join([first, *(f"{model} {text}" for model, text in texts.items() if text != first)])


def _values(option: Option) -> str:
    return "True or False" if isinstance(option.kind, Switch) else option.kind.wanted


def _notes(name: str, option: Option) -> str:
    """Describe what is special about an option; its source comes last."""
    notes = []
    if not option.shared:
        notes.append("BERT4Rec")
    if option.needs is not None:
        notes.append(f"{option.needs[0]} {' or '.join(option.needs[1])}")
    if option.on_resume is OnResume.FREE and option.role is not Role.RUN:
        notes.append("free")
    if option.in_comparison is not InComparison.EACH:
        notes.append(f"in comparisons: {option.in_comparison.value}")
    if not option.searched:
        notes.append("not searched")
    return "; ".join([*notes, option.source.value])


def main(arguments: list[str]) -> int:
    """Write the pages of the options, or with ``--check`` return 1 if one is not up to date."""
    pages = {ROOT / f"properties/model/{model}.yaml": property_file(model) for model in OUR_MODELS}
    pages[ROOT / "docs/options.md"] = reference()
    stale = [file for file, text in pages.items() if not file.is_file() or file.read_text("utf-8") != text]
    for file in stale:
        name = file.relative_to(ROOT)
        if "--check" in arguments:
            print(f"{name} is not up to date with the table of options; run `make pages`")
            continue
        with atomic_write(file) as temporary:
            temporary.write_text(pages[file], encoding="utf-8")
        print(f"{name} written")
    return int("--check" in arguments and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
