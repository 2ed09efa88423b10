"""Finds the obstacles to a migration to KRaft, by what Kafka 3.9's migration does: pure.

Source: Kafka ``KRaftMigrationDriver``, ``ZkMigrationClient`` and its clients of topics and
configurations, ``KafkaConfig.validateValues``, ``KafkaServer`` (features of a registration);
KIP-866, KIP-858.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from kafka_common.errors import ConfigInvalid
from kraft.metadata.metadata_version import MetadataVersion, from_name
from replica_manager.configuration.config import is_password
from zkcontroller_cli.snapshots.file import SavedMetadata, SnapshotRecord

MOST_NAMED: Final = 5
"""The most places of one obstacle that are named; the others are counted."""
_NO_EPOCH: Final = -1
_PROTOCOL_VERSION: Final = "inter.broker.protocol.version"
_LATEST: Final = "3.9"
_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class MigrationEffect(StrEnum):
    """What an obstacle does to a migration."""

    BLOCKS = "blocks"
    """The migration does not begin, or it fails."""
    LOSES = "loses"
    """The migration runs, but the named objects are not copied to KRaft."""
    PREPARE = "prepare"
    """The quorum, or a broker that restarts in KRaft mode, needs a configuration for this."""
    NOT_CHECKED = "not_checked"


class Obstacle(NamedTuple):
    """One thing to do before a migration, with the places at which it was seen."""

    effect: MigrationEffect
    check: str
    what: str
    where: Sequence[str]
    next_step: str

    def row(self) -> dict[str, Any]:
        """The row that ``migration check`` shows."""
        more = len(self.where) - MOST_NAMED
        return {
            "effect": str(self.effect),
            "check": self.check,
            "what": self.what,
            "count": len(self.where),
            "where": [*self.where[:MOST_NAMED], *([f"and {more:,} more"] if more > 0 else ())],
            "next_step": self.next_step,
        }


@dataclass(frozen=True)
class MigratingBroker:
    """The configuration and failed log directories of a broker; ``error``: why not known."""

    broker_id: int
    configs: Mapping[str, str | None]
    failed_log_dirs: Sequence[str] = ()
    error: str | None = None

    def value(self, key: str) -> str:
        """The value of a configuration key; empty if it has none."""
        return self.configs.get(key) or ""


def obstacles_of(saved: SavedMetadata, brokers: Sequence[MigratingBroker]) -> list[Obstacle]:
    """Every obstacle, sorted by effect: those that block the migration first."""
    records: defaultdict[str, list[SnapshotRecord]] = defaultdict(list)
    for record in saved.records:
        records[record.kind].append(record)
    found = [
        *_not_read(saved),
        *(each for judge in _OF_ZNODES for each in judge(records)),
        *_of_brokers(brokers),
    ]
    return sorted(found, key=lambda each: list(MigrationEffect).index(each.effect))


def _not_read(saved: SavedMetadata) -> Iterator[Obstacle]:
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for kind, reason in saved.not_known.items():
        reasons[reason].append(kind)
    for reason, kinds in reasons.items():
        yield Obstacle(
            MigrationEffect.NOT_CHECKED,
            "unreadable-znodes",
            reason,
            kinds,
            "give zkctl the rights of a broker: the controllers of the quorum need them too",
        )


# What ZooKeeper holds.

_Records = Mapping[str, Sequence[SnapshotRecord]]


def _earlier_migration(records: _Records) -> Iterator[Obstacle]:
    rules = [r for r in records["controller"] if _number(r, "kraft_controller_epoch") > _NO_EPOCH]
    for record in rules:
        yield Obstacle(
            MigrationEffect.BLOCKS,
            "kraft-controller",
            f"KRaft controller {record.value.get('controller_id')} holds /controller: a migration "
            "is under way, or was rolled back without its last step",
            [_path(record)],
            "if its quorum runs, the migration goes on; if it was taken down for good, delete "
            "/controller, and a broker is elected",
        )
    for record in records["migration"]:
        offset = _number(record, "kraft_metadata_offset")
        if rules:
            continue
        if offset > 0:
            yield Obstacle(
                MigrationEffect.BLOCKS,
                "remnant",
                f"the quorum takes its copy for made up to offset {offset}: what changed since the "
                "earlier migration would be skipped",
                [_path(record)],
                "keep what it says, and delete /migration",
            )
        else:
            yield Obstacle(
                MigrationEffect.PREPARE,
                "remnant",
                "a migration was begun and has copied nothing",
                [_path(record)],
                "delete /migration if no quorum waits to migrate",
            )


def _number(record: SnapshotRecord, key: str) -> int:
    value = record.value.get(key)
    return value if isinstance(value, int) else _NO_EPOCH


def _path(record: SnapshotRecord) -> str:
    return record.name if record.stamp is None else record.stamp.path


def _absent_brokers(records: _Records) -> Iterator[Obstacle]:
    registered = {record.name for record in records["broker"]}
    held = Counter(
        str(broker)
        for record in _topics_taken_along(records)
        for replicas in _replicas(record)
        for broker in replicas
    )
    absent = sorted(held.keys() - registered, key=int)
    if absent:
        yield Obstacle(
            MigrationEffect.BLOCKS,
            "absent-broker",
            "replicas are assigned to brokers that are not registered: the quorum waits until "
            "each has registered in migration mode",
            [f"broker {broker}: {held[broker]:,} replicas" for broker in absent],
            "start the broker, or move its replicas: zkctl broker drain ID",
        )


def _topics_taken_along(records: _Records) -> list[SnapshotRecord]:
    leaving = {record.name for record in records["deletion"]}
    return [each for each in records["topic"] if each.name not in leaving]


def _replicas(topic: SnapshotRecord) -> Iterator[list[int]]:
    partitions = topic.value.get("partitions")
    for assigned in partitions.values() if isinstance(partitions, dict) else ():
        replicas = assigned.get("replicas") if isinstance(assigned, dict) else None
        yield (
            [each for each in replicas if isinstance(each, int)]
            if isinstance(replicas, list)
            else []
        )


def _topics_without_id(records: _Records) -> Iterator[Obstacle]:
    names = [
        record.name
        for record in _topics_taken_along(records)
        if not _is_corrupt(record) and record.value.get("topic_id") is None
    ]
    if names:
        yield Obstacle(
            MigrationEffect.BLOCKS,
            "topic-without-id",
            "topics have no id, without which they cannot be copied",
            names,
            "have a controller elected whose inter.broker.protocol.version is 2.8 or later: "
            "zkctl controller elect",
        )


def _is_corrupt(record: SnapshotRecord) -> bool:
    return record.value.get("is_corrupt") is True


def _corrupt_znodes(records: _Records) -> Iterator[Obstacle]:
    for effect, kinds, what in (
        (
            MigrationEffect.BLOCKS,
            ("topic", "topic_config", "broker_config", "quota", "producer_id_block"),
            "znodes cannot be read, and the copy fails at the first of them",
        ),
        (
            MigrationEffect.LOSES,
            ("acl", "delegation_token"),
            "znodes cannot be read, and count as empty",
        ),
    ):
        places = [_path(r) for kind in kinds for r in records[kind] if _is_corrupt(r)]
        if places:
            yield Obstacle(effect, "corrupt-znode", what, places, "mend the znode")


def _missing_states(records: _Records) -> Iterator[Obstacle]:
    known = {record.name for record in records["partition"] if not _is_corrupt(record)}
    missing = [
        f"{record.name}-{number}"
        for record in _topics_taken_along(records)
        for number in _numbers(record)
        if f"{record.name}-{number}" not in known
    ]
    if missing:
        yield Obstacle(
            MigrationEffect.LOSES,
            "missing-state",
            "partitions have no readable state: in the quorum all their replicas are in sync and "
            "the leader epoch is 0",
            missing,
            "have the partition elect a leader first, and see zkctl doctor",
        )


def _numbers(topic: SnapshotRecord) -> Collection[str]:
    partitions = topic.value.get("partitions")
    return list(partitions) if isinstance(partitions, dict) else []


def _quotas(records: _Records) -> Iterator[Obstacle]:
    wrong = [
        f"{record.name}: {key}={value}"
        for record in records["quota"]
        if not _is_corrupt(record)
        for key, value in record.value.items()
        if not isinstance(value, int | float)
    ]
    if wrong:
        yield Obstacle(
            MigrationEffect.BLOCKS,
            "quota",
            "quotas are no numbers, and the copy fails at the first of them",
            wrong,
            "zkctl quota unset, or zkctl quota set",
        )


def _unfinished(records: _Records) -> Iterator[Obstacle]:
    deletions = [record.name for record in records["deletion"]]
    if deletions:
        yield Obstacle(
            MigrationEffect.LOSES,
            "pending-deletion",
            "topics that are marked for deletion are not copied; brokers delete their logs later",
            deletions,
            "wait until they are gone: zkctl deletion status",
        )
    kinds = ("reassignment", "preferred_election")
    orders = [f"{kind} {record.name}" for kind in kinds for record in records[kind]]
    if orders:
        yield Obstacle(
            MigrationEffect.LOSES,
            "pending-order",
            "orders below /admin are not copied; moves that have begun go on",
            orders,
            "wait until they are done: zkctl wait --for=reassigned",
        )


def _secrets(records: _Records) -> Iterator[Obstacle]:
    passwords = [
        f"broker {record.name}: {key}"
        for record in records["broker_config"]
        for key in record.value
        if is_password(key)
    ]
    if passwords:
        yield Obstacle(
            MigrationEffect.PREPARE,
            "password",
            "passwords stand encrypted in ZooKeeper; the quorum must decrypt them",
            passwords,
            "give the controllers the brokers' password.encoder.secret and its neighbours",
        )
    tokens = [record.name for record in records["delegation_token"] if not _is_corrupt(record)]
    if tokens:
        yield Obstacle(
            MigrationEffect.PREPARE,
            "delegation-token",
            "delegation tokens are copied; no node knows them without the secret",
            tokens,
            "give the controllers the brokers' delegation.token.secret.key",
        )


_OF_ZNODES: Final[Sequence[Callable[[_Records], Iterable[Obstacle]]]] = (
    _earlier_migration,
    _absent_brokers,
    _topics_without_id,
    _corrupt_znodes,
    _quotas,
    _missing_states,
    _unfinished,
    _secrets,
)


# What brokers answer.


def _of_brokers(brokers: Sequence[MigratingBroker]) -> Iterator[Obstacle]:
    silent = [each for each in brokers if each.error is not None]
    if silent:
        yield Obstacle(
            MigrationEffect.NOT_CHECKED,
            "silent-broker",
            "brokers did not say how they are configured",
            [f"broker {each.broker_id}: {each.error}" for each in silent],
            "zkctl broker describe ID",
        )
    asked = [each for each in brokers if each.error is None]
    yield from _versions(asked)
    for effect, check, what, next_step, is_so in _OF_BROKER:
        places = [f"broker {each.broker_id}: {shown}" for each in asked if (shown := is_so(each))]
        if places:
            yield Obstacle(effect, check, what, places, next_step)


def _versions(brokers: Sequence[MigratingBroker]) -> Iterator[Obstacle]:
    by_version: defaultdict[str, list[int]] = defaultdict(list)
    for broker in brokers:
        by_version[broker.value(_PROTOCOL_VERSION)].append(broker.broker_id)
    known = {each.broker_id: _version(each) for each in brokers}
    too_old = [
        f"broker {each.broker_id}: {each.value(_PROTOCOL_VERSION)}"
        for each in brokers
        if (version := known[each.broker_id]) is None or not version.is_migration_supported
    ]
    if too_old:
        yield Obstacle(
            MigrationEffect.BLOCKS,
            "protocol-version",
            "a broker below inter.broker.protocol.version 3.4 refuses to start in migration mode",
            too_old,
            "upgrade every broker to the last Kafka with ZooKeeper, 3.9, and then this key",
        )
    elif len(by_version) > 1:
        yield Obstacle(
            MigrationEffect.BLOCKS,
            "protocol-version",
            "brokers differ in inter.broker.protocol.version: the quorum registers only those "
            "whose version is its own metadata.version",
            [f"{version}: brokers {ids}" for version, ids in sorted(by_version.items())],
            "set the same on every broker, 3.9 if all run it",
        )
    elif by_version and set(known.values()) != {from_name(_LATEST)}:
        yield Obstacle(
            MigrationEffect.PREPARE,
            "protocol-version",
            "the quorum registers brokers only whose inter.broker.protocol.version is its own "
            "metadata.version, and Kafka 3.9 formats a quorum with 3.9",
            [f"{version}: brokers {ids}" for version, ids in by_version.items()],
            "set it to 3.9, or format the controllers with --release-version of that version",
        )


def _version(broker: MigratingBroker) -> MetadataVersion | None:
    """The broker's inter.broker.protocol.version; None if that is older than KRaft."""
    try:
        return from_name(broker.value(_PROTOCOL_VERSION))
    except ConfigInvalid:
        return None


