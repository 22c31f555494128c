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
from recbole.model.sequential_recommender import SASRec
from recbole.quick_start import load_data_and_model, run_recbole
from recbole.utils import get_model, get_trainer

import recbole_bert4rec
from recbole_bert4rec import BERT4Rec, Comparison, load, run
from recbole_bert4rec.checkpoints.checkpoint import read
from recbole_bert4rec.cli.main import main
from recbole_bert4rec.comparison.study import read_study
from recbole_bert4rec.core.losses import mask_weights
from recbole_bert4rec.options import user_models
from recbole_bert4rec.options.user_models import importable, is_ours, known_as, parent_of, source_of
from recbole_bert4rec.plugin.trainer import BERT4RecTrainer
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.tuning.objective import Task
from recbole_bert4rec.tuning.tune import SearchRequest, tune
from tests.helpers.runs import QUIET, make_config, make_trainer, prepare
from tests.helpers.small import ROWS, SMALL

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
    Path("Mine.yaml").write_text("factor: 0.5   # (float) Exponent of the loss.\nepochs: 2\n")
    return "my_models"


def request_of(write_inter: Any, **more: Any) -> dict[str, Any]:
    options = {**QUIET, **SMALL, **write_inter(ROWS), **more}
    return {"dataset": options.pop("dataset"), "options": options}


def test_a_class_is_imported_from_the_current_folder_and_known_by_its_name(module: str) -> None:
    assert known_as(f"{module}:Mine") == "Mine"
    assert get_model("Mine").__module__ == "my_models"
    assert (parent_of("Mine"), is_ours("Mine"), source_of("Mine")) == ("BERT4Rec", True, "my_models:Mine")
    assert known_as(f"{module}:MySASRec") == "MySASRec"
    assert (parent_of("MySASRec"), is_ours("MySASRec")) == ("SASRec", False)
    assert issubclass(get_trainer(get_model("Mine").type, "Mine"), BERT4RecTrainer)


@pytest.mark.parametrize("model", [SASRec, BERT4Rec, get_model("RecBoleBERT4Rec"), get_model("LightGCN")])
def test_classes_of_recbole_and_ours_are_known_already(model: type) -> None:
    assert known_as(model) == model.__name__
    assert get_model(known_as(model)) is model
    assert not user_models._KNOWN


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("nowhere.models:Mine", ("there is no module nowhere,",)),
        ("my_models:Min", ("my_models has no Min; did you mean Mine?",)),
        ("my_models:Other", ("my_models has no Other; its models are Mine, MySASRec",)),
        ("my_models:helper", ("my_models:helper is not a model of RecBole",)),
        ("my_models:torch", ("is not a model of RecBole",)),
        ("my_models:", ("must be the name of a model, or MODULE:CLASS",)),
        ("my models.py:Mine", ("must be the name of a model, or MODULE:CLASS",)),
        ("my_broken:Mine", ("my_broken cannot be imported: ModuleNotFoundError: No module named 'absent'",)),
        ("my_syntax:Mine", ("my_syntax cannot be imported: SyntaxError",)),
    ],
)
def test_what_cannot_be_a_model_is_refused_in_one_line(named: str, words: tuple[str, ...], module: str) -> None:
    Path("my_broken.py").write_text("import absent\n")
    if named.startswith("my_syntax"):
        Path("my_syntax.py").write_text("class Mine(:\n")
    with pytest.raises(UserError) as caught:
        known_as(named)
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_a_value_of_another_type_than_the_file_of_defaults_says_is_refused(module: str, write_inter: Any) -> None:
    with pytest.raises(UserError, match="`factor` must be a number, but is 'big'"):
        run(model=f"{module}:Mine", **request_of(write_inter, factor="big"))


def test_a_class_that_is_no_model_is_refused() -> None:
    with pytest.raises(UserError, match="is not a model of RecBole"):
        known_as(dict)
    with pytest.raises(UserError, match="is not a model of RecBole"):
        known_as(SASRec.__mro__[1])  # SequentialRecommender is abstract


def test_a_subclass_has_its_parents_defaults_then_its_own_and_the_users(module: str) -> None:
    config = make_config(f"{module}:Mine", mask_ratio=0.4)
    parents = make_config("BERT4Rec")
    assert config["model"] == "Mine"
    assert (config["factor"], config["epochs"], config["mask_ratio"]) == (0.5, 2, 0.4)
    assert config["n_layers"] == parents["n_layers"]
    assert config["train_neg_sample_args"]["distribution"] == parents["train_neg_sample_args"]["distribution"]
    assert make_config(f"{module}:Mine", factor=0.25, epochs=7)["factor"] == 0.25


