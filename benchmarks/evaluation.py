"""Seconds of an evaluation on ml-100k: full ranking and 100 candidates, ours and RecBole's, each its own model."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import Any

sys.argv, ARGUMENTS = sys.argv[:1], sys.argv[1:]  # RecBole reads the command line

import recbole_bert4rec  # noqa: E402

recbole_bert4rec.register()  # before functions of RecBole are imported by name

from recbole.config import Config  # noqa: E402
from recbole.data import create_dataset, data_preparation  # noqa: E402
from recbole.utils import get_model, get_trainer, init_seed  # noqa: E402
from records import machine, write_tables  # noqa: E402

from recbole_bert4rec.system.environment import environment, suppress_dependency_warnings  # noqa: E402

CONTESTANTS = {"BERT4Rec": "ours", "RecBoleBERT4Rec": "RecBole BERT4Rec"}
MODES = ("full", "uni100", "pop100")


def prepare(model: str, mode: str) -> tuple[Any, Any]:
    """A trainer of an untrained model and the validation part of ml-100k."""
    arguments = {"split": {"LS": "valid_and_test"}, "order": "TO", "group_by": "user", "mode": mode}
    options: dict[str, Any] = {"eval_args": arguments, "state": "error", "show_progress": False}
    options |= {"MAX_ITEM_LIST_LENGTH": 50, "use_gpu": False}
    if model != "BERT4Rec":
        options["eval_batch_size"] = 4096  # RecBole's default
    config = Config(model, "ml-100k", config_dict=options)
    init_seed(config["seed"], config["reproducibility"])
    train, valid, _ = data_preparation(config, create_dataset(config))
    trainer = get_trainer(config["MODEL_TYPE"], model)(config, get_model(model)(config, train._dataset))
    trainer.eval_collector.data_collect(train)
    return trainer, valid


def seconds(model: str, repeats: int) -> dict[str, float]:
    """Median seconds of one evaluation in each mode, the modes in turn.

    A first round is dropped as warm-up; with ``repeats`` 0 it is the one that counts.
    """
    ready = {mode: prepare(model, mode) for mode in MODES}
    times: dict[str, list[float]] = {mode: [] for mode in MODES}
    for _ in range(repeats + 1):
        for mode, (trainer, valid) in ready.items():
            begin = time.perf_counter()
            trainer.evaluate(valid, load_best_model=False)
            times[mode].append(time.perf_counter() - begin)
    return {mode: statistics.median(taken[1:] or taken) for mode, taken in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--only_ours", action="store_true", help="leave out RecBole's model, which takes minutes")
    options = parser.parse_args(ARGUMENTS)
    suppress_dependency_warnings()
    rows = []
    contestants = {"BERT4Rec": "ours"} if options.only_ours else CONTESTANTS
    for model, label in contestants.items():
        times = seconds(model, options.repeats if model == "BERT4Rec" else 0)
        for mode, taken in times.items():
            rows.append(
                {"model": label, "mode": mode, "seconds": f"{taken:.2f}", "to full": f"{taken / times['full']:.2f}"}
            )
            print(rows[-1], flush=True)
    note = "943 users; median, RecBole's candidates once; N 50, d 64. `to full`: over the same model's full ranking."
    write_tables("evaluation_ml-100k", machine(environment()), rows, note)


if __name__ == "__main__":
    main()
