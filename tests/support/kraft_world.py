"""A cluster for the tests of the controller on raft: what is generated is replayed at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from typing import Final, TypeVar
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiException
from kafka_common.errors import ConfigInvalid
from kafka_common.model import ConfigResourceType, OpType
from kraft.controller import directory_ids
from kraft.controller.cluster_view import UsableBroker
from kraft.controller.config_schema import ConfigKeySchema, ConfigResource, InheritedKey
from kraft.controller.configuration_control import ConfigOperation, ConfigurationControlManager
from kraft.controller.partition_registration import PartitionId, PartitionRegistration
from kraft.controller.replica_placer import StripedReplicaPlacer
from kraft.controller.replication_control import ReplicationConfig, ReplicationControlManager
from kraft.controller.result import ControllerResult, VersionedRecord
from kraft.controller.snapshot_registry import SnapshotRegistry
from kraft.controller.topic_requests import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kraft.metadata.metadata_version import LATEST_PRODUCTION, MetadataVersion, from_level
from kraft.metadata.records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)

T = TypeVar("T")

WITH_ELR: Final = from_level(22)


@dataclass(frozen=True, slots=True)
class RegisteredNode:
    """One broker."""

    epoch: int
    fenced: bool = False
    in_controlled_shutdown: bool = False
    directories: tuple[UUID, ...] = ()
    rack: str | None = None


class Nodes:
    """The brokers of the cluster, as the records about them say."""

    def __init__(self) -> None:
        self.nodes: dict[int, RegisteredNode] = {}

    def registration(self, broker_id: int) -> RegisteredNode | None:
        return self.nodes.get(broker_id)

    def is_active(self, broker_id: int) -> bool:
        node = self.nodes.get(broker_id)
        return node is not None and not node.fenced and not node.in_controlled_shutdown

    def usable_brokers(self) -> Iterable[UsableBroker]:
        return [
            UsableBroker(broker_id, node.rack, node.fenced)
            for broker_id, node in sorted(self.nodes.items())
        ]

    def default_dir(self, broker_id: int) -> UUID:
        node = self.nodes.get(broker_id)
        return directory_ids.default_directory(None if node is None else node.directories)

    def has_online_dir(self, broker_id: int, directory: UUID) -> bool:
        node = self.nodes.get(broker_id)
        return node is not None and directory_ids.is_online(directory, node.directories)

    def check_broker_epoch(self, broker_id: int, broker_epoch: int) -> None:
        node = self.nodes.get(broker_id)
        if node is None or node.epoch != broker_epoch:
            raise ApiException(ErrorCode.stale_broker_epoch)

    def replay(self, record: object) -> None:
        match record:
            case BrokerRegistrationChangeRecord():
                node = self.nodes[record.broker_id]
                self.nodes[record.broker_id] = replace(
                    node,
                    fenced=node.fenced if record.fenced == 0 else record.fenced == 1,
                    # Who is fenced has stopped; who comes back begins anew.
                    in_controlled_shutdown=(
                        node.in_controlled_shutdown or record.in_controlled_shutdown == 1
                    ),
                    directories=record.log_dirs or node.directories,
                )
            case FenceBrokerRecord():
                self.nodes[record.id] = replace(self.nodes[record.id], fenced=True)
            case UnfenceBrokerRecord():
                self.nodes[record.id] = replace(self.nodes[record.id], fenced=False)
            case UnregisterBrokerRecord():
                del self.nodes[record.broker_id]
            case _:
                raise AssertionError(record)


def minutes_to_ms(value: str) -> str:
    return str(int(value) * 60_000)


TOPIC_KEYS: Final = {
    key.name: key
    for key in (
        ConfigKeySchema(
            "min.insync.replicas", "1", synonyms=(InheritedKey("min.insync.replicas"),)
        ),
        ConfigKeySchema(
            "unclean.leader.election.enable",
            "false",
            synonyms=(InheritedKey("unclean.leader.election.enable"),),
        ),
        ConfigKeySchema("cleanup.policy", "delete", is_list=True),
        ConfigKeySchema(
            "retention.ms",
            "604800000",
            synonyms=(
                InheritedKey("log.retention.ms"),
                InheritedKey("log.retention.minutes", minutes_to_ms),
            ),
        ),
    )
}


class Keys:
    """The keys of this cluster: schema and validator."""

    def key(self, resource_type: int, name: str) -> ConfigKeySchema | None:
        return TOPIC_KEYS.get(name) if resource_type == ConfigResourceType.TOPIC else None

    def topic_keys(self) -> Iterable[ConfigKeySchema]:
        return TOPIC_KEYS.values()

    def validate_resource(self, resource: ConfigResource) -> None:
        if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
            raise ApiException(ErrorCode.invalid_request, "Unknown resource type BROKER_LOGGER")

    def validate(
        self,
        resource: ConfigResource,
        new_configs: Mapping[str, str],
        existing_configs: Mapping[str, str],
    ) -> None:
        del existing_configs
        self.validate_resource(resource)
        if resource.resource_type == ConfigResourceType.TOPIC:
            for name in new_configs:
                if name not in TOPIC_KEYS:
                    raise ConfigInvalid(name, new_configs[name], "a known topic key")


class KraftWorld:
    """Brokers, configurations and topics; the methods do what a test's sentence says."""

    def __init__(
        self,
        *brokers: int,
        metadata_version: MetadataVersion = LATEST_PRODUCTION,
        config: ReplicationConfig | None = None,
        static_config: Mapping[str, str] | None = None,
        seed: int = 1,
    ) -> None:
        self.metadata_version = metadata_version
        self.registry = SnapshotRegistry()
        self.cluster = Nodes()
        self.configs = ConfigurationControlManager(
            self.registry, Keys(), Keys(), static_config=static_config or {}, node_id=3000
        )
        topic_ids = count(1000)
        self.control = ReplicationControlManager(
            self.registry,
            self.cluster,
            self.configs,
            lambda: self.metadata_version,
            StripedReplicaPlacer(Random(seed)),
            lambda: UUID(int=next(topic_ids)),
            config,
        )
        self.log: list[VersionedRecord] = []
        for broker_id in brokers:
            self.register(broker_id)

    def register(
        self, broker_id: int, *, rack: str | None = None, fenced: bool = False, directories: int = 1
    ) -> None:
        """A broker whose epoch is 100 and its id, with directories of its own."""
        self.cluster.nodes[broker_id] = RegisteredNode(
            100 + broker_id,
            fenced,
            directories=tuple(directory(broker_id, n) for n in range(directories)),
            rack=rack,
        )

    def epoch(self, broker_id: int) -> int:
        return self.cluster.nodes[broker_id].epoch

    # ------------------------------------------------------------------ replay

    def replay(self, records: Iterable[VersionedRecord]) -> list[VersionedRecord]:
        """Replays the records and returns them."""
        records = list(records)
        for versioned in records:
            self.log.append(versioned)
            match versioned.record:
                case (
                    TopicRecord()
                    | PartitionRecord()
                    | PartitionChangeRecord()
                    | RemoveTopicRecord() as record
                ):
                    self.control.replay(record)
                case ConfigRecord() as record:
                    self.configs.replay(record)
                case record:
                    self.cluster.replay(record)
        return records

    def commit(self, result: ControllerResult[T]) -> T:
        """Replays what was generated and returns the answer."""
        self.replay(result.records)
        return result.response

    # ------------------------------------------------------------------ topics

    def create_topic(self, name: str, *replicas: tuple[int, ...], **configs: str) -> UUID:
        """A topic whose partitions are where the test says; ``min_insync_replicas="2"``."""
        keys = tuple((key.replace("_", "."), value) for key, value in configs.items())
        assignments = tuple(CreatableReplicaAssignment(*item) for item in enumerate(replicas))
        topic = CreatableTopic(name, assignments=assignments, configs=keys)
        (created,) = self.commit(
            self.control.topics.create_topics(CreateTopicsRequest((topic,)), no_quota)
        )
        assert not created.error.is_failure, created
        return created.topic_id

    def partition(self, topic_id: UUID, partition_id: int = 0) -> PartitionRegistration:
        partition = self.control.state.partition(PartitionId(topic_id, partition_id))
        assert partition is not None
        return partition

    def set_topic_config(self, topic: str, name: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        operations = {name: ConfigOperation(OpType.SET, value)}
        errors = self.commit(self.configs.incremental_alter_configs({resource: operations}))
        assert not errors[resource].is_failure

    # ------------------------------------------------------------------ brokers

    def fence(self, broker_id: int) -> list[VersionedRecord]:
        return self.replay(self.control.brokers.handle_broker_fenced(broker_id))

    def unfence(self, broker_id: int) -> list[VersionedRecord]:
        """The broker comes back in a new life."""
        node = self.cluster.nodes[broker_id]
        self.cluster.nodes[broker_id] = replace(node, in_controlled_shutdown=False)
        return self.replay(
            self.control.brokers.handle_broker_unfenced(broker_id, self.epoch(broker_id))
        )

    def begin_controlled_shutdown(self, broker_id: int) -> list[VersionedRecord]:
        return self.replay(
            self.control.brokers.handle_broker_in_controlled_shutdown(
                broker_id, self.epoch(broker_id)
            )
        )

    def unregister(self, broker_id: int) -> list[VersionedRecord]:
        return self.replay(
            self.control.brokers.handle_broker_unregistered(broker_id, self.epoch(broker_id))
        )


def directory(broker_id: int, number: int = 0) -> UUID:
    """The id of a broker's directory."""
    return UUID(int=(1 << 64) + 1000 * broker_id + number)


def no_quota(_partition_count: int, /) -> None:
    """A client may do as much as it likes."""
