"""Tables in Markdown and LaTeX, and the escaping of users' texts in both."""

from __future__ import annotations

from collections.abc import Iterable

from recbole_bert4rec.comparison.tables import Cell, Table

_MARKDOWN = str.maketrans(
    {character: "\\" + character for character in "\\`*[]|"} | {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
)
_TEX = str.maketrans(
    {character: "\\" + character for character in "_&%#${}"}
    | {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
    | {"±": r"$\pm$", "−": "$-$", "<": "$<$", ">": "$>$"}
)


def one_line(text: str) -> str:
    """Replace every run of white space, line breaks included, by one space."""
    return " ".join(text.split())


def escape_markdown(text: str) -> str:
    """Escape a text for Markdown: tags, links, emphasis and cells of a table."""
    return one_line(text).translate(_MARKDOWN)


def escape_tex(text: str) -> str:
    """Escape a text for LaTeX."""
    return one_line(text).translate(_TEX)


def escape_cell(text: str) -> str:
    """Escape a text that a spreadsheet would take for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def code(text: str) -> str:
    """Return a text as code of Markdown, with as many quotes around it as it needs."""
    text, quote = one_line(text), "`"
    while quote in text:
        quote += "`"
    return f"{quote} {text} {quote}" if "`" in text else f"{quote}{text}{quote}"


def markdown_rows(table: Table) -> list[str]:
    """Return the lines of a table in Markdown."""

    def shown(cell: Cell) -> str:
        text = escape_markdown(cell.text)
        text = {1: f"**{text}**", 2: f"<u>{text}</u>"}.get(cell.rank, text)
        return text + (r"\*" if cell.differs else "")

    def row(texts: Iterable[str]) -> str:
        return "".join(["|", *(f" {text} |" for text in texts)])

    rules = "".join("-|" if column < table.texts else "-:|" for column in range(len(table.header)))
    return [row(map(escape_markdown, table.header)), f"|{rules}", *(row(map(shown, cells)) for cells in table.rows)]


def tex_rows(table: Table) -> list[str]:
    """Return the lines of a table in LaTeX: its header, a rule, and its rows."""

    def shown(cell: Cell) -> str:
        text = escape_tex(cell.text)
        text = {1: rf"\textbf{{{text}}}", 2: rf"\underline{{{text}}}"}.get(cell.rank, text)
        return text + ("$^{*}$" if cell.differs else "")

    rows = [list(map(escape_tex, table.header)), *(list(map(shown, cells)) for cells in table.rows)]
    header, *lines = [" & ".join(texts) + r" \\" for texts in rows]
    return [header, r"\midrule", *lines]
