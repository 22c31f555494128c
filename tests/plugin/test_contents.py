"""Items with contents: what the model reads of vectors and numbers, and items that nobody has had."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import recbole
import torch

from recbole_bert4rec import append_items, checkpoints, load
from recbole_bert4rec.core import item_features
from recbole_bert4rec.core.encoder import BERT4RecEncoder
from recbole_bert4rec.core.item_features import Contents, ItemContents, uniform
from recbole_bert4rec.core.transformer import EncoderOptions
from recbole_bert4rec.logs.items import read_item_vectors
from recbole_bert4rec.recommend.export import export
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.run import RunResult, run
from tests.helpers.data import inter_writer
from tests.helpers.extras import needs_onnx
from tests.helpers.runs import MRR_OF_3, QUIET, StopAfter, make_config, prepare

ROOT = Path(__file__).parents[2]
N_ITEMS, SIZE = 9, 4
ALL = torch.arange(N_ITEMS + 1)


def contents(width: int = 5) -> Contents:
    generator = torch.Generator().manual_seed(0)
    counts = torch.tensor([0.0, 0, 1, 2, 5, 9, 100, 3, 1])
    return Contents(
        torch.randn(N_ITEMS + 1, width, generator=generator).half(),
        torch.randn(width, generator=generator),
        torch.rand(width, generator=generator) + 0.5,
        torch.cat([counts, counts.sum().view(1)]),
        torch.tensor(width),
    )


def test_an_item_is_its_contents_and_its_id_by_how_often_it_was_seen() -> None:
    torch.manual_seed(0)
    told = contents()
    module = ItemContents(told, SIZE, 1e-12).eval()
    with torch.no_grad():
        for weight in module.parameters():
            weight += 0.3 * torch.randn_like(weight)
    embeddings = torch.randn(N_ITEMS + 1, SIZE, requires_grad=True)
    twins = []
    for item, count in enumerate(told.counts):
        numbers = (told.vectors[item].float() - told.shift) * told.scale
        projected = module.projection.weight @ numbers + module.projection.bias
        centred = projected - projected.mean()
        normed = centred / (centred.square().mean() + 1e-12).sqrt() * module.norm.weight + module.norm.bias
        share = count / (count + module.log_half.exp())
        twins.append((1 - share) * normed + share * embeddings[item])
    learnt = [embeddings, *module.parameters()]
    weights = torch.randn(N_ITEMS + 1, SIZE)
    ours, wanted = module(ALL, embeddings), torch.stack(twins)
    torch.testing.assert_close(ours, wanted)
    gradients = [torch.autograd.grad((table * weights).sum(), learnt, retain_graph=True) for table in (ours, wanted)]
    for one, twin in zip(*gradients, strict=True):
        torch.testing.assert_close(one, twin, rtol=1e-4, atol=1e-5)
    some = torch.tensor([[3, 1], [9, 3]])
    torch.testing.assert_close(module(some, embeddings[some]), wanted[some])


def test_training_hides_ids_of_rare_items_most_and_never_the_mask_token() -> None:
    module = ItemContents(contents(), SIZE, 1e-12)
    shares = module.id_weights(ALL, None).detach()
    weights = torch.stack([module.id_weights(ALL, draw) for draw in torch.randint(2**62, (4000,)).tolist()])
    hidden = (weights == 0).float().mean(0)
    wanted = (1 - shares).clamp(min=0.1)
    wanted[-1] = 0
    assert hidden.numpy() == pytest.approx(wanted.numpy(), abs=0.03)
    torch.testing.assert_close(weights.max(0).values, shares)


def test_draws_are_uniform_and_know_nothing_of_each_other() -> None:
    numbers = torch.arange(100_000)
    one, other = (uniform(numbers, draw) for draw in (7, 8))
    assert 0 <= one.min() <= one.max() < 1
    assert torch.equal(uniform(numbers[[3, 3, 5]], 7), one[[3, 3, 5]])
    assert torch.histc(one, 10, 0, 1).numpy() == pytest.approx(10_000, rel=0.05)
    for pair in ((one, other), (one[1:], one[:-1]), (one[1:], other[:-1].roll(7))):
        assert torch.corrcoef(torch.stack(pair))[0, 1].abs() < 0.015


def test_input_and_output_have_the_same_vectors_with_the_same_ids_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    told = contents()
    encoder = BERT4RecEncoder(EncoderOptions(N_ITEMS, 5, contents=told, hidden_size=SIZE, n_heads=2))
    assert encoder.contents is not None
    torch.nn.init.normal_(encoder.output_bias)
    content = encoder.contents.norm(encoder.contents.projection((told.vectors.float() - told.shift) * told.scale))
    batches, items = set(), torch.tensor([[1, 5, 9], [6, 2, 2]])
    for _ in range(20):
        encoder(items)  # which draws
        table = encoder.output_embedding
        batches.add(tuple((~torch.isclose(table, content, atol=1e-5)).any(1).tolist()))
        torch.testing.assert_close(encoder.item_vectors(items), table[items])
        vectors, bias = encoder.outputs(torch.arange(N_ITEMS))
        assert torch.equal(vectors, table[:-1])
        assert torch.equal(bias, encoder.output_bias)
    assert len(batches) > 1
    monkeypatch.setattr(item_features, "uniform", lambda items, draw: torch.ones(items.shape))
    trained = encoder.item_vectors(items)  # none is hidden
    encoder.eval()
    assert encoder.catalogue.shape == (N_ITEMS, SIZE)
    torch.testing.assert_close(encoder.item_vectors(items), trained.detach())
    assert encoder.output_embedding is encoder.output_embedding  # made once
    with torch.no_grad():
        encoder.item_embedding.weight += 1
    encoder.train().eval()
    assert not torch.allclose(encoder.item_vectors(items), trained)
    table = encoder.output_embedding
    encoder.forget_contents_()
    assert torch.equal(encoder.item_vectors(items), table[items])


GROUPS = 4


def rows() -> list[tuple[str, str, int]]:
    """Users who stay with the items of their group."""
    draw = np.random.default_rng(0)
    times = [(user, time) for user in range(120) for time in range(5 + user % 5)]
    return [(f"u{user}", f"i{GROUPS * draw.integers(10) + user % GROUPS}", time) for user, time in times]


def vectors(items: list[str], groups: list[int], path: Path) -> str:
    draw = np.random.default_rng(1)
    table = np.eye(GROUPS, dtype=np.float32)[groups] + 0.1 * draw.normal(size=(len(items), GROUPS)).astype(np.float32)
    pd.DataFrame({"item_id": items, "vector": list(table)}).to_parquet(path)
    return str(path)


@pytest.fixture(scope="module")
def grouped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The log, and vectors of its items and of two that nobody had, of groups 1 and 2."""
    folder = tmp_path_factory.mktemp("grouped")
    items, groups = [f"i{number}" for number in range(40)], [number % GROUPS for number in range(40)]
    path = vectors([*items, "cold1", "cold2"], [*groups, 1, 2], folder / "groups.parquet")
    return {**inter_writer(folder)(rows()), "item_vectors": path, "checkpoint_dir": str(folder)}


