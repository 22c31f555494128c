"""Train and test BERT4Rec, or any other RecBole model: python run.py --model=BERT4Rec --dataset=ml-100k."""

import sys

try:
    from recbole_bert4rec.cli.main import main
except ImportError as error:
    sys.exit(f"error: {error}\nInstall with: pip install -r requirements.txt")
except KeyboardInterrupt:
    sys.exit(130)

if __name__ == "__main__":
    sys.exit(main(name="run"))
