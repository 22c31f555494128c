"""``python -m recbole_bert4rec``: the same as run.py, from any folder; ``doctor`` says what is installed."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command that the first word names.

    Returns:
        Its exit code; 1 where something that it needs is not installed.
    """
    if sys.argv[1:2] == ["doctor"]:
        from recbole_bert4rec.patches.doctor import main as doctor

        return doctor()
    try:
        from recbole_bert4rec.cli.run import main as run
    except ImportError as error:
        print(f"error: {error}; `python -m recbole_bert4rec doctor` says what is missing", file=sys.stderr)
        return 1
    return run()


if __name__ == "__main__":
    sys.exit(main())
