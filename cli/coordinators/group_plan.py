"""Plans the offsets that a reset of a group commits; parses its times and files.

Source: Kafka ``ConsumerGroupCommand.prepareOffsetsToReset``, ``checkOffsetsRange``.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple

from zkcontroller_cli.console.errors import BadUsage
from zkcontroller_cli.values.moves import NamedPartition

_LARGEST_OFFSET: Final = (1 << 63) - 1
_DURATION: Final = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(T(?=[-+\d])(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(\.\d{1,9})?S)?)?",
    re.ASCII | re.IGNORECASE,
)


class ResetMode(Enum):
    """How a reset chooses the new offset of a partition."""

    EARLIEST = "--to-earliest"
    LATEST = "--to-latest"
    CURRENT = "--to-current"
    OFFSET = "--to-offset"
    TIMESTAMP = "--to-datetime"
    SHIFT = "--shift-by"
    FILE = "--from-file"


class Log(NamedTuple):
    """A partition's first and last offsets, and the offset of the wanted time (-1: no record)."""

    start_offset: int
    end_offset: int
    offset_at_time: int = -1


class PlannedReset(NamedTuple):
    """The offset to commit for one partition; ``new_offset`` is None if that is impossible."""

    topic: str
    partition: int
    current_offset: int | None
    new_offset: int | None
    log_start_offset: int | None
    log_end_offset: int | None
    reason: str | None
    """Why ``new_offset`` is not the wanted one, or is None; None if it is as wanted."""


def plan_reset(
    mode: ResetMode,
    wanted: Mapping[NamedPartition, int],
    committed: Mapping[NamedPartition, int],
    logs: Mapping[NamedPartition, Log | str],
) -> list[PlannedReset]:
    """Plan the reset of the partitions in ``wanted``, sorted by topic and partition.

    ``wanted``: for each partition the offset (OFFSET, FILE) or the shift (SHIFT); any number in
    other modes.  ``logs``: each partition's log, or why it is not known.
    """
    return [
        _planned(mode, partition, wanted[partition], committed.get(partition), logs[partition])
        for partition in sorted(wanted)
    ]


def _planned(
    mode: ResetMode, partition: NamedPartition, number: int, current: int | None, log: Log | str
) -> PlannedReset:
    if isinstance(log, str):
        return PlannedReset(*partition, current, None, None, None, log)
    if mode is ResetMode.SHIFT and current is None:
        reason: str | None = "nothing is committed that could be shifted"
        return PlannedReset(*partition, current, None, log.start_offset, log.end_offset, reason)
    new, reason = _new_offset(mode, number, current, log)
    return PlannedReset(*partition, current, new, log.start_offset, log.end_offset, reason)


def _new_offset(
    mode: ResetMode, number: int, current: int | None, log: Log
) -> tuple[int, str | None]:
    match mode:
        case ResetMode.EARLIEST:
            return log.start_offset, None
        case ResetMode.LATEST:
            return log.end_offset, None
        case ResetMode.CURRENT if current is None:
            return log.end_offset, "nothing is committed: the log's end"
        case ResetMode.CURRENT:
            assert current is not None
            return current, None
        case ResetMode.TIMESTAMP if log.offset_at_time < 0:
            return log.end_offset, "no record is that new: the log's end"
        case ResetMode.TIMESTAMP:
            return log.offset_at_time, None
        case ResetMode.SHIFT:
            assert current is not None, "checked by the caller"
            return _clamped(current + number, log)
        case ResetMode.OFFSET | ResetMode.FILE:
            return _clamped(number, log)


def _clamped(offset: int, log: Log) -> tuple[int, str | None]:
    if offset > log.end_offset:
        return log.end_offset, f"{offset} is behind the log's end"
    if offset < log.start_offset:
        return log.start_offset, f"{offset} is before the log's start"
    return offset, None


class TopicScope(NamedTuple):
    """A topic and partitions, as ``--topic`` names them; None: all its partitions."""

    topic: str
    partitions: tuple[int, ...] | None


def parse_scope(text: str) -> TopicScope:
    """Parse a scope such as ``orders`` or ``orders:0,1``; BadUsage for another form."""
    topic, colon, listed = text.partition(":")
    if not colon and topic:
        return TopicScope(topic, None)
    numbers = listed.split(",")
    if not topic or not all(_is_number(each, 1 << 31) for each in numbers):
        raise BadUsage(f"{text!r} is not TOPIC or TOPIC:PARTITION,PARTITION,…, in --topic")
    return TopicScope(topic, tuple(map(int, numbers)))


