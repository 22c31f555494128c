"""What tests need of the extras: those whose libraries are not installed are skipped, and say so."""

from __future__ import annotations

import pytest

from recbole_bert4rec.system.environment import EXTRAS, is_installed


def missing(extra: str) -> list[str]:
    """Return the libraries of an extra that are not installed."""
    return [module for module, its_extra in EXTRAS.items() if its_extra == extra and not is_installed(module)]


needs_onnx = pytest.mark.skipif(bool(missing("onnx")), reason="the extra [onnx] is not installed")