@pytest.fixture(scope="module")
def learnt(grouped: dict[str, Any]) -> str:
    """A checkpoint of a model of both."""
    return str(trained_on({**grouped, "item_vectors": [grouped["item_vectors"]]}).checkpoint)


def write_items(options: dict[str, Any], *lines: str) -> dict[str, Any]:
    """An item file beside the log; return what loads and selects its columns."""
    (Path(options["data_path"]) / "toy" / "toy.item").write_text("\n".join(lines) + "\n")
    columns = [column.partition(":")[0] for column in lines[0].split("\t")]
    load = {"inter": ["user_id", "item_id", "timestamp"], "item": columns}
    return {**options, "load_col": load, "selected_features": columns[1:]}


def trained_on(options: dict[str, Any], **more: Any) -> RunResult:
    chosen = {**QUIET, "hidden_size": 16, "epochs": 24, "stopping_step": 99, "hidden_dropout_prob": 0.1, **options}
    return run(dataset=chosen.pop("dataset"), options={**chosen, "model": "BERT4RecPlus"}, **more)


OF_GROUP = {1: ["i1", "i5", "i9", "i13"], 2: ["i2", "i6", "i10", "i14"], 3: ["i3", "i7", "i11", "i15"]}


@pytest.mark.parametrize("loss_type", ["CE", "sampled_softmax", "BPR"])
def test_an_item_that_nobody_has_had_is_recommended_to_those_who_like_what_it_is(
    loss_type: str, grouped: dict[str, Any], learnt: str
) -> None:
    file = (
        learnt if loss_type == "CE" else trained_on({**grouped, "loss_type": loss_type, "n_negatives": 16}).checkpoint
    )
    model = load(file, "cpu")
    scores = model.score([OF_GROUP[1], OF_GROUP[2], OF_GROUP[3]], ["cold1", "cold2", "i21", "i22"])
    of = scores.pivot(index="user_id", columns="item_id", values="score")
    assert of["cold1"].idxmax() == 0
    assert of["cold2"].idxmax() == 1
    fresh = model.recommend([OF_GROUP[1]], k=12)["item_id"].tolist()
    assert "cold1" in fresh
    assert "cold2" not in fresh
    assert len(model.recommend([["cold1", "cold2"]], k=3)) == 3


