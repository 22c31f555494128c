"""The fast model computes what the paper's equations say, as core/reference.py has them."""

from __future__ import annotations

import pytest
import torch

from recbole_bert4rec.core import reference
from recbole_bert4rec.core.encoder import BERT4RecEncoder
from recbole_bert4rec.core.losses import mask_weights
from recbole_bert4rec.core.objectives import append_mask
from recbole_bert4rec.core.softmax import cross_entropy
from recbole_bert4rec.core.transformer import EncoderOptions

N_ITEMS, MAX_LENGTH = 30, 9
SIZES = {"hidden_size": 12, "inner_size": 24, "n_layers": 2, "n_heads": 3}


def both(seed: int) -> tuple[BERT4RecEncoder, reference.BERT4Rec]:
    torch.manual_seed(seed)
    paper = {"position": "start", "output_projection": True, "value_init": "normal"}
    fast = BERT4RecEncoder(EncoderOptions(N_ITEMS, MAX_LENGTH, **SIZES, **paper))
    for weight in fast.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    with torch.no_grad():
        fast.item_embedding.weight[0] = 0.0
    model = reference.BERT4Rec(N_ITEMS, MAX_LENGTH, **SIZES)
    model.load_state_dict(fast.state_dict())
    return fast.eval().double(), model.eval().double()


def histories() -> torch.Tensor:
    item_seq = torch.randint(1, N_ITEMS, (5, MAX_LENGTH - 1))
    lengths = torch.tensor([8, 1, 3, 7, 5])
    return item_seq.masked_fill(torch.arange(MAX_LENGTH - 1) >= lengths.unsqueeze(1), 0)


@pytest.mark.parametrize("seed", range(3))
def test_the_loss_of_the_cloze_task_and_its_gradients_are_the_papers(seed: int) -> None:
    fast, model = both(seed)
    shown, labels = reference.cloze(histories(), N_ITEMS, 0.4)
    wanted = reference.loss(model(shown), labels)
    rows, columns = (labels != reference.NO_LABEL).nonzero(as_tuple=True)
    vectors, weights = fast.output(fast(shown, (rows, columns))), mask_weights(rows, len(shown), "sequence").double()
    loss = cross_entropy(vectors, fast.output_embedding, fast.output_bias, labels[rows, columns], weights)
    torch.testing.assert_close(loss, wanted)
    wanted.backward()
    loss.backward()
    gradients = {name: weight.grad for name, weight in fast.named_parameters()}
    for name, weight in model.named_parameters():
        torch.testing.assert_close(gradients[name], weight.grad, msg=name)


def test_what_is_next_is_asked_and_scored_as_in_the_paper() -> None:
    fast, model = both(0)
    item_seq = histories()
    asked = reference.append_mask(item_seq, N_ITEMS)
    shown, last = append_mask(item_seq, (item_seq != 0).sum(1), N_ITEMS, MAX_LENGTH)
    assert torch.equal(shown, asked)
    scores = fast.scores(fast.output(fast(shown, (torch.arange(len(shown)), last))))
    torch.testing.assert_close(scores[:, 1:], model(asked)[asked == N_ITEMS][:, 1:])


def test_items_are_masked_with_probability_rho_and_are_their_own_labels() -> None:
    item_seq = torch.randint(1, N_ITEMS, (200, 50)).masked_fill(torch.arange(50) >= 40, 0)
    shown, labels = reference.cloze(item_seq, N_ITEMS, 0.3)
    masked = shown == N_ITEMS
    assert masked[:, :40].float().mean() == pytest.approx(0.3, abs=0.02)
    assert torch.equal(torch.where(masked, labels, shown), item_seq)
    assert torch.equal(labels != reference.NO_LABEL, masked)


def test_the_example_at_its_head_runs() -> None:
    lines = [line[4:] for line in (reference.__doc__ or "").splitlines() if line.startswith("    ")]
    names = dict(vars(reference))
    exec("\n".join(lines), names)
    assert names["next_items"].shape == (2,)
