"""What RecBole calls.

RecBole is imported first: that makes the changes of :mod:`recbole_bert4rec.plugin.hooks`, which import what is here.
"""

import recbole  # noqa: F401
