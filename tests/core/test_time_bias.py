"""The bias by the time between two interactions: against a naive twin, without looking at a masked item's time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from recbole.data.interaction import Interaction

from recbole_bert4rec.core.beyond_paper import TimeBias, visible_times
from recbole_bert4rec.core.encoder import BERT4RecEncoder, EncoderOptions
from recbole_bert4rec.core.fast.attention import Mask
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.attention import mean_attention
from recbole_bert4rec.training.recommending import recommender_of
from tests.helpers.runs import make_config, make_trainer, prepare

MASK = 20
OPTIONS = EncoderOptions(n_items=MASK, max_length=8, hidden_size=12, inner_size=24, n_heads=3, time_bias=True)
SEQUENCES = torch.tensor([[3, MASK, 5, 0, 0], [1, 2, 3, 4, MASK], [MASK, 7, MASK, MASK, 2]])
TIMES = torch.tensor([[8.0, 9.0, 4000.0, 0, 0], [1.0, 1.0, 3.0, 90.0, 91.0], [5.0, 6.0, 7.0, 8.0, 1e9]]).double()
ROWS = [(f"u{u}", f"i{(u * t + t) % 23}", t * t * 50 + u) for u in range(1, 31) for t in range(3 + u % 12)]
SMALL = {"hidden_size": 16, "inner_size": 32, "batch_sequences": 4, "MAX_ITEM_LIST_LENGTH": 8, "time_bias": True}


def random_encoder() -> BERT4RecEncoder:
    torch.manual_seed(0)
    encoder = BERT4RecEncoder(OPTIONS).eval().double()
    torch.nn.init.normal_(encoder.time_bias.bias)
    return encoder


def naive_bias(module: TimeBias, times: list[float]) -> torch.Tensor:
    """A pair of positions at a time. *Shape:* (L,) -> (A, L, L)"""
    bias = torch.zeros(len(module.bias), len(times), len(times), dtype=module.bias.dtype)
    for asking, a in enumerate(times):
        for answering, b in enumerate(times):
            step = min(63, int(math.log2(1 + abs(b - a)))) + (64 if b > a else 0)
            bias[:, asking, answering] = module.bias[:, step]
    return bias


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans()), min_size=1, max_size=8))
def test_hidden_items_show_the_last_time_that_is_known(row: list[tuple[int, bool]]) -> None:
    times, known = sorted(float(time) for time, _ in row), [shown for _, shown in row]
    wanted = []
    for place in range(len(times)):
        before = [t for t, k in zip(times[: place + 1], known[: place + 1], strict=True) if k]
        after = [t for t, k in zip(times, known, strict=True) if k]
        wanted.append(before[-1] if before else after[0] if after else 0.0)
    assert visible_times(torch.tensor([times]), torch.tensor([known])).tolist() == [wanted]


def test_attention_with_a_time_bias_equals_equation_2_with_it_added_gradients_too() -> None:
    encoder = random_encoder()
    layer = encoder.layers[0].attention
    times = visible_times(TIMES, (SEQUENCES != 0) & (SEQUENCES != MASK))
    hidden = torch.randn(3, 5, 12, dtype=torch.float64)
    present = (SEQUENCES != 0)[:, None, None, :]
    fast = layer(hidden, Mask(present, encoder.time_bias(times)))
    twin = []
    for row, length in enumerate([3, 5, 5]):
        bias = naive_bias(encoder.time_bias, times[row].tolist())
        query, key, value = layer.query_key_value(hidden[row]).split(12, dim=1)
        heads = []
        for head in range(3):
            part = slice(4 * head, 4 * head + 4)
            logits = query[:, part] @ key[:, part].T / 2 + bias[head]
            heads.append(torch.softmax(logits[:, :length], dim=1) @ value[:length, part])
        twin.append(layer.norm(hidden[row] + layer.output(torch.cat(heads, dim=1))))
    torch.testing.assert_close(fast, torch.stack(twin))
    parameters = [encoder.time_bias.bias, layer.query_key_value.weight]
    weight = torch.randn_like(fast)
    results = [torch.autograd.grad((way * weight).sum(), parameters) for way in (fast, torch.stack(twin))]
    for ours, naive in zip(*results, strict=True):
        torch.testing.assert_close(ours, naive)


def test_query_positions_equal_those_of_the_whole_gradients_too() -> None:
    encoder = random_encoder()
    positions = (torch.tensor([1, 0, 1, 2]), torch.tensor([4, 1, 0, 2]))
    parameters = [encoder.time_bias.bias, encoder.item_embedding.weight, encoder.layers[1].attention.output.weight]
    weight = torch.arange(1.0, 5.0)[:, None]
    results = []
    for hidden in (encoder(SEQUENCES, positions, TIMES), encoder(SEQUENCES, times=TIMES)[positions]):
        results.append([hidden, *torch.autograd.grad((hidden**2 * weight).sum(), parameters)])
    for ours, twin in zip(*results, strict=True):
        torch.testing.assert_close(ours, twin)


def test_the_time_between_counts_and_neither_the_date_nor_a_masked_items_time() -> None:
    encoder = random_encoder()
    before = encoder(SEQUENCES, times=TIMES)
    torch.testing.assert_close(encoder(SEQUENCES, times=TIMES + 86_400.0 * 365)[:2, :3], before[:2, :3])
    stretched = encoder(SEQUENCES, times=TIMES * 100)
    assert not torch.allclose(stretched[1], before[1])


def moved(rows: Any, times: torch.Tensor) -> Any:
    return type(rows)(rows.interaction | {"timestamp_list": times})


def trained(write_inter: Any, **more: Any) -> tuple[Any, ...]:
    """A model whose bias is drawn at random, so that times matter much; one history is longer than the window."""
    rows = [*ROWS, *(("long", f"i{t % 23}", t * 1000) for t in range(20))]
    config = make_config(**{**SMALL, **write_inter(rows), "epochs": 1, **more})
    _, train, valid, test = prepare(config)
    trainer = make_trainer(config, train)
    torch.nn.init.normal_(trainer.model.encoder.time_bias.bias, std=3.0)
    return trainer, trainer.model.eval(), train, valid, test


@pytest.mark.parametrize("shown", [{}, {"mask_random_share": 1.0}, {"mask_keep_share": 1.0}], ids=str)
def test_the_loss_does_not_know_when_a_masked_item_was_there(shown: dict[str, float], write_inter: Any) -> None:
    _, model, train, *_ = trained(write_inter, ft_ratio=1.0, **shown)
    batch = next(iter(train))
    times, last = batch["timestamp_list"], batch["item_length"] - 1
    own = torch.zeros_like(times).scatter_(1, last[:, None], 12_345.0)
    losses = []
    for changed in (times, times + own, times * 3):
        model.set_epoch(0)
        losses.append(model.calculate_loss(moved(batch, changed)).item())
    assert losses[0] == losses[1]
    assert losses[0] != losses[2]


def test_a_history_is_encoded_with_its_own_times_and_the_mask_with_the_last(write_inter: Any) -> None:
    _, model, _, _, test = trained(write_inter)
    rows = test.dataset[np.arange(len(test.dataset))]
    assert rows["item_length"].max() == 8  # as long as the window: the oldest gives way to [MASK]
    with torch.no_grad():
        vectors, _ = model.encode(*model.histories(rows))
        for row in range(len(rows)):
            length = int(rows["item_length"][row])
            items, times = (
                rows[field][row, max(0, length - 7) : length] for field in ("item_id_list", "timestamp_list")
            )
            sequence = torch.cat([items, torch.tensor([model.mask_token])])[None]
            hidden = model.encoder(sequence, times=torch.cat([times, times[-1:]])[None])[:, -1]
            torch.testing.assert_close(vectors[row], model.encoder.output(hidden)[0], atol=1e-5, rtol=1e-5)


def test_recommendations_and_attention_maps_see_the_times(write_inter: Any) -> None:
    _, model, _, _, test = trained(write_inter)
    sequences, (users, latest) = test.dataset.sequences, test.dataset.full_sequence_of_user
    found = recommender_of(model, test.dataset).recommend(None, 3, filter_viewed=True)
    now = sequences.offsets[latest + 1]
    begins, lengths = sequences.before(latest, now, 8)
    histories = sequences.windows(begins, lengths, 8)
    times = torch.zeros(histories.shape, dtype=torch.float64)
    for row, (end, length) in enumerate(zip(now.tolist(), lengths.tolist(), strict=True)):
        times[row, :length] = sequences.times[end - length : end]
    rows = {"item_id_list": histories, "item_length": lengths, "timestamp_list": times}
    with torch.no_grad():
        scores, _ = model.best_items(Interaction(rows), 3, sequences.seen(latest, now))
    assert len(found) == 3 * len(users)
    np.testing.assert_allclose(found["score"], scores.flatten(), atol=1e-5)
    batches = list(test)
    maps = [mean_attention(model, batches)[0]]
    maps.append(mean_attention(model, [(moved(one[0], one[0]["timestamp_list"] ** 2), *one[1:]) for one in batches])[0])
    assert not torch.allclose(*maps)


def test_every_way_to_rank_sees_the_times(write_inter: Any) -> None:
    config = make_config(**SMALL, **write_inter(ROWS), epochs=2, exclude_seen=True)
    _, train, valid, test = prepare(config)
    trainer = make_trainer(config, train)
    trainer.fit(train, valid, show_progress=False)
    model = trainer.model.eval()
    assert model.encoder.time_bias.bias.abs().sum() > 0  # it has learnt something
    rows = test.dataset[np.arange(len(test.dataset))]
    times = rows["timestamp_list"]
    for row, user in enumerate(test.dataset.field2id_token["user_id"][rows["user_id"]]):
        own = sorted(float(t) for u, _, t in ROWS if u == user)[:-1][-8:]
        assert times[row, : len(own)].tolist() == own
        assert (times[row, len(own) :] == 0).all()
    with torch.no_grad():
        full = model.full_sort_predict(rows)
        torch.testing.assert_close(model.predict(rows), full.gather(1, rows["item_id"][:, None])[:, 0])
        nothing = torch.empty(0, dtype=torch.int64)
        torch.testing.assert_close(model.best_items(rows, 3, (nothing, nothing))[0], full[:, 1:].topk(3).values)
        for changed in (model.full_sort_predict, model.predict):
            assert not torch.equal(changed(moved(rows, times**2)), changed(rows))


def test_candidates_are_ranked_with_the_times_too(write_inter: Any) -> None:
    arguments = {"split": {"LS": "valid_and_test"}, "order": "TO", "group_by": "user", "mode": "uni3"}
    more = {
        "eval_args": arguments,
        "candidates": "paper",
        "topk": [1, 10],
        "metrics": ["NDCG"],
        "valid_metric": "NDCG@1",
    }
    trainer, model, _, _, test = trained(write_inter, **more)
    found, ranks = trainer.evaluate(test, load_best_model=False), []
    with torch.no_grad():
        for rows, (_, items), *_ in test:
            full = model.full_sort_predict(rows).gather(1, items)
            ranks += (full[:, 1:] > full[:, :1]).sum(1).tolist()
    assert found["ndcg@10"] == pytest.approx(np.mean([1 / math.log2(rank + 2) for rank in ranks]), abs=1e-4)


@pytest.mark.parametrize("times", [[5] * 9, [t / 9 for t in range(9)], [*range(8), float("inf")]], ids=str)
def test_times_that_say_nothing_are_refused(times: list[float], write_inter: Any) -> None:
    rows = [("u1", f"i{place}", time) for place, time in enumerate(times)]
    with pytest.raises(UserError, match="`time_bias` needs times in seconds or finer, but 'timestamp' of"):
        prepare(make_config(**{**SMALL, **write_inter(rows)}))


def test_normalised_times_are_learnt_from_as_they_were(write_inter: Any) -> None:
    options = {
        **SMALL,
        **write_inter(ROWS),
        "save_dataset": True,
        "dataset_save_path": "saved/toy-BERT4RecDataset.pth",
        "trust_pickles": True,
    }
    tables = []
    for more in ({}, {"normalize_all": True}, {"normalize_all": True}):  # the last one from the saved data set
        test = prepare(make_config(**options, **more))[3]
        tables.append(test.dataset[np.arange(len(test.dataset))]["timestamp_list"])
    assert tables[0].max() > 1000
    assert torch.equal(tables[0], tables[1])
    assert torch.equal(tables[0], tables[2])


def test_a_checkpoint_with_a_time_bias_is_not_resumed_without_it(write_inter: Any) -> None:
    options = {**SMALL, **write_inter(ROWS), "epochs": 1}
    config = make_config(**options)
    _, train, valid, _ = prepare(config)
    trainer = make_trainer(config, train)
    trainer.fit(train, valid, show_progress=False)
    plain = make_config(**{**options, "time_bias": False})
    again = make_trainer(plain, prepare(plain)[1])
    with pytest.raises(UserError, match="the checkpoint has time_bias=True, this run False"):
        again.resume_checkpoint(trainer.saved_model_file)


def test_times_that_are_endlessly_apart_are_in_the_last_bucket(write_inter: Any) -> None:
    bias = TimeBias(2)
    with torch.no_grad():
        bias.bias.normal_()
    far, farther = torch.tensor([[[0.0, 1e30]], [[-1e308, 1e308]]], dtype=torch.float64)
    assert torch.equal(bias(far), bias(farther))
