"""The request for a run, and its result."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from recbole_bert4rec.checkpoints import Opened, read
from recbole_bert4rec.options.checks import read_options
from recbole_bert4rec.plugin.callbacks import Callback, Metrics
from recbole_bert4rec.plugin.config import Layers
from recbole_bert4rec.system.constants import SHORT
from recbole_bert4rec.system.environment import find_config
from recbole_bert4rec.system.errors import UserError, nearest
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
        flags: flags of the program that calls :func:`run`, as texts by name. They win over ``options``. Names that are
            not options are ignored; they may be the program's own. None: RecBole reads them from ``sys.argv``.
        recommend: file (.csv or .parquet) to write every user's best next items to, by a model of this package. They
            leave items of the history out, or not, as :attr:`Recommender.viewed` says of the model.
        k: items a user in ``recommend``.
        resume: checkpoint of an interrupted run of this package's models to go on from; its options hold unless others
            are given. True: the newest one of ``checkpoint_dir`` that fits; if none does, a new run begins.
        budget: seconds of training and validation. None: as many epochs as the options say.
        also_test: further protocols under which the selected weights are tested: YAML files, or names of
            properties/recipe.
        ranks: Parquet file to write the rank of every user's test target to.
        callbacks: are called while the run goes on, see :mod:`recbole_bert4rec.plugin.callbacks`.
        screen: lines to show: ``short``, a line an epoch and a few others; ``verbose``, all that RecBole logs;
            ``quiet``, warnings alone. The log file has RecBole's lines in any case.
    """

    model: str | type | None = None
    dataset: str | None = None
    config_files: tuple[str | Mapping[str, Any], ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    flags: Mapping[str, str] | None = None
    recommend: str | None = None
    k: int = 10
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
        """Return the request with its checkpoint read, so that it is read only once."""
        if self.resume is None or isinstance(self.resume, (bool, Opened)):
            return self
        path = os.fspath(self.resume)
        return replace(self, resume=Opened(path, read(path)))

    def layers(self) -> Layers:
        """Return the user's options in layers; configuration files are read.

        Raises:
            UserError: there is no such file, or it has a mistake.
        """
        files = (file if isinstance(file, Mapping) else read_options(find_config(file)) for file in self.config_files)
        return Layers(files=tuple(files), options=self.options, flags=self.flags or {})

    @classmethod
    def of(cls, request: RunRequest | None, changes: Mapping[str, Any]) -> RunRequest:
        """Return a request with some of its fields changed.

        Raises:
            UserError: there is no such field, or its value must be a list and is not.
        """
        names = list(cls.__dataclass_fields__)
        for name in changes:
            if name not in names:
                near = nearest(name, names)
                hint = f"did you mean `{near}`?" if near else f"it takes {', '.join(names)}"
                raise UserError(f"run() takes no `{name}`; {hint} Options go into options={{{name!r}: ...}}")
        lists = {name: changes[name] or () for name in ("config_files", "also_test", "callbacks") if name in changes}
        for name, value in lists.items():
            if isinstance(value, (str, Callback)):
                raise UserError(f"run() takes a list for `{name}`, but got {value!r}; write {name}=[...]")
            lists[name] = tuple(value)
        for callback in lists.get("callbacks", ()):
            if not isinstance(callback, Callback):
                raise UserError(f"`callbacks` must be instances of Callback, but one is {callback!r}")
        return replace(request or cls(), **{**changes, **lists})


@dataclass(frozen=True)
class RunResult:
    """The result of a run.

    Attributes:
        best_valid_score: value of ``valid_metric`` in the best epoch; infinite if no epoch was validated.
        valid_score_bigger: whether larger values of it are better.
        best_valid_result: all validation metrics of the best epoch; None if no epoch was validated.
        test_result: test metrics of the best epoch.
        refit_test_result: test metrics of the model that was trained with the validation items too; None without the
            option ``refit``.
        record: everything about the run, as in its JSON file.
        record_path: path of the JSON file.
        checkpoint: path of the best epoch's weights.
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
        """Return the entries that RecBole's ``run_recbole`` returns."""
        return {
            "best_valid_score": self.best_valid_score,
            "valid_score_bigger": self.valid_score_bigger,
            "best_valid_result": self.best_valid_result,
            "test_result": self.test_result,
        }
