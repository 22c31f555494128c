"""From histories to ranked items, for the model that RecBole trains and for a loaded checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from recbole_bert4rec.core.batching import similar_lengths
from recbole_bert4rec.core.encoder import BERT4RecEncoder
from recbole_bert4rec.core.memory import Memory
from recbole_bert4rec.core.objectives import OBJECTIVES, distinct_items
from recbole_bert4rec.core.segments import pair_keys
from recbole_bert4rec.core.topk import Change, best_items
from recbole_bert4rec.core.transformer import EncoderOptions
from recbole_bert4rec.system.constants import PADDING, OptionValues

ITEM_DIGEST = "item_digest"
"""Name of the entry of the weights that says whose they are."""
Pairs = tuple[Tensor, Tensor]
"""Rows and items of some scores; each pair stands once. *Shape:* (P,) each."""


def digest_of_items(tokens: Iterable[str]) -> Tensor:
    """Return a number that only items of these external ids, in this order, have. *Shape:* ()."""
    return torch.tensor(int(hashlib.sha256("\0".join(map(str, tokens)).encode()).hexdigest()[:15], 16))


def entry_of(memory: Memory) -> dict[str, Any]:
    """Return the parts of a memory as a checkpoint holds them, with tensors for arrays."""
    parts = memory.state().items()
    return {name: torch.from_numpy(value) if isinstance(value, np.ndarray) else value for name, value in parts}


class Catalogue(NamedTuple):
    """The items that are ranked: a score is the product of a history's vector and an item's, plus the item's bias.

    Attributes:
        vectors: padding first. *Shape:* (C, H)
        bias: *Shape:* (C,)
        items: ids of the rows, ascending; None if all items have one. *Shape:* (C,)
    """

    vectors: Tensor
    bias: Tensor
    items: Tensor | None = None

    def best(self, vectors: Tensor, k: int, changes: Sequence[Change] = ()) -> tuple[Tensor, Tensor]:
        """Return the k items with the highest scores, in memory that does not grow with the catalogue.

        *Shape:* (B, H) -> (B, k), (B, k) of scores and ids, best first
        """
        if self.items is None:
            return best_items(vectors, self.vectors, self.bias, k, changes)
        moved: list[Change] = []
        for rows, items, values in changes:  # of the items that are here, by their rows in the table
            table_rows = torch.searchsorted(self.items, items).clamp(max=len(self.items) - 1)
            here = self.items[table_rows] == items
            moved.append((rows[here], table_rows[here], values[here]))
        scores, best = best_items(vectors, self.vectors, self.bias, k, moved)
        return scores, self.items[best]


class Ranker(nn.Module):
    """An encoder, the objective that shows histories to it, and the biases that are added to its scores.

    A subclass calls :meth:`_init_ranker` when ``nn.Module`` is ready.

    Attributes:
        encoder_class: a subclass of the model may name one of its own, which takes the same :class:`EncoderOptions`.
        n_items: N, padding counted; also the id of [MASK].
        seen_bias: the learnt number that is added to the scores of items that a user had; None if the option is off.
        adjustment: ``logit_adjustment`` times log(n + 1), n an item's count in training; None if the option is 0.
            *Shape:* (N,)
        memory: what items followed those of a history in training adds to their scores; None if there is none.
    """

    encoder_class: ClassVar[type[BERT4RecEncoder]] = BERT4RecEncoder
    n_items: int
    seen_bias: nn.Parameter | None
    encoder: BERT4RecEncoder
    adjustment: Tensor | None
    item_digest: Tensor
    memory: Memory | None = None

    def _init_ranker(self, config: OptionValues, encoder: EncoderOptions, tokens: Iterable[str]) -> None:
        """Make all parts; ``tokens`` are the items' external ids, padding first. *Length:* N."""
        self.n_items = self.mask_token = encoder.n_items
        self.objective = OBJECTIVES[config["objective"]](config, self.mask_token)
        self.seen_bias = nn.Parameter(torch.zeros(())) if config["seen_bias"] else None
        self.encoder = self.encoder_class(encoder)
        self.register_buffer("adjustment", None, persistent=False)
        self.register_buffer(ITEM_DIGEST, digest_of_items(tokens))

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Load weights, as torch does; refuse those of other items, for a row would mean another item."""
        theirs = state_dict.get(ITEM_DIGEST)
        if theirs is None and strict:
            raise RuntimeError("the weights do not say whose items they are, as those of earlier versions; train anew")
        if theirs is not None and int(theirs) != int(self.item_digest):
            raise RuntimeError(
                "the weights belong to other items, or to the same in another order, so a row would mean another item; "
                "train anew, begin with them (--warm_start), or ask the checkpoint by itself: "
                "load(FILE), the command recommend"
            )
        return super().load_state_dict(state_dict, strict, assign)

    def adjust(self, tau: float, counts: Tensor) -> None:
        """Set ``logit_adjustment`` to tau; ``counts`` of training.

        *Shape:* (N,)
        """
        self.adjustment = tau * torch.log(counts + 1.0) if tau else None

    def other_parameter(self) -> dict[str, Any]:
        """Return what a checkpoint holds of a model beside its weights, as RecBole asks it: the :attr:`memory`."""
        return {} if self.memory is None else {"memory": entry_of(self.memory)}

    def load_other_parameter(self, para: Mapping[str, Any] | None) -> None:
        """Take over what :meth:`other_parameter` returned; the :attr:`memory` is forgotten if none is in it."""
        memory = (para or {}).get("memory", {})
        parts = {name: value.cpu() if isinstance(value, Tensor) else value for name, value in memory.items()}
        self.memory = Memory.from_state(parts, self.n_items) if parts else None

    @property
    def ranking_bias(self) -> Tensor:
        """Output bias minus ``logit_adjustment`` times log(n + 1), n an item's count in training.

        *Shape:* (N,)

        Not in the paper. The model learns p(item | history). If the target stands among candidates that are drawn from
        q, the candidate with the highest p / q is most likely the target (Bayes' rule). As a remedy against popularity
        bias this is the logit adjustment of Menon et al., ICLR 2021.
        """
        bias = self.encoder.output_bias
        return bias if self.adjustment is None else bias - self.adjustment

    def encode(self, item_seq: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output vector from which each history's next item is read, and the encoder's sequences.

        Histories of similar length are encoded together, so that a long one does not pad all others.

        *Shape:* (B, L), (B,) -> (B, H), (B, L')
        """
        inputs = self.objective.ask(item_seq, lengths)
        groups = similar_lengths(inputs.last + 1)
        hidden = []
        for rows in groups:
            last, two_sided = inputs.last[rows], None if inputs.two_sided is None else inputs.two_sided[rows]
            shown = slice(int(last.max()) + 1)
            read = (torch.arange(len(rows), device=rows.device), last)
            hidden.append(self.encoder(inputs.item_seq[rows, shown], read, two_sided))
        in_order = torch.cat(hidden)[torch.cat(groups).argsort()]
        return self.encoder.output(in_order), inputs.item_seq

    def catalogue(self, items: Tensor | None = None) -> Catalogue:
        """Return the items to rank: all, or some, ascending.

        *Shape:* (C - 1,)
        """
        vectors, bias = self.encoder.catalogue, self.ranking_bias
        if items is None:
            return Catalogue(vectors, bias)
        items = torch.cat([items.new_full((1,), PADDING), items])
        return Catalogue(vectors[items], bias[items], items)

    def changes(self, sequences: Tensor, removed: Pairs, seen: Pairs | None = None) -> list[Change]:
        """Return the changes of single scores: ``seen_bias``, ``memory``, and -inf for items that are taken out.

        ``seen`` is of whole histories, to which a negative ``seen_bias`` applies.

        *Shape:* (B, L), (P,), (P,)
        """
        out = torch.full(removed[0].shape, -torch.inf, device=sequences.device)
        return [(*removed, out), *self._additions(sequences, seen)]

    def _additions(self, sequences: Tensor, seen: Pairs | None) -> list[Change]:
        """Return what ``seen_bias`` and ``memory`` add; arguments as of :meth:`changes`.

        A negative bias applies to the whole history, a positive one only to the input window.
        """
        additions: list[Change] = []
        if self.seen_bias is not None:
            if seen is None or self.seen_bias >= 0:
                row, column = distinct_items(sequences, self.mask_token).nonzero(as_tuple=True)
                seen = row, sequences[row, column]
            additions.append((*seen, self.seen_bias.expand(len(seen[0]))))
        if self.memory is not None:
            shown = sequences.cpu().numpy()
            lengths = ((shown != PADDING) & (shown != self.mask_token)).sum(1)
            rows, items, values = map(torch.from_numpy, self.memory.additions(shown, lengths))
            device = sequences.device
            additions.append((rows.to(device), items.to(device), values.to(device)))
        return additions

    def scores_of(self, vectors: Tensor, sequences: Tensor, seen: Pairs | None = None) -> Tensor:
        """Score all items, for the two results of :meth:`encode`; ``seen`` as in :meth:`changes`.

        *Shape:* (B, H), (B, L) -> (B, N)
        """
        scores = self.encoder.scores(vectors, self.ranking_bias)
        for rows, item_ids, values in self._additions(sequences, seen):
            scores = scores.index_put((rows, item_ids), values.to(scores.dtype), accumulate=True)
        return scores

    def score_candidates(self, vectors: Tensor, sequences: Tensor, items: Tensor, seen: Pairs | None = None) -> Tensor:
        """Score the candidates of each row, for the two results of :meth:`encode`; ``seen`` as in :meth:`changes`.

        *Shape:* (B, H), (B, L), (B, C) -> (B, C)
        """
        scores = torch.bmm(self.encoder.catalogue[items], vectors.unsqueeze(2)).squeeze(2) + self.ranking_bias[items]
        row = torch.arange(len(items), device=items.device).unsqueeze(1)
        candidates = pair_keys(row, items, self.n_items).contiguous()
        for rows, item_ids, values in self._additions(sequences, seen):
            keys, order = pair_keys(rows, item_ids, self.n_items).sort()
            if not len(keys):
                continue
            nearest = torch.searchsorted(keys, candidates).clamp(max=len(keys) - 1)
            scores = scores + values[order][nearest] * (keys[nearest] == candidates)
        return scores
