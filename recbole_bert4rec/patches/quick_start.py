"""RecBole's quick_start, which imports Ray for one call: Ray is imported when it is called, if it is there."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType, SimpleNamespace
from typing import Any


class _Later(ModuleType):
    """``ray.tune``, imported when something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("ray.tune"), name)


def _import_without_ray() -> None:
    """Import RecBole's quick_start; its ``from ray import tune`` finds a stand-in, unless Ray is in use already."""
    stand_in = ModuleType("ray")
    vars(stand_in)["tune"] = _Later("ray.tune")
    used = sys.modules.setdefault("ray", stand_in)
    try:
        importlib.import_module("recbole.quick_start.quick_start")
    finally:
        if used is stand_in:
            del sys.modules["ray"]


def report(**metrics: float) -> None:
    """Report metrics to Ray, in one of its trials; elsewhere do nothing."""
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        importlib.import_module("ray.air.session").report(metrics)


_import_without_ray()
from recbole.quick_start import quick_start as quick_start  # noqa: E402  imported by now

reporting = SimpleNamespace(report=report)
"""What RecBole needs of ``ray.tune``."""
