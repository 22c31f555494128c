"""The commands of the guard: a shell script a case. What they write to *.out, and their files, is compared."""

from __future__ import annotations

PRELUDE = r"""
set -euo pipefail
QUIET="--use_gpu=False --show_progress=False"
SMALL="$QUIET --hidden_size=16 --inner_size=32 --n_layers=1 --batch_sequences=16 --warmup_steps=5 --learning_rate=0.01"
OTHERS="$QUIET --embedding_size=16 --hidden_size=16 --train_batch_size=256"
LOAD="--data_path=. --dataset=toy"
epochs() { case " $* " in *" --epochs="*) ;; *) echo --epochs=3 ;; esac; }  # unless the case says how many
run() { "$PY" "$TREE/run.py" $(epochs "$@") "$@"; }
hyper() { "$PY" "$TREE/run_hyper.py" "$@"; }
bert() { "$PY" -m recbole_bert4rec "$@"; }
best() { ls saved/*.pth | grep -v last | head -1; }
ask() { "$PY" "$GUARD/ask.py" "$@"; }
"""

_TOY = "run $SMALL $LOAD"
_OURS = {
    "bert4rec-ml100k": "run --use_gpu=False --epochs=2 --recommend=top.csv",
    "plus-ml100k": "run --use_gpu=False --model=BERT4RecPlus --epochs=2 --recommend=top.csv",
    "sasrecplus": f"{_TOY} --model=SASRecPlus --recommend=top.parquet",
    "gru4recplus": "run $OTHERS $LOAD --model=GRU4RecPlus",
    "stock-bert4rec": "run $OTHERS $LOAD --model=RecBoleBERT4Rec --n_layers=1 --inner_size=32",
    "loss-bpr": f"{_TOY} --loss_type=BPR",
    "loss-sampled": f"{_TOY} --loss_type=sampled_softmax --n_negatives=8 --negatives=popularity",
    "loss-gbce": f"{_TOY} --loss_type=gBCE --n_negatives=8 --gbce_t=0.75",
    "loss-bce": f"{_TOY} --loss_type=BCE --n_negatives=8",
    "uni100": f"{_TOY} --eval_args=\"{{'mode':'uni20'}}\"",
    "pop100": f"{_TOY} --eval_args=\"{{'mode':'pop20'}}\"",
    "paper-candidates": f"{_TOY} --config_files=protocol-paper.yaml --eval_args=\"{{'mode':'pop20'}}\" --topk=[1,5,10]",
    "also-test": "case $(run --help) in *--also_test*) FLAG=--also_test ;; *) FLAG=--protocols ;; esac\n"
    f"{_TOY} $FLAG=protocol-full-unseen.yaml --exclude_seen=True",
    "ratio-split": f"{_TOY} --eval_args=\"{{'split':{{'RS':[0.8,0.1,0.1]}}}}\"",
    "global-time": f"{_TOY} --config_files=protocol-global-time.yaml",
    "valid-users": f"{_TOY} --valid_users=50",
    "sliding": f"{_TOY} --MAX_ITEM_LIST_LENGTH=6 --window=sliding --prop_sliding_window=0.5 --dupe_factor=2",
    "masks": f"{_TOY} --mask_count=exact --mask_random_share=0.1 --mask_keep_share=0.1 --ft_ratio=0.3",
    "ablate": f"{_TOY} --ablate=\"['residual']\" --position=start",
    "sparse-update": f"{_TOY} --loss_type=sampled_softmax --n_negatives=8 --sparse_update=True",
    "features": f"{_TOY} --selected_features=\"['class','price']\" "
    "--load_col=\"{'inter':['user_id','item_id','timestamp'],'item':['item_id','class','price']}\"",
    "vectors": f"{_TOY} --item_vectors=vectors.parquet --keep_histories=True\nask $(best) cold > cold.out",
    "filters": "run $SMALL --dataset=shop.csv --val_interval=\"{'rating':'[3,5]'}\" "
    "--user_inter_num_interval='[4,inf)'",
    "texts-filter": "run $SMALL --dataset=shop.csv --val_interval=\"{'event':['buy']}\"",
    "warm-start": f"{_TOY} --data_path=.\nCK=$(best); mv saved first\n"
    "run $SMALL --dataset=later.csv --warm_start=first/$(basename $CK) --epochs=1",
    "refit": f"{_TOY} --refit=train+valid",
    "budget": f"{_TOY} --budget=4s > screen 2>&1\nls saved | sed 's/[0-9].*//' > files.out; rm -r saved",
    "two-processes": f"{_TOY} --nproc=2 --epochs=2",
    "kill-and-resume": f"{_TOY} --epochs=400 > screen 2>&1 &\n"
    "until ls saved/*.last.pth > /dev/null 2>&1; do sleep 0.05; done\n"
    "pkill -KILL -P $! || kill -KILL $!; wait || true\n"
    "LAST=$(ls saved/*.last.pth)\nrun --resume=$LAST --epochs=40 --use_gpu=False --show_progress=False",
    "uninterrupted": f"{_TOY} --epochs=40",
    "adjusted": f"{_TOY} --logit_adjustment=0.5",
    "zone": "run $SMALL --dataset=dates.csv --timezone=Europe/Berlin",
    "gaps": "sed -i '5s/^[^,]*//;9s/^[^,]*//' shop.csv\nrun $SMALL --dataset=shop.csv",
    "changed-log": "run $SMALL --dataset=shop.csv --epochs=1; rm -r saved; sed -i 2,50d shop.csv\n"
    "run $SMALL --dataset=shop.csv --epochs=1",
    "csv": "run $SMALL --dataset=shop.csv --recommend=top.csv",
    "dates": "run $SMALL --dataset=dates.csv --recommend=top.csv",
    "jsonl": "run $SMALL --dataset=lines.jsonl --recommend=top.csv",
    "parquet": "run $SMALL --dataset=table.parquet --recommend=top.csv",
    "mapped": '"$PY" -c "import sys; from importlib import import_module, util; logs = \'recbole_bert4rec.logs.\'; '
    "found = util.find_spec(logs + 'convert'); import_module(logs + ('convert' if found else 'table')).LARGE = 100; "
    "from recbole_bert4rec.cli.main import main; sys.exit(main(['run', *sys.argv[1:]]))\" "
    "$SMALL --dataset=table.parquet --recommend=top.csv",
    "compare": "bert compare $SMALL $LOAD --model=BERT4Rec,SASRec,Pop --epochs=2 --seeds=2 --output_dir=together",
    "study": 'STUDY="--study=ratio.yaml $SMALL $LOAD --epochs=2 --output_dir=together"\n'
    "case $(bert compare --help) in *--study*) bert compare $STUDY ;; *) run $STUDY ;; esac",
    "tune": "hyper $SMALL $LOAD --epochs=2 --params_file=space.hyper > screen 2>&1\n"
    "grep -vE '^ *(best|[0-9])' hyper.result > result.out",
    "ask": f"{_TOY} --keep_histories=True --exclude_seen=True\nask $(best) all > all.out\n"
    "bert recommend --checkpoint=$(best) --input=shop.csv --output=top.csv --k=5\n"
    "bert evaluate --checkpoint=$(best) --input=shop.csv --topk=1,10 > metrics.out\n"
    "bert similar --checkpoint=$(best) --k=3 --output=like.csv",
    "onnx": f"{_TOY} --model=BERT4RecPlus\nbert export --checkpoint=$(best) --output=exported\nask exported > all.out",
    "service": f"{_TOY}\nask $(best) service > answers.out",
    "parts": '"$PY" "$GUARD/parts.py" > parts.out',
    "configurations": '"$PY" "$GUARD/configurations.py" > configurations.out',
    "bad-inputs": '"$PY" "$GUARD/bad_inputs.py" > bad_inputs.out',
}
_THEIRS = {
    model: f"run $OTHERS $LOAD --model={model} {more}"
    for model, more in {
        "SASRec": "--training_rows=user --n_layers=1 --inner_size=32",
        "GRU4Rec": "--training_rows=user",
        "Pop": "",
        "BPR": "",
        "NeuMF": "",
        "FPMC": "",
        "Caser": "--MAX_ITEM_LIST_LENGTH=5",
    }.items()
}
CASES = {**_OURS, **_THEIRS}
