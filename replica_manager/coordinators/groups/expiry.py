"""Removes expired offsets and empty groups.

The state of a group decides when its offsets expire (KIP-211):

* in an Empty group: ``offsets.retention.minutes`` after the group became Empty, all at once (after
  the commit of each offset if the group's record is too old to contain that time);
* in a Stable consumer group: that time after the commit, for topics that no member subscribes to;
* in a group that never had members: that time after the commit;
* in any other group: never.

An offset that was committed with a retention time of its own expires after that time instead.  An
Empty group with neither offsets nor pending members is removed.  Tombstones delete the records of
removed offsets and groups.

Source: Kafka ``GroupMetadata.removeExpiredOffsets``, ``GroupMetadataManager.cleanupGroupMetadata``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kafka_common.model import TopicPartition
from replica_manager.coordinators.groups.config import MAX_GROUPS_PER_SWEEP
from replica_manager.coordinators.groups.events import Level, Quantity
from replica_manager.coordinators.groups.group import GroupMetadata, GroupState
from replica_manager.coordinators.groups.group_metadata_manager import GroupMetadataManager
from replica_manager.coordinators.groups.records import (
    OffsetAndMetadata,
    encode_group_key,
    encode_offset_key,
)
from replica_manager.coordinators.groups.timers import GroupTimer, TimerKind


class GroupMetadataCleanup:
    """Removes expired offsets and groups."""

    def __init__(self, manager: GroupMetadataManager) -> None:
        self._manager = manager
        self._to_sweep: list[str] = []
        """Group ids that the current sweep has still to check, the last one first."""
        self._removed_count = 0
        self._sweep_began_ms = 0

    def begin(self) -> None:
        """Schedules the first sweep immediately; later ones follow at the configured interval."""
        self._to_sweep = []
        self._manager.timers.set(GroupTimer(TimerKind.SWEEP), self._manager.now_ms)

    def sweep(self) -> None:
        """Removes the expired offsets of some groups; the next tick continues with the others."""
        manager = self._manager
        if not self._to_sweep:
            self._to_sweep = list(reversed(manager.groups))
            self._sweep_began_ms, self._removed_count = manager.now_ms, 0
        for _ in range(min(len(self._to_sweep), MAX_GROUPS_PER_SWEEP)):
            group = manager.groups.get(self._to_sweep.pop())
            if group is not None:
                self._removed_count += self.remove(group, self._expired(group))
        if self._to_sweep:
            manager.timers.set(GroupTimer(TimerKind.SWEEP), manager.now_ms)
            return
        interval_ms = manager.config.offsets_retention_check_interval_ms
        manager.timers.set(GroupTimer(TimerKind.SWEEP), self._sweep_began_ms + interval_ms)
        if self._removed_count:
            manager.measure(Quantity.EXPIRED_OFFSETS, self._removed_count)
            manager.say_of_log(
                Level.INFO,
                f"Removed {self._removed_count} expired offsets in"
                f" {manager.now_ms - self._sweep_began_ms} milliseconds.",
            )

    def _expired(self, group: GroupMetadata) -> list[TopicPartition]:
        now_ms, retention_ms = self._manager.now_ms, self._manager.config.offsets_retention_ms
        base_ms: int | None = None
        subscribed: frozenset[str] = frozenset()
        if group.protocol_type is None:
            pass
        elif group.state is GroupState.EMPTY:
            base_ms = group.state_timestamp_ms
        elif (
            group.is_consumer_group
            and group.state is GroupState.STABLE
            and group.subscribed_topics is not None
        ):
            subscribed = group.subscribed_topics
        else:
            return []

        def is_expired(partition: TopicPartition, committed: OffsetAndMetadata) -> bool:
            if partition.topic in subscribed:
                return False
            if committed.expire_timestamp_ms is not None:
                return now_ms >= committed.expire_timestamp_ms
            since = committed.commit_timestamp_ms if base_ms is None else base_ms
            return now_ms - since >= retention_ms

        return group.offsets.remove_expired(is_expired)

    def remove(self, group: GroupMetadata, removed: Sequence[TopicPartition]) -> int:
        """Appends tombstones for removed offsets, and removes the group if it is no longer needed.

        Returns the number of removed offsets.
        """
        manager, group_id = self._manager, group.group_id
        # A client with a pending member id must find the group when it joins again.
        is_awaited = bool(group.pending_members)
        if group.state is GroupState.EMPTY and not group.offsets and not is_awaited:
            manager.say_of_log(
                Level.INFO,
                f"Group {group_id} transitioned to Dead in generation {group.generation_id}",
            )
            group.transition_to(GroupState.DEAD, manager.now_ms)
        keys = [encode_offset_key(group_id, partition) for partition in removed]
        if group.is_dead:
            manager.forget_group(group)
            # A group that never had members has no record, and so needs no tombstone.
            if group.generation_id > 0:
                keys.append(encode_group_key(group_id))
        if keys:
            manager.append_tombstones(manager.partition_for(group_id), keys)
        return len(removed)

    def remove_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Removes the offsets of deleted partitions from all groups."""
        partitions = dict.fromkeys(partitions)
        count = sum(
            self.remove(group, group.offsets.remove(group.offsets.known_among(partitions)))
            for group in list(self._manager.groups.values())
        )
        self._manager.say(
            Level.INFO,
            f"Removed {count} offsets associated with deleted partitions:"
            f" {', '.join(map(str, partitions))}.",
        )

    def delete_group(self, group: GroupMetadata) -> int:
        """Deletes an Empty group for DeleteGroups; returns the number of its offsets."""
        group.transition_to(GroupState.DEAD, self._manager.now_ms)
        return self.remove(group, group.offsets.remove_all())
