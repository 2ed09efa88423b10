"""The screen of ``zkctl top``: listings that follow the cluster, in a terminal of any size.

Only this module imports textual, which takes some 0.3 s.  A separate thread takes the readings,
counts, and passes finished :class:`Snapshot` values to the screen.  So a broker that does not
answer delays the next reading, but not the response to a key.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Final, NamedTuple

from rich.style import Style
from rich.text import Text
from textual import events, on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static
from typing_extensions import override

from zkcontroller_cli.console.tables import RowColour
from zkcontroller_cli.screen.model import Change, Monitor, Reading
from zkcontroller_cli.screen.reader import Reader
from zkcontroller_cli.screen.rows import (
    Census,
    Row,
    broker_rows,
    census,
    group_rows,
    move_rows,
    partition_row,
    topic_rows,
)
from zkcontroller_cli.screen.text import (
    COLUMNS,
    ListingColumn,
    Segment,
    change_row,
    colour_of,
    fitted,
    header,
    help_text,
    line_text,
    lines_of,
    problem_rows,
    shortened,
    with_texts,
)

VIEWS: Final = ("brokers", "topics", "partitions", "moves", "groups", "changes", "problems")
PROBLEMS_SHOWN: Final = 2
"""The number of problems shown on every view; the view of problems shows all."""
SLOW_S: Final = 3.0
"""Seconds after which the screen says that it waits for a reading."""
_LEAVE_S: Final = 0.5
"""The most seconds that a reading in progress may delay the end of ``zkctl top``."""
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "brokers": ("broker_id",),
    "topics": ("topic",),
    "partitions": ("topic", "partition"),
    "moves": ("topic", "partition"),
    "groups": ("group",),
}
"""By view, the keys that identify a row, so that the cursor stays on it."""


@dataclass(frozen=True)
class Snapshot:
    """What the screen shows of a reading; immutable, so two threads may use it."""

    reading: Reading
    stale: Mapping[str, int]
    counted: Census
    rows: Mapping[str, Sequence[Row]]
    """The rows by view; the rows of partitions are made only when they are shown."""
    changes: Sequence[Change]
    """The changes of the newest reading come first."""


def snapshot(monitor: Monitor) -> Snapshot:
    """The values to show after the latest reading."""
    reading = monitor.latest
    assert reading is not None, "a reading was taken"
    counted = census(reading)
    return Snapshot(
        reading,
        dict(monitor.stale),
        counted,
        {
            "brokers": broker_rows(monitor, counted),
            "topics": topic_rows(monitor, counted),
            "moves": move_rows(monitor),
            "groups": group_rows(monitor),
        },
        # The sort is stable: within one reading the cluster's changes stay above the partitions'.
        sorted(monitor.log, key=lambda change: -change.at_ms),
    )


class ReadingTaken(Message):
    """Message of the reading thread with a new snapshot; None if the thread has failed."""

    def __init__(self, snapshot: Snapshot | None) -> None:
        super().__init__()
        self.snapshot = snapshot


class ViewPlace(NamedTuple):
    """A view, and the topic or broker to which its rows are limited."""

    view: str
    topic: str | None = None
    broker: int | None = None


_STYLES: Final = {
    RowColour.FINE: Style(),
    RowColour.WARNING: Style(color="yellow"),
    RowColour.ERROR: Style(color="red", bold=True),
}


def _styled(lines: Iterable[Iterable[Segment]]) -> Text:
    text = Text(no_wrap=True)
    for number, line in enumerate(lines):
        if number:
            text.append("\n")
        for place, segment in enumerate(line):
            text.append("  " if place else "")
            text.append(segment.text, _STYLES[segment.colour])
    return text


class Listing(Widget, can_focus=True):
    """The widget that shows the rows of one view, as many as fit, with a cursor."""

    DEFAULT_CSS = "Listing { height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self.keys: Sequence[Any] = ()
        self.cursor = 0
        self._top = 0
        self._place = ViewPlace("")
        self._row_of: Callable[[Any], Row] = dict

    def put(self, place: ViewPlace, keys: Sequence[Any], row_of: Callable[[Any], Row]) -> None:
        """Show the rows of those keys; the cursor stays on its row if the row is still there."""
        if place != self._place:
            self._place, self.cursor, self._top = place, 0, 0
        elif place.view in _KEYS and self.cursor < len(self.keys):
            self._follow(keys)
        self.keys, self._row_of = keys, row_of
        self.move(0)

    def _follow(self, keys: Sequence[Any]) -> None:
        chosen = self.keys[self.cursor]
        if self.cursor < len(keys) and keys[self.cursor] == chosen:
            return
        with contextlib.suppress(ValueError):
            found = keys.index(chosen)
            self._top += found - self.cursor
            self.cursor = found

    def move(self, by: int) -> None:
        """Move the cursor by the given number of rows, and scroll so that the cursor is visible."""
        self.cursor = min(max(0, self.cursor + by), max(0, len(self.keys) - 1))
        room = self.room
        self._top = min(self._top, self.cursor, max(0, len(self.keys) - room))
        self._top = max(self._top, self.cursor - room + 1, 0)
        self.refresh()

    @property
    def room(self) -> int:
        """The number of rows that fit below the titles."""
        return max(1, self.size.height - 1)

    @property
    def chosen(self) -> Any | None:
        """The key of the row under the cursor; None without rows."""
        return self.keys[self.cursor] if self.cursor < len(self.keys) else None

    @property
    def position(self) -> str:
        """The visible rows as text, such as ``rows 1-11 of 600``."""
        count = len(self.keys)
        last = min(count, self._top + self.room)
        return f"rows {self._top + 1:,}-{last:,} of {count:,}" if count else "nothing"

    def on_resize(self) -> None:
        """Scroll after a change of size, so that the cursor stays visible."""
        self.move(0)

    @override
    def render(self) -> Text:
        view, width = self._place.view, self.size.width
        columns: tuple[ListingColumn, ...] = COLUMNS.get(view, ())
        shown = [
            with_texts(view, self._row_of(key))
            for key in self.keys[self._top : self._top + self.room]
        ]
        cells = [[column.text(row[column.key]) for column in columns] for row in shown]
        chosen = fitted(columns, cells, width)
        titles = line_text(columns, chosen, [column.title for column in columns])
        text = Text(titles, Style(bold=True, underline=True), no_wrap=True)
        for number, (row, line) in enumerate(zip(shown, cells, strict=True)):
            style = _STYLES[colour_of(view, row)]
            if self._top + number == self.cursor:
                style += Style(reverse=True)
            text.append("\n")
            text.append(line_text(columns, chosen, line).ljust(width), style)
        return text


class TopScreen(App[None]):
    """The whole screen; ``interval_s`` is the pause after each reading."""

    CSS = """
    Screen { background: ansi_default; color: ansi_default; overflow: hidden; }
    Static { height: auto; width: 100%; }
    Listing { background: ansi_default; color: ansi_default; }
    #filter { height: 1; border: none; padding: 0; display: none; background: ansi_default; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c", "leave", priority=False),
        Binding("down,j", "move(1)"),
        Binding("up,k", "move(-1)"),
        Binding("pagedown,space", "page(1)"),
        Binding("pageup", "page(-1)"),
        Binding("home,g", "end(-1)"),
        Binding("end,G", "end(1)"),
        Binding("enter", "open"),
        Binding("escape,backspace", "outwards"),
        # Priority: else letters typed quickly after the slash would go to the listing.
        Binding("slash", "filter", priority=True),
        Binding("s", "sort"),
        Binding("r", "reverse"),
        Binding("t", "trouble"),
        Binding("p", "pause"),
        *(Binding(str(number), f"view('{view}')") for number, view in enumerate(VIEWS, 1)),
    ]

    def __init__(self, reader: Reader, interval_s: float) -> None:
        super().__init__(ansi_color=True)
        self._reader = reader
        self._interval_s = interval_s
        self._ended = threading.Event()
        self._paused = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="zkctl-top", daemon=True)
        self._failure: Exception | None = None
        self.snapshot: Snapshot | None = None
        """The shown values; None before the first reading."""
        self._place = ViewPlace("brokers")
        self._before: list[ViewPlace] = []
        self._sorted: dict[str, tuple[int, bool]] = {}
        self._pattern = ""
        self._only_trouble = False
        self._written: dict[str, Text] = {}
        self._began_s: float | None = None
        """When the current reading began (monotonic seconds); None between two readings."""

    @override
    def compose(self) -> ComposeResult:
        yield Static(id="header")
        yield Static(id="problems")
        yield Static(id="title")
        yield Listing()
        yield Input(id="filter", placeholder="part of a name, or a pattern with * and ?")
        yield Static(id="changes")
        yield Static(id="help")

    def on_mount(self) -> None:
        """Start the reading thread."""
        self._thread.start()
        self.set_interval(1.0, self._tick)
        self.query_one(Listing).focus()
        self._show()

    def on_resize(self, _: events.Resize) -> None:
        """Show everything again after the terminal's size has changed."""
        self.call_after_refresh(self._show)

    def _tick(self) -> None:
        """Every second, show how long a slow reading has taken."""
        if self._note().startswith("waits"):
            self._show()

    # The reading thread.

    def _follow(self) -> None:
        monitor = Monitor()
        while not self._ended.is_set():
            if not self._paused.is_set():
                self._began_s = time.monotonic()
                try:
                    monitor.take(self._reader.read())
                    taken = snapshot(monitor)
                except Exception as failure:  # noqa: BLE001 it is raised where the screen ends
                    self._failure = failure
                    self.post_message(ReadingTaken(None))
                    return
                self._began_s = None
                self.post_message(ReadingTaken(taken))
            self._ended.wait(self._interval_s)

    # Bound to the class: textual would not find a handler by name after a rename of the class.
    @on(ReadingTaken)
    def _take(self, message: ReadingTaken) -> None:
        """Show a new snapshot, or end if the reading thread has failed."""
        if message.snapshot is None:
            self.exit()
            return
        self.snapshot = message.snapshot
        self._show()

    def close(self) -> None:
        """Stop the reading thread; raises the exception with which it failed."""
        self._ended.set()
        self._thread.join(_LEAVE_S)
        if not self._thread.is_alive():
            self._reader.close()
        if self._failure is not None:
            raise self._failure

    # What is on the screen.

    def _show(self) -> None:
        if not self.query("#help"):
            return
        width, height = self.size
        self._write("help", Text(help_text(width), Style(reverse=True), no_wrap=True))
        taken = self.snapshot
        if taken is None:
            note = self._note()
            self._write("header", Text(f"zkctl top: the first reading … {note}".rstrip()))
            return
        note = self._note()
        states = taken.counted.states
        lines = [
            line
            for segments in header(taken.reading, states, taken.stale, note=note)
            for line in lines_of(segments, width)
        ]
        self._write("header", _styled(lines))
        self._show_problems(taken.reading.problems, width)
        self._show_changes(taken.changes, width, max(3, height // 5))
        self._list(taken)
        self.call_after_refresh(self._show_title)

    def _note(self) -> str:
        """Why the screen is out of date (slow reading, paused); empty if it is not."""
        began_s = self._began_s
        waited_s = 0.0 if began_s is None else time.monotonic() - began_s
        if waited_s > SLOW_S:
            return f"waits for an answer for {waited_s:.0f} s"
        return "paused" if self._paused.is_set() else ""

    def _write(self, where: str, text: Text) -> None:
        """Put a text into a part of the screen, unless it is there already."""
        before = self._written.get(where)
        if before is not None and before.plain == text.plain and before.spans == text.spans:
            return
        self._written[where] = text
        is_as_high = before is not None and before.plain.count("\n") == text.plain.count("\n")
        self.query_one(f"#{where}", Static).update(text, layout=not is_as_high)

    def _show_problems(self, problems: Sequence[str], width: int) -> None:
        shown = list(problems[:PROBLEMS_SHOWN])
        if left := len(problems) - len(shown):
            shown[-1] = f"{left + 1} more problems: key 7"
        lines = [[Segment(shortened(f"! {each}", width), RowColour.ERROR)] for each in shown]
        self.query_one("#problems").display = bool(lines)
        self._write("problems", _styled(lines))

    def _show_changes(self, changes: Sequence[Change], width: int, room: int) -> None:
        self.query_one("#changes").display = self._place.view != "changes"
        columns = COLUMNS["changes"]
        latest = [change_row(each) for each in changes[:room]]
        cells = [[column.text(row[column.key]) for column in columns] for row in latest]
        chosen = fitted(columns, cells, width)
        title = "Changes, the latest first" if latest else "No changes seen yet"
        if left := len(changes) - len(latest):
            title += f"; {left:,} more: key 6"
        lines = [[Segment(title)]]
        lines += [
            [Segment(line_text(columns, chosen, line), colour_of("changes", row))]
            for row, line in zip(latest, cells, strict=True)
        ]
        text = _styled(lines)
        text.stylize(Style(bold=True, underline=True), 0, len(lines[0][0].text))
        self._write("changes", text)

    def _list(self, taken: Snapshot) -> None:
        place, listing = self._place, self.query_one(Listing)
        if place.view == "partitions":
            partitions = taken.reading.partitions or {}
            listing.put(
                place,
                self._partitions(taken),
                lambda name: partition_row(partitions[name], taken.counted),
            )
        elif place.view == "changes":
            rows = [change_row(each) for each in taken.changes]
            self._put(self._filtered(rows, ("what", "kind")))
        elif place.view == "problems":
            self._put(problem_rows(taken.reading.problems, self.size.width))
        else:
            rows = self._filtered(taken.rows[place.view], _KEYS[place.view])
            if self._only_trouble:
                rows = [row for row in rows if _is_trouble(place.view, row)]
            self._put(self._in_order(rows))

    def _put(self, rows: Sequence[Row]) -> None:
        view = self._place.view
        keys = _KEYS.get(view)
        if keys is None:
            self.query_one(Listing).put(self._place, range(len(rows)), rows.__getitem__)
            return
        by_key = {tuple(row[key] for key in keys): row for row in rows}
        self.query_one(Listing).put(self._place, list(by_key), by_key.__getitem__)

    def _partitions(self, taken: Snapshot) -> Sequence[tuple[str, int]]:
        """The names of the partitions to show, in order."""
        place, views = self._place, taken.reading.partitions or {}
        troubles = taken.counted.troubles
        names: Iterable[tuple[str, int]] = troubles if self._only_trouble else views
        if place.topic is not None:
            names = (name for name in names if name[0] == place.topic)
        if place.broker is not None:
            names = (name for name in names if place.broker in views[name].assignment.replicas)
        if self._pattern:
            matching = {name[0]: self._is_wanted(name[0]) for name in views}
            names = (name for name in names if matching[name[0]])
        at, is_down = self._order()
        key = COLUMNS["partitions"][at].key
        if key == "topic":
            return sorted(names, reverse=is_down)
        return sorted(
            names,
            key=lambda name: _sortable(partition_row(views[name], taken.counted)[key]),
            reverse=is_down,
        )

    def _filtered(self, rows: Sequence[Row], keys: Sequence[str]) -> list[Row]:
        if not self._pattern:
            return list(rows)
        return [row for row in rows if any(self._is_wanted(str(row[key])) for key in keys)]

    def _is_wanted(self, name: str) -> bool:
        pattern = self._pattern
        if any(each in pattern for each in "*?["):
            return fnmatchcase(name, pattern)
        return pattern in name

    def _order(self) -> tuple[int, bool]:
        return self._sorted.get(self._place.view, (0, False))

    def _in_order(self, rows: Sequence[Row]) -> list[Row]:
        at, is_down = self._order()
        view = self._place.view
        key = COLUMNS[view][at].key
        return sorted(rows, key=lambda row: _sortable(with_texts(view, row)[key]), reverse=is_down)

    def _show_title(self) -> None:
        place = self._place
        parts = [
            Segment(f"{number} {view}", RowColour.WARNING if view == place.view else RowColour.FINE)
            for number, view in enumerate(VIEWS, 1)
        ]
        lines = [parts, [Segment(self._subject())]]
        text = _styled([line for each in lines for line in lines_of(each, self.size.width)])
        self._write("title", text)

    def _subject(self) -> str:
        """The line above the listing: its view, limits, order, and visible rows."""
        place = self._place
        of = ""
        if place.topic is not None:
            of = f" of topic {place.topic}"
        elif place.broker is not None:
            of = f" of broker {place.broker}"
        words = [f"{place.view}{of}"]
        if self._only_trouble and place.view not in ("changes", "problems"):
            words.append("in trouble")
        if self._pattern and place.view != "problems":
            words.append(f"matching {self._pattern}")
        if place.view not in ("changes", "problems"):
            at, is_down = self._order()
            column = COLUMNS[place.view][at].title.lower()
            words.append(f"by {column}{', downwards' if is_down else ''}")
        return shortened(f"{' '.join(words)}: {self.query_one(Listing).position}", self.size.width)

    # What keys do.

    def action_leave(self) -> None:
        """Leave the screen."""
        self.exit()

    def action_move(self, by: int) -> None:
        """Move the cursor by ``by`` rows; a negative number moves it up."""
        self.query_one(Listing).move(by)
        self._show_title()

    def action_page(self, by: int) -> None:
        """Move the cursor by one screen of rows; negative goes up."""
        self.action_move(by * self.query_one(Listing).room)

    def action_end(self, by: int) -> None:
        """Move the cursor to the first row (-1) or the last (1)."""
        self.action_move(by * len(self.query_one(Listing).keys))

    def action_view(self, view: str) -> None:
        """Show another view, with all its rows."""
        self._before.clear()
        self._go(ViewPlace(view))

    def action_open(self) -> None:
        """Show the partitions of the broker or topic under the cursor."""
        chosen = self.query_one(Listing).chosen
        if chosen is None:
            return
        match self._place.view:
            case "brokers":
                place = ViewPlace("partitions", broker=chosen[0])
            case "topics" | "moves":
                place = ViewPlace("partitions", topic=chosen[0])
            case "partitions" if self._place.topic is None:
                place = ViewPlace("partitions", topic=chosen[0])
            case _:
                return
        self._before.append(self._place)
        self._go(place)

    def action_outwards(self) -> None:
        """Go back to the view before; if there is none, remove the filter."""
        if self._pattern and not self._before:
            self._pattern = ""
            self._show()
        elif self._before:
            self._go(self._before.pop())

    def _go(self, place: ViewPlace) -> None:
        self._place, self._pattern = place, ""
        self._show()

    def action_filter(self) -> None:
        """Open the input field of the filter."""
        field = self.query_one("#filter", Input)
        if field.display:
            field.post_message(events.Key("slash", "/"))  # the slash is a letter of the pattern
            return
        field.value = self._pattern
        field.display = True
        self.set_focus(field)  # at once, as the next key is already a letter of the pattern

    def on_input_changed(self, message: Input.Changed) -> None:
        """Apply the filter while it is typed."""
        if self.query_one("#filter").display:
            self._pattern = message.value
            self._show()

    def on_input_submitted(self, message: Input.Submitted) -> None:
        """Apply the final pattern, as the message of its last change may arrive later."""
        self._pattern = message.value
        self._close_filter()

    def on_key(self, event: events.Key) -> None:
        """Escape closes the filter's input field and removes the filter."""
        if event.key == "escape" and self.query_one("#filter").display:
            event.prevent_default()
            event.stop()
            self._close_filter()
            self._pattern = ""
            self._show()

    def _close_filter(self) -> None:
        self.query_one("#filter").display = False
        self.set_focus(self.query_one(Listing))
        self._show()

    def action_sort(self) -> None:
        """Sort by the next column."""
        view = self._place.view
        if view not in _KEYS:
            return
        at = (self._order()[0] + 1) % len(COLUMNS[view])
        self._sorted[view] = (at, at > 0 and COLUMNS[view][at].is_number)
        self._show()

    def action_reverse(self) -> None:
        """Reverse the order of the rows."""
        at, is_down = self._order()
        self._sorted[self._place.view] = (at, not is_down)
        self._show()

    def action_trouble(self) -> None:
        """Switch between rows that need attention and all rows."""
        self._only_trouble = not self._only_trouble
        self._show()

    def action_pause(self) -> None:
        """Pause the readings, or resume them."""
        if self._paused.is_set():
            self._paused.clear()
        else:
            self._paused.set()
        self._show()


def _is_trouble(view: str, row: Row) -> bool:
    if view == "groups":
        return bool(row["lag"] or row["note"] or row["unknown_count"])
    if view == "moves":
        return row["remaining_ms"] is None
    if view == "topics" and (row["not_preferred_count"] or row["reassigning_count"]):
        return True
    return colour_of(view, row) is not RowColour.FINE


def _sortable(value: Any) -> tuple[bool, Any]:
    """A sort key by which None comes first in ascending order."""
    return (False, 0) if value is None else (True, value)


def run_screen(reader: Reader, interval_s: float) -> None:
    """Show the screen until the user leaves it; raises the exception of a failed reading."""
    screen = TopScreen(reader, interval_s)
    try:
        screen.run(mouse=False)
    finally:
        screen.close()
