"""An index of a large catalogue: lists of items that are alike, of which FAISS searches those that a history needs."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recbole_bert4rec.core.ranker import Catalogue, Ranker
from recbole_bert4rec.core.segments import pair_keys, split_keys
from recbole_bert4rec.core.topk import Change, best_candidates, is_one_each
from recbole_bert4rec.options.kinds import Kind, Real, Whole
from recbole_bert4rec.system.arrays import UNREADABLE, read_arrays
from recbole_bert4rec.system.constants import PADDING
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.extras import need
from recbole_bert4rec.system.files import atomic_write

_FORMAT = "recbole_bert4rec index 1"
_LISTS = 4  # for each of the square root of the number of items: more take longer to make than they save
_FITTED = 64  # items a list that its centre is fitted to

Query = tuple[Tensor, Sequence[Change]]
"""Vectors of histories, (B, H), and changes of single scores."""


class Lists(NamedTuple):
    """Items divided into lists.

    Attributes:
        centres: in the space of item vectors with the bias as a last number. *Shape:* (G, H + 1)
        list_of: of each item, without padding. *Shape:* (N - 1,)
    """

    centres: NDArray[np.float32]
    list_of: NDArray[np.int64]


class Choice(NamedTuple):
    """How many lists are searched, and how well that does.

    Attributes:
        probes: lists that are searched for a history.
        wanted: the recall to reach: the share of the exact k best items that is found.
        k: items a history.
        recall: as measured, on other histories than those on which ``probes`` was chosen.
        histories: number of these other histories.
        searched: the share of the catalogue in the lists that are searched, on average.
    """

    probes: int
    wanted: float
    k: int
    recall: float
    histories: int
    searched: float


_KINDS: dict[str, Kind] = {
    "probes": Whole(1),
    "wanted": Real(0, 1, "(]"),
    "k": Whole(1),
    "recall": Real(0, 1, "[]"),
    "histories": Whole(1),
    "searched": Real(0, 1, "[]"),
}
"""Kinds of the fields of :class:`Choice`."""


class ItemIndex:
    """All items of a model in lists; :meth:`Recommender.build_index` makes one.

    The score of an item is the product of two vectors: the history's with 1 as a last number, the item's with its bias
    as a last number. Items are not compressed, so scores are exact; but an index can miss an item.

    Args:
        catalogue: all items.
        lists: into which they are divided.
        digest: of the model, by :func:`digest_of_weights`.

    Attributes:
        choice: how many lists are searched, and how well that does.

    Raises:
        MissingExtraError: the extra ``[ann]`` is not installed.
    """

    choice: Choice

    def __init__(self, catalogue: Catalogue, lists: Lists, digest: str) -> None:
        need("an index", "faiss")
        import faiss
        from faiss.contrib.ivf_tools import add_preassigned

        self._catalogue, self.lists, self._digest = catalogue, lists, digest
        items = _items_of(catalogue)
        centres = faiss.IndexFlatIP(items.shape[1])
        centres.add(lists.centres)
        self._faiss: Any = faiss.IndexIVFFlat(centres, items.shape[1], len(lists.centres), faiss.METRIC_INNER_PRODUCT)
        numbers = np.arange(1, len(items) + 1)  # has a name because FAISS keeps no reference to it
        add_preassigned(self._faiss, items, lists.list_of, numbers)

    @classmethod
    def build(
        cls,
        catalogue: Catalogue,
        digest: str,
        chosen_on: Sequence[Query],
        measured_on: Sequence[Query],
        k: int,
        wanted: float,
    ) -> ItemIndex:
        """Divide the items, and choose the fewest lists with which the wanted recall is reached.

        Args:
            catalogue: all items.
            digest: of the model.
            chosen_on: queries on which the number of lists is chosen.
            measured_on: queries of other histories, on which the recall is measured.
            k: items a history.
            wanted: recall@k.
        """
        scale = float(torch.cat([vectors for vectors, _ in chosen_on]).square().mean().sqrt())
        index = cls(catalogue, divide(catalogue, scale), digest)
        places = np.sort(np.concatenate([index._places(query, _exact(catalogue, k, query)) for query in chosen_on]))
        probes = 1 + int(places[math.ceil(wanted * len(places)) - 1]) if len(places) else 1
        exact = [_exact(catalogue, k, query) for query in measured_on]
        recall = _recall(index.over(catalogue, probes), measured_on, exact)
        searched = index._share_in(torch.cat([vectors for vectors, _ in measured_on]), probes)
        index.choice = Choice(probes, wanted, k, recall, sum(len(vectors) for vectors, _ in measured_on), searched)
        return index

    def __str__(self) -> str:
        choice, lists = self.choice, self.lists
        return (
            f"{choice.probes:,} of {len(lists.centres):,} lists are searched, {100 * choice.searched:.1f} % of "
            f"{len(lists.list_of):,} items; recall@{choice.k} is {choice.recall:.4f} ({choice.histories:,} histories, "
            f"wanted {choice.wanted:g})"
        )

    def over(self, catalogue: Catalogue, probes: int | None = None) -> IndexedCatalogue:
        """Return what ranks the items of a catalogue.

        Args:
            catalogue: all items of this index, or some of them.
            probes: lists that are searched for a history. Default: as chosen.
        """
        return IndexedCatalogue(self._faiss, self._catalogue, catalogue, probes or self.choice.probes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the lists and the choice to a file, but no item: these are the model's.

        Raises:
            UserError: the file cannot be written.
        """
        about = {"format": _FORMAT, "digest": self._digest, "choice": self.choice._asdict()}
        with atomic_write(path) as temporary, open(temporary, "wb") as file:
            np.savez(file, about=np.array(json.dumps(about)), centres=self.lists.centres, list_of=self.lists.list_of)

    def _places(self, query: Query, best: Tensor) -> NDArray[np.int64]:
        """Return how many lists are searched before that of each best item; 0 for items that are looked at apart."""
        vectors, changes = query
        _, lists = self._faiss.quantizer.search(_histories_of(vectors), len(self.lists.centres))
        rows = torch.arange(len(best), device=best.device).unsqueeze(1)
        n_items = len(self._catalogue.bias)
        keys, _ = _by_pair(changes, n_items, vectors)
        apart = torch.isin(pair_keys(rows, best, n_items), keys).cpu().numpy()
        items = best.cpu().numpy()
        places = np.take_along_axis(np.argsort(lists, 1), self.lists.list_of[items - 1], 1)
        searched_before: NDArray[np.int64] = np.where(apart, 0, places)[items != PADDING]
        return searched_before

    def _share_in(self, vectors: Tensor, probes: int) -> float:
        """Return the share of the items in the lists that are searched, on average over some histories."""
        _, lists = self._faiss.quantizer.search(_histories_of(vectors), probes)
        sizes = np.bincount(self.lists.list_of, minlength=len(self.lists.centres))
        return float(sizes[lists].sum(1).mean() / len(self.lists.list_of))


