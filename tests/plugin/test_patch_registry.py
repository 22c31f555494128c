"""The table of patches: applied once, at every place, and taken back exactly."""

from __future__ import annotations

import inspect
import os
import sys
from types import FunctionType
from typing import Any

import pytest
import recbole.data
import recbole.quick_start
from recbole.trainer import Trainer
from recbole.utils import dataset_arguments

from recbole_bert4rec.options.table import SHAPES_DATA
from recbole_bert4rec.plugin.patches import places, registry
from recbole_bert4rec.plugin.patches.patch import Patch, Scope
from recbole_bert4rec.system.scoped import StandIn
from tests.helpers.programs import python
from tests.helpers.runs import make_config


def test_every_row_changes_its_place_and_a_program_puts_that_very_object_back() -> None:
    program = """
import recbole.quick_start
import recbole_bert4rec
from recbole_bert4rec.plugin.patches import places, registry
on_import = set(registry.tables_on_import())
assert all(places.is_applied(patch) == patch.needed() for patch in on_import)
owners = [(patch, places.resolve(patch.owner)) for patch in registry.patches() if patch not in on_import]
before = [places.current(owner, patch.name) for patch, owner in owners]
for _ in range(2):
    with registry.in_program(), registry.in_program():
        assert all(places.is_applied(patch) == patch.needed() for patch in registry.patches())
        for (patch, owner), stood in zip(owners, before):
            assert places.current(owner, patch.name) is not stood, patch.label
    for (patch, owner), stood in zip(owners, before):
        assert places.current(owner, patch.name) is stood, patch.label
print(len(owners))
"""
    (changed,) = python(program)
    assert int(changed) > 20


def test_no_module_of_recbole_holds_an_original_that_a_patch_replaces() -> None:
    """A name imported from one module of RecBole into another is a second reference."""
    originals = {
        id(function): label
        for label, target in places._targets.items()
        if isinstance(function := target.before, FunctionType) and function.__module__.startswith("recbole.")
    }
    left = [
        (name, key, originals[id(value)])
        for name, module in list(sys.modules.items())
        if name.split(".")[0] == "recbole" and module is not None
        for key, value in vars(module).items()
        if id(value) in originals
    ]
    assert left == []


def test_names_in_the_modules_of_a_user_are_left_alone() -> None:
    program = """
import sys, types
mine = types.ModuleType("mine")
sys.modules["mine"] = mine
exec("from recbole.data import *; from recbole.quick_start import *; from recbole.utils import *", vars(mine))
own = dict(vars(mine))
from recbole_bert4rec.plugin.patches.registry import in_program
with in_program():
    print([name for name, value in own.items() if vars(mine)[name] is not value])
"""
    assert python(program) == ["[]"]


def test_patched_functions_keep_name_documentation_and_signature() -> None:
    for patch in registry.patches():
        if patch.as_is:
            continue
        function = getattr(places.resolve(patch.owner), patch.name)
        assert function.__name__ == patch.name
        assert function.__module__.startswith("recbole.")
    assert list(inspect.signature(Trainer._save_checkpoint).parameters) == ["self", "epoch", "verbose", "kwargs"]
    arguments = list(inspect.signature(recbole.quick_start.load_data_and_model).parameters)
    assert arguments == ["model_file", "model"]
    assert list(inspect.signature(recbole.data.create_dataset).parameters) == ["config"]


def test_no_two_patches_change_the_same_place_but_by_calling_the_original() -> None:
    seen: dict[str, Patch] = {}
    for patch in registry.patches():
        assert patch.label not in seen or not (patch.as_is or seen[patch.label].as_is), patch.label
        seen[patch.label] = patch


class Owner:
    value = 1

    def double(self, number: int) -> int:
        """Return twice the number."""
        return 2 * number


class Heir(Owner):
    pass


HERE = __name__


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets a test apply rows of its own, beside nothing else."""
    given: list[Patch] = []

    def give(*patches: Patch) -> list[Patch]:
        given.extend(places.hold(patches))
        return given

    yield give
    places.release(given)


def a_patch(owner: str, name: str, replacement: Any, scope: Scope = Scope.FIX, **more: Any) -> Patch:
    return Patch(owner=owner, name=name, replacement=replacement, reason="x.py:1.", scope=scope, **more)


def plus_one(original: Any, self: Owner, number: int) -> int:
    return original(self, number) + 1


def times_ten(original: Any, self: Owner, number: int) -> int:
    return original(self, number) * 10


def test_two_patches_of_one_function_lie_one_over_the_other_in_whatever_order_they_come_and_go(rows: Any) -> None:
    before = Owner.double
    policy, fix = (
        a_patch(f"{HERE}:Owner", "double", times_ten, Scope.POLICY),
        a_patch(f"{HERE}:Owner", "double", plus_one, Scope.FIX),
    )
    rows(policy, fix)
    assert Owner().double(5) == 110
    places.release([fix])
    assert Owner().double(5) == 100
    assert places.hold([fix]) == [fix]
    places.release([policy])
    assert Owner().double(5) == 11
    places.hold([policy])
    places.release([policy, fix])
    assert Owner.double is before
    places.hold([policy, fix])


def test_a_patch_that_several_ask_for_stays_until_the_last_one_has_enough(rows: Any) -> None:
    before, patch = Owner.double, a_patch(f"{HERE}:Owner", "double", plus_one)
    first, second = places.hold([patch]), places.hold([patch])
    places.release(first)
    assert Owner().double(5) == 11
    places.release(second)
    assert Owner.double is before


def test_what_was_inherited_or_absent_is_absent_again(rows: Any) -> None:
    held = rows(a_patch(f"{HERE}:Heir", "double", plus_one), a_patch(f"{HERE}:Heir", "new", plus_one, as_is=True))
    assert (Heir().double(5), Owner().double(5)) == (11, 10)
    places.release(held)
    assert not {"double", "new"} & set(vars(Heir))
    held.clear()


def test_what_somebody_else_put_there_since_is_left_alone(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Owner, "value", 1)
    held = rows(a_patch(f"{HERE}:Owner", "value", 2, as_is=True))
    Owner.value = 3
    places.release(held)
    assert Owner.value == 3
    held.clear()


def test_a_patch_that_fails_leaves_nothing_half_done(rows: Any) -> None:
    before = Owner.double
    with pytest.raises(AttributeError, match="not_there"):
        rows(a_patch(f"{HERE}:Owner", "double", plus_one), a_patch(f"{HERE}:Owner", "not_there", plus_one))
    assert Owner.double is before
    assert not any(label.startswith(HERE) for label in places._targets)


def test_a_stand_in_changes_a_module_for_one_importer_only() -> None:
    stand_in = StandIn(os, path=StandIn(os.path, exists=lambda path: "never"))
    assert stand_in.path.exists(".") == "never"
    assert os.path.exists(".") is True
    assert stand_in.getpid() == os.getpid()


def test_a_data_set_that_recbole_saved_is_known_by_our_options_too_each_once() -> None:
    for _ in range(2):
        make_config()
    assert {"exact_time", "valid_users", "candidates", "window", "objective", "training_rows"} <= {*SHAPES_DATA}
    assert all(dataset_arguments.count(name) == 1 for name in SHAPES_DATA)
