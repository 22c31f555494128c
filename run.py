"""Train and test BERT4Rec, or any other RecBole model: python run.py --model=BERT4Rec --dataset=ml-100k"""

import sys

from recbole_bert4rec.apps.cli import main

if __name__ == "__main__":
    sys.exit(main())
