"""Writes the result of a verb as text, in one of eight formats.

A result is rows (a listing), one record (a description) or a stream of rows.  Values are JSON's.
``table`` is for people and shows selected columns (:mod:`.tables`), ``wide`` shows every key.
``json`` (one document), ``jsonl`` (one object in each line), ``yaml`` and ``csv`` are for programs
and have every key.  In a cell of ``csv`` a list of scalars is joined by spaces, and deeper values
are JSON.  ``name`` writes one identifier in each line, as input of another command, and
``template=…`` a line in the user's own form for each row (:mod:`.templates`).
"""

from __future__ import annotations

import csv
import errno
import io
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TextIO, TypeAlias

import orjson

from zkcontroller_cli.console.errors import BadUsage, OutputLost, ReaderGone
from zkcontroller_cli.console.tables import (
    Line,
    RowColour,
    is_moment,
    moment_text,
    padded,
    table_text,
    text_width,
    title_of,
)
from zkcontroller_cli.console.templates import PREFIX, Template, UnknownField

Row: TypeAlias = Mapping[str, Any]

_WRITE_ROWS: Final = 1000


class Format(StrEnum):
    """The values of ``-o``."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    JSONL = "jsonl"
    YAML = "yaml"
    CSV = "csv"
    NAME = "name"
    TEMPLATE = "template"


def parse_format(text: str) -> tuple[Format, Template | None]:
    """The format named by a value of ``-o``, and its template or None; BadUsage if unknown."""
    if text.startswith(PREFIX):
        return Format.TEMPLATE, Template(text.removeprefix(PREFIX))
    words = [str(each) for each in Format if each is not Format.TEMPLATE]
    if text not in words:
        raise BadUsage(f"{text!r} is not a format of -o: {', '.join(words)} or template=…")
    return Format(text), None


@dataclass(frozen=True, slots=True)
class Layout:
    """How rows of one kind are shown."""

    name: Callable[[Row], str]
    """The identifier that ``-o name`` prints."""
    columns: tuple[str, ...] = ()
    """Keys that ``-o table`` shows, in order; empty: all of them."""
    keys: tuple[str, ...] = ()
    """Every key, in order: the header that ``-o csv`` prints even when no row follows."""
    colour: Callable[[Row], RowColour] = lambda _: RowColour.FINE
    """The colour that a table gives to a row."""


def named(key: str, *columns: str, keys: Sequence[str] = ()) -> Layout:
    """A layout whose identifier is the value of one key."""
    return Layout(lambda row: _plain(row[key]), columns, tuple(keys))


class Renderer:
    """Writes results to one text stream, in one format."""

    def __init__(
        self,
        chosen: Format,
        out: TextIO,
        template: Template | None = None,
        *,
        only_reads: bool = True,
    ) -> None:
        self.format = chosen
        self._out = _Output(out)
        self._is_terminal = out.isatty()
        self._template = template
        self._only_reads = only_reads

    @property
    def is_for_eyes(self) -> bool:
        """Whether the format is a table for people."""
        return self.format in (Format.TABLE, Format.WIDE)

    def rows(self, rows: Sequence[Row], layout: Layout) -> None:
        """Show a listing."""
        match self.format:
            case Format.TABLE | Format.WIDE:
                self._table(rows, layout)
            case Format.YAML:
                self._write(_yaml(rows))
            case Format.JSON | Format.JSONL | Format.CSV | Format.NAME | Format.TEMPLATE:
                stream = self.stream(layout)
                stream.write_all(rows)
                stream.close()

    def record(self, record: Row, layout: Layout) -> None:
        """Show one record; in a table format a list of mappings in it becomes a table below it."""
        match self.format:
            case Format.TABLE | Format.WIDE:
                self._description(record)
            case Format.JSON:
                self._write(_json(record, indent=True))
            case Format.YAML:
                self._write(_yaml(record))
            case Format.JSONL | Format.CSV | Format.NAME | Format.TEMPLATE:
                self.rows([record], layout)

    def descriptions(self, records: Sequence[Row], layout: Layout) -> None:
        """Show several records: for people one below the other, in other formats as rows."""
        if not self.is_for_eyes:
            self.rows(records, layout)
            return
        for position, record in enumerate(records):
            if position:
                self._write("\n")
            self._description(record)

    def stream(self, layout: Layout) -> Stream:
        """A stream that shows each row at once; the caller must close it, also after an error."""
        line = None if self._template is None else self._line_of(self._template, layout)
        return Stream(self.format, self._out, layout, line)

    def _line_of(self, template: Template, layout: Layout) -> Callable[[Row | None], str]:
        """A function that writes a row by the template; for None it only checks the keys."""

        def line(row: Row | None) -> str:
            try:
                if row is None:
                    template.check(layout.keys)
                    return ""
                return template.line(row, layout.keys, _template_text) + "\n"
            except UnknownField as error:
                if self._only_reads:
                    raise
                # The verb has run: exit code 2 would say that nothing was done.
                raise OutputLost(f"it was done, but not shown: {error}") from error

        return line

    def _table(self, rows: Sequence[Row], layout: Layout) -> None:
        columns = columns_of(self.format, layout, rows[0] if rows else {})
        lines = [
            Line([_cell(row.get(column), column) for column in columns], layout.colour(row))
            for row in rows
        ]
        self._out.write(
            table_text(
                [title_of(column) for column in columns],
                lines,
                width=shutil.get_terminal_size().columns if self._is_terminal else None,
                is_coloured=self._is_terminal and wants_colour(),
            )
        )
        self._out.flush()

    def _description(self, record: Row) -> None:
        flat = {k: v for k, v in record.items() if not _is_table(v)}
        names = {key: title_of(key).lower() for key in flat}
        self._write(aligned([[f"{names[k]}:", _cell(v, k)] for k, v in flat.items()]))
        for key, value in record.items():
            if _is_table(value):
                self._write(f"\n{key}:\n")
                self._table(value, Layout(str))

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


def columns_of(chosen: Format, layout: Layout, first: Row) -> tuple[str, ...]:
    """The keys that a table shows; ``wide`` shows all, those of ``table`` first."""
    if chosen is Format.WIDE:
        return tuple(dict.fromkeys((*layout.columns, *layout.keys, *first)))
    return layout.columns or tuple(first) or layout.keys


class Stream:
    """Writes rows one by one; after :meth:`close` the output is well-formed (a JSON array ends)."""

    def __init__(
        self,
        chosen: Format,
        out: _Output,
        layout: Layout,
        line: Callable[[Row | None], str] | None,
    ) -> None:
        self._format = chosen
        self._out = out
        self._layout = layout
        self._line = line
        self._count = 0
        self._widths: list[int] = []

    def write(self, row: Row) -> None:
        """Write one row and flush."""
        self._out.write(self._text(row))
        self._out.flush()

    def write_all(self, rows: Sequence[Row]) -> None:
        """Write many rows, and flush once."""
        for start in range(0, len(rows), _WRITE_ROWS):
            self._out.write("".join([self._text(row) for row in rows[start : start + _WRITE_ROWS]]))
        self._out.flush()

    def close(self) -> None:
        """Write the end of the output; without rows, the format's text for an empty list."""
        match self._format:
            case Format.JSON:
                self._out.write("\n]\n" if self._count else "[]\n")
            case Format.YAML if not self._count:
                self._out.write("[]\n")
            case Format.CSV if not self._count and self._layout.keys:
                self._out.write(_csv_line(self._layout.keys))
            case Format.TEMPLATE if not self._count and self._layout.keys and self._line:
                self._line(None)
            case _:
                pass
        self._out.flush()

    def _text(self, row: Row) -> str:
        is_first = self._count == 0
        self._count += 1
        match self._format:
            case Format.TABLE | Format.WIDE:
                columns = columns_of(self._format, self._layout, row)
                cells = [_cell(row.get(column), column) for column in columns]
                titles = [title_of(column) for column in columns]
                if is_first:
                    self._widths = [
                        max(map(text_width, both)) for both in zip(titles, cells, strict=True)
                    ]
                written = [titles, cells] if is_first else [cells]
                return "".join(padded(line, self._widths) + "\n" for line in written)
            case Format.JSON:
                return ("[\n" if is_first else ",\n") + _json(row).rstrip("\n")
            case Format.JSONL:
                return _json(row)
            case Format.YAML:
                return _yaml([row])
            case Format.CSV:
                header = _csv_line(tuple(row)) if is_first else ""
                return header + _csv_line([_csv_cell(value) for value in row.values()])
            case Format.NAME:
                return self._layout.name(row) + "\n"
            case Format.TEMPLATE:
                assert self._line is not None, "the renderer gives one"
                return self._line(row)


