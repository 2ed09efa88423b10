"""A follower's fetcher without I/O: chooses the next request, applies each response.

A :class:`ReplicaFetcher` follows one leader for some partitions.  Its task (:mod:`.fetcher_task`)
repeats three steps: take :meth:`~ReplicaFetcher.next_request`, send it, and pass the response to
``handle_epoch_ends``, ``handle_offsets`` or ``records_steps`` (or call ``handle_failure``).  One
request is in flight at a time.  The task owns sockets, threads and the clock.  Partitions may be
added or removed between two steps, so each response is compared with the current state first.

The three kinds of requests alternate: epochs, offsets, records.  So partitions that need one kind
again and again cannot keep the others from being fetched.

Source: Kafka ``AbstractFetcherThread``, ``ReplicaFetcherThread``, ``RemoteLeaderEndPoint``.
Kafka requests offsets while it handles OFFSET_OUT_OF_RANGE; here that is a stage of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.errors import (
    CorruptRecord,
    InvalidRecord,
    LimitReached,
    UnexpectedAppendOffset,
    ZkControllerError,
)
from kafka_common.model import NO_EPOCH, TopicPartition
from kafka_common.observability.prefixed_log import PrefixedLog
from kafka_common.protocol.fetch import FetchPartition
from kafka_common.protocol.record_batch import HEADER_BYTES, LOG_OVERHEAD
from replica_manager.log.files import FileSlice
from replica_manager.log.leader_epoch_file_cache import EpochEndOffset
from replica_manager.replication.fetch_log import fetcher_prefix
from replica_manager.replication.fetch_requests import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    AskEpochEnds,
    AskOffsets,
    AskRecords,
    EpochQuestion,
    EpochResponse,
    FetcherSettings,
    Idle,
    LeaderFetchResponse,
    OffsetQuestion,
    OffsetsResponse,
    Request,
)
from replica_manager.replication.fetch_session_handler import FetchSessionHandler
from replica_manager.replication.fetch_state import (
    FetchStage,
    InitialFetchState,
    PartitionFetchState,
    Truncation,
    first_state,
    truncation_for,
)
from replica_manager.replication.fetch_values import UNKNOWN_OFFSET, FetchPartitionData
from replica_manager.replication.replica_log import FollowerAppend, PlannedTruncation, ReplicaLog
from replica_manager.replication.throttle import ReplicationThrottle

_STAGES: Final = {
    LATEST_TIMESTAMP: FetchStage.FINDING_END,
    EARLIEST_TIMESTAMP: FetchStage.FINDING_START,
}
"""The stage of a partition, by the timestamp of its ListOffsets request."""
_OFFSETS_TURN: Final = 1
"""Index of the offsets request in the order epochs, offsets, records."""

BATCHES_AT_ONCE: Final = 500
"""Batches of one partition that are appended before other tasks run: some 5 ms."""
_LENGTH: Final = Struct(">i")
_LENGTH_AT: Final = 8

_logger = logging.getLogger("kafka.server.ReplicaFetcherThread")


@dataclass(slots=True)
class Progress:
    """The effects of one step of a Fetch response, for waiting requests and metrics."""

    high_watermark_moved: list[TopicPartition] = field(default_factory=list)
    """Partitions whose high watermark moved, so that waiting requests may be complete."""
    bytes_in: int = 0
    is_flush_due: bool = False
    """The log must be flushed before the next Fetch request reports the new log end offset."""
    is_piece: bool = False
    """The step appended only a part of the partition's records in the response."""


