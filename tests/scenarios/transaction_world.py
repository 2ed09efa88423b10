"""A transaction coordinator and the world around it: a log, brokers that take markers, a clock.

What the coordinator wants appended is appended at once unless a test holds it back; markers stay
where the test can answer them.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import TypeVar

from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition
from replica_manager.coordinators.groups.events import (
    CoordinatorLogLine,
    CoordinatorStartup,
    Elected,
    Load,
    Loaded,
    LoadedBatch,
    LoadedRecord,
    LoadFinished,
    Tick,
)
from replica_manager.coordinators.groups.records import SimpleRecord
from replica_manager.coordinators.transactions.config import TransactionConfig
from replica_manager.coordinators.transactions.coordinator import TransactionCoordinator
from replica_manager.coordinators.transactions.events import (
    AppendTransactionRecords,
    Input,
    Marker,
    MarkersResponse,
    NewProducerId,
    Output,
    PartitionLoaded,
    ProducerIdGiven,
    SendMarkers,
    TransactionRecordsAppended,
    TransactionResponse,
)
from replica_manager.coordinators.transactions.records import decode_key, decode_value
from replica_manager.coordinators.transactions.requests import (
    AddPartitions,
    EndTransaction,
    ErrorResult,
    InitProducerId,
    InitProducerIdResult,
    ProducerIdAndEpoch,
    Request,
    Result,
    VerifyPartitions,
    VerifyResult,
)
from replica_manager.coordinators.transactions.states import TransactionState
from replica_manager.coordinators.transactions.transaction import Transaction

ID = "billing"
A = TopicPartition("orders", 0)
B = TopicPartition("orders", 1)
TIMEOUT_MS = 60_000
EPOCH = 5
_R = TypeVar("_R", bound=Result)


class World:
    """One coordinator, which has its only partition in epoch EPOCH unless a test says otherwise."""

    def __init__(
        self, *, is_elected: bool = True, answers_loads: bool = True, **config: int
    ) -> None:
        self.now_ms = 1_000_000
        self.leaders: dict[TopicPartition, int] = {A: 1, B: 2}
        self.coordinator = TransactionCoordinator(TransactionConfig(**config), self.leaders.get)
        self.log: list[SimpleRecord] = []
        """What stands in the one partition of ``__transaction_state``."""
        self.results: dict[int, Result] = {}
        self.holds_appends = False
        self.held: list[AppendTransactionRecords] = []
        self.append_error = ErrorCode.none
        self.holds_producer_ids = False
        self.wishes: list[NewProducerId] = []
        self.sent: list[SendMarkers] = []
        """Requests that no broker has answered yet."""
        self.lines: list[CoordinatorLogLine] = []
        self.load_id = 0
        """Of the load that was asked for last."""
        self.loads_ms: list[int] = []
        self._answers_loads = answers_loads
        self._producer_ids = count(1000)
        self._request_ids = count(1)
        self.step(CoordinatorStartup(partition_count=1))
        if is_elected:
            self.elect(EPOCH)

    # What happens.

    def step(self, given: Input) -> None:
        for output in self.coordinator.step(given, self.now_ms):
            self._perform(output)

    def _perform(self, output: Output) -> None:
        match output:
            case TransactionResponse(request_id, result):
                assert request_id not in self.results, "a request is answered once"
                self.results[request_id] = result
            case AppendTransactionRecords():
                assert output.partition == 0
                if self.holds_appends:
                    self.held.append(output)
                else:
                    self.append(output, self.append_error)
            case Load(partition, load_id):
                assert partition == 0
                self.load_id = load_id
                if self._answers_loads:
                    self.load()
            case NewProducerId():
                self.wishes.append(output)
                if not self.holds_producer_ids:
                    self.give_producer_id()
            case SendMarkers():
                busy = [each.broker_id for each in self.sent]
                assert output.broker_id not in busy, "one request to a broker at a time"
                self.sent.append(output)
            case CoordinatorLogLine():
                self.lines.append(output)
            case PartitionLoaded(duration_ms):
                self.loads_ms.append(duration_ms)

    def append(self, append: AppendTransactionRecords, error: ErrorCode = ErrorCode.none) -> None:
        """The outcome of an append; only what succeeds is in the log."""
        if error is ErrorCode.none:
            self.log += append.records
        self.step(TransactionRecordsAppended(append.append_id, error))

    def release(self, error: ErrorCode = ErrorCode.none) -> None:
        """The outcome of the append that was held back first."""
        self.append(self.held.pop(0), error)

    def give_producer_id(self, error: ErrorCode = ErrorCode.none) -> None:
        wish = self.wishes.pop(0)
        self.step(ProducerIdGiven(wish.wish_id, next(self._producer_ids), error))

    def load(self) -> None:
        """Reads the log to the coordinator."""
        records = tuple(
            LoadedRecord(offset, record.key, record.value) for offset, record in enumerate(self.log)
        )
        self.step(Loaded(self.load_id, (LoadedBatch(records),)))
        self.step(LoadFinished(self.load_id))
        self.run_until(self.now_ms)

    def elect(self, epoch: int) -> None:
        self.step(Elected(0, epoch))

    def run_until(self, time_ms: int) -> None:
        """Time passes: ticks come when they are due."""
        while True:
            due = self.coordinator.next_deadline_ms
            if due is None or due > time_ms:
                break
            self.now_ms = max(due, self.now_ms)
            self.step(Tick())
        self.now_ms = max(time_ms, self.now_ms)

    def pass_ms(self, duration_ms: int) -> None:
        self.run_until(self.now_ms + duration_ms)

    # What is asked.

    def ask(self, request: Request) -> int:
        self.step(request)
        return request.request_id

    def answer(self, request: Request, result_type: type[_R]) -> _R:
        """The answer, which must be there at once."""
        result = self.results[self.ask(request)]
        assert isinstance(result, result_type)
        return result

    def new_request_id(self) -> int:
        return next(self._request_ids)

    def init(
        self,
        expected: tuple[int, int] | None = None,
        *,
        transactional_id: str = ID,
        timeout_ms: int = TIMEOUT_MS,
    ) -> InitProducerIdResult:
        return self.answer(
            self.init_request(expected, transactional_id=transactional_id, timeout_ms=timeout_ms),
            InitProducerIdResult,
        )

    def init_request(
        self,
        expected: tuple[int, int] | None = None,
        *,
        transactional_id: str = ID,
        timeout_ms: int = TIMEOUT_MS,
    ) -> InitProducerId:
        believed = None if expected is None else ProducerIdAndEpoch(*expected)
        return InitProducerId(self.new_request_id(), transactional_id, timeout_ms, believed)

    def add(self, producer: tuple[int, int], *partitions: TopicPartition) -> ErrorCode:
        return self.answer(self.add_request(producer, *partitions), ErrorResult).error

    def add_request(self, producer: tuple[int, int], *partitions: TopicPartition) -> AddPartitions:
        return AddPartitions(self.new_request_id(), ID, *producer, partitions)

    def verify(
        self, producer: tuple[int, int], *partitions: TopicPartition
    ) -> Mapping[TopicPartition, ErrorCode]:
        request = VerifyPartitions(self.new_request_id(), ID, *producer, partitions)
        return self.answer(request, VerifyResult).errors

    def end(self, producer: tuple[int, int], *, is_commit: bool) -> ErrorCode:
        return self.answer(self.end_request(producer, is_commit=is_commit), ErrorResult).error

    def end_request(self, producer: tuple[int, int], *, is_commit: bool) -> EndTransaction:
        return EndTransaction(self.new_request_id(), ID, *producer, is_commit)

    def producer(self) -> tuple[int, int]:
        """A producer id and epoch for ID."""
        result = self.init()
        assert result.error is ErrorCode.none
        return result.producer_id, result.producer_epoch

    def ongoing(self) -> tuple[int, int]:
        """A producer whose transaction has A and B."""
        producer = self.producer()
        assert self.add(producer, A, B) is ErrorCode.none
        return producer

    # What brokers answer.

    @property
    def markers(self) -> list[tuple[int, Marker]]:
        """Broker and marker, of the requests that are under way."""
        return [(each.broker_id, marker) for each in self.sent for marker in each.markers]

    def answer_markers(
        self, broker_id: int, errors: Mapping[TopicPartition, ErrorCode] | None = None
    ) -> None:
        """That broker has done what it was asked, but for what ``errors`` says."""
        request = next(each for each in self.sent if each.broker_id == broker_id)
        self.sent.remove(request)
        told: dict[int, dict[TopicPartition, ErrorCode]] = {}
        for marker in request.markers:
            of_producer = told.setdefault(marker.producer_id, {})
            for partition in marker.partitions:
                of_producer[partition] = (errors or {}).get(partition, ErrorCode.none)
        self.step(MarkersResponse(request.send_id, told))

    def lose_markers(self, broker_id: int) -> None:
        """That broker's connection breaks before it answers."""
        request = next(each for each in self.sent if each.broker_id == broker_id)
        self.sent.remove(request)
        self.step(MarkersResponse(request.send_id, None))

    # What is to be seen.

    @property
    def transaction(self) -> Transaction:
        return self.coordinator.owned[0].transactions[ID]

    def state(self) -> TransactionState:
        return self.transaction.state

    @property
    def logged(self) -> list[TransactionState | None]:
        """The states that stand in the log, one after the other; None for a tombstone."""
        states: list[TransactionState | None] = []
        for key, value in self.log:
            transactional_id = decode_key(key)
            assert transactional_id is not None
            found = None if value is None else decode_value(transactional_id, value)
            states.append(None if found is None else found.state)
        return states