def test_misspelt_options_of_a_users_model_are_refused_and_those_that_its_code_reads_are_known(module: str) -> None:
    with pytest.raises(UserError, match=r"configuration of Mine has mistakes:\n  `factr`: did you mean `factor`"):
        make_config(f"{module}:Mine", factr=1.0)
    with pytest.raises(UserError, match="`mask_ratio` must be"):
        make_config(f"{module}:Mine", mask_ratio=3.0)
    with pytest.raises(UserError, match="configuration of MySASRec has mistakes:\n  `weight_of_los`"):
        make_config(f"{module}:MySASRec", weight_of_los=1.0)
    assert make_config(f"{module}:MySASRec", weight_of_loss=2.0, loss_type="CE")["weight_of_loss"] == 2.0


def test_a_mistake_in_the_file_of_defaults_names_the_file(module: str) -> None:
    Path("Mine.yaml").write_text("factor: [\n")
    with pytest.raises(UserError, match=r"Mine\.yaml cannot be read"):
        make_config(f"{module}:Mine")


def test_the_logits_are_those_that_the_loss_is_made_of(options: dict[str, Any]) -> None:
    class Twin(BERT4Rec):
        def loss_of(self, vectors: torch.Tensor, batch: Any, sequences: torch.Tensor) -> torch.Tensor:
            losses = torch.nn.functional.cross_entropy(self.logits_of(vectors, batch), batch.labels, reduction="none")
            return (losses * mask_weights(batch.rows, len(sequences), self.loss_mean)).sum()

    found = []
    for model in (BERT4Rec, Twin):
        config = make_config(known_as(model), seen_bias=True, loss_type="CE", **options)
        _, train, *_ = prepare(config)
        network: Any = make_trainer(config, train).model
        network.seen_bias.data.fill_(-0.7)
        loss = network.calculate_loss(next(iter(train)))
        loss.backward()
        found.append((loss.item(), network.seen_bias.grad.item(), network.encoder.item_embedding.weight.grad))
    assert found[0][:2] == pytest.approx(found[1][:2], rel=1e-4)
    torch.testing.assert_close(found[0][2], found[1][2], rtol=1e-4, atol=1e-6)


