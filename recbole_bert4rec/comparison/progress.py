"""Progress of a comparison: a bar for the run, the time that is left, and a growing table."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from typing import Any

from tabulate import tabulate
from tqdm.auto import tqdm

from recbole_bert4rec.comparison.findings import distinct_metrics
from recbole_bert4rec.comparison.results import mean_text
from recbole_bert4rec.training.epochs import counted
from recbole_bert4rec.training.logs import say

_SECONDS = 60
"""Between two lines about a run without bars."""


class RunProgress:
    """Bars on a terminal; without one, a line a minute, a line a run, and the table."""

    def __init__(
        self,
        runs: list[tuple[str, int]],
        kinds: dict[str, str],
        budget: float | None,
        metric: str,
        no_bars: bool | None = None,
    ) -> None:
        self._left, self._total, self._budget, self._metric = list(runs), len(runs), budget, metric
        self._records: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._kinds, self._no_bars = kinds, no_bars
        self._seconds: dict[str, float] = {}
        layout = "{desc}: {bar} {n_fmt}/{total_fmt} [{elapsed}]{postfix}"
        self._all = tqdm(total=len(runs), desc="runs", position=0, disable=no_bars, ncols=100, bar_format=layout)
        self._one: tqdm[Any] | None = None
        self._began = self._told = time.monotonic()

    def begin(self, model: str, seed: int) -> None:
        """Show that a run starts."""
        self._began = self._told = time.monotonic()
        layout = "{desc}: {bar} {n:.0f}/{total:.0f}" + ("{postfix}" if self._budget is None else " s{postfix}")
        title = f"{model}, seed {seed}"
        self._one = tqdm(
            total=self._budget or 1,
            desc=title,
            position=1,
            leave=False,
            disable=self._no_bars,
            ncols=100,
            bar_format=layout,
        )

    def tick(self) -> None:
        """Show that about a second has passed."""
        if self._one is not None and self._budget is not None:
            self._one.n = min(time.monotonic() - self._began, self._budget)
            self._one.refresh()
        self._all.set_postfix_str(self._time_left(), refresh=True)

    def epoch(self, news: dict[str, Any]) -> None:
        """Show that the run validated an epoch."""
        if self._one is None:
            return
        if self._budget is None:
            self._one.total, self._one.n = news["epochs"], news["epoch"]
        best = f", best {self._metric} {news['best']:.4f}" if news.get("best") is not None else ""
        self._one.set_postfix_str(f", epoch {news['epoch']}{best}")
        if self._one.disable and time.monotonic() - self._told >= _SECONDS:
            self._told = time.monotonic()
            model, seed = self._left[0]
            say(f"{model}, seed {seed}: epoch {news['epoch']}{best}")

    def end(self, model: str, seed: int, record: dict[str, Any], new: bool) -> None:
        """Show that a run ended, or need not be repeated."""
        self._records[model].append(record)
        self._seconds[model] = time.monotonic() - self._began if new else record["seconds"]["total"]
        values = [record["best_valid_result"].get(self._metric), record["test_result"].get(self._metric)]
        valid, test = (f"{value:.4f}" if value is not None else "none" for value in values)
        how = f"{counted(len(record['epochs']))}, {record['seconds']['train']:.1f} s" if new else "kept from before"
        text = f"{model}, seed {seed}: {self._metric} valid {valid}, test {test}; {how}"
        self._say(model, seed, text, guess=new)
        if not self._left or (new and len(self._left) % len(self._kinds) == 0):  # every model has one more seed
            say(f"\n{self.table()}\n")

    def fail(self, model: str, seed: int, reason: str) -> None:
        """Show that a run failed, and why."""
        self._say(model, seed, f"{model}, seed {seed} failed: {reason}")

    def _say(self, model: str, seed: int, text: str, guess: bool = True) -> None:
        """Say that a run is over; ``guess`` adds how much time is left."""
        self._left.remove((model, seed))
        if self._one is not None:
            self._one.close()
            self._one = None
        left = self._time_left() if guess else ""
        say(f"[{self._total - len(self._left)}/{self._total}] {text}{left}")
        self._all.update(1)

    def _time_left(self) -> str:
        """Say how long the rest will take, once a budget or a run of each model lets us guess."""
        usual = [seconds for model, _ in self._left if (seconds := self._usual(model)) is not None]
        if not self._left or len(usual) < len(self._left):
            return ""
        spent = time.monotonic() - self._began if self._one is not None else 0.0
        seconds = max(0.0, sum(usual) - spent)
        return f", about {seconds / 60:.0f} min left" if seconds >= 60 else f", about {seconds:.0f} s left"

    def _usual(self, model: str) -> float | None:
        """Return the seconds of a run: of the same model, of others of its kind, or the budget."""
        alike = [seconds for name, seconds in self._seconds.items() if self._kinds[name] == self._kinds[model]]
        return self._seconds.get(model, statistics.mean(alike) if alike else self._budget)

    def table(self) -> str:
        """Return the test metrics of the models so far: mean, and standard deviation over seeds."""
        metrics = list(distinct_metrics(list(next(iter(self._records.values()))[0]["test_result"])))
        rows = []
        for model, records in self._records.items():
            results = [[record["test_result"].get(metric) for record in records] for metric in metrics]
            known = [[value for value in values if value is not None] for values in results]
            rows.append([model, len(records), *(mean_text(values) if values else "none" for values in known)])
        return str(tabulate(rows, ["test", "seeds", *metrics], disable_numparse=True))

    def close(self) -> None:
        """Take the bars away."""
        if self._one is not None:
            self._one.close()
        self._all.close()
