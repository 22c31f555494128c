"""The table of patches: applied once, at every place, and taken back exactly."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
import recbole.data
import recbole.quick_start
from recbole.trainer import Trainer
from recbole.utils import dataset_arguments

import recbole_bert4rec
from recbole_bert4rec.errors import UserError
from recbole_bert4rec.patches import registry
from recbole_bert4rec.patches.registry import Patch, Scope
from recbole_bert4rec.scoped import StandIn

ROOT = Path(recbole_bert4rec.__file__).parents[1]

SNAPSHOT = """
import importlib, sys, types
import recbole, torch
import recbole.quick_start, recbole.data, recbole.model.sequential_recommender, recbole.model.general_recommender
import recbole.trainer, recbole.utils.url, recbole.config, recbole.evaluator
import recbole.data.dataset, recbole.data.dataloader
from recbole.utils.argument_list import dataset_arguments
from scipy.sparse import dok_matrix
known = sorted(name for name in sys.modules if name.split(".")[0] == "recbole")

def snapshot():
    found = {("modules", name): sys.modules.get(name) for name in known}
    found["names"] = [name for name in sys.modules if name.lower().endswith("bert4rec") and name.startswith("recbole.")]
    modules = [sys.modules[name] for name in known]
    for module in modules:
        for name, value in vars(module).items():
            found[module.__name__, name] = value
            if isinstance(value, type) and value.__module__.startswith("recbole."):
                found.update({(value, key): item for key, item in vars(value).items()})
    found.update({("dok", key): item for key, item in vars(dok_matrix).items()})
    found["arguments"] = list(dataset_arguments)
    found["anomaly"] = torch.is_anomaly_enabled()
    found["torch"] = torch.load
    return found

def differences(one, other):
    kinds = (list, bool)
    gone = object()
    same = lambda a, b: a == b if isinstance(a, kinds) else a is b
    return [key for key in {**one, **other} if not same(one.get(key, gone), other.get(key, gone))]
"""


def python(program: str, **environment: str) -> str:
    """What a program prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_after_unregister_all_of_recbole_is_as_before_the_import() -> None:
    program = f"""{SNAPSHOT}
before = snapshot()
import recbole_bert4rec
registered = snapshot()
recbole_bert4rec.unregister()
print(len(differences(before, registered)) > 30, differences(before, snapshot()))
recbole_bert4rec.register()
print(len(differences(before, snapshot())) > 30)
recbole_bert4rec.register()
recbole_bert4rec.register(fixes=False)
recbole_bert4rec.register()
recbole_bert4rec.unregister()
recbole_bert4rec.unregister()
print(differences(before, snapshot()))
"""
    assert python(program).splitlines() == ["True []", "True", "[]"]


def test_every_row_changes_its_place_and_unregister_restores_that_very_object() -> None:
    program = """
import recbole_bert4rec
from recbole_bert4rec.patches import registry
recbole_bert4rec.unregister()
assert not any(map(registry.is_applied, registry.patches()))
places = []
for patch in registry.patches():
    if patch.needed() and not patch.owner.endswith(".recbolebert4rec"):  # a module that registering makes
        places.append((patch, registry.resolve(patch.owner)))
before = [registry.current(owner, patch.name) for patch, owner in places]
recbole_bert4rec.register()
assert all(registry.is_applied(patch) == patch.needed() for patch in registry.patches())
for (patch, owner), stood in zip(places, before):
    assert registry.current(owner, patch.name) is not stood, patch.label
recbole_bert4rec.unregister()
for (patch, owner), stood in zip(places, before):
    assert registry.current(owner, patch.name) is stood, patch.label
print(len(places))
"""
    assert int(python(program)) > 40


def test_no_module_of_recbole_holds_an_original_that_a_patch_replaces() -> None:
    """A name imported from one module of RecBole into another is a second reference."""
    originals = {
        id(function): change.patch.label
        for change in registry._applied
        if isinstance(function := change.before, FunctionType) and function.__module__.startswith("recbole.")
    }
    left = [
        (name, key, originals[id(value)])
        for name, module in list(sys.modules.items())
        if name.split(".")[0] == "recbole" and module is not None
        for key, value in vars(module).items()
        if id(value) in originals
    ]
    assert left == []


def test_a_user_who_imports_recbole_first_gets_the_patched_functions_too() -> None:
    program = """
from recbole.data import create_dataset, load_split_dataloaders as loaders
from recbole.quick_start import load_data_and_model, objective_function, run_recboles
own = (create_dataset, loaders, load_data_and_model, objective_function, run_recboles)
import recbole_bert4rec, recbole.data, recbole.quick_start.quick_start as start
print(create_dataset is recbole.data.create_dataset, loaders is recbole.data.load_split_dataloaders)
print(load_data_and_model is start.load_data_and_model, objective_function is start.objective_function)
print(any(one in own for one in (create_dataset, loaders, load_data_and_model, objective_function, run_recboles)))
recbole_bert4rec.unregister()
print(own == (create_dataset, loaders, load_data_and_model, objective_function, run_recboles))
"""
    assert python(program).split() == ["True", "True", "True", "True", "False", "True"]


def test_patched_functions_keep_name_documentation_and_signature() -> None:
    for patch in registry.patches():
        if patch.as_is or isinstance(registry.resolve(patch.owner), list):
            continue
        function = getattr(registry.resolve(patch.owner), patch.name)
        assert function.__name__ == patch.name
        assert function.__module__.startswith("recbole.")
    assert list(inspect.signature(Trainer.resume_checkpoint).parameters) == ["self", "resume_file", "unpickle"]
    arguments = list(inspect.signature(recbole.quick_start.load_data_and_model).parameters)
    assert arguments == ["model_file", "unpickle", "model"]
    assert list(inspect.signature(recbole.data.create_dataset).parameters) == ["config"]


