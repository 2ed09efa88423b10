"""The bulk writers against kio, byte for byte, in every version."""

from __future__ import annotations

import sys
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.static.protocol import RequestPayload

from kafka_common.errors import UnsupportedVersion
from kafka_common.model import Broker, Endpoint, LeaderAndIsr
from kafka_common.protocol import bulk
from kafka_common.protocol.messages import read, request_type, write
from tests.support.control_entries import leader_and_isr_entry, update_metadata_entry
from tests.wire.bulk_columns import (
    BROKERS,
    HEADS,
    IDS,
    INT32,
    NAMES,
    STATES,
    UPDATE_METADATA_TOPICS,
    topics_of,
)

LEADER_AND_ISR_TOPICS = topics_of(st.tuples(INT32, STATES, IDS, IDS, IDS, st.booleans()))
STOP_REPLICA_TOPICS = st.lists(
    st.tuples(NAMES, st.lists(st.tuples(INT32, INT32, st.booleans()), max_size=4)), max_size=4
)


def test_the_ranges_are_those_of_kafka() -> None:
    for api_key, versions in (
        (4, bulk.LEADER_AND_ISR_VERSIONS),
        (5, bulk.STOP_REPLICA_VERSIONS),
        (6, bulk.UPDATE_METADATA_VERSIONS),
    ):
        assert all(request_type(api_key, version) for version in versions)
        with pytest.raises(UnsupportedVersion):
            request_type(api_key, versions.stop)


@settings(max_examples=40, deadline=None)
@given(
    version=st.sampled_from(bulk.LEADER_AND_ISR_VERSIONS),
    head=HEADS,
    topics=LEADER_AND_ISR_TOPICS,
    leaders=st.lists(st.tuples(INT32, NAMES, INT32), max_size=3),
    request_type_code=st.integers(0, 2),
)
def test_leader_and_isr_is_what_kio_writes(
    version: int,
    head: tuple[int, int, int],
    topics: list[Any],
    leaders: list[tuple[int, str, int]],
    request_type_code: int,
) -> None:
    ours = bulk.leader_and_isr_body(
        version,
        controller_id=head[0],
        controller_epoch=head[1],
        broker_epoch=head[2],
        topics=[
            (name, topic_id, [leader_and_isr_entry(version, name, *p) for p in partitions])
            for name, topic_id, partitions in topics
        ],
        live_leaders=leaders,
        request_type=request_type_code,
    )

    assert b"".join(ours) == write(
        _leader_and_isr(version, head, topics, leaders, request_type_code)
    )


@settings(max_examples=40, deadline=None)
@given(
    version=st.sampled_from(bulk.UPDATE_METADATA_VERSIONS),
    head=HEADS,
    topics=UPDATE_METADATA_TOPICS,
    brokers=st.lists(BROKERS, max_size=3),
)
def test_update_metadata_is_what_kio_writes(
    version: int, head: tuple[int, int, int], topics: list[Any], brokers: list[Broker]
) -> None:
    entries = [
        (name, topic_id, [update_metadata_entry(version, name, *p) for p in partitions])
        for name, topic_id, partitions in topics
    ]

    ours = bulk.update_metadata_body(
        version,
        controller_id=head[0],
        controller_epoch=head[1],
        broker_epoch=head[2],
        topics=bulk.update_metadata_topics(version, entries),
        live_brokers=bulk.update_metadata_live_brokers(version, brokers),
    )

    assert b"".join(ours) == write(_update_metadata(version, head, topics, brokers))


@settings(max_examples=40, deadline=None)
@given(
    version=st.sampled_from(bulk.STOP_REPLICA_VERSIONS),
    head=HEADS,
    topics=STOP_REPLICA_TOPICS,
    deletes=st.booleans(),
)
def test_stop_replica_is_what_kio_writes(
    version: int, head: tuple[int, int, int], topics: list[Any], deletes: bool
) -> None:
    ours = bulk.stop_replica_body(
        version,
        controller_id=head[0],
        controller_epoch=head[1],
        broker_epoch=head[2],
        topics=topics,
        delete_partitions=deletes,
    )

    assert b"".join(ours) == write(_stop_replica(version, head, topics, deletes))


