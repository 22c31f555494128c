"""Gives damaged files to a reader: each is read, or refused in one line, soon, and none runs code."""

from __future__ import annotations

import random
import resource
import signal
import traceback
import warnings
from collections import Counter
from pathlib import Path
from types import FrameType

from recbole_bert4rec.system.errors import UserError
from tests.fuzz.readers import READERS, folder_of

_SECONDS = 5
_CORPUS = Path(__file__).parent / "corpus"
"""What a reader once failed at, in a folder of its name."""


class Slow(Exception):
    """A reader took too long."""


def attack(name: str, count: int, seed: int, keep: Path | None = None) -> dict[str, int]:
    """Damage files of one kind; return how often each thing happened. Only "read" and "refused" are right.

    Args:
        name: of :data:`READERS`.
        count: of damaged files, after those of the corpus.
        seed: of the damage.
        keep: folder for the files that the reader fails at, each with the error beside it.
    """
    reader, draw, ends = READERS[name], random.Random(seed), Counter[str]()
    whole = reader.whole()
    corpus = sorted((_CORPUS / name).glob("*")) if (_CORPUS / name).is_dir() else []
    for number in range(-len(corpus), count):
        with folder_of(reader.around()):
            content = corpus[number].read_bytes() if number < 0 else reader.damage(whole, draw)
            path = Path(reader.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            end, said = _read(name, path)
            if Path("pwned").exists():
                end, said = "ran code", ""
        ends[end] += 1
        if end not in ("read", "refused") and keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            (keep / f"{name}-{number}").write_bytes(content)
            (keep / f"{name}-{number}.txt").write_text(said)
    return dict(ends)


def _read(name: str, path: Path) -> tuple[str, str]:
    """Read a file; return how that ended, and what was said."""
    signal.signal(signal.SIGALRM, _stop)
    signal.alarm(_SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            READERS[name].read(path)
    except UserError as error:
        return ("refused" if len(str(error)) < 4000 else "refused at length"), str(error)
    except BaseException as error:
        return type(error).__name__, traceback.format_exc()
    finally:
        signal.alarm(0)
    return "read", ""


def _stop(number: int, frame: FrameType | None) -> None:
    raise Slow


def peak_mb() -> float:
    """Return the most memory that this process held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
