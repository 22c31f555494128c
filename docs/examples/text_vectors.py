"""Turn the texts of a RecBole .item file into a file for ``item_vectors``.

With scikit-learn alone: TF-IDF of words and pairs of words, and of it the strongest directions (SVD).

    python docs/examples/text_vectors.py ml-100k.item texts.parquet --columns movie_title class release_year

With a sentence encoder (``pip install sentence-transformers``), whose name or folder you give:

    python docs/examples/text_vectors.py ... --encoder=all-MiniLM-L6-v2
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd


def of_words(texts: list[str], size: int) -> np.ndarray:
    """Return TF-IDF, reduced to at most ``size`` numbers a text."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True).fit_transform(texts)
    return TruncatedSVD(min(size, words.shape[1] - 1), random_state=0).fit_transform(words)


def of_sentences(texts: list[str], encoder: str) -> np.ndarray:
    """Return the vectors of a sentence encoder."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(encoder).encode(texts, normalize_embeddings=True)


def main() -> None:
    """Read the titles and write their vectors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("items", help="NAME.item")
    parser.add_argument("output", help="NAME.parquet")
    parser.add_argument("--columns", nargs="+", default=["title"], help="whose texts are read one after the other")
    parser.add_argument("--size", type=int, default=64, help="numbers an item, without --encoder")
    parser.add_argument("--encoder", help="a sentence encoder's name or folder")
    options = parser.parse_args()
    table = pd.read_csv(options.items, sep="\t", dtype=str, keep_default_na=False, quoting=3)
    table.columns = [name.partition(":")[0] for name in table.columns]
    lacking = [name for name in ("item_id", *options.columns) if name not in table]
    if lacking:
        parser.error(f"{options.items} has no columns {lacking}, but {list(table.columns)}; give --columns")
    texts = table[options.columns].agg(" ".join, axis=1).tolist()
    vectors = of_sentences(texts, options.encoder) if options.encoder else of_words(texts, options.size)
    vectors = vectors.astype(np.float32)
    pd.DataFrame({"item_id": table["item_id"], "vector": list(vectors)}).to_parquet(options.output)
    print(f"{options.output}: {len(vectors):,} items, {vectors.shape[1]} numbers each")


if __name__ == "__main__":
    main()
