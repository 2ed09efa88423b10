"""Creates and deletes topics in ZooKeeper, and reads their configuration.

Calls to ZooKeeper block, so they run in an executor and never on the event loop.  The pure logic is
in :mod:`.topic_creation` and :mod:`.assignment`.

Source: Kafka ``ZkAdminManager``, ``AdminZkClient``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from random import Random
from typing import TypeVar
from uuid import UUID, uuid4

from kio.schema.errors import ErrorCode
from msgspec.structs import replace

from kafka_common.model import Broker, ReplicaAssignment
from kafka_common.protocol.inter_broker_versions import is_topic_id_supported
from kafka_common.protocol.uuid_text import usable_uuid
from kafka_common.topic_names import has_collision_characters
from replica_manager.configuration.config import BrokerConfig
from replica_manager.request_errors import RequestRefused
from replica_manager.server.configs.entity_configs import read_entity_config, write_entity_config
from replica_manager.server.topics import topic_creation
from replica_manager.server.topics.assignment import assign_replicas
from replica_manager.server.topics.topic_creation import (
    FROM_BROKER_DEFAULT,
    CreatedTopic,
    NewTopic,
)
from replica_manager.server.topics.topic_waiters import TopicWaiters
from zkcontroller.core.journal import scala_map, scala_seq
from zkcontroller.zookeeper.requests import (
    Create,
    ZkCode,
)
from zkcontroller.zookeeper.results import optional, required
from zkcontroller.zookeeper.scala_order import properties_order
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import (
    DeleteTopicZnode,
    TopicsZnode,
    TopicZnode,
)

_log = logging.getLogger("kafka.zk.AdminZkClient")
_R = TypeVar("_R")


class TopicAdmin:
    """Creates and deletes the znodes of topics.  For the event loop."""

    def __init__(
        self,
        session: ZooKeeperSession,
        executor: Executor,
        config: Callable[[], BrokerConfig],
        random: Random,
    ) -> None:
        self._session = session
        self._executor = executor
        self._config = config
        self._random = random
        self.waiters = TopicWaiters()

    async def create(
        self,
        topic: NewTopic,
        live_brokers: Mapping[int, Broker],
        *,
        is_cached: bool,
        charge: Callable[[int], None] | None,
    ) -> CreatedTopic:
        """Validates the topic and writes it; RequestRefused if it is not valid.

        Replicas are assigned to ``live_brokers``.  ``is_cached``: the metadata cache has the topic.
        ``charge`` is called with the number of partitions before the write, and may refuse it; if
        it is None the topic is only validated.
        """
        config = topic_creation.check_request(topic, is_cached=is_cached)
        checked = await self._blocking(
            lambda: self._check(topic.name, self._assignment(topic, live_brokers), config)
        )
        if charge is None:
            return replace(checked, topic_id=None)
        charge(len(checked.assignment))
        await self._blocking(lambda: self._create(checked))
        return checked

    async def delete(self, topic: str) -> None:
        """Marks the topic for deletion; RequestRefused if it does not exist."""
        await self._blocking(lambda: self._delete(topic))

    async def config_of(self, entity_path: str) -> Mapping[str, str]:
        """The dynamic configuration of an entity such as ``topics/orders``; may be empty."""
        return await self._blocking(lambda: read_entity_config(self._session, entity_path))

    async def _blocking(self, call: Callable[[], _R]) -> _R:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    def _assignment(
        self, topic: NewTopic, live_brokers: Mapping[int, Broker]
    ) -> dict[int, tuple[int, ...]]:
        if topic.assignment:
            # If a partition is named twice, the last assignment is used, as in Kafka.
            return dict(topic.assignment)
        config = self._config()
        count, factor = topic.partition_count, topic.replication_factor
        if count == FROM_BROKER_DEFAULT:
            count = config.integer("num.partitions")
        if factor == FROM_BROKER_DEFAULT:
            factor = config.integer("default.replication.factor")
        racks = {broker_id: broker.rack for broker_id, broker in live_brokers.items()}
        positions = max(len(racks), 1)
        return assign_replicas(
            racks,
            count,
            factor,
            start=self._random.randrange(positions),
            shift=self._random.randrange(positions),
        )

    def _check(
        self, name: str, assignment: Mapping[int, tuple[int, ...]], config: Mapping[str, str]
    ) -> CreatedTopic:
        topic_creation.check_name(name)
        topic_creation.check_against_existing(
            name,
            is_marked_for_deletion=self._exists(DeleteTopicZnode.path(name)),
            exists=self._exists(TopicZnode.path(name)),
            all_topics=(self._all_topics() if has_collision_characters(name) else ()),
        )
        topic_creation.check_assignment(assignment)
        broker_config = self._config()
        topic_creation.check_config(config, broker_config.values)
        topic_id = None
        if is_topic_id_supported(broker_config.inter_broker_version):
            topic_id = usable_uuid(uuid4)
        return CreatedTopic(name, topic_id, assignment, config)

    def _create(self, topic: CreatedTopic) -> None:
        _log.info(
            "Creating topic %s with configuration %s and initial partition assignment %s",
            topic.name,
            _properties_text(topic.config),
            scala_map(
                (p, scala_seq("ArrayBuffer", those)) for p, those in topic.assignment.items()
            ),
        )
        write_entity_config(self._session, f"topics/{topic.name}", topic.config)
        self._write_topic(topic.name, topic.topic_id, topic.assignment)

    def _write_topic(
        self, topic: str, topic_id: UUID | None, assignment: Mapping[int, tuple[int, ...]]
    ) -> None:
        znode = TopicZnode(
            topic_id,
            {partition: ReplicaAssignment(replicas) for partition, replicas in assignment.items()},
        )
        path = TopicZnode.path(topic)
        created = self._session.write(Create(path, znode.encode()))
        if created is ZkCode.NODE_EXISTS:
            raise RequestRefused(ErrorCode.topic_already_exists, f"Topic '{topic}' already exists.")
        required(path, created)

    def _delete(self, topic: str) -> None:
        if not self._exists(TopicZnode.path(topic)):
            raise RequestRefused(
                ErrorCode.unknown_topic_or_partition, f"Topic `{topic}` to delete does not exist"
            )
        path = DeleteTopicZnode.path(topic)
        created = self._session.write(Create(path))
        if created is not ZkCode.NODE_EXISTS:
            required(path, created)

    def _exists(self, path: str) -> bool:
        return optional(path, self._session.exists(path)) is not None

    def _all_topics(self) -> list[str]:
        return required(TopicsZnode.PATH, self._session.children(TopicsZnode.PATH))


def _properties_text(config: Mapping[str, str]) -> str:
    """The configuration as ``java.util.Properties`` prints it."""
    return f"{{{', '.join(f'{key}={config[key]}' for key in properties_order(config))}}}"
