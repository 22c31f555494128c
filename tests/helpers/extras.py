"""What tests need of the machine: those whose libraries or instructions it lacks are skipped, and say so."""

from __future__ import annotations

import pytest

from recbole_bert4rec.core.fast import products
from recbole_bert4rec.system.environment import EXTRAS, is_installed


def missing(extra: str) -> list[str]:
    """Return the libraries of an extra that are not installed."""
    return [module for module, its_extra in EXTRAS.items() if its_extra == extra and not is_installed(module)]


needs_onnx = pytest.mark.skipif(bool(missing("onnx")), reason="the extra [onnx] is not installed")
needs_a_switch = pytest.mark.skipif(products._SWITCH is None, reason="torch has no switch between the libraries")
