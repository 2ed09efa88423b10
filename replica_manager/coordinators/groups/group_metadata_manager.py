"""The shared state of the group coordinator: groups, timers, outputs, appends to the log.

The state includes the *continuations*: the functions to call with the result of an append.  Each
append with an id has one.  A continuation runs once, even if the group has changed meanwhile, so
the function must check whether it still applies.

Source: Kafka ``GroupMetadataManager`` (``storeGroup``, ``appendForGroup``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.protocol.record_batch import NO_SEQUENCE
from replica_manager.coordinators.groups.config import MAX_GROUPS, GroupConfig
from replica_manager.coordinators.groups.coordinated_partition import partition_for
from replica_manager.coordinators.groups.events import (
    AppendGroupRecords,
    CoordinatorLogLine,
    GroupResponse,
    Level,
    Measured,
    Output,
    Quantity,
)
from replica_manager.coordinators.groups.group import GroupMetadata, MemberBytes
from replica_manager.coordinators.groups.member import Member
from replica_manager.coordinators.groups.records import (
    SimpleRecord,
    encode_group_key,
    encode_group_value,
    group_value_version,
)
from replica_manager.coordinators.groups.requests import Result, TransactionalProducer
from replica_manager.coordinators.groups.timers import GroupTimer, TimerKind, Timers

OFFSETS_TOPIC: Final = "__consumer_offsets"
NO_ACKS: Final = 0

Continuation: TypeAlias = Callable[[ErrorCode, int], None]
"""Called with the error of an append and its base offset (-1 after an error)."""

_GROUP_ERRORS: Final = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.request_timed_out: ErrorCode.rebalance_in_progress,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
    ErrorCode.invalid_fetch_size: ErrorCode.unknown_server_error,
}
"""The error that members get if their group's record cannot be written, by append error.

