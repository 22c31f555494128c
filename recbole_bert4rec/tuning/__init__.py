"""Search hyper-parameters, with the libraries of the extras ``tune`` and ``plots``."""

from recbole_bert4rec.extras import need

need("a search", "hyperopt", "matplotlib", "plotly")
