"""Propose settings: all combinations, random ones, or by hyperopt's tree of Parzen estimators; none twice."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
from hyperopt import JOB_STATE_DONE, STATUS_FAIL, STATUS_OK, Domain, Trials, rand, tpe

from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.tuning.space import Space

_ATTEMPTS = 100
"""Draws that may repeat a combination before the search ends."""


def key_of(params: dict[str, Any]) -> str:
    """Return a text that two settings share if, and only if, they are the same."""
    return json.dumps(params, sort_keys=True, default=str)


class Search:
    """Proposes settings and learns from their scores; trial ``n`` of a seed depends on the told scores alone."""

    def __init__(self, space: Space, algorithm: str, max_trials: int | None, seed: int, bigger: bool) -> None:
        if algorithm == "exhaustive" and space.size is None:
            continuous = [p.name for p in space.parameters if p.kind != "choice"]
            raise UserError(
                f"--algo=exhaustive needs choices alone, but {', '.join(continuous)} take any number of a range; use "
                "--algo=random or --algo=bayes"
            )
        self.space, self.algorithm, self.seed, self.sign = space, algorithm, seed, -1.0 if bigger else 1.0
        sizes = [size for size in (space.size, max_trials) if size is not None]
        self.total = min(sizes) if sizes else 0
        self.n_told = 0
        self._grid = enumerate(space.grid())
        self._asked: set[str] = set()
        self._draws = 0
        if algorithm != "exhaustive":
            self._domain = Domain(lambda _: 0.0, space.hyperopt())
            self._trials = Trials()

    def ask(self) -> tuple[int, dict[str, Any]] | None:
        """Propose the next setting and its number, from 0; None if none is left."""
        if len(self._asked) >= self.total:
            return None
        proposal = self._next_of_grid() if self.algorithm == "exhaustive" else self._draw()
        if proposal is not None:
            self._asked.add(key_of(proposal[1]))
        return proposal

    def _next_of_grid(self) -> tuple[int, dict[str, Any]] | None:
        return next(((n, params) for n, params in self._grid if key_of(params) not in self._asked), None)

    def _draw(self) -> tuple[int, dict[str, Any]] | None:
        suggest = rand.suggest if self.algorithm == "random" else tpe.suggest
        for _ in range(_ATTEMPTS + len(self._asked)):
            number = self._draws
            self._draws += 1
            seed = int(np.random.default_rng([self.seed, number]).integers(2**31 - 1))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                (document,) = suggest([number], self._domain, self._trials, seed)
            params = self.space.values({name: value[0] for name, value in document["misc"]["vals"].items()})
            if key_of(params) not in self._asked:
                return number, params
        return None

    def tell(self, params: dict[str, Any], score: float | None) -> None:
        """Learn the score that a setting reached on validation, in this run or an earlier one; None if it failed."""
        self._asked.add(key_of(params))
        self.n_told += 1
        if self.algorithm != "bayes":
            return
        number = len(self._trials.trials)
        drawn = {parameter.name: [parameter.drawn(params[parameter.name])] for parameter in self.space.parameters}
        misc = {"tid": number, "cmd": self._domain.cmd, "workdir": None}
        misc |= {"vals": drawn, "idxs": {name: [number] for name in drawn}}
        result = {"status": STATUS_FAIL} if score is None else {"status": STATUS_OK, "loss": self.sign * score}
        (document,) = self._trials.new_trial_docs([number], [None], [result], [misc])
        document["state"] = JOB_STATE_DONE
        self._trials.insert_trial_doc(document)
        self._trials.refresh()

    def go_on(self, earlier: list[tuple[int, dict[str, Any], float | None]]) -> None:
        """Take over number, setting and score of an earlier run's trials, which are not proposed again."""
        for _, params, score in earlier:
            self.tell(params, score)
        if self.algorithm == "bayes" and earlier:
            self._draws = 1 + max(number for number, *_ in earlier)
