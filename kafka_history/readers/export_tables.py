"""Turns lines of ``state-changes.jsonl`` into typed rows, equal to those of the text log.

The kind of a record determines its shape: the line that Kafka and our ``state-change.log`` write
for it.  If the record contains more than that line (``Handling LeaderAndIsr request`` has no
epoch), the row has the values of the record.  A line that is not our record becomes a row without a
shape.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from kafka_history.event_schema import EVENT_COLUMNS
from kafka_history.readers.arrow_columns import EVENTS, shortened
from kafka_history.readers.record_blocks import Block
from kafka_history.readers.typed_tables import TEXT_CAPACITY, Typed
from kafka_history.shapes.catalogue import Shape, shapes
from zkcontroller.state_changes.kafka_lines import STATE_CHANGE_LOGGER
from zkcontroller.state_changes.record import Kind, Reason, StateChange

_CONSTANT: Final[dict[str, str]] = {
    Kind.PARTITION_STATE_FAILED: "partition-failed",
    Kind.REPLICA_STATE_CHANGED: "replica-state",
    Kind.REPLICA_STATE_FAILED: "replica-failed",
    Kind.REPLICA_REMOVED_FROM_ISR: "partition-shrunk-offline",
    Kind.LEADER_AND_ISR_SENDING: "send-lisr",
    Kind.LEADER_AND_ISR_SENDING_PARTITION: "send-lisr-partition",
    Kind.UPDATE_METADATA_SENDING: "send-um",
    Kind.STOP_REPLICA_SENDING: "send-stop",
    Kind.STOP_REPLICA_SENDING_PARTITION: "send-stop-partition",
    Kind.RESPONSE_RECEIVED: "recv-response",
    Kind.REPLICAS_MARKED_OFFLINE: "ctl-mark-offline-replicas",
    Kind.REASSIGNMENT_SENT: "reassign-sent-lisr",
    Kind.REASSIGNMENT_SEND_FAILED: "reassign-send-failed",
    Kind.CONTROLLER_ELECTED: "ctl-elected",
    Kind.CONTROLLER_RESIGNED: "ctl-resigned",
    Kind.LEADER_AND_ISR_HANDLING: "lisr-handling",
    Kind.LEADER_AND_ISR_FINISHED: "lisr-finished",
    Kind.LEADER_AND_ISR_RECEIVED_PARTITION: "lisr-received",
    Kind.LEADER_AND_ISR_FAILED: "lisr-error",
    Kind.LEADER_STARTED: "leader-starts",
    Kind.LEADER_RECOVERED: "leader-recovered",
    Kind.FOLLOWER_STARTED: "follower-starts",
    Kind.FETCHER_SKIPPED: "skipped-adding-fetcher",
    Kind.STOP_REPLICA_HANDLING: "stop-handling",
    Kind.STOP_REPLICA_RECEIVED_PARTITION: "stop-received",
    Kind.METADATA_CACHED: "um-applied",
    Kind.METADATA_CACHED_PARTITION: "um-cached",
    Kind.METADATA_DELETED_PARTITION: "um-deleted",
    Kind.UPDATE_METADATA_IGNORED: "um-stale-controller",
    Kind.TOPIC_ID_ASSIGNED: "topic-id-assigned",
    Kind.TOPIC_ID_INCONSISTENT: "topic-id-mismatch",
    Kind.LEADER_UNAVAILABLE: "follower-no-leader",
}
_IGNORED: Final[dict[str, str]] = {
    Reason.SAME_LEADER_EPOCH: "lisr-epoch-same",
    Reason.STALE_LEADER_EPOCH: "lisr-epoch-older",
    Reason.STALE_CONTROLLER_EPOCH: "lisr-stale-controller",
    Reason.NOT_ASSIGNED: "lisr-not-assigned",
    Reason.OFFLINE_LOG_DIRECTORY: "lisr-offline-dir",
}
_INFO: Final = ("partition-new", "partition-online", "reassign-sent-lisr", "lisr-epoch-same")
"""Shapes with several levels that the export logs at INFO; others have their first level."""
_SET: Final = ("request", "role")
"""Columns that are taken from the shape if the record lacks them."""
_PHASES: Final[dict[str, str]] = {
    Kind.TRANSITION_STARTED: "Handling",
    Kind.TRANSITION_COMPLETED: "Completed",
}

_ERROR_CODE: Final = re.compile(r"errorCode=(-?\d+)", re.A)
_CLASS: Final = re.compile(r"[\w$]+(?:\.[\w$]+)+", re.A)
_FIRST_WORD: Final = re.compile(r"[\w$.]+(?:: )?", re.A)
_JSON: Final = json.JSONDecoder()

_TAKEN: Final = [
    column.name for column in EVENT_COLUMNS
    if column.name in (*StateChange._fields, "time_ms") and column.name != "kind"
]  # fmt: skip
"""Columns that are copied from the record."""

Record = dict[str, Any]


class ExportTyper:
    """Turns the lines of the export into rows."""

    def typed(self, block: Block) -> Typed:
        """The lines as rows, in their order."""
        records = list(map(_record, block.records))
        taken = {name: _column(name, [record.get(name) for record in records]) for name in _TAKEN}
        said_by_shape = _said_by_shape(list(map(_shape_id, records)))
        for name in _SET:
            said_by_shape[name] = pc.coalesce(taken[name], said_by_shape[name])
        classes, messages = zip(*map(_exception, records), strict=True)
        columns = {
            **taken,
            **said_by_shape,
            "error_code": _column("error_code", list(map(_error_code, records))),
            "exception_class": _column("exception_class", classes),
            "exception_message": _column("exception_message", messages),
            "line_id": pa.array(block.line_ids),
            "lines": pa.array(block.lines.astype(np.int32)),
            "size_bytes": pa.array(np.minimum(block.sizes, 2**31 - 1).astype(np.int32)),
            "values": pa.array(list(map(_values, records)), EVENTS.field("values").type),
            "text": shortened(block.records, TEXT_CAPACITY),
        }
        count = len(records)
        table = pa.table(
            [
                columns[field.name] if field.name in columns else pa.nulls(count, field.type)
                for field in EVENTS
            ],
            schema=EVENTS,
        )
        return Typed(table, np.arange(count))


def _record(line: bytes) -> Record:
    """The JSON object that the line begins with; empty if it begins with none."""
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        # A killed process leaves a torn line: keep the first record, if it is complete.
        try:
            found, _ = _JSON.raw_decode(line.decode(errors="replace").lstrip())
        except (ValueError, RecursionError):
            return {}
    return found if isinstance(found, dict) else {}


def _column(name: str, values: Sequence[object]) -> pa.Array:
    """The values as the column ``name``; a value that does not fit its type becomes null."""
    kind = EVENTS.field(name).type
    try:
        return pa.array(values, kind)
    except (ValueError, TypeError, OverflowError):
        return pa.array([_fitting(value, kind) for value in values], kind)


def _fitting(value: object, kind: pa.DataType) -> object:
    try:
        return pa.scalar(value, kind).as_py()
    except (ValueError, TypeError, OverflowError):
        return None


def _shape_id(record: Record) -> str:
    """The id of a record's shape; for another JSON object an id that no shape has."""
    kind, role, reason = (_text(record, name) for name in ("kind", "role", "reason"))
    match kind:
        case Kind.PARTITION_STATE_CHANGED:
            states = {"NewPartition": "partition-new", "OnlinePartition": "partition-online"}
            return states.get(_text(record, "to_state"), "partition-state")
        case Kind.RESPONSE_ERROR:
            is_metadata = record.get("request") == "UpdateMetadata"
            return "recv-um-error" if is_metadata else "recv-lisr-error"
        case Kind.LEADER_AND_ISR_IGNORED:
            return _IGNORED.get(reason, "lisr-error")
        case Kind.STOP_REPLICA_IGNORED:
            is_stale = reason == Reason.STALE_CONTROLLER_EPOCH
            return "stop-stale-controller" if is_stale else "stop-refused"
        case Kind.TRANSITION_STARTED | Kind.TRANSITION_COMPLETED:
            return f"lisr-{role}-step"
        case Kind.TRANSITION_SKIPPED:
            is_disk = reason == Reason.STORAGE_ERROR
            return "leader-disk-error" if is_disk else f"skipped-{role}-state"
        case Kind.FETCHERS_STOPPED:
            return f"stopped-fetchers-{role}"
        case _:
            return _CONSTANT.get(kind, "")


