"""What importing the package changes in RecBole: each change once, at every place, whoever imports RecBole first."""

from __future__ import annotations

import importlib
import inspect
import pickle
import sys
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from recbole.config import Config
from recbole.quick_start import quick_start, run_recbole
from recbole.trainer import HyperTuning, Trainer
from recbole.utils import dataset_arguments, get_model

import recbole_bert4rec
from recbole_bert4rec.options.table import SHAPES_DATA
from recbole_bert4rec.plugin import hooks
from recbole_bert4rec.plugin.hooks import Hook
from recbole_bert4rec.plugin.model import BERT4Rec
from recbole_bert4rec.system.errors import UserError
from tests.helpers.programs import python
from tests.helpers.runs import QUIET, make_config, make_trainer, prepare

ROWS = [(f"u{u}", f"i{(u + t) % 15}", t) for u in range(20) for t in range(6)]
REGISTERED = """
from recbole.utils import get_model, get_trainer
from recbole.utils.enum_type import ModelType
from recbole_bert4rec.plugin.hooks import HOOKS, state_of
print(get_model("BERT4Rec").__module__, get_trainer(ModelType.SEQUENTIAL, "BERT4Rec").__module__)
print({state_of(hook) for hook in HOOKS} <= {"made", "waits for recbole.quick_start"})
import recbole.quick_start
print({state_of(hook) for hook in HOOKS} == {"made"})
"""


@pytest.mark.parametrize(
    "first",
    [
        "import recbole_bert4rec, recbole",
        "import recbole.config, recbole_bert4rec",
        "import recbole.quick_start, recbole_bert4rec",
        "import recbole_bert4rec.training.record",
        "import recbole_bert4rec.plugin.compat",
        "import recbole_bert4rec.plugin.model",
        "import recbole_bert4rec.experiments.tune",
        "from recbole_bert4rec import run",
    ],
)
@pytest.mark.slow
def test_the_package_is_registered_whoever_imports_recbole_first(first: str) -> None:
    wanted = ["recbole_bert4rec.plugin.model recbole_bert4rec.plugin.hooks", "True", "True"]
    assert python(first + REGISTERED) == wanted


def test_importing_the_package_and_using_a_checkpoint_s_reader_imports_no_recbole() -> None:
    program = (
        "import sys, recbole_bert4rec, recbole_bert4rec.checkpoints, recbole_bert4rec.recommend.load\n"
        "import recbole_bert4rec.recommend.bulk, recbole_bert4rec.cli.main\n"
        "print('recbole' in sys.modules, 'ray' in sys.modules)"
    )
    assert python(program) == ["False False"]


def test_no_module_of_recbole_holds_an_original_that_is_replaced() -> None:
    """A name imported from one module of RecBole into another is a second reference."""
    originals = [function for function in hooks._recboles.values() if isinstance(function, FunctionType)]
    left = [
        (name, key)
        for name, module in list(sys.modules.items())
        if name.split(".")[0] == "recbole" and module is not None
        for key, value in vars(module).items()
        if any(value is function for function in originals)
    ]
    assert left == []


def test_names_in_the_modules_of_a_user_are_left_alone() -> None:
    program = """
import sys, types
mine = types.ModuleType("mine")
sys.modules["mine"] = mine
exec("from recbole.data import *; from recbole.quick_start import *; from recbole.utils import *", vars(mine))
own = dict(vars(mine))
import recbole_bert4rec
print([name for name, value in own.items() if vars(mine)[name] is not value])
"""
    assert python(program) == ["[]"]


def test_changed_functions_keep_name_documentation_and_signature() -> None:
    for (owner, name), before in hooks._recboles.items():
        home = sys.modules[owner.partition(":")[0]]
        changed = getattr(getattr(home, owner.partition(":")[2], home), name, None)
        if hasattr(changed, "__wrapped__") and changed.__wrapped__ is before:
            assert (changed.__name__, changed.__module__) == (name, before.__module__)
    assert list(inspect.signature(Trainer._save_checkpoint).parameters) == ["self", "epoch", "verbose", "kwargs"]


def test_a_place_that_a_later_recbole_has_mended_is_left_alone() -> None:
    mended = Hook(__name__, "OWN", 2, "x.py:1", "it is 1", fault="no line like " + "this")
    assert hooks.state_of(mended) == "not needed"
    assert hooks.state_of(mended._replace(fault="OWN = 1")) == "to be made"
    assert all(hook.is_needed() for hook in hooks.HOOKS)


