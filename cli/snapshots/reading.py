"""A snapshot from ZooKeeper: every znode that describes the cluster, read in bulk, with its stat.

Data and stat are read by two requests.  If a znode changed between them, both are read again, so
that the stat of each record belongs to its data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import orjson

from kafka_common.acls import PatternType, pascal_name
from kafka_common.errors import ZnodeCorrupt, ZooKeeperRefused
from kafka_common.json_values import JsonObject, JsonValue
from kafka_common.sanitizer import desanitize
from replica_manager.configuration.config import DYNAMIC_BROKER_KEYS, is_password
from replica_manager.configuration.dynamic_keys import base_name
from zkcontroller.zookeeper.delegation_token_znodes import DelegationTokenZnode
from zkcontroller.zookeeper.kafka_acl_znodes import AclZnode
from zkcontroller.zookeeper.requests import Stat
from zkcontroller.zookeeper.results import optional
from zkcontroller.zookeeper.znodes import (
    BrokerIdsZnode,
    BrokerIdZnode,
    ClusterIdZnode,
    ConfigZnode,
    ControllerEpochZnode,
    ControllerZnode,
    DeleteTopicsZnode,
    DeleteTopicZnode,
    FeatureZnode,
    PartitionStateZnode,
    PreferredReplicaElectionZnode,
    ProducerIdBlockZnode,
    ReassignPartitionsZnode,
    TopicsZnode,
    TopicZnode,
)
from zkcontroller_cli.diagnosis.reading import MIGRATION_PATH
from zkcontroller_cli.snapshots.file import (
    HIDDEN,
    SavedHeader,
    SavedMetadata,
    SnapshotRecord,
    Stamp,
)
from zkcontroller_cli.znodes.session import ZooKeeper, now_ms
from zkcontroller_cli.znodes.topics import topic_id_text

_MOST_READS: Final = 4
"""The most times that a znode is read that changes while it is read; then it is left out."""
_SCRAM: Final = "SCRAM-"
_ITERATIONS: Final = re.compile(r"(?:^|,)iterations=([0-9]{1,9})(?:,|$)")

_Value = Callable[[str, bytes], JsonObject]


class StatedZnode(NamedTuple):
    """A znode's data and the stat that belongs to it."""

    data: bytes
    stamp: Stamp


def read_snapshot(zookeeper: ZooKeeper) -> SavedMetadata:
    """Read all metadata from ZooKeeper.  Raises what the session raises.

    ``not_known`` names the kinds that ZooKeeper refuses to show.  That is no error, as with
    ``zookeeper.set.acl`` only brokers may read some znodes.
    """
    began_ms = now_ms()
    records: list[SnapshotRecord] = []
    not_known: dict[str, str] = {}
    for kinds, part in _PARTS:
        try:
            records += part(zookeeper)
        except ZooKeeperRefused as refused:
            not_known.update(dict.fromkeys(kinds, str(refused)))
    cluster_id = next((r.value.get("cluster_id") for r in records if r.kind == "cluster"), None)
    header = SavedHeader(str(cluster_id) if cluster_id else None, began_ms, "ZooKeeper")
    return SavedMetadata(header, records, not_known)


def read_stated(zookeeper: ZooKeeper, paths: Sequence[str]) -> dict[str, StatedZnode]:
    """By path, the data of each znode that exists, with the stat that belongs to that data."""
    found: dict[str, StatedZnode] = {}
    left = list(paths)
    for _ in range(_MOST_READS):
        if not left:
            break
        znodes, stats = zookeeper.read(left), zookeeper.stats(left)
        again = []
        for path, data_answer, stat_answer in zip(left, znodes, stats, strict=True):
            znode, stat = optional(path, data_answer), optional(path, stat_answer)
            if znode is None and stat is None:
                continue
            if (
                znode is None
                or stat is None
                or not _is_same_version(znode.czxid, znode.zk_version, stat)
            ):
                again.append(path)
                continue
            found[path] = StatedZnode(
                znode.data,
                Stamp(path, stat.zk_version, stat.czxid, stat.mzxid, stat.ctime_ms, stat.mtime_ms),
            )
        left = again
    return found


def _is_same_version(czxid: int, zk_version: int, stat: Stat) -> bool:
    return (czxid, zk_version) == (stat.czxid, stat.zk_version)


def _records(
    zookeeper: ZooKeeper, kind: str, named: Iterable[tuple[str, str]], value: _Value
) -> Iterator[SnapshotRecord]:
    """One record for each (name, path) whose znode exists; a corrupt one has ``is_corrupt``."""
    paths = dict(named)
    found = read_stated(zookeeper, list(paths.values()))
    for name, path in paths.items():
        if (znode := found.get(path)) is not None:
            yield _record(kind, name, znode, value)


