"""Models of the user's own: found by name, with their parent's options, trained and loaded; imported when named."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from recbole.config import Config
from recbole.model.abstract_recommender import SequentialRecommender
from recbole.quick_start import load_data_and_model, run_recbole
from recbole.utils import get_model

from recbole_bert4rec import BERT4Rec, compare, load, run, tune
from recbole_bert4rec.checkpoints import read
from recbole_bert4rec.cli.main import main
from recbole_bert4rec.core.softmax import mask_weights
from recbole_bert4rec.options import user_models
from recbole_bert4rec.options.user_models import chosen, known_as
from recbole_bert4rec.system.errors import UserError
from tests.helpers.runs import QUIET, make_config, make_trainer
from tests.helpers.small import ROWS, SMALL, start

MODULE = """
import torch
from recbole.model.sequential_recommender import SASRec
from recbole_bert4rec import BERT4Rec

class Mine(BERT4Rec):
    def __init__(self, config, dataset):
        super().__init__(config, dataset)
        self.factor = torch.nn.Parameter(torch.tensor(config["factor"]))

    def loss_of(self, vectors, batch, sequences):
        return super().loss_of(vectors, batch, sequences) * self.factor.exp()

class MySASRec(SASRec):
    def calculate_loss(self, interaction):
        return super().calculate_loss(interaction) * (self.weight or 1.0)

    def __init__(self, config, dataset):
        super().__init__(config, dataset)
        self.weight = config["weight_of_loss"]

def helper():
    pass
"""


@pytest.fixture(autouse=True)
def _nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test begins in a process that knows no module and no class of the user's."""
    monkeypatch.setattr(user_models, "_KNOWN", {})
    path, before = sys.path[:], set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if name.startswith("my_"):
            del sys.modules[name]


@pytest.fixture
def module() -> str:
    """A module of two models, with a file of defaults beside it, in the current folder."""
    Path("my_models.py").write_text(MODULE)
    Path("Mine.yaml").write_text("factor: 0.5   # Exponent of the loss.\nepochs: 2\n")
    return "my_models"


def request_of(write_inter: Any, **more: Any) -> dict[str, Any]:
    options = {**QUIET, **SMALL, **write_inter(ROWS), **more}
    return {"dataset": options.pop("dataset"), "options": options}


@pytest.mark.parametrize("model", [BERT4Rec, get_model("RecBoleBERT4Rec"), get_model("LightGCN")])
def test_classes_of_recbole_and_ours_are_known_already(model: type) -> None:
    assert known_as(model) == model.__name__
    assert get_model(known_as(model)) is model


def test_what_cannot_be_a_model_and_mistakes_in_its_options_and_defaults_are_refused(module: str) -> None:
    Path("my_broken.py").write_text("import absent\n")
    for refused, named in (
        ("nowhere.models:Mine", "nowhere"),
        ("my_models:Min", "Mine"),
        ("my_models:Other", "MySASRec"),
        ("my_models:helper", "my_models:helper"),
        ("my_models:", "MODULE:CLASS"),
        ("my_broken:Mine", "'absent'"),
        (dict, "dict"),
        (SequentialRecommender, "SequentialRecommender"),  # which is abstract
    ):
        with pytest.raises(UserError, match=named) as caught:
            known_as(refused)
        assert "\n" not in str(caught.value)
    for model, option, named in (
        ("Mine", {"factr": 1.0}, "`factr`.*`factor`"),
        ("Mine", {"mask_ratio": 3.0}, "`mask_ratio`"),
        ("MySASRec", {"weight_of_los": 1.0}, "`weight_of_los`"),
    ):
        with pytest.raises(UserError, match=named):
            make_config(f"{module}:{model}", **option)
    Path("Mine.yaml").write_text("factor: [\n")
    with pytest.raises(UserError, match=r"Mine\.yaml"):
        make_config(f"{module}:Mine")


def test_a_subclass_has_its_parents_defaults_then_its_own_and_the_users(module: str) -> None:
    config = make_config(f"{module}:Mine", mask_ratio=0.4)
    parents = make_config("BERT4Rec")
    assert config["model"] == "Mine"
    assert chosen("Mine").__module__ == module
    assert (config["factor"], config["epochs"], config["mask_ratio"]) == (0.5, 2, 0.4)
    assert config["n_layers"] == parents["n_layers"]
    assert config["train_neg_sample_args"]["distribution"] == parents["train_neg_sample_args"]["distribution"]
    assert make_config(f"{module}:Mine", factor=0.25, epochs=7)["factor"] == 0.25


