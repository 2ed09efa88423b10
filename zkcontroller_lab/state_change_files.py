"""A recording of a real cluster, from the ``state-changes.jsonl`` files of its brokers.

The files show what controllers decided and what brokers did.  They hold no znodes and no questions,
so the frames have brokers and partitions only, and a step has no line of code.  Records of one
broker in one millisecond are one step.  A file that is still being written may end within a line;
that line is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, get_type_hints

import orjson

from kafka_common.errors import ZkControllerError
from zkcontroller.state_changes.export import SCHEMA_VERSION
from zkcontroller.state_changes.kafka_lines import FIELDS, level_of
from zkcontroller.state_changes.record import Kind, StateChange
from zkcontroller_lab.line_words import change_in_words
from zkcontroller_lab.recording import (
    MOST_STEPS,
    RecordedLine,
    RecordedStep,
    Recording,
    State,
    differences,
)

MOST_FILES: Final = 100
MOST_BYTES: Final = 64 * 1024 * 1024
"""The limit of bytes in all files together."""
LONGEST_LINE: Final = 1024 * 1024
"""The most bytes of one record."""
NO_LEADER: Final = -1

_CONTROLLER_STATES: Final = frozenset(
    {
        Kind.PARTITION_STATE_CHANGED,
        Kind.REPLICA_REMOVED_FROM_ISR,
        Kind.LEADER_AND_ISR_SENDING_PARTITION,
        Kind.REASSIGNMENT_SENT,
    }
)
"""Kinds of record in which a controller sets a partition's state."""
_TYPES: Final[Mapping[str, object]] = get_type_hints(StateChange)
_WITHOUT_A_LOOK: Final = frozenset({"kind", "topic_id", "requested_topic_id"})
"""Fields whose type is not checked here: they are checked elsewhere or not shown."""


class CorruptStateChanges(ZkControllerError):
    """A file holds no valid state changes; the message names the file and the line."""


class _Dated(NamedTuple):
    time_ms: int
    record: StateChange


def read_files(paths: Sequence[Path]) -> Recording:
    """The recording of these files.

    Raises CorruptStateChanges for a line that is no record, for files that are too large or too
    many, and for a file without a whole line; OSError for a file that cannot be read.
    """
    if len(paths) > MOST_FILES:
        raise CorruptStateChanges(f"more than {MOST_FILES} files")
    size = sum(path.stat().st_size for path in paths)
    if size > MOST_BYTES:
        raise CorruptStateChanges(
            f"the files have {size} bytes together, and {MOST_BYTES} is the most; cut them, for "
            "example with zkctl history for long times"
        )
    dated = sorted(
        (each for path in paths for each in _records(path)), key=lambda each: each.time_ms
    )
    title = paths[0].name if len(paths) == 1 else f"{len(paths)} files of state changes"
    source: dict[str, Any] = {"kind": "state-changes", "files": [str(path) for path in paths]}
    recording = Recording(title, source)
    if not dated:
        recording.ended = "the files hold no record yet"
        return recording
    source["summary"] = "What controllers decided and brokers did, by their own records."
    source["started_ms"] = dated[0].time_ms
    _fill(recording, dated)
    return recording


def _records(path: Path) -> Iterator[_Dated]:
    with path.open("rb") as file:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                raise CorruptStateChanges(f"{path}:{number}: longer than {LONGEST_LINE} bytes")
            if not line.endswith(b"\n"):
                return  # still being written
            yield _record(line, f"{path}:{number}")


