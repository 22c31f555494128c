"""The commands that ask a checkpoint: whole tables, metrics, and mistakes in one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyarrow import parquet

from recbole_bert4rec import load
from recbole_bert4rec.cli.main import main
from recbole_bert4rec.logs import interactions
from recbole_bert4rec.recommend import bulk
from recbole_bert4rec.recommend.recommender import Recommender
from recbole_bert4rec.system.errors import UserError
from tests.helpers.trained import ROWS, trained_in

FRAME = pd.DataFrame(ROWS, columns=["user_id", "item_id", "timestamp"])
SHUFFLED = FRAME.sample(frac=1.0, random_state=1)
INPUT = ["recommend", "--input=log.csv", "--output=top.csv"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    return trained_in(tmp_path_factory.mktemp("trained"), keep_histories=True).file


@pytest.fixture
def model(checkpoint: str, monkeypatch: pytest.MonkeyPatch) -> Recommender:
    """A checkpoint, ``m.pth``, and a log of several parts, ``log.csv``."""
    shutil.copy(checkpoint, "m.pth")
    SHUFFLED.to_csv("log.csv", index=False)
    monkeypatch.setattr(interactions, "_PART", 60)
    return load("m.pth", "cpu")


def ask(*arguments: str) -> int:
    return main([arguments[0], "--checkpoint=m.pth", "--device=cpu", *arguments[1:]])


def assert_top(wanted: pd.DataFrame, found: pd.DataFrame | None = None) -> None:
    """Compare a table, by default top.csv, with the model's answer, the order of the users included."""
    found = pd.read_csv("top.csv") if found is None else found
    pd.testing.assert_frame_equal(found, wanted, check_dtype=False, atol=1e-4)


@pytest.mark.parametrize("output", ["top.csv", "top.parquet"])
def test_a_file_is_answered_as_the_model_answers_it(output: str, model: Recommender) -> None:
    Path("not.txt").write_text("i3\ni4\n")
    flags = ["--k=4", "--filter_viewed=True", "--exclude=not.txt"]
    assert ask("recommend", "--input=log.csv", f"--output={output}", *flags) == 0
    found = pd.read_csv(output) if output.endswith("csv") else pd.read_parquet(output)
    wanted = model.recommend(SHUFFLED, k=4, filter_viewed=True, exclude=["i3", "i4"])
    assert_top(wanted, found)
    if output.endswith("parquet"):
        assert [str(kind) for kind in parquet.read_schema(output).types] == ["string", "string", "int64", "float"]


