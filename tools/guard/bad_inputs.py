"""Gives the commands what they must refuse; prints the exit code and which of file, key and value the message names."""

from __future__ import annotations

import contextlib
import filecmp
import io
import re
import shutil
import sys
from pathlib import Path

from recbole_bert4rec.cli.main import main

SMALL = ["--hidden_size=16", "--n_layers=1", "--epochs=1", "--use_gpu=False", "--show_progress=False"]
TOY = ["--data_path=.", "--dataset=toy"]
VALUES = {
    "hidden_size": ["0", "-3", "x", "1.5", "15"],
    "inner_size": ["0", "x"],
    "n_layers": ["0", "-1", "x"],
    "n_heads": ["0", "3", "x"],
    "MAX_ITEM_LIST_LENGTH": ["0", "1", "x"],
    "hidden_act": ["rleu"],
    "norm": ["pots"],
    "position": ["strat"],
    "ablate": ["[nothing]"],
    "objective": ["clozee"],
    "mask_ratio": ["0", "1.5", "x", "-1"],
    "ft_ratio": ["2", "x"],
    "mask_count": ["exactly"],
    "mask_random_share": ["1.2"],
    "loss_type": ["CEE", "3"],
    "n_negatives": ["0", "x"],
    "negatives": ["popular"],
    "gbce_t": ["2", "x"],
    "seen_bias": ["maybe"],
    "loss_mean": ["masks"],
    "epochs": ["-1", "x", "1.5"],
    "train_batch_size": ["0", "x"],
    "batch_sequences": ["0", "x"],
    "hidden_dropout_prob": ["1", "-0.1", "x"],
    "attn_dropout_prob": ["1.5"],
    "learner": ["adamm"],
    "learning_rate": ["0", "-1", "x"],
    "lr_schedule": ["cosinus"],
    "warmup_steps": ["-1", "x"],
    "weight_decay": ["-1", "x"],
    "clip_grad_norm": ["3"],
    "stopping_step": ["-1", "x"],
    "window": ["rnadom"],
    "prop_sliding_window": ["0", "2"],
    "dupe_factor": ["0", "x"],
    "candidates": ["papers"],
    "valid_users": ["0", "x"],
    "logit_adjustment": ["x"],
    "memory": ["maybe"],
    "refit": ["train"],
    "metrics": ["[NDGC]", "[]"],
    "topk": ["0", "[x]"],
    "valid_metric": ["NDCG@7", "MRRR@10"],
    "eval_args": ["{'split':{'LS':'valid'}}", "{'mode':'uni'}", "{'splitt':{}}", "3"],
    "user_inter_num_interval": ["[5,3]", "5"],
    "val_interval": ["{'timestamp':['5']}", "{'event':'[1,2]'}", "3", "{'nothing':'[1,2]'}"],
    "load_col": ["{'inter':['user_id','itme_id']}"],
    "warm_start": ["none.pth"],
    "item_vectors": ["none.parquet"],
    "selected_features": ["[colour]"],
    "separator": ["xx"],
}
LOGS = {
    "empty.csv": "",
    "header.csv": "user_id,item_id,timestamp\n",
    "short.csv": "user_id,item_id,timestamp\nu1,i1,1\nu2,i2\n",
    "long.csv": "user_id,item_id,timestamp\nu1,i1,1\nu2,i2,2,9\n",
    "quote.csv": 'user_id,item_id,timestamp\nu1,"i1,1\nu2,i2,2\nu3,i3,3\n',
    "times.csv": "user_id,item_id,timestamp\nu1,i1,1\nu2,i2,soon\n",
    "orders.csv": "user_id,item_id,timestamp\nu1,i1,01/02/2024\nu2,i2,03/04/2024\n",
    "columns.csv": "user,item,time\nu1,i1,1\n",
    "ids.csv": "user_id,item_id,timestamp\n,i1,1\n,i2,2\n",
    "broken.jsonl": '{"user_id": "u1", "item_id": "i1", "timestamp": 1}\n{"user_id": \n',
    "broken.parquet": "PAR1 not really",
    "text.md": "# a page\n",
}
COMMANDS = [
    ["run", "--epohcs=3"],
    ["run", "--model=BERT5Rec"],
    ["run", "--model=nowhere:Nobody"],
    ["run", "--dataset=nowhere"],
    ["run", "--dataset=nowhere.csv"],
    ["run", "--config_files=none.yaml"],
    ["run", "--config_files=bad.yaml"],
    ["run", "--config_files=twice.yaml"],
    ["run", "--config_files=list.yaml"],
    ["run", *TOY, "--nproc=0"],
    ["run", *TOY, "--budget=soon"],
    ["run", *TOY, "--recommend=top.xyz"],
    ["run", *TOY, "--recommend=nowhere/top.csv"],
    ["run", *TOY, "--resume=none.pth"],
    ["run", *TOY, "--resume=text.pth"],
    ["run", *TOY, "--k=3"],
    ["run", *TOY, "--output_dir=x"],
    ["run", *TOY, "--protocols=none.yaml"],
    ["run", *TOY, "--checkpoint_dir=file"],
    ["compare", *TOY, "--model=BERT4Rec,BERT4Rec"],
    ["compare", *TOY, "--model=BERT4Rec", "--seeds=0"],
    ["compare", *TOY, "--model=BERT4Rec,"],
    ["tune", *TOY, "--params_file=none.hyper"],
    ["tune", *TOY, "--params_file=bad.hyper"],
    ["tune", *TOY, "--params_file=space.hyper", "--algo=exhaustive", "--max_evals=3"],
    ["tune", *TOY, "--params_file=space.hyper", "--max_evals=0"],
    ["tune", *TOY, "--params_file=space.hyper", "--scheduler=asha"],
    ["recommend", "--checkpoint=none.pth", "--output=a.csv"],
    ["recommend", "--checkpoint=text.pth", "--output=a.csv"],
    ["recommend", "--checkpoint=cut.pth", "--output=a.csv"],
    ["recommend", "--checkpoint=flipped.pth", "--output=a.csv"],
    ["recommend", "--checkpoint=GOOD", "--output=a.xyz"],
    ["recommend", "--checkpoint=GOOD", "--output=a.csv"],
    ["recommend", "--checkpoint=GOOD", "--output=a.csv", "--input=none.csv"],
    ["recommend", "--checkpoint=GOOD", "--output=a.csv", "--input=columns.csv"],
    ["recommend", "--checkpoint=GOOD", "--output=a.csv", "--input=shop.csv", "--k=0"],
    ["recommend", "--checkpoint=GOOD", "--output=a.csv", "--input=shop.csv", "--exclude=none.txt"],
    ["recommend", "--checkpoint=GOOD", "--output=shop.csv", "--input=shop.csv"],
    ["evaluate", "--checkpoint=GOOD", "--input=shop.csv", "--topk=x"],
    ["evaluate", "--checkpoint=GOOD", "--input=shop.csv", "--targets=none.csv"],
    ["similar", "--checkpoint=GOOD", "--item=nobody"],
    ["info", "--checkpoint=text.pth"],
    ["export", "--checkpoint=none.pth", "--output=e"],
    ["serve", "--checkpoint=none.pth"],
    ["nonsense"],
]


