"""BERT4Rec for RecBole: importing this package makes RecBole's ``--model=BERT4Rec`` the one in here.

It changes nothing for other models. RecBole is imported when something needs it. Trained models (``load``), encoder,
losses and data preparation (``core``) work where it is not installed.
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING

from recbole_bert4rec.system.constants import INSTALL_RECBOLE
from recbole_bert4rec.system.errors import UserError as UserError
from recbole_bert4rec.system.when_imported import WhenImported

if TYPE_CHECKING:
    from recbole_bert4rec.experiments.compare import compare as compare
    from recbole_bert4rec.experiments.tune import tune as tune
    from recbole_bert4rec.plugin.callbacks import Callback as Callback
    from recbole_bert4rec.plugin.callbacks import StopTraining as StopTraining
    from recbole_bert4rec.plugin.model import BERT4Rec as BERT4Rec
    from recbole_bert4rec.recommend.load import load as load
    from recbole_bert4rec.recommend.new_items import append_items as append_items
    from recbole_bert4rec.recommend.recommender import Recommender as Recommender
    from recbole_bert4rec.training.run import RunResult as RunResult
    from recbole_bert4rec.training.run import run as run

__version__ = "0.3.0"
_NAMES = {
    "experiments.compare": ("compare",),
    "experiments.tune": ("tune",),
    "plugin.callbacks": ("Callback", "StopTraining"),
    "plugin.model": ("BERT4Rec",),
    "recommend.new_items": ("append_items",),
    "recommend.load": ("load",),
    "recommend.recommender": ("Recommender",),
    "training.run": ("RunResult", "run"),
}
_PLACES = {name: f"recbole_bert4rec.{module}" for module, names in _NAMES.items() for name in names}
"""Modules of the public names; each is imported when it is first asked for."""
__all__ = ["UserError", "__version__", *_PLACES]


def _register() -> Exception | None:
    """Let RecBole find this package's models, when it is imported or needed; return why that cannot be."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # RecBole's dependencies deplore their own age while they are imported
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
    if not _PLACES[name].startswith("recbole_bert4rec.recommend.") and (failure := _register()) is not None:
        raise ImportError(
            f"recbole_bert4rec.{name} needs RecBole, which cannot be imported ({failure}); install it with "
            f"`{INSTALL_RECBOLE}`. `python -m recbole_bert4rec doctor` says what is missing"
        ) from failure
    return getattr(importlib.import_module(_PLACES[name]), name)


if not TYPE_CHECKING:  # a type checker knows the names from above, and that there are no others
    __getattr__ = _import_public

WhenImported(("recbole", "recbole.quick_start.quick_start"), _register).start()  # the second one imports Ray
