"""What only some processors have."""

from __future__ import annotations

import pytest

from recbole_bert4rec.core.fast import products

needs_a_switch = pytest.mark.skipif(products._SWITCH is None, reason="torch has no switch between the libraries")
