"""The commands that ask a trained model: recommend, similar, evaluate, append, serve, export, info."""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recbole_bert4rec.cli.flags import Commands, Parser, add_command, from_1, of_ray, refuse_without, uses_ray
from recbole_bert4rec.options.kinds import AUTO, literal
from recbole_bert4rec.system.constants import NAMES_OF_COLUMNS, PADDING
from recbole_bert4rec.system.environment import need
from recbole_bert4rec.system.errors import UserError, why
from recbole_bert4rec.system.files import TABLES, check_output, refuse_same

if TYPE_CHECKING:
    from recbole_bert4rec.logs.interactions import InteractionFile
    from recbole_bert4rec.recommend.recommender import Recommender

_FORM = {
    **dict.fromkeys(NAMES_OF_COLUMNS, "name of a column"),
    "date_format": "form of its dates",
    "timezone": "time zone of its dates",
    "encoding": "of a text",
    "separator": "character between the columns of a text",
    "quote": "character around values of a text, or none",
    "escape": "character before a quote that belongs to a value",
    "columns": "names of the columns of a text without a header, with commas",
}
"""Flags about the form of a file."""


def add_to(commands: Commands[Parser]) -> None:
    """Add the commands."""
    command, checkpoint = partial(add_command, commands, left_behind="nothing was written"), _of_checkpoint()
    adjustment = "rank less by popularity, by score - this * log(n + 1) (default: the checkpoint's)"

    parents = checkpoint, _of_file("auto, which follows from what the model learnt", AUTO), of_ray()
    add = command("recommend", "recommend to anybody", *parents, execute=_recommend, filter_viewed=AUTO).add_argument
    add("--output", required=True, metavar="FILE", help="table of user, item, rank, score: .csv or .parquet")
    add("--k", type=int, default=10, help="items for each user (default: %(default)s)")
    add("--items_to_recommend", metavar="FILE", help="text file of the only items to recommend, one a line")
    add("--exclude", metavar="FILE", help="text file of items not to recommend, one a line")
    add("--logit_adjustment", type=float, help=adjustment)

    parser = command("similar", "list the items that are similar to an item", checkpoint, execute=_similar)
    add = parser.add_mutually_exclusive_group().add_argument
    add("--item", metavar="ID", action="append", help="an item; the flag may be given several times")
    add("--items", metavar="FILE", help="text file of items, one a line (default: all)")
    parser.add_argument("--k", type=int, default=10, help="similar items of each (default: %(default)s)")
    parser.add_argument("--output", metavar="FILE", help="table of .csv or .parquet (default: print it)")

    file = _of_file("what the validation of the training did")
    add = command("evaluate", "judge a model on given histories", checkpoint, file, execute=_evaluate).add_argument
    add("--targets", metavar="FILE", help="what came next, a row a user (default: the last item of each history)")
    text = "lengths of the list, separated by commas (default: 10)"
    add("--topk", type=lambda line: [*map(from_1, line.split(","))], default=[10], help=text)

    add = command("append", "add new items to a model, without training", checkpoint, execute=_append).add_argument
    text = "a new item; the flag may be given several times"
    add("--item", metavar="ID", dest="new", action="append", default=[], help=text)
    text = "after --item: known items that are similar to it, separated by commas (default: all items)"
    add("--like", metavar="IDS", dest="new", action="append", type=lambda line: next(csv.reader([line])), help=text)
    add("--vectors", metavar="FILE", help="vectors of new items: .parquet, as the option item_vectors reads it")
    add("--output", required=True, metavar="FILE", help="checkpoint to write, with the new items")

    purpose, left_behind = "answer over HTTP, with a page to look at it", "the service has ended"
    add = command("serve", purpose, checkpoint, execute=_serve, left_behind=left_behind).add_argument
    text = "names of the items: .item, or what --dataset reads (default: DATASET.item beside FILE)"
    add("--items", metavar="FILE", help=text)
    add("--host", default="127.0.0.1", help="address to listen at (default: %(default)s, for this machine alone)")
    add("--port", type=int, default=8000, help="port to listen at; 0 for any free one (default: %(default)s)")

    add = command("export", "write a model as ONNX, which needs no torch", checkpoint, execute=_export).add_argument
    add("--logit_adjustment", type=float, help=adjustment)
    add("--output", required=True, metavar="FOLDER", help="folder to make, with graph, items and options")

    command("info", "say what is in a checkpoint", checkpoint, execute=_info, left_behind="nothing was changed")