def test_items_without_interactions_take_no_part_in_evaluation_and_are_those_that_are_appended(
    grouped: dict[str, Any], learnt: str, tmp_path: Path
) -> None:
    path, trained = grouped["item_vectors"], Path(shutil.copy(learnt, tmp_path / "m.pth"))
    alone, model = load(trained, "cpu", cold_items=False), load(trained, "cpu")
    assert [*model.items] == [*alone.items, "cold1", "cold2"]
    told = pd.read_parquet(path).set_index("item_id")["vector"]
    copies = {f"again{number}": told[f"cold{number}"] for number in (1, 2)}
    file = tmp_path / "grown.pth"
    grown = append_items(trained, {"like i5": ["i5"]}, copies, output=file, device="cpu")
    asked = [OF_GROUP[1], OF_GROUP[2], ["cold1"]]
    assert [*grown.items][-5:] == ["cold1", "cold2", "like i5", "again1", "again2"]
    scores = grown.score(asked, ["cold1", "cold2", "again1", "again2"])["score"].to_numpy().reshape(3, 2, 2)
    assert np.allclose(scores[:2, 0], scores[:2, 1])
    scores = grown.score(asked[:2], ["like i5", "i5"]).set_index("item_id")["score"]
    assert np.allclose(scores["like i5"], scores["i5"], atol=0.05)
    again = load(file, "cpu")
    pd.testing.assert_frame_equal(again.recommend(asked, k=9), grown.recommend(asked, k=9))
    for bad, named in (
        ({"cold1": told["cold1"]}, "'cold1'"),
        ({"huge": 1e6 * told["cold1"]}, "'huge'"),
        ({"short": [1.0, 2.0]}, "'short' must be 4"),
    ):
        with pytest.raises(UserError, match=named):
            append_items(trained, vectors=bad, output=tmp_path / "bad.pth")
        assert not (tmp_path / "bad.pth").exists()
    known, both = (each.score(asked[:2], [*alone.items]) for each in (alone, model))
    assert np.allclose(known["score"], both["score"])
    with trained.open("r+b") as file:
        file.write(bytes(trained.stat().st_size))  # nothing is read from it any more
    pd.testing.assert_frame_equal(model.score(asked[:2], [*alone.items]), both)
    assert model.config["item_vectors"] == [path]


@needs_onnx
@pytest.mark.slow
def test_the_graph_has_them_too(learnt: str, tmp_path: Path) -> None:
    model = load(learnt, "cpu")
    wanted = model.recommend([OF_GROUP[1]], k=12)
    assert "cold1" in wanted["item_id"].tolist()
    export(model, tmp_path / "exported")
    with pytest.raises(UserError, match="cold_items"):
        load(tmp_path / "exported", cold_items=False)
    exported = load(tmp_path / "exported").recommend([OF_GROUP[1]], k=12)
    assert exported["item_id"].tolist() == wanted["item_id"].tolist()
    assert np.allclose(exported["score"], wanted["score"], atol=1e-4)


def test_a_resumed_run_ends_as_one_that_never_stopped_and_a_warm_start_reads_the_new_file(
    grouped: dict[str, Any], write_inter: Any, tmp_path: Path
) -> None:
    options = {**grouped, "epochs": 2}
    whole, stopped = trained_on(options), trained_on(options, callbacks=[StopAfter(0)])
    resumed = run(resume=str(stopped.checkpoint))
    assert resumed.test_result == whole.test_result
    before, after = (checkpoints.read(file)["state_dict"] for file in (whole.checkpoint, resumed.checkpoint))
    assert all(torch.equal(before[name], after[name]) for name in before)
    other = vectors([f"i{n}" for n in range(40)], [0] * 40, tmp_path / "other.parquet")
    for changed in (other, []):
        with pytest.raises(UserError, match="item_vectors"):
            run(resume=str(stopped.checkpoint), options={"item_vectors": changed})
    with pytest.raises(UserError, match="item_vectors"):
        trained_on({**options, "item_vectors": [], "warm_start": str(whole.checkpoint)})
    more = write_inter([*rows(), *((f"u{user}", "i99", 99) for user in range(60))])
    items = [f"i{number}" for number in range(40)] + ["i99"]
    told = vectors(items, [number % GROUPS for number in range(41)], tmp_path / "new.parquet")
    warm = trained_on({**more, "item_vectors": told, "warm_start": str(whole.checkpoint), "epochs": 1})
    weights = checkpoints.read(warm.checkpoint)["state_dict"]
    assert weights["encoder.contents.vectors"].shape == (43, GROUPS)


