"""A cluster's znodes as Kafka 3.9.1 writes them, for clusters too big to be made by its tools."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from zkcontroller.zookeeper.requests import Create, UnfencedBatch, Written, ZkCode
from zkcontroller.zookeeper.session import ZooKeeperSession

PARENTS: Final = (
    "/consumers", "/brokers", "/brokers/ids", "/brokers/topics", "/config", "/config/changes",
    "/admin", "/admin/delete_topics", "/brokers/seqid", "/isr_change_notification",
    "/latest_producer_id_block", "/log_dir_event_notification", "/config/topics",
    "/config/clients", "/config/users", "/config/brokers", "/config/ips",
)  # fmt: skip
_BATCH: Final = 20_000


def broker_znode(host: str, port: int) -> bytes:
    """``/brokers/ids/<id>``, version 5, one PLAINTEXT listener."""
    return (
        '{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
        f'"endpoints":["PLAINTEXT://{host}:{port}"],"jmx_port":-1,"port":{port},"host":"{host}",'
        '"version":5,"timestamp":"1700000000000"}'
    ).encode()


def topic_znode(topic: str, assignment: Sequence[Sequence[int]]) -> bytes:
    """``/brokers/topics/<topic>``, version 3; the topic id is derived from the name."""
    identity = hashlib.blake2b(topic.encode(), digest_size=16).digest()
    # The leading byte keeps the id from beginning with "-", which Kafka never draws.
    topic_id = base64.urlsafe_b64encode(b"\x41" + identity[1:]).rstrip(b"=").decode()
    partitions = ",".join(
        f'"{partition}":[{",".join(map(str, replicas))}]'
        for partition, replicas in enumerate(assignment)
    )
    return (
        f'{{"partitions":{{{partitions}}},"topic_id":"{topic_id}",'
        '"adding_replicas":{},"removing_replicas":{},"version":3}'
    ).encode()


def state_znode(replicas: Sequence[int], controller_epoch: int) -> bytes:
    """``…/partitions/<p>/state``: led by the preferred leader, all in sync."""
    return (
        f'{{"controller_epoch":{controller_epoch},"leader":{replicas[0]},"version":1,'
        f'"leader_epoch":0,"isr":[{",".join(map(str, replicas))}]}}'
    ).encode()


def replicas_of(
    topic: int, partition: int, broker_ids: Sequence[int], replication_factor: int
) -> list[int]:
    """Round robin, shifted by topic so that every pair of brokers shares partitions."""
    count = len(broker_ids)
    first = topic + partition
    step = 1 + topic % max(count - replication_factor, 1)
    return [
        broker_ids[(first + (step + j - 1 if j else 0)) % count] for j in range(replication_factor)
    ]


def write_cluster(
    session: ZooKeeperSession,
    *,
    topics: int,
    partitions_per_topic: int,
    broker_ids: Sequence[int],
    replication_factor: int = 3,
) -> None:
    """Writes topics and partition states, level by level: a child needs its parent."""
    names = [f"topic-{topic:05d}" for topic in range(topics)]
    layout = {
        name: [
            replicas_of(topic, partition, broker_ids, replication_factor)
            for partition in range(partitions_per_topic)
        ]
        for topic, name in enumerate(names)
    }
    for parent in PARENTS:  # one at a time: the next may be its child
        _create(session, [Create(parent)])
    _create(
        session,
        (
            Create(f"/brokers/topics/{name}", topic_znode(name, assignment))
            for name, assignment in layout.items()
        ),
    )
    _create(session, (Create(f"/brokers/topics/{name}/partitions") for name in names))
    _create(
        session,
        (
            Create(f"/brokers/topics/{name}/partitions/{partition}")
            for name, assignment in layout.items()
            for partition in range(len(assignment))
        ),
    )
    _create(
        session,
        (
            Create(f"/brokers/topics/{name}/partitions/{partition}/state", state_znode(replicas, 1))
            for name, assignment in layout.items()
            for partition, replicas in enumerate(assignment)
        ),
    )


def _create(session: ZooKeeperSession, operations: Iterable[Create]) -> None:
    remaining: Iterator[Create] = iter(operations)
    while batch := list(islice(remaining, _BATCH)):
        for operation, result in zip(batch, session.perform(UnfencedBatch(batch)), strict=True):
            if not isinstance(result, Written) and result is not ZkCode.NODE_EXISTS:
                raise RuntimeError(f"cannot create {operation.path}: {result.name}")
