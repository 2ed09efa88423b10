"""What every broker says of the cluster, asked at once; and whether the controller works."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from kio.schema.describe_log_dirs.v2.request import DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v2.response import DescribeLogDirsResponse
from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest
from kio.schema.list_partition_reassignments.v0.response import ListPartitionReassignmentsResponse
from kio.schema.metadata.v12.response import MetadataResponse

from zkcontroller.net.client_security import ClientSecurity

from .doctor_reading import BrokerReading, CachedState, ClusterReading, LogDir
from .doctor_rules import Evidence
from .errors import ApiNotKnown, CommandFailed
from .partitions import PartitionView
from .registrations import Registration
from .wire import BrokerAddress, Deadline, ask_metadata, connected, timeout_of

BROKER_S: Final = 5.0
"""So long each broker may take to answer."""
PROBE_S: Final = 5.0
"""So long the controller may take to answer what only its event thread can."""


async def read_brokers(reading: ClusterReading, security: ClientSecurity) -> None:
    """Fill in what every registered broker says, and whether the controller answers."""
    probe = asyncio.create_task(_probe(reading, security))
    brokers = await asyncio.gather(
        *(_ask(each, security) for _, each in sorted(reading.registrations.items()))
    )
    for broker in brokers:
        broker.differing = _differing(reading, broker)
    reading.brokers = brokers
    reading.probe = await probe


async def _ask(registration: Registration, security: ClientSecurity) -> BrokerReading:
    reading = BrokerReading(registration.broker.broker_id)
    address = registration.address_by(security.protocol)
    if address is None:
        reading.error = f"it has no {security.protocol} listener"
        return reading
    try:
        deadline = Deadline(BROKER_S)
        async with connected([BrokerAddress(*address)], deadline, security) as connection:
            _take(reading, await ask_metadata(connection))
            with contextlib.suppress(ApiNotKnown):  # before Kafka 1.0
                described = await connection.request(DescribeLogDirsRequest(topics=None))
                assert isinstance(described, DescribeLogDirsResponse), "request() answers in kind"
                reading.log_dirs = _log_dirs(described)
    except CommandFailed as error:
        reading.error = str(error)
    return reading


def _take(reading: BrokerReading, answer: MetadataResponse) -> None:
    reading.cluster_id = answer.cluster_id
    reading.live_brokers = frozenset(int(broker.node_id) for broker in answer.brokers)
    reading.topic_ids = {
        str(topic.name): topic.topic_id
        for topic in answer.topics
        if topic.topic_id is not None and topic.error_code is ErrorCode.none
    }
    reading.partitions = {
        (str(topic.name), int(each.partition_index)): CachedState(
            int(each.leader_id), int(each.leader_epoch), tuple(map(int, each.isr_nodes))
        )
        for topic in answer.topics
        for each in topic.partitions
    }


def _log_dirs(answer: DescribeLogDirsResponse) -> list[LogDir]:
    return [
        LogDir(
            each.log_dir,
            None if each.error_code is ErrorCode.none else each.error_code.name.upper(),
            frozenset(
                (str(topic.name), int(partition.partition_index))
                for topic in each.topics
                for partition in topic.partitions
                if not partition.is_future_key
            ),
        )
        for each in answer.results
    ]


def _differing(
    reading: ClusterReading, broker: BrokerReading
) -> list[tuple[PartitionView, CachedState]]:
    """Partitions that the broker's cache has otherwise than ZooKeeper.

    A broker answers LEADER_NOT_AVAILABLE with leader -1 for a leader it knows to be dead, and one
    before Kafka 2.1 names no epoch: neither is a difference.
    """
    differing = []
    for view in reading.partitions:
        cached = broker.partitions.get((view.topic, view.partition))
        state = view.state
        if cached is None or state is None or view.topic in reading.deletions:
            continue
        leader = state.leader if view.leader_is_live else cached.leader
        epoch = cached.leader_epoch if cached.leader_epoch == -1 else state.leader_epoch
        if (cached.leader, cached.leader_epoch) != (leader, epoch) or set(cached.isr) != set(
            state.in_sync_replicas
        ):
            differing.append((view, cached))
    return differing


async def _probe(reading: ClusterReading, security: ClientSecurity) -> Evidence | None:
    """Ask the controller what only its event thread answers: which partitions are being moved.

    A broker that has resigned answers NOT_CONTROLLER, and one whose event thread hangs is silent,
    though both still answer Metadata.  Kafka has this request since 2.4; before it nothing is
    asked.
    """
    if reading.controller is None or reading.controller.broker_id not in reading.registrations:
        return None
    broker_id = reading.controller.broker_id
    address = reading.registrations[broker_id].address_by(security.protocol)
    if address is None:
        return None
    where = f"ListPartitionReassignments of broker {broker_id}"
    try:
        deadline = Deadline(PROBE_S)
        async with connected([BrokerAddress(*address)], deadline, security) as connection:
            answer = await connection.request(
                ListPartitionReassignmentsRequest(timeout=timeout_of(deadline), topics=())
            )
            assert isinstance(answer, ListPartitionReassignmentsResponse)
    except ApiNotKnown:
        return None
    except CommandFailed as error:
        return Evidence(where, str(error))
    if answer.error_code in (ErrorCode.not_controller, ErrorCode.request_timed_out):
        return Evidence(where, answer.error_code.name.upper())
    return None