class IndexedCatalogue:
    """Ranks the items of a catalogue as :class:`~recbole_bert4rec.core.ranker.Catalogue` does, but may miss some.

    Args:
        faiss_index: of all items.
        whole: all items.
        catalogue: those that may be recommended.
        probes: lists that are searched for a history.
    """

    def __init__(self, faiss_index: Any, whole: Catalogue, catalogue: Catalogue, probes: int) -> None:
        import faiss

        self._faiss, self._whole, self._catalogue = faiss_index, whole, catalogue
        self._allowed, selector = None, None
        if catalogue.items is not None:
            self._allowed = torch.zeros(len(whole.bias), dtype=torch.bool, device=whole.bias.device)
            self._allowed[catalogue.items] = True
            selector = faiss.IDSelectorBitmap(np.packbits(self._allowed.cpu().numpy(), bitorder="little"))
        self._parameters = faiss.SearchParametersIVF(nprobe=probes, sel=selector)

    def best(self, vectors: Tensor, k: int, changes: Sequence[Change] = ()) -> tuple[Tensor, Tensor]:
        """Return the k items with the highest scores that are found; arguments as of :meth:`Catalogue.best`.

        Items whose scores change are ranked apart. The lists are read until no other item of them can be among the
        best. If both give fewer than k items, all items are searched.
        """
        n_items = len(self._whole.bias)
        keys, added = _by_pair(changes, n_items, vectors)
        scores, items = self._best_changed(vectors, k, keys, added)
        pending, width, lacking = torch.arange(len(vectors), device=vectors.device), 2 * k, []
        while len(pending):
            near, near_items = self._search(vectors[pending], width)
            changed = torch.isin(pair_keys(pending.unsqueeze(1), near_items, n_items), keys)
            both = torch.cat([scores[pending], near.masked_fill(changed, -torch.inf)], 1).topk(k, dim=1)
            both_items = torch.cat([items[pending], near_items], 1).gather(1, both.indices)
            least, last = both.values[:, -1], near[:, -1]  # no other item of the lists exceeds the last
            complete = (least > -torch.inf) & (last <= least)
            scores[pending[complete]], items[pending[complete]] = both.values[complete], both_items[complete]
            lacking.append(pending[(least == -torch.inf) & (last == -torch.inf)])
            pending, width = pending[~complete & (last > -torch.inf)], 4 * width
        if len(rest := torch.cat(lacking).sort().values):
            of_rest = [_of_rows(change, rest) for change in changes]
            scores[rest], items[rest] = self._catalogue.best(vectors[rest], k, of_rest)
        return scores, items

    def _search(self, vectors: Tensor, width: int) -> tuple[Tensor, Tensor]:
        """Return the best items of the lists, best first; padding with score -inf after them. *Shape:* (B, width)."""
        best = self._faiss.search(_histories_of(vectors), width, params=self._parameters)
        scores, items = (torch.from_numpy(part).to(vectors.device) for part in best)
        return scores.masked_fill(items < 0, -torch.inf).to(vectors.dtype), items.clamp(min=PADDING)

    def _best_changed(self, vectors: Tensor, k: int, keys: Tensor, added: Tensor) -> tuple[Tensor, Tensor]:
        """Return the best of the items whose scores change; padding with score -inf after them. *Shape:* (B, k)."""
        rows, items = split_keys(keys, len(self._whole.bias))
        there = added > -torch.inf if self._allowed is None else (added > -torch.inf) & self._allowed[items]
        rows, items, added = rows[there], items[there], added[there]
        scores = (vectors[rows] * self._whole.vectors[items]).sum(1) + self._whole.bias[items] + added
        return best_candidates(rows, items, scores, k, len(vectors))


