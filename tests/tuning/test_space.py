"""The grammar of parameter files: RecBole's lines and YAML, every mistake by its place, and no evaluation of code."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.tuning.space import Parameter, Space, read_space

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
    assert space.parameters == (
        Parameter("learning_rate", "loguniform", (-8, 0)),
        Parameter("embedding_size", "choice", (64, 96, 128)),
        Parameter("train_batch_size", "quniform", (512, 1024, 512)),
        Parameter("dropout", "uniform", (0, 0.5)),
        Parameter("mlp_hidden_size", "choice", ("[64, 64]", "[128]")),
    )


def test_comments_blank_lines_white_space_and_a_byte_order_mark_are_allowed(tmp_path: Path) -> None:
    text = "\ufeff# a space\n\n  n_layers \t choice   [1,2]   # two\r\n\tact choice ['a#b', \"c\"]#end\n   \n"
    assert space_of(tmp_path, text).parameters == (
        Parameter("n_layers", "choice", (1, 2)),
        Parameter("act", "choice", ("a#b", "c")),
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
    ("choice: {n: 1}", "key choice: n "),
    ("picks: {n: [1]}", "key picks: n"),
    ("", "`choice"),
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
    space = space_of(tmp_path, "a choice [1, 2, 1]\nb choice ['x', 'y']\nc choice [True, 1]\n")
    grid = list(space.grid())
    assert space.size == len(grid) == 8
    assert len({tuple(map(repr, params.values())) for params in grid}) == 8


def test_a_whole_quniform_gives_whole_numbers_for_options_that_need_them() -> None:
    assert Parameter("n", "quniform", (16, 64, 16)).value(32.0) == 32
    assert Parameter("n", "quniform", (10, 100, 25)).value(0.0) == 10, "steps stay within their bounds"
    assert isinstance(Parameter("n", "quniform", (16, 64, 16)).value(32.0), int)
    assert isinstance(Parameter("x", "quniform", (0, 1, 0.1)).value(0.3), float)


def test_loguniform_bounds_are_exponents_of_e_as_in_recbole() -> None:
    import numpy as np
    from hyperopt.pyll.stochastic import sample

    node = Parameter("x", "loguniform", (-8, 0)).hyperopt()
    drawn = [sample(node, np.random.default_rng(seed)) for seed in range(200)]
    assert math.exp(-8) <= min(drawn) < math.exp(-7)
    assert math.exp(-1) < max(drawn) <= 1


@pytest.mark.parametrize("file", [*sorted(SHIPPED.glob("*.hyper")), SHIPPED / "hyper.test"], ids=lambda f: f.name)
def test_shipped_spaces_are_read(file: Path) -> None:
    assert read_space(file).parameters
