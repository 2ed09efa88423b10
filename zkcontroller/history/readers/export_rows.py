"""From ``state-changes.jsonl`` to rows of the schema: the same rows that the text log gives.

A record names its kind; the shape is the line that Kafka, and our own ``state-change.log``, has for
it.  Where the text says less than the record (``Handling LeaderAndIsr request`` names no epoch) the
row has what the record has.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its name everywhere)

from zkcontroller.history.event_schema import EVENT_COLUMNS
from zkcontroller.history.readers.log_rows import TEXT_CAPACITY
from zkcontroller.history.readers.records import URI
from zkcontroller.history.shapes.catalogue import shapes
from zkcontroller.state_changes.record import Kind

_CONSTANT: Final = {
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
    Kind.TOPIC_ID_INCONSISTENT: "topic-id-mismatch",
    Kind.LEADER_UNAVAILABLE: "follower-no-leader",
}
_DEPENDING: Final = {
    Kind.PARTITION_STATE_CHANGED: (
        "CASE to_state WHEN 'NewPartition' THEN 'partition-new' "
        "WHEN 'OnlinePartition' THEN 'partition-online' ELSE 'partition-state' END"
    ),
    Kind.RESPONSE_ERROR: (
        "CASE request WHEN 'UpdateMetadata' THEN 'recv-um-error' ELSE 'recv-lisr-error' END"
    ),
    Kind.LEADER_AND_ISR_IGNORED: (
        "CASE reason WHEN 'same_leader_epoch' THEN 'lisr-epoch-same' "
        "WHEN 'stale_leader_epoch' THEN 'lisr-epoch-older' "
        "WHEN 'stale_controller_epoch' THEN 'lisr-stale-controller' "
        "WHEN 'not_assigned' THEN 'lisr-not-assigned' "
        "WHEN 'offline_log_directory' THEN 'lisr-offline-dir' ELSE 'lisr-error' END"
    ),
    Kind.STOP_REPLICA_IGNORED: (
        "CASE reason WHEN 'stale_controller_epoch' THEN 'stop-stale-controller' "
        "ELSE 'stop-refused' END"
    ),
    Kind.TRANSITION_STARTED: "concat('lisr-', role, '-step')",
    Kind.TRANSITION_COMPLETED: "concat('lisr-', role, '-step')",
    Kind.TRANSITION_SKIPPED: (
        "CASE WHEN reason = 'storage_error' THEN 'leader-disk-error' "
        "ELSE concat('skipped-', role, '-state') END"
    ),
    Kind.FETCHERS_STOPPED: "concat('stopped-fetchers-', role)",
}

_FIELDS: Final = (
    "kind string, component string, broker_id int, controller_epoch int, controller_id int, "
    "topic string, partition int, replica int, from_state string, to_state string, leader int, "
    "leader_epoch int, isr array<int>, zk_version int, leader_recovery_state int, "
    "state_controller_epoch int, replicas array<int>, adding_replicas array<int>, "
    "removing_replicas array<int>, offline_replicas array<int>, is_new boolean, topic_id string, "
    "peer int, peers array<int>, request string, correlation_id int, error string, count int, "
    "other_count int, delete_partition boolean, current_leader_epoch int, "
    "latest_controller_epoch int, offset bigint, high_watermark bigint, previous_leader int, "
    "previous_leader_epoch int, elapsed_ms bigint, role string, reason string, cause string, "
    "partitions array<string>, response string, time_ms bigint"
)


def export_rows(spark: SparkSession, files: list[str]) -> DataFrame:
    """One row per line of the files; a line that is no record of ours stays, without a shape."""
    lines = spark.read.text(files).select(
        F.expr(URI).alias("uri"),
        F.col("_metadata.file_block_start").alias("block"),
        F.monotonically_increasing_id().alias("line_id"),
        F.lit(1).alias("lines"),
        (F.octet_length("value") + 1).alias("size_bytes"),
        F.lit(None).cast("string").alias("stream"),
        F.col("value"),
        F.expr(f"from_json(value, '{_FIELDS}')").alias("record"),
    )
    kept = ("uri", "block", "line_id", "lines", "size_bytes", "stream", "value")
    flat = lines.select(*kept, "record.*").withColumn("shape", F.expr(_shape()))
    known = spark.createDataFrame(
        [(s.id, s.kind, s.story, s.levels[0], dict(s.sets)) for s in shapes()],
        "shape string, family string, story string, level string, sets map<string,string>",
    )
    joined = flat.join(F.broadcast(known), "shape", "left")
    derived = {
        "kind": "family",
        "level": _LEVEL,
        "logger": "CASE WHEN shape IS NOT NULL THEN 'state.change.logger' END",
        "request": "coalesce(request, sets['request'])",
        "role": "coalesce(role, sets['role'])",
        "error_code": (
            r"try_cast(nullif(regexp_extract(response, 'errorCode=(-?\\d+)', 1), '') AS int)"
        ),
        "exception_class": r"nullif(regexp_extract(cause, '^[\\w$]+(?:\\.[\\w$]+)+', 0), '')",
        "exception_message": (
            r"nullif(regexp_replace(substring_index(cause, '\n', 1), '^[\\w$.]+(?:: )?', ''), '')"
        ),
        "values": _VALUES,
        "text": f"left(value, {TEXT_CAPACITY})",
    }
    given = set(joined.columns)
    return joined.select(
        "uri", "block", "line_id", "stream",
        *(
            F.expr(derived.get(c.name, f"`{c.name}`" if c.name in given else "NULL"))
            .cast(c.type).alias(c.name)
            for c in EVENT_COLUMNS
            if c.name not in ("cluster", "file", "line")
        ),
    )  # fmt: skip


def _shape() -> str:
    branches = {**{kind: f"'{shape}'" for kind, shape in _CONSTANT.items()}, **_DEPENDING}
    return "CASE kind " + " ".join(f"WHEN '{k}' THEN {s}" for k, s in branches.items()) + " END"


# One shape of three levels, by reason; all others have the first one of their list.
_LEVEL: Final = (
    "CASE WHEN shape IN ('partition-new', 'partition-online', 'reassign-sent-lisr', "
    "'lisr-epoch-same') THEN 'INFO' ELSE level END"
)
_VALUES: Final = (
    "CASE WHEN kind = 'transition_started' THEN map('phase', 'Handling') "
    "WHEN kind = 'transition_completed' THEN map('phase', 'Completed') "
    "WHEN kind = 'replicas_marked_offline' THEN map('partitions', array_join(partitions, ',')) "
    "WHEN response IS NOT NULL THEN map('response', response) END"
)