OWN = 1


def test_keys_of_a_programs_own_are_taken_with_a_line_and_near_misses_refused(caplog: pytest.LogCaptureFixture) -> None:
    assert Config("BERT4Rec", "ml-100k", config_dict={**QUIET, "experiment_tag": "a"})["experiment_tag"] == "a"
    assert "experiment_tag" in caplog.text
    with pytest.raises(UserError, match=r"mask_ratoi.*mask_ratio"):
        Config("BERT4Rec", "ml-100k", config_dict={**QUIET, "mask_ratoi": 0.3})
    with pytest.raises(UserError, match="experiment_tag"):
        make_config(experiment_tag="a")


def test_registering_again_changes_nothing() -> None:
    stock = get_model("RecBoleBERT4Rec")
    loader, dataset = Config._load_internal_config_dict, quick_start.load_data_and_model
    hooks.apply()
    importlib.reload(recbole_bert4rec)
    assert get_model("BERT4Rec") is BERT4Rec
    assert get_model("RecBoleBERT4Rec") is stock
    assert Config._load_internal_config_dict is loader
    assert quick_start.load_data_and_model is dataset


def test_recboles_documented_example_runs(write_inter: Any) -> None:
    options = {**QUIET, **write_inter(ROWS), "epochs": 1}
    dataset = options.pop("dataset")
    pairwise = {"loss_type": "BPR", "neg_sampling": {"uniform": 1}, **options}
    result = run_recbole(model="BERT4Rec", dataset=dataset, config_dict=pairwise)
    assert set(result) == {"best_valid_score", "valid_score_bigger", "best_valid_result", "test_result"}


def test_negative_sampling_of_recbole_never_reaches_the_loader(write_inter: Any) -> None:
    negatives = {"distribution": "uniform", "sample_num": 2}
    config = make_config(loss_type="BPR", train_neg_sample_args=negatives, **write_inter(ROWS))
    _, train, valid, _ = prepare(config)
    assert sum(len(batch) for batch in train) == 20
    make_trainer(config, train).fit(train, valid, verbose=False, saved=False)


def test_hyper_tuning_of_recbole_tunes_our_model(write_inter: Any, tmp_path: Path) -> None:
    options = write_inter(ROWS)
    (tmp_path / "fixed.yaml").write_text(
        f"model: BERT4Rec\ndataset: {options['dataset']}\ndata_path: {options['data_path']}\nepochs: 1\n"
        "show_progress: False\nstate: error\nuse_gpu: False\n"
    )
    (tmp_path / "space.test").write_text("hidden_size choice [8,16]\nposition choice ['start','end']\n")
    tuning = HyperTuning(
        hooks.objective_function,
        algo="exhaustive",
        params_file=str(tmp_path / "space.test"),
        fixed_config_file_list=[str(tmp_path / "fixed.yaml")],
    )
    tuning.run()
    assert len(tuning.params2result) == 4
    assert set(tuning.best_params) == {"hidden_size", "position"}
    files = [str(tmp_path / "fixed.yaml")]
    again = quick_start.objective_function(config_dict=tuning.best_params, config_file_list=files, saved=False)
    assert again["best_valid_score"] == max(result["best_valid_score"] for result in tuning.params2result.values())


@pytest.mark.parametrize("name", ["run_recboles", "objective_function"])
def test_functions_that_travel_to_other_processes_bring_our_package_along(name: str) -> None:
    assert b"recbole_bert4rec.plugin.hooks" in pickle.dumps(getattr(quick_start, name))


def test_another_series_of_recbole_is_refused_and_another_release_warned_of() -> None:
    with pytest.raises(ImportError, match=r"1\.1\.0"):
        hooks.check_recbole_version("1.1.0")
    with pytest.warns(UserWarning, match=r"1\.2\.2"):
        hooks.check_recbole_version("1.2.2")


def test_pandas_3_is_refused_with_the_reason() -> None:
    with pytest.raises(ImportError, match=r"pandas 3\.0\.1"):
        hooks.check_pandas_version("3.0.1")
    hooks.check_pandas_version("2.3.3")


def test_a_data_set_that_recbole_saved_is_known_by_our_options_too_each_once() -> None:
    for _ in range(2):
        make_config()
    assert {"exact_time", "valid_users", "candidates", "window", "objective", "training_rows"} <= {*SHAPES_DATA}
    assert all(dataset_arguments.count(name) == 1 for name in SHAPES_DATA)
