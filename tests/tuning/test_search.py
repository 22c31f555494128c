"""What a search proposes, and its file of trials."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from recbole_bert4rec.system.constants import ALGORITHMS
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.tuning.search import Search, key_of
from recbole_bert4rec.tuning.space import Parameter, Space
from recbole_bert4rec.tuning.trials import FAILED, Trial, TrialLog

SPACE = Space((Parameter("a", "choice", (1, 2, 3)), Parameter("b", "choice", ("x", "y"))))
LINE = Space((Parameter("x", "uniform", (-1.0, 1.0)),))
ABOUT: dict[str, Any] = {
    "model": "BERT4Rec",
    "bigger": True,
    "space": {"a": ["choice", 1, 2, 3]},
}


def proposals(
    search: Search, score: Callable[[dict[str, Any]], float] = lambda params: 0.0
) -> list[tuple[int, dict[str, Any]]]:
    found = []
    while (proposal := search.ask()) is not None:
        found.append(proposal)
        search.tell(proposal[1], score(proposal[1]))
    return found


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_setting_is_proposed_twice_and_all_of_a_small_space_are(algorithm: str) -> None:
    found = proposals(Search(SPACE, algorithm, None if algorithm == "exhaustive" else 100, seed=1, bigger=True))
    assert len({key_of(params) for _, params in found}) == len(found) == SPACE.size
    assert len({number for number, _ in found}) == len(found)


@pytest.mark.parametrize("algorithm", ["random", "bayes"])
def test_the_same_seed_and_scores_propose_the_same_settings(algorithm: str) -> None:
    first, second, other = (proposals(Search(LINE, algorithm, 25, seed, bigger=True)) for seed in (1, 1, 2))
    assert first == second != other


@pytest.mark.parametrize("algorithm", ["exhaustive", "random"])
def test_a_resumed_search_proposes_exactly_what_is_missing_under_its_old_numbers(algorithm: str) -> None:
    limit = None if algorithm == "exhaustive" else 5
    whole = proposals(Search(SPACE, algorithm, limit, seed=3, bigger=True))
    resumed = Search(SPACE, algorithm, limit, seed=3, bigger=True)
    kept = [whole[0], whole[3]]  # as after a kill with several running
    resumed.go_on([(number, params, 0.5) for number, params in kept])
    assert proposals(resumed) == [proposal for proposal in whole if proposal not in kept]


def test_bayes_learns_from_scores_also_from_those_of_an_earlier_run() -> None:
    def score(params: dict[str, Any]) -> float:
        return -abs(params["x"] - 0.7)

    search = Search(LINE, "bayes", 60, seed=0, bigger=True)
    told = []
    for _ in range(30):
        number, params = search.ask() or pytest.fail("no proposal")
        search.tell(params, score(params))
        told.append((number, params, score(params)))
    resumed = Search(LINE, "bayes", 60, seed=0, bigger=True)
    resumed.go_on(told)
    later = proposals(resumed, score)
    assert len(later) == 30
    assert not {number for number, _ in later} & {number for number, *_ in told}
    mean = sum(abs(params["x"] - 0.7) for _, params in later) / 30
    assert mean < 0.75 * sum(abs(params["x"] - 0.7) for _, params, _ in told[:20]) / 20


def test_bayes_goes_where_scores_are_better_and_bears_failed_trials() -> None:
    distance = {}
    for bigger in (True, False):
        search = Search(LINE, "bayes", 60, seed=0, bigger=bigger)
        tried = []
        while (proposal := search.ask()) is not None:
            x = proposal[1]["x"]
            tried.append(abs(x))
            search.tell(proposal[1], None if 0.4 < x < 0.5 else x * x)
        distance[bigger] = sum(tried[30:]) / 30
    assert distance[False] < 0.5 < distance[True]


def test_exhaustive_refuses_a_continuous_space() -> None:
    with pytest.raises(UserError, match="--algo=exhaustive needs choices alone, but x"):
        Search(LINE, "exhaustive", None, seed=0, bigger=True)


def test_a_study_keeps_every_trial_at_once_and_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    log = TrialLog(path, ABOUT, resume=False)
    log.add(Trial(0, {"a": 1}, score=0.5, valid={"ndcg@10": 0.5}, epochs=3, best_epoch=2))
    log.add(Trial(1, {"a": 2}, status=FAILED, reason="it broke"))
    again = TrialLog(path, ABOUT, resume=True)
    assert again.trials == log.trials
    assert again.best == log.trials[0]


def test_a_line_cut_by_a_kill_is_dropped_and_the_rest_kept(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    log = TrialLog(path, ABOUT, resume=False)
    log.add(Trial(0, {"a": 1}, score=0.5))
    with open(path, "a") as file:
        file.write('{"number": 1, "par')
    again = TrialLog(path, ABOUT, resume=True)
    again.add(Trial(1, {"a": 2}, score=0.6))
    assert [json.loads(line)["number"] for line in path.read_text().splitlines()[1:]] == [0, 1]


def test_a_study_is_not_overwritten_or_mixed_with_another(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    TrialLog(path, ABOUT, resume=False).add(Trial(0, {"a": 1}, score=0.5))
    with pytest.raises(UserError, match="--resume"):
        TrialLog(path, ABOUT, resume=False)
    with pytest.raises(UserError, match=r"another search .model was 'BERT4Rec', not 'SASRec'"):
        TrialLog(path, {**ABOUT, "model": "SASRec"}, resume=True)
    path.write_text("nonsense\n")
    with pytest.raises(UserError, match="is not the file of a search"):
        TrialLog(path, ABOUT, resume=True)


def test_a_setting_is_not_kept_twice(tmp_path: Path) -> None:
    log = TrialLog(tmp_path / "some.jsonl", ABOUT, resume=False)
    log.add(Trial(0, {"a": 1}, score=0.5))
    with pytest.raises(ValueError, match="is there already"):
        log.add(Trial(1, {"a": 1}, score=0.6))


@pytest.mark.parametrize(("bigger", "winner"), [(True, 2), (False, 0)])
def test_the_best_is_by_score_and_of_equal_ones_the_first_in_the_search(
    tmp_path: Path, bigger: bool, winner: int
) -> None:
    log = TrialLog(tmp_path / "some.jsonl", {**ABOUT, "bigger": bigger}, resume=False)
    for number, score in ((3, 0.9), (1, 0.5), (0, 0.5), (2, 0.9), (4, None)):
        status = FAILED if score is None else "finished"
        log.add(Trial(number, {"a": number}, score=score, status=status))
    assert log.best is not None
    assert log.best.number == winner
    assert [trial.score for trial in log.ranking()] == sorted([0.5, 0.5, 0.9, 0.9], reverse=bigger)


def changed(**values: Any) -> bytes:
    """A line of a trial that cannot have been written so."""
    return json.dumps({**asdict(Trial(1, {"a": 2}, score=0.5)), **values}).encode()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"\xff\xfe", "codec can't decode"),
        (b"[" * 100_000, "recursion"),
        (b"3", "it must be a dictionary, but is 3"),
        (b"{}", "it must have"),
        (b'{"number": 1}', "it must have"),
        (changed(number="1"), "`number` cannot be '1'"),
        (changed(number=-1), "`number` cannot be -1"),
        (changed(number=0), "trial 0 is there already"),
        (changed(params={"a": 1}), "trial 1 is there already"),
        (changed(params=[1]), r"`params` cannot be \[1\]"),
        (changed(params={"b": 2}), r"`params` must be values of \['a'\]"),
        (changed(params={"a": 4}), "`a` cannot be 4 in this search"),
        (changed(params={"a": True}), "`a` cannot be True in this search"),
        (changed(status="done"), "`status` cannot be 'done'"),
        (changed(score=None), "`score` cannot be None"),
        (changed(score="x"), "`score` cannot be 'x'"),
        (changed(score=float("nan")), "`score` cannot be nan"),
        (changed(status=FAILED), "`score` cannot be 0.5"),
        (changed(valid=None), "`valid` cannot be None"),
        (changed(valid={"x": "y"}), "`valid` cannot be"),
        (changed(epochs=1.5), "`epochs` cannot be 1.5"),
        (changed(best_epoch="x"), "`best_epoch` cannot be 'x'"),
        (changed(seconds=None), "`seconds` cannot be None"),
        (changed(reason=0), "`reason` cannot be 0"),
    ],
)
def test_a_damaged_line_of_a_trial_is_refused_by_its_number(tmp_path: Path, line: bytes, message: str) -> None:
    path = tmp_path / "some.jsonl"
    TrialLog(path, ABOUT, resume=False).add(Trial(0, {"a": 1}, score=0.5, valid={"ndcg@10": None}))  # type: ignore[dict-item]
    whole = path.read_bytes()
    path.write_bytes(whole + line + b"\n")
    with pytest.raises(UserError, match=rf"some.jsonl, line 3 is no trial of this search: .*{message}") as error:
        TrialLog(path, ABOUT, resume=True)
    assert len(str(error.value)) < 800
    path.write_bytes(whole + changed() + b"\n")
    assert [trial.number for trial in TrialLog(path, ABOUT, resume=True).trials] == [0, 1]


@pytest.mark.parametrize("line", [b"\xff", b"{}", b"[]", b'{"search": 3}', b"[" * 100_000, b"nonsense"])
def test_a_damaged_first_line_is_refused(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "some.jsonl").write_bytes(line + b"\n")
    with pytest.raises(UserError, match="is not the file of a search: line 1"):
        TrialLog(tmp_path / "some.jsonl", ABOUT, resume=True)


@pytest.mark.parametrize(
    ("parameter", "inside", "outside"),
    [
        (Parameter("x", "choice", (1, "a", None, [1, 2])), [1, "a", None, [1, 2]], [1.0, True, "b", [2, 1]]),
        (Parameter("x", "uniform", (-1, 1)), [-1, 0.5, 1], [-1.1, 2, "0", True, None]),
        (Parameter("x", "quniform", (16, 64, 16)), [16, 64], [15, 80]),
        (Parameter("x", "loguniform", (-1, 0)), [0.9999999999, 0.5], [0.3, 1.1]),
        (Parameter("x", "loguniform10", (1e-4, 1e-2)), [1e-4 * (1 - 1e-12), 1e-2], [9e-5, 0.02, float("nan")]),
    ],
    ids=lambda value: value.kind if isinstance(value, Parameter) else "",
)
def test_a_parameter_knows_what_can_have_come_from_it(
    parameter: Parameter, inside: list[Any], outside: list[Any]
) -> None:
    assert all(map(parameter.holds, inside))
    assert not any(map(parameter.holds, outside))


@pytest.mark.parametrize("algorithm", ["random", "bayes"])
def test_what_is_proposed_can_have_come_from_the_space(algorithm: str) -> None:
    parameters = tuple(
        Parameter(kind, kind, values)
        for kind, values in {
            "uniform": (-3.0, 0.1),
            "quniform": (10, 100, 25),
            "loguniform": (-8, 0),
            "loguniform10": (1e-4, 1e-2),
            "choice": ("a", 2),
        }.items()
    )
    for _, params in proposals(Search(Space(parameters), algorithm, 60, seed=0, bigger=True)):
        assert all(parameter.holds(params[parameter.name]) for parameter in parameters)