class ReplicaFetcher:
    """Fetches partitions from one leader.  Used on the event loop; no method waits."""

    def __init__(
        self,
        leader: int,
        log_of: Callable[[TopicPartition], ReplicaLog],
        settings: FetcherSettings,
        failed: set[TopicPartition] | None = None,
        fetcher_id: int = 0,
        throttle: ReplicationThrottle | None = None,
    ) -> None:
        """``log_of`` returns the log of a partition of this fetcher.

        The caller removes a partition whose log goes offline; until then its log raises
        KafkaStorage.
        """
        self.leader = leader
        prefix = fetcher_prefix(settings.replica_id, leader, fetcher_id)
        self._log = PrefixedLog(_logger, prefix)
        self._log_of = log_of
        self._settings = settings
        self._throttle = throttle
        self.session = FetchSessionHandler(leader, prefix)
        # In the order of the next Fetch request: a partition that got records moves to the end.
        self.partitions: dict[TopicPartition, PartitionFetchState] = {}
        self.failed: set[TopicPartition] = set() if failed is None else failed
        """Partitions that are no longer fetched until they are added again.

        All fetchers of a broker share the set.
        """
        self._planned: dict[TopicPartition, PlannedTruncation] = {}
        self._turn = 0

    # ------------------------------------------------------------------ partitions

    def add_partitions(self, initial: Mapping[TopicPartition, InitialFetchState]) -> None:
        """Adds partitions; one that is already fetched in the same leader epoch keeps its state."""
        self.failed.difference_update(initial)
        for tp, added in initial.items():
            state = self.partitions.pop(tp, None)
            if state is None or state.current_leader_epoch != added.current_leader_epoch:
                try:
                    state = first_state(
                        added,
                        self._log_of(tp),
                        truncates_on_fetch=self._settings.truncates_on_fetch,
                    )
                except Exception:  # noqa: BLE001 - one partition must not stop the others
                    self._log.exception("Partition %s cannot be fetched", tp)
                    self.failed.add(tp)
                    continue
            self.partitions[tp] = state

    def remove_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Removes partitions; responses in flight are ignored for them."""
        for tp in partitions:
            self.partitions.pop(tp, None)
            self.failed.discard(tp)

    def update_topic_id(self, partition: TopicPartition, topic_id: UUID | None) -> None:
        """Changes a partition's topic id; None: it is requested by its topic name."""
        state = self.partitions.get(partition)
        if state is not None:
            self.partitions[partition] = state._replace(topic_id=topic_id)

    # ------------------------------------------------------------------ requests

    def take_planned(self) -> list[PlannedTruncation]:
        """Removes and returns the reads that truncations need; they run in a thread.

        A partition with such a read is not truncated yet, and stays in its stage.  So the next
        response leads to the same truncation, which then needs no read.
        """
        planned = [plan for tp, plan in self._planned.items() if tp in self.partitions]
        self._planned.clear()
        return planned

    def next_request(self, now_ms: int) -> Request | Idle:
        """The next request, or how long to wait; truncates logs that need no request for it."""
        kinds: tuple[Callable[[int], Request | None], ...] = (
            self._ask_epoch_ends,
            self._ask_offsets,
            self._ask_records,
        )
        for step in range(len(kinds)):
            turn = (self._turn + step) % len(kinds)
            request = kinds[turn](now_ms)
            if request is not None:
                self._turn = turn + 1
                return request
        # A partition that is neither delayed nor requested is throttled: check it again later.
        backoff_ms = now_ms + self._settings.backoff_ms
        untils_ms = (
            state.delayed_until_ms
            if state.delayed_until_ms is not None and state.is_delayed(now_ms)
            else backoff_ms
            for state in self.partitions.values()
        )
        return Idle(min(untils_ms, default=None))

    def _ask_epoch_ends(self, now_ms: int) -> AskEpochEnds | None:
        questions: dict[TopicPartition, EpochQuestion] = {}
        for tp, state in list(self.partitions.items()):
            if not state.is_in(FetchStage.TRUNCATING, now_ms):
                continue
            try:
                latest = self._log_of(tp).latest_epoch
            except Exception:  # noqa: BLE001 - one partition must not stop the others
                self._log.exception(
                    "Unexpected error occurred while asking for the last epoch of %s", tp
                )
                self._delay([tp], now_ms)
                continue
            if latest is not None and self._settings.asks_epochs:
                questions[tp] = EpochQuestion(state.current_leader_epoch, latest)
            else:
                cut = Truncation(state.fetch_offset, True)
                cause = f"local high watermark {state.fetch_offset}"
                self._truncate(tp, cut, cause, now_ms)
        return AskEpochEnds(questions) if questions else None

    def _ask_offsets(self, now_ms: int) -> AskOffsets | None:
        questions = {
            tp: OffsetQuestion(state.current_leader_epoch, timestamp)
            for tp, state in self.partitions.items()
            for timestamp, stage in _STAGES.items()
            if state.is_in(stage, now_ms)
        }
        return AskOffsets(questions) if questions else None

    def _ask_records(self, now_ms: int) -> AskRecords | None:
        fetch_infos: dict[TopicPartition, FetchPartition] = {}
        for tp, state in list(self.partitions.items()):
            if not state.is_in(FetchStage.FETCHING, now_ms) or self._is_held_back(tp, state):
                continue
            try:
                log_start_offset = self._log_of(tp).log_start_offset
            except Exception:  # noqa: BLE001 - one partition must not stop the others
                self._log.exception("Unexpected error occurred while asking for records of %s", tp)
                self._delay([tp], now_ms)
                continue
            last_epoch = state.last_fetched_epoch
            uses_last_epoch = self._settings.truncates_on_fetch and last_epoch is not None
            fetch_infos[tp] = FetchPartition(
                state.topic_id,
                state.fetch_offset,
                self._settings.fetch_max_bytes,
                state.current_leader_epoch,
                last_epoch if uses_last_epoch and last_epoch is not None else NO_EPOCH,
                log_start_offset,
            )
        fetch = self.session.plan(fetch_infos)
        if not fetch.session_partitions and not fetch.to_forget:
            return None
        return AskRecords(fetch)

    def _is_held_back(self, tp: TopicPartition, state: PartitionFetchState) -> bool:
        """Whether the throttle (KIP-73) suspends the partition, which lags behind its leader."""
        throttle = self._throttle
        return (
            throttle is not None
            and throttle.is_throttled(tp)
            and (state.lag is None or state.lag > 0)
            and throttle.is_exceeded
        )

    # ------------------------------------------------------------------ responses

    def handle_failure(self, request: Request, now_ms: int, cause: str | None = None) -> None:
        """Handles a request without a readable response; ``cause`` is the text for the log."""
        match request:
            case AskRecords():
                self.session.handle_error(cause)
                self._delay(list(self.partitions), now_ms)
            case AskEpochEnds() | AskOffsets():
                self._delay(request.partitions, now_ms)

    def handle_epoch_ends(
        self, request: AskEpochEnds, response: EpochResponse, now_ms: int
    ) -> None:
        """Truncates logs to the epoch end offsets in an OffsetsForLeaderEpoch response."""
        for tp, question in request.partitions.items():
            state = self._asked_about(tp, question.current_leader_epoch, FetchStage.TRUNCATING)
            if state is None:
                continue
            error, end = response.get(tp, (ErrorCode.unknown_server_error, None))
            if error is ErrorCode.none and end is not None:
                self._truncate_to_epoch(tp, state, end, now_ms)
            elif error is ErrorCode.fenced_leader_epoch:
                self._on_fenced(tp, question.current_leader_epoch, now_ms)
            else:
                self._log.info(
                    "Retrying leaderEpoch request for partition %s as the leader reported an "
                    "error: %s",
                    tp,
                    error.name.upper(),
                )
                self._delay([tp], now_ms)

    def handle_offsets(self, request: AskOffsets, response: OffsetsResponse, now_ms: int) -> None:
        """Restarts partitions at the offsets in a ListOffsets response."""
        for tp, question in request.partitions.items():
            state = self._asked_about(
                tp, question.current_leader_epoch, _STAGES[question.timestamp]
            )
            if state is None:
                continue
            error, offset = response.get(tp, (ErrorCode.unknown_server_error, -1))
            if error is ErrorCode.none:
                self._restart_at(tp, state, offset, now_ms)
                continue
            # Fetch again: the response shows whether the offset is still out of range.
            self.partitions[tp] = state._replace(stage=FetchStage.FETCHING)
            if error is ErrorCode.fenced_leader_epoch:
                self._on_fenced(tp, question.current_leader_epoch, now_ms)
            else:
                self._log.info(
                    "Could not fetch offset for %s due to error: %s", tp, error.name.upper()
                )
                self._delay([tp], now_ms)

    def _asked_about(
        self, tp: TopicPartition, leader_epoch: int, stage: FetchStage
    ) -> PartitionFetchState | None:
        """The partition's state if it has not changed since the request was sent."""
        state = self.partitions.get(tp)
        is_same = state is not None and (state.current_leader_epoch, state.stage) == (
            leader_epoch,
            stage,
        )
        return state if is_same else None

    def records_steps(
        self, request: AskRecords, response: LeaderFetchResponse, now_ms: Callable[[], int]
    ) -> Iterator[tuple[TopicPartition, Progress]]:
        """Handles a Fetch response in steps: appends its records, or truncates a diverging log.

        A step handles one partition, or BATCHES_AT_ONCE batches of one.  Between two steps other
        tasks run, and partitions may be added or removed.
        """
        is_usable = self.session.handle_response(
            response.api_version,
            response.error,
            response.session_id,
            response.partitions.keys(),
            response.topic_ids,
            response.throttle_time_ms,
        )
        if not is_usable:
            if response.error is ErrorCode.fetch_session_topic_id_error:
                self._delay(list(self.partitions), now_ms())
            return
        for tp, data in response.partitions.items():
            fetch_info = request.fetch.session_partitions.get(tp)
            if fetch_info is None:
                continue
            for piece in _pieces(data):
                state = self.partitions.get(tp)
                if (
                    state is None
                    or not is_response_to(fetch_info, state)
                    or not state.is_in(FetchStage.FETCHING, now_ms())
                ):
                    break
                progress = Progress(is_piece=piece is not data)
                self._take(tp, state, fetch_info, piece, progress, now_ms())
                yield tp, progress
                taken = self.partitions.get(tp)
                if taken is None or taken.fetch_offset == state.fetch_offset:
                    break
                fetch_info = fetch_info._replace(fetch_offset=taken.fetch_offset)

    def _take(
        self,
        tp: TopicPartition,
        state: PartitionFetchState,
        fetch_info: FetchPartition,
        data: FetchPartitionData,
        progress: Progress,
        now_ms: int,
    ) -> None:
        match data.error:
            case ErrorCode.none if data.diverging_epoch is not None:
                # While the logs diverge, the high watermark of the response is not used.
                self._truncate_to_epoch(tp, state, data.diverging_epoch, now_ms)
            case ErrorCode.none:
                self._append(tp, state, data, progress, now_ms)
            case ErrorCode.offset_out_of_range:
                self._update(tp, state._replace(stage=FetchStage.FINDING_END))
            case ErrorCode.fenced_leader_epoch:
                self._on_fenced(tp, fetch_info.current_leader_epoch, now_ms)
            case error:
                self._log_error(tp, state, error)
                self._delay([tp], now_ms)

    def _log_error(self, tp: TopicPartition, state: PartitionFetchState, error: ErrorCode) -> None:
        """Logs an error in a Fetch response, at the same level as Kafka."""
        match error:
            case ErrorCode.unknown_leader_epoch:
                self._log.debug(
                    "Remote broker has a smaller leader epoch for partition %s than "
                    "this replica's current leader epoch of %d.",
                    tp,
                    state.current_leader_epoch,
                )
            case ErrorCode.not_leader_or_follower:
                self._log.debug(
                    "Remote broker is not the leader for partition %s, which could "
                    "indicate that the partition is being moved",
                    tp,
                )
            case (
                ErrorCode.unknown_topic_or_partition
                | ErrorCode.unknown_topic_id
                | ErrorCode.inconsistent_topic_id
            ):
                self._log.warning(
                    "Received %s from the leader for partition %s. This error may be "
                    "returned transiently when the partition is being created or "
                    "deleted, but it is not expected to persist.",
                    error.name.upper(),
                    tp,
                )
            case _:
                self._log.error(
                    "Error for partition %s at offset %d: %s",
                    tp,
                    state.fetch_offset,
                    error.name.upper(),
                )

    # ------------------------------------------------------------------ the logs

    def _append(
        self,
        tp: TopicPartition,
        state: PartitionFetchState,
        data: FetchPartitionData,
        progress: Progress,
        now_ms: int,
    ) -> None:
        try:
            log = self._log_of(tp)
            if state.fetch_offset != log.log_end_offset:
                self._log.error(
                    "Offset mismatch for partition %s: fetched offset = %d, log end offset = %d.",
                    tp,
                    state.fetch_offset,
                    log.log_end_offset,
                )
                self._fail(tp)
                return
            assert not isinstance(data.records, FileSlice), "they came over the wire"
            appended = append_as_follower(log, data.records)
            if log.update_high_watermark(data.high_watermark):
                progress.high_watermark_moved.append(tp)
            raise_log_start_offset(log, data.log_start_offset)
        except (CorruptRecord, InvalidRecord) as invalid:
            # Fetch again: the records may have been damaged on the network.
            self._log.error(
                "Found invalid messages during fetch for partition %s offset %d: %s",
                tp,
                state.fetch_offset,
                invalid,
            )
            self._delay([tp], now_ms)
            return
        except LimitReached as reached:
            self._log.error("Fetched records of %s are not appended yet: %s", tp, reached)
            self._delay([tp], now_ms)
            return
        except ZkControllerError:
            self._log.exception(
                "Error while processing data for partition %s at offset %d", tp, state.fetch_offset
            )
            self._fail(tp)
            return
        except Exception:  # noqa: BLE001 - one partition must not stop the others
            self._fail_unforeseen(tp, "processing data", state)
            return
        progress.bytes_in += appended.valid_bytes
        progress.is_flush_due |= appended.is_flush_due
        if self._throttle is not None and self._throttle.is_throttled(tp):
            self._throttle.record(len(data.records))
        has_records = appended.valid_bytes > 0
        next_offset = appended.last_offset + 1 if has_records else state.fetch_offset
        lag = max(0, data.high_watermark - next_offset)
        if has_records or state.lag is None:
            last_epoch = appended.last_leader_epoch
            epoch = state.last_fetched_epoch if last_epoch is None else last_epoch
            self._update(
                tp,
                state._replace(
                    fetch_offset=next_offset,
                    lag=lag,
                    last_fetched_epoch=epoch,
                    delayed_until_ms=None,
                ),
            )
        elif lag != state.lag:
            self.partitions[tp] = state._replace(lag=lag)  # keeps its place in the order

    def _restart_at(
        self, tp: TopicPartition, state: PartitionFetchState, offset: int, now_ms: int
    ) -> None:
        """Continues at the leader's log start or end offset, after OFFSET_OUT_OF_RANGE."""
        try:
            log = self._log_of(tp)
            own_end = log.log_end_offset
            if state.stage is FetchStage.FINDING_END and offset >= own_end:
                self._update(tp, state._replace(stage=FetchStage.FINDING_START))
                self._turn = _OFFSETS_TURN  # before a fetch, which may wait long for records
                return
            if state.stage is FetchStage.FINDING_END:
                if self._must_wait(tp, log, offset):
                    return
                self._log.warning(
                    "Reset fetch offset for partition %s from %d to current leader's "
                    "latest offset %d",
                    tp,
                    own_end,
                    offset,
                )
                log.truncate_to(offset)
            elif offset > own_end:
                self._log.warning(
                    "Truncate fully and reset fetch offset for partition %s from %d to the "
                    "current leader's start offset %d because the local replica's "
                    "end offset is smaller than the current leader's start offsets.",
                    tp,
                    own_end,
                    offset,
                )
                log.truncate_fully_and_start_at(offset)
            restarted = state._replace(
                fetch_offset=log.log_end_offset,
                stage=FetchStage.FETCHING,
                last_fetched_epoch=log.latest_epoch,
                lag=None,
            )
        except LimitReached as reached:
            self._log.error("%s is not truncated yet: %s", tp, reached)
            self._delay([tp], now_ms)
            return
        except ZkControllerError:
            self._log.exception("Error getting offset for partition %s", tp)
            self._fail(tp)
            return
        except Exception:  # noqa: BLE001 - one partition must not stop the others
            # Fetch again: the response shows whether the offset is still out of range.
            self._log.exception("Error getting offset for partition %s", tp)
            self.partitions[tp] = state._replace(stage=FetchStage.FETCHING)
            self._delay([tp], now_ms)
            return
        self._update(tp, restarted)

    def _truncate_to_epoch(
        self, tp: TopicPartition, state: PartitionFetchState, end: EpochEndOffset, now_ms: int
    ) -> None:
        """Truncates a log, given the end offset of a leader epoch on the leader."""
        try:
            cut = truncation_for(end, self._log_of(tp), state.fetch_offset)
        except Exception:  # noqa: BLE001 - one partition must not stop the others
            self._fail_unforeseen(tp, "truncation", state)
            return
        self._truncate(tp, cut, f"leader epoch and offset {_printed(tp, end)}", now_ms)

    def _truncate(self, tp: TopicPartition, cut: Truncation, cause: str, now_ms: int) -> None:
        state = self.partitions[tp]
        try:
            log = self._log_of(tp)
            if self._must_wait(tp, log, cut.offset):
                return
            self._log.info("Truncating partition %s with %s due to %s", tp, cut, cause)
            if cut.offset < log.high_watermark:
                self._log.warning(
                    "Truncating %s to offset %d below high watermark %d",
                    tp,
                    cut.offset,
                    log.high_watermark,
                )
            log.truncate_to(cut.offset)
            last_epoch = log.latest_epoch
        except LimitReached as reached:
            self._log.error("%s is not truncated yet: %s", tp, reached)
            self._delay([tp], now_ms)
            return
        except ZkControllerError:
            self._log.exception("Failed to truncate %s at offset %d", tp, cut.offset)
            self._fail(tp)
            return
        except Exception:  # noqa: BLE001 - one partition must not stop the others
            self._fail_unforeseen(tp, "truncation", state)
            return
        is_done = cut.is_complete or self._settings.truncates_on_fetch
        self.partitions[tp] = state._replace(
            fetch_offset=cut.offset,
            stage=FetchStage.FETCHING if is_done else FetchStage.TRUNCATING,
            last_fetched_epoch=last_epoch,
        )

    def _must_wait(self, tp: TopicPartition, log: ReplicaLog, offset: int) -> bool:
        """Whether the truncation to ``offset`` needs a read in a thread first; stores that read."""
        plan = log.plan_truncation(offset)
        if plan is not None:
            self._planned[tp] = plan
        return plan is not None

    # ------------------------------------------------------------------ delays and failures

    def _update(self, tp: TopicPartition, state: PartitionFetchState) -> None:
        del self.partitions[tp]
        self.partitions[tp] = state

    def _delay(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        for tp in partitions:
            state = self.partitions.get(tp)
            if state is not None and not state.is_delayed(now_ms):
                until_ms = now_ms + self._settings.backoff_ms
                self._update(tp, state._replace(delayed_until_ms=until_ms))

    def _on_fenced(self, tp: TopicPartition, asked_epoch: int, now_ms: int) -> None:
        """Handles FENCED_LEADER_EPOCH: the leader knows a newer epoch than the request.

        The partition fails until the next LeaderAndIsr request; if its epoch has changed since the
        request was sent, it is only delayed.
        """
        current = self.partitions[tp].current_leader_epoch
        if asked_epoch == current:
            self._log.info(
                "Partition %s has an older epoch (%d) than the current leader. Will await "
                "the new LeaderAndIsr state before resuming fetching.",
                tp,
                current,
            )
            self._fail(tp)
        else:
            self._log.info(
                "Partition %s has a newer epoch (%d) than the current leader. Retry the "
                "partition later.",
                tp,
                current,
            )
            self._delay([tp], now_ms)

    def _fail_unforeseen(self, tp: TopicPartition, doing: str, state: PartitionFetchState) -> None:
        """Stops fetching a partition because of the current exception."""
        self._log.exception(
            "Unexpected error occurred while %s for partition %s at offset %d",
            doing,
            tp,
            state.fetch_offset,
        )
        self._fail(tp)

    def _fail(self, tp: TopicPartition) -> None:
        del self.partitions[tp]
        self.failed.add(tp)
        self._log.warning("Partition %s marked as failed", tp)


def is_response_to(fetch_info: FetchPartition, state: PartitionFetchState) -> bool:
    """Whether a response to ``fetch_info`` is still valid for the partition's state.

    Meanwhile the partition may have been truncated, added again in another leader epoch, or added
    again for a new topic of the same name.  Kafka compares only the offset.
    """
    return (
        fetch_info.fetch_offset == state.fetch_offset
        and fetch_info.current_leader_epoch == state.current_leader_epoch
        and fetch_info.topic_id == state.topic_id
    )


def _pieces(data: FetchPartitionData) -> Iterator[FetchPartitionData]:
    """The response for a partition in pieces of BATCHES_AT_ONCE batches.

    Only the last piece has the leader's log start offset, which may be above the records of the
    other pieces.
    """
    if isinstance(data.records, FileSlice):
        yield data
        return
    left = len(data.records)
    for piece in batch_pieces(data.records):
        left -= len(piece)
        if left:
            yield data._replace(records=piece, log_start_offset=UNKNOWN_OFFSET)
        else:
            yield data if piece is data.records else data._replace(records=piece)


def batch_pieces(records: bytes | memoryview) -> Iterator[bytes | memoryview]:
    """The records in pieces of BATCHES_AT_ONCE batches."""
    if len(records) < BATCHES_AT_ONCE * HEADER_BYTES:
        yield records
        return
    view = memoryview(records)
    start = position = batches = 0
    while position + LOG_OVERHEAD < len(view):
        (length,) = _LENGTH.unpack_from(view, position + _LENGTH_AT)
        position += LOG_OVERHEAD + length
        batches += 1
        if length <= 0 or position >= len(view):
            break  # the last batch, or a malformed one, which the append reports
        if batches % BATCHES_AT_ONCE == 0:
            yield view[start:position]
            start = position
    yield records if start == 0 else view[start:]


def _printed(tp: TopicPartition, end: EpochEndOffset) -> str:
    return (
        f"EpochEndOffset(errorCode=0, partition={tp.partition}, leaderEpoch={end.epoch}, "
        f"endOffset={end.end_offset})"
    )


def append_as_follower(log: ReplicaLog, records: bytes | memoryview) -> FollowerAppend:
    """Appends a leader's records; an empty log may be moved back to the start of the first batch.

    DeleteRecords can move the leader's log start offset into a batch.  The follower starts at that
    offset, but receives the whole batch.

    Source: Kafka ``Partition.appendRecordsToFollowerOrFutureReplica``.
    """
    try:
        return log.append_as_follower(records)
    except UnexpectedAppendOffset as unexpected:
        end = log.log_end_offset
        is_empty = end == log.log_start_offset
        if not is_empty or not unexpected.first_offset < end <= unexpected.last_offset:
            raise
        log.truncate_fully_and_start_at(unexpected.first_offset)
        return log.append_as_follower(records)


def raise_log_start_offset(log: ReplicaLog, offset: int) -> None:
    """Raises the log start offset to ``offset``, unless that is above the high watermark."""
    if offset <= log.high_watermark:
        log.maybe_increment_log_start_offset(offset, "leader offset increment")
