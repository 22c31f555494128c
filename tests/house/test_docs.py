"""README and docs/: links lead somewhere, tables are whole, commands are understood, Python imports what exists."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from recbole_bert4rec.cli import pages
from recbole_bert4rec.cli.inputs import config_files, models_of, protocols
from recbole_bert4rec.cli.main import COMMANDS, parser_of
from recbole_bert4rec.cli.words import check_flags, joined
from recbole_bert4rec.options import pages as option_pages
from recbole_bert4rec.options.flags import literal, parse_flags
from recbole_bert4rec.options.kinds import misfits
from recbole_bert4rec.options.known import mistakes_of_names
from recbole_bert4rec.options.table import OPTIONS
from recbole_bert4rec.options.user_models import known_as, options_read_by
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.resources import find_config
from recbole_bert4rec.training.inputs import refuse_unknown_model

ROOT = Path(__file__).resolve().parents[2]
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
REPORTS = [*(ROOT / "results").glob("*.md"), *(ROOT / "results").glob("*/report.md")]
PAGES = [*DOCS, ROOT / "CONTRIBUTING.md", *sorted(REPORTS)]
OF_THE_READER = ("my.yaml", "shop.yaml", "hyper.best.yaml")
"""Files that a page tells its reader to make, or that an earlier command makes."""
SHELL = (">", "2>", "|", "||")
"""Words after which the shell's part begins."""
PLACEHOLDER = re.compile(r"[A-Z]+")
"""What stands for a value of the reader's, such as SEED."""
TITLED = re.compile(r'^```\w+ title="(.*?)"\n(.*?)^```', re.MULTILINE | re.DOTALL)
"""A file that a page tells its reader to save."""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def prose(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """The anchors of headings as repositories make them, and those of mkdocstrings."""
    headings = re.findall(r"^#+ (.+)$", prose(text), re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r"^::: (\S+)$", text, re.MULTILINE))


def mistakes_of_links(text: str, folder: Path) -> list[str]:
    found = re.findall(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$", prose(text), re.MULTILINE)
    mistakes = []
    for link in filter(lambda link: "://" not in link, map("".join, found)):
        path, _, anchor = link.partition("#")
        target = folder / path
        if not target.exists() or (anchor and anchor not in anchors(target.read_text("utf-8") if path else text)):
            mistakes.append(link)
    return mistakes


def mistakes_of_tables(text: str) -> list[str]:
    """The rows that have more or fewer cells than the line of their table above them."""
    lines = text.splitlines()
    cells = [len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0 for line in lines]
    return [
        line for line, above, own in zip(lines[1:], cells, cells[1:], strict=False) if own and above and own != above
    ]


def commands(text: str) -> Iterator[list[str]]:
    """The words of each command in bash blocks and, where it has flags and is whole, in the text."""
    for block in blocks(text, "bash"):
        for line in re.sub(r'^eval "\$\((.*)\)"', r"\1", block, flags=re.MULTILINE).splitlines():
            for command in line.split(" && "):
                yield list(takewhile(lambda word: word not in SHELL, shlex.split(command, comments=True)))
    for command in re.findall(r"`((?:python|recbole-bert4rec) [^`]*--[^`]+)`", prose(text)):
        if "..." not in command:
            yield shlex.split(command)


def mistakes_of_command(words: list[str]) -> str:
    """What is wrong with a command; programs of others are not looked at."""
    line = " ".join(words)
    file = re.search(r"python (\S+\.py)", line)
    if file and not (ROOT / file[1]).is_file():
        return f"{file[1]} is no file"
    module = re.search(r"python -m (\S+)", line)
    if module and find_spec(module[1]) is None:
        return f"{module[1]} is no module"
    ours = re.search(r"(python run\.py|python run_hyper\.py|python -m recbole_bert4rec|recbole-bert4rec)(?: |$)", line)
    if not ours:
        return ""
    rest = words[len(line[: ours.end()].split()) :]
    short = {"python run.py": "run", "python run_hyper.py": "tune"}.get(ours[1])
    name, rest = (short, rest) if short else (rest[0], rest[1:]) if rest and rest[0] in COMMANDS else ("run", rest)
    try:
        return _mistakes_of_request(name, rest)
    except (UserError, SystemExit) as error:
        return f"{error}"


def _mistakes_of_request(name: str, words: list[str]) -> str:
    parser = parser_of(name, name)
    if "--help" in words:
        return ""
    own = {word for action in parser._actions for word in action.option_strings}
    takes_options = COMMANDS[name].takes_options
    options, flags = parser.parse_known_args(joined(words, own) if takes_options else words)
    if not takes_options:
        return " ".join(flags)
    check_flags(flags, own)
    given = {key: literal(value) for key, value in parse_flags(flags).items() if not PLACEHOLDER.fullmatch(value)}
    models = [known_as(model) for model in models_of(options)]
    wrong = mistakes_of_names(given, [name for model in models for name in options_read_by(model)])
    wrong += misfits(given, {key: OPTIONS[key].kind for key in given if key in OPTIONS})
    config_files(options)
    for model in models:
        if model != "MODEL":
            refuse_unknown_model(model)
    if hasattr(options, "also_test"):
        protocols(options)
    if getattr(options, "study", None):
        find_config(options.study, "study")
    if name == "tune" and not (ROOT / options.params_file).is_file():
        wrong.append(f"{options.params_file} is no file")
    return " ".join(wrong)


def mistakes_of_python(text: str) -> list[str]:
    """Names that are imported and do not exist."""
    mistakes = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            mistakes += [alias.name for alias in node.names if find_spec(alias.name) is None]
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(str(node.module))
            mistakes += [alias.name for alias in node.names if not hasattr(module, alias.name)]
    return mistakes


@pytest.fixture(autouse=True)
def _files_of_the_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OF_THE_READER:
        Path(name).write_text("epochs: 1\n")
    for page in DOCS:
        for name, text in TITLED.findall(page.read_text("utf-8")):
            Path(name).write_text(text)
    Path("results").symlink_to(ROOT / "results")
    monkeypatch.syspath_prepend(str(tmp_path))  # as the folder of a script


def test_the_landing_page_has_at_most_8_kilobytes() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= 8192


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    assert not mistakes_of_links(page.read_text("utf-8"), page.parent)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_rows_of_tables_have_the_cells_of_their_header(page: Path) -> None:
    assert not mistakes_of_tables(page.read_text("utf-8"))


@pytest.mark.parametrize("page", [page for page in PAGES if any(commands(page.read_text("utf-8")))], ids=name_of)
def test_commands_of_the_pages_are_understood(page: Path) -> None:
    found = {shlex.join(words): mistakes_of_command(words) for words in commands(page.read_text("utf-8"))}
    assert not {command: mistake for command, mistake in found.items() if mistake}


@pytest.mark.parametrize("page", [page for page in DOCS if "```python" in page.read_text("utf-8")], ids=name_of)
def test_python_of_the_pages_imports_what_exists(page: Path) -> None:
    assert not [name for block in blocks(page.read_text("utf-8"), "python") for name in mistakes_of_python(block)]


def test_the_site_has_every_page_and_no_other() -> None:
    def files(entry: object) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry
        for part in entry if isinstance(entry, list) else entry.values() if isinstance(entry, dict) else ():
            yield from files(part)

    listed = set(files(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]))
    assert {page.name for page in DOCS} <= listed
    assert all((ROOT / "docs" / name).is_file() or (ROOT / name).is_file() for name in listed)