def _of_checkpoint() -> Parser:
    """Return the flags that name a model."""
    parser = Parser(add_help=False)
    text = "checkpoint of a run, whose summary names it; or, to recommend, evaluate or serve, a folder of export"
    parser.add_argument("--checkpoint", required=True, metavar="FILE", help=text)
    text = "class of a model of your own, which the checkpoint only names"
    parser.add_argument("--model", metavar="MODULE:CLASS", help=text)
    text = "where the model computes, such as cpu or cuda:1 (default: a GPU where there is one)"
    parser.add_argument("--device", help=text)
    return parser


def _of_file(default: str, *more: str) -> Parser:
    """Return the flags for a file of histories, with a default and more choices of ``--filter_viewed``."""
    parser = Parser(add_help=False)
    text = "histories: what --dataset reads, or .inter; a row an interaction, or a row a user with a list of items "
    text += "(default: those in the checkpoint)"
    parser.add_argument("--input", metavar="FILE", help=text)
    for name, of_what in _FORM.items():
        parser.add_argument(f"--{name}", help=f"{of_what} (default: that of the training)")
    choices, text = [True, False, *more], f"leave out the items of a user's history (default: {default})"
    parser.add_argument("--filter_viewed", type=literal, choices=choices, help=text)
    return parser


def _model(arguments: argparse.Namespace, checkpoint: str | None = None, **more: Any) -> Recommender:
    """Load the model, by default that of ``--checkpoint``."""
    from recbole_bert4rec.recommend.load import load

    more |= {"model": arguments.model, "logit_adjustment": vars(arguments).get("logit_adjustment")}
    try:
        return load(checkpoint or arguments.checkpoint, arguments.device, **more)
    except (RuntimeError, AssertionError) as error:
        if arguments.device is None:
            raise
        raise UserError(f"--device={arguments.device} cannot be used: {str(error).splitlines()[0]}") from error


def _file(arguments: argparse.Namespace, model: Recommender, flag: str = "input") -> InteractionFile | None:
    """Open the file of a flag; its form is that of the training log, but for other flags. None without the flag."""
    from recbole_bert4rec.logs.formats import Reading, names_with_commas
    from recbole_bert4rec.logs.interactions import InteractionFile

    path = getattr(arguments, flag)
    if path is None:
        return None
    form: dict[str, Any] = {name: getattr(arguments, name) or model.config.get(name) for name in _FORM}
    if not arguments.encoding and str(form["encoding"]).lower() in ("utf-8", "utf8"):
        form["encoding"] = None  # RecBole's default: that of this file is found
    if form["columns"]:
        form["columns"] = names_with_commas(form["columns"])
    user, item, time = (form.pop(name) for name in NAMES_OF_COLUMNS)
    reading, is_named = Reading(**form, in_order=bool(model.config.get("in_order"))), arguments.TIME_FIELD is not None
    if is_named and reading.in_order:
        why_not = "the model was trained with `in_order`, and takes rows in their order"
        raise UserError(f"--TIME_FIELD={time} has no effect: {why_not}")
    return InteractionFile(path, (user, item, time), reading, f"--{flag}", is_named)


