"""Sends a leader's AlterPartition requests to the controller.

A lost connection, a NOT_CONTROLLER error (of the request or of one partition) or a change of the
controller ends the attempt; the next attempt looks up the controller again.  So a frozen
controller cannot keep an ISR from shrinking once another one is elected.

Source: Kafka ``NodeToControllerChannelManager``, ``DefaultAlterPartitionManager`` (KIP-497).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from msgspec import Struct

from kafka_common.errors import InvalidFrame, UnsupportedVersion
from kafka_common.model import UNKNOWN_BROKER_EPOCH, TopicPartition
from kafka_common.net.client_security import PLAINTEXT, ClientSecurity
from kafka_common.net.connection import Connection
from kafka_common.observability.java_values import node
from kafka_common.observability.log_text import throwable_text
from kafka_common.protocol.api_versions import APIS, ApiKey
from kafka_common.protocol.inter_broker_versions import InterBrokerVersion, is_topic_id_supported
from kafka_common.protocol.messages import read_response, write
from kafka_common.protocol.versioned_messages import request_schema
from replica_manager.replication.alter_partition_manager import (
    AlterPartitionRefused,
    AlterPartitionResults,
)
from replica_manager.replication.controller_connection import (
    ControllerConnection,
    ControllerNode,
)
from replica_manager.replication.isr import AlteredIsr
from replica_manager.replication.isr_proposals import (
    FIRST_TOPIC_ID_VERSION,
    AlterPartitionCall,
    Proposed,
)
from zkcontroller.state_changes.log_files import log_line

_LOGGER: Final = "kafka.server.NodeToControllerRequestThread"
_API_VERSIONS_VERSION: Final = 0


class ControllerLinkSettings(Struct, frozen=True):
    """Listener, timeouts and versions of requests to the controller."""

    broker_id: int
    version: InterBrokerVersion
    timeout_ms: int = 30_000
    """``controller.socket.timeout.ms``"""
    security: ClientSecurity = PLAINTEXT


class ControllerLink:
    """One connection to the controller, opened when needed.  Only one task may use it."""

    def __init__(
        self,
        settings: ControllerLinkSettings,
        find: Callable[[], ControllerNode | None],
        broker_epoch: Callable[[], int],
    ) -> None:
        """``find`` returns the controller that this broker knows, or None."""
        self._settings = settings
        self._broker_epoch = broker_epoch
        self._controller = ControllerConnection(
            settings.broker_id,
            find,
            connect_timeout_ms=settings.timeout_ms,
            request_timeout_ms=settings.timeout_ms,
            security=settings.security,
            on_found=self._record,
        )
        self._negotiated_on: Connection | None = None
        self._newest = 0
        self._prefix = (
            f"[zk-broker-{settings.broker_id}-to-controller-alter-partition-channel-manager]: "
        )

    async def propose(
        self, call: AlterPartitionCall
    ) -> AlterPartitionResults | AlterPartitionRefused | None:
        """The controller's response; None if it was not reached or is no longer the controller."""
        try:
            return await self._controller.call(lambda found: self._ask(found, call))
        except (OSError, InvalidFrame) as failure:
            if isinstance(failure, UnsupportedVersion):
                self._complain(failure)
            await self.close()
            return None

    async def close(self) -> None:
        """Closes the connection if there is one."""
        await self._controller.close()

    async def _ask(
        self, connection: Connection, call: AlterPartitionCall
    ) -> AlterPartitionResults | AlterPartitionRefused | None:
        if connection is not self._negotiated_on:
            self._newest = await self._negotiated(connection)
            self._negotiated_on = connection
        broker_epoch = self._broker_epoch()
        version = call.api_version(self._newest)
        body = alter_partition_request(version, call, self._settings.broker_id, broker_epoch)
        response = await connection.call(ApiKey.ALTER_PARTITION, version, (body,))
        error, results = decode_alter_partition_response(version, response, call.partitions)
        if ErrorCode.not_controller in (error, *results.values()):
            await self.close()
            return None
        return results if error is ErrorCode.none else AlterPartitionRefused(error, broker_epoch)

    def _record(self, found: ControllerNode) -> None:
        where = f"{found.endpoint.host}:{found.endpoint.port}"
        log_line(
            _LOGGER,
            "INFO",
            f"{self._prefix}Recorded new ZK controller, from now on will use node "
            f"{node(found.broker_id, where, None)}",
        )

    async def _negotiated(self, connection: Connection) -> int:
        """The newest version that both sides and inter.broker.protocol.version allow."""
        api_versions = request_schema(ApiKey.API_VERSIONS, _API_VERSIONS_VERSION)
        response: Any = await connection.request(api_versions.request())
        offered = next(
            (api for api in response.api_keys if api.api_key == ApiKey.ALTER_PARTITION), None
        )
        newest = APIS[ApiKey.ALTER_PARTITION].max_version
        if not is_topic_id_supported(self._settings.version):
            newest = FIRST_TOPIC_ID_VERSION - 1
        if offered is None or offered.min_version > newest:
            raise UnsupportedVersion(f"{connection.peer} does not offer AlterPartition")
        return min(newest, int(offered.max_version))

    def _complain(self, failure: UnsupportedVersion) -> None:
        log_line(
            _LOGGER,
            "ERROR",
            f"{self._prefix}Request AlterPartition failed due to unsupported version error",
            throwable_text(failure),
        )


