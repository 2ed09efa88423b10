"""Clients of confluent-kafka whose operations a history records."""

from __future__ import annotations

import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import TracebackType
from typing import Any, Final, Self

from typing_extensions import override

from kafka_common.errors import ConfigInvalid
from zkcontroller_testing.client_history import ClientHistory, Invocation
from zkcontroller_testing.operations import ClientAct
from zkcontroller_testing.waiting import PATIENCE_S, NotInTime

_SLICE_S: Final = 0.1
_PACE_S: Final = 0.005
"""Pause of a load's producer after each record; some hundred records a second are enough."""
_BATCH: Final = 500
_RESPONSE_S: Final = 5.0
_ABORTED: Final = 3
"""Every third transaction of a load is aborted."""
_RECORDS: Final = 2
"""Records of a load's transaction in each partition."""
_QUIET: Final = {
    "log_level": 0,
    # Reconnect soon after a broker is back, because tests wait for it.
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "topic.metadata.refresh.interval.ms": 1_000,
}
_REFUSED: Final = ("MSG_SIZE_TOO_LARGE", "INVALID_TIMESTAMP", "TOPIC_AUTHORIZATION_FAILED")
"""Errors after which a record is certainly not in the log."""


def confluent_kafka() -> Any:
    """The module confluent_kafka; ConfigInvalid if it is not installed."""
    try:
        return import_module("confluent_kafka")
    except ImportError as error:
        reason = "is not installed: pip install confluent-kafka"
        raise ConfigInvalid("client", "confluent-kafka", reason) from error


@contextmanager
def _noted(invocations: Sequence[Invocation]) -> Iterator[None]:
    """Completes the invocations when the block ends: ``ok``, or ``info`` if the client fails."""
    try:
        yield
    except confluent_kafka().KafkaException as failure:
        for each in invocations:
            each.info(failure)
    else:
        for each in invocations:
            each.ok()


class _RecordedClient(ABC):
    """The common part of producers and consumers: a name and :meth:`close`."""

    def __init__(self, history: ClientHistory, kind: str) -> None:
        self.name = history.name(kind)
        self._history = history

    @abstractmethod
    def close(self) -> None:
        """Closes the client."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.close()


class RecordedProducer(_RecordedClient):
    """A producer of unique values; for one thread."""

    def __init__(
        self, history: ClientHistory, *, is_transactional: bool, config: Mapping[str, Any]
    ) -> None:
        """With transactions, waits until the transaction coordinator has given a producer id."""
        super().__init__(history, "transactor" if is_transactional else "producer")
        settings = {
            **history.client_config(),
            **_QUIET,
            "client.id": self.name,
            "enable.idempotence": True,
            "linger.ms": 1,
            **config,
        }
        if is_transactional:
            settings |= {"transactional.id": self.name, "transaction.timeout.ms": 10_000, **config}
        self._is_idempotent = bool(settings["enable.idempotence"])
        self._module = confluent_kafka()
        self._producer = self._module.Producer(settings)
        self._number = 0
        self._transactions = 0
        self._transaction = ""
        if is_transactional:
            self._producer.init_transactions(PATIENCE_S)

    def send(self, topic: str, partition: int = 0, *, key: bytes | None = None) -> None:
        """Sends the next value; :meth:`flush` waits for the responses."""
        self._number += 1
        value = f"{self.name}:{self._number}"
        invocation = self._history.invoke(
            self.name,
            ClientAct.SEND,
            topic=topic,
            partition=partition,
            value=value,
            transaction=self._transaction,
            is_idempotent=self._is_idempotent,
        )

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                # The offset is None if only the response to a later batch acknowledged this record.
                invocation.ok(offset=-1 if message.offset() is None else message.offset())
            elif error.name() in _REFUSED:
                invocation.fail(error)
            else:
                invocation.info(error)

        try:
            self._producer.produce(
                topic, value.encode(), key=key, partition=partition, on_delivery=delivered
            )
        except BufferError as error:  # the queue is full while there is no leader
            invocation.fail(error)
        self._producer.poll(0)

    def flush(self, timeout_s: float = PATIENCE_S) -> int:
        """Waits for the responses; returns the number of records that still have none."""
        left: int = self._producer.flush(timeout_s)
        return left

    def begin(self) -> None:
        """Begins a transaction for the records that are sent from now on."""
        self._transactions += 1
        self._transaction = f"{self.name}/{self._transactions}"
        self._producer.begin_transaction()

    def commit(self, timeout_s: float = PATIENCE_S) -> bool:
        """Commits the transaction; False: it failed, and was aborted if the error requires it."""
        return self._end(ClientAct.COMMIT, self._producer.commit_transaction, timeout_s)

    def abort(self, timeout_s: float = PATIENCE_S) -> bool:
        """Aborts the transaction; False: it is not known whether it was aborted."""
        return self._end(ClientAct.ABORT, self._producer.abort_transaction, timeout_s)

    def commit_group_offset(
        self, consumer: RecordedConsumer, timeout_s: float = PATIENCE_S
    ) -> None:
        """Adds the consumer's positions, as offsets of its group, to the transaction."""
        with _noted(consumer.invoke_offsets(self._transaction)):
            self._producer.send_offsets_to_transaction(
                consumer.positions(), consumer.group_metadata(), timeout_s
            )

    @override
    def close(self) -> None:
        """Waits for the responses to all records sent."""
        self.flush()

    def _end(self, act: ClientAct, call: Callable[[float], None], timeout_s: float) -> bool:
        name, deadline = self._transaction, time.monotonic() + timeout_s
        invocation = self._history.invoke(self.name, act, transaction=name)
        while True:
            try:
                call(max(_SLICE_S, deadline - time.monotonic()))
            except self._module.KafkaException as failure:
                error = failure.args[0]
                if error.retriable() and time.monotonic() < deadline:
                    continue
                if act is ClientAct.COMMIT and error.txn_requires_abort():
                    invocation.fail(error)
                    self.abort(timeout_s)
                else:
                    invocation.info(error)
                return False
            self._transaction = ""
            invocation.ok()
            return True


