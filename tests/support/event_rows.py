"""Events made by hand: what a reader would make of a line, without the line."""

from __future__ import annotations

from itertools import count
from typing import Any, Final

from kafka_history.rules.event import Event

Row = dict[str, Any]
START_MS: Final = 1_700_000_000_000

_STATE_CHANGE: Final = ("partition-", "replica-", "lisr-", "um-", "stop-", "leader-", "follower-",
                        "recv-", "send-", "reassign-sent")  # fmt: skip
_CONTROLLER: Final = ("partition-", "replica-", "recv-", "send-", "ctl-", "delete-", "reassign-",
                      "shutdown-request", "elect-")  # fmt: skip
_lines = count(1)


def row(kind: str, at_ms: int, broker: int, text: str = "", **columns: Any) -> Row:
    """One row: ``at_ms`` counts from :data:`START_MS`; ``columns`` are those of the schema."""
    logger = "state.change.logger" if kind.startswith(_STATE_CHANGE) else "kafka.server.KafkaServer"
    if kind.startswith("ctl-"):
        logger = "kafka.controller.KafkaController"
    return {
        "cluster": "test",
        "file": f"broker-{broker}/some.log",
        "line": next(_lines),
        "broker_id": broker,
        "time_ms": START_MS + at_ms,
        "level": "INFO",
        "logger": logger,
        "shape": kind,
        "kind": kind,
        "component": "controller" if kind.startswith(_CONTROLLER) else "broker",
        "text": text,
        **columns,
    }


def event(kind: str, at_ms: int, broker: int, text: str = "", **columns: Any) -> Event:
    """The same as a value."""
    return Event(**row(kind, at_ms, broker, text, **columns))
