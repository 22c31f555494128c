"""The models, data and protocol that all runs of a comparison share, and the options that each run gets from them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from recbole.config import Config
from recbole.utils import ModelType

from recbole_bert4rec.comparison.study import Study
from recbole_bert4rec.options.auto import most_epochs
from recbole_bert4rec.options.checks import read_options
from recbole_bert4rec.options.table import SAME_IN_COMPARISON, SINGLE_RUN
from recbole_bert4rec.options.user_models import class_name, importable, known_as
from recbole_bert4rec.plugin.config import Layers, PluginConfig
from recbole_bert4rec.system.constants import MODEL_NAME
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.budget import NO_END
from recbole_bert4rec.training.logs import silence

LEAST_INTERACTIONS = 4
"""RecBole's sequential models need one more than its general ones to validate and test a user."""


@dataclass(frozen=True)
class Comparison:
    """Models, or variants of them, on the same data by the same rules.

    Attributes:
        models: RecBole's names, or those of the variants; the first is compared with each of the others. A user's own
            class, or its ``module:Class``, is replaced by its name.
        config_files: YAML files for all models, or what is in them; one with a line ``model: NAME`` is for that model.
        options: for all models; they win over the files.
        seeds: of each model's runs.
        budget: seconds of training and validation for each run; None: each model's own early stopping.
        also_test: YAML files of further protocols under which each run's selected weights are tested.
        study: of variants, whose options win over all others but the rules; without any, models are compared.
        sources: ``module:Class`` of each of the user's own classes by its name, for the processes of the runs.

    Raises:
        UserError: a class cannot be imported, or two models have one name.
    """

    models: tuple[str, ...]
    dataset: str
    config_files: tuple[str | Mapping[str, Any], ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = (2020,)
    budget: float | None = None
    also_test: tuple[str, ...] = ()
    study: Study = field(default_factory=Study)
    sources: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        """Replace the user's own classes by their names."""
        if self.study.variants:
            names, classes = list(self.models), [self.study.base]
        else:
            names = classes = [known_as(model) for model in self.models]
        if twice := [name for name in names if names.count(name) > 1]:
            raise UserError(f"--model={','.join(names)} names the model {twice[0]} twice")
        object.__setattr__(self, "models", tuple(names))
        object.__setattr__(self, "sources", {known_as(model): importable(model) for model in classes})

    def model_of(self, name: str) -> str:
        """Return a name of one of ``models`` that any process can import; for a variant, that of its ``model``."""
        named = str(self.variant_options(name).get("model", self.study.base)) if self.study.variants else name
        return self.sources.get(class_name(named), named)

    def variant_options(self, name: str) -> dict[str, Any]:
        """Return the options that a variant sets; none for a model."""
        return self.study.variants.get(name, {})

    def files_of(self, name: str) -> list[Mapping[str, Any]]:
        """Return the files that hold for a model: those that name no model, several, or it; then its variant."""
        model, files = self.model_of(name), []
        for options in map(read_options, self.config_files):
            about = options.get("model", "")
            if not about or isinstance(about, list) or name_of(about, model):
                files.append(options)
        return files + ([self.variant_options(name)] if self.study.variants else [])

    def options_beside(self, name: str, rules: dict[str, Any]) -> dict[str, Any]:
        """Return the options, without those that ``rules`` or the variant decide."""
        decided = {*rules, *self.variant_options(name)}
        return {option: value for option, value in self.options.items() if option not in decided}

    def config(self, model: str, rules: dict[str, Any]) -> Config:
        """Return RecBole's configuration of a model.

        Args:
            model: one of ``models``.
            rules: options that win over all others; no texts, which RecBole would evaluate.

        Raises:
            UserError: the options have mistakes.
        """
        options = {**rules, **self.options_beside(model, rules)}
        layers = Layers(files=tuple(self.files_of(model)), options=options)
        with silence():  # a comparison says each thing once, for all models and seeds
            return PluginConfig(self.model_of(model), self.dataset, layers)

    def options_of(self, model: str) -> set[str]:
        """Return the names of the options that the user gave a model."""
        return {*self.options}.union(*self.files_of(model))

    def rules_of(self, model: str, rules: dict[str, Any], seed: int) -> dict[str, Any]:
        """Return the rules for one run: with its seed, its other columns than the interactions, and its end."""
        columns = [options.get("load_col") or {} for options in self.files_of(model)]
        more = {source: names for loaded in columns for source, names in loaded.items() if source != "inter"}
        endless = (
            {} if self.budget is None else dict.fromkeys({"epochs", "stopping_step"} - self.options_of(model), NO_END)
        )
        return {**rules, "load_col": {**rules["load_col"], **more}, "seed": seed, **endless}

    def rules(self, reference: Config, few: bool) -> dict[str, Any]:
        """Return the options that all runs share, in place of the models' defaults.

        Args:
            reference: BERT4Rec's configuration on these data.
            few: whether some users have too few interactions for some models; they are dropped for all.

        Raises:
            UserError: the protocol is not one that all models can follow.
        """
        split = reference["eval_args"]["split"]
        if not _has_one_target(split) or reference["eval_args"].get("order") != "TO":
            raise UserError(
                "models are compared by leave-one-out in the order of time, or at one moment with one target a user "
                f"(protocol-global-time.yaml), but `eval_args` asks for {reference['eval_args']}; leave split and "
                "order out"
            )
        if reference["benchmark_filename"]:
            raise UserError("models cannot be compared on benchmark files; give the whole log and let RecBole split it")
        for name in SINGLE_RUN:
            if reference[name] is not None:
                raise UserError(f"`{name}` is for a single run; leave it out of a comparison")
        for name, value in (("eval_step", reference["eval_step"]), ("epochs", most_epochs(reference))):
            if value < 1:
                raise UserError(f"`{name}` must be at least 1: models are selected on validation")
        mode = reference["eval_args"]["mode"]
        same = {name: reference[name] for name in SAME_IN_COMPARISON}
        rules = {"eval_args": {"split": split, "order": "TO", "group_by": "user", "mode": mode}, "show_progress": False}
        if mode != {"valid": "full", "test": "full"}:
            rules["candidates"] = "paper"  # the same for every model, at every evaluation
        if few:
            rules["user_inter_num_interval"] = at_least(LEAST_INTERACTIONS, reference["user_inter_num_interval"])
        return {**same, **rules}

    def check_metrics(self, reference: Config) -> None:
        """Refuse metrics that a ranking with one target does not have.

        Raises:
            UserError: the options name such a metric.
        """
        known = {"hit", "recall", "ndcg", "mrr", "precision", "map"}
        strange = [name for name in reference["metrics"] if name.lower() not in known]
        if strange:
            raise UserError(f"models are compared by {sorted(known)}; leave `metrics` {strange} out")


def _has_one_target(split: object) -> bool:
    """Tell whether a split gives each user of an evaluation one target."""
    return split == {"LS": "valid_and_test"} or (isinstance(split, dict) and set(split) == {"GT"})


def name_of(names: str, model: str) -> bool:
    """Return whether a text names several models or this one."""
    return "," in str(names) or class_name(str(names)) == class_name(model)


def is_general(config: Config) -> bool:
    """Return whether a model ignores the order of items; RecBole then uses another data set and split."""
    return bool(config["MODEL_TYPE"] != ModelType.SEQUENTIAL)


def at_least(least: int, interval: str | None) -> str:
    """Return RecBole's ``user_inter_num_interval`` without the numbers below ``least``."""
    parts = [part.strip() for part in str(interval or "[0,inf)").split(";")]
    kept = []
    for part in parts:
        match = re.fullmatch(r"[\[(]\s*([^,]+),\s*([^,\])]+)([\])])", part)
        if match is None:
            raise UserError(f"`user_inter_num_interval`: {interval!r} is no interval such as [5,inf)")
        low, high, bracket = float(match[1]), float(match[2]), match[3]
        if low >= least:
            kept.append(part)
        elif high >= least:
            kept.append(f"[{least},{match[2]}{bracket}")
    if not kept:
        raise UserError(f"`user_inter_num_interval` {interval!r} leaves no user with {least} interactions or more")
    return ";".join(kept)


def reference_config(comparison: Comparison) -> Config:
    """Return BERT4Rec's configuration on the data, from which the protocol is taken; BERT4Rec need not take part."""
    return replace(comparison, study=Study()).config(MODEL_NAME, {"show_progress": False})
