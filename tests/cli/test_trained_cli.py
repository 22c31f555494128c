"""The commands that ask a checkpoint: whole tables, resumed parts, metrics, and mistakes in one line."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from recbole_bert4rec import load
from recbole_bert4rec.cli.main import main
from recbole_bert4rec.logs import interactions
from recbole_bert4rec.recommend import bulk, ids
from recbole_bert4rec.recommend.recommender import Recommender
from tests.helpers.trained import ROWS, trained

FRAME = pd.DataFrame(ROWS, columns=["user_id", "item_id", "timestamp"])


@pytest.fixture
def model(write_inter: Any, monkeypatch: pytest.MonkeyPatch) -> Recommender:
    """A checkpoint, ``m.pth``, and a log of several parts, ``log.csv``."""
    Path(trained(write_inter, keep_histories=True).file).rename("m.pth")
    FRAME.sample(frac=1.0, random_state=1).to_csv("log.csv", index=False)
    monkeypatch.setattr(interactions, "_PART", 60)
    return load("m.pth", "cpu")


def ask(*arguments: str) -> int:
    return main([arguments[0], "--checkpoint=m.pth", "--device=cpu", *arguments[1:]])


def ordered(table: pd.DataFrame) -> pd.DataFrame:
    return table.sort_values(["user_id", "rank"]).reset_index(drop=True)


@pytest.mark.parametrize("output", ["top.csv", "top.parquet"])
def test_a_file_is_answered_as_the_model_answers_it(
    output: str, model: Recommender, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("not.txt").write_text("i3\ni4\n")
    flags = ["--k=4", "--filter_viewed=True", "--exclude=not.txt"]
    assert ask("recommend", "--input=log.csv", f"--output={output}", *flags) == 0
    found = pd.read_csv(output) if output.endswith("csv") else pd.read_parquet(output)
    wanted = model.recommend(FRAME, k=4, filter_viewed=True, exclude=["i3", "i4"])
    pd.testing.assert_frame_equal(ordered(found), ordered(wanted), check_dtype=False, atol=1e-4)
    assert f"30 users answered in {output}" in capsys.readouterr().err
    assert not list(Path().glob("*.parts")) + list(Path().glob(".*"))


def test_users_for_whom_no_item_is_left_are_counted_apart(
    model: Recommender, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("only.txt").write_text("i3\n")
    seen = FRAME[FRAME["item_id"] == "i3"]["user_id"].nunique()
    assert 0 < seen < 30
    assert (
        ask("recommend", "--input=log.csv", "--output=top.csv", "--items_to_recommend=only.txt", "--filter_viewed=True")
        == 0
    )
    said = f"{30 - seen} users answered in top.csv; {seen} users have no row: no item is left for them"
    assert said in capsys.readouterr().err


def test_without_an_input_those_in_the_checkpoint_get_recommendations(
    model: Recommender, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask("recommend", "--output=top.csv", "--k=2") == 0
    pd.testing.assert_frame_equal(pd.read_csv("top.csv"), model.recommend(k=2), check_dtype=False, atol=1e-4)
    assert "filter_viewed is auto: items of a history are left out: the model learnt" in capsys.readouterr().err


def test_a_stopped_command_goes_on_after_its_finished_parts(
    model: Recommender, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["recommend", "--input=log.csv", "--output=top.csv", "--k=3"]
    write, written = bulk.write_table, []

    def stopped(table: pd.DataFrame, path: Path, kind: str) -> None:
        written.append(len(table))
        if len(written) == 3:
            path.write_text("half")
            raise KeyboardInterrupt
        write(table, path, kind)

    monkeypatch.setattr(bulk, "write_table", stopped)
    assert ask(*command) == 130
    assert "finished parts are kept" in capsys.readouterr().err
    assert not Path("top.csv").exists()
    done = sorted(Path("top.csv.parts/answers").glob("*.csv"))
    assert len(done) == 2
    times = [file.stat().st_mtime_ns for file in done]
    monkeypatch.setattr(
        bulk, "join_tables", lambda parts, *rest: seen.extend(parts) or interactions.join_tables(parts, *rest)
    )
    seen: list[Path] = []
    monkeypatch.setattr(bulk.shutil, "rmtree", lambda *_: None)  # to look at the parts
    assert ask(*command) == 0
    assert [file.stat().st_mtime_ns for file in done] == times
    assert len(seen) == len(set(seen)) > 2
    pd.testing.assert_frame_equal(
        ordered(pd.read_csv("top.csv")), ordered(model.recommend(FRAME, k=3)), check_dtype=False, atol=1e-4
    )


def test_another_command_begins_anew_and_another_s_folder_is_left_alone(model: Recommender) -> None:
    Path("top.csv.parts").mkdir()
    (Path("top.csv.parts") / "mine.txt").write_text("mine")
    assert ask("recommend", "--input=log.csv", "--output=top.csv") == 2
    assert (Path("top.csv.parts") / "mine.txt").read_text() == "mine"
    (Path("top.csv.parts") / "made_from.json").write_text("{}")
    Path("top.csv.parts/answers").mkdir()
    Path("top.csv.parts/answers/00000.csv").write_text("old\n")
    assert ask("recommend", "--input=log.csv", "--output=top.csv", "--k=1") == 0
    assert len(pd.read_csv("top.csv")) == 30


def test_metrics_of_a_file_are_those_of_the_model(model: Recommender, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = model.evaluate(FRAME, topk=(3, 10))
    assert ask("evaluate", "--input=log.csv", "--topk=3,10") == 0
    assert json.loads(capsys.readouterr().out) == pytest.approx(wanted, abs=1e-6)
    last = FRAME.groupby("user_id").tail(1)
    FRAME.drop(last.index).to_csv("before.csv", index=False)
    last[["user_id", "item_id"]].to_csv("after.csv", index=False)
    assert ask("evaluate", "--input=before.csv", "--targets=after.csv", "--topk=3,10") == 0
    assert json.loads(capsys.readouterr().out) == pytest.approx(wanted, abs=1e-6)
    assert ask("evaluate", "--topk=3,10") == 0
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


def test_info_says_what_is_in_a_checkpoint(model: Recommender, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("info") == 0
    said = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert said["model"].startswith("BERT4Rec, objective cloze, ")
    assert said["histories"] == f"30 users, {len(ROWS)} interactions"
    assert "hidden_size 16" in said["encoder"]
    assert "keep_histories True" in said["changed"]
    assert "the model learnt to add -3 to" in said["filter_viewed"]


WRONG = [
    (["recommend", "--input=log.csv", "--output=top.txt"], "--output must name a .csv or .parquet file"),
    (["recommend", "--input=no.csv", "--output=top.csv"], "--input=no.csv: no such file"),
    (["recommend", "--input=log.csv", "--output=no/top.csv"], "--output=no/top.csv: folder"),
    (["recommend", "--input=log.csv", "--output=top.csv", "--k=0"], "`k` must be a whole number at least 1"),
    (["recommend", "--input=log.csv", "--output=top.csv", "--ITEM_ID_FIELD=sku"], "log.csv has no column 'sku'"),
    (["recommend", "--input=log.csv", "--output=top.csv", "--exclude=no.txt"], "--exclude=no.txt cannot be read"),
    (["recommend", "--output=top.csv", "--kay=3"], "recommend does not know --kay=3"),
    (["recommend", "--output=top.csv", "--filter_viewd=True"], "did you mean `--filter_viewed`?"),
    (["evaluate", "--topk=ten"], "--topk=ten must be whole numbers"),
    (["evaluate", "--targets=log.csv"], "--targets needs --input"),
    (["evaluate", "--input=log.csv", "--targets=log.csv"], "log.csv: user 'u"),
    (["similar", "--item=x"], "`items` names 1 of 1 items that the model does not know, such as 'x'"),
    (["similar", "--item=i1", "--items=a.txt"], "--item and --items do not go together"),
    (["info", "--device=cuda:99"], "--device=cuda:99 cannot be used"),
]


def test_mistakes_are_one_line(model: Recommender, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, words in WRONG:
        assert ask(*arguments) == 2
        said = capsys.readouterr().err
        message = said[said.rindex("error: ") :].strip()
        assert words in message
        assert "\n" not in message
        assert not Path("top.csv").exists()


def test_a_checkpoint_that_is_missing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--checkpoint=no.pth"]) == 2
    assert "checkpoint no.pth does not exist" in capsys.readouterr().err


def test_dates_are_read_by_the_form_that_is_given(model: Recommender, capsys: pytest.CaptureFixture[str]) -> None:
    Path("dates.csv").write_text("user_id,item_id,timestamp\nu,i1,02/01/2026\nu,i2,01/02/2026\n")
    command = ["recommend", "--input=dates.csv", "--output=top.csv", "--k=3"]
    assert ask(*command) == 2
    assert "say which with --date_format" in capsys.readouterr().err
    for form, history in (("%d/%m/%Y", ["i1", "i2"]), ("%m/%d/%Y", ["i2", "i1"])):
        assert ask(*command, f"--date_format={form}", "--timezone=Europe/Berlin") == 0
        wanted = model.recommend({"u": history}, k=3)
        pd.testing.assert_frame_equal(pd.read_csv("top.csv"), wanted, check_dtype=False, atol=1e-4)
    assert ask(*command, "--timezone=Nowhere") == 2
    assert "--timezone=Nowhere must be a name such as" in capsys.readouterr().err


def test_dates_are_read_as_in_the_training_where_nothing_is_given(model: Recommender) -> None:
    model.dates = model.dates._replace(form="%d/%m/%Y")
    frame = pd.DataFrame({"user_id": ["u"] * 2, "item_id": ["i1", "i2"], "timestamp": ["02/01/2026", "01/02/2026"]})
    assert model.read(frame).items.tolist() == model.read([["i1", "i2"]]).items.tolist()
    model.dates = model.dates._replace(form="%m/%d/%Y")
    assert model.read(frame).items.tolist() == model.read([["i2", "i1"]]).items.tolist()


def test_an_exported_folder_is_no_checkpoint(capsys: pytest.CaptureFixture[str]) -> None:
    Path("exported").mkdir()
    for command in (["recommend", "--output=top.csv"], ["info"], ["similar", "--item=i1"], ["evaluate"]):
        assert main([command[0], "--checkpoint=exported", *command[1:]]) == 2
        assert "--checkpoint=exported is a folder, and the commands ask checkpoints" in capsys.readouterr().err


def test_a_file_of_items_has_any_form_that_text_editors_give_it(
    model: Recommender, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(ids, "getLogger", lambda name: SimpleNamespace(warning=said.append))
    wanted = model.recommend(FRAME, exclude=["i3", "i4"])
    texts = {"quoted": '"i3"\n"i4"\n', "spaced": " i3 \r\ni4\r\n", "some": "i3\ni4\nno such\n"}
    for form, text in texts.items():
        for encoding in ("utf-8", "utf-8-sig", "utf-16"):
            Path("not.txt").write_bytes(text.encode(encoding))
            assert ask("recommend", "--input=log.csv", "--output=top.csv", "--exclude=not.txt") == 0, form
            found = pd.read_csv("top.csv")
            pd.testing.assert_frame_equal(ordered(found), ordered(wanted), check_dtype=False, atol=1e-4)
    warning = "`exclude` names 1 of 3 items that the model does not know, such as 'no such'; they are left out"
    assert said == [warning] * 3


def test_files_of_which_the_model_knows_nothing_are_refused_with_an_example_of_each_side(
    model: Recommender, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("not.txt").write_text("7\n8\n")
    FRAME.assign(item_id=FRAME["item_id"].str[1:]).to_csv("bare.csv", index=False)
    commands = [
        ["recommend", "--input=log.csv", "--exclude=not.txt"],
        ["recommend", "--input=log.csv", "--items_to_recommend=not.txt"],
        ["recommend", "--input=bare.csv"],
    ]
    for command in commands:
        assert ask(*command, "--output=top.csv") == 2
        said = capsys.readouterr().err
        assert "that the model does not know, such as '" in said
        assert "it knows 26 items, such as 'i" in said
        assert not list(Path().glob("top.*"))
    FRAME.assign(item_id=[f"x{n}" if user == "u1" else item for n, (user, item, _) in enumerate(ROWS)]).to_csv(
        "part.csv", index=False
    )
    assert ask("recommend", "--input=part.csv", "--output=top.csv") == 0
    assert "; 1 users have no other ones, and are answered as without a history" in capsys.readouterr().err


def test_evaluate_counts_who_and_what_is_left_out_and_refuses_files_that_do_not_match(
    model: Recommender, capsys: pytest.CaptureFixture[str]
) -> None:
    last = FRAME.groupby("user_id").tail(1)
    before = FRAME.drop(last.index)
    before.to_csv("before.csv", index=False)
    some = last.iloc[2:].copy()
    some.iloc[:3, some.columns.get_loc("item_id")] = "new"
    pd.concat([some, some.iloc[:1].assign(user_id="nobody")]).to_csv("some.csv", index=False)
    before.assign(item_id=before["item_id"].where(before["user_id"] != "u5", "new")).to_csv("part.csv", index=False)
    assert ask("evaluate", "--input=part.csv", "--targets=some.csv") == 0
    found = capsys.readouterr()
    lacking = (before["user_id"] == "u5").sum()
    kept = before["user_id"].isin(some["user_id"]).sum()
    assert json.loads(found.out)["users"] == 28
    for said in (
        f"{lacking} of {kept} interactions are left out: the model does not know their items",
        "2 users of part.csv are left out: they are not in some.csv",
        "1 users of some.csv are left out: they are not in part.csv",
        "3 of 28 targets are items that the model does not know, and count as misses",
    ):
        assert said in found.err
    last.assign(item_id="new").to_csv("new.csv", index=False)
    last.assign(user_id=last["user_id"] + "x").to_csv("others.csv", index=False)
    before.assign(item_id=before["item_id"].str[1:]).to_csv("bare.csv", index=False)
    for command, said in (
        (["--input=bare.csv"], "it knows 26 items, such as 'i"),
        (["--input=before.csv", "--targets=new.csv"], "new.csv: it names 30 of 30 items that the model does not know"),
        (
            ["--input=before.csv", "--targets=others.csv"],
            "others.csv: none of its 30 users is in before.csv, such as 'u",
        ),
    ):
        assert ask("evaluate", *command) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["recommend", "--input=log.csv", "--output=log.csv"], "--output=log.csv would replace --input=log.csv"),
        (["recommend", "--input=folder", "--output=folder/top.parquet"], "would replace --input=folder"),
        (["recommend", "--input=folder/a.parquet", "--output=folder"], "would replace --input=folder/a.parquet"),
        (["recommend", "--input=named.csv", "--output=top.csv", "--TIME_FIELD=when"], "named.csv has no column 'when'"),
    ],
)
def test_what_is_read_is_not_written_over_and_times_that_are_named_are_there(
    command: list[str], said: str, model: Recommender, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("folder").mkdir()
    FRAME.to_parquet("folder/a.parquet")
    FRAME.rename(columns={"timestamp": "time"}).to_csv("named.csv", index=False)
    before = Path("log.csv").read_bytes()
    assert ask(*command) == 2
    assert said in capsys.readouterr().err
    assert Path("log.csv").read_bytes() == before
    assert [path.name for path in Path("folder").iterdir()] == ["a.parquet"]


def test_a_file_without_the_column_of_times_is_said_to_be_taken_in_its_order(
    model: Recommender, caplog: pytest.LogCaptureFixture
) -> None:
    FRAME.rename(columns={"timestamp": "time"}).to_csv("named.csv", index=False)
    assert ask("evaluate", "--input=named.csv") == 0
    assert "there is no column 'timestamp', so that the rows are taken in their order" in caplog.text


def test_a_text_of_another_form_is_read_as_the_flags_say(model: Recommender) -> None:
    texts = FRAME.assign(user_id="é" + FRAME["user_id"]).to_csv(index=False, sep="^", quotechar="'", quoting=1)
    Path("other.csv").write_bytes(texts.encode("cp1252"))
    flags = ["--encoding=cp1252", "--separator=^", "--quote='", "--output=top.csv", "--k=2"]
    assert ask("recommend", "--input=other.csv", *flags) == 0
    wanted = model.recommend(FRAME, k=2)
    found = pd.read_csv("top.csv")
    pd.testing.assert_frame_equal(
        ordered(found.assign(user_id=found["user_id"].str[1:])), ordered(wanted), check_dtype=False, atol=1e-4
    )
    assert ask("recommend", "--input=other.csv", *flags[1:]) == 2
