"""OffsetCommit, OffsetFetch and OffsetDelete.

A member may commit only in the current generation.  So a member that was removed cannot overwrite
the newer offsets of the member that replaced it.  In CompletingRebalance no member may commit.
Consumers without group membership, and administrators, commit to a group without members.

OffsetFetch returns an offset once its record is in the log.

Source: Kafka ``GroupCoordinator`` (``handleCommitOffsets`` …), ``GroupMetadataManager``
(``storeOffsets``, ``getOffsets``).
"""

from __future__ import annotations

from typing import Final, assert_never

from kio.schema.errors import ErrorCode

from kafka_common.model import NO_EPOCH, TopicPartition
from kafka_common.protocol.record_batch import NO_PRODUCER_ID
from replica_manager.coordinators.groups.events import Level, Quantity
from replica_manager.coordinators.groups.expiry import GroupMetadataCleanup
from replica_manager.coordinators.groups.group import GroupMetadata, GroupState
from replica_manager.coordinators.groups.group_metadata_manager import GroupMetadataManager
from replica_manager.coordinators.groups.membership import GroupMembership
from replica_manager.coordinators.groups.records import (
    OffsetAndMetadata,
    SimpleRecord,
    encode_offset_key,
    encode_offset_value,
    offset_value_version,
)
from replica_manager.coordinators.groups.requests import (
    INVALID_OFFSET,
    CommitOffsets,
    CommitResult,
    CommittedOffset,
    DeleteOffsets,
    DeleteOffsetsResult,
    FetchedOffset,
    GroupOffsets,
    WantedOffsets,
)
from replica_manager.coordinators.groups.sessions import Sessions

_COMMIT_ERRORS: Final = {
    ErrorCode.network_exception: ErrorCode.coordinator_load_in_progress,
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.invalid_commit_offset_size,
    ErrorCode.record_list_too_large: ErrorCode.invalid_commit_offset_size,
    ErrorCode.invalid_fetch_size: ErrorCode.invalid_commit_offset_size,
}
"""The error that a client gets if its offsets cannot be written, by append error.

Other errors stay the same.
"""

_BASE_SEQUENCE: Final = 0
"""In every batch of offsets, as in Kafka; the coordinator's appends are not checked for it."""
_NO_OFFSET: Final = FetchedOffset(INVALID_OFFSET, NO_EPOCH, "", ErrorCode.none)
_UNSTABLE: Final = _NO_OFFSET._replace(error=ErrorCode.unstable_offset_commit)


def commit_error(error: ErrorCode) -> ErrorCode:
    """The client's error for offsets whose append ended with ``error``."""
    return _COMMIT_ERRORS.get(error, error)


