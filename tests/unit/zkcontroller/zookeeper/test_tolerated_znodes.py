"""Znodes that were written by hand: what Kafka's decoders read, ours read as well.

Source: Kafka 3.9 ``ZkData.scala``.  JSON that is cut short, or of another shape where a shape is
needed, is an error there, too, with the exceptions that docs/deviations.md names.
"""

from __future__ import annotations

from collections.abc import Callable

import orjson
import pytest

from kafka_common.acls import (
    AccessControlEntry,
    AclOperation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)
from kafka_common.errors import ZnodeCorrupt
from kafka_common.model import Endpoint, ReplicaAssignment, TopicPartition
from zkcontroller.zookeeper.delegation_token_znodes import DelegationTokenZnode
from zkcontroller.zookeeper.kafka_acl_znodes import AclChangeZnode, AclZnode
from zkcontroller.zookeeper.znodes import (
    BrokerIdZnode,
    ClusterIdZnode,
    ConfigChangeZnode,
    ConfigZnode,
    ConsumerOffsetZnode,
    ControllerEpochZnode,
    ControllerZnode,
    FeatureZnode,
    IsrChangeNotificationSequenceZnode,
    LogDirEventNotificationSequenceZnode,
    PartitionStateZnode,
    PreferredReplicaElectionZnode,
    ReassignPartitionsZnode,
    TopicZnode,
)

ORDERS_0 = TopicPartition("orders", 0)


def config(data: bytes) -> object:
    return dict(ConfigZnode.decode("/config/topics/orders", data).config)


def topic(data: bytes) -> object:
    found = TopicZnode.decode("orders", data)
    return found.topic_id, dict(found.partitions)


def state(data: bytes) -> object:
    return tuple(PartitionStateZnode.decode("/state", data))


def broker(data: bytes) -> object:
    found = BrokerIdZnode.decode(1, data).broker
    return found.endpoints, found.rack, dict(found.features)


def features(data: bytes) -> object:
    return dict(FeatureZnode.decode(data).features)


def change(data: bytes) -> object:
    return ConfigChangeZnode.decode("/config/changes/c", data).entity_path


def isr_change(data: bytes) -> object:
    return IsrChangeNotificationSequenceZnode.decode("/i", data).partitions


def log_dir_event(data: bytes) -> object:
    return LogDirEventNotificationSequenceZnode.decode("/l", data).broker_id


def reassignment(data: bytes) -> object:
    return dict(ReassignPartitionsZnode.decode(data).partitions)


def acls(data: bytes) -> object:
    return AclZnode.decode("/kafka-acl/Topic/orders", data).entries


def acl_change(data: bytes) -> object:
    return AclChangeZnode.decode("/kafka-acl-changes/acl_changes_1", data).pattern


def extended_acl_change(data: bytes) -> object:
    return AclChangeZnode.decode("/kafka-acl-extended-changes/acl_changes_1", data).pattern


def token(data: bytes) -> object:
    found = DelegationTokenZnode.decode("/delegation_token/tokens/t", data)
    return found.owner, found.requester, found.renewers, found.max_timestamp


def old_offset(data: bytes) -> object:
    return ConsumerOffsetZnode.decode("/consumers/g/offsets/t/0", data)


def rule(**changes: str) -> bytes:
    fields = {"principal": "User:a", "permissionType": "Allow", "operation": "Read", "host": "*"}
    return orjson.dumps({"version": 1, "acls": [fields | changes]})


RULE = AccessControlEntry("User:a", "*", AclOperation.READ, PermissionType.ALLOW)
TOKEN = (
    b'"renewers":[],"issueTimestamp":1,"maxTimestamp":-1,"expiryTimestamp":9223372036854775807,'
    b'"tokenId":"t"}'
)
HOST = (Endpoint("h", 9092, "PLAINTEXT", "PLAINTEXT"),)
AT_REST = {0: ReplicaAssignment((1, 2))}

