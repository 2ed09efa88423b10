"""Creates missing topics that clients name in requests.

Source: Kafka ``DefaultAutoTopicCreationManager.createTopicsInZk``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from kio.schema.errors import ErrorCode

from kafka_common.errors import ZkControllerError
from kafka_common.protocol.error_codes import error_code_for
from kafka_common.topic_names import invalid_name_reason
from replica_manager.configuration.config import BrokerConfig
from replica_manager.replication.zk_metadata_cache import ZkMetadataCache
from replica_manager.request_errors import RequestRefused
from replica_manager.server.administration import TopicAdministration
from replica_manager.server.slices import in_slices
from replica_manager.server.topics.topic_creation import NewTopic

_log = logging.getLogger("kafka.server.DefaultAutoTopicCreationManager")


class AutoTopicCreation:
    """Creates topics for Metadata and FindCoordinator requests.  For the event loop."""

    def __init__(
        self,
        topics: TopicAdministration,
        metadata_cache: ZkMetadataCache,
        config: Callable[[], BrokerConfig],
    ) -> None:
        self._topics = topics
        self._metadata_cache = metadata_cache
        self._config = config
        self._in_flight: set[str] = set()

    async def create(
        self, names: Sequence[str], charge: Callable[[int], None]
    ) -> dict[str, ErrorCode]:
        """Creates the topics; returns an error code for each name.

        LEADER_NOT_AVAILABLE means that the topic was created or exists, and the client must retry.
        ``charge`` is called with the number of partitions of each topic.
        """
        errors: dict[str, ErrorCode] = {}
        async for name in in_slices(names):
            if invalid_name_reason(name) is not None:
                errors[name] = ErrorCode.invalid_topic_exception
            elif name in self._in_flight:
                errors[name] = ErrorCode.unknown_topic_or_partition
            else:
                self._in_flight.add(name)
                try:
                    errors[name] = await self._create(name, charge)
                finally:
                    self._in_flight.discard(name)
        return errors

    async def _create(self, name: str, charge: Callable[[int], None]) -> ErrorCode:
        snapshot = self._metadata_cache.snapshot
        try:
            await self._topics.create(
                self._new_topic(name),
                snapshot.live_brokers,
                is_cached=name in snapshot.partitions,
                charge=charge,
            )
        except RequestRefused as refused:
            if refused.error is not ErrorCode.topic_already_exists:
                return refused.error
        except ZkControllerError as failure:
            _log.error("Auto topic creation failed for %s: %s", name, failure)
            return error_code_for(failure)
        return ErrorCode.leader_not_available

    def _new_topic(self, name: str) -> NewTopic:
        config = self._config()
        match name:
            case "__consumer_offsets":
                return NewTopic(
                    name,
                    config.integer("offsets.topic.num.partitions"),
                    config.integer("offsets.topic.replication.factor"),
                    configs={
                        "cleanup.policy": "compact",
                        "segment.bytes": str(config.integer("offsets.topic.segment.bytes")),
                        "compression.type": "producer",
                    },
                )
            case "__transaction_state":
                return NewTopic(
                    name,
                    config.integer("transaction.state.log.num.partitions"),
                    config.integer("transaction.state.log.replication.factor"),
                    configs={
                        "unclean.leader.election.enable": "false",
                        "compression.type": "uncompressed",
                        "cleanup.policy": "compact",
                        "min.insync.replicas": str(config.integer("transaction.state.log.min.isr")),
                        "segment.bytes": str(config.integer("transaction.state.log.segment.bytes")),
                    },
                )
            case _:
                return NewTopic(name)
