"""Importing the package leaves RecBole alone; importing RecBole registers the package, whoever imports it first."""

from __future__ import annotations

import pytest

from tests.helpers.programs import python

REGISTERED = """
from recbole.utils import get_model, get_trainer
from recbole.utils.enum_type import ModelType
from recbole_bert4rec.plugin.patches import places, registry
print(get_model("BERT4Rec").__module__, get_trainer(ModelType.SEQUENTIAL, "BERT4Rec").__module__)
rows = [patch for patch in registry.tables_on_import() if patch.needed()]
print(all(places.is_applied(patch) for patch in rows if patch.module != places.QUICK_START))
import recbole.quick_start
print(all(map(places.is_applied, rows)))
"""


@pytest.mark.parametrize(
    "first",
    [
        "import recbole_bert4rec, recbole",
        "import recbole.config, recbole_bert4rec",
        "import recbole.quick_start, recbole_bert4rec",
        "import recbole_bert4rec.training.recording",
        "import recbole_bert4rec.plugin.patches.compat",
        "import recbole_bert4rec.plugin.model",
        "import recbole_bert4rec.tuning.job",
        "from recbole_bert4rec import run",
    ],
)
@pytest.mark.slow
def test_the_package_is_registered_whoever_imports_recbole_first(first: str) -> None:
    wanted = ["recbole_bert4rec.plugin.model recbole_bert4rec.training.recording", "True", "True"]
    assert python(first + REGISTERED) == wanted


def test_importing_the_package_and_using_a_checkpoint_s_reader_imports_no_recbole() -> None:
    program = (
        "import sys, recbole_bert4rec, recbole_bert4rec.checkpoints.checkpoint, recbole_bert4rec.recommend.load\n"
        "import recbole_bert4rec.recommend.bulk, recbole_bert4rec.cli.recommend, recbole_bert4rec.cli.info\n"
        "print('recbole' in sys.modules, 'ray' in sys.modules)"
    )
    assert python(program) == ["False False"]
