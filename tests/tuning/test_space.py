"""The grammar of parameter files: RecBole's lines and YAML, every mistake by its place, and no evaluation of code."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_comments_blank_lines_and_any_white_space_are_allowed(tmp_path: Path) -> None:
    text = "# a space\n\n  n_layers \t choice   [1,2]   # two\r\n\tact choice ['a#b', \"c\"]#end\n   \n"
    assert space_of(tmp_path, text).parameters == (
        Parameter("n_layers", "choice", (1, 2)),
        Parameter("act", "choice", ("a#b", "c")),
    )


def test_a_yaml_space_means_the_same_as_its_lines(tmp_path: Path) -> None:
    lines = space_of(tmp_path, "n_layers choice [1, 2]\nlearning_rate choice [1e-3, 5e-4]\ndropout uniform 0,0.5\n")
    text = "choice:\n  n_layers: [1, 2]\n  learning_rate: [1e-3, 5e-4]\nuniform:\n  dropout: [0, 0.5]\n"
    assert space_of(tmp_path, text, "some.yaml") == lines


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("n_layers choice", "line 2: name, kind and values are needed"),
        ("n_layers", "line 2: name, kind and values are needed"),
        ("n_layers choice [1, 2", "line 2: the values must be a list"),
        ("n_layers choice 3", "line 2: the values must be a list"),
        ("n_layers choice []", "line 2: there is nothing to choose from"),
        ("n_layers chioce [1, 2]", "line 2: the kind must be one of .*'chioce'"),
        ("dropout uniform 0.1", "line 2: uniform takes 2 numbers"),
        ("dropout uniform a,b", "line 2: the values must be numbers"),
        ("dropout uniform 0.5,0.1", "line 2: low must be less than high"),
        ("size quniform 1,9,0", "line 2: the step must be above 0"),
        ("rate loguniform10 0,1", "line 2: the bounds must be above 0"),
        (f"rate uniform 0,{'9' * 400}", "line 2: uniform takes 2 numbers"),
        (f"rate {'u' * 9000} 0,1", "line 2: the kind must be one of .*, but is 'uuu.*\\.\\.\\."),
        ("rate loguniform 1,1000", "line 2: the bounds are exponents of e"),
        ("first choice [3]", "line 2: first is there twice"),
        ("n choice [__import__('os').system('touch pwned')]", "line 2: the values must be a list"),
        ("n uniform __import__('os').system('touch pwned'),2", "line 2: the values must be numbers"),
        ("n choice [" + "[" * 5000, "line 2: the values must be a list"),
    ],
)
def test_a_malformed_line_is_named_by_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=said):
        space_of(tmp_path, f"first choice [1]\n{line}\n")
    assert not (tmp_path / "pwned").exists()


def test_all_malformed_lines_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"(?s)line 1: .*line 3: "):
        space_of(tmp_path, "a choice\nb choice [1]\nc uniform 1\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("choice: [1]", "key choice: must hold"),
        ("choice: {n: 1}", "key choice: n must be a list"),
        ("- 1", "it must hold `choice"),
        ("choice: {n: [", "parsing"),
        ("picks: {n: [1]}", "key picks: n: the kind must be one of"),
        ("", "it must hold `choice"),
        ("!!python/object/apply:os.system ['touch pwned']", "could not determine a constructor"),
    ],
)
def test_a_malformed_yaml_space_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=said):
        space_of(tmp_path, text, "some.yaml")
    assert not (tmp_path / "pwned").exists()


def test_an_empty_or_missing_file_is_explained(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no parameter in it"):
        space_of(tmp_path, "# nothing\n")
    with pytest.raises(UserError, match=r"missing.hyper cannot be read: No such file or directory$"):
        read_space(tmp_path / "missing.hyper")


def test_the_grid_holds_every_combination_once_though_values_repeat(tmp_path: Path) -> None:
    space = space_of(tmp_path, "a choice [1, 2, 1]\nb choice ['x', 'y']\nc choice [True, 1]\n")
    grid = list(space.grid())
    assert space.size == len(grid) == 8
    assert len({tuple(map(repr, params.values())) for params in grid}) == 8


def test_a_whole_quniform_gives_whole_numbers_for_options_that_need_them() -> None:
    assert Parameter("n", "quniform", (16, 64, 16)).value(32.0) == 32
    assert isinstance(Parameter("n", "quniform", (16, 64, 16)).value(32.0), int)
    assert isinstance(Parameter("x", "quniform", (0, 1, 0.1)).value(0.3), float)


@given(st.floats(1e-9, 1.0), st.floats(1.5, 1e6))
def test_loguniform10_stays_between_its_bounds(low: float, factor: float) -> None:
    from hyperopt.pyll.stochastic import sample

    drawn = sample(Parameter("x", "loguniform10", (low, low * factor)).hyperopt())
    assert low * 0.999 <= drawn <= low * factor * 1.001


def test_a_parameter_says_its_values_or_the_ends_of_its_range(tmp_path: Path) -> None:
    lines = "\ufeffn_layers choice [1, 2]\nmask_ratio uniform 0.1,1\nhidden_size quniform 16,64,16\n"
    lines += "learning_rate loguniform 1e-4,1e-2\nweight_decay loguniform10 1e-4,1e-2\n"
    (tmp_path / "a.hyper").write_text(lines, "utf-8")  # with a byte order mark
    assert [str(parameter) for parameter in read_space(tmp_path / "a.hyper").parameters] == [
        "n_layers 1, 2",
        "mask_ratio from 0.1 to 1",
        "hidden_size from 16 to 64 in steps of 16",
        "learning_rate from 1.0001 to 1.01005",
        "weight_decay from 0.0001 to 0.01",
    ]


def test_loguniform_bounds_are_exponents_of_e_as_in_recbole() -> None:
    import numpy as np
    from hyperopt.pyll.stochastic import sample

    node = Parameter("x", "loguniform", (-8, 0)).hyperopt()
    drawn = [sample(node, np.random.default_rng(seed)) for seed in range(200)]
    assert math.exp(-8) <= min(drawn) < math.exp(-7)
    assert math.exp(-1) < max(drawn) <= 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("valid_metric choice ['MRR@10', 'NDCG@10']", "valid_metric says what is compared"),
        ("batch choice [b'1', 2]", "choices must be numbers, texts"),
        ("batch choice [{1}, 2]", "choices must be numbers, texts"),
    ],
)
def test_what_cannot_be_compared_or_kept_is_refused(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        space_of(tmp_path, line)


def test_steps_stay_within_their_bounds() -> None:
    assert Parameter("n", "quniform", (10, 100, 25)).value(0.0) == 10


@pytest.mark.parametrize("file", [*sorted(SHIPPED.glob("*.hyper")), SHIPPED / "hyper.test"], ids=lambda f: f.name)
def test_shipped_spaces_are_read(file: Path) -> None:
    assert read_space(file).parameters
