"""Administration in ZooKeeper: partitions added, configurations, quotas, ACLs, delegation tokens.

Calls to ZooKeeper block, so they run in an executor and never on the event loop.  The pure logic is
in :mod:`.topics.partition_creation`, :mod:`.quota_entities` and :mod:`.quota_filters`.

Source: Kafka ``ZkAdminManager``, ``AdminZkClient``, ``KafkaZkClient``.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import NamedTuple, TypeVar
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.model import Broker, ReplicaAssignment, TopicPartition
from kafka_common.net.presence import raise_if_abandoned
from kafka_common.sanitizer import DEFAULT_ENTITY
from kafka_common.topic_names import invalid_name_reason
from replica_manager.request_errors import RequestRefused
from replica_manager.security.acl_cache import AclBinding, AclBindingFilter
from replica_manager.security.acl_store import AclStore
from replica_manager.security.delegation_token_store import DelegationTokenStore
from replica_manager.security.delegation_tokens import KnownToken
from replica_manager.server.configs.entity_configs import (
    delete_empty_entity,
    read_entity_config,
    read_entity_configs,
    write_entity_config,
)
from replica_manager.server.quota_entities import (
    IP,
    Entity,
    QuotaChange,
    altered,
    check_written,
    entity_path,
)
from replica_manager.server.quota_filters import Described, QuotaFilter
from replica_manager.server.topics import partition_creation
from replica_manager.server.topics.partition_creation import NewPartitions
from zkcontroller.core.journal import scala_small_map
from zkcontroller.core.topics import assignment_text
from zkcontroller.zookeeper.requests import Create, ReadZnodes, SetData, ZkCode
from zkcontroller.zookeeper.results import optional, required
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import (
    BrokerIdsZnode,
    BrokerIdZnode,
    ConfigChangeZnode,
    ConsumerOffsetZnode,
    DeleteTopicZnode,
    TopicZnode,
)

_log = logging.getLogger("kafka.zk.AdminZkClient")
_R = TypeVar("_R")


class _PartitionPlan(NamedTuple):
    """A topic's new assignment, and the version of the znode that it is based on."""

    topic: str
    topic_id: UUID | None
    partitions: Mapping[int, ReplicaAssignment]
    added: Mapping[int, ReplicaAssignment]
    zk_version: int


