"""Requests and results about topics, independent of protocol versions.

Source: Kafka ``CreateTopicsRequest.json``, ``CreatePartitionsRequest.json``, ``CreateTopicPolicy``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from kafka_common.api_error import NO_ERROR, ApiError
from kraft.controller.config_schema import EffectiveConfig
from kraft.metadata.records import ZERO_UUID

DEFAULT: Final = -1
"""As a number of partitions or replicas: the controller's configured default (KIP-464)."""


class CreatableReplicaAssignment(NamedTuple):
    """The requested replicas of a new partition."""

    partition_index: int
    broker_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CreatableTopic:
    """A topic to create."""

    name: str
    num_partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: tuple[CreatableReplicaAssignment, ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class CreateTopicsRequest:
    """Topics to create, each name once."""

    topics: tuple[CreatableTopic, ...]
    validate_only: bool = False
    describable: Collection[str] = ()
    """The topics whose configurations the client may see."""


@dataclass(frozen=True, slots=True)
class CreatableTopicResult:
    """The result for one topic; counts and configurations only for a client that may see them."""

    name: str
    error: ApiError = NO_ERROR
    topic_id: UUID = ZERO_UUID
    num_partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    configs: tuple[EffectiveConfig, ...] | None = None


@dataclass(frozen=True, slots=True)
class CreatePartitionsTopic:
    """A topic to extend to ``count`` partitions; assignments are for the new ones only."""

    name: str
    count: int
    assignments: tuple[tuple[int, ...], ...] | None = None


class CreateTopicPolicy(Protocol):
    """The operator's policy for new topics (KIP-108)."""

    def validate(
        self,
        topic: str,
        num_partitions: int | None,
        replication_factor: int | None,
        assignments: Mapping[int, tuple[int, ...]] | None,
        configs: Mapping[str, str],
    ) -> None:
        """Refuses a topic with ApiException(POLICY_VIOLATION).

        Either both counts are None, or ``assignments`` is None.
        """


class PartitionChangeQuota(Protocol):
    """Limits how many partitions a client creates and deletes per second (KIP-599)."""

    def __call__(self, partition_count: int, /) -> None:
        """Counts partition changes; ApiException(THROTTLING_QUOTA_EXCEEDED) above the quota."""
