"""Every metric in every evaluation mode equals RecBole's own, computed by RecBole's code from our scores."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from recbole.data.dataloader import FullSortEvalDataLoader
from recbole.evaluator import Collector, Evaluator
from recbole.trainer import Trainer

from tests.helpers.runs import make_config, make_trainer, prepare

METRICS = ["Hit", "NDCG", "MRR", "Recall", "Precision", "MAP", "ItemCoverage", "GiniIndex", "AveragePopularity"]
METRICS += ["TailPercentage", "ShannonEntropy"]
COLUMNS = {"inter": ["user_id", "item_id", "timestamp"]}
SPLITS = [{"LS": "valid_and_test"}, {"RS": [0.5, 0.25, 0.25]}, {"TS": [0.6, 0.2, 0.2]}]


def setting(write_inter: Any, **options: Any) -> dict[str, Any]:
    draw = random.Random(3)
    rows = [(f"u{u}", f"i{draw.randrange(40)}", draw.randrange(100)) for u in range(50) for _ in range(5 + u % 9)]
    return {**write_inter(rows), "topk": [1, 3, 10], "metric_decimal_place": 10, "eval_batch_size": 16, **options}


def with_spread_scores(config: Any, train: Any) -> Any:
    """A trainer whose model, though untrained, ranks histories differently."""
    trainer = make_trainer(config, train)
    with torch.no_grad():
        for weight in trainer.model.parameters():
            weight.add_(0.3 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(weight.numel())))
    trainer.eval_collector.data_collect(train)
    return trainer


def by_recbole(config: Any, trainer: Any, loader: Any, train: Any) -> dict[str, float]:
    """RecBole's loop: its loader's rows, its handling of scores, its collector, its metrics."""
    trainer.model.eval()
    trainer.tot_item_num = loader.dataset.item_num
    collector = Collector(config)
    collector.data_collect(train)
    full = isinstance(loader, FullSortEvalDataLoader)
    evaluate = Trainer._full_sort_batch_eval if full else Trainer._neg_sample_batch_eval
    with torch.no_grad():
        for batch in loader:
            interaction, scores, positive_u, positive_i = evaluate(trainer, batch)
            collector.eval_batch_collect(scores, interaction, positive_u, positive_i)
    return dict(Evaluator(config).evaluate(collector.get_data_struct()))


@pytest.mark.parametrize(
    ("mode", "split", "metrics"),
    [
        *(("full", split, METRICS) for split in SPLITS),
        *(("uni25", split, METRICS) for split in SPLITS[:2]),
        ("pop25", SPLITS[0], METRICS),
        *((mode, SPLITS[0], ["GAUC", "NDCG"]) for mode in ("full", "uni12")),  # GAUC is of all scores
    ],
    ids=str,
)
def test_all_metrics_equal_recboles(mode: str, split: dict[str, Any], metrics: list[str], write_inter: Any) -> None:
    arguments = {"split": split, "order": "TO", "group_by": "user", "mode": mode}
    options = setting(write_inter, metrics=metrics, valid_metric="NDCG@10", eval_args=arguments)
    config = make_config("BERT4Rec", **options)
    _, train, _, test = prepare(config)
    stock_test = prepare(make_config("SASRec", **options))[3]
    trainer = with_spread_scores(config, train)
    np.random.seed(1)
    ours = trainer.evaluate(test, load_best_model=False)
    np.random.seed(1)
    assert dict(ours) == by_recbole(config, trainer, stock_test, train)
    assert 0 < ours["gauc" if "GAUC" in metrics else "hit@10"] < 1


def naive_metrics(trainer: Any, test: Any, k: int = 10) -> tuple[float, float]:
    """HR@k and NDCG@k without the items seen before, history by history, score by score."""
    dataset, model = test.dataset, trainer.model.eval()
    hits, gains = [], []
    for row in range(len(dataset)):
        rows = dataset[np.array([row])]
        with torch.no_grad():
            scores = model.full_sort_predict(rows)[0].tolist()
        user, target = int(rows["user_id"]), int(rows["item_id"])
        begin, position = int(dataset.sequences.offsets[user]), int(rows["target_position"])
        left_out = {0, *dataset.sequences.items[begin:position].tolist()} - {target}
        better = sum(score > scores[target] for item, score in enumerate(scores) if item not in left_out)
        hits.append(better < k)
        gains.append(1 / np.log2(better + 2) if better < k else 0.0)
    return float(np.mean(hits)), float(np.mean(gains))


@pytest.mark.parametrize("split", SPLITS, ids=str)
def test_full_ranking_of_what_was_not_seen_equals_a_naive_loop(split: dict[str, Any], write_inter: Any) -> None:
    arguments = {"split": split, "order": "TO", "group_by": "user", "mode": "full"}
    config = make_config("BERT4Rec", exclude_seen=True, eval_args=arguments, **setting(write_inter))
    _, train, _, test = prepare(config)
    trainer = with_spread_scores(config, train)
    ours = trainer.evaluate(test, load_best_model=False)
    assert (ours["hit@10"], ours["ndcg@10"]) == pytest.approx(naive_metrics(trainer, test), abs=1e-9)


def test_candidates_seen_before_are_out_of_the_ranking_but_never_a_target(write_inter: Any) -> None:
    arguments = {"split": SPLITS[0], "order": "TO", "group_by": "user", "mode": "uni30"}
    results = []
    for exclude_seen in (False, True):
        config = make_config("BERT4Rec", exclude_seen=exclude_seen, eval_args=arguments, **setting(write_inter))
        _, train, _, test = prepare(config)
        trainer = with_spread_scores(config, train)
        trainer.model.eval()
        hits = []
        np.random.seed(2)
        for rows, (_, candidates), *_ in test:
            scores = trainer.model.full_sort_predict(rows)
            seen = test.dataset.sequences.seen(rows["user_id"], rows["target_position"])
            removed = set(zip(*(t.tolist() for t in seen), strict=True)) if exclude_seen else set()
            for row, (target, *others) in enumerate(candidates.tolist()):
                rivals = {item for item in others if (row, item) not in removed} - {target}
                hits.append(sum(scores[row, rival] > scores[row, target] for rival in rivals) < 3)
        np.random.seed(2)
        results.append(trainer.evaluate(test, load_best_model=False))
        assert results[-1]["hit@3"] == pytest.approx(np.mean(hits), abs=1e-9)
    assert results[1]["mrr@10"] > results[0]["mrr@10"]


def test_labelled_rows_are_judged_by_sigmoid_scores(write_inter: Any) -> None:
    draw = random.Random(4)
    header = "user_id:token\titem_id:token\ttimestamp:float\trating:float"
    rows = [(f"u{u}", f"i{draw.randrange(30)}", t, draw.randrange(1, 6)) for u in range(40) for t in range(6)]
    options = {**write_inter(rows, header=header), "load_col": {"inter": [*COLUMNS["inter"], "rating"]}}
    options |= {"threshold": {"rating": 3}, "metrics": ["AUC", "LogLoss"], "valid_metric": "AUC"}
    arguments = {"split": SPLITS[0], "order": "TO", "group_by": "user", "mode": "labeled"}
    config = make_config("BERT4Rec", metric_decimal_place=10, eval_args=arguments, **options)
    _, train, _, test = prepare(config)
    trainer = with_spread_scores(config, train)
    ours = trainer.evaluate(test, load_best_model=False)
    interaction = test.dataset[np.arange(len(test.dataset))]
    label, found = interaction["label"].double(), torch.sigmoid(trainer.model.predict(interaction)).detach().double()
    wins = (found[label == 1][:, None] > found[label == 0]).double().mean()
    assert ours["auc"] == pytest.approx(float(wins), abs=1e-6)
    assert ours["logloss"] == pytest.approx(float(F.binary_cross_entropy(found, label)), abs=1e-6)


def candidates_of(batch: Any) -> list[tuple[int, list[int]]]:
    rows, second, *_ = batch
    if isinstance(second, tuple):
        return [(user, items[1:]) for user, items in zip(rows["user_id"].tolist(), second[1].tolist(), strict=True)]
    users, items = rows["user_id"], rows["item_id"]
    return [(user, items[users == user].tolist()[1:]) for user in users.unique().tolist()]


@pytest.mark.parametrize("mode", ["uni9", "pop9"])
def test_paper_candidates_are_no_items_of_the_user_distinct_drawn_for_each_anew_and_the_same_for_every_model(
    mode: str, write_inter: Any
) -> None:
    draw = random.Random(3)
    rows = [(f"u{u}", f"i{draw.randrange(60)}", t) for u in range(50) for t in range(5 + u % 9)]
    rows += [(f"alike{u}", f"i{t}", t) for u in range(12) for t in range(5)]
    rows += [(f"once{n}", f"i{n % 3}", n) for n in range(300)]  # they count for what is popular
    drawn: dict[int, list[int]] = {}
    for seed, model in enumerate(("BERT4Rec", "SASRec", "Pop")):
        arguments = {"split": SPLITS[0], "order": "TO", "group_by": "user", "mode": mode}
        arguments = arguments if model == "Pop" else {"mode": mode}  # sequential models' gaps are filled with LS and TO
        options = {**setting(write_inter, eval_args=arguments, candidates="paper"), **write_inter(rows)}
        dataset, _, _, test = prepare(make_config(model, load_col=COLUMNS, **options))
        np.random.seed(seed)  # nothing is taken from here
        own, users = dataset.inter_matrix("csr"), set(drawn)
        for batch in [*test, *test]:
            for user, items in candidates_of(batch):
                assert not set(items) & set(own[user].indices)
                assert len(set(items)) == len(items) == 9
                assert model == "Pop" or not users or user in users
                assert drawn.setdefault(user, items) == items  # again the same
        alike = {dataset.token2id("user_id", f"alike{u}") for u in range(12)}
        assert len({frozenset(drawn[user]) for user in alike}) == 12
