"""Each shipped data set loads by its name alone, with the statistics that its file states."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from recbole_bert4rec.plugin.dataset import BERT4RecDataset
from recbole_bert4rec.system.environment import find_config
from recbole_bert4rec.system.errors import UserError
from tests.helpers.runs import make_config, prepare

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "data"
FILES = sorted((ROOT / "properties" / "dataset").glob("*.yaml"))
HERE = [file.stem for file in FILES if (SHARED / file.stem).is_dir()]


def stated(name: str) -> list[int]:
    """Users, items and interactions as the comment of the file has them."""
    file = ROOT / "properties" / "dataset" / f"{name}.yaml"
    text = " ".join(line.strip("# \n") for line in file.read_text().splitlines())
    count = r"(\d[\d,]*)"
    numbers = re.search(rf"{count} users.*?{count} (?:items|artists).*?{count} (?:ratings|reviews|events)", text)
    assert numbers is not None
    return [int(number.replace(",", "")) for number in numbers.groups()]


@pytest.mark.parametrize("name", [file.stem for file in FILES if file.stem != "ml-100k"])
def test_a_data_set_in_recboles_folder_loads_by_its_name_alone(name: str) -> None:
    lines = ["user_id:token\titem_id:token\ttimestamp:float"]
    lines += [f"u{u}\ti{(u + t) % 14}\t{t}" for u in range(14) for t in range(6)]
    folder = Path("dataset") / name
    folder.mkdir(parents=True)
    (folder / f"{name}.inter").write_text("\n".join(lines) + "\n")
    parts = prepare(make_config(dataset=name))
    assert [len(part.dataset) for part in parts[1:]] == [14 * 3, 14, 14]


@pytest.mark.slow
@pytest.mark.skipif(not HERE, reason="the shared data sets are not beside this checkout")
@pytest.mark.parametrize("name", HERE or ["none"])
def test_users_items_and_interactions_are_as_stated(name: str) -> None:
    dataset = BERT4RecDataset(make_config(dataset=name, data_path=str(SHARED)))
    assert [dataset.user_num - 1, dataset.item_num - 1, dataset.inter_num] == stated(name)


RECIPES = sorted((ROOT / "properties" / "recipe").glob("*.yaml"))


@pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.stem)
def test_a_recipe_is_found_by_its_bare_name_and_has_no_mistake(file: Path) -> None:
    assert find_config(file.name) == str(file)
    options = {key: value for key, value in yaml.safe_load(file.read_text()).items() if key != "model"}
    config = make_config(**options)
    assert all(config[key] == value for key, value in options.items() if key != "eval_args")


CHANGED = {"hidden_dropout_prob", "loss_type", "MAX_ITEM_LIST_LENGTH", "n_negatives", "negatives", "epochs"}
CHANGED |= {"output_projection", "position", "seen_bias", "weight_decay"}
"""Options whose defaults changed after the recipes were measured."""
OF_A_MODEL = [file for file in RECIPES if file.stem.startswith(("best-", "paper")) and file.stem != "paper-baselines"]


@pytest.mark.parametrize("file", OF_A_MODEL, ids=lambda file: file.stem)
def test_a_recipe_of_a_model_leaves_nothing_to_the_defaults_that_were_chosen_by_validation(file: Path) -> None:
    recipe = yaml.safe_load(file.read_text("utf-8"))
    left = CHANGED - set(recipe)
    left -= {"n_negatives", "negatives"} if recipe["loss_type"] == "CE" else set()
    left -= {"MAX_ITEM_LIST_LENGTH", "epochs"} if file.stem == "paper" else set()  # they depend on the data set
    assert not left
    assert {"train_batch_size", "batch_sequences"} & {*recipe}


def test_a_file_of_the_user_comes_before_a_recipe_of_the_same_name(tmp_path: Path) -> None:
    (tmp_path / RECIPES[0].name).write_text("epochs: 1\n")
    assert find_config(RECIPES[0].name) == RECIPES[0].name
    with pytest.raises(UserError, match=r"mine\.yaml"):
        find_config("mine.yaml")
    (tmp_path / "mine.yaml").write_text("epochs: 1\n")
    assert find_config("mine.yaml") == "mine.yaml"
