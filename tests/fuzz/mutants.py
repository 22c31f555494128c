"""Makes damaged variants of a file."""

from __future__ import annotations

import random

_SIGNS = b"\x00\n\t,\"'#:-[]{}~0"
_WORDS = [b"", b"9" * 400, b"[" * 2000, b"a" * 10_000, "\u202e\u0000é".encode(), *(bytes([sign]) for sign in _SIGNS)]
_WORDS += b"\xff\xfe null NaN nan -Infinity 1e999 -1 1e30 0x10 true None [] {} ../../x".split()
_WORDS += [b"&a [*a,*a]", b"*a", b"<<: *a", b"!!int x", b"!!python/object/apply:os.system ['touch pwned']"]
_WORDS += [b"=cmd|' /C calc'!A0", b"__import__('os').system('touch pwned')"]


def mutant(content: bytes, others: list[bytes], draw: random.Random) -> bytes:
    """Return a file with one to four changes.

    Args:
        content: of a whole file.
        others: whole files of the same kind, of which parts are taken.
        draw: of the changes.
    """
    changed = bytearray(content)
    for _ in range(draw.randint(1, 4)):
        begin = draw.randint(0, len(changed))
        end = min(len(changed), begin + draw.choice([0, 1, 1, 4, 30]))
        kind = draw.randrange(6)
        if kind == 0 and changed:
            place = draw.randrange(len(changed))
            changed[place] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del changed[begin:end]
        elif kind == 2:
            changed[begin:end] = draw.choice(_WORDS)
        elif kind == 3:
            changed[begin:begin] = changed[begin:end] * draw.choice([1, 2, 50])
        elif kind == 4:
            other = draw.choice(others)
            start = draw.randint(0, len(other))
            changed[begin:end] = other[start : start + draw.choice([1, 8, 64])]
        else:
            del changed[draw.randint(0, len(changed)) :]
    return bytes(changed)
