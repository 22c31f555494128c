"""The training loop: schedule, weight decay, checkpoints, resuming, seen items, what RecBole reaches into."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from recbole.data.interaction import Interaction
from recbole.data.utils import load_split_dataloaders
from recbole.utils.case_study import full_sort_topk

from recbole_bert4rec.data.cloze import cloze
from recbole_bert4rec.errors import UserError
from recbole_bert4rec.plugin import checkpoint
from tests.conftest import make_config, make_trainer, prepare

ROWS = [(f"u{u}", f"i{(u * t + t) % 23}", t) for u in range(1, 31) for t in range(3 + u % 12)]
SMALL = {"hidden_size": 16, "inner_size": 32, "train_batch_size": 4, "MAX_ITEM_LIST_LENGTH": 8, "warmup_steps": 5}


@pytest.fixture
def options(write_inter: Any) -> dict[str, Any]:
    return {**SMALL, **write_inter(ROWS)}


def start(**options: Any) -> tuple[Any, Any, Any, Any]:
    config = make_config(**options)
    _, train, valid, test = prepare(config)
    return make_trainer(config, train), train, valid, test


def weights(trainer: Any) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in trainer.model.state_dict().items()}


def equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize(
    ("schedule", "wanted"),
    [
        ("constant", [0.2, 0.4, 0.6, 0.8, 1.0, 1.0, 1.0, 1.0]),
        ("linear", [0.2, 0.4, 0.6, 0.8, 1.0, 1.0, 0.8, 0.6]),
        ("cosine", [0.2, 0.4, 0.6, 0.8, 1.0, 1.0, 0.904508, 0.654508]),
    ],
)
def test_the_learning_rate_warms_up_then_follows_its_schedule(
    options: dict, schedule: str, wanted: list[float]
) -> None:
    trainer, *_ = start(**options, lr_schedule=schedule, learning_rate=1.0)
    trainer.total_steps = 55
    assert [trainer.learning_rate_at(step) for step in (0, 1, 2, 3, 4, 5, 15, 25)] == pytest.approx(wanted, abs=1e-6)
    if schedule != "constant":
        assert trainer.learning_rate_at(55) == pytest.approx(0.0)


def test_the_warm_up_takes_a_tenth_of_a_short_run_at_most(options: dict) -> None:
    trainer, *_ = start(**{**options, "warmup_steps": 200}, learning_rate=1.0)
    trainer.total_steps = 40
    assert [trainer.learning_rate_at(step) for step in range(4)] == [0.25, 0.5, 0.75, 1.0]
    assert trainer.learning_rate_at(39) < 0.01


def test_the_optimizer_takes_the_scheduled_rate_and_ends_near_zero(options: dict) -> None:
    trainer, train, valid, _ = start(**options, epochs=4)
    trainer.fit(train, valid, verbose=False, saved=False)
    steps = 4 * len(train)
    assert trainer.step_count == steps
    assert {group["lr"] for group in trainer.optimizer.param_groups} == {trainer.learning_rate_at(steps - 1)}
    assert 0 < trainer.learning_rate_at(steps - 1) < 0.02 * trainer.learning_rate


def test_weight_decay_spares_layer_norms_and_biases(options: dict) -> None:
    trainer, *_ = start(**options, weight_decay=0.3)
    decayed, spared = trainer.optimizer.param_groups
    names = {id(p): n for n, p in trainer.model.named_parameters()}
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.3, 0.0)
    assert all("norm" in names[id(p)] or names[id(p)].endswith("bias") for p in spared["params"])
    assert all(names[id(p)].endswith("weight") and p.dim() == 2 for p in decayed["params"])
    assert len(decayed["params"]) + len(spared["params"]) == len(names)


@pytest.mark.parametrize("learner", ["adam", "adamw", "sgd", "adagrad", "rmsprop"])
def test_every_learner_of_recbole_trains(options: dict, learner: str) -> None:
    trainer, train, *_ = start(**options, learner=learner)
    before = weights(trainer)
    trainer._train_epoch(train, 0)
    assert type(trainer.optimizer).__name__.lower() == learner
    assert not equal(before, weights(trainer))


def test_the_same_seed_gives_the_same_result_bit_for_bit_twice(options: dict) -> None:
    results = []
    for _ in range(2):
        trainer, train, valid, test = start(**options, epochs=3)
        results.append((trainer.fit(train, valid, verbose=False), trainer.evaluate(test), weights(trainer)))
    assert results[0][:2] == results[1][:2]
    assert equal(results[0][2], results[1][2])
    other, train, valid, _ = start(**options, epochs=3, seed=7)
    other.fit(train, valid, verbose=False)
    assert not equal(results[0][2], weights(other))


@pytest.mark.parametrize(
    "more",
    [{}, {"loss_type": "sampled_softmax", "negatives": "popularity", "sparse_update": True}, {"ema_decay": 0.9}],
    ids=str,
)
def test_a_resumed_run_ends_where_an_uninterrupted_one_does(options: dict, more: dict) -> None:
    options = {**options, **more}
    whole, train, valid, _ = start(**options, epochs=6, stopping_step=100)
    whole.fit(train, valid, verbose=False, saved=False)

    first, train, valid, _ = start(**options, epochs=6, stopping_step=100)
    for epoch in range(3):
        first._train_epoch(train, epoch)
        first._valid_epoch(valid)
    first.item_tokens = whole.item_tokens  # fit takes them from the data
    first._save_checkpoint(2, verbose=False)
    torch.rand(1000)  # whatever happened in between
    second, train, valid, _ = start(**options, epochs=6, stopping_step=100)
    second.resume_checkpoint(first.saved_model_file)
    assert second.start_epoch == 3
    second.fit(train, valid, verbose=False, saved=False)
    assert equal(weights(whole), weights(second))


def test_untouched_embeddings_are_decayed_by_the_end_of_an_epoch(options: dict) -> None:
    more = {"loss_type": "sampled_softmax", "n_negatives": 1, "sparse_update": True, "lr_schedule": "constant"}
    more |= {"weight_decay": 0.5, "warmup_steps": 0, "learning_rate": 0.01}
    trainer, train, *_ = start(**{**options, **more})
    table = trainer.model.encoder.item_embedding.weight
    table.data[0] = 1.0  # padding: no step touches it
    trainer._train_epoch(train, 0)
    torch.testing.assert_close(table[0], torch.full_like(table[0], (1 - 0.01 * 0.5) ** len(train)))


def test_a_checkpoint_made_before_an_option_existed_is_resumed(options: dict) -> None:
    trainer, train, valid, _ = start(**options, epochs=1)
    trainer.fit(train, valid, verbose=False)
    state = checkpoint.read(trainer.saved_model_file)
    del state["config"]["sparse_update"]
    checkpoint.write(trainer.saved_model_file, state)
    other, *_ = start(**options)
    other.resume_checkpoint(trainer.saved_model_file)
    assert other.start_epoch == 1


def test_the_moving_average_of_the_weights_is_what_is_ranked_with_and_kept(options: dict) -> None:
    trainer, train, valid, test = start(**options, ema_decay=0.7, epochs=2)
    parameter = trainer.model.encoder.head.weight
    mean, steps, after = parameter.detach().clone(), 0, trainer._after_step

    def watch(*arguments: Any) -> None:
        nonlocal mean, steps
        steps += 1
        decay = min(0.7, (1 + steps) / (10 + steps))
        mean = decay * mean + (1 - decay) * parameter.detach()
        after(*arguments)

    trainer._after_step = watch
    trainer._train_epoch(train, 0)
    trained = parameter.detach().clone()
    ranked_with = []
    rank = trainer.model.best_items
    trainer.model.best_items = lambda *a: (ranked_with.append(parameter.detach().clone()), rank(*a))[1]
    trainer._valid_epoch(valid)
    torch.testing.assert_close(ranked_with[0], mean)
    assert torch.equal(parameter, trained)  # training goes on from its own weights
    assert not torch.allclose(trained, mean, atol=1e-4)
    trainer.item_tokens = ["[PAD]", "x"]
    trainer._save_checkpoint(0, verbose=False)
    torch.testing.assert_close(checkpoint.read(trainer.saved_model_file)["state_dict"]["encoder.head.weight"], mean)
    trainer.evaluate(test)
    torch.testing.assert_close(ranked_with[-1], mean)
    trainer.evaluate(test, load_best_model=False)  # still the weights that were loaded
    torch.testing.assert_close(ranked_with[-1], mean)


@pytest.mark.parametrize(
    "change",
    [
        {"label_smoothing": 0.2},
        {"temperature": 0.1},
        {"mask_recency": 0.5},
        {"ft_prefix": True, "ft_ratio": 1.0},
        {"norm": "pre"},
        {"without": ["residual"]},
        {"without": ["projection"]},
        {"hidden_act": "swiglu"},
        {"position": "none"},
    ],
    ids=str,
)
def test_an_option_of_the_network_or_the_task_reaches_the_loss(options: dict, change: dict) -> None:
    values = []
    for more in ({key: change[key] for key in change if key == "ft_ratio"}, change):
        trainer, train, valid, _ = start(**{**options, **more}, epochs=1)
        trainer.model.eval()
        values.append(sum(trainer.model.calculate_loss(batch).item() for batch in train))
        trainer.fit(train, valid, verbose=False, saved=False)
    assert values[0] != values[1]


def test_an_epoch_shows_every_sequence_dupe_factor_times_each_masked_anew(options: dict) -> None:
    trainer, train, *_ = start(**options, dupe_factor=3)
    users = torch.cat([batch["user_id"] for batch in train])
    assert (users.bincount()[1:] == 3).all()
    assert len(train) == -(-3 * 30 // 4)
    seen: dict[int, set[tuple[int, ...]]] = {}
    generator = trainer.model._generator_on(torch.device("cpu"))
    for batch in train:
        masked = cloze(batch["item_id_list"], batch["item_length"], 99, generator, 0.5)
        for user, row in zip(batch["user_id"].tolist(), (masked.item_seq == 99).tolist(), strict=True):
            seen.setdefault(user, set()).add(tuple(row))
    assert sum(len(masks) > 1 for masks in seen.values()) > 20
    assert trainer._train_epoch(train, 0) > 0


def test_sparse_updates_are_refused_in_several_processes(options: dict) -> None:
    more = {"loss_type": "BCE", "sparse_update": True}
    _, train, *_ = start(**options)
    config = make_config(**{**options, **more})
    config["single_spec"] = False
    with pytest.raises(UserError, match="works in one process only"):
        make_trainer(config, train)


@pytest.mark.parametrize(
    ("loss_type", "change"),
    [
        ("sampled_softmax", {"n_negatives": 5}),
        ("sampled_softmax", {"negatives": "popularity"}),
        ("gBCE", {"gbce_t": 1.0}),
    ],
    ids=str,
)
def test_options_of_the_sampled_losses_reach_the_loss(options: dict, loss_type: str, change: dict) -> None:
    values = []
    for more in ({}, change):
        trainer, train, *_ = start(**{**options, "loss_type": loss_type, "n_negatives": 3, **more})
        trainer.model.eval()
        values.append(trainer.model.calculate_loss(next(iter(train))).item())
    assert values[0] != values[1]


def test_with_a_scaler_the_optimizer_is_not_fused(options: dict) -> None:
    trainer, *_ = start(**options)
    assert trainer.optimizer.defaults["fused"]
    trainer.enable_scaler = True
    assert not trainer._build_optimizer().defaults["fused"]


def test_the_best_epoch_is_loaded_for_the_test(options: dict) -> None:
    trainer, train, valid, test = start(**options, epochs=5)
    trainer.fit(train, valid, verbose=False)
    state = checkpoint.read(trainer.saved_model_file)
    for parameter in trainer.model.parameters():
        parameter.data.zero_()
    trainer.evaluate(test)
    assert equal(state["state_dict"], weights(trainer))
    again = trainer.evaluate(valid, load_best_model=False)
    assert dict(again) == state["best_valid_result"] == trainer.best_valid_result


def test_a_checkpoint_holds_what_recommending_needs_as_plain_values(options: dict) -> None:
    trainer, train, valid, _ = start(**options, epochs=1)
    trainer.fit(train, valid, verbose=False)
    state = torch.load(trainer.saved_model_file, weights_only=True)
    assert state["item_tokens"] == [str(t) for t in train._dataset.field2id_token["item_id"]]
    assert state["config"]["hidden_size"] == 16
    assert state["epoch"] == 0


def test_without_a_test_part_the_best_weights_are_loaded_all_the_same(options: dict) -> None:
    arguments = {"split": {"LS": "valid_only"}, "order": "TO", "mode": "full"}
    trainer, train, valid, test = start(**options, epochs=2, eval_args=arguments)
    trainer.fit(train, valid, verbose=False)
    best = checkpoint.read(trainer.saved_model_file)["state_dict"]
    for parameter in trainer.model.parameters():
        parameter.data.zero_()
    assert trainer.evaluate(test) is None
    assert equal(best, weights(trainer))


def test_resuming_a_finished_run_leaves_its_checkpoint_alone(options: dict) -> None:
    trainer, train, valid, _ = start(**options, epochs=1)
    done = trainer.fit(train, valid, verbose=False)
    before = Path(trainer.saved_model_file).read_bytes()
    again, train, valid, _ = start(**options, epochs=1)
    again.resume_checkpoint(trainer.saved_model_file)
    assert again.fit(train, valid, verbose=False) == done
    assert Path(trainer.saved_model_file).read_bytes() == before


def test_a_checkpoint_of_another_network_or_catalogue_is_not_resumed(options: dict, write_inter: Any) -> None:
    trainer, train, valid, _ = start(**options, epochs=1)
    trainer.fit(train, valid, verbose=False)
    other, *_ = start(**{**options, "hidden_size": 8})
    with pytest.raises(UserError, match="was trained with hidden_size 16, not 8"):
        other.resume_checkpoint(trainer.saved_model_file)
    more = write_inter([*ROWS, ("u1", "one more", 99)], name="more")
    other, *_ = start(**{**options, **more})
    with pytest.raises(UserError, match=r"was trained on \d+ items, but the data set has \d+; train anew"):
        other.resume_checkpoint(trainer.saved_model_file)
    renamed = write_inter([(user, f"x{item}", time) for user, item, time in ROWS], name="renamed")
    other, train, valid, _ = start(**{**options, **renamed}, epochs=2)
    other.resume_checkpoint(trainer.saved_model_file)
    with pytest.raises(UserError, match="was trained on other items than those of 'renamed'"):
        other.fit(train, valid, verbose=False)


def test_a_checkpoint_is_ranked_by_another_protocol_but_not_trained_on_by_it(options: dict) -> None:
    trainer, train, valid, _ = start(**options, epochs=2)
    trainer.fit(train, valid, verbose=False)
    before = Path(trainer.saved_model_file).read_bytes()
    for changed, words in (
        ({"popularity_discount": 1.0}, "chose its best epoch with popularity_discount 0.0, not 1.0"),
        ({"exclude_seen": True}, "exclude_seen False, not True"),
        ({"eval_args": {"mode": "uni5"}}, "eval_args "),
    ):
        other, *_ = start(**{**options, **changed}, epochs=9)
        with pytest.raises(UserError, match=f"{words}.*--epochs=1"):
            other.resume_checkpoint(trainer.saved_model_file)
        other, *_ = start(**{**options, **changed}, epochs=1)
        other.resume_checkpoint(trainer.saved_model_file)
    assert Path(trainer.saved_model_file).read_bytes() == before


def test_a_pickled_checkpoint_is_refused(options: dict, tmp_path: Path) -> None:
    trainer, _, valid, _ = start(**options)
    torch.save({"state_dict": trainer.model.state_dict(), "config": trainer.config}, tmp_path / "theirs.pth")
    with pytest.raises(ValueError, match=r"theirs\.pth is not a checkpoint of recbole_bert4rec"):
        trainer.evaluate(valid, model_file=str(tmp_path / "theirs.pth"))


def test_two_trainers_of_one_second_have_checkpoints_of_their_own(options: dict) -> None:
    names = {start(**options)[0].saved_model_file for _ in range(3)}
    assert len(names) == 3


@pytest.mark.parametrize("seen_bias", [False, True])
def test_predict_scores_like_the_full_ranking(options: dict, seen_bias: bool) -> None:
    trainer, _, valid, _ = start(**options, seen_bias=seen_bias)
    if seen_bias:
        trainer.model.seen_bias.data.fill_(-3.0)
    trainer.model.eval()
    rows = valid._dataset[np.arange(len(valid._dataset))]
    with torch.no_grad():
        full = trainer.model.full_sort_predict(rows)
        pairs = Interaction({**rows.repeat(3).interaction, "item_id": torch.arange(3 * len(rows)) % 20 + 1})
        single = trainer.model.predict(pairs)
    wanted = full.repeat(3, 1)[torch.arange(3 * len(rows)), pairs["item_id"]]
    torch.testing.assert_close(single, wanted, atol=1e-5, rtol=1e-5)


def test_seen_bias_moves_the_scores_of_the_items_in_the_input_alone(options: dict) -> None:
    trainer, _, valid, _ = start(**options, seen_bias=True)
    rows = valid._dataset[np.arange(len(valid._dataset))]
    trainer.model.eval()
    with torch.no_grad():
        before = trainer.model.full_sort_predict(rows)
        trainer.model.seen_bias.fill_(-2.0)
        moved = trainer.model.full_sort_predict(rows) - before
    for row, length in enumerate(rows["item_length"].tolist()):
        shown = set(rows["item_id_list"][row, max(0, length - 7) : length].tolist())
        wanted = torch.tensor([-2.0 if item in shown else 0.0 for item in range(1, moved.shape[1])])
        torch.testing.assert_close(moved[row, 1:], wanted, atol=1e-5, rtol=0)


def test_popularity_discount_moves_every_way_to_rank_by_the_training_counts(options: dict) -> None:
    plain, train, valid, _ = start(**options)
    discounted, *_ = start(**options, popularity_discount=0.7)
    discounted.model.load_state_dict(plain.model.state_dict())  # the discount is no weight
    rows = valid._dataset[np.arange(len(valid._dataset))]
    _, begins, lengths = train._dataset.slices()
    items = train._dataset.sequences.items
    shown = torch.cat([items[b : b + n] for b, n in zip(begins.tolist(), lengths.tolist(), strict=True)])
    wanted = -0.7 * torch.log(torch.bincount(shown, minlength=plain.model.n_items) + 1.0)
    for trainer in (plain, discounted):
        trainer.model.eval()
    with torch.no_grad():
        before, after = (trainer.model.full_sort_predict(rows) for trainer in (plain, discounted))
        torch.testing.assert_close(after - before, wanted.expand_as(after))
        torch.testing.assert_close(discounted.model.predict(rows), after.gather(1, rows["item_id"][:, None])[:, 0])
        nothing = torch.empty(0, dtype=torch.int64)
        scores, best = discounted.model.best_items(rows, 3, (nothing, nothing))
        torch.testing.assert_close(scores, after[:, 1:].topk(3).values)
        torch.testing.assert_close(after.gather(1, best), scores)
        batch = next(iter(train))
        losses = [trainer.model.calculate_loss(batch) for trainer in (plain, discounted)]
    assert losses[0] == losses[1]  # training does not know of it


def test_the_discount_may_be_chosen_when_a_checkpoint_is_ranked(options: dict) -> None:
    trainer, train, valid, _ = start(**options, epochs=1)
    trainer.fit(train, valid, show_progress=False)
    again, train, valid, _ = start(**options, epochs=1, popularity_discount=30.0)
    again.resume_checkpoint(trainer.saved_model_file)
    assert equal(weights(trainer), weights(again))
    score, result = again.fit(train, valid, show_progress=False)
    assert result == again.evaluate(valid, load_best_model=False)
    assert score != trainer.best_valid_score


@pytest.mark.parametrize("change", [{"valid_users": None}, {"valid_users": 9}, {"valid_users": 10, "seed": 7}], ids=str)
def test_what_was_trained_is_not_validated_on_after_resuming(options: dict, change: dict) -> None:
    trainer, train, valid, _ = start(**options, epochs=1, valid_users=10)
    trainer.fit(train, valid, show_progress=False)
    again, *_ = start(**{**options, "epochs": 2, "valid_users": 10, **change})
    with pytest.raises(UserError, match=r"valid_users|seed"):
        again.resume_checkpoint(trainer.saved_model_file)


def test_valid_users_are_as_many_as_wanted_and_the_others_train_their_validation_item(options: dict) -> None:
    _, train, valid, test = start(**options)
    _, some_train, some_valid, some_test = start(**options, valid_users=10, seed=3)
    held_out = dict(zip(*(valid._dataset.inter_feat[f].tolist() for f in ("user_id", "item_id")), strict=True))
    kept = dict(zip(*(some_valid._dataset.inter_feat[f].tolist() for f in ("user_id", "item_id")), strict=True))
    assert len(kept) == 10
    assert kept.items() < held_out.items()
    lengths, more = (
        dict(zip(*map(torch.Tensor.tolist, part._dataset.slices()[::2]), strict=True)) for part in (train, some_train)
    )
    for user, length in more.items():
        before = lengths.get(user, 0)
        assert length == before + (user in held_out and user not in kept)
    assert torch.equal(test._dataset.inter_feat["item_id"], some_test._dataset.inter_feat["item_id"])
    with pytest.raises(UserError, match="`valid_users` is 99, but only 28 users"):
        start(**options, valid_users=99)


@pytest.mark.parametrize("mode", ["full", "uni5"])
@pytest.mark.parametrize("metrics", [["NDCG"], ["NDCG", "GAUC"]], ids=str)
@pytest.mark.parametrize("bias", [-1.5, 1.5])
def test_a_negative_seen_bias_moves_all_of_the_history_in_rankings_and_a_positive_one_the_window_alone(
    options: dict, mode: str, metrics: list[str], bias: float
) -> None:
    arguments = {"split": {"LS": "valid_and_test"}, "order": "TO", "group_by": "user", "mode": mode}
    options |= {"eval_args": arguments, "candidates": "paper", "topk": [1, 10], "metrics": metrics}
    options |= {"MAX_ITEM_LIST_LENGTH": 3, "valid_metric": "NDCG@1", "seen_bias": True, "metric_decimal_place": 8}
    trainer, _, _, test = start(**options)
    model = trainer.model.eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn(weight.shape))
        model.seen_bias.fill_(bias)
        found = trainer.evaluate(test, load_best_model=False)["ndcg@10"]
        gains, older = [], 0
        for rows, *rest in test:
            candidates = rest[0][1] if mode != "full" else [None] * len(rows)
            for row, own in enumerate(candidates):
                before, scores = scores_by_history(trainer.model, test._dataset, rows[row : row + 1])
                older += before
                target = int(rows["item_id"][row])
                rivals = list(range(1, len(scores))) if own is None else own.tolist()
                rank = sum(bool(scores[rival] > scores[target]) for rival in rivals)
                gains.append(1 / math.log2(rank + 2) if rank < 10 else 0.0)
    assert older > 20
    assert found == pytest.approx(np.mean(gains), abs=1e-6)


def scores_by_history(model: Any, dataset: Any, row: Any) -> tuple[int, torch.Tensor]:
    """How many items of the history the window does not show, and the scores with them moved, too."""
    user, position = int(row["user_id"]), int(row["target_position"])
    history = dataset.sequences.items[int(dataset.sequences.offsets[user]) : position].tolist()
    older = set(history) - set(history[-2:])  # beside [MASK]
    scores = model.full_sort_predict(row)[0]
    for item in older:
        scores[item] += model.seen_bias.clamp(max=0)
    return len(older), scores


def test_seen_bias_is_learnt_where_nobody_repeats_an_item(write_inter: Any) -> None:
    rows = [(f"u{u}", f"i{(u * 3 + t * t) % 31}", t) for u in range(60) for t in range(5)]
    trainer, train, *_ = start(**{**SMALL, **write_inter(rows)}, seen_bias=True, learning_rate=0.02)
    for epoch in range(5):
        trainer._train_epoch(train, epoch)
    assert trainer.model.seen_bias < -0.3
    spared = trainer.optimizer.param_groups[1]["params"]
    assert any(parameter is trainer.model.seen_bias for parameter in spared)


def test_a_batch_scores_like_single_rows(options: dict) -> None:
    trainer, _, valid, _ = start(**options)
    trainer.model.eval()
    rows = valid._dataset[np.arange(len(valid._dataset))]
    with torch.no_grad():
        together = trainer.model.full_sort_predict(rows)
        alone = torch.cat([trainer.model.full_sort_predict(rows[[i]]) for i in range(len(rows))])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)


def test_recboles_case_study_works(options: dict) -> None:
    trainer, _, _, test = start(**options)
    users = test._dataset.inter_feat["user_id"][:3].tolist()
    scores, items = full_sort_topk(users, trainer.model, test, k=4)
    assert scores.shape == items.shape == (3, 4)
    assert (items > 0).all()


def test_saved_datasets_and_loaders_are_used_again(options: dict) -> None:
    loaders = "saved/toy-for-BERT4Rec-dataloader.pth"
    named = {"dataset_save_path": "saved/toy-BERT4RecDataset.pth", "dataloaders_save_path": loaders}
    first = prepare(make_config(**options, save_dataset=True, save_dataloaders=True))
    assert Path("saved/toy-BERT4RecDataset.pth").exists()
    config = make_config(**{**options, **named, "train_batch_size": 7})
    _, train, valid, _ = prepare(config)
    assert max(len(batch) for batch in train) == 7
    assert len(valid._dataset) == len(first[2]._dataset)
    make_trainer(config, train).fit(train, valid, verbose=False, saved=False)


def test_worker_processes_give_the_same_batches(options: dict) -> None:
    alone, helped = (prepare(make_config(**options, worker=workers))[1] for workers in (0, 2))
    for a, b in zip(alone, helped, strict=True):
        assert torch.equal(a["item_id_list"], b["item_id_list"])


def test_over_the_epochs_every_training_item_is_shown(options: dict) -> None:
    _, train, *_ = prepare(make_config(**{**options, "MAX_ITEM_LIST_LENGTH": 4}))
    sequences = train._dataset.sequences
    shown: dict[int, set[int]] = {}
    for _ in range(60):
        list(train)
        for user, begin, length in zip(train.users.tolist(), *(w.tolist() for w in train._windows), strict=True):
            shown.setdefault(user, set()).update(range(begin, begin + length))
    users, begin, length = train._dataset.slices()
    assert shown == {
        u: set(range(b, b + n)) for u, b, n in zip(users.tolist(), begin.tolist(), length.tolist(), strict=True)
    }
    held_out = {
        int(sequences.offsets[u + 1]) - 1 for u in users.tolist() if sequences.offsets[u + 1] - sequences.offsets[u] > 3
    }
    assert not held_out & set().union(*shown.values())


def test_window_last_shows_the_most_recent_training_items_each_epoch(options: dict) -> None:
    _, train, *_ = prepare(make_config(**{**options, "MAX_ITEM_LIST_LENGTH": 4}, window="last", shuffle=False))
    batches = [torch.cat([b["user_id"] for b in train]).tolist() for _ in range(2)]
    assert batches[0] == batches[1] == sorted(batches[0])
    _, begin, length = train._dataset.slices()
    first = next(iter(train))
    for row, (start_at, count) in enumerate(zip(begin.tolist(), length.tolist(), strict=True)):
        if row == len(first):
            break
        items = train._dataset.sequences.items[start_at : start_at + count].tolist()[-4:]
        assert first["item_id_list"][row].tolist()[: len(items)] == items


def test_sliding_windows_show_every_training_item_every_epoch(options: dict) -> None:
    sliding = {**options, "MAX_ITEM_LIST_LENGTH": 4, "window": "sliding"}
    _, train, *_ = prepare(make_config(**sliding))
    _, begin, length = train._dataset.slices()
    wanted = {p for b, n in zip(begin.tolist(), length.tolist(), strict=True) for p in range(b, b + n)}
    shown = set()
    for start_at, count in zip(train.begin.tolist(), train.length.tolist(), strict=True):
        assert count <= 4
        shown.update(range(start_at, start_at + count))
    assert shown == wanted
    assert sum(len(batch) for batch in train) == len(train.users) > len(begin)


def test_a_million_item_history_trains_and_is_recommended_to(write_inter: Any) -> None:
    rows = [("hermit", f"i{t % 50}", t) for t in range(1_000_000)] + [(f"u{u}", f"i{u}", u) for u in range(5)] * 4
    config = make_config(**write_inter(rows), epochs=1, window="sliding", train_batch_size=512, hidden_size=4)
    _, train, valid, _ = prepare(config)
    trainer = make_trainer(config, train)
    train_batches = len(train)
    assert train_batches == -(-len(train.users) // 512)
    assert trainer.evaluate(valid, load_best_model=False)["hit@10"] >= 0


def test_batches_by_tokens_train(options: dict) -> None:
    trainer, train, *_ = start(**options, batch_tokens=64)
    widths = [batch["item_id_list"].numel() for batch in train]
    assert max(widths) <= 64 < 2 * max(widths)
    assert np.isfinite(trainer._train_epoch(train, 0))


def test_the_padding_share_is_logged_once(options: dict, caplog: Any) -> None:
    with caplog.at_level("INFO"):
        prepare(make_config(**options))
    assert caplog.text.count("of their positions padding") == 1


@pytest.mark.parametrize(
    "change",
    [
        {"window": "sliding"},
        {"prop_sliding_window": 0.9},
        {"batch_tokens": 50},
        {"candidates": "paper"},
        {"dupe_factor": 3},
        {"valid_users": 9},
    ],
    ids=str,
)
def test_saved_loaders_made_with_other_options_are_not_used_again(options: dict, change: dict) -> None:
    prepare(make_config(**options, save_dataloaders=True))
    named = {**options, "dataloaders_save_path": "saved/toy-for-BERT4Rec-dataloader.pth"}
    assert load_split_dataloaders(make_config(**named)) is not None
    assert load_split_dataloaders(make_config(**named, **change)) is None