def test_every_version_is_compared_and_not_only_those_a_run_happens_to_draw() -> None:
    state = LeaderAndIsr(1, 2, (1, 3), 4, 5, 1)
    topic_id = UUID(int=7)
    head = (1, 2, 3)
    brokers = [Broker(1, (Endpoint("h", 9, "PLAINTEXT", "PLAINTEXT"),), "r")]

    for version in bulk.LEADER_AND_ISR_VERSIONS:
        partitions: list[Any] = [(0, state, (1, 2, 3), (3,), (2,), True)]
        entry = leader_and_isr_entry(version, "t", *partitions[0])
        ours = bulk.leader_and_isr_body(
            version,
            controller_id=1,
            controller_epoch=2,
            broker_epoch=3,
            topics=[("t", topic_id, [entry])],
            live_leaders=[(1, "h", 9)],
        )
        theirs = _leader_and_isr(version, head, [("t", topic_id, partitions)], [(1, "h", 9)], 0)
        assert b"".join(ours) == write(theirs)
        assert read(type(theirs), b"".join(ours)) == theirs
    for version in bulk.UPDATE_METADATA_VERSIONS:
        partitions = [(0, state, (1, 2, 3), (3,))]
        entry = update_metadata_entry(version, "t", *partitions[0])
        ours = bulk.update_metadata_body(
            version,
            controller_id=1,
            controller_epoch=2,
            broker_epoch=3,
            topics=bulk.update_metadata_topics(version, [("t", topic_id, [entry])]),
            live_brokers=bulk.update_metadata_live_brokers(version, brokers),
        )
        theirs = _update_metadata(version, head, [("t", topic_id, partitions)], brokers)
        assert b"".join(ours) == write(theirs)
        assert read(type(theirs), b"".join(ours)) == theirs
    for version in bulk.STOP_REPLICA_VERSIONS:
        topics = [("t", [(0, 5, True), (1, -2, False)])]
        ours = bulk.stop_replica_body(
            version, controller_id=1, controller_epoch=2, broker_epoch=3, topics=topics
        )
        theirs = _stop_replica(version, head, topics, False)
        assert b"".join(ours) == write(theirs)
        assert read(type(theirs), b"".join(ours)) == theirs


def test_version_0_of_update_metadata_needs_the_listener_called_plaintext() -> None:
    broker = Broker(7, (Endpoint("h", 1, "INSIDE", "PLAINTEXT"),))

    with pytest.raises(UnsupportedVersion, match="broker 7"):
        bulk.update_metadata_live_brokers(0, [broker])


def _make(api_key: int, version: int, name: str, fields: dict[str, Any]) -> Any:
    """A kio object of that version from all the fields any version has."""
    module = sys.modules[request_type(api_key, version).__module__]
    schema = getattr(module, name)
    return schema(**{k: v for k, v in fields.items() if k in schema.__dataclass_fields__})


def _leader_and_isr(
    version: int,
    head: tuple[int, int, int],
    topics: list[Any],
    leaders: list[tuple[int, str, int]],
    request_type_code: int,
) -> RequestPayload:
    grouped = [
        (
            name,
            topic_id,
            tuple(
                _make(
                    4,
                    version,
                    "LeaderAndIsrPartitionState",
                    {
                        "topic_name": name,
                        "partition_index": partition,
                        "controller_epoch": state.controller_epoch,
                        "leader": state.leader,
                        "leader_epoch": state.leader_epoch,
                        "isr": state.in_sync_replicas,
                        "partition_epoch": state.zk_version,
                        "replicas": replicas,
                        "adding_replicas": adding,
                        "removing_replicas": removing,
                        "is_new": is_new,
                        "leader_recovery_state": state.leader_recovery_state,
                    },
                )
                for partition, state, replicas, adding, removing, is_new in partitions
            ),
        )
        for name, topic_id, partitions in topics
    ]
    return _request(
        4,
        version,
        head,
        "LeaderAndIsrTopicState",
        grouped,
        type_=request_type_code,
        live_leaders=tuple(
            _make(
                4,
                version,
                "LeaderAndIsrLiveLeader",
                {"broker_id": broker_id, "host_name": host, "port": port},
            )
            for broker_id, host, port in leaders
        ),
    )


