"""BERT4Rec for RecBole: importing this package makes RecBole's ``--model=BERT4Rec`` the one in here."""

import sys
import warnings

from recbole_bert4rec.constants import SUPPORTED_PYTHON

__version__ = "0.1.0"

if not SUPPORTED_PYTHON[0] <= sys.version_info[:2] < SUPPORTED_PYTHON[1]:
    raise ImportError(
        f"recbole_bert4rec needs Python {'.'.join(map(str, SUPPORTED_PYTHON[0]))} up to, not including, "
        f"{'.'.join(map(str, SUPPORTED_PYTHON[1]))} (RecBole 1.2.1 requires ray<=2.6.3), but this is "
        f"{sys.version.split()[0]}"
    )

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # RecBole's dependencies deplore their own age while they are imported
    from recbole_bert4rec.patches.registry import register

register()

__all__ = ["__version__", "register"]