def alter_partition_request(
    version: int, call: AlterPartitionCall, broker_id: int, broker_epoch: int
) -> bytes:
    """The body of an AlterPartition request; versions below 2 have topic names, not ids."""
    schema = request_schema(ApiKey.ALTER_PARTITION, version)

    def partition_data(partition: int, proposed: Proposed) -> Any:
        proposal = proposed.pending.proposal
        fields: dict[str, object] = {}
        if schema.has("BrokerState"):
            # A controller in ZooKeeper mode ignores broker epochs; Kafka sends -1 as well.
            fields["new_isr_with_epochs"] = tuple(
                schema.part("BrokerState", broker_id=broker, broker_epoch=UNKNOWN_BROKER_EPOCH)
                for broker in proposal.new_isr
            )
        return schema.part(
            "PartitionData",
            partition_index=partition,
            leader_epoch=proposal.leader_epoch,
            new_isr=proposal.new_isr,
            leader_recovery_state=proposal.leader_recovery_state,
            partition_epoch=proposal.partition_epoch,
            **fields,
        )

    topics: dict[tuple[str, UUID | None], list[Any]] = {}
    for tp, proposed in call.partitions.items():
        data = partition_data(tp.partition, proposed)
        topics.setdefault((tp.topic, proposed.topic_id), []).append(data)
    return write(
        schema.request(
            broker_id=broker_id,
            broker_epoch=broker_epoch,
            topics=tuple(
                schema.part(
                    "TopicData", topic_name=topic, topic_id=topic_id, partitions=tuple(partitions)
                )
                for (topic, topic_id), partitions in topics.items()
            ),
        )
    )


def decode_alter_partition_response(
    version: int, body: bytes, asked: Mapping[TopicPartition, Proposed]
) -> tuple[ErrorCode, dict[TopicPartition, AlteredIsr | ErrorCode]]:
    """The error of the request and the result of each partition; InvalidFrame if invalid."""
    response: Any = read_response(ApiKey.ALTER_PARTITION, version, body)
    names = {proposed.topic_id: tp.topic for tp, proposed in asked.items()}
    results: dict[TopicPartition, AlteredIsr | ErrorCode] = {}
    for topic in response.topics:
        has_ids = version >= FIRST_TOPIC_ID_VERSION
        name = names.get(topic.topic_id) if has_ids else topic.topic_name
        if name is None:
            continue  # not in the request
        for row in topic.partitions:
            is_accepted = row.error_code is ErrorCode.none
            results[TopicPartition(name, row.partition_index)] = (
                AlteredIsr(row.leader_epoch, tuple(row.isr), row.partition_epoch)
                if is_accepted
                else row.error_code
            )
    return response.error_code, results
