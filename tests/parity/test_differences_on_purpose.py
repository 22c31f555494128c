"""Each difference from RecBole's own BERT4Rec, shown on both."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from recbole.data.interaction import Interaction
from recbole.data.transform import MaskItemSequence

from recbole_bert4rec.core.batching import epoch_generator
from recbole_bert4rec.core.objectives import append_mask, cloze
from tests.helpers.data import Catalogue, histories_to_rows
from tests.helpers.runs import MRR_OF_3, make_config
from tests.helpers.small import start

ITEMS = ["a", "b", "c", "d", "e", "f"]


@pytest.fixture
def both(write_inter: Any) -> list[Any]:
    """Trainer and loaders of our model, and those of RecBole's."""
    rows = histories_to_rows({"u": ITEMS, "v": ITEMS[::-1]})
    options = {**write_inter(rows), **MRR_OF_3, "MAX_ITEM_LIST_LENGTH": 10, "mask_ratio": 0.5, "ft_ratio": 0.0}
    return [start(model=name, **options) for name in ("BERT4Rec", "RecBoleBERT4Rec")]


def test_the_last_training_item_is_an_input_and_a_target_here_and_neither_in_stock(both: Any) -> None:
    (trainer, ours, *_), (_, stock, *_) = both
    model, user = trainer.model, ours.dataset.token2id("user_id", "u")
    inputs, targets = set(), set()
    for epoch in range(20):
        model.set_epoch(epoch)
        for batch in ours:
            generator, own = model._generator_on(torch.device("cpu")), batch["user_id"] == user
            masked = cloze(batch["item_id_list"], batch["item_length"], model.mask_token, generator, 0.5)
            inputs |= {*masked.item_seq[own].flatten().tolist()}
            targets |= {*masked.labels[own[masked.rows]].tolist()}
    shown = stock.dataset.inter_feat["item_id_list"][stock.dataset.inter_feat["user_id"] == user]
    train = set(ours.dataset.token2id("item_id", ITEMS[:4]).tolist())  # the last two are for validation and test
    assert inputs - {0, model.mask_token} == targets == train
    # stock masks these lists only; the target column is not used in training
    assert {*shown.flatten().tolist()} - {0} == train - {ours.dataset.token2id("item_id", ITEMS[3])}


def test_stock_drops_the_oldest_item_of_a_short_history_and_we_do_not(both: Any) -> None:
    ours, stock = (trainer.model for trainer, *_ in both)
    history, length = torch.tensor([[1, 2, 3, 0, 0]]), torch.tensor([3])
    assert append_mask(history, length, ours.mask_token, 10)[0].tolist() == [[1, 2, 3, ours.mask_token]]
    assert stock.reconstruct_test_data(history, length).tolist() == [[2, 3, stock.mask_token, 0, 0]]


def masked_by_stock(sequences: torch.Tensor, **options: Any) -> Any:
    config = make_config("RecBoleBERT4Rec", MAX_ITEM_LIST_LENGTH=sequences.shape[1], **options)
    batch = Interaction({"item_id_list": sequences, "item_length": (sequences > 0).sum(1)})
    return MaskItemSequence(config)(Catalogue(50), batch)


def test_stock_loses_masks_and_we_do_not() -> None:
    """Stock keeps int(ratio N) targets and takes position 0 for padding; ours keeps a label for every mask."""
    sequences = torch.arange(1, 11).repeat(400, 1)
    masked = masked_by_stock(sequences, mask_ratio=0.2, ft_ratio=0.0)
    assert (masked["MASK_INDEX"] > 0).sum() < 0.8 * (masked["Mask_item_id_list"] == 50).sum()
    ours = cloze(sequences, torch.full((400,), 10), 50, epoch_generator(0, 0), 0.2)
    assert (ours.item_seq == 50).sum() == len(ours.labels)
    assert (ours.columns == 0).any()


def test_stock_draws_ft_ratio_for_a_batch_and_we_for_each_sequence() -> None:
    sequences, lengths = torch.arange(1, 21).repeat(64, 1), torch.full((64,), 20)
    stock = [masked_by_stock(sequences, mask_ratio=0.5, ft_ratio=0.5)["Mask_item_id_list"] == 50 for _ in range(30)]
    assert {bool((masked.sum(1) == 1).all()) for masked in stock} == {True, False}  # a batch is all of one kind
    ours = cloze(sequences, lengths, 50, epoch_generator(0, 0), 0.5, ft_ratio=0.5)
    assert 15 < ((ours.item_seq == 50).sum(1) == 1).sum() < 49


def test_stock_counts_padding_among_the_classes_of_the_softmax_and_we_do_not(both: Any) -> None:
    for trainer, train, *_ in both:
        trainer.model.eval().calculate_loss(next(iter(train))).backward()
    ours, stock = (trainer.model for trainer, *_ in both)
    assert ours.encoder.output_bias.grad[0] == 0
    assert stock.output_bias.grad[0] > 0


def test_stock_starts_attention_and_bias_near_zero_and_we_as_an_average_and_at_frequencies(both: Any) -> None:
    ours, theirs = (trainer.model for trainer, *_ in both)
    attention = ours.encoder.layers[0].attention
    stock = theirs.trm_encoder.layer[0].multi_head_attention
    assert attention.output.weight.diagonal().mean() > 0.9
    assert attention.query_key_value.weight[-attention.output.in_features :].diagonal().mean() > 0.9
    assert max(stock.dense.weight.abs().max(), stock.value.weight.abs().max()) < 0.2
    assert ours.encoder.item_embedding.weight.abs().max() <= 0.04  # a truncated normal
    assert theirs.item_embedding.weight.abs().max() > 0.04
    assert ours.encoder.output_bias.abs().max() > 0.1
    assert theirs.output_bias.abs().max() == 0


def test_stock_makes_a_row_a_prefix_and_we_one_a_user(both: Any) -> None:
    (_, ours, *_), (_, stock, *_) = both
    assert [sum(len(batch) for batch in loader) for loader in (ours, stock)] == [2, 6]
    batch = next(iter(ours))
    assert set(batch.columns) == {"user_id", "item_id_list", "item_length"}
    assert batch["item_id_list"].shape == (2, 4)
