"""What RecBole calls.

Importing RecBole first applies the changes of :mod:`recbole_bert4rec.plugin.hooks`, which imports these modules.
"""

import recbole  # noqa: F401