class Offsets:
    """Handles the offset requests of all groups."""

    def __init__(
        self,
        manager: GroupMetadataManager,
        sessions: Sessions,
        membership: GroupMembership,
        expiry: GroupMetadataCleanup,
    ) -> None:
        self._manager = manager
        self._sessions = sessions
        self._membership = membership
        self._expiry = expiry

    # ------------------------------------------------------------------ commit

    def commit(self, request: CommitOffsets) -> None:
        """Appends the offsets; the response follows when they are in the log, or after an error."""
        group = self._manager.groups.get(request.group_id)
        is_transactional = request.producer is not None
        error: ErrorCode | None
        if group is None and request.generation_id >= 0:
            # For a transaction Kafka checks the member first, so the error differs.
            error = (
                ErrorCode.unknown_member_id if is_transactional else ErrorCode.illegal_generation
            )
        elif group is None:
            group = self._manager.create_group(request.group_id)
            error = ErrorCode.coordinator_not_available if group is None else None
        elif is_transactional:
            error = self._transactional_commit_error(group, request)
        else:
            error = self._commit_error(group, request)
        if error is not None or group is None:
            assert error is not None
            self.refuse_commit(request, error)
            return
        if group.members and not is_transactional:
            self._sessions.renew(group, group.members[request.member_id])
        self._write(group, request)

    def refuse_commit(self, request: CommitOffsets, error: ErrorCode) -> None:
        self._manager.respond(
            request.request_id, CommitResult(dict.fromkeys(request.offsets, error))
        )

    def _commit_error(self, group: GroupMetadata, request: CommitOffsets) -> ErrorCode | None:
        if request.generation_id < 0 and group.state is GroupState.EMPTY:
            return None
        error = self._membership.error_of_member(
            group, request.member_id, request.group_instance_id, "offset-commit"
        )
        if error is not None:
            return error
        if request.generation_id != group.generation_id:
            return ErrorCode.illegal_generation
        if group.state is GroupState.COMPLETING_REBALANCE:
            # The member knows the new generation, but not its assignment yet.
            return ErrorCode.rebalance_in_progress
        return None

    def _transactional_commit_error(
        self, group: GroupMetadata, request: CommitOffsets
    ) -> ErrorCode | None:
        # Old producers do not send the consumer's member id and generation (KIP-447).
        says_nothing = (
            request.generation_id < 0
            and not request.member_id
            and request.group_instance_id is None
        )
        if says_nothing or (request.generation_id < 0 and group.state is GroupState.EMPTY):
            return None
        error = self._membership.error_of_member(
            group, request.member_id, request.group_instance_id, "txn-offset-commit"
        )
        if error is None and request.generation_id != group.generation_id:
            return ErrorCode.illegal_generation
        return error

    def _write(self, group: GroupMetadata, request: CommitOffsets) -> None:
        manager, producer = self._manager, request.producer
        if producer is not None and producer.producer_id == NO_PRODUCER_ID:
            producer = None  # it is in no transaction, so its offsets count at once
        accepted = {
            partition: self._value(offset, request.retention_ms)
            for partition, offset in request.offsets.items()
            if self._is_short_enough(offset.metadata)
        }
        too_large = dict.fromkeys(request.offsets, ErrorCode.offset_metadata_too_large)
        if not accepted:
            manager.respond(request.request_id, CommitResult(too_large))
            return

        def when_appended(error: ErrorCode, base_offset: int) -> None:
            if error is ErrorCode.none:
                if producer is None:
                    group.offsets.complete(accepted, base_offset)
                else:
                    group.offsets.complete_transactional(
                        producer.producer_id, accepted, base_offset
                    )
                manager.measure(Quantity.COMMITTED_OFFSETS, 1)  # Kafka counts batches, not offsets
            else:
                if producer is None:
                    group.offsets.fail(accepted)
                else:
                    self._fail_transactional(group, producer.producer_id, accepted)
                manager.say_of_log(
                    Level.DEBUG,
                    f"Offset commit from group {group.group_id}, consumer {request.member_id} with"
                    f" generation {group.generation_id} failed when appending to log due to"
                    f" {error.name.upper()}",
                )
            results = dict.fromkeys(accepted, commit_error(error))
            manager.respond(request.request_id, CommitResult(too_large | results))

        if producer is None:
            group.offsets.prepare(accepted)
        else:
            group.offsets.prepare_transactional(producer.producer_id, accepted)
            manager.groups_of_producers.setdefault(producer.producer_id, {})[group.group_id] = None
        manager.append(
            manager.partition_for(group.group_id),
            [self._record(group, *each) for each in accepted.items()],
            when_appended,
            producer,
            _BASE_SEQUENCE,
        )

    def _fail_transactional(
        self,
        group: GroupMetadata,
        producer_id: int,
        offsets: dict[TopicPartition, OffsetAndMetadata],
    ) -> None:
        group.offsets.fail_transactional(producer_id, offsets)
        is_here = self._manager.groups.get(group.group_id) is group
        if is_here and not group.offsets.has_pending_of(producer_id):
            # The transaction may not have begun, and then no marker would remove the entry.
            self._manager.forget_producer(producer_id, (group.group_id,))

    def _is_short_enough(self, metadata: str) -> bool:
        # Java's ``String.length``: a character beyond the basic plane counts twice.
        utf16_units = len(metadata) + sum(character > "\uffff" for character in metadata)
        return utf16_units <= self._manager.config.offset_metadata_max_bytes

    def _value(self, offset: CommittedOffset, retention_ms: int | None) -> OffsetAndMetadata:
        now_ms = self._manager.now_ms
        committed_at = offset.commit_timestamp_ms
        return OffsetAndMetadata(
            offset.offset,
            offset.leader_epoch,
            offset.metadata,
            now_ms if committed_at is None else committed_at,
            None if retention_ms is None else now_ms + retention_ms,
        )

    def _record(
        self, group: GroupMetadata, partition: TopicPartition, committed: OffsetAndMetadata
    ) -> SimpleRecord:
        version = offset_value_version(
            self._manager.config.inter_broker_version,
            expires=committed.expire_timestamp_ms is not None,
        )
        return SimpleRecord(
            encode_offset_key(group.group_id, partition), encode_offset_value(committed, version)
        )

    # ------------------------------------------------------------------ fetch

    def fetch(self, wanted: WantedOffsets, *, requires_stable: bool) -> GroupOffsets:
        """The committed offsets of a group in any state; -1 for a partition without offset."""
        group = self._manager.groups.get(wanted.group_id)
        partitions = wanted.partitions
        if partitions is None:
            partitions = () if group is None else tuple(group.offsets)
        return GroupOffsets(
            wanted.group_id,
            ErrorCode.none,
            {each: _fetched(group, each, requires_stable) for each in partitions},
        )

    # ------------------------------------------------------------------ delete

    def delete(self, request: DeleteOffsets) -> DeleteOffsetsResult:
        """Removes the offsets of partitions, unless a member subscribes to their topics."""
        group = self._manager.groups.get(request.group_id)
        if group is None:
            return DeleteOffsetsResult(ErrorCode.group_id_not_found, {})
        match group.state:
            case GroupState.EMPTY:
                consumed: dict[TopicPartition, ErrorCode] = {}
            case _ if group.is_consumer_group:
                consumed = {
                    partition: ErrorCode.group_subscribed_to_topic
                    for partition in request.partitions
                    if group.is_subscribed_to(partition.topic)
                }
            case (
                GroupState.PREPARING_REBALANCE
                | GroupState.COMPLETING_REBALANCE
                | GroupState.STABLE
                | GroupState.DEAD
            ):
                return DeleteOffsetsResult(ErrorCode.non_empty_group, {})
            case _:
                assert_never(group.state)
        deleted = [each for each in request.partitions if each not in consumed]
        if deleted:
            count = self._expiry.remove(group, group.offsets.remove(deleted))
            self._manager.measure(Quantity.DELETED_OFFSETS, count)
            self._manager.say(
                Level.INFO,
                f"The following offsets of the group {request.group_id} were deleted:"
                f" {', '.join(map(str, deleted))}. A total of {count} offsets were removed.",
            )
        return DeleteOffsetsResult(
            ErrorCode.none, consumed | dict.fromkeys(deleted, ErrorCode.none)
        )


def _fetched(
    group: GroupMetadata | None, partition: TopicPartition, requires_stable: bool
) -> FetchedOffset:
    if group is None:
        return _NO_OFFSET
    if requires_stable and group.offsets.is_pending(partition):
        return _UNSTABLE
    committed = group.offsets.get(partition)
    if committed is None:
        return _NO_OFFSET
    return FetchedOffset(
        committed.offset, committed.leader_epoch, committed.metadata, ErrorCode.none
    )