def _items(flag: str, path: str | None, model: Recommender, needed: str = "one") -> list[str] | None:
    """List the known items of a text file, one a line; spaces and quotes around unknown ones are removed."""
    if path is None:
        return None
    from recbole_bert4rec.logs.formats import encoding_of

    try:
        content = Path(path).read_bytes()
        lines = [line for line in content.decode(encoding_of(content[:1024])).splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{flag}={path} cannot be read: {why(error)}") from error
    items = {*model.items}
    named = [line if line in items else next(csv.reader([line.strip()], delimiter="\x1f"))[0] for line in lines]
    found: list[str] = model.catalogue.tokens[model.catalogue.known(named, f"{flag}={path}", needed)].tolist()
    return found


def _recommend(arguments: argparse.Namespace) -> None:
    """Recommend to all users of a file, or of the checkpoint."""
    check_output("--output", arguments.output, TABLES)
    refuse_without("--input=FILE", arguments.input, arguments, *_FORM, "engine")
    on_ray = uses_ray(arguments)
    if arguments.input is not None:
        refuse_same("--output", arguments.output, "--input", arguments.input)
    model = _model(arguments)
    source = _file(arguments, model)
    how = {name: getattr(arguments, name) for name in ("k", "filter_viewed")}
    how |= {name: _items(f"--{name}", getattr(arguments, name), model) for name in ("items_to_recommend", "exclude")}
    if arguments.filter_viewed == AUTO:
        print(f"filter_viewed is auto: {model.viewed.why}", file=sys.stderr)
    from recbole_bert4rec.recommend.bulk import recommend_file, write_tables

    if source is None:
        table = model.recommend(**how)
        write_tables([table], arguments.output)
        print(f"{table[model.fields[0]].nunique()} users answered in {arguments.output}", file=sys.stderr)
        return
    answers: Any = nullcontext()
    if on_ray:
        from recbole_bert4rec.recommend.on_ray import answer_on_ray

        arguments.checkpoint = os.path.abspath(arguments.checkpoint)
        workers = arguments.num_workers or 1
        answers = answer_on_ray(partial(_model, arguments), how, workers, arguments.ray_address)
    with answers as answer:
        count = recommend_file(model, source, arguments.output, how, answer)
    remarks = {
        "interactions are left out: the model does not know their items": count["skipped"],
        "users have no other ones, and are answered as without a history": count["without_history"],
        "users have no row: no item is left for them": count["without_row"],
    }
    said = [f"{count['users']} users answered in {arguments.output}"]
    print("; ".join(said + [f"{number} {what}" for what, number in remarks.items() if number]), file=sys.stderr)


def _similar(arguments: argparse.Namespace) -> None:
    """List similar items."""
    from recbole_bert4rec.recommend.bulk import write_tables

    if arguments.output is not None:
        check_output("--output", arguments.output, TABLES)
    model = _model(arguments)
    items = arguments.item or _items("--items", arguments.items, model, "all")
    table = model.similar_items(model.items if items is None else items, arguments.k)
    if arguments.output is None:
        table.to_csv(sys.stdout, index=False)
    else:
        write_tables([table], arguments.output)


def _evaluate(arguments: argparse.Namespace) -> None:
    """Evaluate, and print the metrics as JSON."""
    from recbole_bert4rec.recommend.bulk import evaluate_file

    refuse_without("--input=FILE", arguments.input, arguments, *_FORM, "targets")
    model = _model(arguments, cold_items=os.path.isdir(arguments.checkpoint))
    source, targets = (_file(arguments, model, flag) for flag in ("input", "targets"))
    how, left_out = (arguments.topk, arguments.filter_viewed), list[str]()
    if source is None:
        metrics = model.evaluate(None, None, *how)
    else:
        metrics, left_out = evaluate_file(model, source, targets, *how)
    print(json.dumps(metrics))
    for sentence in left_out:
        print(sentence, file=sys.stderr)


def _append(arguments: argparse.Namespace) -> None:
    """Write a checkpoint that knows more items."""
    neighbours: dict[str, list[str]] = {}
    of_last: list[str] | None = None
    for word in arguments.new:  # items, each perhaps with lists of those that it is like
        if isinstance(word, str):
            of_last = neighbours.setdefault(word, [])
        elif of_last is None:
            raise UserError(f"--like={','.join(word)} stands before any --item, which it is about")
        else:
            of_last += word
    check_output("--output", arguments.output, (".pth",))
    refuse_same("--output", arguments.output, "--checkpoint", arguments.checkpoint)
    from recbole_bert4rec import checkpoints
    from recbole_bert4rec.logs.items import read_item_vectors
    from recbole_bert4rec.recommend.ids import Items
    from recbole_bert4rec.recommend.new_items import append_items, with_cold_items

    state = with_cold_items(checkpoints.read(arguments.checkpoint))
    vectors, left_out = {}, ""
    if arguments.vectors is not None:
        items, rows = read_item_vectors(arguments.vectors, state["config"]["ITEM_ID_FIELD"])
        is_new = Items(state["item_tokens"]).ids_of(items) == PADDING
        if not is_new.any():
            raise UserError(f"--vectors={arguments.vectors} holds no new item: all {len(items):,} are known")
        vectors = dict(zip(items[is_new], rows[is_new], strict=True))
        if len(vectors) < len(items):
            left_out = f"; {len(items) - len(vectors):,} of {arguments.vectors} were known, and stay as they are"
    opened = checkpoints.Opened(arguments.checkpoint, state)
    model = append_items(opened, neighbours, vectors, arguments.output, arguments.device, arguments.model)
    new = len(neighbours) + len(vectors)
    print(f"{arguments.output} knows {len(model.items):,} items, {new:,} of them new{left_out}", file=sys.stderr)


def _serve(arguments: argparse.Namespace) -> None:
    """Serve until it is stopped."""
    need("the service", "fastapi", "uvicorn", "prometheus_client")
    from recbole_bert4rec.serving.app import serve

    serve(arguments.checkpoint, partial(_model, arguments), arguments.items, arguments.host, arguments.port)


def _export(arguments: argparse.Namespace) -> None:
    """Write the folder."""
    from recbole_bert4rec.recommend.export import export

    export(_model(arguments), arguments.output)
    needs = "needs onnxruntime in place of torch"
    print(f"exported to {arguments.output}; load({arguments.output!r}) {needs}", file=sys.stderr)


def _info(arguments: argparse.Namespace) -> None:
    """Print what is in a checkpoint."""
    from recbole_bert4rec import checkpoints
    from recbole_bert4rec.core.growth import VECTORS
    from recbole_bert4rec.core.ranker import ITEM_DIGEST
    from recbole_bert4rec.options.table import OPTIONS, RECBOLES, SECTIONS
    from recbole_bert4rec.recommend.answers import viewed_rule

    file = arguments.checkpoint
    state = checkpoints.read(file, mapped=True)
    tensors, config, encoder, items = state["state_dict"], state["config"], SECTIONS["Encoder"], state["item_tokens"]
    weights = sum(tensor.numel() for name, tensor in tensors.items() if name not in (VECTORS, ITEM_DIGEST))
    stored, memory = state.get("histories"), state.get("other_parameter", {}).get("memory")
    others = {name: option.default for name, option in OPTIONS.items() if name not in encoder and name in config}
    changed = [name for name, default in others.items() if default not in (RECBOLES, config[name])]
    about = "none"
    if VECTORS in tensors:
        cold = len((state.get("cold_items") or {"tokens": ()})["tokens"])
        about = f"{tensors[VECTORS].shape[1]} numbers an item; {cold:,} more items have such and no interaction"
    metrics = ", ".join(f"{name} {value:g}" for name, value in state["best_valid_result"].items()) or "none"
    viewed = viewed_rule(tensors["seen_bias"].item() if "seen_bias" in tensors else None, bool(config["exclude_seen"]))
    lines = {
        "file": f"{file}, {os.path.getsize(file) / 2**20:.1f} MiB, {state['format']}",
        "model": f"{config['model']}, objective {config['objective']}, {weights:,} weights",
        "trained on": f"{config['dataset']}: {len(items) - 1:,} items, {state['item_counts'].sum():,} interactions",
        "epoch": f"{state['epoch']}, from 0",
        "validation": metrics + (" without the memory" if memory else ""),
        "memory": f"weight {memory['weight']:g}, {len(memory['items']):,} entries" if memory else "none",
        "contents": about,
        "columns": ", ".join(config[name] for name in NAMES_OF_COLUMNS),
        "histories": f"{len(stored['users']):,} users, {len(stored['items']):,} interactions" if stored else "none",
        "filter_viewed": f"auto: {viewed.why}",
        "encoder": ", ".join(f"{name} {config.get(name)}" for name in encoder),
        "changed": ", ".join(f"{name} {config[name]}" for name in changed) or "nothing",
    }
    for name, text in lines.items():
        print(f"{name:<{max(map(len, lines))}}  {text}")
