"""Write the pages that follow from the table of options: ``properties/model/*.yaml`` and ``docs/options.md``.

``python docs/site/pages.py`` writes them; with ``--check`` it fails if one is not up to date.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import yaml

from recbole_bert4rec.options.kinds import SWITCH
from recbole_bert4rec.options.table import MODEL_DEFAULTS, OPTIONS, RECBOLES, SECTIONS, SOURCES, WORDS, Option
from recbole_bert4rec.system.constants import OUR_MODELS
from recbole_bert4rec.system.files import atomic_write

ROOT = Path(__file__).resolve().parents[2]
ABOUT = dict(
    zip(
        OUR_MODELS,
        (
            "the model of the paper, trained on the Cloze task",
            "the same model with two-sided and next-item training, and the options that go with it",
            "the causal rival on the same encoder: SASRec with a softmax",
        ),
        strict=True,
    )
)
MADE = "Made from recbole_bert4rec/options/table.py by `make pages`; edit that."
OFF = "off, as in the paper"
ORIGINS = ", ".join(f"{OFF if word == 'off' else word} ({text})" for word, text in SOURCES.items())
COMPARED = ("same", "decided", "single")


def property_file(model: str) -> str:
    """Return the text of ``properties/model/MODEL.yaml``: a line an option whose default is ours."""
    about = f"Defaults of {model}: {ABOUT[model]}. {MADE} Sources of the defaults: {ORIGINS}."
    lines = [f"# {line}" for line in textwrap.wrap(about, 116)]
    for title, rows in SECTIONS.items():
        ours = [(name, option) for name, option in rows.items() if option.default is not RECBOLES]
        lines += ["", f"# {title}"] if ours else []
        for name, option in ours:
            setting = f"{name}: {written(MODEL_DEFAULTS[model].get(name, option.default))}"
            source = "ours" if name in MODEL_DEFAULTS[model] else source_of(option)
            lines.append(f"{setting:<30}# ({values_of(option)}) {option.help} [{source}]")
    return "\n".join(lines) + "\n"


def reference() -> str:
    """Return the text of ``docs/options.md``: a table a section."""
    parts = [
        "# Options",
        f"<!-- {MADE} -->",
        "Give an option on the command line (`--mask_ratio=0.3`), in a YAML file (`--config_files=my.yaml`), or in "
        "Python. The command line wins over Python, Python over files, files over the defaults below. "
        "Options that are not listed here are RecBole's own.",
        f"Sources of the defaults: {ORIGINS}.",
        "A checkpoint is trained further with the same options; *free* ones may change. Options marked "
        "*BERT4Rec* do nothing for RecBole's models, which a warning says.",
    ]
    for title, rows in SECTIONS.items():
        lines = ["| option | default | values | meaning | notes |", "|-|-|-|-|-|"]
        for name, option in rows.items():
            notes = notes_of(option, free=title != "The run")
            cells = [f"`{name}`", defaults_of(name), values_of(option), option.help, notes]
            lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
        parts += [f"## {title}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def written(value: object) -> str:
    """Return a value as YAML has it."""
    text = yaml.safe_dump(value, default_flow_style=True, width=1000).strip().removesuffix("...").strip()
    return "~" if value is None else text.replace("false", "False").replace("true", "True")


def defaults_of(name: str) -> str:
    """Return the default of BERT4Rec, and the other models' defaults that differ."""
    default = OPTIONS[name].default
    others = [f"; {model} `{written(own[name])}`" for model, own in MODEL_DEFAULTS.items() if name in own]
    return f"`{default if default is RECBOLES else written(default)}`" + "".join(others)


def values_of(option: Option) -> str:
    """Return the values of an option in words."""
    return "True or False" if option.kind is SWITCH else option.kind.wanted


def source_of(option: Option) -> str:
    """Return where a default is from."""
    (word,) = option.words & SOURCES.keys()
    return OFF if word == "off" else word


def notes_of(option: Option, free: bool) -> str:
    """Describe what is special about an option; its source comes last."""
    notes = [] if option.words & {"shared", "all"} else ["BERT4Rec"]
    notes += [] if option.needs is None else [f"{option.needs[0]} {' or '.join(option.needs[1])}"]
    notes += ["free"] if free and not option.words & {"fixed", "protocol"} else []
    notes += [WORDS[word] for word in COMPARED if word in option.words]
    notes += ["not searched"] if "unsearched" in option.words else []
    return "; ".join([*notes, source_of(option)])


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