def test_users_without_an_item_that_is_left_or_known_are_counted_apart(
    model: Recommender, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("only.txt").write_text("i3\n")
    unknown = [f"x{n}" if user == "u1" else item for n, (user, item, _) in enumerate(ROWS)]
    FRAME.assign(item_id=unknown).to_csv("log.csv", index=False)
    had = FRAME[(FRAME["item_id"] == "i3") & (FRAME["user_id"] != "u1")]["user_id"].nunique()
    assert 0 < had < 29
    assert ask(*INPUT, "--items_to_recommend=only.txt", "--filter_viewed=True") == 0
    said = capsys.readouterr().err
    for words in (f"{30 - had} users", f"{had} users have no row", "1 users have no other ones"):
        assert words in said
    assert "u1" in set(pd.read_csv("top.csv")["user_id"])


def test_without_an_input_those_in_the_checkpoint_get_recommendations(model: Recommender) -> None:
    assert ask("recommend", "--output=top.csv", "--k=2") == 0
    assert_top(model.recommend(k=2))


def test_a_command_that_is_stopped_or_refused_leaves_nothing_behind(
    model: Recommender, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("top.csv").write_text("old")
    before = set(Path().rglob("*"))
    for mistake, code in ((KeyboardInterrupt(), 130), (UserError("a mistake"), 2)):
        answer, begun = bulk.answer_part, list[int]()

        def stopped(*arguments: Any, mistake: BaseException = mistake, begun: list[int] = begun) -> Any:
            begun.append(len(list(Path().glob(".top.csv.*"))))
            if len(begun) == 3:
                raise mistake
            return answer(*arguments)  # noqa: B023

        monkeypatch.setattr(bulk, "answer_part", stopped)
        assert ask(*INPUT) == code
        monkeypatch.setattr(bulk, "answer_part", answer)
        assert begun == [1, 1, 1]
        assert Path("top.csv").read_text() == "old"
        assert set(Path().rglob("*")) == before
    monkeypatch.setattr(interactions, "connected", lambda: Path("no").stat())  # the input, not the output
    assert ask(*INPUT) == 2
    assert "error: log.csv cannot be read: No such file" in capsys.readouterr().err


def test_metrics_of_a_file_are_those_of_the_model(model: Recommender, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = model.evaluate(FRAME, topk=(3, 10))
    pd.concat([SHUFFLED, SHUFFLED[:1].assign(user_id="with one item")]).to_csv("log.csv", index=False)
    last = FRAME.groupby("user_id").tail(1)
    FRAME.drop(last.index).to_csv("before.csv", index=False)
    last[["user_id", "item_id"]].to_csv("after.csv", index=False)
    for files in (["--input=log.csv"], ["--input=before.csv", "--targets=after.csv"], []):
        assert ask("evaluate", *files, "--topk=3,10") == 0
        assert json.loads(capsys.readouterr().out) == pytest.approx(wanted, abs=1e-6)


def test_similar_items_are_listed_for_those_that_are_named_or_for_all(
    model: Recommender, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask("similar", "--item=i3", "--item=i5", "--k=2") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "target_item_id,item_id,rank,score"
    assert [line.split(",")[0] for line in lines[1:]] == ["i3", "i3", "i5", "i5"]
    assert ask("similar", "--output=all.csv", "--k=1") == 0
    assert len(pd.read_csv("all.csv")) == len(model.items)


def test_info_names_what_is_in_a_checkpoint(model: Recommender, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("info") == 0
    said = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert "BERT4Rec" in said["model"]
    assert said["histories"] == f"30 users, {len(ROWS)} interactions"
    assert "hidden_size 16" in said["encoder"]
    assert "keep_histories True" in said["changed"]


WRONG = [
    (["recommend", "--input=log.csv", "--output=top.txt"], "--output"),
    (["recommend", "--input=no.csv", "--output=top.csv"], "--input=no.csv"),
    (["recommend", "--input=log.csv", "--output=no/top.csv"], "--output=no/top.csv"),
    (["recommend", "--input=log.csv", "--output=log.csv"], "--output=log.csv"),
    (["recommend", "--input=folder", "--output=folder/top.parquet"], "--input=folder"),
    (["recommend", "--input=folder/a.parquet", "--output=folder"], "--output must end in .csv"),
    (["recommend", "--input=bare.csv", "--output=top.csv"], "26 items, such as 'i"),
    (["recommend", "--input=named.csv", "--output=top.csv", "--TIME_FIELD=when"], "'when'"),
    (["recommend", "--input=dates.csv", "--output=top.csv"], "--date_format"),
    (["recommend", "--input=dates.csv", "--output=top.csv"], "dates.csv: 'timestamp'"),
    ([*INPUT, "--timezone=Nowhere"], "--timezone=Nowhere"),
    ([*INPUT, "--ITEM_ID_FIELD=sku"], "'sku'"),
    ([*INPUT, "--exclude=no.txt"], "--exclude=no.txt"),
    ([*INPUT, "--exclude=not.txt"], "26 items, such as 'i"),
    ([*INPUT, "--filter_viewd=True"], "`--filter_viewed`"),
    (["evaluate", "--input=single.csv"], "there is no history"),
    (["evaluate", "--topk=ten"], "--topk: 'ten'"),
    (["evaluate", "--targets=log.csv"], "--input"),
    (["evaluate", "--input=log.csv", "--targets=log.csv"], "log.csv: user 'u"),
    (["evaluate", "--input=log.csv", "--targets=new.csv"], "30 of 30 items"),
    (["evaluate", "--input=log.csv", "--targets=others.csv"], "30 users"),
    (["similar", "--item=x"], "'x'"),
    (["similar", "--item=i1", "--items=a.txt"], "--items"),
    (["similar", "--device=cuda:99"], "--device=cuda:99"),
    (["info", "--checkpoint=no.pth"], "no.pth"),
    (["evaluate", "--checkpoint=folder"], "folder is not a folder that"),
    (["append", "--output=n.pth"], "(--item) or `vectors`"),
    (["append", "--checkpoint=folder", "--item=new", "--output=n.pth"], "folder is a folder, such as `export`"),
]


def test_mistakes_are_named_in_one_line_and_change_no_file(
    model: Recommender, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("folder").mkdir()
    FRAME.to_parquet("folder/a.parquet")
    Path("not.txt").write_text("7\n8\n")
    Path("dates.csv").write_text("user_id,item_id,timestamp\nu,i1,02/01/2026\nu,i2,01/02/2026\n")
    last = FRAME.groupby("user_id").tail(1)
    last.assign(item_id="new").to_csv("new.csv", index=False)
    last.assign(user_id=last["user_id"] + "x").to_csv("others.csv", index=False)
    FRAME[:1].to_csv("single.csv", index=False)
    FRAME.assign(item_id=FRAME["item_id"].str[1:]).to_csv("bare.csv", index=False)
    FRAME.rename(columns={"timestamp": "time"}).to_csv("named.csv", index=False)
    before = {file: file.read_bytes() for file in Path().rglob("*") if file.is_file()}
    for arguments, named in WRONG:
        assert ask(*arguments) == 2, arguments
        said = capsys.readouterr().err
        message = said[said.rindex("error: ") :].strip()
        assert named in message
        assert "\n" not in message
        assert all(file.read_bytes() == content for file, content in before.items())
        assert {file for file in Path().rglob("*") if file.is_file()} == {*before}, arguments


def test_dates_are_read_by_the_form_that_is_given_or_as_in_the_training(model: Recommender) -> None:
    frame = pd.DataFrame({"user_id": ["u"] * 2, "item_id": ["i1", "i2"], "timestamp": ["02/01/2026", "01/02/2026"]})
    frame.to_csv("dates.csv", index=False)
    command = ["recommend", "--input=dates.csv", "--output=top.csv", "--k=3"]
    for form, history in (("%d/%m/%Y", ["i1", "i2"]), ("%m/%d/%Y", ["i2", "i1"])):
        assert ask(*command, f"--date_format={form}", "--timezone=Europe/Berlin") == 0
        assert_top(model.recommend({"u": history}, k=3))
        model.dates = form, None
        assert model.read(frame).items.tolist() == model.read([history]).items.tolist()


def test_a_file_of_items_has_any_form_that_text_editors_give_it(model: Recommender) -> None:
    wanted = model.recommend(SHUFFLED, exclude=["i3", "i4"])
    texts = {"utf-8": '"i3"\n"i4"\n', "utf-8-sig": " i3 \r\ni4\r\n", "utf-16": "i3\ni4\nno such\n"}
    for encoding, text in texts.items():
        Path("not.txt").write_bytes(text.encode(encoding))
        assert ask(*INPUT, "--exclude=not.txt") == 0, encoding
        assert_top(wanted)


def test_evaluate_counts_who_and_what_is_left_out(
    model: Recommender, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interactions, "_PART", 1)
    last = FRAME.groupby("user_id").tail(1)
    before = FRAME.drop(last.index)
    before.to_csv("before.csv", index=False)
    some = last.iloc[2:].copy()
    some.loc[some.index[:3], "item_id"] = "new"
    pd.concat([some, some.iloc[:1].assign(user_id="nobody")]).to_csv("some.csv", index=False)
    before.assign(item_id=before["item_id"].where(before["user_id"] != "u5", "new")).to_csv("part.csv", index=False)
    assert ask("evaluate", "--input=part.csv", "--targets=some.csv") == 0
    found = capsys.readouterr()
    lacking = (before["user_id"] == "u5").sum()
    kept = before["user_id"].isin(some["user_id"]).sum()
    assert json.loads(found.out)["users"] == 28
    for said in (
        f"{lacking} of {kept} interactions are left out",
        "2 users of part.csv are left out",
        "1 users of some.csv are left out",
        "3 of 28 targets",
    ):
        assert said in found.err


def test_a_text_of_another_form_is_read_as_the_flags_say(model: Recommender) -> None:
    texts = SHUFFLED.assign(user_id="é" + SHUFFLED["user_id"]).to_csv(index=False, sep="^", quotechar="'", quoting=1)
    Path("other.csv").write_bytes(texts.encode("cp1252"))
    flags = ["--encoding=cp1252", "--separator=^", "--quote='", "--output=top.csv", "--k=2"]
    assert ask("recommend", "--input=other.csv", *flags) == 0
    found = pd.read_csv("top.csv")
    assert_top(model.recommend(SHUFFLED, k=2), found.assign(user_id=found["user_id"].str[1:]))
    assert ask("recommend", "--input=other.csv", *flags[1:]) == 2


def test_append_writes_a_checkpoint_that_knows_new_items(
    model: Recommender, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["append", "--output=more.pth"]
    assert ask(*command, "--item=new", "--like=i3,i5", "--item=any") == 0
    more = load("more.pth", "cpu")
    assert more.items[-2:] == ["new", "any"]
    scores = more.score([["i1", "i2"]], ["i3", "i5", "new"])["score"]
    assert scores[2] == pytest.approx(scores[:2].mean(), abs=1e-4)
    for flags, named in ((["--item=i3"], "'i3'"), (["--item=x", "--like=i3,no"], "(--like) names 1 of 2 items")):
        assert ask(*command, *flags) == 2
        assert named in capsys.readouterr().err


def test_append_takes_new_items_by_their_contents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path(trained_in(tmp_path, item_vectors="vectors.parquet").file).rename("m.pth")
    for items, code, said in (
        (["i3", "cold"], 2, "all 2 are known"),
        (["i3", "blue", "cold"], 0, "1 of them new; 2 of grown.parquet were known"),
    ):
        vectors = [[1.0, 2.0, 3.0, 4.0, 5.0]] * len(items)
        pd.DataFrame({"item_id": items, "vector": vectors}).to_parquet("grown.parquet")
        assert ask("append", "--vectors=grown.parquet", "--output=more.pth") == code
        assert said in capsys.readouterr().err
    assert load("more.pth", "cpu").items[-3:] == ["cold", "colder", "blue"]
