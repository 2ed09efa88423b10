"""The one schema of a typed row, for every log line and every line of the export.

A row is one record: a log line with the exception below it, or one object of
``state-changes.jsonl``.  Both sources fill the same columns, so a query does not depend on the
source of a row.  Columns that do not apply are null.  A column that :class:`~.record.StateChange`
has too keeps its name and meaning.

This module is plain data: it imports no Spark, so that tools can show the schema without a JVM.
A test compares ``docs/history-schema.md`` with it.

How rows are kept
-----------------
An output directory holds Parquet tables, read with :mod:`.readers.store`:

``events``
    :data:`EVENT_COLUMNS`, in folders ``ingest=<n>/cluster=<key>/day=<yyyy-mm-dd>``; ``day`` is the
    record's UTC day, ``unknown`` where the record has no time.
``sources``
    :data:`SOURCE_COLUMNS`: every file that was looked at, read or not, and what was found in it.

``history.json`` beside them lists the complete ingests.  A folder that is not listed was left by an
ingest that failed; readers ignore it.
"""

from __future__ import annotations

from types import NoneType
from typing import Any, Final, NamedTuple, get_args, get_type_hints

SCHEMA_VERSION: Final = 1
"""Raised when a column changes its meaning or is removed, not when a column is added."""


class Column(NamedTuple):
    """One column: Spark's name of its type, and what it holds."""

    name: str
    type: str
    meaning: str


EVENT_COLUMNS: Final = (
    # Where the record is.
    Column("cluster", "string", "cluster the file belongs to: from the path, the log or an option"),
    Column("file", "string", "path of the source file, as it was given"),
    Column("line", "bigint", "number of the record's first line in that file, from 1"),
    Column("lines", "int", "physical lines of the record: more than 1 with an exception below it"),
    Column("size_bytes", "int", "bytes of the record in the file, decompressed"),
    # Writer, time and level.
    Column("broker_id", "int", "broker that wrote it: the line's own prefix, else path or option"),
    Column("time_ms", "bigint", "milliseconds since 1970 (UTC) by the clock of that broker"),
    Column("level", "string", "TRACE, DEBUG, INFO, WARN, ERROR or FATAL"),
    Column("logger", "string", "log4j's logger; state.change.logger for our export"),
    # Content of the record.
    Column(
        "shape", "string", "which line of Kafka's it is, such as partition-online; null: unknown"
    ),
    Column(
        "kind", "string", "the shape's family: partition-online-v10 and -v011 belong to the same"
    ),
    Column(
        "story", "string", "chapter of the shape: election, partition, isr, deletion, fetcher, …"
    ),
    Column("component", "string", "controller or broker: in which role the broker speaks"),
    Column("controller_id", "int", "controller that is spoken of: sender of a request, or elected"),
    Column(
        "controller_epoch", "int", "epoch of the controller that writes or that sent the request"
    ),
    Column(
        "state_controller_epoch", "int", "epoch of the controller that wrote the partition's state"
    ),
    Column("topic", "string", "topic of the partition"),
    Column("partition", "int", "partition of the topic"),
    Column("replica", "int", "broker whose replica changed: also the one removed from an ISR"),
    Column("leader", "int", "leader; -1 none, -2 the topic is being deleted"),
    Column("leader_epoch", "int", "epoch of the leadership"),
    Column("isr", "array<int>", "in-sync replicas, in order"),
    Column("zk_version", "int", "version of the state znode, Kafka's partition epoch"),
    Column("leader_recovery_state", "int", "0 recovered, 1 recovering after an unclean election"),
    Column("replicas", "array<int>", "assigned replicas, in order of preference"),
    Column("adding_replicas", "array<int>", "replicas that a reassignment adds"),
    Column("removing_replicas", "array<int>", "replicas that a reassignment removes"),
    Column("offline_replicas", "array<int>", "assigned replicas that are not online"),
    Column("is_new", "boolean", "the request says that the replica is new"),
    Column("delete_partition", "boolean", "StopReplica: the replica's data goes away"),
    Column("from_state", "string", "state before: OnlinePartition, NewReplica, …"),
    Column("to_state", "string", "state after, or the one that could not be reached"),
    Column("previous_leader", "int", "leader before, as the broker knew it"),
    Column("previous_leader_epoch", "int", "its epoch"),
    Column("current_leader_epoch", "int", "the epoch a broker holds, where it ignores a request"),
    Column(
        "latest_controller_epoch", "int", "controller epoch a broker knows, where it ignores one"
    ),
    Column("offset", "bigint", "log end offset a leader or follower starts from or truncates to"),
    Column("high_watermark", "bigint", "high watermark at that moment"),
    Column("topic_id", "string", "id of the topic, base64 as Kafka prints it"),
    Column("request", "string", "LeaderAndIsr, UpdateMetadata or StopReplica"),
    Column("correlation_id", "int", "links the controller's record to the broker's"),
    Column("peer", "int", "the other broker: asked, answering, failed, born; victim of the line"),
    Column("peers", "array<int>", "several brokers: addressees, or those that are active"),
    Column("role", "string", "leader or follower: which transition"),
    Column("reason", "string", "why something was ignored or skipped"),
    Column("error", "string", "Kafka's name of an error code, such as STALE_BROKER_EPOCH"),
    Column("error_code", "int", "top-level error code of a response"),
    Column("elapsed_ms", "bigint", "how long it took, where the line says so"),
    Column("count", "int", "partitions or replicas in a request; leaders, if followers are apart"),
    Column(
        "other_count", "int", "followers of a LeaderAndIsr; partitions an UpdateMetadata deletes"
    ),
    # The exception below the line, shortened.
    Column("exception_class", "string", "class of the exception below the line"),
    Column("exception_message", "string", "its message, at most 2,000 characters"),
    Column(
        "exception_frames", "array<string>", "its first frames, at most 3, without line numbers"
    ),
    Column("exception_frame_count", "int", "frames in all, causes included"),
    Column(
        "fingerprint", "string", "class, masked message and first frame: equal for equal faults"
    ),
    # What no other column holds.
    Column("values", "map<string,string>", "what else the shape names: see the shape's own fields"),
    Column(
        "text", "string", "the message, at most 4,000 characters; of unknown lines all there is"
    ),
)
"""The columns of ``events``, in their order."""

