"""Numbers that are no longer finite: single batches are left out, a training that has diverged ends with its reason."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from recbole.trainer import Trainer
from torch import Tensor

from recbole_bert4rec.system.errors import UserError

_MOST_IN_A_ROW = 10
"""Batches without a finite gradient, one after the other, after which a training has diverged."""
_SHOWN = 5
"""Users of a batch that a message names."""


class FaultyTrainer(Trainer):
    """RecBole's trainer with an eye on losses, gradients, weights and scores.

    Attributes:
        epoch_under_way: the epoch that is trained, or was last, from 0.
        skipped_steps: batches of the whole training that were left out, because their loss or gradient is not finite.
    """

    epoch_under_way = -1
    skipped_steps = 0
    _skipped_in_a_row = 0

    def _skip(self, losses: Iterable[float], norm: float, users: Sequence[str]) -> None:
        """Leave a batch out.

        Args:
            losses: of the batch.
            norm: of its gradient.
            users: whose sequences it holds, by their external ids.

        Raises:
            UserError: it is one of many in a row.
        """
        self.skipped_steps += 1
        self._skipped_in_a_row += 1
        loss = ", ".join(f"{value:g}" for value in losses)
        more = f" and {len(users) - _SHOWN} others" if len(users) > _SHOWN else ""
        what = f"loss {loss}, gradient {norm:g}, users {', '.join(users[:_SHOWN])}{more}"
        if self._skipped_in_a_row >= _MOST_IN_A_ROW:
            raise self._diverged(f"{self._skipped_in_a_row} batches in a row have no finite gradient ({what})")
        if self._skipped_in_a_row == 1:
            self.logger.warning(
                f"epoch {self.epoch_under_way}: a batch is left out, its loss or gradient is not finite ({what})"
            )

    def _check_weights(self) -> None:
        """Refuse weights that are not finite.

        Raises:
            UserError: some are not.
        """
        for name, weights in self.model.state_dict().items():
            if weights.is_floating_point() and not weights.isfinite().all():
                raise self._diverged(f"the weights {name} are not finite")

    def _check_scores(self, scores: Tensor) -> None:
        """Refuse scores that cannot be ranked; NaN and infinity would stand first.

        Args:
            scores: of any items, the best of each row among them.

        Raises:
            UserError: one is NaN or infinite.
        """
        if not (scores < math.inf).all():
            raise self._diverged("scores are not finite")

    def _diverged(self, what: str) -> UserError:
        kept = "no epoch was kept"
        if self.best_valid_result is not None:
            kept = f"{self.saved_model_file} holds the best epoch before that"
        rate = self.optimizer.param_groups[0]["lr"]
        return UserError(
            f"training diverged in epoch {self.epoch_under_way}, at a learning rate of {rate:g}: {what}; {kept}. "
            "Try a lower `learning_rate`, or `clip_grad_norm`"
        )
