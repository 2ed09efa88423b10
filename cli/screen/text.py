"""Lays out what ``zkctl top`` shows: columns that fit the width, the header, and the key help.

Pure.  If the width is too small, whole columns are left out, the least important first.  In a name
that is too long an ellipsis replaces the middle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from textwrap import wrap
from typing import Any, Final, NamedTuple

from kafka_common.model import address_text
from zkcontroller_cli.console.quantities import (
    clock_text,
    count_text,
    duration_text,
    ids_text,
    rate_text,
    signed_text,
    size_text,
)
from zkcontroller_cli.console.tables import RowColour, text_width
from zkcontroller_cli.screen.model import Change, Reading
from zkcontroller_cli.screen.rows import PartitionCounts, Row

GAP: Final = 2
NAME_LEAST: Final = 12
"""The least width of a column of names, in characters."""
CUT: Final = "…"
_UNKNOWN: Final = "-"
HELP: Final = (
    "1-7 view",
    "Enter open",
    "Esc back",
    "/ filter",
    "s,r sort",
    "t trouble",
    "p pause",
    "q quit",
)


class Segment(NamedTuple):
    """A coloured piece of text that is never divided between two lines."""

    text: str
    colour: RowColour = RowColour.FINE


class ListingColumn(NamedTuple):
    """One column of a listing: its key in a row, its title, and how its value is written."""

    key: str
    title: str
    text: Callable[[Any], str] = str
    is_name: bool = False
    """Whether the column may be narrower than its text."""
    is_number: bool = False
    """Whether it is aligned to the right, and sorted in descending order at first."""
    rank: int = 0
    """The column with the highest rank is left out first; one with 0 never."""


def _plain(value: object) -> str:
    return _UNKNOWN if value is None else str(value)


def _leader(value: int | None) -> str:
    return _UNKNOWN if value is None else "none" if value < 0 else str(value)


def _yes(value: bool | None) -> str:
    return _UNKNOWN if value is None else "yes" if value else ""


def _alive(value: bool | None) -> str:
    return {None: _UNKNOWN, True: "alive", False: "gone"}[value]


def _number(key: str, title: str, rank: int = 0) -> ListingColumn:
    return ListingColumn(key, title, count_text, is_number=True, rank=rank)


COLUMNS: Final[Mapping[str, tuple[ListingColumn, ...]]] = {
    "brokers": (
        ListingColumn("broker_id", "BROKER", is_number=True),
        ListingColumn("is_alive", "STATE", _alive),
        ListingColumn("is_controller", "CONTROLLER", _yes, rank=4),
        _number("leader_count", "LEADERS"),
        _number("preferred_leader_count", "PREFERRED", 6),
        _number("replica_count", "REPLICAS"),
        _number("out_of_sync_count", "OUT OF SYNC", 2),
        ListingColumn("size_bytes", "SIZE", size_text, is_number=True, rank=1),
        ListingColumn("bytes_per_s", "GROWTH", rate_text, is_number=True, rank=5),
        ListingColumn("session_age_ms", "SESSION", duration_text, is_number=True, rank=3),
        ListingColumn("address", "ADDRESS", _plain, rank=7),
        ListingColumn("rack", "RACK", _plain, rank=8),
    ),
    "topics": (
        ListingColumn("topic", "TOPIC", is_name=True),
        _number("partition_count", "PARTITIONS"),
        _number("replication_factor", "FACTOR", 5),
        _number("offline_count", "OFFLINE"),
        _number("under_replicated_count", "UNDER-REPLICATED"),
        _number("not_preferred_count", "NOT PREFERRED", 4),
        _number("reassigning_count", "REASSIGNING", 3),
        ListingColumn("size_bytes", "SIZE", size_text, is_number=True, rank=2),
        ListingColumn("deletion_age_ms", "DELETED FOR", duration_text, is_number=True, rank=1),
    ),
    "partitions": (
        ListingColumn("topic", "TOPIC", is_name=True),
        ListingColumn("partition", "PARTITION", is_number=True),
        ListingColumn("leader", "LEADER", _leader, is_number=True),
        ListingColumn("leader_epoch", "EPOCH", _plain, is_number=True, rank=2),
        ListingColumn("replicas", "REPLICAS", ids_text, rank=3),
        ListingColumn("isr", "ISR", ids_text, rank=1),
        ListingColumn("trouble", "STATE"),
    ),
    "moves": (
        ListingColumn("topic", "TOPIC", is_name=True),
        ListingColumn("partition", "PARTITION", is_number=True),
        ListingColumn("adding_replicas", "ADDING", ids_text),
        ListingColumn("removing_replicas", "REMOVING", ids_text, rank=4),
        ListingColumn("in_sync_text", "IN SYNC", _plain, rank=3),
        ListingColumn("copied_text", "COPIED", _plain, rank=1),
        ListingColumn("bytes_per_s", "RATE", rate_text, is_number=True, rank=2),
        ListingColumn("remaining_ms", "REMAINING", duration_text, is_number=True),
    ),
    "groups": (
        ListingColumn("group", "GROUP", is_name=True),
        ListingColumn("state", "STATE", _plain),
        _number("lag", "LAG"),
        ListingColumn("lag_per_s", "CHANGE", signed_text, is_number=True, rank=1),
        _number("partition_count", "PARTITIONS", 2),
        ListingColumn("coordinator", "COORDINATOR", is_number=True, rank=3),
        ListingColumn("protocol_type", "PROTOCOL", _plain, rank=4),
        ListingColumn("note", "NOTE", _plain, is_name=True, rank=5),
    ),
    "changes": (
        ListingColumn("at_ms", "TIME", clock_text),
        ListingColumn("kind", "KIND", str, rank=1),
        ListingColumn("what", "WHAT", is_name=True),
        ListingColumn("text", "CHANGE"),
    ),
    "problems": (ListingColumn("problem", "WHAT COULD NOT BE READ", is_name=True),),
}


def fitted(
    columns: Sequence[ListingColumn], lines: Sequence[Sequence[str]], width: int
) -> list[tuple[int, int]]:
    """The position and width of each column that fits into ``width``.

    Columns are left out by rank until the others fit with the least width of names.
    """
    natural = [
        max([text_width(column.title), *(text_width(line[at]) for line in lines)])
        for at, column in enumerate(columns)
    ]
    least = [
        min(natural[at], max(NAME_LEAST, text_width(column.title))) if column.is_name else each
        for at, (column, each) in enumerate(zip(columns, natural, strict=True))
    ]
    chosen = list(range(len(columns)))
    while _total([least[at] for at in chosen]) > width:
        last = max(chosen, key=lambda at: columns[at].rank)
        if not columns[last].rank:
            break
        chosen.remove(last)
    widths = {at: least[at] for at in chosen}
    spare = width - _total(list(widths.values()))
    for at in chosen:
        more = max(0, min(spare, natural[at] - least[at]))
        widths[at] += more
        spare -= more
    return list(widths.items())


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def line_text(
    columns: Sequence[ListingColumn], shown: Sequence[tuple[int, int]], cells: Sequence[str]
) -> str:
    """One line of cells, in the columns and widths of ``shown``."""
    texts = []
    for at, width in shown:
        cell = shortened(cells[at], width)
        blank = " " * (width - text_width(cell))
        texts.append(blank + cell if columns[at].is_number else cell + blank)
    return (" " * GAP).join(texts).rstrip()


def shortened(text: str, width: int) -> str:
    """The text in at most ``width`` characters; an ellipsis replaces the middle of a longer one."""
    if text_width(text) <= width:
        return text
    if width <= len(CUT):
        return CUT[:width]
    head, tail = "", ""
    for at in range(len(text)):
        if text_width(head + text[at] + CUT + tail) > width:
            break
        head += text[at]
        if text_width(head + CUT + text[-1 - at] + tail) > width:
            break
        tail = text[-1 - at] + tail
    return head + CUT + tail


def lines_of(segments: Sequence[Segment], width: int) -> list[list[Segment]]:
    """Put segments into lines of at most ``width``, two spaces apart."""
    lines: list[list[Segment]] = []
    used = 0
    for segment in segments:
        size = text_width(segment.text)
        if lines and used + GAP + size <= width:
            lines[-1].append(segment)
            used += GAP + size
        else:
            lines.append([segment._replace(text=shortened(segment.text, width))])
            used = min(size, width)
    return lines


def header(
    reading: Reading, states: PartitionCounts, stale: Mapping[str, int], *, note: str = ""
) -> list[list[Segment]]:
    """The lines above the listing: source of the reading, controller, partitions by state."""
    return [
        _title(reading, stale, note),
        _controller(reading, stale),
        _partitions(reading, states, stale),
    ]


def _title(reading: Reading, stale: Mapping[str, int], note: str) -> list[Segment]:
    found = [
        Segment(f"cluster {reading.cluster_id or 'without id'}"),
        Segment(clock_text(reading.at_ms)),
    ]
    if "partitions" in stale:
        old = f"{reading.source} of {clock_text(stale['partitions'])}"
        found.append(Segment(old, RowColour.ERROR))
    elif reading.source is not None:
        found.append(Segment(f"from {reading.source} in {reading.took_ms / 1000:.1f} s"))
    if note:
        found.append(Segment(note, RowColour.WARNING))
    return found


def _controller(reading: Reading, stale: Mapping[str, int]) -> list[Segment]:
    controller = reading.controller
    if controller is None:
        return [Segment("controller not known", RowColour.WARNING)]
    if controller.controller_id is None:
        found = [Segment("no controller", RowColour.ERROR)]
    else:
        found = [Segment(f"controller {controller.controller_id}")]
    if controller.controller_epoch is not None:
        found.append(Segment(f"epoch {controller.controller_epoch}"))
    if controller.elected_at_ms is not None and "controller" not in stale:
        tenure = max(0, reading.at_ms - controller.elected_at_ms)
        found.append(Segment(f"for {duration_text(tenure)}"))
    if (queue := reading.queue) is not None:
        waits = ""
        if queue.median_ms is not None and queue.p99_ms is not None:
            waits = f", waits {queue.median_ms:.1f} ms, p99 {queue.p99_ms:.1f} ms"
        found.append(Segment(f"event queue {queue.size}{waits}"))
    return found


def _partitions(
    reading: Reading, states: PartitionCounts, stale: Mapping[str, int]
) -> list[Segment]:
    if reading.partitions is None:
        found = [Segment("partitions not known", RowColour.WARNING)]
    else:
        found = [
            Segment(f"{states.partitions:,} partitions"),
            _state(states.offline, "offline", RowColour.ERROR),
            _state(states.under_replicated, "under-replicated", RowColour.WARNING),
            _state(states.not_preferred, "not preferred", RowColour.FINE),
            _state(states.reassigning, "reassigning", RowColour.FINE),
        ]
    if reading.deletions is None:
        found.append(Segment("deletions not known"))
    elif reading.deletions and "deletions" not in stale:
        count = len(reading.deletions)
        topics = "topic" if count == 1 else "topics"
        found.append(Segment(f"{count} {topics} under deletion", RowColour.WARNING))
    return found


def _state(count: int, word: str, colour: RowColour) -> Segment:
    return Segment(f"{count:,} {word}", colour if count else RowColour.FINE)


def help_text(width: int) -> str:
    """The help for the keys, as many as fit into the width."""
    for gap in ("   ", "  ", " "):
        if text_width(text := gap.join(HELP)) <= width:
            return text
    return " ".join(segment.text for segment in lines_of([Segment(" ".join(HELP))], width)[0])


def problem_rows(problems: Sequence[str], width: int) -> list[Row]:
    """Every problem, wrapped at words into as many rows as it needs."""
    return [{"problem": line} for each in problems for line in wrap(each, max(1, width))]


def change_row(change: Change) -> Row:
    """A change as a row of the listing."""
    return change._asdict()


def with_texts(view: str, row: Row) -> Row:
    """The row with the added texts of columns that show several values together."""
    if view == "brokers":
        host, port = row["host"], row["port"]
        return {**row, "address": None if host is None else address_text(host, port)}
    if view == "moves":
        copied, total = row["copied_bytes"], row["total_bytes"]
        share = None
        if copied is not None and total is not None:
            percent = 100 if not total else int(100 * copied / total)
            share = f"{size_text(copied)} of {size_text(total)}, {percent}%"
        in_sync = f"{row['in_sync_count']} of {len(row['adding_replicas'])}"
        return {**row, "copied_text": share, "in_sync_text": in_sync}
    return row


def colour_of(view: str, row: Row) -> RowColour:
    """The colour of a row."""
    match view:
        case "brokers":
            if row["is_alive"] is False:
                return RowColour.ERROR
            return RowColour.WARNING if row["out_of_sync_count"] else RowColour.FINE
        case "topics":
            if row["offline_count"]:
                return RowColour.ERROR
            is_odd = row["under_replicated_count"] or row["deletion_age_ms"] is not None
            return RowColour.WARNING if is_odd else RowColour.FINE
        case "partitions":
            if "offline" in row["trouble"]:
                return RowColour.ERROR
            return RowColour.WARNING if "under-" in row["trouble"] else RowColour.FINE
        case "changes":
            return RowColour.WARNING if row["is_bad"] else RowColour.FINE
        case "problems":
            return RowColour.WARNING
        case _:
            return RowColour.FINE