def test_the_logits_are_those_that_the_loss_is_made_of(options: dict[str, Any]) -> None:
    class Twin(BERT4Rec):
        def loss_of(self, vectors: torch.Tensor, batch: Any, sequences: torch.Tensor) -> torch.Tensor:
            losses = torch.nn.functional.cross_entropy(self.logits_of(vectors, batch), batch.labels, reduction="none")
            return (losses * mask_weights(batch.rows, len(sequences), self.loss_mean)).sum()

    found = []
    for model in (BERT4Rec, Twin):
        trainer, train, *_ = start(model=model, seen_bias=True, loss_type="CE", **options)
        network: Any = trainer.model
        network.seen_bias.data.fill_(-0.7)
        loss = network.calculate_loss(next(iter(train)))
        loss.backward()
        found.append((loss.item(), network.seen_bias.grad.item(), network.encoder.item_embedding.weight.grad))
    assert found[0][:2] == pytest.approx(found[1][:2], rel=1e-4)
    torch.testing.assert_close(found[0][2], found[1][2], rtol=1e-4, atol=1e-6)


def test_a_run_of_a_class_is_recorded_by_name_and_goes_on_from_its_checkpoint_which_says_where_it_is_from(
    module: str, write_inter: Any
) -> None:
    request = request_of(write_inter)
    result = run(model=f"{module}:Mine", **request)
    assert result.record["model"] == result.record["config"]["model"] == "Mine"
    assert len(result.record["epochs"]) == 2
    assert result.checkpoint.name.startswith("Mine-")
    assert list(Path("log/Mine").glob("*.log"))
    assert read(result.checkpoint)["config"]["model"] == "my_models:Mine"
    assert read(result.checkpoint)["state_dict"]["factor"] != 0.5, "its own weight was not trained"
    request["options"] |= {"epochs": 3, "allow_unknown": True}
    onward = run(model=f"{module}:Mine", resume=True, **request)
    assert onward.checkpoint == result.checkpoint
    assert len(onward.record["epochs"]) == 3
    assert read(onward.checkpoint)["config"]["model"] == "my_models:Mine"
    with pytest.raises(UserError, match=r"model='Mine'.*'BERT4Rec'"):
        run(model="BERT4Rec", resume=str(result.checkpoint), **request)


def test_an_option_of_a_loss_is_left_to_a_model_with_a_loss_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    class OwnLoss(BERT4Rec):
        def loss_of(self, vectors: torch.Tensor, batch: Any, sequences: torch.Tensor) -> torch.Tensor:
            return vectors.sum() * self.n_negatives

    with caplog.at_level("WARNING"):
        make_config(known_as(OwnLoss), loss_type="CE", n_negatives=5)
    assert not caplog.text


def test_the_tables_of_preload_weight_ride_along_in_the_checkpoint(write_inter: Any) -> None:
    Path("my_warm.py").write_text(
        "from recbole_bert4rec import BERT4Rec\n\nREAD, ITEMS = [], []\n\n\n"
        "class Warm(BERT4Rec):\n"
        "    def __init__(self, config, dataset):\n"
        "        super().__init__(config, dataset)\n"
        "        READ.append(dataset.get_preload_weight('iid'))\n"
        "        ITEMS.append((dataset.item_num, dataset.field2token_id['item_id']))\n"
    )
    options = {
        "additional_feat_suffix": ["emb"],
        "alias_of_item_id": ["iid"],
        "preload_weight": {"iid": "vector"},
        "load_col": {
            "inter": ["user_id", "item_id", "timestamp"],
            "item": ["item_id", "class"],
            "emb": ["iid", "vector"],
        },
        "selected_features": ["class"],
        "item_vectors": ["contents.parquet"],
    }
    items = [f"i{item}" for item in range(1, 23)]
    pd.DataFrame({"item_id": items, "vector": [[float(item), 1.0] for item in range(22)]}).to_parquet(
        "contents.parquet"
    )
    request = request_of(write_inter, epochs=1, **options)
    folder = Path(request["options"]["data_path"], "toy")
    vectors = [f"i{item}\t{item}.1 {item}.25 -3" for item in range(22, 0, -1)]
    (folder / "toy.emb").write_text("\n".join(["iid:token\tvector:float_seq", *vectors]) + "\n")
    classes = [f"{item}\tc{number % 3}" for number, item in enumerate(items)]
    (folder / "toy.item").write_text("\n".join(["item_id:token\tclass:token", *classes]) + "\n")
    result = run(model="my_warm:Warm", **request)
    files = [f"--checkpoint={result.checkpoint}", f"--input={folder / 'toy.inter'}", "--output=top.csv"]
    assert main(["recommend", "--model=my_warm:Warm", *files]) == 0
    before, after = sys.modules["my_warm"].ITEMS
    assert before == after
    trained, loaded = sys.modules["my_warm"].READ
    np.testing.assert_array_equal(trained, loaded, strict=True)
    number = read(result.checkpoint)["item_tokens"].index("i3")
    assert trained[number].tolist() == [3.1, 3.25, -3.0]


