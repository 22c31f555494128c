"""The facts that a reader of a comparison's tables must know, a line each."""

from __future__ import annotations

from typing import Any

from recbole_bert4rec.comparison.findings import best_at_the_end
from recbole_bert4rec.comparison.results import Results
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
    split, seeds = rules["eval_args"]["split"], ", ".join(map(str, about["seeds"]))
    late = best_at_the_end(results)
    machine, versions = records[0]["machine"], records[0]["versions"]
    commits = sorted({record["commit"] for record in records if record.get("commit")})
    return [
        f"Data: {about['dataset']}, {about['users']:,} users, {about['items']:,} items, "
        f"{about['interactions']:,} interactions"
        + (f"; {dropped:,} users with fewer than 4 interactions left out for all models" if dropped else ""),
        f"Split: {split if 'GT' in split else LEAVE_ONE_OUT}; the rows of all models were proven equal before training",
        *([f"Parts: {about['parts']}"] if about.get("parts") else []),
        f"Ranking: the target among {among}" + ("" if valid_mode == mode else f"; in validation {valid_mode}"),
        f"Selection: by validation {results.main_metric}; every run tested once; seeds {seeds}",
        *([f"Budget: {about['budget']:g} s a run, and the step or validation under way"] if about["budget"] else []),
        *([f"Best at the last epoch, so that a longer training may be better: {', '.join(late)}"] if late else []),
        f"Machine: {machine['processor']}, cores {machine['cores']}, threads {machine['threads']}, "
        f"GPU {machine['gpu'] or 'none'}; "
        + ", ".join(f"{name} {versions[name]}" for name in ("recbole_bert4rec", "recbole", "torch") if name in versions)
        + (f"; git commit {', '.join(commits)}" if commits else ""),
        *_variants(about.get("variants", {})),
        *(f"Failed: {name}: {reason}" for name, reason in results.failed.items()),
    ]


def candidates(mode: str) -> str:
    """Say among which candidates a mode such as ``pop100`` ranks."""
    return f"{mode[3:]} candidates ({mode}), none of them an item of the user"


def _variants(variants: dict[str, dict[str, Any]]) -> list[str]:
    """Return the options of each variant of a study, in one line."""
    texts = [
        f"{name} ({', '.join(f'{key}: {value}' for key, value in options.items()) or 'nothing'})"
        for name, options in variants.items()
    ]
    return [f"Variants, with what each sets: {'; '.join(texts)}"] if texts else []