def test_every_patch_has_one_sentence_that_names_a_line_of_recbole() -> None:
    for patch in registry.patches():
        assert patch.reason.endswith("."), patch.label
        assert ".py:" in patch.reason, patch.label


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
entries: list[str] = ["a"]


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets a test apply rows of its own, beside nothing else."""
    monkeypatch.setattr(registry, "_applied", [])
    monkeypatch.setattr(registry, "_fixes_applied", None)

    def give(*patches: Patch) -> None:
        monkeypatch.setattr(registry, "patches", lambda: patches)

    yield give
    registry.unregister()


def plus_one(original: Any, self: Owner, number: int) -> int:
    return original(self, number) + 1


def test_two_patches_of_one_function_lie_one_over_the_other(rows: Any) -> None:
    before = Owner.double
    rows(*(Patch(f"{HERE}:Owner", "double", plus_one, "x.py:1.", scope) for scope in (Scope.FIX, Scope.POLICY)))
    registry.register()
    assert Owner().double(5) == 12
    registry.register(fixes=False)
    assert Owner().double(5) == 11
    registry.unregister()
    assert Owner.double is before


def test_what_was_inherited_or_absent_is_absent_again(rows: Any) -> None:
    rows(
        Patch(f"{HERE}:Heir", "double", plus_one, "x.py:1.", Scope.FIX),
        Patch(f"{HERE}:Heir", "new", plus_one, "x.py:1.", Scope.FIX, as_is=True),
        Patch(f"{HERE}:entries", "b", None, "x.py:1.", Scope.FIX),
    )
    registry.register()
    assert (Heir().double(5), Owner().double(5), entries) == (11, 10, ["a", "b"])
    registry.unregister()
    assert not {"double", "new"} & set(vars(Heir))
    assert entries == ["a"]


def test_what_somebody_else_put_there_since_is_left_alone(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Owner, "value", 1)
    rows(Patch(f"{HERE}:Owner", "value", 2, "x.py:1.", Scope.FIX, as_is=True))
    registry.register()
    Owner.value = 3
    registry.unregister()
    assert Owner.value == 3


def test_a_patch_that_fails_leaves_nothing_half_done(rows: Any) -> None:
    before = Owner.double
    rows(
        Patch(f"{HERE}:Owner", "double", plus_one, "x.py:1.", Scope.FIX),
        Patch(f"{HERE}:Owner", "not_there", plus_one, "x.py:1.", Scope.FIX),
    )
    with pytest.raises(AttributeError, match="not_there"):
        registry.register()
    assert Owner.double is before
    assert registry._applied == []


def test_a_stand_in_changes_a_module_for_one_importer_only() -> None:
    stand_in = StandIn(os, path=StandIn(os.path, exists=lambda path: "never"))
    assert stand_in.path.exists(".") == "never"
    assert os.path.exists(".") is True
    assert stand_in.getpid() == os.getpid()


def test_dataset_arguments_hold_each_option_once() -> None:
    ours = [patch.name for patch in registry.patches() if patch.owner.endswith(":dataset_arguments")]
    assert "window" in ours
    assert all(dataset_arguments.count(name) == 1 for name in ours)


@pytest.mark.slow
def test_with_fixes_off_pop_counts_as_recbole_and_bert4rec_still_trains(tmp_path: Path) -> None:
    rows = [f"u{u}\ti{t % 3}\t{t}" for u in range(30) for t in range(8)]
    rows += [f"other\ti{t}\t{t}" for t in range(8, 16)]
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "toy.inter").write_text("\n".join(["user_id:token\titem_id:token\ttimestamp:float", *rows]))
    program = f"""
import os, sys
sys.argv = ["x"]
os.chdir({str(tmp_path)!r})
import recbole_bert4rec, torch
from recbole_bert4rec.patches import registry
from tests.conftest import make_config, make_trainer, prepare
options = dict(dataset="toy", data_path={str(tmp_path)!r}, epochs=1)
_, train, *_ = prepare(make_config("Pop", **options))
trainer = make_trainer(make_config("Pop", **options), train)
trainer.fit(train, saved=False)
config = make_config(hidden_size=8, inner_size=8, **options)
_, train, valid, test = prepare(config)
ours = make_trainer(config, train)
ours.fit(train, valid, verbose=False)
fixes = [patch for patch in registry.patches() if patch.scope == registry.Scope.FIX]
print(int(trainer.model.item_cnt.max()), "ndcg@10" in ours.evaluate(test), any(map(registry.is_applied, fixes)))
print(make_config("Pop", **options)["train_neg_sample_args"]["distribution"], torch.is_anomaly_enabled())
"""
    path = {"PYTHONPATH": str(ROOT)}
    assert python(program, RECBOLE_BERT4REC_FIXES="off", **path).split() == ["1", "True", "False", "uniform", "True"]
    count, *rest = python(program, RECBOLE_BERT4REC_FIXES="on", **path).split()
    assert int(count) > 50
    assert rest == ["True", "True", "none", "False"]


@pytest.mark.parametrize(("value", "wanted"), [("on", True), ("off", False), ("OFF", False), (None, True)])
def test_the_variable_turns_the_fixes_off(value: str | None, wanted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(registry.FIXES_VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(registry.FIXES_VARIABLE, value)
    assert registry.fixes_wanted() is wanted


def test_a_variable_with_another_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(registry.FIXES_VARIABLE, "no")
    with pytest.raises(UserError, match="RECBOLE_BERT4REC_FIXES must be on or off, but is 'no'"):
        registry.fixes_wanted()
