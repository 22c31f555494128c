"""Shows a result in a notebook: tables, and curves as SVG, for which no library is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import pandas as pd

Curve = Sequence[tuple[float, float]]
"""Points from left to right."""

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#888888")
"""After Okabe and Ito (2008)."""
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 460, 190, 62, 12, 24, 36


def page(title: str, *parts: str) -> str:
    """Return parts of HTML below a title."""
    return f"<div><p><b>{escape(title)}</b></p>{''.join(parts)}</div>"


def table(rows: pd.DataFrame | Sequence[Mapping[str, object]]) -> str:
    """Return a frame, or rows that map a column to its value, as HTML; numbers have four decimals."""
    return str(pd.DataFrame(rows).to_html(index=False, border=0, na_rep="", float_format="{:.4f}".format))


def curves(lines: Mapping[str, Curve], across: str, up: str) -> str:
    """Return a small picture of curves as HTML; an empty text if there are no points.

    Args:
        lines: the curves by their names; several are named below the picture.
        across: name of the x axis.
        up: name of the y axis.
    """
    shown = {name: line for name, line in lines.items() if line}
    if not shown:
        return ""
    points = [point for line in shown.values() for point in line]
    (left, right), (low, high) = ((min(values), max(values)) for values in zip(*points, strict=True))
    wide, tall = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def point_of(x: float, y: float) -> str:
        to_right = (x - left) / (right - left) if right > left else 0.5
        upwards = (y - low) / (high - low) if high > low else 0.5
        return f"{_LEFT + wide * to_right:.1f},{_TOP + tall * (1 - upwards):.1f}"

    drawn = [
        f'<polyline points="{" ".join(point_of(*point) for point in [*line, line[-1]])}" stroke="{colour}"/>'
        for line, colour in zip(shown.values(), _colours(len(shown)), strict=True)
    ]
    style = 'fill="none" stroke-width="1.5" stroke-linejoin="round" stroke-linecap="round"'  # a point to itself: a dot
    frame = f'<path d="M{_LEFT - 6},{_TOP}V{_TOP + tall + 6}H{_LEFT + wide}" fill="none" stroke="currentColor"/>'
    texts = [
        _text(_LEFT - 10, _TOP + 4, f"{high:.4g}", "end"),
        _text(_LEFT - 10, _TOP + tall + 4, f"{low:.4g}", "end"),
        _text(_LEFT, _HEIGHT - 16, f"{left:.4g}", "middle"),
        _text(_LEFT + wide, _HEIGHT - 16, f"{right:.4g}", "end"),
        _text(_LEFT + wide / 2, _HEIGHT - 4, across, "middle"),
        _text(_LEFT, _TOP - 10, up, "start"),
    ]
    names = [
        f'<span style="color:{colour}">&#9632;</span> {escape(name)}'
        for name, colour in zip(shown, _colours(len(shown)), strict=True)
    ]
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" style="max-width:100%" role="img" '
        f'font-family="sans-serif" font-size="11">{frame}<g {style}>{"".join(drawn)}</g>{"".join(texts)}</svg>'
        + (f"<p>{'&ensp; '.join(names)}</p>" if len(names) > 1 else "")
    )


def _colours(count: int) -> list[str]:
    return [_COLOURS[number % len(_COLOURS)] for number in range(count)]


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="currentColor">{escape(text)}</text>'
