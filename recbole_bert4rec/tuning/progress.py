"""Progress of a search: a bar for each running trial, one for all, and a line for each that ends."""

from __future__ import annotations

from typing import Any

from tqdm.auto import tqdm

from recbole_bert4rec.training.logs import say
from recbole_bert4rec.tuning.trials import FAILED, STOPPED, Trial, TrialLog


def format_params(params: dict[str, Any]) -> str:
    """Return a setting in one line, with numbers of four digits."""
    return ", ".join(f"{name} {f'{v:.4g}' if isinstance(v, float) else v}" for name, v in params.items())


class SearchProgress:
    """Bars on a terminal; without one, only the lines."""

    def __init__(self, log: TrialLog, total: int, metric: str, no_bars: bool | None = None) -> None:
        self._no_bars = no_bars
        self.log, self.total, self.metric = log, total, metric
        self._all = self._bar(0, total, "trials")
        self._all.update(len(log.trials))
        self._running: dict[int, tqdm[Any]] = {}

    def _bar(self, position: int, total: int | None, title: str) -> tqdm[Any]:
        layout = "{desc}: {bar} {n_fmt}/{total_fmt} [{elapsed}<{remaining}]{postfix}"
        return tqdm(
            total=total,
            desc=title,
            position=position,
            leave=position == 0,
            disable=self._no_bars,
            ncols=100,
            bar_format=layout,
        )

    def begin(self, number: int, params: dict[str, Any]) -> None:
        """Show that a trial starts, or starts again after it was killed."""
        self._remove(number)
        taken = {-bar.pos for bar in self._running.values() if not bar.disable}
        free = next(position for position in range(1, len(taken) + 2) if position not in taken)
        self._running[number] = self._bar(free, None, f"trial {number}")

    def epoch(self, number: int, news: dict[str, Any]) -> None:
        """Show that a trial validated an epoch."""
        bar = self._running[number]
        bar.total = news["epochs"]
        bar.n = news["epoch"]
        bar.set_postfix_str(f", best {self.metric} {news['best']:.4f}" if news.get("best") is not None else "")

    def end(self, trial: Trial) -> None:
        """Show that a trial ended; it is in the log."""
        self._remove(trial.number)
        best = self.log.best
        if trial.status == FAILED:
            outcome = f"failed: {trial.reason}"
        else:
            how = " (stopped early)" if trial.status == STOPPED else ""
            outcome = f"{self.metric} {trial.score:.4f} at epoch {trial.best_epoch} of {trial.epochs}{how}"
        setting = format_params(trial.params) + (" *" if best is trial else "")
        say(f"[{len(self.log.trials)}/{self.total}] {outcome}, {trial.seconds:.1f} s: {setting}")
        if best is not None:
            self._all.set_postfix_str(f", best {self.metric} {best.score:.4f}")
        self._all.update(1)

    def _remove(self, number: int) -> None:
        if number in self._running:
            self._running.pop(number).close()

    def close(self) -> None:
        """Take the bars away."""
        for number in list(self._running):
            self._remove(number)
        self._all.close()
