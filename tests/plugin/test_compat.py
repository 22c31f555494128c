"""Each fault of RecBole that we mend: it is there without the change and gone with it."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import recbole.data.dataset.dataset as dataset_module
import recbole.trainer.trainer as trainer_module
import torch
from hyperopt import hp
from recbole.config import Config
from recbole.data.dataset import Dataset
from recbole.evaluator import Collector
from recbole.model.general_recommender import Pop
from recbole.quick_start import load_data_and_model
from recbole.trainer import HyperTuning, Trainer, hyper_tuning

from recbole_bert4rec.plugin import compat
from recbole_bert4rec.plugin.hooks import in_program
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.scoped import replaced
from tests.helpers.patches import original
from tests.helpers.runs import make_config, make_trainer, prepare
from tests.helpers.small import start

ROWS = [(f"u{u}", f"i{(u + t) % 9}", t) for u in range(9) for t in range(6)]


def trained(write_inter: Any, model: str = "GRU4Rec") -> tuple[Any, Any, Any]:
    """A trainer of RecBole's after one epoch, a fresh one on the same data, and the test loader."""
    config = make_config(model, epochs=1, **write_inter(ROWS))
    _, train, valid, test = prepare(config)
    trainer = make_trainer(config, train)
    trainer.fit(train, valid, verbose=False)
    return trainer, make_trainer(config, train), test


class Evil:
    def __reduce__(self):
        return (Path.touch, (Path("pwned"),))


def test_a_trainer_of_recbole_reads_the_checkpoints_that_this_process_saved_and_metrics_are_numbers_of_python(
    write_inter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, fresh, test = trained(write_inter)
    with replaced(trainer_module, "torch", torch), pytest.raises(Exception, match="weights_only"):
        trainer.evaluate(test)
    seen = []
    monkeypatch.setattr(type(trainer.model), "load_other_parameter", lambda *_: seen.append(torch.load))
    wanted = trainer.evaluate(test)
    assert [function.__module__ for function in seen] == ["torch.serialization"]  # of all but that file of RecBole's
    assert wanted == fresh.evaluate(test, model_file=trainer.saved_model_file)
    fresh.resume_checkpoint(trainer.saved_model_file)
    assert fresh.start_epoch == 1
    assert {type(value) for value in wanted.values()} == {float}
    numpys = Trainer.evaluate(trainer, test, load_best_model=False)
    assert np.float64 in {type(value) for value in numpys.values()}
    assert list(wanted.items()) == list(numpys.items())


def test_recbole_unpickles_the_file_of_nobody_else_unless_torch_is_told_to(
    write_inter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, fresh, test = trained(write_inter)
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
    assert fresh.evaluate(test, model_file=str(theirs)) == trainer.evaluate(test)
    for config, model, dataset, *_ in (*loaded, load_data_and_model(str(theirs))):
        assert (config["model"], type(model).__name__, dataset.user_num) == ("GRU4Rec", "GRU4Rec", 10)
        for name, weight in trainer.model.state_dict().items():
            assert torch.equal(weight, model.state_dict()[name])


@pytest.mark.parametrize("patched", [False, True])
def test_exhaustive_search_tries_every_combination(patched: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not patched:
        monkeypatch.setattr(hyper_tuning, "np", np)
    tried = []

    def objective(params: dict[str, Any], files: Any) -> dict[str, Any]:
        tried.append((params["a"], params["b"]))
        score = {"best_valid_score": float(len(tried)), "best_valid_result": {}, "test_result": {}}
        return {"model": "none", "valid_score_bigger": True, **score}

    space = {"a": hp.choice("a", [1, 2]), "b": hp.choice("b", [3, 4, 5])}
    tuning = HyperTuning(objective, space=space, algo="exhaustive")
    if patched:
        tuning.run()
        assert sorted(tried) == [(a, b) for a in (1, 2) for b in (3, 4, 5)]
    else:
        with pytest.raises(AttributeError, match="integers"):
            tuning.run()


def test_metrics_of_coverage_and_popularity_can_be_collected(write_inter: Any) -> None:
    rows = [(f"u{u}", f"i{(u + t) % 12}", t) for u in range(12) for t in range(6)]
    metrics = ["NDCG", "ItemCoverage", "AveragePopularity", "GiniIndex", "ShannonEntropy", "TailPercentage"]
    trainer, train, valid, _ = start(metrics=metrics, topk=[3], valid_metric="NDCG@3", **write_inter(rows))
    trainer.eval_collector.data_collect(train)
    first = trainer.evaluate(valid, load_best_model=False)
    assert set(first) == {f"{name.lower()}@3" for name in metrics}
    assert first == trainer.evaluate(valid, load_best_model=False)  # what was set aside is put back
    with pytest.raises(AttributeError, match="cpu"):
        original(Collector.get_data_struct)(trainer.eval_collector)


def test_a_download_ends_well_without_process_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "tiny.zip", "w") as archive:
        archive.writestr("tiny.inter", "user_id:token\titem_id:token\nu\ti\nv\tj\n")
    monkeypatch.setattr(Dataset, "_get_download_url", lambda *_: (tmp_path / "tiny.zip").as_uri())
    config = make_config("Pop", dataset="tiny", data_path=str(tmp_path / "data"))
    assert Dataset(config).inter_num == 2
    with replaced(dataset_module, "torch", torch), pytest.raises(ValueError, match="process group"):
        Dataset(config)._download()


def test_anomaly_detection_that_recbole_turns_on_is_off_in_our_programs_and_in_our_training(
    options: dict[str, Any], seen_in_training: Any
) -> None:
    trainer, train, *_ = start(**options, epochs=1)
    seen = seen_in_training(torch.is_anomaly_enabled)
    with torch.autograd.set_detect_anomaly(True):  # as after `import recbole`
        trainer.fit(train, saved=False, verbose=False)
        assert seen == {False}
        assert torch.is_anomaly_enabled()
        with in_program():
            assert not torch.is_anomaly_enabled()
        assert torch.is_anomaly_enabled()


@pytest.mark.parametrize("batch", [4, 64])
def test_pop_ranks_by_the_number_of_training_interactions(write_inter: Any, batch: int) -> None:
    rows = [(f"u{u}", f"i{(u * t) % (5 + u % 3)}", t) for u in range(30) for t in range(8)]
    rows += [("other", f"i{100 + t}", t) for t in range(8)]  # RecBole refuses users who have every item
    trainer, train, *_ = start(model="Pop", train_batch_size=batch, **write_inter(rows))
    trainer.fit(train, saved=False)
    wanted = np.bincount(train.dataset.inter_feat[train.dataset.iid_field].numpy(), minlength=trainer.model.n_items)
    assert trainer.model.item_cnt.squeeze(1).tolist() == wanted.tolist()
    trainer.model.item_cnt.zero_()
    Pop.calculate_loss(trainer.model, next(iter(train)))
    assert trainer.model.item_cnt.max() == 1  # of a batch, however often it has the item


def test_a_configuration_can_be_made_with_numpy_2(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("float_", "complex_", "unicode_"):
        monkeypatch.delattr(np, name, raising=False)  # numpy 1.26 has them
    with pytest.raises(AttributeError, match="float_"):
        original(Config.compatibility_settings)(None)
    compat.compatibility_settings(original(Config.compatibility_settings), None)
    assert (np.float, np.str, np.bool) == (np.float64, np.str_, np.bool_)
    assert not hasattr(np, "float_")