class _Output:
    """stdout, with errors that differ from those of a connection to the cluster.

    Raises ReaderGone if the reader has closed the pipe, OutputLost for a full disk and others.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, text: str) -> None:
        self._do(lambda: self._out.write(text))

    def flush(self) -> None:
        self._do(self._out.flush)

    def _do(self, work: Callable[[], object]) -> None:
        try:
            work()
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise ReaderGone from None
            raise OutputLost(f"the result could not be written: {error.strerror}") from error


def wants_colour() -> bool:
    """Whether to use colours on a terminal: not with NO_COLOR set or TERM=dumb."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def aligned(lines: Iterable[Sequence[str]]) -> str:
    """Rows of cells as text with aligned columns, two spaces apart, nothing cut off."""
    rows = [[cell.replace("\n", "\\n") for cell in line] for line in lines]
    widths = [max(map(text_width, column)) for column in zip(*rows, strict=True)]
    return "".join(padded(row, widths) + "\n" for row in rows)


def _is_table(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, Mapping) for v in value)


def _cell(value: object, key: str = "") -> str:
    """A value as text in a table."""
    match value:
        case int() if value > 0 and is_moment(key):
            return moment_text(value)
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list() | tuple() if not any(isinstance(v, Mapping | list | tuple) for v in value):
            return ",".join(map(str, value)) or "-"
        case _:
            return _plain(value)


def _csv_cell(value: object) -> str:
    match value:
        case None:
            return ""
        case list() | tuple() if not any(isinstance(v, Mapping | list | tuple) for v in value):
            return " ".join(map(_plain, value))
        case _:
            return _plain(value)


def _template_text(value: object) -> str:
    match value:
        case list() | tuple() if not any(isinstance(v, Mapping | list | tuple) for v in value):
            return ",".join(map(_plain, value))
        case _:
            return _plain(value)


def _plain(value: object) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case _:
            return _json(value).rstrip("\n")


def _json(value: object, *, indent: bool = False) -> str:
    option = orjson.OPT_APPEND_NEWLINE | (orjson.OPT_INDENT_2 if indent else 0)
    return orjson.dumps(value, option=option | orjson.OPT_NON_STR_KEYS).decode()


def _yaml(value: object) -> str:
    import yaml

    # The C emitter writes the same text, some eight times faster, where PyYAML was built with it.
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    # Through JSON, so that tuples, enums and numbers look the same in both formats.
    plain = orjson.loads(_json(value))
    text: str = yaml.dump(plain, Dumper=dumper, sort_keys=False, allow_unicode=True)
    return text


def _csv_line(cells: Sequence[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(cells)
    return buffer.getvalue()
