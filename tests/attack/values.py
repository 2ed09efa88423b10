"""What stands in the fields of a request: values with which an API does its work, or random ones.

A request that is refused at its first field shows little.  These values let most APIs come to the
point, and change nothing that matters: topics are created by validation alone, and what is deleted
does not exist.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from kafka_common.protocol.record_batch import encode_batch
from kafka_common.protocol.records import Record

TOPIC: Final = "attacked"
"""Exists wherever these requests go."""

_BY_TYPE: Final[dict[str, Any]] = {
    "array": 1,
    "string": b"attack",
    "bytes": b"attack",
    "uuid": bytes(16),
    "bool": False,
    "float64": 1.0,
}
_TOPIC_NAMES: Final = ("topic", "topics.name", "topic_name", "topic_data.name")

_BY_FIELD: Final[dict[str, Any]] = {
    "acks": 1,
    "timeout": 100,
    "timeout_ms": 100,
    "max_wait": 50,
    "max_wait_ms": 50,
    "min_bytes": 0,
    "max_bytes": 1_048_576,
    "partition_max_bytes": 1_048_576,
    "replica_id": -1,
    "broker_id": 0,
    "controller_id": 0,
    "session_id": 0,
    "session_epoch": -1,
    "controller_epoch": 1,
    "broker_epoch": -1,
    "session_timeout": 6_000,
    "rebalance_timeout": 6_000,
    "generation_id": -1,
    "member_id": b"",
    "group_instance_id": None,
    "transactional_id": None,
    "producer_id": -1,
    "producer_epoch": -1,
    "validate_only": True,
    "replication_factor": 1,
    "num_partitions": 1,
    "partition_index": 0,
    "count": 2,
    "timestamp": -1,
    "max_num_offsets": 1,
    "leader_epoch": -1,
    "current_leader_epoch": -1,
    "client_software_name": b"attack",
    "client_software_version": b"1",
    "mechanism": b"SCRAM-SHA-256",
    "rack_id": b"",
    "protocol_type": b"consumer",
    "host": b"*",
    "principal": b"User:nobody",
    "resource_name": TOPIC.encode(),
    "topic": TOPIC.encode(),
    "topic_name": TOPIC.encode(),
    "iterations": 4096,
    "election_type": 0,
    "cluster_id": None,
    "last_fetched_epoch": -1,
    "error_message": None,
    "requested_controller_epoch": 1,
}

_BY_PATH: Final[dict[tuple[str, str], Any]] = {
    ("Metadata", "topics.name"): TOPIC.encode(),
    ("Metadata", "allow_auto_topic_creation"): False,
    ("Produce", "topic_data.name"): TOPIC.encode(),
    ("OffsetCommit", "topics.name"): TOPIC.encode(),
    ("TxnOffsetCommit", "topics.name"): TOPIC.encode(),
    ("OffsetFetch", "topics.name"): TOPIC.encode(),
    ("ListOffsets", "topics.name"): TOPIC.encode(),
    ("DescribeProducers", "topics.name"): TOPIC.encode(),
    ("AddPartitionsToTxn", "transactions.topics.name"): TOPIC.encode(),
    ("WriteTxnMarkers", "markers.topics.name"): TOPIC.encode(),
    ("DeleteTopics", "topics.name"): b"gone",
    ("DeleteTopics", "topic_names"): b"gone",
    ("CreateTopics", "topics.name"): b"new",
    ("CreateTopics", "topics.configs.name"): b"retention.ms",
    ("CreateTopics", "topics.configs.value"): b"1000",
    ("CreateTopics", "topics.assignments"): 0,
    ("CreatePartitions", "topics.name"): TOPIC.encode(),
    ("CreatePartitions", "topics.assignments"): None,
    ("FindCoordinator", "key_type"): 0,
    ("DescribeConfigs", "resources.resource_type"): 2,
    ("DescribeConfigs", "resources.configuration_keys"): None,
    ("AlterConfigs", "resources.resource_type"): 2,
    ("AlterConfigs", "resources.configs.name"): b"retention.ms",
    ("AlterConfigs", "resources.configs.value"): b"1000",
    ("IncrementalAlterConfigs", "resources.resource_type"): 2,
    ("IncrementalAlterConfigs", "resources.configs.name"): b"retention.ms",
    ("IncrementalAlterConfigs", "resources.configs.value"): b"1000",
    ("IncrementalAlterConfigs", "resources.configs.config_operation"): 0,
    ("CreateAcls", "creations.resource_type"): 2,
    ("CreateAcls", "creations.resource_pattern_type"): 3,
    ("CreateAcls", "creations.operation"): 3,
    ("CreateAcls", "creations.permission_type"): 3,
    ("DeleteAcls", "filters.resource_type_filter"): 2,
    ("DeleteAcls", "filters.pattern_type_filter"): 3,
    ("DeleteAcls", "filters.operation"): 3,
    ("DeleteAcls", "filters.permission_type"): 3,
    ("DescribeAcls", "resource_type_filter"): 2,
    ("DescribeAcls", "pattern_type_filter"): 3,
    ("DescribeAcls", "operation"): 2,
    ("DescribeAcls", "permission_type"): 1,
    ("JoinGroup", "protocols.name"): b"range",
    ("AlterClientQuotas", "entries.entity.entity_type"): b"user",
    ("AlterClientQuotas", "entries.ops.key"): b"producer_byte_rate",
    ("AlterClientQuotas", "entries.ops.value"): 1_000_000.0,
    ("DescribeClientQuotas", "components.entity_type"): b"user",
    ("AlterUserScramCredentials", "upsertions.mechanism"): 1,
    ("AlterUserScramCredentials", "deletions.mechanism"): 1,
    ("AlterReplicaLogDirs", "dirs.path"): b"no-such-folder",
    ("ElectLeaders", "topic_partitions.topic"): b"gone",
    ("ListTransactions", "state_filters"): b"Ongoing",
    ("StopReplica", "topic_states.topic_name"): b"gone",
    ("StopReplica", "ungrouped_partitions.topic_name"): b"gone",
    ("StopReplica", "topics.name"): b"gone",
    ("DeleteRecords", "topics.partitions.offset"): 0,
    ("DeleteRecords", "topics.name"): TOPIC.encode(),
    ("InitProducerId", "transactional_id"): b"attack",
    ("InitProducerId", "transaction_timeout"): 60_000,
    ("AddPartitionsToTxn", "v3_and_below_transactional_id"): b"attack",
    ("AddPartitionsToTxn", "transactional_id"): b"attack",
    ("AddOffsetsToTxn", "transactional_id"): b"attack",
    ("EndTxn", "transactional_id"): b"attack",
    ("TxnOffsetCommit", "transactional_id"): b"attack",
    ("ControlledShutdown", "broker_id"): 99,
    ("Fetch", "forgotten_topics_data"): 0,
    ("DescribeUserScramCredentials", "users.name"): b"nobody",
}

_EXTREMES: Final = {
    "int8": (0, 1, -1, 127, -128),
    "uint8": (0, 255),
    "int16": (0, 1, -1, 32_767, -32_768),
    "uint16": (0, 65_535),
    "error_code": (0, -1, 87, 32_767),
    "int32": (0, 1, -1, 2**31 - 1, -(2**31), 100_000),
    "uint32": (0, 2**32 - 1),
    "timedelta_i32": (0, 1, -1, 100),
    "int64": (0, 1, -1, 2**63 - 1, -(2**63), 2**53 + 1),
    "uint64": (0, 2**64 - 1),
    "timedelta_i64": (0, 1, -1, 2**63 - 1),
    "datetime_i64": (0, -1, -2, 2**63 - 1, -(2**63)),
    "float64": (0.0, -1.0, float("nan"), float("inf"), 1e308),
    "bool": (False, True),
    "array": (0, 1, 1, 1, None),
    "string": (
        b"",
        b"attack",
        TOPIC.encode(),
        b"*",
        b".",
        b"..",
        b"a b",
        b"\xff\xfe",
        b"\0",
        b"\xf0\x9f\x92\xa9",
        b"\xed\xa0\x80",
        b"__consumer_offsets",
        b"__cluster_metadata",
        b"%s%d{}",
        b"a\nERROR forged line",
        b"x" * 250,
        b"x" * 30_000,
        None,
    ),
    "bytes": (b"", b"\0" * 100, b"\xff" * 1000, None),
    "records": (b"", b"\0" * 61, b"\xff" * 100, None),
    "uuid": (bytes(16), bytes(15) + b"\1", b"\xff" * 16),
}
_CONTROLLER_EPOCHS: Final = ("controller_epoch", "controller_id", "broker_epoch")
"""A broker that has believed in a controller of the last epoch obeys no other: that is Kafka's own
way, and random values must not find out again each time."""


def records(count: int = 1) -> bytes:
    """A batch that is right."""
    return bytes(encode_batch([Record(n, 1_700_000_000_000, None, b"v") for n in range(count)]))


def useful(api: str, path: str, kafka_type: str) -> Any:
    """A value with which that API does its work."""
    if (api, path) in _BY_PATH:
        return _by_kind(_BY_PATH[api, path], kafka_type)
    name = path.rpartition(".")[2]
    if kafka_type == "array":
        return 1
    if name in _BY_FIELD:
        return _by_kind(_BY_FIELD[name], kafka_type)
    if kafka_type == "records":
        return records()
    return _BY_TYPE.get(kafka_type, 0)


def _by_kind(value: Any, kafka_type: str) -> Any:
    if kafka_type == "array":
        return value if value in (None, 0) else 1
    return value


class Extreme:
    """Values of which each may be the end of its range, or nonsense."""

    def __init__(self, random: Random, share: float = 0.3) -> None:
        """``share`` of the fields are so; all others are useful."""
        self._random = random
        self._share = share

    def __call__(self, api: str, path: str, kafka_type: str) -> Any:
        """The next value of that field."""
        name = path.rpartition(".")[2]
        is_left = name in _CONTROLLER_EPOCHS or name == "validate_only" or "timeout" in name
        if is_left or self._random.random() >= self._share:
            return useful(api, path, kafka_type)
        return self._random.choice(_EXTREMES[kafka_type])
