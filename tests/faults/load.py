"""Clients under which a cluster is hurt, and records of one size or asked for one by one.

They are librdkafka's, which knows nothing of this project, and write down what they see.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from zkcontroller_testing.client_history import ClientHistory
from zkcontroller_testing.operations import ClientAct
from zkcontroller_testing.recorded_clients import RecordedLoad

REQUEST_TIMEOUT_MS: Final = 3_000
"""A broker waits no longer for the other replicas; the producer sends again then."""
PRODUCERS: Final = 4
"""So many that a leader's death leaves something that its followers do not have."""
PATIENCE_S: Final = 60.0


class Load:
    """Producers and a consumer of one topic; ``history`` is what they and others have seen."""

    def __init__(self, history: ClientHistory, clients: RecordedLoad) -> None:
        self.history = history
        self._clients = clients

    def acknowledged(self) -> int:
        """How many records so far."""
        return self._clients.acknowledged()

    def wait_for_progress(self, records: int = 100) -> None:
        """Returns when so many more records were acknowledged."""
        self._clients.wait_progress(records, PATIENCE_S)


@contextmanager
def loaded(
    history: ClientHistory, topic: str, partitions: int, *, is_idempotent: bool = True
) -> Iterator[Load]:
    """A load within the block; behind it every record has its answer, and all have been read."""
    config = {"enable.idempotence": is_idempotent, "request.timeout.ms": REQUEST_TIMEOUT_MS}
    with history.load(
        topic,
        partitions,
        producers=PRODUCERS,
        transactions=0,
        consumers=1,
        members=0,
        config=config,
    ) as clients:
        yield Load(history, clients)
    left = [
        each
        for each in history.operations
        if each.act is ClientAct.SEND and each.completed_ns is None
    ]
    assert not left, f"{len(left)} records were never answered: {left[:10]}"


def write_bulk(
    history: ClientHistory, topic: str, *, partitions: int, records: int, record_bytes: int
) -> None:
    """Writes large records as fast as they go; returns when all of them are acknowledged."""
    with history.producer(config={"request.timeout.ms": REQUEST_TIMEOUT_MS}) as producer:
        for number in range(records):
            producer.send(topic, number % partitions, key=bytes(record_bytes))
        assert producer.flush(PATIENCE_S) == 0
    mine = [each for each in history.operations if each.process == producer.name]
    assert all(each.is_ok for each in mine), mine[:10]