def _record(line: bytes, place: str) -> _Dated:
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise CorruptStateChanges(f"{place}: not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise CorruptStateChanges(f"{place}: not a JSON object")
    version = fields.get("schema_version")
    if version != SCHEMA_VERSION:
        raise CorruptStateChanges(
            f"{place}: schema_version is {version!r}, and {SCHEMA_VERSION} is what this zkctl reads"
        )
    time_ms = fields.get("time_ms")
    if not _is_number(time_ms):
        raise CorruptStateChanges(f"{place}: time_ms is {time_ms!r}, not a number")
    return _Dated(int(str(time_ms)), _state_change(fields, place))


def _state_change(fields: Mapping[str, object], place: str) -> StateChange:
    try:
        kind = Kind(str(fields.get("kind")))
    except ValueError:
        raise CorruptStateChanges(f"{place}: the kind is {fields.get('kind')!r}") from None
    component, broker_id = fields.get("component"), fields.get("broker_id")
    if component not in ("controller", "broker"):
        raise CorruptStateChanges(f"{place}: the component is {component!r}")
    if not _is_number(broker_id):
        raise CorruptStateChanges(f"{place}: the broker_id is {broker_id!r}, not a number")
    known = {
        name: _checked(name, value, place)
        for name, value in fields.items()
        if name in _TYPES and name not in _WITHOUT_A_LOOK
    }
    missing = [name for name in FIELDS.get(kind, ()) if name not in fields]
    if missing:
        raise CorruptStateChanges(f"{place}: {kind} without {', '.join(missing)}")
    return StateChange(kind=kind, **known)


def _checked(name: str, value: object, place: str) -> Any:
    expected = _TYPES[name]
    if expected in (int, int | None):
        is_right = _is_number(value)
    elif expected in (bool, bool | None):
        is_right = isinstance(value, bool)
    elif expected in (str, str | None):
        is_right = isinstance(value, str)
    else:
        members = value if isinstance(value, list) else [None]
        is_text = expected == tuple[str, ...] | None
        is_right = all(isinstance(each, str) if is_text else _is_number(each) for each in members)
    if not is_right:
        raise CorruptStateChanges(f"{place}: {name} is {value!r}")
    return tuple(value) if isinstance(value, list) else value


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _fill(recording: Recording, dated: Sequence[_Dated]) -> None:
    cluster = _Cluster()
    start_ms = dated[0].time_ms
    recording.ended = "the files end here"
    state: State = {}
    for number, (time_ms, records) in enumerate(_grouped(dated)):
        if len(recording.steps) >= MOST_STEPS:
            recording.ended = f"cut after {MOST_STEPS} steps"
            return
        for record in records:
            cluster.take(record)
        now = cluster.state()
        lines = [_line(record) for record in records]
        step = RecordedStep(number, time_ms - start_ms, lines, differences(state, now))
        recording.steps.append(step)
        state = now


def _grouped(dated: Iterable[_Dated]) -> Iterator[tuple[int, list[StateChange]]]:
    group: list[StateChange] = []
    at: tuple[int, int] | None = None
    for time_ms, record in dated:
        if at != (time_ms, record.broker_id):
            if at is not None:
                yield at[0], group
            at, group = (time_ms, record.broker_id), []
        group.append(record)
    if at is not None:
        yield at[0], group


def _line(record: StateChange) -> RecordedLine:
    is_trouble = level_of(record) in ("WARN", "ERROR")
    kind = "error" if is_trouble else "event" if record.component == "controller" else "request"
    partitions = () if record.topic is None else (f"{record.topic}-{record.partition}",)
    return RecordedLine(
        kind, change_in_words(record), record.broker_id, None, (*partitions, *_several(record))
    )


def _several(record: StateChange) -> tuple[str, ...]:
    return record.partitions or ()


class _Cluster:
    """The state of brokers and partitions after the records read so far."""

    def __init__(self) -> None:
        self._brokers: dict[int, dict[str, Any]] = {}
        self._partitions: dict[str, dict[str, Any]] = {}

    def state(self) -> State:
        """The state for a frame; later records do not change its values."""
        found: State = {f"broker/{each}": dict(self._brokers[each]) for each in self._brokers}
        for name, value in self._partitions.items():
            found[f"partition/{name}"] = value | {"brokers": dict(value["brokers"])}
        return found

    def take(self, record: StateChange) -> None:
        """Updates the state by one record."""
        broker = self._broker(record.broker_id)
        broker["last"] = record.kind.replace("_", " ")
        if record.kind is Kind.CONTROLLER_ELECTED:
            for other in self._brokers.values():
                other["is_deposed"] = other["is_controller"]
            broker |= {
                "is_controller": True,
                "is_deposed": False,
                "controller_epoch": record.controller_epoch,
            }
        elif record.kind is Kind.CONTROLLER_RESIGNED:
            broker |= {"is_controller": False, "is_deposed": False}
        elif record.component == "broker" and record.controller_epoch is not None:
            seen = max(broker["highest_controller_epoch_seen"], record.controller_epoch)
            broker["highest_controller_epoch_seen"] = seen
        if record.topic is not None and record.partition is not None:
            self._take_partition(record, f"{record.topic}-{record.partition}")

    def _broker(self, broker_id: int) -> dict[str, Any]:
        return self._brokers.setdefault(
            broker_id,
            {
                "process": "unknown",
                "is_controller": False,
                "is_deposed": False,
                "controller_epoch": 0,
                "highest_controller_epoch_seen": 0,
            },
        )

    def _take_partition(self, record: StateChange, name: str) -> None:
        partition = self._partitions.setdefault(name, {"leader": None, "brokers": {}})
        for field in ("replicas", "adding_replicas", "removing_replicas"):
            value = getattr(record, field)
            if value is not None:
                partition[field] = list(value)
        if record.kind in _CONTROLLER_STATES and record.leader is not None:
            self._decided(partition, record, record.leader)
        elif record.kind is Kind.PARTITION_STATE_CHANGED and record.to_state == "OfflinePartition":
            partition["leader"] = NO_LEADER
        elif record.kind is Kind.LEADER_STARTED:
            self._began(partition, record, record.broker_id)
            is_newer = (record.leader_epoch or 0) > partition.get("leader_epoch", -1)
            if is_newer:  # the controller's own file is not here
                self._decided(partition, record, record.broker_id)
        elif record.kind is Kind.FOLLOWER_STARTED and record.leader is not None:
            self._began(partition, record, record.leader)

    def _decided(self, partition: dict[str, Any], record: StateChange, leader: int) -> None:
        partition["leader"] = leader
        for field in ("leader_epoch", "zk_version"):
            value = getattr(record, field)
            if value is not None:
                partition[field] = value
        if record.isr is not None:
            partition["isr"] = list(record.isr)

    def _began(self, partition: dict[str, Any], record: StateChange, leader: int) -> None:
        partition["brokers"][str(record.broker_id)] = {
            "leader": leader,
            "leader_epoch": record.leader_epoch,
        }
