"""Figures of the BERT4Rec paper (Sun et al., CIKM 2019) on ml-1m and beauty, which the pages show beside ours."""

from __future__ import annotations

USERS = {"ml-1m": 6_040, "beauty": 40_226}
"""Table 1, of the two data sets that are here."""

LONGEST = {"ml-1m": 200, "beauty": 50}
"""N of section 4.3."""


def _figures(hit: float, ndcg: float) -> dict[str, float]:
    return {"HR@10": hit, "NDCG@10": ndcg}


TABLE_2 = {
    "ml-1m": {
        "Pop": _figures(0.1358, 0.0621),
        "BPR": _figures(0.4301, 0.2365),
        "NeuMF": _figures(0.3477, 0.1640),
        "FPMC": _figures(0.5946, 0.3439),
        "GRU4Rec": _figures(0.6207, 0.3627),
        "GRU4RecPlus": _figures(0.6351, 0.4064),
        "Caser": _figures(0.6692, 0.4268),
        "SASRec": _figures(0.6629, 0.4368),
        "BERT4Rec": _figures(0.6970, 0.4818),
    },
    "beauty": {
        "Pop": _figures(0.0762, 0.0349),
        "BPR": _figures(0.1992, 0.1064),
        "NeuMF": _figures(0.2142, 0.1124),
        "FPMC": _figures(0.2401, 0.1211),
        "GRU4Rec": _figures(0.2343, 0.1074),
        "GRU4RecPlus": _figures(0.2654, 0.1453),
        "Caser": _figures(0.2590, 0.1360),
        "SASRec": _figures(0.2653, 0.1633),
        "BERT4Rec": _figures(0.3025, 0.1862),
    },
}
"""Table 2, by data set and model."""

_ONE_MASK = {"ml-1m": _figures(0.6869, 0.4696), "beauty": _figures(0.2940, 0.1769)}
TABLE_3 = {
    dataset: {"BERT4Rec": models["BERT4Rec"], "BERT4Rec (1 mask)": _ONE_MASK[dataset], "SASRec": models["SASRec"]}
    for dataset, models in TABLE_2.items()
}
"""Table 3, by data set and variant of ``one-mask.yaml``; the paper prints two rows of Table 2 again."""

TABLE_4 = {
    "ml-1m": {
        "N=10": {"HR@10": 0.6788, "NDCG@10": 0.4631, "sequences/s": 14255},
        "N=50": {"HR@10": 0.6854, "NDCG@10": 0.4743, "sequences/s": 8890},
        "N=100": {"HR@10": 0.6947, "NDCG@10": 0.4758, "sequences/s": 5711},
        "N=200": {"HR@10": 0.6955, "NDCG@10": 0.4759, "sequences/s": 2918},
        "N=400": {"HR@10": 0.6898, "NDCG@10": 0.4715, "sequences/s": 1213},
    },
    "beauty": {
        "N=10": {"HR@10": 0.3006, "NDCG@10": 0.1826, "sequences/s": 5504},
        "N=20": {"HR@10": 0.3061, "NDCG@10": 0.1875, "sequences/s": 3256},
        "N=30": {"HR@10": 0.3057, "NDCG@10": 0.1837, "sequences/s": 2284},
        "N=40": {"HR@10": 0.3054, "NDCG@10": 0.1833, "sequences/s": 1776},
        "N=50": {"HR@10": 0.3047, "NDCG@10": 0.1832, "sequences/s": 1441},
    },
}
"""Table 4, by data set and variant of ``max-length-DATASET.yaml``; speed is that of a GTX 1080 Ti."""

_TABLE_5_VARIANTS = (
    "BERT4Rec",
    "without positions",
    "without feed-forward",
    "without LayerNorm",
    "without residual connections",
    "without dropout",
    "1 layer",
    "3 layers",
    "4 layers",
    "1 head",
    "4 heads",
    "8 heads",
)
_TABLE_5_NDCG = {
    "ml-1m": (0.4759, 0.2155, 0.4544, 0.4334, 0.4643, 0.4553, 0.4412, 0.4864, 0.4898, 0.4568, 0.4770, 0.4743),
    "beauty": (0.1832, 0.1741, 0.1803, 0.1642, 0.1619, 0.1658, 0.1782, 0.1859, 0.1834, 0.1853, 0.1830, 0.1823),
}
TABLE_5 = {
    dataset: {name: {"NDCG@10": figure} for name, figure in zip(_TABLE_5_VARIANTS, figures, strict=True)}
    for dataset, figures in _TABLE_5_NDCG.items()
}
"""Table 5, by data set and variant of ``ablation.yaml``."""
