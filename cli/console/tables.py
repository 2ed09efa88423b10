"""Writes a table for people: aligned columns, as wide as the terminal, some rows in colour.

Without a terminal a table is as wide as its cells.  If a terminal is too narrow, the words of a
title are set one below the other, and then the widest cells are folded.  Nothing is cut off.
Points in time are shown in local time; other formats have them in milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

import click

_GAP: Final = "  "


class RowColour(StrEnum):
    """The colour of a row on a terminal with colours."""

    FINE = ""
    WARNING = "yellow"
    ERROR = "red"


class Line(NamedTuple):
    """One row: the texts of its cells, and its colour."""

    cells: Sequence[str]
    colour: RowColour = RowColour.FINE


def title_of(key: str) -> str:
    """The title of a key's column, without the unit of a point in time."""
    return (key.removesuffix("_ms") if is_moment(key) else key).upper()


def is_moment(key: str) -> bool:
    """Whether a key holds a point in time (milliseconds since 1970), not a duration."""
    return key.endswith(("_at_ms", "time_ms"))


def moment_text(milliseconds: int) -> str:
    """Milliseconds since 1970 as local time, such as ``2026-11-23 20:50:11.123``."""
    moment = datetime.fromtimestamp(milliseconds / 1000).astimezone()
    return moment.replace(tzinfo=None).isoformat(" ", "milliseconds")


def table_text(
    titles: Sequence[str], lines: Sequence[Line], *, width: int | None, is_coloured: bool
) -> str:
    """The table as text; ``width`` is the terminal's, None without a terminal."""
    lines = [line._replace(cells=[_flat(cell) for cell in line.cells]) for line in lines]
    columns = list(zip(titles, *(line.cells for line in lines), strict=True))
    widths = [max(map(text_width, column)) for column in columns]
    heads: list[list[str]] = [[title] for title in titles]
    if width is not None and _total(widths) > width:
        heads = [title.split("_") for title in titles]
        least = [max(map(text_width, words)) for words in heads]
        widths = [
            max(floor, *map(text_width, column[1:]), 0)
            for floor, column in zip(least, columns, strict=True)
        ]
        widths = _narrowed(widths, least, width)

    def bold(text: str) -> str:
        return click.style(text, fg="cyan", bold=True)

    written = _block(heads, widths, bold if is_coloured else str, from_below=True)
    for line in lines:
        folded = [_folded(cell, limit) for cell, limit in zip(line.cells, widths, strict=True)]

        def marked(text: str, colour: RowColour = line.colour) -> str:
            return click.style(text, fg=colour.value)

        written += _block(folded, widths, marked if is_coloured and line.colour else str)
    return "".join(written)


def text_width(text: str) -> int:
    """The number of columns that the text takes on a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def padded(cells: Sequence[str], widths: Sequence[int]) -> str:
    """One line of cells, padded to their widths, two spaces apart."""
    columns = zip(cells, widths, strict=True)
    return _GAP.join(cell + " " * (width - text_width(cell)) for cell, width in columns).rstrip()


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _narrowed(widths: list[int], least: Sequence[int], limit: int) -> list[int]:
    """The widths, with the widest columns reduced until the table fits.

    ``least``: the smallest width of each column, that of the longest word in its title.
    """
    while _total(widths) > limit:
        excess = _total(widths) - limit
        spare = [width - floor for width, floor in zip(widths, least, strict=True)]
        if not any(spare):
            break
        widest = max((i for i, left in enumerate(spare) if left), key=lambda i: widths[i])
        others = [width for i, width in enumerate(widths) if spare[i] and i != widest]
        step = max(1, widths[widest] - max(others, default=0))
        widths[widest] -= min(step, excess, spare[widest])
    return widths


def _folded(cell: str, limit: int) -> list[str]:
    """The cell in pieces no wider than ``limit``, divided after a comma if there is one."""
    pieces = []
    while text_width(cell) > limit:
        end = limit
        while text_width(cell[:end]) > limit:
            end -= 1
        comma = cell.rfind(",", 0, end)
        end = comma + 1 if comma > 0 else max(end, 1)
        pieces.append(cell[:end])
        cell = cell[end:]
    return [*pieces, cell]


def _block(
    cells: Sequence[Sequence[str]],
    widths: Sequence[int],
    style: Callable[[str], str],
    *,
    from_below: bool = False,
) -> list[str]:
    """The lines of one row whose cells have several lines; ``from_below`` aligns at the bottom."""
    height = max(map(len, cells))
    lines = []
    for number in range(height):
        texts = []
        for pieces in cells:
            at = number - (height - len(pieces)) if from_below else number
            texts.append(pieces[at] if 0 <= at < len(pieces) else "")
        lines.append(style(padded(texts, widths)) + "\n")
    return lines


def _flat(cell: str) -> str:
    return cell.replace("\n", "\\n")
