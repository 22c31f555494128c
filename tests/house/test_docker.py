"""The image for training, without Docker: it runs README's first command, and copies all that an installation needs."""

from __future__ import annotations

import configparser
import json
import shlex
from pathlib import Path

import recbole_bert4rec
from recbole_bert4rec.system.constants import INSTALL_RECBOLE

ROOT = Path(recbole_bert4rec.__file__).parents[1]
LINES = (ROOT / "Dockerfile.training").read_text("utf-8").splitlines()
SENT = {line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")}


def test_the_image_runs_the_first_command_of_the_readme() -> None:
    (command,) = [json.loads(line.removeprefix("CMD ")) for line in LINES if line.startswith("CMD ")]
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    first = next(line for line in lines if line.startswith("python run.py"))
    assert [word.removeprefix("/app/") for word in command] == shlex.split(first, comments=True)
    assert any(INSTALL_RECBOLE in line for line in LINES)


def test_the_image_gets_every_package_and_every_file_that_setup_reads() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    folders = dict(line.split(" = ") for line in setup["options"]["package_dir"].split("\n") if line)
    for package in setup["options"]["packages"].split():
        top = folders.get(package, package.replace(".", "/")).split("/")[0]
        assert top in SENT, package
    long_description = setup["metadata"]["long_description"].removeprefix("file: ")
    assert {long_description, setup["metadata"]["license_files"], "setup.cfg", "pyproject.toml", "run.py"} <= SENT
    assert all((ROOT / name).exists() for name in SENT)


def test_the_image_does_not_run_as_root() -> None:
    steps = [line.split()[0] for line in LINES if line and not line.startswith("#")]
    assert steps.index("USER") > max(number for number, step in enumerate(steps) if step in ("RUN", "COPY"))