def test_numbers_of_the_item_file_are_standardised_and_missing_ones_known(write_inter: Any) -> None:
    options = write_inter([(f"u{user}", f"i{(user + time) % 5}", time) for user in range(9) for time in range(4)])
    lines = ["item_id:token\tprice:float\tsize:float_seq", "i0\t10\t1 2", "i1\t30\t3 4", "i2\t\t5 6", "i4\t20\t"]
    chosen = {**write_items(options, *lines), **MRR_OF_3, "filter_inter_by_user_or_item": False}
    _, train, *_ = prepare(make_config("BERT4RecPlus", **chosen))
    told = train._dataset.contents[0]
    assert told is not None
    tokens = train._dataset.field2id_token["item_id"].tolist()
    table = {token: row.tolist() for token, row in zip([*tokens, "[MASK]"], told.vectors.float(), strict=True)}
    assert told.vectors.shape == (7, 5)
    assert table["i0"] == pytest.approx([-1.2247, 0, -1.2247, -1.2247, 0], abs=1e-3)
    assert table["i1"] == pytest.approx([1.2247, 0, 0, 0, 0], abs=1e-3)
    assert table["i2"][:2] == [0, 1]
    assert table["i4"] == pytest.approx([0, 0, 0, 0, 1], abs=1e-3)
    assert table["i3"] == table["[MASK]"] == [0, 1, 0, 0, 1]
    assert int(told.n_of_files) == 0
    for others, named in (([*lines[1:-1], "i4\tinf\t1"], r"'price'.*'i4'"), (["i0\t\t1", "i1\t\t2"], "'price'")):
        write_items(options, lines[0], *others)
        _, train, *_ = prepare(make_config("BERT4RecPlus", **chosen))
        with pytest.raises(UserError, match=named):
            _ = train._dataset.contents


def test_a_model_of_numeric_columns_begins_with_the_weights_of_another_and_takes_new_items_by_neighbours(
    write_inter: Any,
) -> None:
    options = write_inter(rows()[:300])
    lines = ["item_id:token\tprice:float\tkind:token", *(f"i{n}\t{n or ''}\tk{n % 2}" for n in range(40))]
    chosen = {**write_items(options, *lines), "epochs": 1}
    first = trained_on(chosen)
    assert trained_on({**chosen, "warm_start": str(first.checkpoint)}).record["warm_start"]["kept"] == 40
    with pytest.raises(UserError, match="neighbours"):
        append_items(first.checkpoint, vectors={"new": [19.9]})
    assert "new" in append_items(first.checkpoint, neighbours={"new": ["i3"]}).items


def test_vectors_of_none_of_the_items_are_refused_with_an_example_of_each_side(
    grouped: dict[str, Any], tmp_path: Path
) -> None:
    others = vectors(["x", "y"], [0, 1], tmp_path / "others.parquet")
    with pytest.raises(UserError, match=r"'x'.*'i\d+'"):
        trained_on({**grouped, "item_vectors": others})


def test_the_example_makes_vectors_of_the_texts_of_ml_100k(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    items, file = Path(recbole.__file__).parent / "dataset_example/ml-100k/ml-100k.item", tmp_path / "a.parquet"
    monkeypatch.setattr("sys.argv", ["text_vectors.py", str(items), str(file), "--columns", "movie_title", "class"])
    runpy.run_path(str(ROOT / "docs/examples/text_vectors.py"), run_name="__main__")
    table = read_item_vectors(str(file), "item_id")
    table = dict(zip(table.items, table.vectors.astype(float), strict=True))
    near = sorted(table, key=lambda item: -table[item] @ table["50"] / (np.linalg.norm(table[item]) + 1e-9))
    assert {"50", "172"} <= set(near[:20])  # Star Wars and its sequel
