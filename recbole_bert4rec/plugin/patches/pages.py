"""Write the list of changes of RecBole in docs/differences.md from the tables: ``make pages``."""

from __future__ import annotations

import sys
from pathlib import Path

from recbole_bert4rec.plugin.patches import registry
from recbole_bert4rec.plugin.patches.patch import Patch, Scope

_PAGE = Path(__file__).resolve().parents[3] / "docs" / "differences.md"
_BEGIN, _END = "<!-- changes of RecBole: made by `make pages` -->\n", "<!-- end of the changes -->\n"


def changes() -> str:
    """Return the list in Markdown: a table for each scope."""
    rows = registry.patches()
    parts = []
    for scope in Scope:
        of_scope = [row for row in rows if row.scope is scope]
        parts.append(f"### {scope.name.capitalize()}: {scope.value}\n")
        parts.append(_table(of_scope))
    return "\n".join(parts)


def _table(rows: list[Patch]) -> str:
    """Return the table; places that change for the same reason share a line."""
    places: dict[str, list[str]] = {}
    for row in rows:
        places.setdefault(row.reason, []).append(f"`{row.label.replace('recbole.', '', 1)}`")
    lines = [f"| {', '.join(labels)} | {reason} |" for reason, labels in places.items()]
    return "\n".join(["| what of RecBole | why |", "|-|-|", *lines]) + "\n"


def main(arguments: list[str]) -> int:
    """Write the list into the page, or with ``--check`` compare it; return the exit code."""
    text = _PAGE.read_text("utf-8")
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    made = f"{before}{_BEGIN}\n{changes()}\n{_END}{after}"
    if made == text:
        return 0
    if "--check" in arguments:
        print(f"{_PAGE.name} is not up to date with the changes of RecBole; run `make pages`")
        return 1
    _PAGE.write_text(made, "utf-8")
    print(f"{_PAGE.name} written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
