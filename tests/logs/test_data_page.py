"""docs/data.md is right: its log and commands."""

from __future__ import annotations

import gzip
import re
import shlex
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from recbole_bert4rec.cli.main import main
from tests.helpers.data import atomic_file

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "data.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_commands_of_the_page_on_data_do_what_it_says() -> None:
    exec(blocks("python")[0], {})
    Path("shop.yaml").write_text(blocks("yaml")[0])
    first, compare, today = (shlex.split(block) for block in blocks("bash")[:3])
    assert main(first[3:]) == 0
    assert "NA" in set(pd.read_csv("top.csv", keep_default_na=False)["product"])
    assert main(compare[3:]) == 0
    newest = max(Path("saved").glob("BERT4Rec*.pth"), key=lambda path: path.stat().st_mtime)
    assert main([word.replace("saved/FILE.pth", str(newest)) for word in today[3:]]) == 0
    assert pd.read_csv("today.csv")["customer"].nunique() == 60


def test_files_of_sequences_and_of_pairs_become_the_atomic_files_that_the_page_says() -> None:
    Path("LastFM.txt").write_text("1 5 7 5\n2 7 9\n")
    Path("beauty.txt").write_text("1 5\n1 7\n1 5\n2 7\n2 9\n")
    for commands in blocks("bash")[3:5]:
        subprocess.run(["bash", "-ec", commands], check=True)
    rows = [["user_id:token", "item_id:token", "timestamp:float"]]
    rows += [[*"151"], [*"172"], [*"153"], [*"271"], [*"292"]]
    for name in ("lastfm", "beauty"):
        text = Path("dataset", name, f"{name}.inter").read_text()
        assert [line.split("\t") for line in text.splitlines()] == rows, name


def test_steams_dictionaries_become_a_log() -> None:
    reviews = [{"username": 'u"', "product_id": "7", "date": "2017-12-17", "text": "it's"}] * 2
    with gzip.open("steam_reviews.json.gz", "wt", encoding="utf-8") as file:
        file.writelines(f"{review}\n".replace("{'", "{u'") for review in reviews)
    exec(blocks("python")[1], {})
    table = pd.read_csv(atomic_file("steam-reviews.jsonl", "username", "product_id", "date"), sep="\t")
    assert table.to_numpy().tolist() == [['u"', 7, 1513468800]] * 2
