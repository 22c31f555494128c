"""The parts of a report, in any format."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Cell:
    """A text of a table.

    Attributes:
        text: a word or a number.
        rank: 1 if it is the best of its group, 2 the second, and so on; 0 without an order.
        marks: letters of its footnotes.
        differs: whether it differs significantly from the first model.
    """

    text: str
    rank: int = 0
    marks: str = ""
    differs: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells under a header.

    Attributes:
        header: names of the columns.
        rows: cells of each row.
        texts: how many columns from the left hold words; the others hold numbers.
        footnotes: mark and text of each.
    """

    header: list[str]
    rows: list[list[Cell]]
    texts: int = 1
    footnotes: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Section:
    """A table, its title (the first has none) and how to read it."""

    title: str
    table: Table
    note: str


@dataclass(frozen=True)
class Picture:
    """A figure: as a file beside the report, and as an element of a page."""

    caption: str
    file: str
    svg: str


@dataclass(frozen=True)
class ComparisonReport:
    """The whole content of a report, in any format.

    Attributes:
        title: models and data set.
        headline: the result in a sentence.
        command: as the user typed it.
        facts: data, protocol, machine and so on, a line each.
        sections: the tables.
        pictures: the figures.
    """

    title: str
    headline: str
    command: str
    facts: list[str]
    sections: list[Section]
    pictures: list[Picture]


def cells(*texts: str) -> list[Cell]:
    """Return plain cells."""
    return [Cell(text) for text in texts]
