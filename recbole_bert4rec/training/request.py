"""What a run is asked for, and what it gives."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from recbole_bert4rec.checkpoints.checkpoint import Opened, read
from recbole_bert4rec.options.config_files import read_options
from recbole_bert4rec.plugin.layered_config import Layers
from recbole_bert4rec.system.constants import SHORT
from recbole_bert4rec.system.errors import UserError, nearest
from recbole_bert4rec.system.resources import find_config
from recbole_bert4rec.training import display
from recbole_bert4rec.training.callbacks import Callback, Metrics
from recbole_bert4rec.training.epochs import counted
from recbole_bert4rec.training.record import RunRecord


@dataclass(frozen=True)
class RunRequest:
    """One run: train a model, select its best epoch on validation, test it.

    Attributes:
        model: RecBole's name of the model; or a class of one's own, itself or as ``module:Class`` (docs/extending.md).
            None: what ``config_files`` or ``resume`` name, or else BERT4Rec.
        dataset: RecBole's name of the data set, or the path of a log (docs/data.md). None: what ``config_files`` or
            ``resume`` name, or else ml-100k.
        config_files: YAML files of options, names of properties/recipe, or dictionaries; later ones win.
        options: options of RecBole and of the model, such as ``{"epochs": 3}``; they win over the files.
        flags: of another program's command line, which win over the options; those that nobody knows are its own. None:
            those that RecBole reads.
        recommend: file (.csv or .parquet) to write every user's best next items to, by a model of this package. They
            leave items of the history out, or not, as :attr:`Recommender.viewed` says of the model.
        k: items a user in ``recommend``.
        attention: picture (.png, .pdf or .svg) to draw of where the trained model looks (this package's).
        resume: checkpoint of an interrupted run of this package's models to go on from; its options hold unless given
            anew. True: the newest one of ``checkpoint_dir`` that fits, or none where there is none.
        budget: seconds of training and validation. None: as many epochs as the options say.
        also_test: YAML files, or names of properties/recipe, of protocols that the selected weights are tested under
            too, each once.
        ranks: Parquet file to write the rank of every user's test target to.
        callbacks: are called while the run goes on, see :mod:`recbole_bert4rec.training.callbacks`.
        screen: what is shown: ``short``, a line an epoch and what one reads besides; ``verbose``, all that RecBole
            logs; ``json``, an object a line; ``quiet``, warnings alone. The log file has RecBole's lines in any case.
    """

    model: str | type | None = None
    dataset: str | None = None
    config_files: tuple[str | Mapping[str, Any], ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    flags: Mapping[str, str] | None = None
    recommend: str | None = None
    k: int = 10
    attention: str | None = None
    resume: str | os.PathLike[str] | bool | Opened | None = None
    budget: float | None = None
    also_test: tuple[str, ...] = ()
    ranks: str | None = None
    callbacks: tuple[Callback, ...] = ()
    screen: str = SHORT

    @property
    def checkpoint(self) -> Opened | None:
        """The checkpoint that ``resume`` names, once it is read."""
        return self.resume if isinstance(self.resume, Opened) else None

    def opened(self) -> RunRequest:
        """Return the request with its checkpoint, which nobody else reads."""
        if self.resume is None or isinstance(self.resume, (bool, Opened)):
            return self
        path = os.fspath(self.resume)
        return replace(self, resume=Opened(path, read(path)))

    def layers(self) -> Layers:
        """Return what the user gave; configuration files are read.

        Raises:
            UserError: there is no such file, or it has a mistake.
        """
        files = (file if isinstance(file, Mapping) else read_options(find_config(file)) for file in self.config_files)
        return Layers(files=tuple(files), options=self.options, flags=self.flags or {})

    @classmethod
    def of(cls, request: RunRequest | None, given: Mapping[str, Any]) -> RunRequest:
        """Return a request with some of its fields given anew.

        Raises:
            UserError: there is no such field, or its value is not a list where it must be.
        """
        names = [one.name for one in fields(cls)]
        for name in given:
            if name not in names:
                near = nearest(name, names)
                hint = f"did you mean `{near}`?" if near else f"it takes {', '.join(names)}"
                raise UserError(f"run() takes no `{name}`; {hint} Options go into options={{{name!r}: ...}}")
        lists = {name: given[name] or () for name in ("config_files", "also_test", "callbacks") if name in given}
        for name, value in lists.items():
            if isinstance(value, (str, Callback)):
                raise UserError(f"run() takes a list for `{name}`, but got {value!r}; write {name}=[...]")
            lists[name] = tuple(value)
        for callback in lists.get("callbacks", ()):
            if not isinstance(callback, Callback):
                raise UserError(f"`callbacks` must be instances of Callback, but one is {callback!r}")
        return replace(request or cls(), **{**given, **lists})


@dataclass(frozen=True)
class RunResult:
    """What a run gave.

    Attributes:
        best_valid_score: value of ``valid_metric`` in the best epoch; infinite where nothing was validated.
        valid_score_bigger: whether larger values of it are better.
        best_valid_result: all validation metrics of the best epoch; None where nothing was validated.
        test_result: test metrics of the best epoch.
        refit_test_result: test metrics of the model that was trained with the validation items too; None without the
            option ``refit``.
        record: everything about the run, as its JSON file has it.
        record_path: of the JSON file.
        checkpoint: of the best epoch's weights.
    """

    best_valid_score: float
    valid_score_bigger: bool
    best_valid_result: Metrics | None
    test_result: Metrics | None
    refit_test_result: dict[str, float | None] | None
    record: RunRecord
    record_path: Path
    checkpoint: Path

    def to_dict(self) -> dict[str, Any]:
        """Return what RecBole's ``run_recbole`` returns, under its keys."""
        return {
            "best_valid_score": self.best_valid_score,
            "valid_score_bigger": self.valid_score_bigger,
            "best_valid_result": self.best_valid_result,
            "test_result": self.test_result,
        }

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the metrics, and validation and loss by epoch."""
        record, epochs = self.record, self.record["epochs"]
        found = {"validation": record["best_valid_result"], "test": record["test_result"]}
        found |= {f"test ({name})": dict(metrics) for name, metrics in record.get("also", {}).items()}
        if self.refit_test_result is not None:
            found["test, refit"] = self.refit_test_result
        scores = [(row["epoch"], score) for row in epochs if (score := row.get("valid_score")) is not None]
        losses = [(row["epoch"], loss) for row in epochs if (loss := row["train_loss"]) is not None]
        return display.page(
            f"{record['model']} on {record['dataset']}, seed {record['seed']}: {counted(len(epochs))}, best epoch "
            f"{record['best_epoch']}, {record['seconds']['total']:.0f} s",
            display.table([{"": name, **metrics} for name, metrics in found.items() if metrics]),
            display.curves({"validation": scores}, "epoch", f"validation {record['config']['valid_metric']}"),
            display.curves({"loss": losses}, "epoch", "training loss"),
        )
