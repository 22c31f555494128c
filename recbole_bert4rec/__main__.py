"""``python -m recbole_bert4rec``: the same as run.py, from any folder."""

import sys

from recbole_bert4rec.cli.run import main

if __name__ == "__main__":
    sys.exit(main())