def _several_dirs(broker: MigratingBroker) -> str | None:
    dirs = broker.value("log.dirs") or broker.value("log.dir")
    version = _version(broker)
    is_supported = version is not None and version.is_directory_assignment_supported
    return dirs if len(dirs.split(",")) > 1 and not is_supported else None


def _generated_id(broker: MigratingBroker) -> str | None:
    most = broker.value("reserved.broker.max.id")
    if broker.value("broker.id").startswith("-"):
        return "broker.id is not set"
    is_above = most.isdecimal() and broker.broker_id > int(most)
    is_generated = broker.value("broker.id.generation.enable") == "true"
    return f"above reserved.broker.max.id={most}" if is_above and is_generated else None


def _is_standard(broker: MigratingBroker) -> str | None:
    name = broker.value("authorizer.class.name")
    return name if name and name != _AUTHORIZER else None


_OF_BROKER: Final[
    Sequence[tuple[MigrationEffect, str, str, str, Callable[[MigratingBroker], str | None]]]
] = (
    (
        MigrationEffect.BLOCKS,
        "log-dirs",
        "a broker with several log directories needs inter.broker.protocol.version 3.7-IV2",
        "set inter.broker.protocol.version to 3.9 first",
        _several_dirs,
    ),
    (
        MigrationEffect.BLOCKS,
        "failed-log-dir",
        "a broker with a failed log directory cannot be restarted in KRaft mode",
        "repair the directory, and restart the broker",
        lambda broker: ", ".join(broker.failed_log_dirs) or None,
    ),
    (
        MigrationEffect.BLOCKS,
        "broker-id",
        "a broker whose id was generated refuses to start in migration mode",
        "set broker.id in server.properties, and reserved.broker.max.id not below it",
        _generated_id,
    ),
    (
        MigrationEffect.PREPARE,
        "authorizer",
        "KRaft knows the rules of ACLs, and this authorizer only with ZooKeeper",
        f"brokers that restart in KRaft mode, and the controllers, need {_AUTHORIZER}",
        _is_standard,
    ),
    (
        MigrationEffect.PREPARE,
        "control-plane-listener",
        "control.plane.listener.name is refused in KRaft mode",
        "take it away from the configuration with which the broker restarts in KRaft mode",
        lambda broker: broker.value("control.plane.listener.name") or None,
    ),
)
