"""The BERT4Rec paper's Tables 3, 4 and 5 and Figures 3 and 4 on ml-1m or beauty, each as a study of this package.

The model is BERT4Rec with the options that ``table_2.py`` chose, which must have run its search. SASRec in Table 3 has
those that were chosen for it. Positions are relative, with which BERT4Rec learns in fewer epochs; the paper's are a
variant of the ablation.

Variants train for equally many epochs. Where an epoch does not show them equally much (Tables 3 and 4), they train for
equally long. In either, the learning rate of BERT4Rec falls to 0. Each is tested once among the paper's 100
candidates, with one thread, so the two data sets can run side by side on two cores.

Reports go to ``results/DATASET-STUDY``, and the paper's figures beside ours to ``paper_studies_DATASET.md``. The same
command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import yaml
from paper import TABLE_3, TABLE_4, TABLE_5, USERS
from records import ROOT, command, machines, run_records, write_page
from table_2 import folder_of, parser_of, run

from recbole_bert4rec.comparison.results import epochs_trained


class Study(NamedTuple):
    """A study: its file, what of the paper it repeats, the paper's figures by data set, and flags of its own."""

    file: str
    title: str
    paper: dict[str, dict[str, dict[str, float]]]
    flags: tuple[str, ...]

    @property
    def name(self) -> str:
        """What its folder is named after."""
        return self.file.removesuffix("-{dataset}.yaml").removesuffix(".yaml")


EPOCHS = ("--epochs=20", "--eval_step=5")
"""As many as by default, and fewer validations."""
FLAGS_OF_TABLE_3 = ("--budget=15m", "--eval_step=2", "--training_rows=user")
STUDIES = [
    Study("one-mask.yaml", "Table 3: one mask, and SASRec", TABLE_3, FLAGS_OF_TABLE_3),
    Study("max-length-{dataset}.yaml", "Table 4: longest input", TABLE_4, ("--budget=6m", "--eval_step=5")),
    Study("ablation.yaml", "Table 5: parts, layers, heads", TABLE_5, EPOCHS),
    Study("hidden-size.yaml", "Figure 3: size of hidden states", {}, EPOCHS),
    Study("mask-ratio.yaml", "Figure 4: share of masked items", {}, EPOCHS),
    Study("cloze.yaml", "Choices in the Cloze task", {}, EPOCHS),
]
LONGEST = {"ml-1m": 200, "beauty": 50}
"""N of the paper, where a study does not vary it."""


def study_file(study: Study, dataset: str, searched: Path) -> str:
    """Return the file of a study; that of Table 3 is written anew, with the options that were chosen for SASRec."""
    if study.paper is not TABLE_3:
        return study.file.format(dataset=dataset)
    content = yaml.safe_load((ROOT / "properties" / "study" / study.file).read_text())
    chosen = yaml.safe_load((searched / "SASRec.best.yaml").read_text())
    space = yaml.safe_load((searched / "SASRec.yaml").read_text())["choice"]
    content["variants"]["SASRec"] |= {name: chosen[name] for name in space}
    path = searched / study.file
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return str(path.relative_to(ROOT))


def run_study(study: Study, options: argparse.Namespace) -> Path:
    """Run a study; return its folder. Its report names the command, which works from the project's root."""
    work = folder_of(options)
    file, searched = study_file(study, options.dataset, work), work.relative_to(ROOT)
    folder = searched.with_name(f"{options.dataset}-{study.name}")
    own = [f"--study={file}", f"--output_dir={folder}", *study.flags]
    if "MAX_ITEM_LIST_LENGTH" not in (ROOT / "properties" / "study" / study.file.format(**vars(options))).read_text():
        own.append(f"--MAX_ITEM_LIST_LENGTH={LONGEST[options.dataset]}")
    shared = [f"--dataset={options.dataset}", f"--data_path={searched}/dataset"]
    shared += [f"--config_files=protocol-paper.yaml {searched}/BERT4Rec.best.yaml"]
    run(["run.py", *own, *shared, "--show_progress=False"], ROOT, f"{folder}.log")
    return ROOT / folder


def beside_the_paper(study: Study, dataset: str, records: list[dict[str, Any]]) -> str:
    """Return the table of a study: ours, the paper's where it prints figures, and both against the first variant."""
    paper = study.paper.get(dataset, {})
    rows, first = [], records[0]
    for record in records:
        epochs, test = record["epochs"], record["test_result"]
        row: dict[str, Any] = {"variant": record["contestant"], "HR@10": test["hit@10"], "NDCG@10": test["ndcg@10"]}
        row["to the first"] = test["ndcg@10"] / first["test_result"]["ndcg@10"]
        if paper:
            printed = paper.get(record["contestant"], {})
            row |= {f"paper's {name}": figure for name, figure in printed.items()}
            if printed:
                row["paper's to the first"] = printed["NDCG@10"] / paper[first["contestant"]]["NDCG@10"]
        trained = epochs_trained(record)
        seconds = sum(epoch["train_seconds"] for epoch in epochs)
        if study.paper is TABLE_4:
            row["sequences/s"] = f"{USERS[dataset] * trained / seconds:.0f}"
        row |= {"epochs": f"{trained:.0f}", "best validation NDCG@10": record["best_valid_score"]}
        row["training, min"] = f"{seconds / 60:.1f}"
        rows.append(row)
    table = pd.DataFrame(rows).to_markdown(index=False, floatfmt=".4f")
    report = f"../../results/{dataset}-{study.name}/report.md"
    return f"### {study.title}\n\n[The study's report]({report}), with curves and p.\n\n{table}\n"


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--studies", nargs="+", choices=[study.name for study in STUDIES], help="(default: all)")
    options = parser.parse_args()
    parts, records = [], list[dict[str, Any]]()
    for study in STUDIES:
        if options.studies and study.name not in options.studies:
            continue
        of_study = list(run_records(run_study(study, options)).values())
        parts.append(beside_the_paper(study, options.dataset, of_study))
        records += of_study
    if options.studies:
        return
    head = [f"`{command()}`", f"Machines: {machines(records)}."]
    write_page(f"paper_studies_{options.dataset}", "\n\n".join([*head, *parts]))


if __name__ == "__main__":
    main()
