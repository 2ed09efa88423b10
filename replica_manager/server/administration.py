"""Interfaces through which handlers change topics, configurations, quotas, ACLs and tokens.

A registered broker has one :class:`Administration`, made by its source of metadata (ZooKeeper).
Handlers use only these Protocols, so they do not depend on the source.  The methods raise
RequestRefused, or the errors of ``kafka_common.errors``.

Source: Kafka ``MetadataSupport``, ``ZkAdminManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from kio.schema.errors import ErrorCode
from msgspec import Struct

from kafka_common.model import Broker, TopicPartition
from replica_manager.security.acl_cache import AclBinding, AclBindingFilter
from replica_manager.security.delegation_tokens import KnownToken
from replica_manager.server.quota_entities import Entity, QuotaChange
from replica_manager.server.quota_filters import Described, QuotaFilter
from replica_manager.server.topics.partition_creation import NewPartitions
from replica_manager.server.topics.topic_creation import CreatedTopic, NewTopic
from replica_manager.server.topics.topic_waiters import TopicWaiters
from zkcontroller.core.effects import ControlledShutdownResult, Result
from zkcontroller.core.events import RequestEvent


class ControllerCandidate(Protocol):
    """This broker's controller candidate: the active controller, or one in waiting."""

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller."""

    async def controlled_shutdown(
        self, broker_id: int, broker_epoch: int
    ) -> ControlledShutdownResult:
        """Moves the leaderships of a broker that is shutting down to other brokers."""

    async def ask(self, make: Callable[[int], RequestEvent], timeout_ms: int = 0) -> Result | None:
        """The result of the event that ``make`` builds from a request id; None after a timeout.

        The timeout is ``timeout_ms``, or the time that a broker waits for the controller if that is
        longer.  If this broker is not the controller, the result is the event's refusal.
        """


class FinalizedFeatures(Protocol):
    """The cluster's finalized features, as this broker has read them."""

    @property
    def epoch(self) -> int:
        """The version of the znode ``/feature``; -1 if it does not exist."""

    async def reaches(self, epoch: int, timeout_ms: int) -> bool:
        """Waits until this broker has read ``epoch`` or a later one; False after a timeout."""


class TopicAdministration(Protocol):
    """Creates and deletes topics."""

    @property
    def waiters(self) -> TopicWaiters:
        """Requests that wait until their change is in the metadata cache."""

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

    async def delete(self, topic: str) -> None:
        """Marks the topic for deletion; RequestRefused if it does not exist."""

    async def config_of(self, entity_path: str) -> Mapping[str, str]:
        """The dynamic configuration of an entity such as ``topics/orders``; may be empty."""


class ClusterAdmin(Protocol):
    """Reads and changes partitions, configurations, client quotas, and offsets of old consumers."""

    async def brokers(self) -> dict[int, Broker]:
        """The registered brokers by id, in ascending order."""

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

    async def is_topic(self, topic: str) -> bool:
        """Whether the topic exists."""

    async def config_of(self, entity_path: str) -> dict[str, str]:
        """The dynamic configuration of an entity such as ``topics/orders``; may be empty."""

    async def configs_of(self, entity_type: str) -> dict[str, dict[str, str]]:
        """The dynamic configuration of every entity of a type such as ``topics``, by name."""

    async def change_config(self, entity_path: str, config: Mapping[str, str]) -> None:
        """Replaces the entity's dynamic configuration, and notifies all brokers."""

    async def client_quotas(self, wanted: QuotaFilter) -> list[Described]:
        """The quotas of every entity that the filter matches."""

    async def alter_client_quotas(
        self, entity: Entity, changes: Sequence[QuotaChange], *, validate_only: bool
    ) -> None:
        """Changes the quotas of one entity; RequestRefused if a change is not valid."""

    async def old_offset_of(self, group_id: str, partition: TopicPartition) -> int | None:
        """The offset that an old (ZooKeeper-based) consumer committed; None if there is none."""

    async def commit_old_offset(
        self, group_id: str, partition: TopicPartition, offset: int
    ) -> None:
        """Writes the offset of an old (ZooKeeper-based) consumer to ZooKeeper."""


class AclAdmin(Protocol):
    """Adds and deletes access control lists."""

    async def create(self, bindings: Sequence[AclBinding]) -> list[ErrorCode]:
        """Adds ACLs; returns one error code for each, NONE on success."""

    async def delete(
        self, filters: Sequence[AclBindingFilter]
    ) -> list[list[tuple[AclBinding, ErrorCode]]]:
        """Deletes the ACLs that match filters; returns the ACLs deleted for each filter."""


class TokenAdmin(Protocol):
    """Creates, renews and expires delegation tokens; may raise DelegationTokenRefused."""

    async def create(
        self, owner: str, requester: str, renewers: Sequence[str], max_lifetime_ms: int
    ) -> KnownToken:
        """A new token; a ``max_lifetime_ms`` of 0 or less means the configured maximum."""

    async def renew(self, requester: str, hmac: bytes, period_ms: int) -> int:
        """Renews a token; returns its new expiry time in ms.  A negative period is the default."""

    async def expire(self, requester: str, hmac: bytes, period_ms: int) -> int:
        """Sets and returns a token's expiry time in ms; a negative period deletes the token."""


class Administration(Struct, frozen=True):
    """The services of one source of metadata.  For the event loop."""

    controller: ControllerCandidate
    topics: TopicAdministration
    admin: ClusterAdmin
    features: FinalizedFeatures
    acls: AclAdmin | None = None
    """None without an authorizer: ACLs cannot be changed."""
    token_admin: TokenAdmin | None = None
    """None if the broker has no ``delegation.token.secret.key``."""
