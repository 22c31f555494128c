"""What docs/extending.md shows runs as it stands there; its model is compared, varied and searched, too."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import recbole_bert4rec
from recbole_bert4rec.cli.main import main
from recbole_bert4rec.recommend.load import load
from recbole_bert4rec.training.run import run
from tests.helpers.data import CYCLE
from tests.helpers.programs import ROOT, flags_of, run_here, run_py
from tests.helpers.runs import arguments

PAGE = (ROOT / "docs" / "extending.md").read_text("utf-8")
SMALL = ["--hidden_size=16", "--inner_size=16", "--n_layers=1", "--use_gpu=False", "--show_progress=False"]
TINY = {"hidden_size": 16, "inner_size": 16, "n_layers": 1, "epochs": 1}
BLOCK = re.compile(r"```(?P<kind>\w+)(?: title=\"(?P<file>[\w.]+)\")?\n(?P<text>.*?)```", re.DOTALL)
pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's files in the current folder, from which Python imports."""
    for block in BLOCK.finditer(PAGE):
        if block["file"]:
            Path(block["file"]).write_text(block["text"])
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("focal", "pairs", "smooth"):
        sys.modules.pop(name, None)


@pytest.fixture
def asked(write_inter: Any) -> dict[str, Any]:
    return arguments({**write_inter(CYCLE), **TINY})


def test_the_commands_and_the_python_of_the_page_run() -> None:
    commands = [
        line for block in BLOCK.finditer(PAGE) if block["kind"] == "bash" for line in block["text"].splitlines()
    ]
    assert len(commands) == 3
    for command in commands:
        words = shlex.split(command)
        if "--help" in words:
            with pytest.raises(SystemExit, match="0"):
                main(words[3:])
            continue
        assert main([*words[3:], *SMALL]) == 0, command
    (record,) = Path("saved").glob("FocalBERT4Rec-*.json")
    assert json.loads(record.read_text())["config"]["focal_gamma"] == 1.5
    about = json.loads(Path("compare-ml-100k", "comparison.json").read_text())
    assert about["models"] == ["FocalBERT4Rec", "BERT4Rec"]
    names = dict[str, Any]()
    (python,) = [block["text"] for block in BLOCK.finditer(PAGE) if block["kind"] == "python" and not block["file"]]
    exec(python, names)
    assert type(names["model"].ranker).__name__ == "FocalBERT4Rec"


def test_without_its_exponent_the_pages_loss_is_cross_entropy(asked: dict[str, Any]) -> None:
    options = {**asked["options"], "loss_mean": "mask"}
    results = [
        run(model=model, dataset=asked["dataset"], options={**options, **more})
        for model, more in [("BERT4Rec", {}), ("focal:FocalBERT4Rec", {"focal_gamma": 0.0})]
    ]
    ours, theirs = (result.record["epochs"][0]["train_loss"] for result in results)
    assert theirs == pytest.approx(ours, rel=1e-3)


def test_the_pages_encoder_ranks_a_history_alike_whatever_it_is_padded_to(asked: dict[str, Any]) -> None:
    result = run(model="smooth:SmoothBERT4Rec", **asked)
    ranker = load(result.checkpoint).ranker
    assert type(ranker.encoder).__name__ == "SmoothEncoder"
    short, long = [5, 9, 30], list(range(1, 40))
    rows = torch.zeros(2, 39, dtype=torch.int64)
    rows[0, :3], rows[1] = torch.tensor(short), torch.tensor(long)
    together, _ = ranker.encode(rows, torch.tensor([3, 39]))
    alone, _ = ranker.encode(torch.tensor([short]), torch.tensor([3]))
    torch.testing.assert_close(together[:1], alone)
    plain = recbole_bert4rec.load(result.checkpoint).ranker
    plain.encoder.__class__ = type(plain).__mro__[1].encoder_class
    assert not torch.allclose(plain.encode(torch.tensor([short]), torch.tensor([3]))[0], alone)


def test_the_pages_mask_predicts_pairs_of_neighbours_and_trains(asked: dict[str, Any]) -> None:
    result = run(model="pairs:PairBERT4Rec", **asked)
    objective = load(result.checkpoint, model="pairs:PairBERT4Rec").ranker.objective
    sequences = torch.arange(1, 41).repeat(50, 1)
    lengths = torch.full((50,), 30)
    sequences[:, 30:] = 0
    batch = objective.label(sequences, lengths, torch.Generator().manual_seed(1))
    masked = torch.zeros_like(sequences, dtype=torch.bool)
    masked[batch.rows, batch.columns] = True
    assert torch.equal(batch.labels, sequences[masked])
    assert not masked[:, 30:].any()
    assert (batch.item_seq[masked] == objective.mask_token).all()
    assert torch.equal(batch.item_seq[~masked], sequences[~masked])
    begins = masked[:, :29] & ~torch.nn.functional.pad(masked[:, :28], (1, 0))
    assert masked[:, 1:30][begins].all(), "whoever is masked first has a neighbour that is, too"


def test_a_study_and_a_search_take_the_class_and_their_files_name_it(data: dict[str, str]) -> None:
    options = flags_of(data)
    Path("gamma.yaml").write_text(
        "axis: focal_gamma\nvariants: {plain: {focal_gamma: 0.0}, focal: {focal_gamma: 2.0}}\n"
    )
    assert main(["compare", "--study=gamma.yaml", "--model=focal:FocalBERT4Rec", *options]) == 0
    about = json.loads(Path("gamma-toy", "comparison.json").read_text())
    assert list(about["variants"]) == ["plain", "focal"]
    Path("space").write_text("focal_gamma choice [0.5,1.0]\n")
    search = ["tune", "--model=focal:FocalBERT4Rec", "--params_file=space", *options]
    assert main(search) == 0
    best = yaml.safe_load(Path("hyper.best.yaml").read_text())
    assert best["model"] == "focal:FocalBERT4Rec"
    assert best["focal_gamma"] in (0.5, 1.0)
    kept = Path("focal.py").read_text()
    Path("focal.py").write_text(kept.replace("(1 - torch.exp(-losses))", "(1.5 - torch.exp(-losses))"))
    sys.modules.pop("focal")
    assert main(search) == 0
    assert len(list(Path("hyper.runs").glob("*.json"))) == 4, "the first two runs are another program's"


def test_a_new_process_imports_from_the_current_folder_and_only_what_it_is_told(data: dict[str, str]) -> None:
    done = run_py("--model=focal:FocalBERT4Rec", **data)
    assert done.returncode == 0, done.stderr
    (checkpoint,) = (file for file in Path("saved").glob("*.pth") if ".last" not in file.name)
    Path("history.csv").write_text("user_id,item_id,timestamp\na,i3,1\na,i6,2\n")
    recommend = [sys.executable, "-m", "recbole_bert4rec", "recommend", f"--checkpoint={checkpoint}"]
    recommend += ["--input=history.csv", "--k=2", "--output=top.csv", "--device=cpu"]
    env = {"PYTHONPATH": str(ROOT), "PATH": ""}
    for words, code in (([], 2), (["--model=focal:FocalBERT4Rec"], 0)):
        done = subprocess.run([*recommend, *words], capture_output=True, text=True, env=env, check=False)
        assert done.returncode == code, done.stderr
        assert code == 0 or "--model=focal:FocalBERT4Rec" in done.stderr
    assert Path("top.csv").read_text().count("\n") == 3
    again = run_here("--model=focal:FocalBERT4Rec", f"--resume={checkpoint}", **{**data, "epochs": "3"})
    assert again.returncode == 0, again.stderr
