"""Attention weights to be looked at: those that the layers use, lined up at [MASK]."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from recbole_bert4rec.core.encoder import BERT4RecEncoder, EncoderOptions
from recbole_bert4rec.core.fast.attention import Mask
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.files import check_picture
from recbole_bert4rec.training.attention import mean_attention, write_attention
from tests.helpers.runs import make_config, make_trainer, prepare

ROWS = [(f"u{u}", f"i{(u * t + t) % 23}", t) for u in range(1, 31) for t in range(3 + u % 12)]


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_weights_are_those_that_the_layers_mix_with(norm: str) -> None:
    torch.manual_seed(0)
    options = EncoderOptions(n_items=20, max_length=8, hidden_size=12, inner_size=24, n_heads=3, norm=norm)
    encoder = BERT4RecEncoder(options).eval()
    sequences = torch.tensor([[3, 20, 5, 0, 0], [1, 2, 3, 4, 20]])
    inputs: list[torch.Tensor] = []
    attention = encoder.layers[1].attention
    attention.register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
    weights = encoder.attention(sequences)
    assert weights.shape == (2, 2, 3, 5, 5)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 3, 5))
    assert weights[0, :, :, :, 3:].abs().sum() == 0  # padding
    entered = attention._pre_norm(inputs[0])
    value = attention.query_key_value(entered).chunk(3, -1)[2].unflatten(-1, (3, 4)).transpose(1, 2)
    mixed = (weights[:, 1] @ value).transpose(1, 2).flatten(2)
    mask = Mask((sequences != 0)[:, None, None, :])
    wanted = attention._add_and_norm(inputs[0], attention.output(mixed))
    torch.testing.assert_close(wanted, attention(inputs[0], mask), atol=1e-5, rtol=1e-5)


def test_the_mean_is_over_users_with_enough_items_lined_up_at_the_mask(write_inter: Any, tmp_path: Path) -> None:
    small = {"hidden_size": 16, "inner_size": 32, "MAX_ITEM_LIST_LENGTH": 8, "eval_batch_size": 7}
    config = make_config(**small, **write_inter(ROWS))
    _, train, _, test = prepare(config)
    model = make_trainer(config, train).model.eval()
    weights, users = mean_attention(model, test, width=5)
    assert weights.shape == (2, 2, 5, 5)
    naive, count = torch.zeros(2, 2, 5, 5), 0
    for batch in test:
        for items, length in zip(batch[0]["item_id_list"], batch[0]["item_length"].tolist(), strict=True):
            history = items[:length][-7:].tolist()
            if len(history) >= 4:
                own = model.encoder.attention(torch.tensor([[*history, model.mask_token]]))[0]
                naive, count = naive + own[:, :, -5:, -5:].detach(), count + 1
    assert users == count > 10
    torch.testing.assert_close(weights, naive / count, atol=1e-5, rtol=1e-5)
    assert write_attention(model, test, str(tmp_path / "heat.png")) > 0
    assert (tmp_path / "heat.png").read_bytes().startswith(b"\x89PNG")
    assert mean_attention(model, test, width=50)[0].shape == (2, 2, 8, 8)


@pytest.mark.parametrize("path", ["heat.txt", "no-such-folder/heat.png", "folder.png"])
def test_a_picture_that_could_not_be_written_is_refused_before_training(path: str) -> None:
    Path("folder.png").mkdir()
    with pytest.raises(UserError, match="--attention="):
        check_picture("--attention", path)