class RecordedConsumer(_RecordedClient):
    """A consumer of one topic; for one thread."""

    def __init__(
        self,
        history: ClientHistory,
        topic: str,
        partitions: int,
        group: str | None,
        *,
        is_committed_only: bool,
        config: Mapping[str, Any],
    ) -> None:
        """``group`` None: reads all partitions from their start."""
        super().__init__(history, "consumer" if group is None else "member")
        self._topic = topic
        self._partitions = partitions
        self._group = group
        self._is_committed_only = is_committed_only
        self._ends: dict[int, int] = {}
        """The end offset reached in each partition, which may be after transaction markers."""
        self._module = confluent_kafka()
        self._consumer = self._module.Consumer(
            {
                **history.client_config(),
                **_QUIET,
                "client.id": self.name,
                "group.id": group or self.name,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed" if is_committed_only else "read_uncommitted",
                "fetch.wait.max.ms": 100,
                "enable.partition.eof": True,
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 500,
                **config,
            }
        )
        if group is None:
            every = range(partitions)
            self._consumer.assign([self._module.TopicPartition(topic, p, 0) for p in every])
        else:
            self._consumer.subscribe([topic], on_assign=self._assigned)

    def poll(self, timeout_s: float = _SLICE_S) -> list[tuple[int, int, str]]:
        """Reads for this time; returns partition, offset and value of each record."""
        since_ns = self._history.now_ns()
        found = []
        for message in self._consumer.consume(_BATCH, timeout_s):
            error = message.error()
            if error is not None and error.code() == self._module.KafkaError._PARTITION_EOF:
                self._ends[message.partition()] = message.offset()
                continue
            partition = message.partition()
            invocation = self._history.invoke(
                self.name,
                ClientAct.READ,
                since_ns=since_ns,
                topic=self._topic,
                partition=-1 if partition is None else partition,
                is_committed_only=self._is_committed_only,
            )
            if error is not None:
                invocation.fail(error)
                continue
            value = (message.value() or b"").decode(errors="replace")
            invocation.ok(offset=message.offset(), value=value)
            found.append((partition, message.offset(), value))
        return found

    def read_to_end(self, timeout_s: float = 2 * PATIENCE_S) -> None:
        """Reads up to the current ends of the partitions; NotInTime if they are not reached."""
        deadline = time.monotonic() + timeout_s
        ends = {p: self.watermark(p, timeout_s) for p in range(self._partitions)}
        while True:
            positions = {
                each.partition: max(each.offset, self._ends.get(each.partition, 0))
                for each in self.positions()
            }
            if all(positions[partition] >= end for partition, end in ends.items()):
                break
            if time.monotonic() > deadline:
                raise NotInTime(f"{self.name} is at {positions} of {self._topic}, which has {ends}")
            self.poll()
        for partition, position in positions.items():
            self._history.invoke(
                self.name,
                ClientAct.READ_TO_END,
                topic=self._topic,
                partition=partition,
                is_committed_only=self._is_committed_only,
            ).ok(offset=position)

    def watermark(self, partition: int = 0, timeout_s: float = PATIENCE_S) -> int:
        """Asks for the end offset of a partition; NotInTime if no broker responds."""
        deadline = time.monotonic() + timeout_s
        place = self._module.TopicPartition(self._topic, partition)
        while True:
            invocation = self._history.invoke(
                self.name,
                ClientAct.WATERMARK,
                topic=self._topic,
                partition=partition,
                is_committed_only=self._is_committed_only,
            )
            try:
                _, high = self._consumer.get_watermark_offsets(place, _RESPONSE_S)
            except self._module.KafkaException as failure:
                invocation.fail(failure)
                if time.monotonic() > deadline:
                    raise NotInTime(f"no end of {self._topic}-{partition}: {failure}") from None
            else:
                invocation.ok(offset=high)
                return int(high)

    def positions(self) -> Sequence[Any]:
        """The next offset to read in each assigned partition."""
        assigned = self._consumer.assignment()
        found: Sequence[Any] = self._consumer.position(assigned)
        return found

    def commit(self) -> None:
        """Commits its positions as offsets of its group."""
        positions = [each for each in self.positions() if each.offset >= 0]
        if not positions:
            return
        with _noted(self.invoke_offsets("")):
            self._consumer.commit(offsets=positions, asynchronous=False)

    def committed(self, timeout_s: float = PATIENCE_S) -> None:
        """Fetches the committed offsets of its group, and records them."""
        places = [self._module.TopicPartition(self._topic, p) for p in range(self._partitions)]
        self._ask_committed(places, timeout_s)

    def invoke_offsets(self, transaction: str) -> list[Invocation]:
        """Records that its positions are being committed; ``transaction``: its name, or empty."""
        return [
            self._history.invoke(
                self.name,
                ClientAct.COMMIT_OFFSET,
                topic=self._topic,
                partition=each.partition,
                group=self._group or self.name,
                offset=each.offset,
                transaction=transaction,
            )
            for each in self.positions()
            if each.offset >= 0
        ]

    def group_metadata(self) -> Any:
        """The group's metadata that a transaction needs."""
        return self._consumer.consumer_group_metadata()

    @override
    def close(self) -> None:
        """Closes the consumer, which leaves its group."""
        self._consumer.close()

    def _assigned(self, _: Any, places: Sequence[Any]) -> None:
        for place in places:
            self._history.invoke(
                self.name, ClientAct.SEEK, topic=self._topic, partition=place.partition
            ).ok()
        self._ask_committed(places, _RESPONSE_S)

    def _ask_committed(self, places: Sequence[Any], timeout_s: float) -> None:
        invocations = [
            self._history.invoke(
                self.name,
                ClientAct.FETCH_OFFSET,
                topic=self._topic,
                partition=place.partition,
                group=self._group or self.name,
            )
            for place in places
        ]
        try:
            found = self._consumer.committed(list(places), timeout_s)
        except self._module.KafkaException as failure:
            for each in invocations:
                each.fail(failure)
            return
        for each, place in zip(invocations, found, strict=True):
            # No committed offset counts as 0, the lowest one.
            each.ok(offset=max(place.offset, 0))


