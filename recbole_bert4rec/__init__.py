"""BERT4Rec for RecBole: importing this package makes RecBole's ``--model=BERT4Rec`` the one in here.

It changes nothing for other models. RecBole is imported when something needs it. Trained models (``load``), encoder,
losses and data preparation (``core``) work where it is not installed.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import TYPE_CHECKING

from recbole_bert4rec.system.constants import INSTALL_RECBOLE, OLDEST_PYTHON
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.when_imported import WhenImported

if TYPE_CHECKING:
    from recbole_bert4rec.comparison.compare import compare
    from recbole_bert4rec.comparison.comparison import Comparison
    from recbole_bert4rec.plugin.callbacks import Callback, StopTraining
    from recbole_bert4rec.plugin.model import BERT4Rec
    from recbole_bert4rec.recommend.appending import append_items
    from recbole_bert4rec.recommend.exported import ExportedModel
    from recbole_bert4rec.recommend.opened import load
    from recbole_bert4rec.recommend.recommender import Recommender
    from recbole_bert4rec.training.request import RunRequest, RunResult
    from recbole_bert4rec.training.run import run
    from recbole_bert4rec.tuning.tune import SearchRequest, tune

__version__ = "0.3.0"
_PLACES = {
    "BERT4Rec": "recbole_bert4rec.plugin.model",
    "Callback": "recbole_bert4rec.plugin.callbacks",
    "Comparison": "recbole_bert4rec.comparison.comparison",
    "ExportedModel": "recbole_bert4rec.recommend.exported",
    "Recommender": "recbole_bert4rec.recommend.recommender",
    "RunRequest": "recbole_bert4rec.training.request",
    "RunResult": "recbole_bert4rec.training.request",
    "SearchRequest": "recbole_bert4rec.tuning.tune",
    "StopTraining": "recbole_bert4rec.plugin.callbacks",
    "append_items": "recbole_bert4rec.recommend.appending",
    "compare": "recbole_bert4rec.comparison.compare",
    "load": "recbole_bert4rec.recommend.opened",
    "run": "recbole_bert4rec.training.run",
    "tune": "recbole_bert4rec.tuning.tune",
}
"""Modules of the public names; each is imported when it is first asked for."""
_WITHOUT_RECBOLE = ("ExportedModel", "Recommender", "append_items", "load")
__all__ = [
    "BERT4Rec",
    "Callback",
    "Comparison",
    "ExportedModel",
    "Recommender",
    "RunRequest",
    "RunResult",
    "SearchRequest",
    "StopTraining",
    "UserError",
    "__version__",
    "append_items",
    "compare",
    "load",
    "run",
    "tune",
]

if sys.version_info[:2] < OLDEST_PYTHON:
    raise ImportError(
        f"recbole_bert4rec needs Python {'.'.join(map(str, OLDEST_PYTHON))} or later, but this is "
        f"{sys.version.split()[0]}"
    )


def _register() -> Exception | None:
    """Let RecBole find this package's models, when it is imported or needed; return why that cannot be."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # RecBole's dependencies deplore their own age while they are imported
            importlib.import_module("recbole_bert4rec.training.recording")
            hooks = importlib.import_module("recbole_bert4rec.plugin.hooks")
    except (ModuleNotFoundError, AttributeError) as error:  # the second comes of libraries that are too new
        if getattr(error, "name", None) != "recbole":
            warnings.warn(
                f"RecBole is installed but does not work here ({error}), so BERT4Rec is not registered; "
                "`python -m recbole_bert4rec doctor` says what is missing",
                stacklevel=2,
            )
        return error
    hooks.apply()
    return None


def _import_public(name: str) -> object:
    """Return the public function of this name."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name not in _WITHOUT_RECBOLE and (failure := _register()) is not None:
        raise ImportError(
            f"recbole_bert4rec.{name} needs RecBole, which cannot be imported ({failure}); install it with "
            f"`{INSTALL_RECBOLE}`. `python -m recbole_bert4rec doctor` says what is missing"
        ) from failure
    return getattr(importlib.import_module(_PLACES[name]), name)


if not TYPE_CHECKING:  # a type checker knows the names from above, and that there are no others
    __getattr__ = _import_public

WhenImported(("recbole", "recbole.quick_start.quick_start"), _register).start()  # the second one imports Ray