def test_a_run_of_a_class_is_recorded_by_name_and_its_checkpoint_says_where_it_is_from(
    module: str, write_inter: Any
) -> None:
    result = run(model=f"{module}:Mine", **request_of(write_inter))
    assert result.record["model"] == result.record["config"]["model"] == "Mine"
    assert len(result.record["epochs"]) == 2
    assert result.checkpoint.name.startswith("Mine-")
    assert list(Path("log/Mine").glob("*.log"))
    assert read(result.checkpoint)["config"]["model"] == "my_models:Mine"
    assert read(result.checkpoint)["state_dict"]["factor"] != 0.5, "its own weight was not trained"


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
        "        READ.append([dataset.get_preload_weight(field) for field in ('iid', 'price_of')])\n"
        "        ITEMS.append((dataset.item_num, dataset.field2token_id['item_id']))\n"
    )
    options = {
        "additional_feat_suffix": ["emb", "price"],
        "alias_of_item_id": ["iid", "price_of"],
        "preload_weight": {"iid": "vector", "price_of": "price"},
        "load_col": {
            "inter": ["user_id", "item_id", "timestamp"],
            "emb": ["iid", "vector"],
            "price": ["price_of", "price"],
        },
    }
    request = request_of(write_inter, epochs=1, **options)
    folder = Path(request["options"]["data_path"], "toy")
    vectors = [f"i{item}\t{item}.1 {item}.25 -3" for item in range(22, 0, -1)]
    (folder / "toy.emb").write_text("\n".join(["iid:token\tvector:float_seq", *vectors]) + "\n")
    (folder / "toy.price").write_text("\n".join(["price_of:token\tprice:float", "i3\t0.1", "i5\t7"]) + "\n")
    result = run(model="my_warm:Warm", **request)
    files = [f"--checkpoint={result.checkpoint}", f"--input={folder / 'toy.inter'}", "--output=top.csv"]
    assert main(["recommend", "--model=my_warm:Warm", *files]) == 0
    before, after = sys.modules["my_warm"].ITEMS
    assert before == after
    trained, loaded = sys.modules["my_warm"].READ
    for one, other in zip(trained, loaded, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
    number = read(result.checkpoint)["item_tokens"].index("i3")
    assert trained[0][number].tolist() == [3.1, 3.25, -3.0]
    assert (trained[1][number], trained[1].shape) == (0.1, (24,))


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
    with pytest.raises(UserError, match="names the model my_models:Mine; importing it runs its module") as caught:
        load(result.checkpoint)
    assert "my_models" not in sys.modules
    assert "--model=my_models:Mine" in str(caught.value)
    with pytest.raises(UserError, match="importing it runs its module"):
        load_data_and_model(str(result.checkpoint))
    with pytest.raises(UserError, match="importing it runs its module"):
        run(resume=str(result.checkpoint), options={**QUIET, "epochs": 3})
    assert "my_models" not in sys.modules
    with pytest.raises(UserError, match="holds a model of my_models:Mine, but the one given is BERT4Rec"):
        load(result.checkpoint, model=BERT4Rec)
    model = load(result.checkpoint, model=f"{module}:Mine")
    assert type(model.ranker).__name__ == "Mine"
    pd.testing.assert_frame_equal(model.recommend([["i1", "i2"]], k=3), ranked)
    config, network, *_, test = load_data_and_model(str(result.checkpoint), model=type(model.ranker))
    assert type(network) is type(model.ranker)
    found = make_trainer(config, test)
    found.model.load_state_dict(network.state_dict())
    assert found.evaluate(test, load_best_model=False) == result.test_result


def test_serve_loads_the_class_that_the_user_names(
    module: str, write_inter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = pytest.importorskip("recbole_bert4rec.serving.server", reason="the service needs `[serve]`")
    result = run(model=f"{module}:Mine", **request_of(write_inter, epochs=1))
    monkeypatch.setattr(user_models, "_KNOWN", {})
    served: list[Any] = []
    monkeypatch.setattr(server, "serve", lambda *given: served.extend(given))
    assert main(["serve", f"--checkpoint={result.checkpoint}", f"--model={module}:Mine", "--device=cpu"]) == 0
    files, opened, *_ = served
    monkeypatch.setattr(user_models, "_KNOWN", {})  # as when a new file takes the place of the first
    assert type(opened(files[0]).ranker).__name__ == "Mine"


def test_a_checkpoint_of_ours_is_not_loaded_as_another_model(module: str, write_inter: Any) -> None:
    result = run(model="BERT4Rec", **request_of(write_inter, epochs=1))
    with pytest.raises(UserError, match="holds a model of BERT4Rec, but the one given is Mine"):
        load(result.checkpoint, model=f"{module}:Mine")
    assert load(result.checkpoint, model="BERT4Rec").items == load(result.checkpoint).items


def test_a_loaded_model_with_features_ranks_as_the_trained_one(module: str, write_inter: Any) -> None:
    request = request_of(write_inter, selected_features=["kind"], load_col={"inter": None, "item": ["item_id", "kind"]})
    items = sorted({row[1] for row in ROWS})
    lines = ["item_id:token\tkind:token", *(f"{item}\tk{int(item[1:]) % 3}" for item in items)]
    Path(request["options"]["data_path"], "toy", "toy.item").write_text("\n".join(lines) + "\n")
    request["options"]["load_col"]["inter"] = ["user_id", "item_id", "timestamp"]
    result = run(model=f"{module}:Mine", recommend="top.csv", k=3, **request)
    model = load(result.checkpoint)
    theirs = pd.read_csv("top.csv", dtype={"user_id": str})
    history = [row[1] for row in ROWS if row[0] == "u7"]
    assert model.recommend([history], k=3)["item_id"].tolist() == (
        theirs[theirs["user_id"] == "u7"]["item_id"].tolist()
    )


def test_a_run_goes_on_from_a_checkpoint_of_the_class(module: str, write_inter: Any) -> None:
    request = request_of(write_inter)
    whole = run(model=f"{module}:Mine", **request_of(write_inter, epochs=3, checkpoint_dir="whole"))
    first = run(model=f"{module}:Mine", **request)
    request["options"] |= {"epochs": 3, "allow_unknown": True}
    onward = run(model=f"{module}:Mine", resume=True, **request)
    assert onward.checkpoint == first.checkpoint
    assert len(onward.record["epochs"]) == 3
    assert read(onward.checkpoint)["config"]["model"] == read(whole.checkpoint)["config"]["model"] == "my_models:Mine"
    with pytest.raises(UserError, match="the checkpoint has model='Mine', this run 'BERT4Rec'"):
        run(model="BERT4Rec", resume=str(first.checkpoint), **request)


def test_recboles_own_functions_take_a_class(module: str, write_inter: Any) -> None:
    sys.path.insert(0, os.getcwd())
    import my_models  # type: ignore[import-not-found]

    options = {**QUIET, **SMALL, **write_inter(ROWS)}
    dataset = options.pop("dataset")
    config = Config(model=my_models.MySASRec, dataset=dataset, config_dict={**options, "loss_type": "CE"})
    assert get_model(config["model"]) is my_models.MySASRec
    result = run_recbole(model=my_models.Mine, dataset=dataset, config_dict=options)
    assert set(result["test_result"]) == {"recall@10", "mrr@10", "ndcg@10", "hit@10", "precision@10"}
    assert list(Path("saved").glob("Mine-*.json"))
    assert Config(dataset=dataset, config_dict={**options, "model": my_models.Mine})["factor"] == 0.5


def test_a_model_of_ones_own_from_recboles_base_is_trained(write_inter: Any) -> None:
    Path("my_base.py").write_text(
        "from recbole.model.abstract_recommender import GeneralRecommender\n"
        "from recbole.utils import InputType\n"
        "import torch\n\n\n"
        "class Biased(GeneralRecommender):\n"
        "    input_type = InputType.PAIRWISE\n\n"
        "    def __init__(self, config, dataset):\n"
        "        super().__init__(config, dataset)\n"
        "        self.bias = torch.nn.Embedding(self.n_items, 1)\n\n"
        "    def calculate_loss(self, interaction):\n"
        "        one, other = (self.bias(interaction[name]) for name in (self.ITEM_ID, self.NEG_ITEM_ID))\n"
        "        return -torch.nn.functional.logsigmoid(one - other).mean()\n\n"
        "    def predict(self, interaction):\n"
        "        return self.bias(interaction[self.ITEM_ID]).squeeze(1)\n\n"
        "    def full_sort_predict(self, interaction):\n"
        "        return self.bias.weight.squeeze(1).repeat(len(interaction))\n"
    )
    result = run(model="my_base:Biased", **request_of(write_inter, epochs=1, batch_sequences=64))
    assert result.test_result is not None
    assert result.record["model"] == "Biased"
    with pytest.raises(UserError, match=r"--resume works with BERT4Rec, .* only, but the model is Biased"):
        run(model="my_base:Biased", resume=True, **request_of(write_inter))


def test_a_file_names_a_model_but_imports_nothing(module: str, write_inter: Any) -> None:
    Path("mine.yaml").write_text(f"model: {module}:Mine\n")
    request = request_of(write_inter)
    with pytest.raises(UserError, match="a configuration file names the model my_models:Mine"):
        run(config_files=["mine.yaml"], **request)
    with pytest.raises(UserError, match="a configuration file names the model"):
        Config(dataset="ml-100k", config_file_list=["mine.yaml"], config_dict=QUIET)
    Path("study.yaml").write_text(f"variants: {{a: {{}}, b: {{model: '{module}:Mine'}}}}\n")
    with pytest.raises(UserError, match=r"study study\.yaml names the model my_models:Mine"):
        read_study("study.yaml")
    for command in ("run", "compare", "tune"):
        more = ["--params_file=x"] if command == "tune" else []
        assert main([command, "--config_files=mine.yaml", "--dataset=toy", *more]) == 2
    assert "my_models" not in sys.modules
    request["options"]["epochs"] = 1
    assert run(model=f"{module}:Mine", config_files=["mine.yaml"], **request).record["model"] == "Mine"


def test_two_models_of_one_name_are_not_compared(module: str) -> None:
    Path("my_others.py").write_text(MODULE)
    with pytest.raises(UserError, match="--model=Mine,Mine names the model Mine twice"):
        Comparison(("my_models:Mine", "my_others:Mine"), "toy")


def test_other_processes_need_a_class_of_a_module() -> None:
    class Local(BERT4Rec):
        pass

    with pytest.raises(UserError, match="cannot import Local from a notebook, a program or a function"):
        importable(Local)
    with pytest.raises(UserError, match="cannot import Local"):
        tune(SearchRequest(Task(model=Local, dataset="toy"), "space"))  # type: ignore[arg-type]


def test_help_lists_a_models_own_options_before_its_parents(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", f"--model={module}:Mine", "--help"])
    shown = capsys.readouterr().out
    assert "options of Mine, as --key=value; those of BERT4Rec follow" in shown
    assert "Exponent of the loss. (default: 0.5)" in " ".join(shown.split())
    assert "--mask_ratio" in shown
    with pytest.raises(SystemExit):
        main(["run", f"--model={module}:MySASRec", "--help"])
    assert "--weight_of_loss" in capsys.readouterr().out


def test_the_package_has_the_class_to_come_from() -> None:
    assert recbole_bert4rec.BERT4Rec is get_model("BERT4Rec")