class ZooKeeperAdmin:
    """Administrative reads and writes in ZooKeeper.  For the event loop."""

    def __init__(self, session: ZooKeeperSession, executor: Executor) -> None:
        self._session = session
        self._executor = executor

    async def brokers(self) -> dict[int, Broker]:
        """The registered brokers by id, in ascending order."""
        return await self._blocking(self._brokers)

    async def create_partitions(
        self,
        wanted: NewPartitions,
        brokers: Mapping[int, Broker],
        charge: Callable[[int], None] | None,
    ) -> tuple[int, ...]:
        """Adds partitions to a topic; returns all its partitions, or raises RequestRefused.

        Replicas are assigned to ``brokers``.  ``charge`` is called with the number of new
        partitions before the write, and may refuse it; if it is None nothing is written.
        """
        plan = await self._blocking(lambda: self._plan_partitions(wanted, brokers))
        if charge is not None:
            charge(len(plan.added))
            # The write is conditional: it must not overwrite a reassignment begun since.
            while not await self._blocking(partial(self._write_partitions, plan)):
                plan = await self._blocking(lambda: self._plan_partitions(wanted, brokers))
        return tuple(plan.partitions)

    async def is_topic(self, topic: str) -> bool:
        """Whether the topic exists in ZooKeeper."""
        return await self._blocking(lambda: self._exists(TopicZnode.path(topic)))

    async def config_of(self, entity_path: str) -> dict[str, str]:
        """The dynamic configuration of an entity such as ``topics/orders``; may be empty."""
        return await self._blocking(lambda: read_entity_config(self._session, entity_path))

    async def configs_of(self, entity_type: str) -> dict[str, dict[str, str]]:
        """The dynamic configuration of every entity of a type such as ``topics``, by znode name."""
        return await self._blocking(lambda: read_entity_configs(self._session, entity_type))

    async def old_offset_of(self, group_id: str, partition: TopicPartition) -> int | None:
        """The offset that an old (ZooKeeper-based) consumer committed; None if there is none."""
        path = ConsumerOffsetZnode.path(group_id, *partition)
        znode = optional(path, await self._blocking(lambda: self._session.read(path)))
        return None if znode is None else ConsumerOffsetZnode.decode(path, znode.data)

    async def commit_old_offset(
        self, group_id: str, partition: TopicPartition, offset: int
    ) -> None:
        """Writes the offset of an old (ZooKeeper-based) consumer to ZooKeeper."""
        path = ConsumerOffsetZnode.path(group_id, *partition)
        await self._blocking(lambda: self._write_old_offset(path, offset))

    async def change_config(self, entity_path: str, config: Mapping[str, str]) -> None:
        """Replaces the entity's configuration, and writes a notification for all brokers.

        Raises RequestRefused(STALE_CONTROLLER_EPOCH) while there is no controller in ZooKeeper.
        """
        await self._blocking(lambda: self._change_config(entity_path, config))

    async def client_quotas(self, wanted: QuotaFilter) -> list[Described]:
        """The quotas of every entity that the filter matches."""
        return await self._blocking(lambda: wanted.find(self._session))

    async def alter_client_quotas(
        self, entity: Entity, changes: Sequence[QuotaChange], *, validate_only: bool
    ) -> None:
        """Changes the quotas of one entity; RequestRefused if a change is not valid."""
        await self._blocking(
            lambda: self._alter_client_quotas(entity, changes, validate_only=validate_only)
        )

    async def _blocking(self, call: Callable[[], _R]) -> _R:
        return await _in(self._executor, call)

    def _brokers(self) -> dict[int, Broker]:
        path = BrokerIdsZnode.PATH
        names = required(path, self._session.children(path))
        broker_ids = sorted(int(name) for name in names if name.isdecimal())
        results = self._session.perform(ReadZnodes([BrokerIdZnode.path(id_) for id_ in broker_ids]))
        brokers: dict[int, Broker] = {}
        for broker_id, result in zip(broker_ids, results, strict=True):
            znode = optional(BrokerIdZnode.path(broker_id), result)
            if znode is not None:  # else deleted between the two reads
                brokers[broker_id] = BrokerIdZnode.decode(broker_id, znode.data).broker
        return brokers

    def _plan_partitions(
        self, wanted: NewPartitions, brokers: Mapping[int, Broker]
    ) -> _PartitionPlan:
        unknown = RequestRefused(
            ErrorCode.unknown_topic_or_partition, f"The topic '{wanted.topic}' does not exist."
        )
        if invalid_name_reason(wanted.topic) is not None:
            raise unknown
        if self._exists(DeleteTopicZnode.path(wanted.topic)):
            raise RequestRefused(
                ErrorCode.invalid_topic_exception, "The topic is queued for deletion."
            )
        path = TopicZnode.path(wanted.topic)
        znode = optional(path, self._session.read(path))
        if znode is None:
            raise unknown
        topic = TopicZnode.decode(wanted.topic, znode.data)
        added = partition_creation.assign(wanted, topic.partitions, brokers)
        return _PartitionPlan(
            wanted.topic, topic.topic_id, {**topic.partitions, **added}, added, znode.zk_version
        )

    def _write_partitions(self, plan: _PartitionPlan) -> bool:
        """Writes the topic's znode; returns False if it has changed since it was read.

        It has not if it says what was to be written: the reply to a write can be lost.
        """
        _log.info(
            "Creating %d partitions for '%s' with the following replica assignment: %s.",
            len(plan.added),
            plan.topic,
            scala_small_map((p, assignment_text(added)) for p, added in plan.added.items()),
        )
        path = TopicZnode.path(plan.topic)
        data = TopicZnode(plan.topic_id, plan.partitions).encode()
        written = self._session.write(SetData(path, data, plan.zk_version))
        if written is ZkCode.BAD_VERSION:
            found = optional(path, self._session.read(path))
            known = {} if found is None else TopicZnode.decode(plan.topic, found.data).partitions
            return all(known.get(each) == added for each, added in plan.added.items())
        required(path, written)
        return True

    def _alter_client_quotas(
        self, entity: Entity, changes: Sequence[QuotaChange], *, validate_only: bool
    ) -> None:
        path = entity_path(entity)
        if IP in entity and not _is_resolvable(path.partition("/")[2]):
            raise RequestRefused(
                ErrorCode.invalid_request,
                f"{path.partition('/')[2]} is not a valid IP or resolvable host.",
            )
        config = altered(path, read_entity_config(self._session, path), changes)
        if not validate_only:
            check_written(path, config)
            self._change_config(path, config)

    def _change_config(self, entity_path: str, config: Mapping[str, str]) -> None:
        may_go = not config and entity_path.startswith(("users/", "clients/", "ips/"))
        if not (may_go and delete_empty_entity(self._session, entity_path)):
            write_entity_config(self._session, entity_path, config)
        notice = Create(
            ConfigChangeZnode.CREATE_PATH, ConfigChangeZnode(entity_path).encode(), sequential=True
        )
        required(notice.path, self._session.write(notice))

    def _write_old_offset(self, path: str, offset: int) -> None:
        operation = SetData(path, ConsumerOffsetZnode.encode(offset))
        written = self._session.write(operation)
        if written is ZkCode.NO_NODE:
            self._session.create_missing((path,))
            written = self._session.write(operation)
        required(path, written)

    def _exists(self, path: str) -> bool:
        return optional(path, self._session.exists(path)) is not None


