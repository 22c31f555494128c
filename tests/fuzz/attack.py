"""Gives damaged files to a reader: each is read, or refused in one line, soon, and none runs code."""

from __future__ import annotations

import random
import signal
import warnings
from collections import Counter
from pathlib import Path
from types import FrameType

from recbole_bert4rec.system.errors import UserError
from tests.fuzz.readers import READERS, damaged, folder_of

_SECONDS = 5
_CORPUS = Path(__file__).parent / "corpus"
"""What a reader once failed at, in a folder of its name."""


class Slow(Exception):
    """A reader took too long."""


def attack(name: str, count: int, seed: int) -> dict[str, int]:
    """Damage files of one kind; return how often each thing happened. Only "read" and "refused" are right.

    Args:
        name: of :data:`READERS`.
        count: of damaged files, after those of the corpus.
        seed: of the damage.
    """
    reader, draw, ends = READERS[name], random.Random(seed), Counter[str]()
    whole = reader.whole()
    corpus = sorted((_CORPUS / name).glob("*")) if (_CORPUS / name).is_dir() else []
    for number in range(-len(corpus), count):
        with folder_of(reader.around()):
            content = corpus[number].read_bytes() if number < 0 else damaged(whole, draw)
            path = Path(reader.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            end = _read(name, path)
            ends["ran code" if Path("pwned").exists() else end] += 1
    return dict(ends)


def _read(name: str, path: Path) -> str:
    """Read a file; return how that ended."""
    signal.signal(signal.SIGALRM, _stop)
    signal.alarm(_SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            READERS[name].read(path)
    except UserError as error:
        return "refused" if len(str(error)) < 4000 else "refused at length"
    except BaseException as error:
        return type(error).__name__
    finally:
        signal.alarm(0)
    return "read"


def _stop(number: int, frame: FrameType | None) -> None:
    raise Slow
