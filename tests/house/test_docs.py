"""README and docs: links, commands, tests and Python name what exists; no path is that of one machine."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from recbole_bert4rec.cli.flags import models_of
from recbole_bert4rec.cli.main import parse
from recbole_bert4rec.options.checks import unknown_names
from recbole_bert4rec.options.user_models import known_as, options_read_by
from recbole_bert4rec.system.errors import UserError
from tests.helpers.programs import ROOT

DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES = [*DOCS, ROOT / ".github" / "CONTRIBUTING.md", *sorted((ROOT / "benchmarks" / "results").rglob("*.md"))]
OF_THE_READER = ("my.yaml", "shop.yaml", "hyper.best.yaml")
"""Files that a page tells its reader to make, or that an earlier command makes."""
PROGRAM = re.compile(r"(python run\.py|python run_hyper\.py|python -m recbole_bert4rec|recbole-bert4rec)(?: |$)")
ROOMS = ["cli", "core", "experiments", "logs", "options", "plugin", "recommend", "serving", "system", "training"]
ROOMS += ["integration", "parity"]  # of tests
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


def commands(text: str) -> Iterator[list[str]]:
    """The words of each command in bash blocks and, where it has flags and is whole, in the text."""
    lines = [command for block in blocks(text, "bash") for line in block.splitlines() for command in line.split(" && ")]
    for command in lines:
        yield list(takewhile(lambda word: word not in (">", "2>", "|", "||"), shlex.split(command, comments=True)))
    for command in re.findall(r"`((?:python|recbole-bert4rec) [^`]*--[^`]+)`", prose(text)):
        if "..." not in command:
            yield shlex.split(command)


def mistakes_of_command(words: list[str]) -> str:
    """What is wrong with the names in a command; programs of others are not looked at."""
    line = " ".join(words)
    if (file := re.search(r"python (\S+\.py)", line)) and not (ROOT / file[1]).is_file():
        return f"{file[1]} is no file"
    program = PROGRAM.search(line)
    if not program or "--help" in words:
        return ""
    rest = words[len(line[: program.end()].split()) :]
    if not rest or rest[0].startswith("-"):
        rest = ["tune" if program[1] == "python run_hyper.py" else "run", *rest]
    try:
        arguments = parse(rest)
        if "options" not in arguments:
            return ""
        read = [key for model in models_of(arguments) for key in options_read_by(known_as(model))]
        return " ".join(unknown_names(arguments.options, read, refuse_all=True))
    except (UserError, SystemExit) as error:
        return f"{error}"


def test_links_lead_to_files_and_headings() -> None:
    for page in PAGES:
        text = page.read_text("utf-8")
        for found in re.findall(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$", prose(text), re.MULTILINE):
            path, _, anchor = "".join(found).partition("#")
            if "://" not in path:
                target = page.parent / path if path else page
                assert target.exists(), (page, path)
                assert not anchor or anchor in anchors(target.read_text("utf-8")), (page, path, anchor)


@pytest.mark.parametrize("page", DOCS, ids=name_of)
def test_commands_and_python_of_the_pages_name_what_exists(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = page.read_text("utf-8")
    for name, content in [*((name, "epochs: 1\n") for name in OF_THE_READER), *TITLED.findall(text)]:
        Path(name).write_text(content)
    Path("benchmarks").symlink_to(ROOT / "benchmarks")
    monkeypatch.syspath_prepend(str(tmp_path))  # as the folder of a script
    wrong = {shlex.join(words): mistakes_of_command(words) for words in commands(text)}
    assert not {command: mistake for command, mistake in wrong.items() if mistake}
    for node in ast.walk(ast.parse("\n".join(blocks(text, "python")))):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(str(node.module))
            assert all(hasattr(module, alias.name) for alias in node.names), node.module


def test_a_wrong_command_is_noticed() -> None:
    page = "```bash\npip install x && python run.py --mask_ratoi=0.3   # a comment\n```\n"
    assert ["mask_ratio" in mistakes_of_command(one) for one in commands(page)] == [False, True]


def test_pages_name_files_that_exist() -> None:
    for page in (*DOCS, ROOT / ".github" / "CONTRIBUTING.md"):
        text = page.read_text("utf-8")
        named = re.findall(r"`((?:tests|benchmarks|properties|hyper|\.ci)/[\w./-]+)`", text)
        of_code = re.findall(rf"`((?:{'|'.join(ROOMS)})/\w+\.py)`", text)
        named += [f"{'tests' if '/test_' in name else 'recbole_bert4rec'}/{name}" for name in of_code]
        assert not [name for name in named if "NAME" not in name and not (ROOT / name).exists()], page


def test_no_file_names_a_folder_of_one_machine() -> None:
    folders = ("recbole_bert4rec", "tests", "benchmarks", "docs", "properties", "hyper", ".ci", ".github")
    files = [*ROOT.glob("*.*"), *(path for folder in folders for path in (ROOT / folder).rglob("*"))]
    texts = {path: path.read_bytes() for path in files if path.suffix in (".py", ".md", ".json", ".yaml", ".ipynb")}
    assert not [path for path, text in texts.items() if re.search(rb"/(home|root|tmp|work)/\w", text)]


@pytest.mark.slow
def test_the_python_of_the_landing_page_runs() -> None:
    [block] = blocks((ROOT / "README.md").read_text("utf-8"), "python")
    names: dict[str, Any] = {}
    exec(block.replace('"epochs": 20', '"epochs": 1'), names)
    assert len(names["model"].recommend(names["histories"], k=10)) == 30
