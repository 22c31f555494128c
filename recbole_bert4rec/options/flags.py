"""Options as the command line gives them: ``--name=value``."""

from __future__ import annotations

from collections.abc import Iterable


def parse_flags(flags: Iterable[str]) -> dict[str, str]:
    """Return the value of each option by its name, as text; of an option that is given twice, the last.

    Args:
        flags: words of a command line. Those that are not written ``--name=value`` are left out.
    """
    return dict(flag[2:].split("=", 1) for flag in flags if flag.startswith("--") and "=" in flag)
