"""Calls of confluent-kafka that may have to be made again while a cluster settles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from confluent_kafka import KafkaError, KafkaException
from kio.schema.errors import ErrorCode

T = TypeVar("T")

_OF_THE_CLIENT: Final = frozenset(
    (
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._WAIT_COORD,
        KafkaError._ALL_BROKERS_DOWN,
    )
)
"""librdkafka's own errors that mean that no broker answered."""


def unless_retriable(call: Callable[[], T]) -> T | None:
    """What the call gives; None after an error upon which Kafka's own clients ask again.

    librdkafka asks again by itself, but not for ever, and says ``retriable`` in calls of
    transactions alone: a coordinator that moves twice is an error to its caller.
    """
    try:
        return call()
    except KafkaException as failure:
        error = failure.args[0]
        code: int = error.code()
        if error.retriable() or code in _OF_THE_CLIENT or (code > 0 and ErrorCode(code).retriable):
            return None
        raise
