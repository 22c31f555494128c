"""What is changed for the length of a block is as before after it, also after an error."""

from __future__ import annotations

import math
import os

import pytest

from recbole_bert4rec.system.scoped import replaced, restored_environment


def test_an_attribute_is_replaced_inside_the_block_alone() -> None:
    before = math.pi
    with pytest.raises(KeyError), replaced(math, "pi", 3.0):
        assert math.pi == 3.0
        raise KeyError
    assert math.pi == before


def test_variables_of_the_environment_come_back() -> None:
    os.environ["RECBOLE_BERT4REC_TEST"] = "before"
    with restored_environment():
        os.environ["RECBOLE_BERT4REC_TEST"] = "inside"
        os.environ["RECBOLE_BERT4REC_NEW"] = "inside"
    assert os.environ.pop("RECBOLE_BERT4REC_TEST") == "before"
    assert "RECBOLE_BERT4REC_NEW" not in os.environ