def _record(kind: str, name: str, znode: StatedZnode, value: _Value) -> SnapshotRecord:
    try:
        content = value(name, znode.data)
    except ZnodeCorrupt as error:
        content = _corrupt(error)
    return SnapshotRecord(kind, name, content, znode.stamp)


def _corrupt(error: ZnodeCorrupt) -> JsonObject:
    return {"is_corrupt": True, "reason": str(error)}


def _children(zookeeper: ZooKeeper, path: str) -> list[str]:
    return optional(path, zookeeper.children([path])[0]) or []


# The cluster.


def _single(kind: str, path: str, value: _Value) -> Callable[[ZooKeeper], Iterator[SnapshotRecord]]:
    """A function that reads the one znode of a kind as a record of the same name."""
    return lambda zookeeper: _records(zookeeper, kind, [(kind, path)], value)


def _controller(_name: str, data: bytes) -> JsonObject:
    found = ControllerZnode.decode(data)
    return {
        "controller_id": found.broker_id,
        "elected_at_ms": found.timestamp_ms,
        "kraft_controller_epoch": found.kraft_controller_epoch,
    }


def _feature(_name: str, data: bytes) -> JsonObject:
    found = FeatureZnode.decode(data)
    features: JsonObject = dict(found.features)
    return {"status": found.status.name.lower(), "version": found.version, "features": features}


def _migration(_name: str, data: bytes) -> JsonObject:
    try:
        content = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise ZnodeCorrupt(MIGRATION_PATH, f"not JSON: {error}") from error
    return content if type(content) is dict else {"content": content}


def _producer_ids(_name: str, data: bytes) -> JsonObject:
    if not data:
        return {}
    found = ProducerIdBlockZnode.decode(data)
    return {
        "broker_id": found.broker_id,
        "first_producer_id": found.first_producer_id,
        "last_producer_id": found.last_producer_id,
    }


def _brokers(zookeeper: ZooKeeper) -> Iterator[SnapshotRecord]:
    names = [name for name in _children(zookeeper, BrokerIdsZnode.PATH) if name.isdecimal()]
    ids = sorted(map(int, names))
    named = [(str(broker_id), BrokerIdZnode.path(broker_id)) for broker_id in ids]
    return _records(zookeeper, "broker", named, _broker)


def _broker(name: str, data: bytes) -> JsonObject:
    found = BrokerIdZnode.decode(int(name), data)
    return {
        "endpoints": {
            each.listener_name: f"{each.security_protocol}://{each.address}"
            for each in found.broker.endpoints
        },
        "rack": found.broker.rack,
        "features": {name: list(levels) for name, levels in found.broker.features.items()},
        "registered_at_ms": found.timestamp_ms,
        "jmx_port": found.jmx_port,
        "version": found.version,
    }


# Topics.


def _topics(zookeeper: ZooKeeper) -> Iterator[SnapshotRecord]:
    names = sorted(_children(zookeeper, TopicsZnode.PATH))
    paths = [TopicZnode.path(name) for name in names]
    found = read_stated(zookeeper, paths)
    partitions: list[tuple[str, int]] = []
    for name, path in zip(names, paths, strict=True):
        if (znode := found.get(path)) is None:
            continue
        record = _record("topic", name, znode, _topic)
        assigned = record.value.get("partitions")
        if isinstance(assigned, dict):
            partitions += [(name, int(number)) for number in assigned]
        yield record
    named = [(f"{topic}-{n}", PartitionStateZnode.path(topic, n)) for topic, n in partitions]
    yield from _records(zookeeper, "partition", named, _partition)


def _topic(name: str, data: bytes) -> JsonObject:
    found = TopicZnode.decode(name, data)
    partitions: JsonObject = {}
    for number, assignment in sorted(found.partitions.items()):
        partition: JsonObject = {"replicas": list(assignment.replicas)}
        if assignment.is_being_reassigned:
            partition["adding_replicas"] = list(assignment.adding_replicas)
            partition["removing_replicas"] = list(assignment.removing_replicas)
        partitions[str(number)] = partition
    return {"topic_id": topic_id_text(found.topic_id), "partitions": partitions}


def _partition(name: str, data: bytes) -> JsonObject:
    topic, _, number = name.rpartition("-")
    found = PartitionStateZnode.decode(PartitionStateZnode.path(topic, int(number)), data)
    return {
        "leader": found.leader,
        "leader_epoch": found.leader_epoch,
        "isr": list(found.in_sync_replicas),
        "controller_epoch": found.controller_epoch,
        "leader_recovery_state": found.leader_recovery_state,
    }


