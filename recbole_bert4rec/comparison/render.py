"""Templates of reports, and the escaping of users' texts in Markdown, LaTeX and HTML."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

_Escapes = dict[str, "str | int | None"]
_MARKDOWN: _Escapes = {character: "\\" + character for character in "\\`*[]|"}
_MARKDOWN |= {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_TEX: _Escapes = {character: "\\" + character for character in "_&%#${}"}
_TEX |= {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
_TEX |= {"±": r"$\pm$", "−": "$-$", "<": "$<$", ">": "$>$"}


class _Ready(str):
    """Text that a filter has escaped."""


def one_line(text: str) -> str:
    """Replace every run of white space, line breaks included, by one space."""
    return " ".join(text.split())


def escape_markdown(text: str) -> str:
    """Escape a text for Markdown: tags, links, emphasis and cells of a table."""
    return one_line(text).translate(str.maketrans(_MARKDOWN))


def escape_tex(text: str) -> str:
    """Escape a text for LaTeX."""
    return one_line(text).translate(str.maketrans(_TEX))


def escape_cell(text: str) -> str:
    """Escape a text that a spreadsheet would take for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _code(text: str) -> _Ready:
    """Return a text as code of Markdown, with as many quotes around it as it needs."""
    text, quote = one_line(text), "`"
    while quote in text:
        quote += "`"
    return _Ready(f"{quote} {text} {quote}" if "`" in text else f"{quote}{text}{quote}")


def _comment(text: str) -> _Ready:
    """Return a text for a comment of LaTeX, which ends with its line."""
    return _Ready(one_line(text))


def render(template: str, **values: object) -> str:
    """Fill a template in.

    Args:
        template: a file of ``templates/`` without the ``.j2``; its ending says how texts are escaped.
        values: variables of the template.
    """
    return _environment(template.rpartition(".")[2]).get_template(f"{template}.j2").render(values)


@cache
def _environment(ending: str) -> Environment:
    """Return the environment of one format; every text that a template puts in is escaped, unless a filter did so."""
    settings: dict[str, Any] = {
        "loader": PackageLoader("recbole_bert4rec.comparison"),
        "undefined": StrictUndefined,
        "trim_blocks": True,
        "lstrip_blocks": True,
    }
    if ending == "html":
        return Environment(autoescape=True, keep_trailing_newline=True, **settings)
    escape: Callable[[str], str] = {"md": escape_markdown, "tex": escape_tex}[ending]
    environment = Environment(  # noqa: S701  no HTML: `finalize` escapes
        finalize=lambda value: value if isinstance(value, _Ready) else escape(str(value)),
        keep_trailing_newline=True,
        **settings,
    )
    environment.filters |= {"code": _code, "comment": _comment}
    return environment