def _update_metadata(
    version: int, head: tuple[int, int, int], topics: list[Any], brokers: list[Broker]
) -> RequestPayload:
    grouped = [
        (
            name,
            topic_id,
            tuple(
                _make(
                    6,
                    version,
                    "UpdateMetadataPartitionState",
                    {
                        "topic_name": name,
                        "partition_index": partition,
                        "controller_epoch": state.controller_epoch,
                        "leader": state.leader,
                        "leader_epoch": state.leader_epoch,
                        "isr": state.in_sync_replicas,
                        "zk_version": state.zk_version,
                        "replicas": replicas,
                        "offline_replicas": offline,
                    },
                )
                for partition, state, replicas, offline in partitions
            ),
        )
        for name, topic_id, partitions in topics
    ]
    live_brokers = tuple(_live_broker(version, broker) for broker in brokers)
    return _request(
        6, version, head, "UpdateMetadataTopicState", grouped, live_brokers=live_brokers
    )


def _live_broker(version: int, broker: Broker) -> Any:
    plaintext = broker.endpoints[0]
    endpoints = tuple(
        _make(
            6,
            version,
            "UpdateMetadataEndpoint",
            {
                "port": endpoint.port,
                "host": endpoint.host,
                "listener": endpoint.listener_name,
                "security_protocol": bulk.SECURITY_PROTOCOL_IDS[endpoint.security_protocol],
            },
        )
        for endpoint in broker.endpoints
        if version >= 1
    )
    return _make(
        6,
        version,
        "UpdateMetadataBroker",
        {
            "id_": broker.broker_id,
            "v0_host": plaintext.host,
            "v0_port": plaintext.port,
            "endpoints": endpoints,
            "rack": broker.rack,
        },
    )


def _stop_replica(
    version: int, head: tuple[int, int, int], topics: list[Any], deletes: bool
) -> RequestPayload:
    flat = tuple(
        _make(
            5, version, "StopReplicaPartitionV0", {"topic_name": name, "partition_index": partition}
        )
        for name, partitions in topics
        for partition, _, _ in partitions
        if version == 0
    )
    indexed = tuple(
        _make(
            5,
            version,
            "StopReplicaTopicV1",
            {"name": name, "partition_indexes": tuple(p for p, _, _ in partitions)},
        )
        for name, partitions in topics
        if version in (1, 2)
    )
    grouped = [
        (
            name,
            None,
            tuple(
                _make(
                    5,
                    version,
                    "StopReplicaPartitionState",
                    {
                        "partition_index": partition,
                        "leader_epoch": leader_epoch,
                        "delete_partition": is_deleted,
                    },
                )
                for partition, leader_epoch, is_deleted in partitions
            ),
        )
        for name, partitions in topics
        if version >= 3
    ]
    return _request(
        5,
        version,
        head,
        "StopReplicaTopicState",
        grouped,
        delete_partitions=deletes,
        ungrouped_partitions=flat,
        topics=indexed,
    )


def _request(
    api_key: int,
    version: int,
    head: tuple[int, int, int],
    topic_class: str,
    grouped: list[Any],
    **more: object,
) -> RequestPayload:
    schema = request_type(api_key, version)
    has_topic_states = "topic_states" in schema.__dataclass_fields__
    topic_states = tuple(
        _make(
            api_key,
            version,
            topic_class,
            {"topic_name": name, "topic_id": topic_id, "partition_states": states},
        )
        for name, topic_id, states in grouped
        if has_topic_states
    )
    request: RequestPayload = _make(
        api_key,
        version,
        schema.__name__,
        {
            "controller_id": head[0],
            "controller_epoch": head[1],
            "broker_epoch": head[2],
            "topic_states": topic_states,
            "ungrouped_partition_states": tuple(
                state for _, _, states in grouped for state in states
            ),
            **more,
        },
    )
    return request
