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
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import yaml
from paper import LONGEST, TABLE_3, TABLE_4, TABLE_5, USERS
from records import ROOT, command, machines, run_records, table_lines, write_page
from table_2 import ahead_of, parser_of, run, work_of

from recbole_bert4rec.experiments.results import epochs_trained, read_results


class Study(NamedTuple):
    """A study of the paper.

    Attributes:
        file: its options; ``{dataset}`` stands for the name of the data set.
        title: what of the paper it repeats.
        paper: the figures that the paper prints, by data set and variant.
        flags: its own, such as how long a variant trains.
        sets_length: whether its variants set MAX_ITEM_LIST_LENGTH; else all have the paper's.
        against: the variant that the others are compared with, by data set: where one is best, the paper's best. The
            first variant by default.
        has_sasrec: whether SASRec is a variant, which has the options that ``table_2.py`` chose.
        prints_speed: whether the paper prints sequences a second.
    """

    file: str
    title: str
    paper: dict[str, dict[str, dict[str, float]]]
    flags: tuple[str, ...]
    sets_length: bool = False
    against: Mapping[str, str] = MappingProxyType({})
    has_sasrec: bool = False
    prints_speed: bool = False

    @property
    def name(self) -> str:
        """What its folder is named after."""
        return self.file.removesuffix(".yaml").removesuffix("-{dataset}")


EPOCHS = ("--epochs=20", "--eval_step=5")
"""As many as by default, and fewer validations."""
FLAGS_OF_TABLE_3 = ("--budget=15m", "--eval_step=2", "--training_rows=user")
FLAGS_OF_TABLE_4 = ("--budget=6m", "--eval_step=5")
STUDIES = [
    Study(
        "one-mask.yaml", "Table 3: one mask, and SASRec", TABLE_3, FLAGS_OF_TABLE_3, sets_length=True, has_sasrec=True
    ),
    Study(
        "max-length-{dataset}.yaml",
        "Table 4: longest input",
        TABLE_4,
        FLAGS_OF_TABLE_4,
        sets_length=True,
        against={"ml-1m": "N=200", "beauty": "N=20"},
        prints_speed=True,
    ),
    Study("ablation.yaml", "Table 5: parts, layers, heads", TABLE_5, EPOCHS),
    Study("hidden-size.yaml", "Figure 3: hidden size", {}, EPOCHS, against={"ml-1m": "H=64", "beauty": "H=64"}),
    Study("mask-ratio.yaml", "Figure 4: masked share", {}, EPOCHS, against={"ml-1m": "rho=.2", "beauty": "rho=.6"}),
    Study("cloze.yaml", "Choices in the Cloze task", {}, EPOCHS),
]


def with_chosen_sasrec(file: str, searched: Path) -> str:
    """Write a study anew, with the options that were chosen for SASRec; return the new file."""
    content = yaml.safe_load((ROOT / "properties" / "study" / file).read_text())
    chosen = yaml.safe_load((searched / "SASRec.best.yaml").read_text())
    space = yaml.safe_load((searched / "SASRec.yaml").read_text())["choice"]
    content["variants"]["SASRec"] |= {name: chosen[name] for name in space}
    path = searched / file
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return str(path.relative_to(ROOT))


def run_study(study: Study, options: argparse.Namespace) -> Path:
    """Run a study; return its folder. Its report names the command, which works from the project's root."""
    work, file = work_of(options.dataset), study.file.format(dataset=options.dataset)
    if study.has_sasrec:
        file = with_chosen_sasrec(file, work)
    searched = work.relative_to(ROOT)
    folder = searched.with_name(f"{options.dataset}-{study.name}")
    own = [f"--study={file}", f"--output_dir={folder}", *study.flags]
    if not study.sets_length:
        own.append(f"--MAX_ITEM_LIST_LENGTH={LONGEST[options.dataset]}")
    shared = [f"--dataset={options.dataset}", f"--data_path={os.path.relpath(options.data_path, ROOT)}"]
    shared += [f"--config_files=protocol-paper.yaml {searched}/BERT4Rec.best.yaml"]
    run(["-m", "recbole_bert4rec", "compare", *own, *shared, "--show_progress=False"], ROOT, f"{folder}.log")
    return ROOT / folder