Other errors stay the same.
"""


class GroupMetadataManager:
    """The groups, timers and outputs of one coordinator."""

    def __init__(self, config: GroupConfig, new_uuid: Callable[[], UUID]) -> None:
        self.config = config
        self.new_uuid = new_uuid
        self.now_ms = 0
        self.partition_count = 1
        self.groups: dict[str, GroupMetadata] = {}
        self.member_bytes = MemberBytes()
        self.timers = Timers()
        self.outbox: list[Output] = []
        self.continuations: dict[int, Continuation] = {}
        self.groups_of_producers: dict[int, dict[str, None]] = {}
        """Ids of groups that may have offsets of a producer's open transaction, by producer id."""
        self._last_append_id = 0

    # ------------------------------------------------------------------ groups

    def partition_for(self, group_id: str) -> int:
        return partition_for(group_id, self.partition_count)

    def create_group(self, group_id: str) -> GroupMetadata | None:
        """Creates an Empty group; None if there are MAX_GROUPS already."""
        if len(self.groups) >= MAX_GROUPS:
            return None
        group = GroupMetadata(group_id, self.now_ms)
        self.adopt(group)
        return group

    def adopt(self, group: GroupMetadata) -> None:
        """Adds a new or loaded group."""
        self.groups[group.group_id] = group
        group.counted_in = self.member_bytes
        self.member_bytes.total += group.member_bytes

    def forget_group(self, group: GroupMetadata) -> None:
        """Removes the group and its timers."""
        del self.groups[group.group_id]
        self.member_bytes.total -= group.member_bytes
        group.counted_in = None
        for kind in (TimerKind.JOIN, TimerKind.SYNC):
            self.timers.cancel(GroupTimer(kind, group.group_id))
        for member_id in (*group.members, *group.pending_members):
            self.timers.cancel(GroupTimer(TimerKind.SESSION, group.group_id, member_id))

    # ------------------------------------------------------------------ outputs

    def respond(self, request_id: int, result: Result) -> None:
        self.outbox.append(GroupResponse(request_id, result))

    def say(self, level: Level, text: str) -> None:
        """Logs a line with Kafka's logger ``GroupCoordinator``."""
        broker_id = self.config.broker_id
        name = "kafka.coordinator.group.GroupCoordinator"
        self.outbox.append(
            CoordinatorLogLine(level, name, f"[GroupCoordinator {broker_id}]: {text}")
        )

    def say_of_log(self, level: Level, text: str) -> None:
        """Logs a line about ``__consumer_offsets``, with the logger ``GroupMetadataManager``."""
        broker_id = self.config.broker_id
        name = "kafka.coordinator.group.GroupMetadataManager"
        text = f"[GroupMetadataManager brokerId={broker_id}] {text}"
        self.outbox.append(CoordinatorLogLine(level, name, text))

    def say_of_group(self, text: str) -> None:
        """Logs a line about a group's members, with the logger ``GroupMetadata``."""
        name = "kafka.coordinator.group.GroupMetadata"
        self.outbox.append(CoordinatorLogLine(Level.INFO, name, text))

    def say_loaded(self, group: GroupMetadata, member: Member) -> None:
        """Logs a member that was read from ``__consumer_offsets``."""
        text = f"Loaded member {member} in group {group.group_id} with generation"
        name = "kafka.coordinator.group.GroupMetadata$"
        self.outbox.append(CoordinatorLogLine(Level.INFO, name, f"{text} {group.generation_id}."))

    def measure(self, quantity: Quantity, value: int) -> None:
        """Emits a measurement for the metrics."""
        self.outbox.append(Measured(quantity, value))

    def forget_producer(self, producer_id: int, group_ids: Iterable[str]) -> None:
        """Removes groups that no longer have pending offsets of the producer."""
        of_producer = self.groups_of_producers.get(producer_id, {})
        for group_id in group_ids:
            of_producer.pop(group_id, None)
        if not of_producer:
            self.groups_of_producers.pop(producer_id, None)

    # ------------------------------------------------------------------ the log

    def append(
        self,
        partition: int,
        records: Sequence[SimpleRecord],
        then: Continuation,
        producer: TransactionalProducer | None = None,
        base_sequence: int = NO_SEQUENCE,
    ) -> None:
        """Appends records to a partition, and calls ``then`` with the result."""
        self._last_append_id += 1
        self.continuations[self._last_append_id] = then
        acks = self.config.offsets_commit_required_acks
        self._append(partition, records, acks, self._last_append_id, producer, base_sequence)

    def append_tombstones(self, partition: int, keys: Sequence[bytes]) -> None:
        """Appends tombstones for ``keys``, without waiting for the result.

        If a tombstone is lost, the next coordinator loads the record, lets it expire and writes the
        tombstone again.
        """
        self._append(partition, [SimpleRecord(key, None) for key in keys], NO_ACKS, None)

    def store_group(
        self, group: GroupMetadata, assignments: dict[str, bytes], then: Callable[[ErrorCode], None]
    ) -> None:
        """Appends the group's record; ``then`` is called with the error for its members."""
        generation_id = group.generation_id

        def when_appended(error: ErrorCode, _base_offset: int) -> None:
            response_error = _GROUP_ERRORS.get(error, error)
            if error is not ErrorCode.none:
                is_expected = (
                    error in _GROUP_ERRORS and response_error is not ErrorCode.unknown_server_error
                )
                self.say_of_log(
                    Level.DEBUG if is_expected else Level.ERROR,
                    f"Appending metadata message for group {group.group_id} generation"
                    f" {generation_id} failed due to {error.name.upper()}",
                )
            then(response_error)

        version = group_value_version(self.config.inter_broker_version)
        value = encode_group_value(group.record(assignments), version)
        record = SimpleRecord(encode_group_key(group.group_id), value)
        self.append(self.partition_for(group.group_id), [record], when_appended)

    def _append(
        self,
        partition: int,
        records: Sequence[SimpleRecord],
        acks: int,
        append_id: int | None,
        producer: TransactionalProducer | None = None,
        base_sequence: int = NO_SEQUENCE,
    ) -> None:
        timeout_ms = self.config.offsets_commit_timeout_ms
        self.outbox.append(
            AppendGroupRecords(
                partition, tuple(records), self.now_ms, acks, timeout_ms, append_id, producer,
                base_sequence,
            )
        )  # fmt: skip
