"""Faults to be planted: name, file, text, what stands there instead, cases of the guard that should see it, tests."""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """A fault of one place.

    Attributes:
        name: of the fault.
        file: below recbole_bert4rec/.
        old: stands there once.
        new: stands there with the fault.
        cases: of the guard.
        tests: below tests/, for faults that the guard does not see.
    """

    name: str
    file: str
    old: str
    new: str
    cases: tuple[str, ...]
    tests: str


def _fault(name: str, file: str, old: str, new: str, cases: str, tests: str) -> Fault:
    return Fault(name, file, old, new, tuple(cases.split()), tests)


FAULTS = (
    _fault(
        "target off by one",
        "core/objectives.py",
        "sequences[rows, columns + 1], two_sided",
        "sequences[rows, columns], two_sided",
        "sasrecplus",
        "core",
    ),
    _fault(
        "[MASK] lost at test",
        "core/objectives.py",
        "shown.scatter(1, n_shown.unsqueeze(1), mask_token), n_shown",
        "shown, n_shown",
        "loss-bpr",
        "core",
    ),
    _fault(
        "masks show the item",
        "core/objectives.py",
        "masked_seq[rows, columns] = replacement",
        "masked_seq[rows, columns] = labels",
        "loss-bpr",
        "core",
    ),
    _fault(
        "oldest kept, not latest",
        "core/objectives.py",
        "index = (lengths - n_shown).unsqueeze(1) + column",
        "index = (0 * lengths).unsqueeze(1) + column",
        "sliding ask",
        "core",
    ),
    _fault(
        "always one mask more",
        "core/objectives.py",
        "(mask_ratio * length + 0.5)",
        "(mask_ratio * length + 1.5)",
        "masks",
        "core",
    ),
    _fault(
        "no causal mask",
        "core/objectives.py",
        '        """Let each item see those before it alone."""\n        return torch.ones_like(lengths)',
        '        """Let each item see those before it alone."""\n        return lengths',
        "sasrecplus",
        "core",
    ),
    _fault(
        "loss by mask for by sequence",
        "core/softmax.py",
        'if loss_mean == "mask":',
        'if loss_mean != "mask":',
        "loss-bpr",
        "core/test_losses.py",
    ),
    _fault(
        "BPR without biases",
        "core/losses.py",
        ".sum(-1) + label_bias - negative_bias",
        ".sum(-1)",
        "loss-bpr",
        "core/test_losses.py",
    ),
    _fault(
        "no correction of the sample",
        "core/losses.py",
        "scores.negative - log_expected], 1)",
        "scores.negative], 1)",
        "loss-sampled",
        "core/test_losses.py",
    ),
    _fault(
        "gBCE's exponent 1",
        "core/losses.py",
        "return rate * (t * (1 - 1 / rate) + 1 / rate)",
        "return 1.0",
        "loss-gbce",
        "core/test_losses.py",
    ),
    _fault(
        "the label among negatives",
        "core/losses.py",
        ".masked_fill(labels.unsqueeze(1) == negatives, -torch.inf)",
        "",
        "loss-bce",
        "core/test_losses.py",
    ),
    _fault(
        "seen items ranked",
        "plugin/evaluating.py",
        "(rows[kept], items[kept]) if self._exclude_seen else",
        "(nothing, nothing) if self._exclude_seen else",
        "also-test",
        "parity",
    ),
    _fault(
        "a repeated target left out",
        "plugin/evaluating.py",
        "kept = (items != interaction[dataset.iid_field][rows])",
        "kept = (items == items)",
        "also-test",
        "parity",
    ),
    _fault(
        "padding ranked",
        "plugin/evaluating.py",
        "scores[:, PADDING] = -torch.inf",
        "pass",
        "bert4rec-ml100k",
        "parity/test_evaluation_equals_stock.py",
    ),
    _fault(
        "the adjustment added",
        "core/ranker.py",
        "bias - self.adjustment",
        "bias + self.adjustment",
        "adjusted",
        "recommend",
    ),
    _fault(
        "seen_bias twice",
        "core/ranker.py",
        "row, column = distinct_items(sequences, self.mask_token).nonzero(as_tuple=True)",
        "row, column = (sequences > 0).nonzero(as_tuple=True)",
        "ask sasrecplus",
        "core",
    ),
    _fault(
        "validation trained",
        "plugin/split.py",
        "return [order[part == number] for number in range(len(PARTS))]",
        "return [order[part <= 1], order[part == 1], order[part == 2]]",
        "parts",
        "parity/test_rows_equal_stock.py",
    ),
    _fault(
        "ratio split in file order",
        "plugin/split.py",
        'np.argsort(times, kind="stable"), bounds_of',
        "np.arange(len(times)), bounds_of",
        "parts",
        "parity/test_rows_equal_stock.py",
    ),
    _fault(
        "global test before the moment",
        "plugin/split.py",
        "test = _last_of_users(users, ~early & later)",
        "test = _last_of_users(users, early & later)",
        "global-time",
        "parity/test_global_time.py",
    ),
    _fault(
        "histories one short",
        "core/sequences.py",
        "return begin, targets - begin",
        "return begin, (targets - begin - 1).clamp(min=0)",
        "parts",
        "core/test_sequences.py",
    ),
    _fault(
        "times in descending order",
        "core/sequences.py",
        "order = torch.sort(key, stable=True).indices",
        "order = torch.sort(-key, stable=True).indices",
        "csv",
        "core/test_sequences.py",
    ),
    _fault(
        "unstable order of equal times",
        "core/sequences.py",
        "return order[torch.sort(users[order], stable=True).indices]",
        "return order.flip(0)[torch.sort(users[order.flip(0)], stable=True).indices]",
        "parts",
        "core/test_sequences.py",
    ),
    _fault(
        "memory counts itself",
        "core/memory.py",
        "others = rows != columns",
        "others = rows == rows",
        "plus-ml100k",
        "core/test_memory.py",
    ),
    _fault(
        "memory without decay",
        "core/memory.py",
        "weights = np.broadcast_to((DECAY**ages)",
        "weights = np.broadcast_to((1.0**ages)",
        "plus-ml100k",
        "core/test_memory.py",
    ),
    _fault(
        "paper's candidates by seed alone",
        "plugin/candidates.py",
        "np.random.default_rng([self.seed, user])",
        "np.random.default_rng(self.seed)",
        "paper-candidates",
        "parity",
    ),
    _fault(
        "candidates hold seen items",
        "plugin/candidates.py",
        "drawn = self._candidates.draw(items, num,",
        "drawn = self._candidates.draw(items[:0], num,",
        "paper-candidates",
        "parity",
    ),
    _fault(
        "a filter off",
        "plugin/loading.py",
        "illegal |= ~self._within_intervals(count, interval)[code]",
        "pass",
        "filters",
        "plugin",
    ),
    _fault(
        "ids permuted",
        "plugin/loading.py",
        "return feat[field].values, []",
        "return feat[field].values[::-1], []",
        "csv",
        "plugin",
    ),
    _fault(
        "a time zone lost",
        "logs/times.py",
        "in_quotes(timezone or _UTC)",
        "in_quotes(_UTC)",
        "zone",
        "logs",
    ),
    _fault(
        "rows without a user kept as one",
        "logs/ids.py",
        '" FROM log JOIN of_c0 ON',
        '" FROM log LEFT JOIN of_c0 ON',
        "gaps",
        "logs",
    ),
    _fault(
        "a conversion kept though the log changed",
        "logs/convert.py",
        'existing.get("made_from") == made_from',
        'existing.get("made_from")',
        "changed-log",
        "logs",
    ),
    _fault(
        "a half-written file",
        "system/files.py",
        "os.replace(temporary, path)",
        "os.replace(temporary, path); open(path, 'r+b').truncate(max(0, os.path.getsize(path) - 1))",
        "ask",
        "system/test_files.py",
    ),
    _fault(
        "a t-test without seeds",
        "experiments/significance.py",
        "variance = variances.sum() - rest",
        "variance = variances[0]",
        "compare",
        "experiments/test_significance.py",
    ),
    _fault(
        "Holm without the largest before",
        "experiments/significance.py",
        "np.maximum.accumulate(scaled)",
        "scaled",
        "compare",
        "experiments/test_significance.py",
    ),
    _fault(
        "refit without validation items",
        "training/afterwards.py",
        'else {"LS": "test_only"}',
        'else {"LS": "valid_and_test"}',
        "refit",
        "training/test_refit.py",
    ),
    _fault(
        "a resumed optimizer begins again",
        "plugin/resuming.py",
        '            self._optimizer.load_state_dict(state["optimizer"])\n',
        "            pass\n",
        "kill-and-resume",
        "plugin/test_resume.py",
    ),
    _fault(
        "a resumed run draws other masks",
        "plugin/resuming.py",
        '            restore_generators(state["generators"][rank], self._config["device"])\n',
        "            pass\n",
        "kill-and-resume",
        "plugin/test_resume.py",
    ),
    _fault(
        "warm start by position",
        "plugin/warm_start.py",
        "rows = pd.Index(old).get_indexer(pd.Index(tokens))",
        "rows = np.minimum(np.arange(len(tokens)), len(old) - 1)",
        "warm-start",
        "plugin/test_warm_start.py",
    ),
    _fault(
        "exclude by position",
        "recommend/histories.py",
        "[values.get(user, default) for user in users]",
        "[*values.values()]",
        "ask",
        "recommend/test_recommender.py",
    ),
    _fault(
        "cold items unknown",
        "recommend/new_items.py",
        '"item_tokens": all_tokens}',
        '"item_tokens": state["item_tokens"]}',
        "vectors",
        "recommend",
    ),
)