def test_a_class_may_have_the_name_of_another_model(write_inter: Any) -> None:
    Path("my_names.py").write_text(MODULE.replace("Mine", "SASRec2").replace("MySASRec(SASRec)", "BERT4Rec(SASRec)"))
    options = {"weight_of_loss": 0.5, "train_neg_sample_args": None, "n_layers": 1}
    result = run(model="my_names:BERT4Rec", **request_of(write_inter, **options))
    assert result.record["model"] == "BERT4Rec"
    assert result.record["config"]["weight_of_loss"] == 0.5
    assert "mask_ratio" not in result.record["config"]


def test_only_a_class_that_the_user_names_is_loaded(
    module: str, write_inter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run(model=f"{module}:Mine", **request_of(write_inter, keep_histories=True))
    ranked = load(result.checkpoint).recommend([["i1", "i2"]], k=3)  # this process was told of the class
    monkeypatch.setattr(user_models, "_KNOWN", {})
    del sys.modules["my_models"]
    with pytest.raises(UserError, match="--model=my_models:Mine"):
        load(result.checkpoint)
    assert "my_models" not in sys.modules
    with pytest.raises(UserError, match="my_models:Mine"):
        load_data_and_model(str(result.checkpoint))
    with pytest.raises(UserError, match="my_models:Mine"):
        run(resume=str(result.checkpoint), options={**QUIET, "epochs": 3})
    assert "my_models" not in sys.modules
    with pytest.raises(UserError, match=r"my_models:Mine.*BERT4Rec"):
        load(result.checkpoint, model=BERT4Rec)
    model = load(result.checkpoint, model=f"{module}:Mine")
    assert type(model.ranker).__name__ == "Mine"
    pd.testing.assert_frame_equal(model.recommend([["i1", "i2"]], k=3), ranked)
    config, network, *_, test = load_data_and_model(str(result.checkpoint), model=type(model.ranker))
    assert type(network) is type(model.ranker)
    found = make_trainer(config, test)
    found.model.load_state_dict(network.state_dict())
    assert found.evaluate(test, load_best_model=False) == result.test_result

    app = pytest.importorskip("recbole_bert4rec.serving.app", reason="the service needs `[serve]`")
    served: list[Any] = []
    monkeypatch.setattr(app, "serve", lambda *given: served.extend(given))
    assert main(["serve", f"--checkpoint={result.checkpoint}", f"--model={module}:Mine", "--device=cpu"]) == 0
    checkpoint, opened, *_ = served
    monkeypatch.setattr(user_models, "_KNOWN", {})  # as when a new file takes the place of the first
    assert type(opened(checkpoint).ranker).__name__ == "Mine"


def test_recboles_own_functions_take_a_class(module: str, write_inter: Any) -> None:
    sys.path.insert(0, os.getcwd())
    import my_models  # type: ignore[import-not-found]

    options = {**QUIET, **SMALL, **write_inter(ROWS)}
    dataset = options.pop("dataset")
    result = run_recbole(model=my_models.Mine, dataset=dataset, config_dict=options)
    assert set(result["test_result"]) == {"recall@10", "mrr@10", "ndcg@10", "hit@10", "precision@10"}
    assert list(Path("saved").glob("Mine-*.pth"))
    assert Config(dataset=dataset, config_dict={**options, "model": my_models.Mine})["factor"] == 0.5


def test_a_file_names_a_model_but_imports_nothing(module: str, write_inter: Any) -> None:
    Path("mine.yaml").write_text(f"model: {module}:Mine\n")
    request = request_of(write_inter)
    with pytest.raises(UserError, match="my_models:Mine"):
        run(config_files=["mine.yaml"], **request)
    Path("study.yaml").write_text(f"variants: {{a: {{}}, b: {{model: '{module}:Mine'}}}}\n")
    with pytest.raises(UserError, match=r"study\.yaml.*my_models:Mine"):
        compare("BERT4Rec", "toy", variants="study.yaml")
    for command in ("run", "compare", "tune"):
        more = ["--params_file=x"] if command == "tune" else []
        assert main([command, "--config_files=mine.yaml", "--dataset=toy", *more]) == 2
    assert "my_models" not in sys.modules
    request["options"]["epochs"] = 1
    assert run(model=f"{module}:Mine", config_files=["mine.yaml"], **request).record["model"] == "Mine"


def test_a_comparison_takes_no_two_models_of_one_name_and_a_search_no_class_outside_a_module(module: str) -> None:
    class Local(BERT4Rec):
        pass

    Path("my_others.py").write_text(MODULE)
    with pytest.raises(UserError, match="--model=Mine,Mine"):
        compare(["my_models:Mine", "my_others:Mine"], "toy")
    with pytest.raises(UserError, match="Local"):
        tune(Local, "toy", "space")
