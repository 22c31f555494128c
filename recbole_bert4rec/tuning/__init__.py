"""Search hyper-parameters, with the libraries of the extras ``tune`` and ``plots``."""

from recbole_bert4rec.system.environment import OF_A_SEARCH, need

need("a search", *OF_A_SEARCH)
