"""Print the licences of all that this package and RecBole need, as docs/licences.md: python tools/licences.py."""

from __future__ import annotations

import re
from importlib import metadata

from packaging.requirements import Requirement

ROOTS = ("recbole-bert4rec[tune,plots,serve,onnx,ann]", "recbole")
HEAD = """# Licences

This package is under the [MIT licence](../LICENSE). It contains nothing of the packages below, which pip
installs beside it; their licences are as they state them (`python tools/licences.py`, Python 3.11, today's libraries).

| package | version | licence |
|-|-|-|"""


def closure() -> dict[str, metadata.Distribution]:
    """Return what is installed of all that the roots need, by name."""
    found: dict[str, metadata.Distribution] = {}
    left = [Requirement(root) for root in ROOTS]
    seen = set()
    while left:
        wanted = left.pop()
        if str(wanted) in seen:
            continue
        seen.add(str(wanted))
        try:
            distribution = metadata.distribution(wanted.name)
        except metadata.PackageNotFoundError:
            continue
        found[re.sub(r"[-_.]+", "-", wanted.name).lower()] = distribution
        for text in distribution.requires or []:
            needed = Requirement(text)
            extras = [{"extra": extra} for extra in ("", *wanted.extras)]
            if needed.marker is None or any(map(needed.marker.evaluate, extras)):
                left.append(needed)
    return found


def licence(distribution: metadata.Distribution) -> str:
    """Return a package's licence: its expression, its classifiers, or the first line of its text."""
    about = distribution.metadata
    classifiers = [
        line.split(" :: ")[-1] for line in about.get_all("Classifier") or [] if line.startswith("License ::")
    ]
    text = (about.get("License") or "").strip().split("\n")[0]
    return about.get("License-Expression") or ", ".join(classifiers) or text or "not stated"


if __name__ == "__main__":
    print(HEAD)
    for name, distribution in sorted(closure().items()):
        if name != "recbole-bert4rec":
            print(f"| {name} | {distribution.version} | {licence(distribution)} |")
