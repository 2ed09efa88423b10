"""Our state-change lines against those of a real Kafka 3.9.1."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import pytest

from tests.support.kafka_log_shapes import RECORD, shape_of
from tests.support.paths import DATA
from zkcontroller.state_changes import kafka_values
from zkcontroller.state_changes.kafka_lines import FIELDS, kafka_line, level_of
from zkcontroller.state_changes.record import Kind, Reason, StateChange

REAL_LINES = (DATA / "kafka-state-change-3.9.1.log").read_text().splitlines()
TOPIC_ID = UUID("3de57b87-b854-4605-abf9-5b0674da3cc1")
OTHER_TOPIC_ID = UUID("c60a1c2e-a7a3-4b0f-9a3b-1d3e7c0f5a11")

Fields = Mapping[str, str | None]


def numbers(text: str | None) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"-?\d+", text or ""))


def isr_of(f: Fields) -> tuple[int, ...]:
    if f.get("isrBrokers"):
        return tuple(int(each) for each in re.findall(r"brokerId=(\d+)", f["isrBrokers"] or ""))
    return numbers(f.get("isr"))


def recovery_of(f: Fields) -> int:
    return {"RECOVERED": 0, "RECOVERING": 1, "0": 0, "1": 1, None: 0}[f.get("recovery")]


def number(f: Fields, name: str) -> int | None:
    found = f.get(name)
    return None if found is None else int(found)


def topic_id_of(f: Fields) -> UUID | None:
    found = f.get("topicId")
    return None if found is None else UUID(bytes=base64.urlsafe_b64decode(found + "=="))


KINDS: dict[str, Callable[[str], Kind]] = {
    "partition-state": lambda _: Kind.PARTITION_STATE_CHANGED,
    "partition-new": lambda _: Kind.PARTITION_STATE_CHANGED,
    "partition-online": lambda _: Kind.PARTITION_STATE_CHANGED,
    "partition-failed": lambda _: Kind.PARTITION_STATE_FAILED,
    "partition-shrunk-offline": lambda _: Kind.REPLICA_REMOVED_FROM_ISR,
    "replica-state": lambda _: Kind.REPLICA_STATE_CHANGED,
    "send-lisr": lambda _: Kind.LEADER_AND_ISR_SENDING,
    "send-lisr-partition": lambda _: Kind.LEADER_AND_ISR_SENDING_PARTITION,
    "send-um": lambda _: Kind.UPDATE_METADATA_SENDING,
    "send-stop": lambda _: Kind.STOP_REPLICA_SENDING,
    "send-stop-partition": lambda _: Kind.STOP_REPLICA_SENDING_PARTITION,
    "recv-response": lambda _: Kind.RESPONSE_RECEIVED,
    "reassign-sent-lisr": lambda _: Kind.REASSIGNMENT_SENT,
    "lisr-handling": lambda _: Kind.LEADER_AND_ISR_HANDLING,
    "lisr-finished": lambda _: Kind.LEADER_AND_ISR_FINISHED,
    "lisr-received": lambda _: Kind.LEADER_AND_ISR_RECEIVED_PARTITION,
    "lisr-epoch-same": lambda _: Kind.LEADER_AND_ISR_IGNORED,
    "lisr-leader-step": lambda message: step_of(message),
    "lisr-follower-step": lambda message: step_of(message),
    "leader-starts": lambda _: Kind.LEADER_STARTED,
    "leader-recovered": lambda _: Kind.LEADER_RECOVERED,
    "follower-starts": lambda _: Kind.FOLLOWER_STARTED,
    "stopped-fetchers-leader": lambda _: Kind.FETCHERS_STOPPED,
    "stopped-fetchers-follower": lambda _: Kind.FETCHERS_STOPPED,
    "skipped-adding-fetcher": lambda _: Kind.FETCHER_SKIPPED,
    "stop-handling": lambda _: Kind.STOP_REPLICA_HANDLING,
    "stop-received": lambda _: Kind.STOP_REPLICA_RECEIVED_PARTITION,
    "um-applied": lambda _: Kind.METADATA_CACHED,
    "um-cached": lambda _: Kind.METADATA_CACHED_PARTITION,
    "um-deleted": lambda _: Kind.METADATA_DELETED_PARTITION,
    "follower-no-leader": lambda _: Kind.LEADER_UNAVAILABLE,
}


def step_of(message: str) -> Kind:
    return Kind.TRANSITION_STARTED if "] Handling " in message else Kind.TRANSITION_COMPLETED


def record_from(family: str, f: Fields, message: str) -> StateChange:
    """The record that a real line tells of, from the fields of its regular expression."""
    is_controller = message.startswith("[Controller ")
    role = re.search(r"become-(leader|follower)", message)
    response_api = {"LEADER_AND_ISR": "LeaderAndIsr", "STOP_REPLICA": "StopReplica"}
    counts: dict[str, tuple[str, str]] = {
        "send-lisr": ("leaders", "followers"),
        "send-stop": ("replicas", ""),
        "um-applied": ("added", "deleted"),
    }
    count, other_count = counts.get(family, ("partitions", ""))
    epoch = number(f, "epoch")
    return StateChange(
        KINDS[family](message),
        "controller" if is_controller else "broker",
        int(f["self"] or ""),
        controller_epoch=epoch,
        controller_id=number(f, "controller"),
        topic=f.get("topic"),
        partition=number(f, "partition"),
        replica=number(f, "replica"),
        from_state=f.get("from"),
        to_state=f.get("to"),
        leader=number(f, "leader"),
        leader_epoch=number(f, "leaderEpoch"),
        isr=isr_of(f),
        zk_version=number(f, "partitionEpoch"),
        leader_recovery_state=recovery_of(f),
        state_controller_epoch=number(f, "stateEpoch") or number(f, "lastEpoch"),
        replicas=numbers(f.get("replicas")),
        adding_replicas=numbers(f.get("adding")),
        removing_replicas=numbers(f.get("removing")),
        offline_replicas=numbers(f.get("offline")),
        is_new=f.get("isNew") == "true",
        topic_id=topic_id_of(f),
        peer=number(f, "broker"),
        peer_address=f"{f['host']}:{f['port']}" if f.get("host") else None,
        peer_rack=None if f.get("rack") == "null" else f.get("rack"),
        peers=numbers(f.get("brokers")),
        request=response_api.get(f.get("api") or "", "UpdateMetadata"),
        response=f.get("response"),
        correlation_id=number(f, "corr"),
        count=number(f, count),
        other_count=number(f, other_count) if other_count else None,
        delete_partition=None if f.get("delete") is None else f["delete"] == "true",
        offset=number(f, "offset"),
        high_watermark=number(f, "hw"),
        previous_leader=number(f, "prevLeader"),
        previous_leader_epoch=number(f, "prevEpoch"),
        elapsed_ms=number(f, "elapsedMs"),
        role=role[1] if role else None,
        reason=Reason.SAME_LEADER_EPOCH if family == "lisr-epoch-same" else None,
    )


@pytest.mark.parametrize("line", REAL_LINES)
def test_a_real_line_read_into_a_record_prints_as_it_was(line: str) -> None:
    real = RECORD.fullmatch(line)
    assert real is not None
    found = shape_of(real["message"])
    assert found is not None
    shape, match = found

    ours = kafka_line(record_from(shape.family, match.groupdict(), real["message"]))

    assert ours is not None
    assert ours.message == real["message"]
    assert ours.level == real["level"]


def test_the_real_lines_cover_every_kind_that_a_log_at_trace_shows() -> None:
    families = {
        found[0].family
        for line in REAL_LINES
        if (record := RECORD.fullmatch(line)) and (found := shape_of(record["message"]))
    }

    assert families == set(KINDS)


def full(kind: Kind, component: str = "broker", **fields: Any) -> StateChange:
    """A record with every field filled, changed by ``fields``."""
    everything: dict[str, Any] = {
        "controller_epoch": 4,
        "controller_id": 1,
        "topic": "orders",
        "partition": 3,
        "replica": 2,
        "from_state": "OfflinePartition",
        "to_state": "OnlinePartition",
        "leader": 2,
        "leader_epoch": 5,
        "isr": (2, 3),
        "zk_version": 7,
        "leader_recovery_state": 0,
        "state_controller_epoch": 3,
        "replicas": (1, 2, 3),
        "adding_replicas": (),
        "removing_replicas": (),
        "offline_replicas": (1,),
        "topic_id": TOPIC_ID,
        "peer": 2,
        "peers": (2, 3),
        "request": "LeaderAndIsr",
        "correlation_id": 17,
        "error": "STALE_BROKER_EPOCH",
        "count": 4,
        "other_count": 8,
        "delete_partition": True,
        "current_leader_epoch": 6,
        "latest_controller_epoch": 9,
        "high_watermark": 42,
        "partitions": ("orders-3", "audit-0"),
        "response": "LeaderAndIsrResponseData(errorCode=77, partitionErrors=[], topics=[])",
        "requested_topic_id": OTHER_TOPIC_ID,
        "current_partition_epoch": 8,
        "cause": "org.apache.kafka.common.errors.KafkaStorageException: disk gone",
        "previous_leader_epoch": 4,
        "offset": 11,
    }
    return StateChange(kind, component, 2, **(everything | fields))


LINES_NOT_IN_THE_SAMPLE = [
    ("replica-failed", full(Kind.REPLICA_STATE_FAILED, "controller")),
    ("send-stop-split", full(Kind.STOP_REPLICA_SENDING, "controller")),
    ("recv-lisr-error", full(Kind.RESPONSE_ERROR, "controller")),
    ("recv-um-error", full(Kind.RESPONSE_ERROR, "controller", request="UpdateMetadata")),
    ("recv-lisr-error", full(Kind.RESPONSE_ERROR, "controller", response=None)),
    ("ctl-mark-offline-replicas", full(Kind.REPLICAS_MARKED_OFFLINE, "controller")),
    ("reassign-send-failed", full(Kind.REASSIGNMENT_SEND_FAILED, "controller")),
    (
        "lisr-stale-controller",
        full(Kind.LEADER_AND_ISR_IGNORED, reason=Reason.STALE_CONTROLLER_EPOCH),
    ),
    ("lisr-epoch-older", full(Kind.LEADER_AND_ISR_IGNORED, reason=Reason.STALE_LEADER_EPOCH)),
    ("lisr-not-assigned", full(Kind.LEADER_AND_ISR_IGNORED, reason=Reason.NOT_ASSIGNED)),
    ("lisr-offline-dir", full(Kind.LEADER_AND_ISR_IGNORED, reason=Reason.OFFLINE_LOG_DIRECTORY)),
    ("lisr-error", full(Kind.LEADER_AND_ISR_FAILED, role="leader")),
    ("lisr-error", full(Kind.LEADER_AND_ISR_FAILED, role="follower")),
    ("leader-starts", full(Kind.LEADER_STARTED, under_min_isr=True, previous_leader=1)),
    ("leader-starts", full(Kind.LEADER_STARTED, topic_id=None)),
    (
        "skipped-leader-state",
        full(Kind.TRANSITION_SKIPPED, role="leader", reason=Reason.ALREADY_LEADER),
    ),
    (
        "skipped-leader-state",
        full(Kind.TRANSITION_SKIPPED, role="leader", reason=Reason.STALE_PARTITION_EPOCH),
    ),
    (
        "skipped-follower-state",
        full(Kind.TRANSITION_SKIPPED, role="follower", reason=Reason.ALREADY_FOLLOWER),
    ),
    (
        "skipped-follower-state",
        full(Kind.TRANSITION_SKIPPED, role="follower", reason=Reason.STALE_PARTITION_EPOCH),
    ),
    (
        "leader-disk-error",
        full(Kind.TRANSITION_SKIPPED, role="follower", reason=Reason.STORAGE_ERROR),
    ),
    (
        "stop-stale-controller",
        full(Kind.STOP_REPLICA_IGNORED, reason=Reason.STALE_CONTROLLER_EPOCH),
    ),
    ("stop-refused", full(Kind.STOP_REPLICA_IGNORED, reason=Reason.STALE_LEADER_EPOCH)),
    ("stop-refused", full(Kind.STOP_REPLICA_IGNORED, reason=Reason.OFFLINE_LOG_DIRECTORY)),
    ("stop-refused", full(Kind.STOP_REPLICA_IGNORED, reason=Reason.UNEXPECTED_ERROR)),
    ("um-stale-controller", full(Kind.UPDATE_METADATA_IGNORED)),
    ("topic-id-assigned", full(Kind.TOPIC_ID_ASSIGNED)),
    ("topic-id-mismatch", full(Kind.TOPIC_ID_INCONSISTENT)),
]


@pytest.mark.parametrize(("family", "record"), LINES_NOT_IN_THE_SAMPLE)
def test_a_line_that_the_sample_lacks_has_the_shape_of_kafkas_source(
    family: str, record: StateChange
) -> None:
    line = kafka_line(record)

    assert line is not None
    found = shape_of(line.message)
    assert found is not None, line.message
    assert found[0].family == family
    assert line.level in found[0].levels


def test_every_kind_is_either_tried_above_or_only_exported() -> None:
    tried = {kind for line in REAL_LINES if (kind := _kind_of(line))}
    tried |= {record.kind for _, record in LINES_NOT_IN_THE_SAMPLE}
    only_exported = set(Kind) - tried

    assert only_exported == {Kind.CONTROLLER_ELECTED, Kind.CONTROLLER_RESIGNED}
    assert all(kafka_line(full(kind)) is None for kind in only_exported)
    assert set(FIELDS) == set(Kind)


def _kind_of(line: str) -> Kind | None:
    record = RECORD.fullmatch(line)
    assert record is not None
    found = shape_of(record["message"])
    return KINDS[found[0].family](record["message"]) if found else None


@pytest.mark.parametrize("kind", FIELDS)
def test_the_fields_named_for_a_kind_exist(kind: Kind) -> None:
    assert set(FIELDS[kind]) <= set(StateChange._fields)


def test_an_exception_stands_below_a_failed_transition_only() -> None:
    failed = kafka_line(full(Kind.PARTITION_STATE_FAILED, "controller"))
    skipped = kafka_line(full(Kind.TRANSITION_SKIPPED, role="leader", reason=Reason.STORAGE_ERROR))

    assert failed is not None
    assert failed.cause == "org.apache.kafka.common.errors.KafkaStorageException: disk gone"
    assert skipped is not None
    assert skipped.cause is None
    assert skipped.message.endswith("KafkaStorageException: disk gone")


def test_going_offline_is_trace_and_coming_online_is_info() -> None:
    assert level_of(full(Kind.PARTITION_STATE_CHANGED, to_state="OfflinePartition")) == "TRACE"
    assert level_of(full(Kind.PARTITION_STATE_CHANGED, to_state="NonExistentPartition")) == "TRACE"
    assert level_of(full(Kind.PARTITION_STATE_CHANGED, to_state="OnlinePartition")) == "INFO"


def test_a_leader_and_isr_response_prints_topic_ids_where_it_has_them() -> None:
    by_id = kafka_values.leader_and_isr_response(0, [(TOPIC_ID, 7, 0), (TOPIC_ID, 8, 56)])
    by_name = kafka_values.leader_and_isr_response(11, [("orders", 7, 11)])

    assert by_id == (
        "LeaderAndIsrResponseData(errorCode=0, partitionErrors=[], topics=[LeaderAndIsrTopicError("
        "topicId=PeV7h7hURgWr-VsGdNo8wQ, partitionErrors=[LeaderAndIsrPartitionError(topicName='', "
        "partitionIndex=7, errorCode=0), LeaderAndIsrPartitionError(topicName='', "
        "partitionIndex=8, errorCode=56)])])"
    )
    assert by_name == (
        "LeaderAndIsrResponseData(errorCode=11, partitionErrors=[LeaderAndIsrPartitionError("
        "topicName='orders', partitionIndex=7, errorCode=11)], topics=[])"
    )
