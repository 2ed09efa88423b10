"""The coordinator's partitions of ``__consumer_offsets``: loading and unloading.

The new leader of a partition reads the log from its start to its end; the last record of a key
counts.  The groups are available once the whole log is read.  An election or resignation with a
leader epoch below the newest known one is ignored.

Offsets of a transaction count once its commit marker is written.  A transaction without a marker
stays open.

Source: Kafka ``GroupMetadataManager`` (``doLoadGroupsAndOffsets``, ``removeGroupsAndOffsets``).
Deviation: a record that cannot be read is logged and skipped, where Kafka stops reading the
partition and serves it without any group.  A partition whose log cannot be read to its end is not
served.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import error as struct_error
from struct import unpack_from
from typing import Final

from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition
from replica_manager.coordinators.groups.config import MAX_GROUPS_PER_INSTALL
from replica_manager.coordinators.groups.events import (
    Level,
    Load,
    LoadedBatch,
    LoadedRecord,
    Quantity,
)
from replica_manager.coordinators.groups.group import GroupMetadata, GroupState, group_of
from replica_manager.coordinators.groups.group_metadata_manager import (
    OFFSETS_TOPIC,
    GroupMetadataManager,
)
from replica_manager.coordinators.groups.offset_table import LoggedOffset
from replica_manager.coordinators.groups.rebalance import Rebalance
from replica_manager.coordinators.groups.record_reader import GroupRecordCorrupt
from replica_manager.coordinators.groups.records import (
    GroupKey,
    OffsetKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
)
from replica_manager.coordinators.groups.requests import JoinResult, SyncResult
from replica_manager.coordinators.groups.sessions import Sessions
from replica_manager.coordinators.groups.timers import GroupTimer, TimerKind

_COMMIT_MARKER: Final = 1

_Offsets = dict[TopicPartition, LoggedOffset]


@dataclass(slots=True)
class _PartitionLoad:
    """The records of a partition read so far."""

    partition: int
    leader_epoch: int
    began_ms: int
    groups: dict[str, bytes] = field(default_factory=dict)
    """The value of the last record of each group, decoded when the load ends."""
    offsets: dict[str, _Offsets] = field(default_factory=dict)
    pending: dict[int, dict[OffsetKey, LoggedOffset]] = field(default_factory=dict)
    """Offsets of open transactions, by producer id."""
    completed: list[tuple[int, bool]] = field(default_factory=list)
    """Producer id and ``is_commit`` of markers written during the load, which it may not read."""
    to_install: list[str] = field(default_factory=list)
    """Ids of groups that are read but not created yet, the last one first."""


class GroupPartitions:
    """Loads and unloads the groups of the partitions that this broker leads."""

    def __init__(
        self, manager: GroupMetadataManager, sessions: Sessions, rebalance: Rebalance
    ) -> None:
        self._manager = manager
        self._sessions = sessions
        self._rebalance = rebalance
        self._owned: set[int] = set()
        self._loads: dict[int, _PartitionLoad] = {}
        """The current loads, by load id."""
        self._load_ids: dict[int, int] = {}
        """The id of the current load, by partition."""
        self._epochs: dict[int, int] = {}
        """The newest known leader epoch, by partition."""
        self._last_load_id = 0

    @property
    def is_loading(self) -> bool:
        return bool(self._load_ids)

    def error_of(self, group_id: str) -> ErrorCode | None:
        """The error for requests about the group; None if its partition is loaded."""
        partition = self._manager.partition_for(group_id)
        if partition in self._load_ids:
            return ErrorCode.coordinator_load_in_progress
        return None if partition in self._owned else ErrorCode.not_coordinator

    # ------------------------------------------------------------------ elections

    def elected(self, partition: int, leader_epoch: int) -> None:
        """Starts loading a partition that this broker leads, unless it is loaded or loading."""
        manager, name = self._manager, _name(partition)
        manager.say(
            Level.INFO,
            f"Elected as the group coordinator for partition {partition} in epoch {leader_epoch}",
        )
        if not self._is_newest(partition, leader_epoch):
            manager.say_of_log(
                Level.INFO,
                f"Not loading offsets and group metadata for {name} in epoch {leader_epoch} since"
                f" current epoch is {self._epochs[partition]}",
            )
        elif partition in self._owned or partition in self._load_ids:
            manager.say_of_log(
                Level.INFO, f"Already loading offsets and group metadata from {name}"
            )
        else:
            manager.say_of_log(
                Level.INFO,
                f"Scheduling loading of offsets and group metadata from {name} for epoch"
                f" {leader_epoch}",
            )
            self._last_load_id += 1
            self._load_ids[partition] = self._last_load_id
            self._loads[self._last_load_id] = _PartitionLoad(
                partition, leader_epoch, manager.now_ms
            )
            manager.outbox.append(Load(partition, self._last_load_id))

    def resigned(self, partition: int, leader_epoch: int | None) -> None:
        """Unloads the groups of a partition that this broker no longer leads.

        ``leader_epoch`` is None if it is unknown; then the partition is unloaded in any case.
        """
        manager, name = self._manager, _name(partition)
        epoch = "OptionalInt.empty" if leader_epoch is None else f"OptionalInt[{leader_epoch}]"
        manager.say(
            Level.INFO,
            f"Resigned as the group coordinator for partition {partition} in epoch {epoch}",
        )
        manager.say_of_log(
            Level.INFO, f"Scheduling unloading of offsets and group metadata from {name}"
        )
        if leader_epoch is not None and not self._is_newest(partition, leader_epoch):
            manager.say_of_log(
                Level.INFO,
                f"Not removing offsets and group metadata for {name} in epoch {epoch} since"
                f" current epoch is {self._epochs[partition]}",
            )
            return
        self._owned.discard(partition)
        load_id = self._load_ids.pop(partition, 0)
        self._loads.pop(load_id, None)
        manager.timers.cancel(GroupTimer(TimerKind.LOAD, load_id=load_id))
        gone = [
            group
            for group in manager.groups.values()
            if manager.partition_for(group.group_id) == partition
        ]
        for group in gone:
            self.unload(group, ErrorCode.not_coordinator)
        for producer_id, group_ids in list(manager.groups_of_producers.items()):
            away = [each for each in group_ids if manager.partition_for(each) == partition]
            manager.forget_producer(producer_id, away)
        manager.say_of_log(
            Level.INFO,
            f"Finished unloading {name} for coordinator epoch {epoch}. Removed"
            f" {sum(len(group.offsets) for group in gone)} cached offsets and {len(gone)} cached"
            " groups.",
        )

    def unload(self, group: GroupMetadata, error: ErrorCode) -> None:
        """Unloads a group; its parked requests get ``error`` as response."""
        self._manager.say(
            Level.INFO,
            f"Unloading group metadata for {group.group_id} with generation {group.generation_id}",
        )
        for member in group.members.values():
            self._sessions.respond_to_join(group, member, JoinResult(error, member.member_id))
            self._sessions.respond_to_sync(group, member, SyncResult(error))
        group.transition_to(GroupState.DEAD, self._manager.now_ms)
        self._manager.forget_group(group)

    def _is_newest(self, partition: int, leader_epoch: int) -> bool:
        newest = max(leader_epoch, self._epochs.get(partition, leader_epoch))
        self._epochs[partition] = newest
        return leader_epoch == newest

    # ------------------------------------------------------------------ reading

    def loaded(self, load_id: int, batches: tuple[LoadedBatch, ...]) -> None:
        """Handles the next batches of a load; ignores them if the load was cancelled."""
        load = self._loads.get(load_id)
        if load is None:
            return
        for batch in batches:
            if batch.is_control:
                self._end_transaction(load, batch)
                continue
            for record in batch.records:
                try:
                    self._take(load, batch, record)
                except GroupRecordCorrupt as reason:
                    self._log_skipped(load, f"the record at offset {record.offset}", reason)

    def _take(self, load: _PartitionLoad, batch: LoadedBatch, record: LoadedRecord) -> None:
        if record.key is None:
            raise GroupRecordCorrupt("Group metadata/offset entry key should not be null")
        match decode_key(record.key):
            case OffsetKey() as key:
                logged = None
                if record.value is not None:
                    logged = LoggedOffset(
                        decode_offset_value(record.value), batch.records[0].offset
                    )
                if batch.is_transactional:
                    _put(load.pending.setdefault(batch.producer_id, {}), key, logged)
                else:
                    _put(load.offsets.setdefault(key.group_id, {}), key.topic_partition, logged)
            case GroupKey(group_id):
                _put(load.groups, group_id, record.value)
            case unknown:
                self._manager.say_of_log(
                    Level.WARN,
                    f"Unknown message key with version {unknown.version} while loading offsets and"
                    f" group metadata from {_name(load.partition)}. Ignoring it. It could be a left"
                    " over from an aborted upgrade.",
                )

    def _end_transaction(self, load: _PartitionLoad, batch: LoadedBatch) -> None:
        pending = load.pending.pop(batch.producer_id, {})
        if not (batch.records and _is_commit(batch.records[0].key)):
            return
        for key, logged in pending.items():
            offsets = load.offsets.setdefault(key.group_id, {})
            known = offsets.get(key.topic_partition)
            if known is None or known.batch_offset < logged.batch_offset:
                offsets[key.topic_partition] = logged

    def _log_skipped(self, load: _PartitionLoad, what: str, reason: GroupRecordCorrupt) -> None:
        self._manager.say_of_log(
            Level.ERROR,
            f"Error loading offsets from {_name(load.partition)}: {what} is passed over: {reason}",
        )

    def failed(self, load_id: int, reason: str) -> None:
        """Ends a load that failed; requests for its groups then get NOT_COORDINATOR.

        If they were served, the groups would seem to have no members and no offsets.
        """
        load = self._loads.pop(load_id, None)
        if load is not None:
            del self._load_ids[load.partition]
            name = _name(load.partition)
            self._manager.say_of_log(Level.ERROR, f"Error loading offsets from {name}: {reason}")

    def finished(self, load_id: int) -> None:
        """Ends the reading of a log: its groups are now created, some with each tick."""
        load = self._loads.get(load_id)
        if load is None:
            return
        group_ids = dict.fromkeys(load.groups)
        group_ids |= {group_id: None for group_id, offsets in load.offsets.items() if offsets}
        group_ids |= dict.fromkeys(key.group_id for keys in load.pending.values() for key in keys)
        load.to_install = list(reversed(group_ids))
        self.install(load_id)

    def install(self, load_id: int) -> None:
        """Creates some of the loaded groups; after the last one the partition is served."""
        manager, load = self._manager, self._loads[load_id]
        for _ in range(min(len(load.to_install), MAX_GROUPS_PER_INSTALL)):
            self._install(self._group(load, load.to_install.pop()), load)
        if load.to_install:
            manager.timers.set(GroupTimer(TimerKind.LOAD, load_id=load_id), manager.now_ms)
            return
        del self._loads[load_id], self._load_ids[load.partition]
        self._owned.add(load.partition)
        for producer_id, is_commit in load.completed:
            self.transaction_completed(
                producer_id, frozenset({load.partition}), is_commit=is_commit
            )
        manager.measure(Quantity.PARTITION_LOAD_MS, manager.now_ms - load.began_ms)
        manager.say_of_log(
            Level.INFO,
            f"Finished loading offsets and group metadata from {_name(load.partition)} in"
            f" {manager.now_ms - load.began_ms} milliseconds for epoch {load.leader_epoch}, of"
            " which 0 milliseconds was spent in the scheduler.",
        )

    def _group(self, load: _PartitionLoad, group_id: str) -> GroupMetadata:
        value = load.groups.get(group_id)
        if value is not None:
            try:
                return group_of(group_id, decode_group_value(value), self._manager.now_ms)
            except GroupRecordCorrupt as reason:
                self._log_skipped(load, f"the last record of group {group_id}", reason)
        # There are only offsets, or the group's record is unreadable: members must join again.
        return GroupMetadata(group_id, self._manager.now_ms)

    def _install(self, group: GroupMetadata, load: _PartitionLoad) -> None:
        manager = self._manager
        pending_of_producers: dict[int, _Offsets] = {}
        for producer_id, keys in load.pending.items():
            offsets = {
                key.topic_partition: logged
                for key, logged in keys.items()
                if key.group_id == group.group_id
            }
            if offsets:
                pending_of_producers[producer_id] = offsets
                of_producer = manager.groups_of_producers.setdefault(producer_id, {})
                of_producer[group.group_id] = None
        group.offsets.load(load.offsets.get(group.group_id, {}), pending_of_producers)
        manager.adopt(group)
        for member in group.members.values():
            manager.say_loaded(group, member)
        manager.say(
            Level.INFO,
            f"Loading group metadata for {group.group_id} with generation {group.generation_id}",
        )
        if len(group.members) > manager.config.max_size:
            self._rebalance.prepare(
                group,
                f"Freshly-loaded group is over capacity ({manager.config.max_size}). Rebalancing in"
                " order to give a chance for consumers to commit offsets",
            )
        for member in group.members.values():
            self._sessions.renew(group, member)

    # ------------------------------------------------------------------ transactions

    def transaction_completed(
        self, producer_id: int, partitions: frozenset[int], *, is_commit: bool
    ) -> None:
        """Commits or drops the pending offsets of a producer, after its marker was written.

        For a partition that is being loaded this happens at the end of the load.
        """
        for partition in partitions & self._load_ids.keys():
            load = self._loads[self._load_ids[partition]]
            load.completed.append((producer_id, is_commit))
        of_producer = self._manager.groups_of_producers.get(producer_id, {})
        ended = [each for each in of_producer if self._manager.partition_for(each) in partitions]
        for group_id in ended:
            group = self._manager.groups.get(group_id)
            if group is not None:
                group.offsets.complete_transaction(producer_id, is_commit=is_commit)
        self._manager.forget_producer(producer_id, ended)


def _name(partition: int) -> str:
    return f"{OFFSETS_TOPIC}-{partition}"


def _put(table: dict, key: object, value: object | None) -> None:  # type: ignore[type-arg]
    """Stores the last value of a key; None (a tombstone) removes the key."""
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


def _is_commit(key: bytes | None) -> bool:
    """Whether the key of a control record (version, type) is that of a commit marker."""
    try:
        return key is not None and unpack_from(">hh", key)[1] == _COMMIT_MARKER
    except struct_error:
        return False
