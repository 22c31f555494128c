"""What importing the package changes in RecBole: it finds our models, and works with today's libraries."""

from __future__ import annotations

import importlib
import pickle
import sys
import zipfile
from pathlib import Path
from types import FunctionType
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import recbole.trainer.trainer as trainer_module
import torch
from recbole.config import Config
from recbole.data.dataset import Dataset
from recbole.quick_start import load_data_and_model, quick_start
from recbole.trainer import HyperTuning, Trainer
from recbole.utils import get_model

import recbole_bert4rec
from recbole_bert4rec.plugin import hooks
from recbole_bert4rec.plugin.model import BERT4Rec
from recbole_bert4rec.system.errors import UserError
from tests.helpers.programs import python
from tests.helpers.runs import QUIET, make_config, make_trainer, prepare
from tests.helpers.small import start

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
        "import recbole.config, recbole_bert4rec",
        "import recbole_bert4rec.training.record",
        "import recbole_bert4rec.plugin.compat",
        "import recbole_bert4rec.plugin.model",
        "import recbole_bert4rec.experiments.tune",
    ],
)
@pytest.mark.slow
def test_the_package_is_registered_whoever_imports_recbole_first(first: str) -> None:
    wanted = ["recbole_bert4rec.plugin.model recbole_bert4rec.plugin.hooks", "True", "True"]
    assert python(first + REGISTERED) == wanted


def test_no_module_of_recbole_holds_an_original_that_is_replaced() -> None:
    """A name imported from one module of RecBole into another is a second reference."""
    originals = [function for function in hooks._originals.values() if isinstance(function, FunctionType)]
    left = [
        (name, key)
        for name, module in list(sys.modules.items())
        if name.split(".")[0] == "recbole" and module is not None
        for key, value in vars(module).items()
        if any(value is function for function in originals)
    ]
    assert left == []


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


@pytest.mark.parametrize(
    "asked",
    [
        {"neg_sampling": {"uniform": 1}},  # as in RecBole's documentation
        {"train_neg_sample_args": {"distribution": "uniform", "sample_num": 2}},
    ],
    ids=str,
)
def test_negative_sampling_of_recbole_never_reaches_the_loader(asked: dict[str, Any], write_inter: Any) -> None:
    trainer, train, valid, _ = start(loss_type="BPR", epochs=1, **asked, **write_inter(ROWS))
    assert sum(len(batch) for batch in train) == 20
    trainer.fit(train, valid, verbose=False, saved=False)


def test_hyper_tuning_of_recbole_tunes_our_model(write_inter: Any) -> None:
    options = write_inter(ROWS)
    Path("fixed.yaml").write_text(
        f"model: BERT4Rec\ndataset: {options['dataset']}\ndata_path: {options['data_path']}\nepochs: 1\n"
        "show_progress: False\nstate: error\nuse_gpu: False\n"
    )
    Path("space.test").write_text("hidden_size choice [8,16]\nposition choice ['start','end']\n")
    files = {"params_file": "space.test", "fixed_config_file_list": ["fixed.yaml"]}
    tuning = HyperTuning(hooks.objective_function, algo="exhaustive", **files)
    tuning.run()
    assert len(tuning.params2result) == 4
    assert set(tuning.best_params) == {"hidden_size", "position"}
    again = quick_start.objective_function(tuning.best_params, config_file_list=["fixed.yaml"], saved=False)
    assert again["best_valid_score"] == max(result["best_valid_score"] for result in tuning.params2result.values())


def test_functions_that_travel_to_other_processes_bring_our_package_along() -> None:
    for function in (quick_start.run_recboles, quick_start.objective_function):
        assert b"recbole_bert4rec.plugin.hooks" in pickle.dumps(function)


def test_another_series_of_recbole_and_pandas_3_are_refused_and_another_release_warned_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ImportError, match=r"1\.1\.0"):
        hooks.check_versions("1.1.0", "2.3.3")
    with pytest.warns(UserWarning, match=r"1\.2\.2"):
        hooks.check_versions("1.2.2", "2.3.3")
    monkeypatch.setattr("pandas.__version__", "3.0.1")
    with pytest.raises(ImportError, match=r"pandas 3\.0\.1"):
        hooks.apply()


class Evil:
    def __reduce__(self):
        return (Path.touch, (Path("pwned"),))


