"""Requests that a Kafka 3.9.1 controller sent, read and written again.

``data/frames-3.9.1.jsonl``: one line per step or per frame (without its size, header first).
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

import pytest

from kafka_common.model import Broker, Endpoint, LeaderAndIsr
from kafka_common.protocol import bulk
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.framing import parse_request_header
from kafka_common.protocol.messages import read_request, write
from tests.support.control_entries import leader_and_isr_entry, update_metadata_entry
from tests.support.frames import request_header

_PROTOCOL_NAMES: Final = {number: name for name, number in bulk.SECURITY_PROTOCOL_IDS.items()}


class Recorded(NamedTuple):
    api: str
    version: int
    frame: bytes


def _recorded() -> list[Recorded]:
    path = Path(__file__).parent / "data" / "frames-3.9.1.jsonl"
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [
        Recorded(line["api"], line["version"], bytes.fromhex(line["frame_hex"]))
        for line in lines
        if "frame_hex" in line
    ]


RECORDED: Final = _recorded()


def test_all_three_requests_were_recorded() -> None:
    assert Counter((recorded.api, recorded.version) for recorded in RECORDED) == {
        ("LeaderAndIsr", 7): 21,
        ("UpdateMetadata", 8): 40,
        ("StopReplica", 4): 6,
    }


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda r: f"{r.api}-{len(r.frame)}")
def test_a_recorded_request_is_read_and_written_again(recorded: Recorded) -> None:
    header, offset = parse_request_header(recorded.frame)
    request: Any = read_request(header.api_key, header.api_version, recorded.frame, offset)
    head = recorded.frame[:offset]
    body = recorded.frame[offset:]

    assert ApiKey(header.api_key).name.replace("_", "") == recorded.api.upper()
    assert header.api_version == recorded.version
    assert header.client_id == "1"  # the controller's broker id
    assert request_header(*header) == head
    assert write(request) == body
    assert b"".join(_in_bulk(header.api_key, header.api_version, request)) == body


def _in_bulk(api_key: int, version: int, request: Any) -> tuple[bytes, ...]:
    head = {
        "controller_id": request.controller_id,
        "controller_epoch": request.controller_epoch,
        "broker_epoch": request.broker_epoch,
    }
    if api_key == ApiKey.LEADER_AND_ISR:
        return bulk.leader_and_isr_body(
            version,
            **head,
            topics=[
                (topic.topic_name, topic.topic_id, _leader_and_isr_entries(version, topic))
                for topic in request.topic_states
            ],
            live_leaders=[(e.broker_id, e.host_name, e.port) for e in request.live_leaders],
            request_type=request.type_,
        )
    if api_key == ApiKey.UPDATE_METADATA:
        topics: list[tuple[str, UUID | None, list[bytes]]] = [
            (topic.topic_name, topic.topic_id, _update_metadata_entries(version, topic))
            for topic in request.topic_states
        ]
        brokers = [_broker(broker) for broker in request.live_brokers]
        return bulk.update_metadata_body(
            version,
            **head,
            topics=bulk.update_metadata_topics(version, topics),
            live_brokers=bulk.update_metadata_live_brokers(version, brokers),
        )
    return bulk.stop_replica_body(
        version,
        **head,
        topics=[
            (
                topic.topic_name,
                [
                    (p.partition_index, p.leader_epoch, p.delete_partition)
                    for p in topic.partition_states
                ],
            )
            for topic in request.topic_states
        ],
    )


def _leader_and_isr_entries(version: int, topic: Any) -> list[bytes]:
    return [
        leader_and_isr_entry(
            version,
            topic.topic_name,
            p.partition_index,
            LeaderAndIsr(
                p.leader,
                p.leader_epoch,
                p.isr,
                p.partition_epoch,
                p.controller_epoch,
                p.leader_recovery_state,
            ),
            p.replicas,
            p.adding_replicas,
            p.removing_replicas,
            p.is_new,
        )
        for p in topic.partition_states
    ]


def _update_metadata_entries(version: int, topic: Any) -> list[bytes]:
    return [
        update_metadata_entry(
            version,
            topic.topic_name,
            p.partition_index,
            LeaderAndIsr(p.leader, p.leader_epoch, p.isr, p.zk_version, p.controller_epoch),
            p.replicas,
            p.offline_replicas,
        )
        for p in topic.partition_states
    ]


def _broker(broker: Any) -> Broker:
    endpoints = tuple(
        Endpoint(e.host, e.port, e.listener, _PROTOCOL_NAMES[e.security_protocol])
        for e in broker.endpoints
    )
    return Broker(broker.id_, endpoints, broker.rack)