@pytest.mark.parametrize("maker", [option_pages, pages])
def test_the_pages_that_are_made_are_up_to_date(maker: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert maker.main(["--check"]) == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("maker", "words"),
    [
        (option_pages, "docs/options.md is not up to date"),
        (pages, "docs/commands.md is not up to date with the commands"),
    ],
)
def test_a_page_that_is_not_up_to_date_is_named_and_written_again(
    maker: ModuleType, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(option_pages, "ROOT", tmp_path)
    assert maker.main(["--check"]) == 1
    assert words in capsys.readouterr().out
    assert maker.main([]) == 0
    assert maker.main(["--check"]) == 0


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python run.py --mask_ratoi=0.3", "did you mean `mask_ratio`?"),
        ("python run.py --mask_ratio=3", "`mask_ratio` must be"),
        ("python run.py --recomend=top.csv", "did you mean `--recommend`?"),
        ("python run.py --config_files=protocol-papers.yaml", "did you mean protocol-paper.yaml?"),
        ("python run.py --also_test=x.yaml", "there is no file x.yaml"),
        ("python run.py --model=BERT5Rec", "BERT5Rec"),
        ("python run.py --study=mask.yaml", "there is no file mask.yaml"),
        ("python run_hyper.py", "--params_file"),
        ("python run_hyper.py --params_file=hyper/none", "hyper/none is no file"),
        ("docker run IMAGE python -m recbole_bert4rec info --checkpoints=a.pth", "required: --checkpoint"),
        ("recbole-bert4rec similar --checkpoint=a.pth --kk=3", "--kk=3"),
        ("python benchmarks/none.py", "benchmarks/none.py is no file"),
        ("python -m tests.none", "tests.none is no module"),
    ],
)
def test_a_wrong_command_is_found(command: str, words: str) -> None:
    page = f"```bash\npip install x && {command}   # a comment\n```\n"
    assert [words in mistakes_of_command(found) for found in commands(page)] == [False, True]


def test_a_wrong_link_is_found() -> None:
    links = "[a](#a-page) [b](#b-page) [c](README.md#first-run) [d](README.md#none) [e](none.md)"
    text = f"# A page\n{links}\n[f]: none.py\n"
    assert mistakes_of_links(text, ROOT) == ["#b-page", "README.md#none", "none.md", "none.py"]


def test_a_broken_row_is_found() -> None:
    text = "| a | b |\n|-|-|\n| 1 \\| 2 | 3 |\n| 4\n[a]: b.md\n\n| c |\n|-|\n"
    assert mistakes_of_tables(text) == ["| 4"]


def test_a_wrong_import_is_found() -> None:
    assert mistakes_of_python("from recbole_bert4rec import run, fly\nimport nothing") == ["fly", "nothing"]


@pytest.mark.slow
def test_the_python_of_the_landing_page_runs() -> None:
    [block] = blocks((ROOT / "README.md").read_text("utf-8"), "python")
    names: dict[str, Any] = {}
    exec(block.replace('"epochs": 20', '"epochs": 1'), names)
    assert len(names["model"].recommend(names["histories"], k=10)) == 30