@cache
def _known() -> dict[str, Shape]:
    return {shape.id: shape for shape in shapes()}


def _said_by_shape(ids: Sequence[str]) -> dict[str, pa.Array]:
    """The columns that depend on the shape only; ``ids``: the shape id of each row."""
    places: dict[str, int] = {}
    taken = pa.array([places.setdefault(id_, len(places)) for id_ in ids], pa.int32())
    found = [_known().get(id_) for id_ in places]
    columns = {
        "shape": [shape and shape.id for shape in found],
        "kind": [shape and shape.kind for shape in found],
        "story": [shape and shape.story for shape in found],
        "level": [shape and ("INFO" if shape.id in _INFO else shape.levels[0]) for shape in found],
        "logger": [shape and STATE_CHANGE_LOGGER for shape in found],
        **{name: [shape and dict(shape.sets).get(name) for shape in found] for name in _SET},
    }
    return {name: pa.array(texts, pa.string()).take(taken) for name, texts in columns.items()}


def _text(record: Record, name: str) -> str:
    value = record.get(name)
    return value if isinstance(value, str) else ""


def _error_code(record: Record) -> int | None:
    found = _ERROR_CODE.search(_text(record, "response"))
    return int(found[1]) if found else None


def _exception(record: Record) -> tuple[str | None, str | None]:
    """Class and message of the exception that a record names."""
    cause = _text(record, "cause")
    named = _CLASS.match(cause)
    first, _, _ = cause.partition("\n")
    word = _FIRST_WORD.match(first)
    return named and named[0], first[word.end() if word else 0 :] or None


def _values(record: Record) -> list[tuple[str, str]] | None:
    """The values of a record that have no column of their own; None: there are none."""
    kind = _text(record, "kind")
    if kind in _PHASES:
        return [("phase", _PHASES[kind])]
    if kind == Kind.REPLICAS_MARKED_OFFLINE:
        return [("partitions", ",".join(map(str, record.get("partitions") or ())))]
    response = _text(record, "response")
    return [("response", response)] if response else None