def _reassignments(zookeeper: ZooKeeper) -> Iterator[SnapshotRecord]:
    path = ReassignPartitionsZnode.PATH
    znode = read_stated(zookeeper, [path]).get(path)
    if znode is None:
        return
    try:
        orders = ReassignPartitionsZnode.decode(znode.data).partitions
    except ZnodeCorrupt as error:
        yield SnapshotRecord("reassignment", path, _corrupt(error), znode.stamp)
        return
    for tp, replicas in sorted(orders.items()):
        yield SnapshotRecord("reassignment", str(tp), {"replicas": list(replicas)}, znode.stamp)


def _elections(zookeeper: ZooKeeper) -> Iterator[SnapshotRecord]:
    path = PreferredReplicaElectionZnode.PATH
    znode = read_stated(zookeeper, [path]).get(path)
    if znode is None:
        return
    try:
        partitions = PreferredReplicaElectionZnode.decode(znode.data).partitions
    except ZnodeCorrupt as error:
        yield SnapshotRecord("preferred_election", path, _corrupt(error), znode.stamp)
        return
    for tp in sorted(partitions):
        yield SnapshotRecord("preferred_election", str(tp), {}, znode.stamp)


def _deletions(zookeeper: ZooKeeper) -> Iterator[SnapshotRecord]:
    names = sorted(_children(zookeeper, DeleteTopicsZnode.PATH))
    named = [(name, DeleteTopicZnode.path(name)) for name in names]
    return _records(zookeeper, "deletion", named, lambda *_: {})


# Configurations.


def _topic_configs(zookeeper: ZooKeeper) -> Iterator[SnapshotRecord]:
    names = sorted(_children(zookeeper, ConfigZnode.type_path("topics")))
    named = [(name, ConfigZnode.topic_path(name)) for name in names]
    return _records(
        zookeeper,
        "topic_config",
        named,
        lambda name, data: dict(ConfigZnode.decode(ConfigZnode.topic_path(name), data).config),
    )


def _broker_configs(zookeeper: ZooKeeper) -> Iterator[SnapshotRecord]:
    root = ConfigZnode.type_path("brokers")
    names = sorted(_children(zookeeper, root), key=lambda name: (len(name), name))
    return _records(
        zookeeper,
        "broker_config",
        [(name, f"{root}/{name}") for name in names],
        lambda name, data: {
            key: HIDDEN if is_hidden(key) else value
            for key, value in ConfigZnode.decode(f"{root}/{name}", data).config.items()
        },
    )


def is_hidden(key: str) -> bool:
    """Whether a broker's key may hold a secret: a password, or a key that is not Kafka's own."""
    is_known = key in DYNAMIC_BROKER_KEYS or base_name(key) in DYNAMIC_BROKER_KEYS
    return is_password(key) or not is_known


def _users_and_quotas(zookeeper: ZooKeeper) -> Iterator[SnapshotRecord]:
    """Quotas and SCRAM users, from ``/config/users``, ``/config/clients`` and ``/config/ips``."""
    users, clients = ConfigZnode.type_path("users"), ConfigZnode.type_path("clients")
    ips = ConfigZnode.type_path("ips")
    entities: dict[str, tuple[tuple[str, str], ...]] = {}
    names = sorted(_children(zookeeper, users))
    parents = [f"{users}/{name}/clients" for name in names]
    for name, parent, result in zip(names, parents, zookeeper.children(parents), strict=True):
        entities[f"{users}/{name}"] = (("user", name),)
        for client in sorted(optional(parent, result) or []):
            entities[f"{parent}/{client}"] = (("user", name), ("client-id", client))
    entities |= {
        f"{clients}/{name}": (("client-id", name),)
        for name in sorted(_children(zookeeper, clients))
    }
    entities |= {f"{ips}/{name}": (("ip", name),) for name in sorted(_children(zookeeper, ips))}
    found = read_stated(zookeeper, list(entities))
    for path, znode in found.items():
        yield from _of_entity(path, entities[path], znode)


def _of_entity(
    path: str, entity: Sequence[tuple[str, str]], znode: StatedZnode
) -> Iterator[SnapshotRecord]:
    name = entity_name(entity)
    try:
        config = ConfigZnode.decode(path, znode.data).config
    except ZnodeCorrupt:
        # A corrupt znode may hold a secret, so the record does not quote its content.
        yield SnapshotRecord("quota", name, {"is_corrupt": True}, znode.stamp)
        return
    quotas: JsonObject = {k: quota_of(v) for k, v in config.items() if not k.startswith(_SCRAM)}
    if quotas:
        yield SnapshotRecord("quota", name, quotas, znode.stamp)
    scram: JsonObject = {
        key: {"iterations": int(match[1]) if (match := _ITERATIONS.search(value)) else None}
        for key, value in config.items()
        if key.startswith(_SCRAM)
    }
    if scram:
        yield SnapshotRecord("scram_user", desanitize(entity[0][1]), scram, znode.stamp)


