"""Next-item labels equal a naive loop, what is read is what was shown, and nothing of the future enters a position."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recbole_bert4rec.core.objectives import TrainingBatch, next_items, read_last, seen_pairs
from recbole_bert4rec.core.transformer import attended
from recbole_bert4rec.system.constants import LOSSES
from recbole_bert4rec.system.errors import UserError
from tests.helpers.data import benchmark_files, histories_to_rows, overlapping_histories, padded
from tests.helpers.runs import MRR_OF_3, make_config, make_trainer, prepare

MASK = 99
some_sequences = st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=9), min_size=1, max_size=6)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


def reads(shown: TrainingBatch) -> set[tuple[int, int, int]]:
    found = list(zip(shown.rows.tolist(), shown.columns.tolist(), shown.labels.tolist(), strict=True))
    assert len(found) == len(set(found))
    return set(found)


@given(some_sequences, st.sampled_from([0.0, 0.3, 1.0]))
def test_every_position_after_the_prefix_predicts_the_next_item(sequences: list[list[int]], share: float) -> None:
    item_seq, lengths = padded(sequences)
    shown = next_items(item_seq, lengths, generator(), share)
    assert shown.two_sided is not None
    expected = set()
    for row, (items, cut) in enumerate(zip(sequences, shown.two_sided.tolist(), strict=True)):
        assert 1 <= cut <= (max(1, len(items) - 1) if share else 1)
        assert shown.item_seq[row].tolist() == (items[:-1] + [0] * item_seq.shape[1])[: item_seq.shape[1] - 1]
        expected |= {(row, t, items[t + 1]) for t in range(cut - 1, len(items) - 1)}
    assert reads(shown) == expected


def test_prefixes_end_anywhere_and_as_many_sequences_have_one_as_the_share_says() -> None:
    item_seq, lengths = padded([[1, 2, 3, 4, 5]] * 4000)
    two_sided = next_items(item_seq, lengths, generator(), 0.6).two_sided
    assert two_sided is not None
    share = torch.bincount(two_sided, minlength=5)[1:] / 4000
    assert share.tolist() == pytest.approx([0.4 + 0.15, 0.15, 0.15, 0.15], abs=0.03)


@given(some_sequences, st.integers(1, 8))
def test_the_last_items_of_a_history_are_shown_and_the_last_is_read(sequences: list[list[int]], longest: int) -> None:
    item_seq, lengths = padded([*sequences, []])
    shown, last = read_last(item_seq, lengths, MASK, longest)
    for row, items in enumerate([*sequences, []]):
        kept = items[-longest:] or [MASK]
        assert shown[row].tolist() == (kept + [0] * longest)[: shown.shape[1]]
        assert last[row] == len(kept) - 1


@given(some_sequences, st.sampled_from([0.0, 1.0]), st.booleans())
def test_what_a_position_has_seen_are_the_items_that_it_attends_to(
    sequences: list[list[int]], share: float, causal: bool
) -> None:
    shown = next_items(*padded(sequences), generator(), share)
    masked = (torch.rand(shown.item_seq.shape, generator=generator()) < 0.5) & (shown.item_seq > 0)
    shown = shown._replace(item_seq=shown.item_seq.masked_fill(masked, MASK))
    width = shown.item_seq.shape[1]
    mask = torch.ones(len(sequences), width, width, dtype=torch.bool)
    if causal:
        assert shown.two_sided is not None
        mask = attended(shown.two_sided, width)
    else:
        shown = shown._replace(two_sided=None)
    expected = set()
    for index, (row, column) in enumerate(zip(shown.rows, shown.columns, strict=True)):
        visible = shown.item_seq[row][mask[row, column].expand(width)].tolist()
        expected |= {(index, item) for item in visible if item not in (0, MASK)}
    read, items = seen_pairs(shown, MASK)
    assert sorted(zip(read.tolist(), items.tolist(), strict=True)) == sorted(expected)
    assert read.tolist() == sorted(read.tolist())


HISTORIES = overlapping_histories(10)
SMALL = {
    "MAX_ITEM_LIST_LENGTH": 9,
    "hidden_size": 8,
    "inner_size": 16,
    "n_negatives": 5,
    "hidden_dropout_prob": 0.0,
    "attn_dropout_prob": 0.0,
    **MRR_OF_3,
}


def model_and_batch(write_inter: Any, **options: Any) -> tuple[Any, Any]:
    config = make_config(**{**write_inter(histories_to_rows(HISTORIES)), **SMALL, **options})
    _, train, _, _ = prepare(config)
    model = make_trainer(config, train).model
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator()), alpha=0.3)
    return model, next(iter(train))


@pytest.mark.parametrize(
    ("loss", "options"),
    [
        ("CE", {"objective": "next"}),
        ("CE", {"objective": "prefix", "prefix_share": 1.0}),
        *((loss, {"objective": "prefix", "prefix_share": 0.5}) for loss in LOSSES),
    ],
)
def test_nothing_after_its_label_changes_the_loss_of_a_position(
    loss: str, options: dict[str, Any], write_inter: Any
) -> None:
    extra = {"seen_bias": loss != "BPR"}
    model, batch = model_and_batch(write_inter, loss_type=loss, **extra, **options)
    items, width = batch["item_id_list"], batch["item_id_list"].shape[1]
    label = model.objective.label
    moved = 0
    for position in range(width - 1):

        def read_early(*given: Any, end: int = position) -> TrainingBatch:
            """Label as always, but read no position whose own sight or label is later than ``end`` + 1."""
            shown = label(*given)
            sight = torch.maximum(shown.columns + 1, shown.two_sided[shown.rows])
            kept = sight <= end + 1
            return shown._replace(rows=shown.rows[kept], columns=shown.columns[kept], labels=shown.labels[kept])

        model.objective.label = read_early
        future = (torch.arange(width) > position + 1) & (items > 0)
        losses = []
        for other in (items, torch.where(future, 1 + (items + 4) % (model.n_items - 1), items)):
            batch["item_id_list"] = other
            model.set_epoch(0)
            shown = read_early(other, batch["item_length"], generator())
            if len(shown.rows):
                losses.append(model.calculate_loss(batch).item())
        assert len(set(losses)) <= 1
        moved += len(losses) > 0 and bool(future.any())
        batch["item_id_list"] = items
    assert moved > 1


@pytest.mark.parametrize("objective", ["next", "prefix"])
def test_scores_are_those_of_the_last_position_of_the_whole_history(objective: str, write_inter: Any) -> None:
    model, _ = model_and_batch(write_inter, objective=objective)
    model.eval()
    histories = [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], [4, 4], [7], []]
    item_seq, lengths = padded(histories)
    with torch.no_grad():
        vectors, _ = model.encode(item_seq, lengths)
        for row, items in enumerate(histories):
            alone = torch.tensor([items[-9:] or [model.n_items]])  # [MASK]
            two_sided = torch.tensor([1 if objective == "next" else alone.shape[1]])
            hidden = model.encoder(alone, two_sided=two_sided)[0, -1]
            torch.testing.assert_close(vectors[row], model.encoder.output(hidden), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("objective", ["next", "prefix"])
def test_positions_from_the_end_are_for_cloze_alone(objective: str) -> None:
    with pytest.raises(UserError, match="`position` end"):
        make_config(objective=objective, position="end")


@pytest.mark.parametrize(("objective", "blind"), [("next", True), ("prefix", False), ("cloze", False)])
def test_forward_shows_each_position_what_it_sees_when_the_model_ranks_which_is_causal_for_next_alone(
    objective: str, blind: bool, write_inter: Any
) -> None:
    model, _ = model_and_batch(write_inter, objective=objective)
    items, model = torch.tensor([[1, 2, 3, 4, 5]]), model.eval()
    with torch.no_grad():
        before, after = model(items), model(torch.tensor([[1, 2, 3, 7, 8]]))
        assert torch.equal(before[0, :3], after[0, :3]) is blind
        asked = [model.objective.ask(one, torch.tensor([5])) for one in (items, torch.tensor([[1, 7, 3, 4, 5]]))]
        first = [model.encoder(one.item_seq, two_sided=one.two_sided)[0, 0] for one in asked]
        assert torch.equal(*first) is blind


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_sliding_windows_label_every_item_but_a_users_first(share: float, write_inter: Any) -> None:
    rows = [(user, f"i{t % 17}", t) for user in "abcd" for t in range(31)]
    options = {**write_inter(rows), **SMALL, "MAX_ITEM_LIST_LENGTH": 6, "prop_sliding_window": share}
    _, train, _, _ = prepare(make_config(**options, objective="next", window="sliding"))
    labelled = {int(b) + t for b, n in zip(*train._windows, strict=True) for t in range(1, int(n))}
    assert labelled == {int(start) + t for start in train._dataset.sequences.offsets[1:-1] for t in range(1, 29)}


def test_sequences_without_anything_before_them_are_left_out_or_refused(tmp_path: Path) -> None:
    rows = {"train": ["u1\t\ti1", "u2\ti1 i2\ti3"], "valid": ["u1\ti1\ti2"], "test": ["u1\ti1 i2\ti3"]}
    options = {**benchmark_files(tmp_path, rows), "topk": [1], "metrics": ["MRR"], "valid_metric": "MRR@1"}
    _, train, _, _ = prepare(make_config(**options, objective="next"))
    assert sum(len(batch) for batch in train) == 1
    benchmark_files(tmp_path, {"train": ["u1\t\ti1", "u2\t\ti3"]})
    with pytest.raises(UserError, match="more than 1 item"):
        prepare(make_config(**options, objective="next"))


def test_a_loss_that_seen_bias_cannot_join_turns_its_default_off() -> None:
    for loss, joins in {"CE": True, "gBCE": True, "BPR": False}.items():
        assert make_config("SASRecPlus", loss_type=loss)["seen_bias"] is joins