def row_of(
    variant: str,
    records: dict[str, dict[str, Any]],
    base: str,
    p: str,
    study: Study,
    printed: dict[str, dict[str, float]],
) -> dict[str, str]:
    """Return what a variant reached and took, beside what the paper prints, and both against one of the variants."""
    record, of_base = records[variant], records[base]["test_result"]
    figures, paper = record["test_result"], printed.get(variant, {})
    trained, seconds = epochs_trained(record), sum(epoch["train_seconds"] for epoch in record["epochs"])
    validated = [epoch for epoch in record["epochs"] if epoch.get("valid")]
    row = {"variant": variant, "HR@10": f"{figures['hit@10']:.4f}", "NDCG@10": f"{figures['ndcg@10']:.4f}"}
    row[f"to {base}"] = f"{figures['ndcg@10'] / of_base['ndcg@10']:.3f}"
    row["p"] = p
    if study.prints_speed:
        row["sequences/s"] = f"{USERS[record['dataset']] * trained / seconds:,.0f}"
    for name in next(iter(printed.values()), {}):
        row[f"paper's {name}"] = f"{paper[name]:{',' if name == 'sequences/s' else '.4f'}}" if paper else ""
    if printed:
        row[f"paper's to {base}"] = f"{paper['NDCG@10'] / printed[base]['NDCG@10']:.3f}" if paper else ""
    row |= {
        "epochs": f"{trained:.1f}",
        "training, min": f"{seconds / 60:.1f}",
        "best epoch": f"{record['best_epoch'] + 1}",
    }
    row["first validation"] = f"{validated[0]['valid_score']:.4f} (epoch {validated[0]['epoch'] + 1})"
    return {**row, "best validation": f"{record['best_valid_score']:.4f}"}


def beside_the_paper(study: Study, dataset: str, folder: Path) -> str:
    """Return the part of the page on a study, with a row for each variant."""
    records = {variant: runs[0] for variant, runs in read_results(folder).records.items()}  # of one seed
    base = study.against.get(dataset, next(iter(records)))
    p = {rival: text for rival, (_, text) in ahead_of(folder, base).items()}
    printed = study.paper.get(dataset, {})
    rows = [row_of(name, records, base, p.get(name, ""), study, printed) for name in records]
    report = f"{folder.name}/report.md"
    table = "\n".join(table_lines(rows))
    return f"### {study.title}\n\n[The study's report]({report}), with options and curves.\n\n{table}\n"


NOTE = """BERT4Rec has the options that [Table 2](table_2_{dataset}.md) chose for it, relative positions and H 64, where
no variant says otherwise. One seed each. The target is ranked among the paper's 100 candidates. The best epoch was
chosen by NDCG@10 on validation, which the last columns show. p is of the difference of NDCG@10 to the variant that
the others are divided by, over users, with Holm's correction; how much seeds differ it does not know. Where the best
epoch is the last, more epochs may change the order. Other programs ran on the other core, and beside some of the
runs on the same one, so minutes say little; sequences a second may be compared with care."""


def main() -> None:
    parser = parser_of(__doc__)
    names = [study.name for study in STUDIES]
    parser.add_argument("--studies", nargs="+", choices=names, help="only these, without the page (default: all)")
    options = parser.parse_args()
    wanted = [study for study in STUDIES if study.name in (options.studies or names)]
    folders = [run_study(study, options) for study in wanted]
    if options.studies:
        return
    parts = [beside_the_paper(study, options.dataset, folder) for study, folder in zip(STUDIES, folders, strict=True)]
    records = [record for folder in folders for record in run_records(folder).values()]
    head = [f"`{command()}`", f"Machine: {machines(records)}.", NOTE.format(dataset=options.dataset)]
    write_page(f"paper_studies_{options.dataset}", "\n\n".join([*head, *parts]))


if __name__ == "__main__":
    main()
