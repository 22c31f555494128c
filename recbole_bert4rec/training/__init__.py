"""One run, from what a user names to a record."""

import recbole_bert4rec.plugin  # noqa: F401  RecBole comes first, see there