class RecordedLoad:
    """Clients of every kind, each in its own thread, while a ``with`` block runs."""

    def __init__(
        self,
        history: ClientHistory,
        topic: str,
        partitions: int,
        *,
        producers: int,
        transactions: int,
        consumers: int,
        members: int,
        config: Mapping[str, Any],
    ) -> None:
        self._history = history
        self._config = config
        self._topic = topic
        self._partitions = partitions
        self._group = history.name("group")
        self._stop = threading.Event()
        self._failures: list[BaseException] = []
        bodies = (
            [self._produce] * producers
            + [self._transact] * transactions
            + [self._consume] * consumers
            + [self._be_member] * members
        )
        self._threads = [
            threading.Thread(target=self._run, args=(body,), name=f"kafka-kit-{n}", daemon=True)
            for n, body in enumerate(bodies)
        ]

    def acknowledged(self) -> int:
        """The number of records acknowledged so far."""
        return self._history.acknowledged

    def wait_progress(self, records: int = 50, timeout_s: float = PATIENCE_S) -> None:
        """Waits until ``records`` more records are acknowledged; NotInTime if they are not."""
        goal, deadline = self.acknowledged() + records, time.monotonic() + timeout_s
        while self.acknowledged() < goal:
            if self._failures:
                raise self._failures[0]
            if time.monotonic() > deadline:
                raise NotInTime(f"{self.acknowledged()} of {goal} records are acknowledged")
            self._stop.wait(_SLICE_S)

    def __enter__(self) -> RecordedLoad:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(3 * PATIENCE_S)
        if kind is not None:
            return
        if self._failures:
            raise self._failures[0]
        assert not any(thread.is_alive() for thread in self._threads), "a client does not end"
        self._history.read_to_end(self._topic, self._partitions)

    def _run(self, body: Callable[[], None]) -> None:
        try:
            body()
        except BaseException as error:  # noqa: BLE001 - raised again where the block ends
            self._failures.append(error)

    def _rounds(self) -> Iterator[int]:
        number = 0
        while not self._stop.is_set():
            yield number
            number += 1

    def _produce(self) -> None:
        with self._history.producer(config=self._config) as producer:
            for number in self._rounds():
                producer.send(self._topic, number % self._partitions)
                self._stop.wait(_PACE_S)

    def _transact(self) -> None:
        producer = self._history.producer(is_transactional=True)
        for number in self._rounds():
            producer.begin()
            for partition in range(self._partitions):
                for _ in range(_RECORDS):
                    producer.send(self._topic, partition)
            end = producer.abort if number % _ABORTED == 1 else producer.commit
            if not end():
                producer = self._history.producer(is_transactional=True)
            self._stop.wait(_SLICE_S)

    def _consume(self) -> None:
        with self._history.consumer(self._topic, self._partitions) as consumer:
            for number in self._rounds():
                consumer.poll()
                with contextlib.suppress(NotInTime):
                    consumer.watermark(number % self._partitions, 0)

    def _be_member(self) -> None:
        with self._history.consumer(self._topic, self._partitions, group=self._group) as consumer:
            for _ in self._rounds():
                if consumer.poll():
                    consumer.commit()
            consumer.committed()
