"""Single records that are sent once and never again: what a broker says to each is kept.

A producer under load hides refusals: it sends again until it gets something else.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import KafkaError, Producer

from zkcontroller_testing.client_history import ClientHistory
from zkcontroller_testing.operations import ClientAct

ANSWER_S: Final = 30.0
"""A probe is answered before that."""
ACKNOWLEDGED: Final = "NO_ERROR"


class Probe:
    """Sends records to one topic with acks=all and keeps the error codes of the answers."""

    def __init__(
        self, bootstrap_servers: str, topic: str, history: ClientHistory, *, timeout_ms: int
    ) -> None:
        """A broker waits for other replicas no longer than ``timeout_ms``."""
        self._topic = topic
        self._history = history
        self._name = history.name("probe")
        self._number = 0
        self._answers: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "acks": "all",
                "enable.idempotence": False,
                "message.send.max.retries": 0,
                "linger.ms": 0,
                "request.timeout.ms": timeout_ms,
                "message.timeout.ms": int(ANSWER_S * 1000),
                "topic.metadata.refresh.interval.ms": 1_000,
                "log_level": 0,
            }
        )

    def send(self, partition: int) -> None:
        """One record; does not wait for the answer."""
        self._number += 1
        value = f"{self._name}:{self._number}"
        invocation = self._history.invoke(
            self._name, ClientAct.SEND, topic=self._topic, partition=partition, value=value
        )

        def answered(error: KafkaError | None, message: Any) -> None:
            code = ACKNOWLEDGED if error is None else error.name()
            self._answers.append(code)
            match code:
                case "NO_ERROR":
                    invocation.ok(offset=message.offset())
                case "NOT_ENOUGH_REPLICAS":  # refused before anything was written
                    invocation.fail(code)
                case _:
                    invocation.info(code)

        self._producer.produce(
            self._topic, value.encode(), partition=partition, on_delivery=answered
        )
        self._producer.poll(0)

    def responses(self) -> list[str]:
        """The answers to all that was sent, in the order in which they came; waits for them."""
        left = self._producer.flush(ANSWER_S)
        assert left == 0, f"{left} probes were never answered"
        responses, self._answers = self._answers, []
        return responses

    def ask(self, partition: int) -> str:
        """The answer to one record."""
        self.send(partition)
        [response] = self.responses()
        return response


@contextmanager
def probing(
    bootstrap_servers: str, topic: str, history: ClientHistory, *, timeout_ms: int
) -> Iterator[Probe]:
    """A probe that has its connections: the first record is acknowledged within its patience."""
    probe = Probe(bootstrap_servers, topic, history, timeout_ms=timeout_ms)
    deadline = time.monotonic() + ANSWER_S
    while (response := probe.ask(0)) != ACKNOWLEDGED:
        assert time.monotonic() < deadline, f"a healthy cluster answers {response}"
    yield probe
    probe.responses()