def divide(catalogue: Catalogue, scale: float) -> Lists:
    """Divide the items by k-means; the same items give the same lists.

    Args:
        catalogue: all items.
        scale: root mean square of the numbers in histories' vectors. Items' vectors are multiplied by it, biases are
            not: then squared distances tell how much scores differ.
    """
    need("an index", "faiss")
    import faiss

    items = _items_of(catalogue)
    items[:, :-1] *= scale
    count = min(len(items), int(_LISTS * len(items) ** 0.5))
    means = faiss.Kmeans(items.shape[1], count, niter=10, max_points_per_centroid=_FITTED, min_points_per_centroid=1)
    means.train(items)
    list_of = means.index.search(items, 1)[1][:, 0]
    centres = means.centroids.copy()
    centres[:, :-1] /= scale
    return Lists(centres, list_of)


def digest_of_weights(ranker: Ranker, logit_adjustment: float) -> str:
    """Return the SHA-256 of all that an index depends on, in hexadecimal digits."""
    digest = hashlib.sha256(repr(float(logit_adjustment)).encode())
    for name, value in sorted(ranker.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.cpu().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def read_index(path: str | os.PathLike[str], catalogue: Catalogue, digest: str) -> ItemIndex:
    """Read a file of :meth:`ItemIndex.save`; the items in its lists are the model's.

    Args:
        path: of the file.
        catalogue: all items of the model.
        digest: of the model.

    Raises:
        UserError: the file is missing, damaged, or of another model.
        MissingExtraError: the extra ``[ann]`` is not installed.
    """
    try:
        arrays = read_arrays(path)
        about = json.loads(str(arrays["about"]))
        centres, list_of = arrays["centres"], arrays["list_of"]
    except UNREADABLE as error:
        raise UserError(f"index {path} cannot be read ({type(error).__name__}); build it again") from error
    if not isinstance(about, dict) or about.get("format") != _FORMAT:
        raise UserError(f"{path} is not an index in the format {_FORMAT!r}; build it again")
    if about.get("digest") != digest:
        raise UserError(f"index {path} was built of another checkpoint, or with other options; build it again")
    choice: Any = about.get("choice")
    sound = (
        isinstance(choice, dict)
        and choice.keys() == _KINDS.keys()
        and all(kind.accepts(choice[name]) for name, kind in _KINDS.items())
        and centres.dtype == np.float32
        and centres.ndim == 2
        and bool(np.isfinite(centres).all())
        and centres.shape == (len(centres), catalogue.vectors.shape[1] + 1)
        and list_of.dtype == np.int64
        and list_of.shape == (len(catalogue.bias) - 1,)
        and choice["probes"] <= len(centres)
        and 0 <= list_of.min() <= list_of.max() < len(centres)
    )
    if not sound:
        raise UserError(f"index {path} is damaged; build it again")
    index = ItemIndex(catalogue, Lists(centres, list_of), digest)
    index.choice = Choice(**choice)
    return index


def _items_of(catalogue: Catalogue) -> NDArray[np.float32]:
    """Return the vectors of all items with their bias as a last number, without padding. *Shape:* (N - 1, H + 1)."""
    joined = torch.cat([catalogue.vectors, catalogue.bias.unsqueeze(1)], 1)[1:]
    return np.ascontiguousarray(joined.float().cpu().numpy())


def _histories_of(vectors: Tensor) -> NDArray[np.float32]:
    """Return vectors of histories with 1 as a last number. *Shape:* (B, H + 1)."""
    return np.ascontiguousarray(torch.cat([vectors, vectors.new_ones(len(vectors), 1)], 1).float().cpu().numpy())


def _exact(catalogue: Catalogue, k: int, query: Query) -> Tensor:
    """Return the best items of each history; padding after them, if there are fewer. *Shape:* (B, k)."""
    scores, items = catalogue.best(query[0], k, query[1])
    return items.masked_fill(scores == -torch.inf, PADDING)


def _recall(catalogue: IndexedCatalogue, queries: Sequence[Query], exact: Sequence[Tensor]) -> float:
    """Return the share of exact lists that is found."""
    hits = wanted = 0
    for (vectors, changes), best in zip(queries, exact, strict=True):
        found_items = catalogue.best(vectors, best.shape[1], changes)[1]
        there = best != PADDING
        hits += int(((best.unsqueeze(2) == found_items.unsqueeze(1)).any(2) & there).sum())
        wanted += int(there.sum())
    return hits / max(1, wanted)


def _by_pair(changes: Sequence[Change], n_items: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return the (row, item) pairs whose scores change, each once, as ascending keys, and the sums added to them."""
    empty = torch.empty(0, dtype=torch.int64, device=like.device)
    every = torch.cat([empty, *(pair_keys(rows, items, n_items) for rows, items, _ in changes)])
    values = [like.new_ones(len(rows)) * value for rows, _, value in changes]
    keys, key_of_change = every.unique(return_inverse=True)
    return keys, like.new_zeros(len(keys)).index_add_(0, key_of_change, torch.cat([like.new_empty(0), *values]))


def _of_rows(change: Change, chosen: Tensor) -> Change:
    """Return the part of a change that is about some rows, ascending, by their places among these."""
    rows, items, value = change
    places = torch.searchsorted(chosen, rows).clamp(max=len(chosen) - 1)
    here = chosen[places] == rows
    return places[here], items[here], value[here] if is_one_each(value) else value
