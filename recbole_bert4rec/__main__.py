"""``python -m recbole_bert4rec``: the command line, from any folder."""

import sys

from recbole_bert4rec.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