READ: list[tuple[Callable[[bytes], object], bytes, object]] = [
    (config, b"", {}),
    (config, b"{}", {}),
    (config, b'{"version":1}', {}),
    (config, b'{"version":1,"config":null}', {}),
    (config, b'{"version":1,"config":[]}', {}),
    (config, b'{"version":7,"config":{"a":"1"},"more":[]}', {"a": "1"}),
    (config, b"[]", {}),
    (config, b"null", {}),
    (topic, b'{"partitions":{"0":[1,2]}}', (None, AT_REST)),
    (topic, b' {"version":9,"partitions":{"0":[1,2]},"adding_replicas":{}}\n', (None, AT_REST)),
    (topic, b'{"partitions":{}}', (None, {})),
    (state, b'{"leader":-1,"leader_epoch":3,"controller_epoch":4,"isr":[]}', (-1, 3, (), 4, 0)),
    (
        state,
        b'{"leader":1,"leader_epoch":3,"controller_epoch":4,"isr":[1],"leader_recovery_state":1}',
        (1, 3, (1,), 4, 1),
    ),
    (broker, b'{"version":1,"jmx_port":-1,"host":"h","port":9092}', (HOST, None, {})),
    (
        broker,
        b'{"version":2,"jmx_port":-1,"endpoints":["PLAINTEXT://h:9092"]}',
        (HOST, None, {}),
    ),
    (
        broker,
        b'{"version":99,"jmx_port":1,"endpoints":["PLAINTEXT://h:9092"],"rack":null,'
        b'"features":null,"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"}}',
        (HOST, None, {}),
    ),
    (lambda data: ControllerZnode.decode(data).broker_id, b'{"brokerid":3}', 3),
    (ControllerEpochZnode.decode, b"12", 12),
    (lambda data: ClusterIdZnode.decode(data).cluster_id, b'{"id":"x"}', "x"),
    (features, b'{"version":1,"status":1,"features":{}}', {}),
    (features, b'{"version":2,"status":0,"features":{"f":{"max_version_level":2}}}', {"f": 2}),
    (change, b'{"version":1,"entity_type":"topics","entity_name":"t"}', "topics/t"),
    (change, b'{"version":2,"entity_path":"users/a/clients/b"}', "users/a/clients/b"),
    (isr_change, b'{"partitions":[]}', ()),
    (isr_change, b'{"partitions":[{"topic":"orders","partition":0,"x":1}]}', (ORDERS_0,)),
    (log_dir_event, b'{"broker":2}', 2),
    (
        lambda data: PreferredReplicaElectionZnode.decode(data).partitions,
        b'{"partitions":[{"topic":"orders","partition":0}]}',
        (ORDERS_0,),
    ),
    (
        reassignment,
        b'{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[]}]}',
        {ORDERS_0: ()},
    ),
    (acls, b"", ()),
    (acls, b'{"version":1,"acls":[],"more":1}', ()),
    (acls, rule(more="x"), (RULE,)),
    (acls, rule(operation="rEAD", permissionType="ALLOW"), (RULE,)),
    (acls, rule(operation="Fly"), (RULE._replace(operation=AclOperation.UNKNOWN),)),
    (acls, rule(principal=":", host=""), (RULE._replace(principal=":", host=""),)),
    (acl_change, b"topic:a:b", ResourcePattern(ResourceType.TOPIC, "a:b")),
    (acl_change, b"Moon:a", ResourcePattern(ResourceType.UNKNOWN, "a")),
    (
        extended_acl_change,
        b'{"version":null,"resourceType":"topic","name":"a","patternType":"prefixed"}',
        ResourcePattern(ResourceType.TOPIC, "a", PatternType.PREFIXED),
    ),
    (
        extended_acl_change,
        b'{"resourceType":"GROUP","name":"","patternType":"LITERAL"}',
        ResourcePattern(ResourceType.GROUP, ""),
    ),
    (token, b'{"version":1,"owner":"User:a",' + TOKEN, ("User:a", "User:a", (), -1)),
    (
        token,
        b'{"version":2,"owner":"User:","tokenRequester":"User:b","more":{},' + TOKEN,
        ("User:", "User:", (), -1),
    ),
    (
        token,
        b'{"version":3,"owner":"%3Aa","tokenRequester":"User:b",' + TOKEN,
        (":a", "User:b", (), -1),
    ),
    (old_offset, b"-1", -1),
    (old_offset, b"007", 7),
]

CORRUPT: list[tuple[Callable[[bytes], object], bytes]] = [
    (config, b'{"config":{"a":1}}'),
    (config, b'{"config":{"a":null}}'),
    (config, b'{"config":{"a":[]}}'),
    (config, b'{"config":'),
    (config, b'{"config":\xff}'),
    (config, b"[" * 5000),
    (topic, b"{}"),
    (topic, b"not json"),
    (topic, b'{"partitions":null}'),
    (topic, b'{"partitions":{"0":"1,2"}}'),
    (state, b"{}"),
    (state, b'{"leader":1.0,"leader_epoch":3,"controller_epoch":4,"isr":[1]}'),
    (state, b'{"leader":1,"leader_epoch":3,"controller_epoch":4}'),
    (broker, b'{"version":0,"jmx_port":-1,"host":"h","port":9092}'),
    (broker, b'{"version":5,"jmx_port":-1}'),
    (ControllerZnode.decode, b"{}"),
    (ControllerEpochZnode.decode, b""),
    (ClusterIdZnode.decode, b"{}"),
    (features, b'{"version":3,"status":1,"features":{}}'),
    (features, b'{"version":2,"features":{}}'),
    (features, b'{"version":2,"status":1}'),
    (change, b'{"version":3,"entity_path":"topics/t"}'),
    (isr_change, b"{}"),
    (log_dir_event, b"{}"),
    (reassignment, b"[]"),
    (acls, b"{}"),
    (acls, b"not json"),
    (acls, b'{"version":2,"acls":[]}'),
    (acls, b'{"version":1,"acls":null}'),
    (acls, rule(principal="alice")),
    (acls, rule(operation="Any")),
    (acls, rule(permissionType="ANY")),
    (acl_change, b"orders"),
    (extended_acl_change, b"{}"),
    (
        extended_acl_change,
        b'{"version":2,"resourceType":"TOPIC","name":"a","patternType":"PREFIXED"}',
    ),
    (token, b"{}"),
    (token, b"not json"),
    (token, b'{"version":0,"owner":"User:a",' + TOKEN),
    (token, b'{"version":3,"owner":"User:a",' + TOKEN),
    (token, b'{"version":4,"owner":"User:a","tokenRequester":"User:b",' + TOKEN),
    (token, b'{"version":1,"owner":"alice",' + TOKEN),
    (old_offset, b""),
    (old_offset, b"{}"),
    (old_offset, b"9223372036854775808"),
]


@pytest.mark.parametrize(("decode", "data", "expected"), READ)
def test_what_kafka_reads_is_read(
    decode: Callable[[bytes], object], data: bytes, expected: object
) -> None:
    assert decode(data) == expected


@pytest.mark.parametrize(("decode", "data"), CORRUPT)
def test_what_neither_reads_or_what_would_lose_data_is_corrupt(
    decode: Callable[[bytes], object], data: bytes
) -> None:
    with pytest.raises(ZnodeCorrupt):
        decode(data)
