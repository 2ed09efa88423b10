"""``zkctl topic delete-records``: raises log start offsets; earlier records are lost for good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
import orjson

from zkcontroller_cli.console.command_lines import command_line
from zkcontroller_cli.console.errors import BadUsage, CommandFailed, Refused, TimedOut
from zkcontroller_cli.console.options import Bootstrap, Settings, settings
from zkcontroller_cli.console.render import Layout
from zkcontroller_cli.topics.changes import show_plan
from zkcontroller_cli.values.moves import NamedPartition, distinct, parse_partition

if TYPE_CHECKING:
    from kio.schema.metadata.v12.response import MetadataResponse

    from zkcontroller_cli.wire.record_deletions import RecordsDeleted
    from zkcontroller_cli.wire.requests import Deadline

HIGH_WATERMARK: Final = -1
"""The offset that means: delete everything before the current high watermark."""
_LARGEST_OFFSET: Final = (1 << 63) - 1
_LAST_LOOK_S: Final = 5.0
_CLEANUP: Final = "cleanup.policy"
_FORM: Final = '{"version":1,"partitions":[{"topic":…,"partition":…,"offset":…}]}'


class PlannedRecords(NamedTuple):
    """What to delete in one partition; ``new_earliest_offset`` is None if that is impossible."""

    topic: str
    partition: int
    earliest_offset: int | None
    latest_offset: int | None
    new_earliest_offset: int | None
    record_count: int | None
    """The offsets between the old start and the new one, including records removed before."""
    reason: str | None
    """Why the deletion is impossible, or not needed; None if neither."""


def _name(row: Any) -> str:
    return f"{row['topic']}-{row['partition']}"


_PLAN: Final = Layout(_name, (), PlannedRecords._fields)
_DONE_KEYS: Final = (
    *("topic", "partition", "earliest_offset", "new_earliest_offset", "record_count"),
    *("low_watermark", "is_deleted", "error", "reason"),
)
_DONE: Final = Layout(_name, (), _DONE_KEYS)


@click.command("delete-records")
@click.argument("targets", nargs=-1, metavar="[TOPIC-PARTITION:OFFSET]…")
@click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Offsets as JSON, as kafka-delete-records reads them.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done, do nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete_records(targets: tuple[str, ...], file: Path | None, dry_run: bool, yes: bool) -> None:
    """Delete the records before OFFSET; -1 deletes all that consumers can read.

    The plan is shown first. If one partition cannot be done (an offset behind the log's end, a
    topic that is only compacted), nothing is sent. Afterwards the log starts are read again.

    Examples:
      zkctl topic delete-records orders-0:1000 orders-1:-1 --dry-run
      zkctl topic delete-records --file offsets.json
    """
    from zkcontroller_cli.wire.requests import Deadline, run, visible_metadata
    from zkcontroller_cli.wire.target import brokers_to_change

    wanted = _targets(targets, file)
    given = settings()
    question = "Delete these records for good?"
    if not dry_run:
        given.can_be_asked(question, yes=yes)
    bootstrap = brokers_to_change(given)
    deadline = Deadline(given.deadline_s)
    known = run(visible_metadata(bootstrap, deadline, sorted({each.topic for each in wanted})))
    plan = run(_plan(bootstrap, deadline, known, wanted))
    if dry_run:
        given.renderer.rows([each._asdict() for each in plan], _PLAN)
    impossible = [each for each in plan if each.new_earliest_offset is None]
    if impossible:
        first = impossible[0]
        raise Refused(
            f"{first.topic}-{first.partition}: {first.reason}; {len(impossible)} of {len(plan)} "
            "partitions cannot lose these records, nothing was done"
        )
    if dry_run:
        return
    show_plan([_text(each) for each in plan])
    given.confirm(question, yes=yes)
    deadline = Deadline(given.deadline_s)
    _delete(given, bootstrap, deadline, known, plan)


def plan_records(
    wanted: Mapping[NamedPartition, int],
    logs: Mapping[NamedPartition, tuple[int, ...] | str],
    policies: Mapping[str, str],
) -> list[PlannedRecords]:
    """Plan the deletion of the records before an offset, for each partition.

    ``logs``: each partition's log start offset and high watermark, or why they are not known.
    ``policies``: by topic, its ``cleanup.policy`` if it is known.
    """
    return [
        _planned(partition, offset, logs[partition], policies.get(partition.topic))
        for partition, offset in wanted.items()
    ]


def _planned(
    partition: NamedPartition, offset: int, log: tuple[int, ...] | str, policy: str | None
) -> PlannedRecords:
    if isinstance(log, str):
        return PlannedRecords(*partition, None, None, None, None, log)
    first, last = log
    new = last if offset == HIGH_WATERMARK else offset
    reason = None
    if policy is not None and "delete" not in policy:
        reason = f"{_CLEANUP}={policy} keeps the latest record of each key: no records are deleted"
    elif new > last:
        reason = f"{new} is behind the log's end {last}"
    if reason is not None:
        return PlannedRecords(*partition, first, last, None, None, reason)
    if new <= first:
        return PlannedRecords(*partition, first, last, first, 0, f"it begins at {first} already")
    return PlannedRecords(*partition, first, last, new, new - first, None)


async def _plan(
    bootstrap: Bootstrap,
    deadline: Deadline,
    known: MetadataResponse,
    wanted: Mapping[NamedPartition, int],
) -> list[PlannedRecords]:
    from zkcontroller_cli.wire.logs import EARLIEST, LATEST, offsets_at
    from zkcontroller_cli.wire.topic_state import config_values

    logs = await offsets_at(bootstrap, deadline, known, list(wanted), (EARLIEST, LATEST))
    topics = sorted({each.topic for each in wanted})
    try:
        policies = await config_values(bootstrap, deadline, topics, _CLEANUP)
    except CommandFailed:  # then the leader checks the policy when it deletes
        policies = {}
    return plan_records(wanted, logs, policies)


def _delete(
    given: Settings,
    bootstrap: Bootstrap,
    deadline: Deadline,
    known: MetadataResponse,
    plan: Sequence[PlannedRecords],
) -> None:
    from zkcontroller_cli.wire.logs import EARLIEST, offsets_at
    from zkcontroller_cli.wire.record_deletions import delete_records_before
    from zkcontroller_cli.wire.requests import Deadline, metadata, run

    # Partitions without records to delete are left out.
    wanted = {
        NamedPartition(each.topic, each.partition): each.new_earliest_offset
        for each in plan
        if each.record_count and each.new_earliest_offset is not None
    }
    done = run(delete_records_before(bootstrap, deadline, known, wanted))
    partitions = [NamedPartition(each.topic, each.partition) for each in plan]
    # Read the start offsets even after a timeout: the brokers may have deleted the records.
    again = Deadline(max(_LAST_LOOK_S, deadline.left_s))
    later = run(metadata(bootstrap, again, sorted({each.topic for each in partitions})))
    after = run(offsets_at(bootstrap, again, later, partitions, (EARLIEST,)))
    rows = [
        _done_row(each, done.get(partition), after[partition])
        for each, partition in zip(plan, partitions, strict=True)
    ]
    given.renderer.rows(rows, _DONE)
    _refuse_for(rows)


def _done_row(
    planned: PlannedRecords, done: RecordsDeleted | None, after: tuple[int, ...] | str
) -> dict[str, Any]:
    assert planned.new_earliest_offset is not None, "nothing is sent otherwise"
    is_deleted = None if isinstance(after, str) else after[0] >= planned.new_earliest_offset
    return {
        "topic": planned.topic,
        "partition": planned.partition,
        "earliest_offset": None if isinstance(after, str) else after[0],
        "new_earliest_offset": planned.new_earliest_offset,
        "record_count": planned.record_count,
        "low_watermark": None if done is None else done.low_watermark,
        "is_deleted": is_deleted,
        "error": None if done is None else done.error,
        "reason": planned.reason if done is None else done.reason,
    }


def _refuse_for(rows: Sequence[Mapping[str, Any]]) -> None:
    failed = [row for row in rows if row["error"] is not None or row["is_deleted"] is not True]
    if not failed:
        return
    first = failed[0]
    why = first["error"] or f"the log begins at {first['earliest_offset']}"
    said = f"{_name(first)}: {why}"
    if first["is_deleted"]:
        wait = command_line("wait", options=("--for=isr=full", "--topic", first["topic"]))
        said += (
            ": the leader has deleted them, and a follower has not followed: "
            f"{wait}, and delete them again"
        )
    else:
        look = command_line("topic describe", first["topic"])
        said += f"; see its leader with {look}, and delete again"
    if len(failed) > 1:
        said = f"{len(failed)} of {len(rows)} partitions were not done; the first: {said}"
    is_late = all(row["error"] == "REQUEST_TIMED_OUT" for row in failed)
    raise TimedOut(said) if is_late else Refused(said)


def _targets(targets: tuple[str, ...], file: Path | None) -> dict[NamedPartition, int]:
    if bool(targets) == (file is not None):
        raise BadUsage("name TOPIC-PARTITION:OFFSET… or give them in a --file")
    listed = read_record_offsets(file) if file is not None else list(map(parse_target, targets))
    distinct([partition for partition, _ in listed])
    return dict(listed)


def parse_target(text: str) -> tuple[NamedPartition, int]:
    """Parse a partition and offset such as ``orders-0:42``; BadUsage for another form."""
    name, colon, number = text.rpartition(":")
    if not colon or not number.removeprefix("-").isdecimal() or len(number) > 19:
        raise BadUsage(f"{text!r} is not TOPIC-PARTITION:OFFSET")
    return parse_partition(name), _checked(int(number), text)


def read_record_offsets(file: Path) -> list[tuple[NamedPartition, int]]:
    """Read the offsets in a file of ``kafka-delete-records``; BadUsage for another form."""
    try:
        content = orjson.loads(file.read_bytes())
    except OSError as error:
        raise BadUsage(f"cannot read {file}: {error.strerror}") from error
    except orjson.JSONDecodeError as error:
        raise BadUsage(f"{file} is not JSON: {error}") from error
    try:
        if content.get("version", 1) != 1:
            raise BadUsage(f"{file} has version {content['version']}: only 1 is known")
        return [_offset_in(entry, file) for entry in content["partitions"]]
    except (AttributeError, KeyError, TypeError) as error:
        raise BadUsage(f"{file} is not of the form {_FORM}") from error


def _offset_in(entry: Mapping[str, object], file: Path) -> tuple[NamedPartition, int]:
    topic, partition, offset = entry["topic"], entry["partition"], entry["offset"]
    if not isinstance(topic, str) or type(partition) is not int or type(offset) is not int:
        raise TypeError("topic, partition and offset")
    if not 0 <= partition < 1 << 31:
        raise BadUsage(f"{file}: {partition} is no partition of {topic}")
    return NamedPartition(topic, partition), _checked(offset, f"{topic}-{partition} in {file}")


def _checked(offset: int, where: str) -> int:
    if not HIGH_WATERMARK <= offset <= _LARGEST_OFFSET:
        raise BadUsage(f"{where}: the offset must be 0 or more, or -1 for the log's end")
    return offset


def _text(planned: PlannedRecords) -> str:
    what = planned.reason or f"{planned.record_count} offsets"
    return (
        f"  {planned.topic}-{planned.partition}: {planned.earliest_offset} -> "
        f"{planned.new_earliest_offset} of {planned.latest_offset}  ({what})"
    )
