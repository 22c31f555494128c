"""The shape of the source: floors, declared requirements; the public names, and what works without what is optional."""

from __future__ import annotations

import ast
import re
import signal
import subprocess
import sys
from configparser import ConfigParser
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import recbole_bert4rec
from recbole_bert4rec.system.environment import EXTRAS
from tests.helpers.data import histories_to_rows, overlapping_histories
from tests.helpers.programs import BLOCKED, ROOT

FLOORS = ["system", "core", "options", "checkpoints", "logs", "plugin", "recommend", "serving", "training"]
FLOORS += ["experiments", "cli"]
"""The rooms from the ground up, one a floor; docs/architecture.md says what each is for."""
ABSENT = tuple(name for name, extra in EXTRAS.items() if extra != "onnx")  # torch itself looks for onnx


def python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)


def imported(path: Path) -> set[str]:
    """Return the modules that a file imports, with what is taken from each."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


PACKAGE = ROOT / "recbole_bert4rec"
IMPORTS = {path: imported(path) for path in PACKAGE.rglob("*.py")}


def test_a_room_imports_only_from_the_rooms_below_it() -> None:
    for path, names in IMPORTS.items():
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room in ("__init__", "__main__"):
            continue
        rooms = {name.split(".")[1] for name in names if name.startswith("recbole_bert4rec.")}
        assert not rooms - {room, *FLOORS[: FLOORS.index(room)]}, path
        assert room in ("cli", "serving") or "serving" not in rooms, path
        packages = {name.split(".")[0] for name in names}
        assert path.stem == "on_ray" or room == "system" or "ray" not in packages, path
        assert room not in ("system", "core", "checkpoints") or "recbole" not in packages, path


def test_what_the_package_imports_is_among_its_requirements() -> None:
    setup = ConfigParser(interpolation=None)
    setup.read(ROOT / "setup.cfg")
    lines = "\n".join([setup["options"]["install_requires"], *setup["options.extras_require"].values()]).splitlines()
    declared = {re.split(r"[^\w.-]", line.strip())[0].lower() for line in lines}
    packages = {name.split(".")[0] for names in IMPORTS.values() for name in names} - sys.stdlib_module_names
    sources = metadata.packages_distributions()
    for package in packages - {"recbole", "recbole_bert4rec", "pydantic", "starlette"}:  # the last two are FastAPI's
        assert {name.lower() for name in sources.get(package, [package])} & declared, package


def test_public_names_come_when_they_are_asked_for() -> None:
    for name in recbole_bert4rec.__all__:
        assert getattr(recbole_bert4rec, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        recbole_bert4rec.no_such_name  # noqa: B018


def test_the_version_is_that_of_the_newest_changes() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.findall(r"^## ([\w.]+)", changes, re.MULTILINE)[0] == recbole_bert4rec.__version__


def test_without_recbole_programs_end_with_1_and_say_what_is_missing() -> None:
    done = python(f"""{BLOCKED}
import recbole_bert4rec
from recbole_bert4rec.cli.main import main
try:
    recbole_bert4rec.run
except ImportError as error:
    print(error, file=sys.stderr)
print(main())
""")
    assert done.stdout.split() == ["1"]
    of_python, command = done.stderr.splitlines()
    assert "recbole==" in of_python
    assert re.search("recbole==.*doctor", command)


def test_a_reader_that_leaves_ends_a_command_without_a_traceback() -> None:
    program = """import sys, types, recbole_bert4rec.cli.main as cli
cli.parse = lambda *_, **__: types.SimpleNamespace(execute=lambda _: print("an answer"), left_behind="")
sys.exit(cli.main())"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 128 + signal.SIGPIPE


def test_what_is_optional_is_not_needed_to_train_and_recommend_and_named_where_it_is(
    write_inter: Any, tmp_path: Path
) -> None:
    data = write_inter(histories_to_rows(overlapping_histories(30)))
    flags = [f"--{name}={value}" for name, value in {**data, "epochs": 1, "hidden_size": 16, "n_layers": 1}.items()]
    done = python(f"""{BLOCKED}
Block.names = {ABSENT!r}
import os, re, recbole_bert4rec, recbole.config
print([name for name in sys.modules if re.match("recbole_bert4rec.(cli|experiments|serving|training.run)", name)])
from recbole_bert4rec.cli.main import main
os.chdir({str(tmp_path)!r})
print(main(["run", *{flags!r}, "--recommend=top.csv", "--quiet"]))
print(any(name.split(".")[0] in Block.names for name in sys.modules))
for words in (["tune", "--params_file={__file__}"], ["--model=Pop,BERT4Rec"], ["serve", "--checkpoint=m.pth"]):
    print(main(words))
""")
    assert done.stdout.split() == ["[]", "0", "False", "1", "1", "1"], done.stderr
    assert (tmp_path / "top.csv").read_text().startswith("user_id,item_id,rank,score\n")
    search, comparison, service = done.stderr.splitlines()[-3:]
    assert "hyperopt, plotly" in search
    assert "plots" in comparison
    assert "fastapi, uvicorn" in service
