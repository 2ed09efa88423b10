"""Znodes that ZooKeeper holds and no one of ours has written: each is read, or refused as corrupt.

Any other exception would end a failover in the midst of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from kafka_common.errors import ZnodeCorrupt
from zkcontroller.zookeeper.kafka_acl_znodes import AclChangeZnode, AclZnode
from zkcontroller.zookeeper.znodes import (
    BrokerIdZnode,
    ClusterIdZnode,
    ConfigChangeZnode,
    ConfigZnode,
    ControllerEpochZnode,
    ControllerZnode,
    FeatureZnode,
    IsrChangeNotificationSequenceZnode,
    LogDirEventNotificationSequenceZnode,
    PartitionStateZnode,
    PreferredReplicaElectionZnode,
    ProducerIdBlockZnode,
    ReassignPartitionsZnode,
    TopicZnode,
)

PATH: Final = "/hostile"
DEEP: Final = 1_000
_MARK: Final = "@@here@@"

CODECS: Final[dict[str, tuple[Callable[[bytes], object], Any]]] = {
    "topic": (
        lambda data: TopicZnode.decode(PATH, data),
        {
            "version": 3,
            "topic_id": "AAECAwQFBgcICQoLDA0ODw",
            "partitions": {"0": [1, 2], "1": [2, 1]},
            "adding_replicas": {"0": [3]},
            "removing_replicas": {},
        },
    ),
    "state": (
        lambda data: PartitionStateZnode.decode(PATH, data),
        {"controller_epoch": 1, "leader": 1, "version": 1, "leader_epoch": 0, "isr": [1, 2]},
    ),
    "broker": (
        lambda data: BrokerIdZnode.decode(1, data),
        {
            "features": {"f": {"min_version": 1, "max_version": 2}},
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            "endpoints": ["PLAINTEXT://127.0.0.1:9092"],
            "jmx_port": -1,
            "port": 9092,
            "host": "localhost",
            "version": 5,
            "timestamp": "1234567890",
            "rack": "r",
        },
    ),
    "controller": (
        lambda data: ControllerZnode.decode(data),
        {"version": 2, "brokerid": 1, "timestamp": "123", "kraftControllerEpoch": -1},
    ),
    "controller epoch": (lambda data: ControllerEpochZnode.decode(data), 5),
    "config": (
        lambda data: ConfigZnode.decode(PATH, data),
        {"version": 1, "config": {"retention.ms": "1"}},
    ),
    "config change": (
        lambda data: ConfigChangeZnode.decode(PATH, data),
        {"version": 2, "entity_path": "topics/x"},
    ),
    "reassignment": (
        lambda data: ReassignPartitionsZnode.decode(data),
        {"version": 1, "partitions": [{"topic": "a", "partition": 0, "replicas": [1, 2]}]},
    ),
    "election": (
        lambda data: PreferredReplicaElectionZnode.decode(data),
        {"version": 1, "partitions": [{"topic": "a", "partition": 0}]},
    ),
    "isr change": (
        lambda data: IsrChangeNotificationSequenceZnode.decode(PATH, data),
        {"version": 1, "partitions": [{"topic": "a", "partition": 0}]},
    ),
    "log dir event": (
        lambda data: LogDirEventNotificationSequenceZnode.decode(PATH, data),
        {"version": 1, "broker": 1, "event": 1},
    ),
    "feature": (
        lambda data: FeatureZnode.decode(data),
        {"version": 2, "features": {"f": {"max_version_level": 1}}, "status": 1},
    ),
    "producer ids": (
        lambda data: ProducerIdBlockZnode.decode(data),
        {"version": 1, "broker": 1, "block_start": "0", "block_end": "999"},
    ),
    "cluster id": (
        lambda data: ClusterIdZnode.decode(data),
        {"version": "1", "id": "AAECAwQFBgcICQoLDA0ODw"},
    ),
    "acl": (
        lambda data: AclZnode.decode(PATH, data),
        {
            "version": 1,
            "acls": [
                {
                    "principal": "User:a",
                    "permissionType": "Allow",
                    "operation": "Read",
                    "host": "*",
                }
            ],
        },
    ),
    "acl change": (
        lambda data: AclChangeZnode.decode(PATH, data),
        {"version": 1, "resourceType": "Topic", "name": "x", "patternType": "PREFIXED"},
    ),
}

HOSTILE: Final = (
    *("null", "true", "-1", "0", "1e400", "1e308", "-0", "1.5", "NaN", "9" * 400),
    *("2147483648", "-2147483649", "9223372036854775808", "18446744073709551616"),
    *('"x"', '""', f'"{"y" * 100_000}"', '"\\ud800"', '"\\u0000"', '"../../x"', '"1_000"', '" 1"'),
    *('"99999999999999999999"', '"\u0663"', '"PLAINTEXT://[::1"', '["PLAINTEXT://h:99999999"]'),
    *("[]", "{}", "[null]", "[[1]]", "[1,1]", "[-1]", '{"":""}', '{"0":null}', '{"-1":[1]}'),
    *('{"2147483648":[1]}', '{"0":[2147483648]}', '{"0":[1],"0":[2]}', '{"\u0663":[1]}'),
    *("[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP, "[" * 100_000),
)


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each value within a value, itself included."""
    yield way
    if isinstance(value, dict | list):
        children = value.items() if isinstance(value, dict) else enumerate(value)
        for key, child in children:
            yield from places(child, (*way, key))


def with_hostile(value: Any, way: tuple[Any, ...], hostile: str) -> bytes:
    """The JSON of a value with ``hostile`` at one place."""
    changed: Any = [json.loads(json.dumps(value))]
    at: Any = changed
    full_way = (0, *way)
    for key in full_way[:-1]:
        at = at[key]
    at[full_way[-1]] = _MARK
    return json.dumps(changed[0]).replace(f'"{_MARK}"', hostile).encode()


@pytest.mark.parametrize("name", CODECS)
def test_a_znode_is_read_or_refused_as_corrupt_whatever_it_holds(name: str) -> None:
    decode, healthy = CODECS[name]
    decode(json.dumps(healthy).encode())

    refusals = []
    for way in places(healthy):
        for hostile in HOSTILE:
            try:
                decode(with_hostile(healthy, way, hostile))
            except ZnodeCorrupt as corrupt:
                refusals.append(str(corrupt))

    assert refusals
    assert max(map(len, refusals)) < 1_000
