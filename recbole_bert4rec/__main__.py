"""``python -m recbole_bert4rec``: the same as run.py, from any folder; ``doctor`` says what is installed."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command that the first word names.

    Returns:
        Its exit code.
    """
    if sys.argv[1:2] == ["doctor"]:
        from recbole_bert4rec.patches.doctor import main as doctor

        return doctor()
    from recbole_bert4rec.cli.run import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
