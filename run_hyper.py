"""Search hyper-parameters: python run_hyper.py --model=BERT4Rec --dataset=ml-100k --params_file=hyper/hyper.test."""

import sys

try:
    from recbole_bert4rec.cli.main import main
except ImportError as error:
    sys.exit(f"error: {error}\nInstall with: pip install -r requirements.txt")
except KeyboardInterrupt:
    sys.exit(130)

if __name__ == "__main__":
    sys.exit(main(name="tune"))