class AclsInZooKeeper:
    """Changes ACLs with a blocking store in an executor.  For the event loop.

    Makes one change at a time, as the store does.  Waiting changes occupy no thread, and are
    dropped when their client disconnects.
    """

    def __init__(self, store: AclStore, executor: Executor) -> None:
        self._store = store
        self._executor = executor
        self._turn = asyncio.Lock()

    async def create(self, bindings: Sequence[AclBinding]) -> list[ErrorCode]:
        """Adds ACLs; returns one error code for each, NONE on success."""
        async with self._turn:
            raise_if_abandoned()
            return await _in(self._executor, partial(self._store.create, bindings))

    async def delete(
        self, filters: Sequence[AclBindingFilter]
    ) -> list[list[tuple[AclBinding, ErrorCode]]]:
        """Deletes the ACLs that match filters; returns the ACLs deleted for each filter."""
        async with self._turn:
            raise_if_abandoned()
            return await _in(self._executor, partial(self._store.delete, filters))


class TokensInZooKeeper:
    """Changes delegation tokens with a blocking store in an executor.  For the event loop."""

    def __init__(self, store: DelegationTokenStore, executor: Executor) -> None:
        self._store = store
        self._executor = executor

    async def create(
        self, owner: str, requester: str, renewers: Sequence[str], max_lifetime_ms: int
    ) -> KnownToken:
        """Creates a token; DelegationTokenRefused if that is not allowed."""
        create = partial(self._store.create, owner, requester, renewers, max_lifetime_ms)
        return await _in(self._executor, create)

    async def renew(self, requester: str, hmac: bytes, period_ms: int) -> int:
        """Renews a token; returns its new expiry time in ms, or raises DelegationTokenRefused."""
        return await _in(self._executor, partial(self._store.renew, requester, hmac, period_ms))

    async def expire(self, requester: str, hmac: bytes, period_ms: int) -> int:
        """Sets a token's expiry time; returns it in ms, or raises DelegationTokenRefused."""
        return await _in(self._executor, partial(self._store.expire, requester, hmac, period_ms))


async def _in(executor: Executor, call: Callable[[], _R]) -> _R:
    return await asyncio.get_running_loop().run_in_executor(executor, call)


def _is_resolvable(name: str) -> bool:
    """Whether ``name`` is the default entity, an address, or a host that resolves to one."""
    if name == DEFAULT_ENTITY:
        return True
    try:
        return bool(socket.getaddrinfo(name, None))
    except (OSError, UnicodeError):
        return False
