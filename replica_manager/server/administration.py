"""What handlers ask of the source of metadata: topics, configurations, quotas, ACLs, tokens.

A registered broker has one :class:`Administration`, made by its source of metadata; the context of
handlers has the same parts.  Handlers know these Protocols alone, so they do not see which source
it is.  What the source refuses is raised as RequestRefused, and as the errors of
``kafka_common.errors``.

Source: Kafka ``MetadataSupport``, ``ZkAdminManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kio.schema.errors import ErrorCode

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
    """The controller candidate of this broker, for handlers."""

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller."""

    async def controlled_shutdown(
        self, broker_id: int, broker_epoch: int
    ) -> ControlledShutdownResult:
        """Moves the leaderships of a broker that is about to stop."""

    async def ask(self, make: Callable[[int], RequestEvent], timeout_ms: int = 0) -> Result | None:
        """The response to the event that ``make`` builds from a request id; None after a timeout.

        It may take ``timeout_ms``, or as long as a broker waits if that is longer.  Who is not the
        controller answers so.
        """


class FinalizedFeatures(Protocol):
    """The finalized features that this broker knows."""

    @property
    def epoch(self) -> int:
        """The zk_version of ``/feature``; -1 if it does not exist."""

    async def reaches(self, epoch: int, timeout_ms: int) -> bool:
        """Waits until that version or a later one was read; False after a timeout."""


class TopicAdministration(Protocol):
    """Creates and deletes topics."""

    @property
    def waiters(self) -> TopicWaiters:
        """Requests that wait until the metadata cache has what they changed."""

    async def create(
        self,
        topic: NewTopic,
        live_brokers: Mapping[int, Broker],
        *,
        is_cached: bool,
        charge: Callable[[int], None] | None,
    ) -> CreatedTopic:
        """Checks the topic and writes it; else RequestRefused.

        ``live_brokers`` may get replicas; ``is_cached``: the metadata cache knows the topic.
        ``charge`` is called with the partitions before they are written, and may refuse; without it
        the topic is only checked.
        """

    async def delete(self, topic: str) -> None:
        """Marks the topic for deletion; RequestRefused if it does not exist."""

    async def config_of(self, entity_path: str) -> Mapping[str, str]:
        """The dynamic configuration of ``topics/orders`` or ``brokers/1``, maybe empty."""


class ClusterAdmin(Protocol):
    """Partitions, dynamic configurations, client quotas, and offsets of old consumers."""

    async def brokers(self) -> dict[int, Broker]:
        """The registered brokers, by id ascending."""

    async def create_partitions(
        self,
        wanted: NewPartitions,
        brokers: Mapping[int, Broker],
        charge: Callable[[int], None] | None,
    ) -> tuple[int, ...]:
        """Adds partitions to a topic; returns all its partitions, or raises RequestRefused.

        ``brokers`` may get replicas.  ``charge`` is called with the new partitions before they are
        written, and may refuse; without it nothing is written.
        """

    async def is_topic(self, topic: str) -> bool:
        """Whether the topic exists."""

    async def config_of(self, entity_path: str) -> dict[str, str]:
        """The dynamic configuration of ``topics/orders`` or ``brokers/1``, maybe empty."""

    async def configs_of(self, entity_type: str) -> dict[str, dict[str, str]]:
        """The dynamic configuration of every ``users`` or ``topics`` entity, by its name."""

    async def change_config(self, entity_path: str, config: Mapping[str, str]) -> None:
        """Replaces that configuration for all brokers."""

    async def client_quotas(self, wanted: QuotaFilter) -> list[Described]:
        """The quotas of every entity that matches."""

    async def alter_client_quotas(
        self, entity: Entity, changes: Sequence[QuotaChange], *, validate_only: bool
    ) -> None:
        """Changes quotas of one entity; RequestRefused if they cannot be changed so."""

    async def old_offset_of(self, group_id: str, partition: TopicPartition) -> int | None:
        """The offset that an old consumer committed; None if there is none."""

    async def commit_old_offset(
        self, group_id: str, partition: TopicPartition, offset: int
    ) -> None:
        """Writes an old consumer's offset."""


class AclAdmin(Protocol):
    """Adds and deletes access control lists."""

    async def create(self, bindings: Sequence[AclBinding]) -> list[ErrorCode]:
        """Adds ACLs; one result each."""

    async def delete(
        self, filters: Sequence[AclBindingFilter]
    ) -> list[list[tuple[AclBinding, ErrorCode]]]:
        """Deletes the ACLs that filters match; for each filter the deleted ones."""


class TokenAdmin(Protocol):
    """Creates, renews and expires delegation tokens, or raises DelegationTokenRefused."""

    async def create(
        self, owner: str, requester: str, renewers: Sequence[str], max_lifetime_ms: int
    ) -> KnownToken:
        """A new token; a ``max_lifetime_ms`` of 0 or less means the configured maximum."""

    async def renew(self, requester: str, hmac: bytes, period_ms: int) -> int:
        """The new expiry time; a negative period means the configured one."""

    async def expire(self, requester: str, hmac: bytes, period_ms: int) -> int:
        """The new expiry time; a negative period deletes the token at once."""


@dataclass(frozen=True, slots=True)
class Administration:
    """The services of one source of metadata.  For the event loop."""

    controller: ControllerCandidate
    topics: TopicAdministration
    admin: ClusterAdmin
    features: FinalizedFeatures
    acls: AclAdmin | None = None
    """None: every client may do everything."""
    token_admin: TokenAdmin | None = None
    """None without a secret for delegation tokens."""
