"""The BERT4Rec paper's Tables 3, 4 and 5 and Figures 3 and 4 on ml-1m or beauty, each as a study of this package.

The model is BERT4Rec with the options that ``table_2.py`` chose, which must have run its search, and with positions
counted as in the paper. Each variant trains for ``--budget``, in which its learning rate falls to 0, and is tested once
among the paper's 100 candidates. A thread each, so the two data sets can run side by side on two cores.

Reports lie in ``results/DATASET-STUDY``, and the runs' records, which are committed, too: the same command goes on from
there, on another machine, too.
"""

from __future__ import annotations

from records import ROOT
from table_2 import folder_of, parser_of, run

STUDIES = {
    "ml-1m": ["one-mask", "max-length-ml-1m", "ablation", "hidden-size", "mask-ratio"],
    "beauty": ["one-mask", "max-length-beauty", "ablation", "hidden-size", "mask-ratio"],
}
LONGEST = {"ml-1m": 200, "beauty": 50}
"""N of the paper, where a study does not vary it."""


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--budget", default="8m", help="for each variant (default: %(default)s)")
    parser.add_argument("--studies", nargs="+", help="(default: all five)")
    options = parser.parse_args()
    searched = folder_of(options).name
    shared = [f"--dataset={options.dataset}", f"--data_path={searched}/dataset", "--position=start", "--eval_step=2"]
    shared += [f"--config_files=protocol-paper.yaml {searched}/BERT4Rec.best.yaml", "--show_progress=False"]
    shared += [f"--budget={options.budget}", "--training_rows=user"]
    for study in options.studies or STUDIES[options.dataset]:
        own = [f"--study={study}.yaml", f"--output_dir={options.dataset}-{study.removesuffix(f'-{options.dataset}')}"]
        if not study.startswith(("max-length", "one-mask")):
            own.append(f"--MAX_ITEM_LIST_LENGTH={LONGEST[options.dataset]}")
        if study == "one-mask":
            own += ["--hidden_size=256", "--inner_size=1024", "--n_heads=8"]
        run([str(ROOT / "run.py"), *own, *shared], options.work, f"{options.dataset}-{study}.log")


if __name__ == "__main__":
    main()
