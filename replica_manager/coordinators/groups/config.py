"""The configuration of a group coordinator, and its own bounds.

The fields have Kafka's defaults; :mod:`..group_settings` sets them from ``server.properties``.

Source: Kafka ``GroupCoordinatorConfig``, ``OffsetConfig``, ``GroupConfig``.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from kafka_common.protocol.inter_broker_versions import LATEST, InterBrokerVersion

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""How long a new member, which does not know its id yet, may wait in JoinGroup (as in Kafka)."""

MAX_PENDING_MEMBERS: Final = 10_000
"""Limit of pending member ids of one group; beyond it the oldest id is removed.

A client that joins with a removed id gets UNKNOWN_MEMBER_ID and requests another one.
"""

MAX_PENDING_MEMBER_CHARACTERS: Final = 4_000_000
"""Limit of the characters of a group's pending member ids; beyond it the oldest are removed."""

MAX_GROUPS: Final = 1_000_000
"""Limit of groups of one coordinator; then a new group gets COORDINATOR_NOT_AVAILABLE."""

MAX_TIMERS_PER_TICK: Final = 1_000
"""Timers that fire in one tick, so that a million expired sessions do not block the broker."""

MAX_GROUPS_PER_SWEEP: Final = 1_000
"""Groups that one tick checks for expired offsets."""

MAX_GROUPS_PER_INSTALL: Final = 500
"""Groups of a loaded partition that one tick creates."""

ALL_REPLICAS: Final = -1


class GroupConfig(Struct, frozen=True):
    """The settings of a group coordinator; times in milliseconds."""

    broker_id: int = 0
    min_session_timeout_ms: int = 6_000
    """``group.min.session.timeout.ms``"""
    max_session_timeout_ms: int = 1_800_000
    """``group.max.session.timeout.ms``"""
    initial_rebalance_delay_ms: int = 3_000
    """``group.initial.rebalance.delay.ms``"""
    max_size: int = 2**31 - 1
    """``group.max.size``: the most members of one group."""
    offset_metadata_max_bytes: int = 4096
    """``offset.metadata.max.bytes``; as in Kafka, in fact a number of UTF-16 units."""
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1000
    """``offsets.retention.minutes``"""
    offsets_retention_check_interval_ms: int = 600_000
    """``offsets.retention.check.interval.ms``"""
    offsets_commit_required_acks: int = ALL_REPLICAS
    """``offsets.commit.required.acks``"""
    offsets_commit_timeout_ms: int = 5_000
    """``offsets.commit.timeout.ms``"""
    offsets_topic_segment_bytes: int = 104_857_600
    """``offsets.topic.segment.bytes``"""
    inter_broker_version: InterBrokerVersion = LATEST
    max_member_bytes: int = 4 * 1024 * 1024
    """Limit of the protocols of one member, with their metadata.

    Kafka has no such limits.  But there a group must fit into one record of
    ``__consumer_offsets``: by default 1 MB for the chosen protocol of all members.
    """
    max_group_bytes: int = 32 * 1024 * 1024
    """Limit of the memory of all members of one group."""
    max_members_bytes: int = 256 * 1024 * 1024
    """Limit of the memory of all members of all groups of this coordinator."""

    @property
    def has_static_membership(self) -> bool:
        """Whether all brokers of the cluster write ``group.instance.id`` into group records."""
        return self.inter_broker_version.is_at_least("2.3-IV0")