def partitions_in(
    scopes: Sequence[TopicScope], existing: Collection[NamedPartition]
) -> list[NamedPartition]:
    """The partitions in the scopes, each once, sorted; also named ones that do not exist."""
    found = set()
    for topic, partitions in scopes:
        if partitions is None:
            found |= {each for each in existing if each.topic == topic}
        else:
            found |= {NamedPartition(topic, partition) for partition in partitions}
    return sorted(found)


def parse_moment(text: str) -> int:
    """Parse an ISO 8601 time into ms since 1970, as UTC without a zone; BadUsage for another form.

    Source: Kafka ``Utils.getDateTime``, which accepts only the form ``2026-11-24T10:00:00.000``.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        form = "YYYY-MM-DDTHH:MM:SS.sss, with Z or +HH:MM"
        raise BadUsage(f"{text!r} is not {form}, in --to-datetime") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def parse_duration(text: str) -> int:
    """Parse a duration such as ``P1DT2H3M4.5S`` into milliseconds; BadUsage for another form.

    Source: Java ``Duration.parse``.
    """
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.group(2, 4, 5, 6)):
        raise BadUsage(f"{text!r} is not PnDTnHnMnS, in --by-duration")
    sign, days, _, hours, minutes, seconds, fraction = found.groups()
    units = ((days, 86_400_000), (hours, 3_600_000), (minutes, 60_000), (seconds, 1_000))
    milliseconds = sum(int(count or 0) * unit for count, unit in units)
    part = int((fraction or ".0")[1:4].ljust(3, "0"))
    milliseconds += -part if (seconds or "").startswith("-") else part
    return -milliseconds if sign == "-" else milliseconds


def read_offsets(file: Path, group: str) -> dict[NamedPartition, int]:
    """Read the group's offsets in a file of ``kafka-consumer-groups --export``.

    Lines are ``topic,partition,offset`` or ``group,topic,partition,offset``.  BadUsage if the file
    cannot be read, has another form, names a partition twice, or has no line for the group.
    """
    try:
        lines = list(csv.reader(io.StringIO(file.read_text("utf-8"))))
    except OSError as error:
        raise BadUsage(f"cannot read {file}: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadUsage(f"{file} is not CSV: {error}") from error
    offsets: dict[NamedPartition, int] = {}
    for number, cells in enumerate(lines, 1):
        if not cells:
            continue
        owner, (topic, partition, offset) = (
            (cells[0], cells[1:])
            if len(cells) == 4
            else (group, cells if len(cells) == 3 else _NO_CELLS)
        )
        if (
            not topic
            or not _is_number(partition, 1 << 31)
            or not _is_number(offset, _LARGEST_OFFSET + 1)
        ):
            form = "topic,partition,offset or group,topic,partition,offset"
            raise BadUsage(f"{file}, line {number}: it is not {form}")
        named = NamedPartition(topic, int(partition))
        if owner == group and named in offsets:
            raise BadUsage(f"{file}, line {number}: {topic}-{partition} is named twice")
        if owner == group:
            offsets[named] = int(offset)
    if not offsets:
        raise BadUsage(f"{file} has no offset for group {group}")
    return offsets


_NO_CELLS: Final = ("", "", "")


def write_offsets(file: Path, plan: Sequence[PlannedReset]) -> None:
    """Write the new offsets as ``kafka-consumer-groups --export`` does for one group.

    BadUsage if the file exists or cannot be written.
    """
    buffer = io.StringIO()
    lines = ((each.topic, each.partition, each.new_offset) for each in plan)
    csv.writer(buffer, lineterminator="\n").writerows(lines)
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(buffer.getvalue())
    except OSError as error:
        raise BadUsage(f"cannot write {file}: {error.strerror}") from error


def plan_row(group: str, planned: PlannedReset) -> dict[str, Any]:
    """One planned reset as a row."""
    return {"group": group, **planned._asdict()}


def _is_number(text: str, limit: int) -> bool:
    return text.isascii() and text.isdecimal() and int(text) < limit