def test_recbole_reads_the_checkpoints_that_this_process_saved_and_others_where_torch_is_told_to(
    write_inter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_config("GRU4Rec", epochs=1, **write_inter(ROWS))
    _, train, valid, test = prepare(config)
    trainer, fresh = make_trainer(config, train), make_trainer(config, train)
    trainer.fit(train, valid, verbose=False)
    with patch.object(trainer_module, "torch", torch), pytest.raises(Exception, match="weights_only"):
        trainer.evaluate(test)
    wanted = trainer.evaluate(test)
    assert torch.load.__module__ == "torch.serialization"  # it is another one in that file of RecBole's alone
    assert wanted == fresh.evaluate(test, model_file=trainer.saved_model_file)
    fresh.resume_checkpoint(trainer.saved_model_file)
    assert fresh.start_epoch == 1
    assert {type(value) for value in wanted.values()} == {float}  # not numpy's, as RecBole's trainer has them
    numpys = Trainer.evaluate(trainer, test, load_best_model=False)
    assert list(wanted.items()) == list(numpys.items())

    evil, theirs = Path("evil.pth"), Path("theirs.pth")
    evil.write_bytes(pickle.dumps(Evil()))
    theirs.write_bytes(Path(trainer.saved_model_file).read_bytes())
    readers = (lambda file: fresh.evaluate(test, model_file=file), fresh.resume_checkpoint, load_data_and_model)
    for file in (evil, theirs):
        for read in readers:
            with pytest.raises(UserError, match=file.name):
                read(str(file))
    assert not Path("pwned").exists()
    loaded = [load_data_and_model(trainer.saved_model_file)]
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    fresh.resume_checkpoint(str(theirs))
    assert fresh.evaluate(test, model_file=str(theirs)) == wanted
    for config, model, dataset, *_ in (*loaded, load_data_and_model(str(theirs))):
        assert (config["model"], type(model).__name__, dataset.user_num) == ("GRU4Rec", "GRU4Rec", 21)
        for name, weight in trainer.model.state_dict().items():
            assert torch.equal(weight, model.state_dict()[name])


def test_metrics_of_coverage_and_popularity_can_be_collected(write_inter: Any) -> None:
    metrics = ["NDCG", "ItemCoverage", "AveragePopularity", "GiniIndex", "ShannonEntropy", "TailPercentage"]
    trainer, train, valid, _ = start(metrics=metrics, topk=[3], valid_metric="NDCG@3", **write_inter(ROWS))
    trainer.eval_collector.data_collect(train)
    first = trainer.evaluate(valid, load_best_model=False)
    assert set(first) == {f"{name.lower()}@3" for name in metrics}
    assert first == trainer.evaluate(valid, load_best_model=False)  # what was set aside is put back


def test_a_download_ends_well_without_process_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "tiny.zip", "w") as archive:
        archive.writestr("tiny.inter", "user_id:token\titem_id:token\nu\ti\nv\tj\n")
    monkeypatch.setattr(Dataset, "_get_download_url", lambda *_: (tmp_path / "tiny.zip").as_uri())
    assert Dataset(make_config("Pop", dataset="tiny", data_path=str(tmp_path / "data"))).inter_num == 2


def test_anomaly_detection_that_recbole_turns_on_is_off_in_our_programs_and_in_our_training(
    options: dict[str, Any], seen_in_training: Any
) -> None:
    trainer, train, *_ = start(**options, epochs=1)
    seen = seen_in_training(torch.is_anomaly_enabled)
    with torch.autograd.set_detect_anomaly(True):  # as after `import recbole`
        trainer.fit(train, saved=False, verbose=False)
        assert seen == {False}
        assert torch.is_anomaly_enabled()
        with hooks.in_program():
            assert not torch.is_anomaly_enabled()
        assert torch.is_anomaly_enabled()


def test_pop_ranks_by_the_number_of_training_interactions(write_inter: Any) -> None:
    rows = [(f"u{u}", f"i{(u * t) % (5 + u % 3)}", t) for u in range(30) for t in range(8)]
    rows += [("other", f"i{100 + t}", t) for t in range(8)]  # RecBole refuses users who have every item
    trainer, train, *_ = start(model="Pop", train_batch_size=64, **write_inter(rows))
    trainer.fit(train, saved=False)
    wanted = np.bincount(train.dataset.inter_feat[train.dataset.iid_field].numpy(), minlength=trainer.model.n_items)
    assert trainer.model.item_cnt.squeeze(1).tolist() == wanted.tolist()