def entity_name(entity: Iterable[tuple[str, str]]) -> str:
    """An entity as text, such as ``user=alice,client-id=app``, with names as znodes have them."""
    return ",".join(f"{kind}={name}" for kind, name in entity)


def quota_of(text: str) -> JsonValue:
    """A quota as a number, so that ``1024`` and ``1024.0`` are equal; another text unchanged."""
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number.is_integer() else number


# Security.


def _acls(zookeeper: ZooKeeper) -> Iterator[SnapshotRecord]:
    for pattern_type in (PatternType.LITERAL, PatternType.PREFIXED):
        root = AclZnode.root(pattern_type)
        types = sorted(_children(zookeeper, root))
        parents = [f"{root}/{name}" for name in types]
        results = zookeeper.children(parents)
        places = {
            f"{parent}/{name}": (type_name, name)
            for type_name, parent, result in zip(types, parents, results, strict=True)
            for name in sorted(optional(parent, result) or [])
        }
        for path, znode in read_stated(zookeeper, list(places)).items():
            resource = (*places[path], pascal_name(pattern_type))
            try:
                entries = AclZnode.decode(path, znode.data).entries
            except ZnodeCorrupt as error:
                yield SnapshotRecord("acl", path, _corrupt(error), znode.stamp)
                continue
            rules = [
                (
                    each.principal,
                    each.host,
                    pascal_name(each.operation),
                    pascal_name(each.permission_type),
                )
                for each in entries
            ]
            for rule in sorted(rules):
                yield acl_record(resource, rule, znode.stamp)


def acl_record(
    resource: tuple[str, str, str], rule: tuple[str, str, str, str], stamp: Stamp | None
) -> SnapshotRecord:
    """The record of one ACL.

    ``resource``: type, name and pattern type; ``rule``: principal, host, operation and permission.
    """
    resource_type, resource_name, pattern_type = resource
    principal, host, operation, permission = rule
    name = (
        f"{resource_type} {pattern_type} {resource_name}: "
        f"{permission} {principal} {operation} from {host}"
    )
    value: JsonObject = {
        "resource_type": resource_type,
        "resource_name": resource_name,
        "pattern_type": pattern_type,
        "principal": principal,
        "host": host,
        "operation": operation,
        "permission": permission,
    }
    return SnapshotRecord("acl", name, value, stamp)


def _tokens(zookeeper: ZooKeeper) -> Iterator[SnapshotRecord]:
    """Delegation tokens; their znodes hold no HMAC, which brokers compute from the token id."""
    ids = sorted(_children(zookeeper, DelegationTokenZnode.ROOT))
    named = [(token_id, DelegationTokenZnode.path(token_id)) for token_id in ids]
    return _records(zookeeper, "delegation_token", named, _token)


def _token(name: str, data: bytes) -> JsonObject:
    found = DelegationTokenZnode.decode(DelegationTokenZnode.path(name), data)
    return {
        "owner": found.owner,
        "requester": found.requester,
        "renewers": list(found.renewers),
        "issued_at_ms": found.issue_timestamp,
        "expires_at_ms": found.expiry_timestamp,
        "max_at_ms": found.max_timestamp,
    }


_Part = Callable[[ZooKeeper], Iterable[SnapshotRecord]]

_PARTS: Final[tuple[tuple[tuple[str, ...], _Part], ...]] = (
    (
        ("cluster",),
        _single(
            "cluster",
            ClusterIdZnode.PATH,
            lambda _, data: {"cluster_id": ClusterIdZnode.decode(data).cluster_id},
        ),
    ),
    (("controller",), _single("controller", ControllerZnode.PATH, _controller)),
    (
        ("controller_epoch",),
        _single(
            "controller_epoch",
            ControllerEpochZnode.PATH,
            lambda _, data: {"controller_epoch": ControllerEpochZnode.decode(data)},
        ),
    ),
    (("feature",), _single("feature", FeatureZnode.PATH, _feature)),
    (("migration",), _single("migration", MIGRATION_PATH, _migration)),
    (
        ("producer_id_block",),
        _single("producer_id_block", ProducerIdBlockZnode.PATH, _producer_ids),
    ),
    (("broker",), _brokers),
    (("topic", "partition"), _topics),
    (("reassignment",), _reassignments),
    (("preferred_election",), _elections),
    (("deletion",), _deletions),
    (("topic_config",), _topic_configs),
    (("broker_config",), _broker_configs),
    (("quota", "scram_user"), _users_and_quotas),
    (("acl",), _acls),
    (("delegation_token",), _tokens),
)
"""The kinds of each part, and the function that reads it, in the order of the file."""
