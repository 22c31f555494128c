"""What a search proposes, and its file of trials."""

from __future__ import annotations

import json
from collections.abc import Callable
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
    with pytest.raises(UserError, match=r"--algo=exhaustive .* x"):
        Search(LINE, "exhaustive", None, seed=0, bigger=True)


def test_a_study_keeps_every_trial_at_once_and_is_read_again_but_for_a_line_cut_by_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    log = TrialLog(path, ABOUT, resume=False)
    log.add(Trial(0, {"a": 1}, score=0.5, valid={"ndcg@10": 0.5}, epochs=3, best_epoch=2))
    log.add(Trial(1, {"a": 2}, status=FAILED, reason="it broke"))
    with open(path, "a") as file:
        file.write('{"number": 2, "par')
    again = TrialLog(path, ABOUT, resume=True)
    assert again.trials == log.trials
    assert again.best == log.trials[0]
    again.add(Trial(2, {"a": 2}, score=0.6))
    assert [json.loads(line)["number"] for line in path.read_text().splitlines()[1:]] == [0, 1, 2]


def test_a_study_is_not_overwritten_or_mixed_with_another(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    TrialLog(path, ABOUT, resume=False).add(Trial(0, {"a": 1}, score=0.5))
    with pytest.raises(UserError, match="--resume"):
        TrialLog(path, ABOUT, resume=False)
    with pytest.raises(UserError, match="'BERT4Rec', not 'SASRec'"):
        TrialLog(path, {**ABOUT, "model": "SASRec"}, resume=True)
    for other in ("nonsense\n", "{}\n", f'{path.read_text()}{{"number": 1}}\n'):
        path.write_text(other)
        with pytest.raises(UserError, match=r"some\.jsonl"):
            TrialLog(path, ABOUT, resume=True)


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
        assert params["choice"] in ("a", 2)
        for parameter in parameters[:-1]:
            low, high = parameter.bounds
            assert low - 1e-9 <= params[parameter.name] <= high + 1e-9
