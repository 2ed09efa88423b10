"""Clients under which a cluster is hurt: an idempotent producer, a consumer, and a last reading.

They are librdkafka's, which knows nothing of this project.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from tests.faults.history import History, Outcome, Polled, Sent

RECORDS_PER_SECOND: Final = 400
REQUEST_TIMEOUT_MS: Final = 3_000
"""A broker waits no longer for the other replicas; the producer sends again then."""
PATIENCE_S: Final = 60.0

_SLICE_S: Final = 0.02
_CLIENT: Final = {
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "topic.metadata.refresh.interval.ms": 1_000,
    "socket.connection.setup.timeout.ms": 3_000,
    "log_level": 0,
}


class Load:
    """Writes to and reads from one topic until it is stopped."""

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        partitions: int,
        *,
        is_idempotent: bool = True,
        name: str = "v",
        history: History | None = None,
    ) -> None:
        """What it writes, and its reader, are called after ``name``; ``history`` goes on here."""
        self.history = History() if history is None else history
        self.fatal: list[str] = []
        """What made a client give up."""
        self._servers = bootstrap_servers
        self._topic = topic
        self._partitions = partitions
        self._is_idempotent = is_idempotent
        self._name = name
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._produce, daemon=True),
            threading.Thread(target=self._consume, daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ends both; what was sent is flushed first, so the cluster should be well again."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(2 * PATIENCE_S)
            assert not thread.is_alive(), "a client does not come to an end"

    def acknowledged(self) -> int:
        """How many records so far."""
        return len(self.history.acknowledged)

    def wait_for_progress(self, records: int = 100) -> None:
        """Returns when so many more records were acknowledged."""
        wanted = self.acknowledged() + records
        deadline = time.monotonic() + PATIENCE_S
        while self.acknowledged() < wanted:
            assert not self.fatal, self.fatal
            assert time.monotonic() < deadline, "nothing is acknowledged any more"
            time.sleep(_SLICE_S)

    def read_everything(self) -> None:
        """The last reading: every partition from its beginning to its end."""
        consumer = self._consumer("final")
        ends: dict[int, int] = {}
        for partition in range(self._partitions):
            tp = TopicPartition(self._topic, partition, OFFSET_BEGINNING)
            ends[partition] = consumer.get_watermark_offsets(tp, timeout=PATIENCE_S)[1]
        self._assign(consumer)
        missing = {partition for partition, end in ends.items() if end > 0}
        deadline = time.monotonic() + PATIENCE_S
        while missing:
            assert time.monotonic() < deadline, f"partitions {missing} do not come to {ends}"
            for partition, offset, value in self._polled(consumer):
                self.history.final.append(Polled("final", partition, offset, value))
                if offset >= ends[partition] - 1:
                    missing.discard(partition)
        consumer.close()

    def _produce(self) -> None:
        producer = Producer(
            {
                **_CLIENT,
                "bootstrap.servers": self._servers,
                "acks": "all",
                "enable.idempotence": self._is_idempotent,
                "linger.ms": 5,
                "retry.backoff.ms": 50,
                "request.timeout.ms": REQUEST_TIMEOUT_MS,
                # Above all that may happen meanwhile: where a record of a batch runs out of time,
                # an idempotent producer that must send the batch again gives up.
                "message.timeout.ms": int(4 * PATIENCE_S * 1000),
                "error_cb": self._on_error,
            }
        )
        number = 0
        while not self._stopping.is_set():
            try:
                for _ in range(int(RECORDS_PER_SECOND * _SLICE_S)):
                    self._send(producer, number)
                    number += 1
                producer.poll(_SLICE_S)
            except KafkaException as failure:
                self.fatal.append(f"the producer gave up: {failure}")
                return
        left = producer.flush(PATIENCE_S)
        if left:
            self.fatal.append(f"{left} records were never answered")

    def _send(self, producer: Producer, number: int) -> None:
        partition, value = number % self._partitions, f"{self._name}{number}"

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is None:
                # Where a later batch is acknowledged first, an idempotent producer takes those
                # before it for acknowledged too, and does not know where they are.
                offset = -1 if message.offset() is None else message.offset()
                sent = Sent(partition, value, Outcome.OK, offset)
            else:
                sent = Sent(partition, value, Outcome.INFO)
            self.history.note_sent(sent)

        try:
            producer.produce(
                self._topic, value.encode(), partition=partition, on_delivery=delivered
            )
        except BufferError:
            producer.poll(_SLICE_S)  # the queue is full while there is no leader

    def _consume(self) -> None:
        name = f"{self._name}-reader"
        consumer = self._consumer(name)
        self._assign(consumer)
        while not self._stopping.is_set():
            for partition, offset, value in self._polled(consumer):
                self.history.note_polled(Polled(name, partition, offset, value))
        consumer.close()

    def _consumer(self, name: str) -> Consumer:
        return Consumer(
            {
                **_CLIENT,
                "bootstrap.servers": self._servers,
                "client.id": name,
                "group.id": f"faults-{name}",
                "enable.auto.commit": False,
                # An offset that the leader does not have is what is looked for here.
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,
                "error_cb": self._on_error,
            }
        )

    def _assign(self, consumer: Consumer) -> None:
        consumer.assign([TopicPartition(self._topic, p, 0) for p in range(self._partitions)])

    def _polled(self, consumer: Consumer) -> Iterator[tuple[int, int, str]]:
        for message in consumer.consume(500, timeout=0.1):
            error = message.error()
            if error is None:
                partition, offset, value = message.partition(), message.offset(), message.value()
                assert partition is not None
                assert offset is not None
                assert isinstance(value, bytes)
                yield partition, offset, value.decode()
            elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                self.fatal.append(f"the consumer lost its place: {error}")

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.fatal.append(f"fatal for a client: {error}")


@contextmanager
def loaded(
    bootstrap_servers: str,
    topic: str,
    partitions: int,
    *,
    is_idempotent: bool = True,
    name: str = "v",
    history: History | None = None,
) -> Iterator[Load]:
    """A load that runs within the block and has been flushed behind it."""
    load = Load(
        bootstrap_servers,
        topic,
        partitions,
        is_idempotent=is_idempotent,
        name=name,
        history=history,
    )
    load.start()
    try:
        yield load
    finally:
        load.stop()


def write_bulk(
    bootstrap_servers: str,
    topic: str,
    history: History,
    *,
    partitions: int,
    records: int,
    record_bytes: int,
) -> None:
    """Writes large records as fast as they go; returns when all of them are acknowledged."""
    producer = Producer(
        {
            **_CLIENT,
            "bootstrap.servers": bootstrap_servers,
            "acks": "all",
            "enable.idempotence": True,
            "request.timeout.ms": REQUEST_TIMEOUT_MS,
        }
    )
    refused: list[str] = []

    def noted(partition: int, value: str) -> Callable[[KafkaError | None, Any], None]:
        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is None:
                offset = -1 if message.offset() is None else message.offset()
                history.note_sent(Sent(partition, value, Outcome.OK, offset))
            else:
                refused.append(str(error))

        return delivered

    for number in range(records):
        partition, value = number % partitions, f"bulk{number}-".ljust(record_bytes, "x")
        producer.produce(
            topic, value.encode(), partition=partition, on_delivery=noted(partition, value)
        )
    left = producer.flush(PATIENCE_S)
    assert not left
    assert not refused, refused[:10]
