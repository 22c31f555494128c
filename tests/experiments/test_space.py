"""The grammar of parameter files, every mistake by its place, no evaluation of code; and what a search proposes."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from recbole_bert4rec.experiments.space import (
    Parameter,
    Space,
    hyperopt_space,
    key_of,
    of_draws,
    proposals,
    read_space,
)
from recbole_bert4rec.system.errors import UserError

SHIPPED = Path(__file__).resolve().parents[2] / "hyper"


def space_of(tmp_path: Path, text: str, name: str = "some.hyper") -> Space:
    (tmp_path / name).write_text(text)
    return read_space(tmp_path / name)


def test_the_lines_of_recbole_are_read(tmp_path: Path) -> None:
    space = space_of(
        tmp_path,
        "learning_rate loguniform -8,0\n"
        "embedding_size choice [64,96 , 128]\n"
        "train_batch_size quniform 512,1024,512\n"
        "dropout uniform 0,0.5\n"
        "mlp_hidden_size choice ['[64, 64]','[128]']\n",
    )
    assert space == (
        Parameter("learning_rate", "loguniform", (-8, 0)),
        Parameter("embedding_size", "choice", (64, 96, 128)),
        Parameter("train_batch_size", "quniform", (512, 1024, 512)),
        Parameter("dropout", "uniform", (0, 0.5)),
        Parameter("mlp_hidden_size", "choice", ("[64, 64]", "[128]")),
    )


def test_comments_blank_lines_white_space_and_a_byte_order_mark_are_allowed(tmp_path: Path) -> None:
    text = "\ufeff# a space\n\n  n_layers \t choice   [1,2]   # two\r\n\tact choice ['a', \"c\"]#end\n   \n"
    assert space_of(tmp_path, text) == (
        Parameter("n_layers", "choice", (1, 2)),
        Parameter("act", "choice", ("a", "c")),
    )


def test_a_yaml_space_means_the_same_as_its_lines(tmp_path: Path) -> None:
    lines = space_of(tmp_path, "n_layers choice [1, 2]\nlearning_rate choice [1e-3, 5e-4]\ndropout uniform 0,0.5\n")
    text = "choice:\n  n_layers: [1, 2]\n  learning_rate: [1e-3, 5e-4]\nuniform:\n  dropout: [0, 0.5]\n"
    assert space_of(tmp_path, text, "some.yaml") == lines


LINES: list[tuple[str, str]] = [
    ("n_layers choice", "line 2: "),
    ("n_layers choice [1, 2", "line 2: "),
    ("n_layers choice []", "line 2: "),
    ("n_layers chioce [1, 2]", "'chioce'"),
    ("dropout uniform 0.1", "line 2: uniform takes 2"),
    ("dropout uniform 0.5,0.1", "0.5 and 0.1"),
    ("size quniform 1,9,0", "line 2: .* 0"),
    ("rate loguniform10 0,1", "line 2: .* 0"),
    ("rate loguniform 1,1000", "1000"),
    (f"rate uniform 0,{'9' * 400}", "line 2: uniform"),
    (f"rate {'u' * 9000} 0,1", "'uuu.*\\.\\.\\."),
    ("first choice [3]", "line 2: first"),
    ("valid_metric choice ['MRR@10', 'NDCG@10']", "line 2: valid_metric"),
    ("batch choice [b'1', 2]", "b'1'"),
    ("n choice [__import__('os').system('touch pwned')]", "line 2: "),
    ("n uniform __import__('os').system('touch pwned'),2", "line 2: "),
    ("n choice [" + "[" * 5000, "line 2: "),
]
FILES: list[tuple[str, str]] = [
    ("choice: [1]", "key choice"),
    ("choice: {n: 1}", "key choice: n: "),
    ("picks: {n: [1]}", "key picks: n"),
    ("", "no parameter"),
    ("!!python/object/apply:os.system ['touch pwned']", "some.yaml"),
]
BAD = [(f"first choice [1]\n{line}\n", "some.hyper", named) for line, named in LINES]
BAD += [(text, "some.yaml", named) for text, named in FILES]
BAD += [
    ("a choice\nb choice [1]\nc uniform 1\n", "some.hyper", "(?s)line 1: .*line 3: "),
    ("#", "some.hyper", "some.hyper"),
]


@pytest.mark.parametrize(("text", "name", "named"), BAD)
def test_a_malformed_space_is_refused_by_its_line_or_key_and_runs_no_code(
    tmp_path: Path, text: str, name: str, named: str
) -> None:
    with pytest.raises(UserError, match=named):
        space_of(tmp_path, text, name)
    assert not list(tmp_path.glob("pwned"))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"missing\.hyper"):
        read_space(tmp_path / "missing.hyper")


def test_the_grid_holds_every_combination_once_though_values_repeat(tmp_path: Path) -> None:
    space = space_of(tmp_path, "a choice [1, 2, 1]\nb choice ['x', 'y']\nc choice [True, 1]\nd choice [[1, 2]]\n")
    grid = proposals(space, "exhaustive", 10, seed=0)
    assert grid is not None
    assert len({key_of(setting) for setting in grid}) == len(grid) == 8
    assert grid[1] == {"a": 1, "b": "x", "c": 1, "d": [1, 2]}, "the last one that varies changes fastest"


def test_exhaustive_refuses_a_range(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--algo=exhaustive .* dropout"):
        proposals(space_of(tmp_path, "dropout uniform 0,0.5\n"), "exhaustive", 10, seed=0)


def test_random_settings_are_distinct_and_depend_on_the_seed_alone(tmp_path: Path) -> None:
    space = space_of(tmp_path, "a choice [1, 2, 3]\nb choice ['x', 'y']\nc quniform 1,2,1\n")
    first, again, other = (proposals(space, "random", 7, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert first is not None
    assert len({key_of(setting) for setting in first}) == len(first) == 7
    assert len(proposals(space, "random", 100, seed=1) or []) == 12, "all that there are"


def test_what_is_drawn_can_have_come_from_the_space() -> None:
    ranges = {"uniform": (-3.0, 0.1), "quniform": (10, 100, 25), "loguniform": (-8, 0), "loguniform10": (1e-4, 1e-2)}
    space: Space = tuple(Parameter(kind, kind, values) for kind, values in ranges.items())
    settings = proposals(space, "random", 200, seed=0)
    assert settings is not None
    assert len(settings) == 200
    for parameter in space:
        low, high = parameter.bounds
        drawn = [setting[parameter.name] for setting in settings]
        assert low - 1e-9 <= min(drawn) < max(drawn) <= high + 1e-9
    rates = sorted(setting["loguniform"] for setting in settings)
    assert math.exp(-8) <= rates[0] < math.exp(-7), "bounds are exponents of e, as in RecBole"
    assert math.exp(-1) < rates[-1] <= 1


def test_a_whole_quniform_gives_whole_numbers_within_its_bounds() -> None:
    assert isinstance(Parameter("n", "quniform", (16, 64, 16)).value(32.0), int)
    assert Parameter("n", "quniform", (10, 100, 25)).value(0.0) == 10, "hyperopt counts steps from 0"
    assert isinstance(Parameter("x", "quniform", (0, 1, 0.1)).value(0.3), float)


def test_a_choice_stays_what_it_is_though_hyperopt_takes_lists_apart() -> None:
    space = (Parameter("sizes", "choice", ([64, 64], [128], "[32]", None)),)
    assert set(hyperopt_space(space)) == {"sizes"}
    assert [of_draws(space, {"sizes": n})["sizes"] for n in range(4)] == [[64, 64], [128], "[32]", None]


@pytest.mark.parametrize("file", [*sorted(SHIPPED.glob("*.hyper")), SHIPPED / "hyper.test"], ids=lambda f: f.name)
def test_shipped_spaces_are_read(file: Path) -> None:
    assert read_space(file)
