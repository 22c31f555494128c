"""The bias by the time between two interactions: against a naive twin, without looking at a masked item's time."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recbole_bert4rec.apps.recommend import recommendations
from recbole_bert4rec.errors import UserError
from recbole_bert4rec.nn.encoder import BERT4RecEncoder, EncoderOptions
from recbole_bert4rec.nn.time_bias import TimeBias, known_times
from recbole_bert4rec.report.attention import write_attention
from tests.conftest import make_config, make_trainer, prepare

MASK = 20
OPTIONS = EncoderOptions(n_items=MASK, max_length=8, hidden_size=12, inner_size=24, n_heads=3, time_bias=True)
SEQUENCES = torch.tensor([[3, MASK, 5, 0, 0], [1, 2, 3, 4, MASK], [MASK, 7, MASK, MASK, 2]])
TIMES = torch.tensor([[8.0, 9.0, 4000.0, 0, 0], [1.0, 1.0, 3.0, 90.0, 91.0], [5.0, 6.0, 7.0, 8.0, 1e9]]).double()
ROWS = [(f"u{u}", f"i{(u * t + t) % 23}", t * t * 50 + u) for u in range(1, 31) for t in range(3 + u % 12)]
SMALL = {"hidden_size": 16, "inner_size": 32, "train_batch_size": 4, "MAX_ITEM_LIST_LENGTH": 8, "time_bias": True}


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
            step = min(31, int(math.log2(1 + abs(b - a)))) + (32 if b > a else 0)
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
    assert known_times(torch.tensor([times]), torch.tensor([known])).tolist() == [wanted]


def test_attention_with_a_time_bias_equals_equation_2_with_it_added_gradients_too() -> None:
    encoder = random_encoder()
    layer = encoder.layers[0].attention
    times = known_times(TIMES, (SEQUENCES != 0) & (SEQUENCES != MASK))
    hidden = torch.randn(3, 5, 12, dtype=torch.float64)
    present = (SEQUENCES != 0)[:, None, None, :]
    fast = layer(hidden, encoder.time_bias(times).masked_fill(~present, -torch.inf))
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


def test_wanted_positions_equal_those_of_the_whole_gradients_too() -> None:
    encoder = random_encoder()
    wanted = (torch.tensor([1, 0, 1, 2]), torch.tensor([4, 1, 0, 2]))
    parameters = [encoder.time_bias.bias, encoder.item_embedding.weight, encoder.layers[1].attention.output.weight]
    weight = torch.arange(1.0, 5.0)[:, None]
    results = []
    for hidden in (encoder(SEQUENCES, wanted, TIMES), encoder(SEQUENCES, times=TIMES)[wanted]):
        results.append([hidden, *torch.autograd.grad((hidden**2 * weight).sum(), parameters)])
    for ours, twin in zip(*results, strict=True):
        torch.testing.assert_close(ours, twin)


def test_the_time_between_counts_and_neither_the_date_nor_a_masked_items_time() -> None:
    encoder = random_encoder()
    before = encoder(SEQUENCES, times=TIMES)
    torch.testing.assert_close(encoder(SEQUENCES, times=TIMES + 86_400.0 * 365)[:2, :3], before[:2, :3])
    hidden_time = torch.where(SEQUENCES == MASK, TIMES + 0.5, TIMES)
    torch.testing.assert_close(encoder(SEQUENCES, times=hidden_time), before)
    stretched = encoder(SEQUENCES, times=TIMES * 100)
    assert not torch.allclose(stretched[1], before[1])


def test_every_way_to_rank_sees_the_times(write_inter: Any, tmp_path: Path) -> None:
    config = make_config(**SMALL, **write_inter(ROWS), epochs=2, exclude_seen=True)
    _, train, valid, test = prepare(config)
    trainer = make_trainer(config, train)
    trainer.fit(train, valid, show_progress=False)
    model = trainer.model.eval()
    assert model.encoder.time_bias.bias.abs().sum() > 0  # it has learnt something
    rows = test._dataset[np.arange(len(test._dataset))]
    times = rows["timestamp_list"]
    for row, user in enumerate(test._dataset.field2id_token["user_id"][rows["user_id"]]):
        own = sorted(float(t) for u, _, t in ROWS if u == user)[:-1][-8:]
        assert times[row, : len(own)].tolist() == own
        assert (times[row, len(own) :] == 0).all()
    with torch.no_grad():
        full = model.full_sort_predict(rows)
        torch.testing.assert_close(model.predict(rows), full.gather(1, rows["item_id"][:, None])[:, 0])
        nothing = torch.empty(0, dtype=torch.int64)
        torch.testing.assert_close(model.best_items(rows, 3, (nothing, nothing))[0], full[:, 1:].topk(3).values)
        for changed in (model.full_sort_predict, model.predict):
            other = rows.interaction | {"timestamp_list": times**2}
            assert not torch.equal(changed(type(rows)(other)), changed(rows))
    table = pd.concat(recommendations(model, test._dataset, 3, show_progress=False))
    assert len(table) == 3 * 30
    assert write_attention(model, test, str(tmp_path / "map.png")) > 0


def test_candidates_are_ranked_with_the_times_too(write_inter: Any) -> None:
    arguments = {"split": {"LS": "valid_and_test"}, "order": "TO", "group_by": "user", "mode": "uni5"}
    config = make_config(**SMALL, **write_inter(ROWS), epochs=1, eval_args=arguments, candidates="paper", topk=[5, 10])
    _, train, valid, test = prepare(config)
    trainer = make_trainer(config, train)
    trainer.fit(train, valid, show_progress=False)
    assert set(trainer.evaluate(test)) >= {"mrr@10", "ndcg@5"}


def test_a_checkpoint_with_a_time_bias_is_not_resumed_without_it(write_inter: Any) -> None:
    options = {**SMALL, **write_inter(ROWS), "epochs": 1}
    config = make_config(**options)
    _, train, valid, _ = prepare(config)
    trainer = make_trainer(config, train)
    trainer.fit(train, valid, show_progress=False)
    plain = make_config(**{**options, "time_bias": False})
    again = make_trainer(plain, prepare(plain)[1])
    with pytest.raises(UserError, match="time_bias True, not False"):
        again.resume_checkpoint(trainer.saved_model_file)