def said(words: list[str]) -> tuple[int, str]:
    """Return a command's exit code and what it printed."""
    output = io.StringIO()
    name, *arguments = words
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            code = main(words) if name == "nonsense" else main(arguments, name)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int | None) else 1
        except Exception as error:
            print(f"{type(error).__name__}")
            code = -1
    return code, output.getvalue()


def report(words: list[str], named: list[str], good: str = "") -> None:
    """Print how a command was refused; ``good`` is a checkpoint."""
    code, text = said([word.replace("GOOD", good) for word in words])
    message = text[text.rfind("error: ") :] if "error: " in text else text
    named_there = [part for part in named if part and re.search(rf"(?<![\w.]){re.escape(part)}(?![\w.])", message)]
    line = any(f"line {number}" in message for number in range(1, 9))
    print(" ".join(words[:1] + words[-2:]), "|", code, "|", named_there, "line" if line else "", "Traceback" in text)


def prepare() -> str:
    """Write the files; return a checkpoint."""
    code, text = said(["run", *SMALL, *TOY])
    assert code == 0, text
    good = next(path for path in sorted(Path("saved").glob("*.pth")) if ".last" not in path.name)
    content = good.read_bytes()
    Path("cut.pth").write_bytes(content[: len(content) // 2])
    middle = len(content) // 2
    Path("flipped.pth").write_bytes(content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :])
    Path("text.pth").write_text("not a checkpoint")
    Path("file").write_text("")
    Path("bad.yaml").write_text("mask_ratio: [0.2\nft_ratio: 1\n")
    Path("twice.yaml").write_text("epochs: 1\nepochs: 2\n")
    Path("list.yaml").write_text("- epochs\n")
    Path("bad.hyper").write_text("mask_ratio choice [0.2\nmask_raito choice [1]\nlearning_rate uniform 2,1\n")
    for name, text in LOGS.items():
        Path(name).write_text(text)
    shutil.copy("shop.csv", "kept.csv")
    return str(good)


def run_all() -> None:
    """Try everything."""
    good = prepare()
    for option, values in VALUES.items():
        for value in values:
            report(["run", *SMALL[3:], *TOY, f"--{option}={value}"], [option, value.strip("[]{}'")])
    for log in LOGS:
        report(["run", *SMALL, f"--dataset={log}"], [log])
    for words in COMMANDS:
        report(words, [part.rpartition("=")[2] for part in words[1:] if "=" in part], good)
    print("shop.csv is what it was |", filecmp.cmp("shop.csv", "kept.csv", shallow=False))


if __name__ == "__main__":
    sys.argv = sys.argv[:1]
    run_all()
