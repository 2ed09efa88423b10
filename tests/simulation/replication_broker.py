"""A broker's replication in the simulator: the code of production around logs in memory.

What is simulated is the wire and the disk.  Everything between (the replica manager, partitions,
sessions on both sides, fetchers, purgatory) is the real thing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, assert_never
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.model import Broker, TopicPartition
from kafka_common.protocol.fetch import FetchPartition
from replica_manager.log.leader_epoch_file_cache import EpochEndOffset
from replica_manager.replication.control_requests import LeaderAndIsrRequest
from replica_manager.replication.delayed_produce import DelayedProduce
from replica_manager.replication.fetch_requests import (
    LATEST_TIMESTAMP,
    AskEpochEnds,
    AskOffsets,
    AskRecords,
    EpochResponse,
    FetcherSettings,
    Idle,
    LeaderFetchResponse,
    OffsetsResponse,
    Request,
)
from replica_manager.replication.fetch_sessions import FetchSessionCache
from replica_manager.replication.fetch_values import FetchPartitionData, TopicIdPartition
from replica_manager.replication.isr import AlteredIsr, PendingIsr
from replica_manager.replication.isr_proposals import IsrProposals
from replica_manager.replication.leader_and_isr import become_leader_or_follower
from replica_manager.replication.partition import ALL_IN_SYNC, Partition, ProposalOutcome
from replica_manager.replication.partition_reads import (
    check_read,
    end_offset_for_leader_epoch,
    prepare_read,
)
from replica_manager.replication.purgatory import Purgatory
from replica_manager.replication.replica_fetcher import ReplicaFetcher
from replica_manager.replication.replica_fetchers import FetcherKey, ReplicaFetchers
from replica_manager.replication.replica_manager import ReplicaManager
from replica_manager.replication.zk_metadata_cache import MetadataUpdate, ZkMetadataCache
from tests.simulation.replication_controller import CONTROLLER_EPOCH, ControlMessage
from tests.simulation.replication_log import SimulatedLog
from tests.support.followers import take_records
from tests.support.steps import completed

if TYPE_CHECKING:
    from tests.simulation.replication_world import ReplicationWorld

TOPIC_ID: Final = UUID(int=1)
LAG_MS: Final = 150
PRODUCE_TIMEOUT_MS: Final = 400
MOST_RECORDS: Final = 3


class SimulatedBroker:
    """One broker: a folder of logs, and now and then a process."""

    def __init__(self, world: ReplicationWorld, broker_id: int) -> None:
        self.world = world
        self.broker_id = broker_id
        self.logs: dict[TopicPartition, SimulatedLog] = {}
        self.incarnation = 0
        """Odd while the process runs."""
        self.broker_epoch = -1

    @property
    def is_running(self) -> bool:
        return self.incarnation % 2 == 1

    # ------------------------------------------------------------------ the process

    def start(self) -> None:
        """Loads the logs and knows nothing of leaders."""
        assert not self.is_running
        self.incarnation += 1
        for log in self.logs.values():
            log.restart()
        world = self.world
        self.fetchers = ReplicaFetchers(
            1,
            self.logs.__getitem__,
            FetcherSettings(backoff_ms=20, truncates_on_fetch=world.truncates_on_fetch),
            self._wake,
            lambda _: None,
        )
        self.manager = ReplicaManager(
            self.broker_id,
            ZkMetadataCache(self.broker_id),
            write_state_changes=lambda _: None,
            now_ms=lambda: world.now_ms,
            logs=self,
            fetchers=self.fetchers,
            on_changed=self._changed,
            replica_lag_time_max_ms=LAG_MS,
        )
        self.sessions = FetchSessionCache(
            3, lambda: world.random.randint(1, 2**31 - 1), eviction_ms=500
        )
        self.produces: Purgatory[TopicPartition, Produced] = Purgatory()
        self.proposals = IsrProposals()
        self._busy: set[FetcherKey] = set()

    def kill(self) -> None:
        """The process ends; what it wrote stays."""
        assert self.is_running
        self.incarnation += 1

    def open(self, tp: TopicPartition, _: UUID | None, /, *, is_new: bool) -> SimulatedLog:  # noqa: ARG002
        """The log of a partition; part of what a replica manager asks for."""
        if tp not in self.logs:
            self.logs[tp] = self.world.make_log(self.broker_id, tp)
        return self.logs[tp]

    def delete(self, tp: TopicPartition, /) -> None:
        """Deletes a log; the simulated controller never wants it."""
        del self.logs[tp]

    def while_alive(self, action: Callable[[], None]) -> Callable[[], None]:
        """The action, unless this process is gone by then."""
        incarnation = self.incarnation

        def act() -> None:
            if self.incarnation == incarnation:
                action()

        return act

    # ------------------------------------------------------------------ the controller

    def control(self, message: ControlMessage) -> None:
        """Handles what the controller sent; an earlier incarnation's mail is refused."""
        if message.broker_epoch < self.broker_epoch:
            return
        live = [Broker(broker, ()) for broker in message.live_brokers]
        update = MetadataUpdate(8, 0, CONTROLLER_EPOCH, message.broker_epoch, (), live)
        completed(self.manager.update_metadata(update, 0))
        if message.partitions:
            request = LeaderAndIsrRequest(
                0,
                CONTROLLER_EPOCH,
                message.broker_epoch,
                message.partitions,
                {tp.topic: TOPIC_ID for tp in message.partitions},
            )
            completed(become_leader_or_follower(self.manager, request, 0))
            for partition in self.manager.partitions.values():
                partition.min_in_sync_replicas = self.world.min_in_sync_replicas

    def _submit(self, tp: TopicPartition, pending: PendingIsr) -> None:
        if not self.proposals.submit(tp, TOPIC_ID, pending):
            refused = ErrorCode.operation_not_attempted
            self._apply(tp, self.manager.partitions[tp].proposal_refused(pending, refused))
        self.propose()

    def propose(self) -> None:
        """Sends what is proposed, unless something is under way."""
        call = self.proposals.next_call()
        if call is not None:
            self.world.propose(self, call)

    def proposals_answered(
        self, responses: Mapping[TopicPartition, AlteredIsr | ErrorCode]
    ) -> None:
        """The controller's answers have come."""
        for tp, pending, response in self.proposals.handle_response(responses):
            partition = self.manager.partitions[tp]
            if isinstance(response, ErrorCode):
                outcome = partition.proposal_refused(pending, response)
            else:
                outcome = partition.proposal_accepted(pending, response, self.world.now_ms)
            self._apply(tp, outcome)
        self.propose()

    def _apply(self, tp: TopicPartition, outcome: ProposalOutcome) -> None:
        if outcome.retry is not None:
            self._submit(tp, outcome.retry)
        if outcome.high_watermark_moved:
            self._changed(tp)

    def tick(self) -> None:
        """What a broker does every half ``replica.lag.time.max.ms``, and for timeouts."""
        for tp, partition in self.manager.partitions.items():
            pending = partition.maybe_shrink_isr(self.world.now_ms)
            if pending is not None:
                self._submit(tp, pending)
        self.produces.expire(self.world.now_ms)

    def checkpoint(self) -> None:
        """Writes down the high watermarks."""
        for log in self.logs.values():
            log.checkpoint_high_watermark()

    # ------------------------------------------------------------------ producing

    def produce(self, tp: TopicPartition, value: str) -> bool:
        """Takes a record with acks=all; False if this broker refuses it."""
        partition = self.manager.partitions.get(tp)
        if partition is None or partition.append_refusal(ALL_IN_SYNC) is not ErrorCode.none:
            return False
        offset = self.logs[tp].append_as_leader(value, partition.leader_epoch)
        if partition.maybe_increment_high_watermark(self.world.now_ms):
            self._changed(tp)
        produced = Produced(tp, offset, value, self._check_committed)
        deadline_ms = self.world.now_ms + PRODUCE_TIMEOUT_MS
        if not self.produces.park(produced, [tp], deadline_ms):
            self._answer(produced)
        return True

    def _check_committed(self, tp: TopicPartition, offset: int) -> tuple[bool, ErrorCode]:
        partition = self.manager.partitions.get(tp)
        if partition is None:
            return False, ErrorCode.not_leader_or_follower
        return partition.check_enough_replicas_reach(offset)

    def _changed(self, tp: TopicPartition) -> None:
        for produced in self.produces.check(tp):
            self._answer(produced)

    def _answer(self, produced: Produced) -> None:
        if produced.errors[produced.partition] is ErrorCode.none:
            self.world.acknowledged(self, produced.partition, produced.offset, produced.value)

    # ------------------------------------------------------------------ following

    def _wake(self, key: FetcherKey, fetcher: ReplicaFetcher) -> None:
        if key not in self._busy:
            self._busy.add(key)
            self._soon(key, fetcher)

    def _soon(self, key: FetcherKey, fetcher: ReplicaFetcher) -> None:
        delay_ms = self.world.timeline.within(self.world.thinking_ms)
        self.world.timeline.after(
            delay_ms, self.while_alive(lambda: self._ask(key, fetcher)), background=True
        )

    def _ask(self, key: FetcherKey, fetcher: ReplicaFetcher) -> None:
        if self.fetchers.fetchers.get(key) is not fetcher:
            self._busy.discard(key)
            newer = self.fetchers.fetchers.get(key)
            if newer is not None:
                self._wake(key, newer)
            return
        request = fetcher.next_request(self.world.now_ms)
        if isinstance(request, Idle):
            self._soon(key, fetcher)
            return

        def answered(response: object) -> None:
            if self.fetchers.fetchers.get(key) is fetcher:
                self._take(fetcher, request, response)
            self._soon(key, fetcher)

        self.world.ask(self, key.leader, request, answered)

    def _take(self, fetcher: ReplicaFetcher, request: Request, response: object) -> None:
        now_ms = self.world.now_ms
        match request, response:
            case AskRecords(), LeaderFetchResponse():
                for tp in take_records(fetcher, request, response, now_ms).high_watermark_moved:
                    self._changed(tp)
            case AskEpochEnds(), dict():
                fetcher.handle_epoch_ends(request, response, now_ms)
            case AskOffsets(), dict():
                fetcher.handle_offsets(request, response, now_ms)
            case _:
                fetcher.handle_failure(request, now_ms)

    # ------------------------------------------------------------------ leading

    def serve(self, follower: int, request: Request) -> object:
        """Answers another broker."""
        match request:
            case AskRecords():
                return self._serve_records(follower, request)
            case AskEpochEnds():
                return self._serve_epoch_ends(request)
            case AskOffsets():
                return self._serve_offsets(request)
            case _:
                assert_never(request)

    def _serve_records(self, follower: int, request: AskRecords) -> LeaderFetchResponse:
        version = request.api_version(17)
        fetch = request.fetch
        to_send = fetch.to_send.items()
        context = completed(
            self.sessions.context(
                version,
                fetch.metadata,
                {TopicIdPartition(q.topic_id, tp.topic, tp.partition): q for tp, q in to_send},
                fetch.forgotten(version),
                {},
                is_from_follower=True,
                now_ms=self.world.now_ms,
            )
        )
        results = {
            name: self._read(follower, name.topic_partition, wanted)
            for name, wanted in context.partitions()
        }
        response = completed(context.respond(results, self.world.now_ms))
        told = {name.topic_partition: result for name, result in response.partitions.items()}
        topic_ids = [TOPIC_ID] if told else []
        return LeaderFetchResponse(version, response.error, response.session_id, told, topic_ids)

    def _read(
        self, follower: int, tp: TopicPartition, wanted: FetchPartition
    ) -> FetchPartitionData:
        partition = self.manager.partitions.get(tp)
        if partition is None:
            return FetchPartitionData(ErrorCode.unknown_topic_or_partition)
        read_info = prepare_read(partition, wanted, replica_id=follower)
        if isinstance(read_info, FetchPartitionData):
            return read_info
        most = self.world.random.randint(1, MOST_RECORDS)
        records = self.logs[tp].read(wanted.fetch_offset, most)
        self._record(partition, follower, wanted, read_info.log_end_offset)
        return FetchPartitionData(
            ErrorCode.none,
            read_info.high_watermark,
            read_info.last_stable_offset,
            read_info.log_start_offset,
            records,
        )

    def _record(
        self, partition: Partition, follower: int, wanted: FetchPartition, leader_end: int
    ) -> None:
        tp = partition.topic_partition
        effect = partition.record_fetch(
            follower, wanted.fetch_offset, wanted.log_start_offset, leader_end, self.world.now_ms
        )
        if effect.proposal is not None:
            self._submit(tp, effect.proposal)
        if effect.high_watermark_moved:
            self._changed(tp)

    def _serve_epoch_ends(self, request: AskEpochEnds) -> EpochResponse:
        responses: dict[TopicPartition, tuple[ErrorCode, EpochEndOffset]] = {}
        for tp, question in request.partitions.items():
            partition = self.manager.partitions.get(tp)
            if partition is not None:
                responses[tp] = end_offset_for_leader_epoch(partition, *question)
        return responses

    def _serve_offsets(self, request: AskOffsets) -> OffsetsResponse:
        responses: dict[TopicPartition, tuple[ErrorCode, int]] = {}
        for tp, question in request.partitions.items():
            partition = self.manager.partitions.get(tp)
            if partition is not None:
                log = partition.log
                is_end = question.timestamp == LATEST_TIMESTAMP
                responses[tp] = (
                    check_read(partition, question.current_leader_epoch, leader_only=True),
                    log.log_end_offset if is_end else log.log_start_offset,
                )
        return responses

    @property
    def partitions(self) -> Mapping[TopicPartition, Partition]:
        """What the process believes; nothing while there is none."""
        return self.manager.partitions if self.is_running else {}


class Produced(DelayedProduce):
    """One record on its way to being acknowledged."""

    def __init__(
        self,
        partition: TopicPartition,
        offset: int,
        value: str,
        check: Callable[[TopicPartition, int], tuple[bool, ErrorCode]],
    ) -> None:
        super().__init__({partition: offset + 1}, {}, check)
        self.partition = partition
        self.offset = offset
        self.value = value
