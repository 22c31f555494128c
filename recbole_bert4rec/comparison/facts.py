"""The facts that a reader of a comparison's tables must know, a line each."""

from __future__ import annotations

from collections import Counter
from typing import Any

from recbole.utils import ModelType

from recbole_bert4rec.comparison.findings import ended_by, type_of
from recbole_bert4rec.comparison.results import Results
from recbole_bert4rec.options.global_time import global_time
from recbole_bert4rec.training.screen import LEAVE_ONE_OUT


def facts(results: Results) -> list[str]:
    """Return data, protocol, selection, machine and so on, a line each."""
    about, rules = results.about, results.about["rules"]
    valid_mode, mode = (rules["eval_args"]["mode"][phase] for phase in ("valid", "test"))
    seen = "left out" if rules["exclude_seen"] else "ranked like all others (RecBole's protocol)"
    among = f"all items; seen items {seen}"
    if mode != "full":
        among = f"{candidates(mode)}, the same for every model"
    dropped = about["dropped"]
    records = [record for of_model in results.records.values() for record in of_model]
    ended = _ended(records)
    if about["budget"]:
        ended = f"trained for {about['budget']:g} s and the step or validation then under way; {ended}"
    machine, versions = records[0]["machine"], records[0]["versions"]
    commits = sorted({record["commit"] for record in records if record.get("commit")})
    return [
        f"Data: {about['dataset']}, {about['users']:,} users, {about['items']:,} items, "
        f"{about['interactions']:,} interactions"
        + (f"; {dropped:,} users with fewer than 4 interactions left out for all models" if dropped else ""),
        f"Split: {_split(rules['eval_args']['split'])}; the rows of all models were proven equal before training",
        *([f"Parts: {about['parts']}"] if about.get("parts") else []),
        f"Ranking: the target among {among}" + ("" if valid_mode == mode else f"; in validation {valid_mode}"),
        f"Selection: by validation {results.main_metric}; {ended}; every run tested once; seeds "
        f"{', '.join(map(str, about['seeds']))}",
        f"Machine: {machine['processor']}, {_count(machine['cores'], 'core')}, {_count(machine['threads'], 'thread')}, "
        f"GPU {machine['gpu'] or 'none'}; "
        + ", ".join(f"{name} {versions[name]}" for name in ("recbole_bert4rec", "recbole", "torch") if name in versions)
        + (f"; git commit {', '.join(commits)}" if commits else ""),
        *_variants(about.get("variants", {})),
        *_longest_inputs(results),
        *(f"Failed: {name}: {reason}" for name, reason in results.failed.items()),
    ]


def candidates(mode: str) -> str:
    """Say among which candidates a mode such as ``pop100`` ranks."""
    return f"{mode[3:]} candidates ({mode}), none of them an item of the user"


def _ended(records: list[dict[str, Any]]) -> str:
    """Say how the trainings ended; a model that only counts has none."""
    trained = [record for record in records if type_of(record["model"]) != ModelType.TRADITIONAL]
    if not trained:
        return "nothing is trained"
    ways = Counter(map(ended_by, trained))
    phrases = {"early stopping": "early stopping on validation", "budget": "the budget", "limit": "the limit of epochs"}
    return "runs ended: " + ", ".join(f"{ways[way]} by {text}" for way, text in phrases.items() if ways[way])


def _split(split: dict[str, Any]) -> str:
    """Say which interactions are tested and validated."""
    if "GT" not in split:
        return f"the last interaction of a user is the test, the one before it the validation ({LEAVE_ONE_OUT})"
    rule = global_time(split["GT"])
    before = {"GT": "the same of what is before, by the same rule", "LTI": "the last one before that moment"}
    return (
        f"at one moment for all users, after {rule.quantile:.0%} of all interactions; the {rule.target} interaction of "
        f"a user after it is the test, {before[rule.validation]} the validation"
    )


def _longest_inputs(results: Results) -> list[str]:
    """Say how much of a history each model sees, if they differ."""
    lengths = {
        model: records[0]["config"].get("MAX_ITEM_LIST_LENGTH")
        for model, records in results.records.items()
        if records and type_of(records[0]["model"]) == ModelType.SEQUENTIAL
    }
    if len(set(lengths.values())) < 2:
        return []
    return [
        "Longest input (MAX_ITEM_LIST_LENGTH): " + ", ".join(f"{name} {length}" for name, length in lengths.items())
    ]


def _variants(variants: dict[str, dict[str, Any]]) -> list[str]:
    """Return the options of each variant of a study, in one line."""
    texts = [
        f"{name} ({', '.join(f'{key}: {value}' for key, value in options.items()) or 'nothing'})"
        for name, options in variants.items()
    ]
    return [f"Variants, with what each sets: {'; '.join(texts)}"] if texts else []


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
