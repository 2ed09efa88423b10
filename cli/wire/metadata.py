"""What brokers say of the cluster and of their replicas: Metadata, DescribeLogDirs, leader epochs.

OffsetForLeaderEpoch is used here only for its error code.  A broker whose replica has another
leader epoch answers FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH, a follower
NOT_LEADER_OR_FOLLOWER, and the leader no error.

Source: Kafka ``Partition.checkCurrentLeaderEpoch``, ``ReplicaManager.getLogEndOffsetLag``; KIP-320.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.offset_for_leader_epoch.v4 import request as offset_for_leader_epoch
from kio.schema.offset_for_leader_epoch.v4.response import OffsetForLeaderEpochResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from zkcontroller_cli.wire.log_dirs import described_log_dirs
from zkcontroller_cli.wire.metadata_responses import CachedState, MetadataBroker, ReportedMetadata
from zkcontroller_cli.wire.requests import ask_metadata
from zkcontroller_cli.wire.versions import BrokerConnection

PARTITIONS_A_REQUEST: Final = 10_000
"""The most partitions in one OffsetForLeaderEpoch request."""
_CLIENT: Final = -1


@lru_cache(maxsize=65_536)
def _i32(number: int) -> i32:
    """The number as kio's type; cached, as its check took a third of a large request's time."""
    return i32(number)


class LackingTopics(NamedTuple):
    """The topics that a Metadata response for all topics lacked, after a request by their names."""

    unknown: tuple[str, ...]
    refused: tuple[str, ...]
    """Topics with another error, as ``CODE for TOPIC``."""


class AskedEpoch(NamedTuple):
    """A partition, and the leader epoch that a broker's replica should have."""

    topic: str
    partition: int
    leader_epoch: int


@dataclass
class HeldReplicas:
    """A broker's logs as DescribeLogDirs shows them."""

    current: dict[tuple[str, int], tuple[str, int]] = field(default_factory=dict)
    """By partition, log directory and offset lag; a lag of -1: the broker does not use the log."""
    future: dict[tuple[str, int], str] = field(default_factory=dict)
    """By partition, the log directory to which its replica is being moved."""
    failed_dirs: dict[str, str] = field(default_factory=dict)
    """By log directory that failed, the error code's name."""
    is_shown: bool = True
    """False if the broker names no directory, as the client is not authorized."""


def answer_of(response: MetadataResponse) -> ReportedMetadata:
    """The response in a tenth of its memory: equal lists of broker ids share one tuple."""
    lists: dict[tuple[int, ...], tuple[int, ...]] = {}

    def one(ids: Sequence[int]) -> tuple[int, ...]:
        those = tuple(map(int, ids))
        return lists.setdefault(those, those)

    return ReportedMetadata(
        response.cluster_id,
        int(response.controller_id),
        {
            int(broker.node_id): MetadataBroker(broker.host, int(broker.port), broker.rack)
            for broker in response.brokers
        },
        {
            str(topic.name): topic.topic_id
            for topic in response.topics
            if topic.topic_id is not None and topic.error_code is ErrorCode.none
        },
        {
            (str(topic.name), int(each.partition_index)): CachedState(
                int(each.leader_id),
                int(each.leader_epoch),
                one(each.isr_nodes),
                one(each.replica_nodes),
                each.error_code is ErrorCode.listener_not_found,
            )
            for topic in response.topics
            for each in topic.partitions
        },
    )


async def lacking_topics(connection: BrokerConnection, topics: Sequence[str]) -> LackingTopics:
    """Ask by name for topics missing in a response: unknown to the broker, or not authorized."""
    response = await ask_metadata(connection, topics)
    unknown, refused = [], []
    for topic in response.topics:
        if topic.error_code is ErrorCode.unknown_topic_or_partition:
            unknown.append(str(topic.name))
        elif topic.error_code is not ErrorCode.none:
            refused.append(f"{topic.error_code.name.upper()} for {topic.name}")
    return LackingTopics(tuple(unknown), tuple(refused))


async def held_replicas(connection: BrokerConnection) -> HeldReplicas:
    """Every log of the broker, from DescribeLogDirs."""
    results = await described_log_dirs(connection)
    held = HeldReplicas(is_shown=bool(results))  # version 2 has no code for the whole response
    for result in results:
        if result.error_code is not ErrorCode.none:
            held.failed_dirs[result.log_dir] = result.error_code.name.upper()
        for topic in result.topics:
            for each in topic.partitions:
                key = (str(topic.name), int(each.partition_index))
                if each.is_future_key:
                    held.future[key] = result.log_dir
                else:
                    held.current[key] = (result.log_dir, int(each.offset_lag))
    return held


async def epoch_errors(
    connection: BrokerConnection, questions: Sequence[AskedEpoch]
) -> dict[tuple[str, int], ErrorCode]:
    """The error code for each partition; ``none`` if the broker leads it at that leader epoch."""
    found: dict[tuple[str, int], ErrorCode] = {}
    for start in range(0, len(questions), PARTITIONS_A_REQUEST):
        topics: defaultdict[str, list[offset_for_leader_epoch.OffsetForLeaderPartition]] = (
            defaultdict(list)
        )
        for topic, partition, epoch in questions[start : start + PARTITIONS_A_REQUEST]:
            topics[topic].append(
                offset_for_leader_epoch.OffsetForLeaderPartition(
                    partition=_i32(partition),
                    current_leader_epoch=_i32(epoch),
                    leader_epoch=_i32(epoch),
                )
            )
        response = await connection.request(
            offset_for_leader_epoch.OffsetForLeaderEpochRequest(
                replica_id=BrokerId(_CLIENT),
                topics=tuple(
                    offset_for_leader_epoch.OffsetForLeaderTopic(
                        topic=TopicName(name), partitions=tuple(those)
                    )
                    for name, those in topics.items()
                ),
            )
        )
        assert isinstance(response, OffsetForLeaderEpochResponse), "request() answers in kind"
        for topic_result in response.topics:
            for each in topic_result.partitions:
                found[str(topic_result.topic), int(each.partition)] = each.error_code
    return found