SOURCE_COLUMNS: Final = (
    Column("file", "string", "path as it was given or found"),
    Column("cluster", "string", "cluster it was counted to"),
    Column("broker_id", "int", "broker it belongs to, from the path, the option or its lines"),
    Column("format", "string", "layout or envelope, see above; null if it was not read"),
    Column("size_bytes", "bigint", "size of the file as it lies on disk"),
    Column("modified_ms", "bigint", "its modification time, ms since 1970"),
    Column("records", "bigint", "records in it"),
    Column("typed", "bigint", "records whose shape is known"),
    Column("lines", "bigint", "physical lines in it"),
    Column("read_bytes", "bigint", "bytes that became records, decompressed"),
    Column("first_ms", "bigint", "time of its first record"),
    Column("last_ms", "bigint", "time of its last record"),
    Column(
        "status",
        "string",
        "read, damaged (part of it was read), untyped (hardly a record of it is known), "
        "skipped (duplicate, binary, of another program, …)",
    ),
    Column("problem", "string", "what is wrong with it, one sentence; null if nothing is"),
)
"""The columns of ``sources``, in their order."""


_TYPES: Final = {str: "string", int: "bigint", float: "double", bool: "boolean"}


def columns_of(finding: type[tuple[Any, ...]]) -> tuple[Column, ...]:
    """The columns of a table of findings: one for each field of the named tuple."""
    hints = get_type_hints(finding).items()
    return tuple(Column(name, _type(hint), "") for name, hint in hints)


def _type(hint: Any) -> str:
    match get_args(hint):
        case (of, none) if none is NoneType:
            return _type(of)
        case (of, *_):
            return f"array<{_type(of)}>"
        case _:
            return _TYPES[hint]


def ddl(columns: tuple[Column, ...]) -> str:
    """The columns as a schema in Spark's DDL, which ``createDataFrame`` and readers accept."""
    return ", ".join(f"`{column.name}` {column.type}" for column in columns)
