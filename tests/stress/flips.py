"""Changes every byte of a checkpoint, one at a time, and counts the changes that nobody notices."""

from __future__ import annotations

import random
from pathlib import Path

from recbole_bert4rec.checkpoints import checkpoint
from recbole_bert4rec.system.errors import UserError


def flips(file: Path, place: Path, count: int | None, seed: int) -> bool:
    """Return whether each changed byte was noticed; print how many were tried.

    Args:
        file: a checkpoint.
        place: where changed copies are written.
        count: bytes to change, drawn; None: all of them, in turn.
        seed: of the draws.
    """
    content, draw = bytearray(file.read_bytes()), random.Random(seed)
    places = range(len(content)) if count is None else draw.sample(range(len(content)), min(count, len(content)))
    missed = []
    for number in places:
        before = content[number]
        content[number] ^= draw.randrange(1, 256)
        place.write_bytes(content)
        content[number] = before
        try:
            checkpoint.read(place)
        except UserError as error:
            if "\n" in str(error):
                missed.append(number)
        else:
            missed.append(number)
    print(f"{len(places)} of {len(content)} bytes changed, one at a time; unnoticed: {missed}")
    return not missed
