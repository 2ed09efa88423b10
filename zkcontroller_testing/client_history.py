"""Records what clients do and what they get; :mod:`.history_checks` finds violations in it.

Any client can be recorded with :meth:`ClientHistory.invoke`.  :mod:`.recorded_clients` does so for
clients of confluent-kafka.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafka_common.errors import ConfigInvalid
from zkcontroller_testing.checks import StateChangeRow
from zkcontroller_testing.history_checks import HistoryViolation, violations
from zkcontroller_testing.operations import ClientAct, Operation, OperationResult, history_text

if TYPE_CHECKING:
    from zkcontroller_testing.recorded_clients import (
        RecordedConsumer,
        RecordedLoad,
        RecordedProducer,
    )

MOST_OPERATIONS: Final = 1_000_000
"""Longest history; a test that records more has probably forgotten to stop."""
_MOST_SHOWN: Final = 20


class Invocation:
    """An operation that a client began; call one of the three methods once to record its result."""

    def __init__(self, history: ClientHistory, operation: Operation) -> None:
        self._history = history
        self._operation = operation

    def ok(self, **fields: Any) -> None:
        """The operation took effect; ``fields``: from the response, such as ``offset``."""
        self._history.complete(self._operation, OperationResult.OK, fields)

    def fail(self, error: object = "") -> None:
        """The operation had no effect, and never will have."""
        self._history.complete(self._operation, OperationResult.FAIL, {"error": str(error)})

    def info(self, error: object = "") -> None:
        """The client does not know whether the operation took effect, as after a timeout."""
        self._history.complete(self._operation, OperationResult.INFO, {"error": str(error)})


class ClientHistory:
    """A history that any thread may add to; call :meth:`check` when the clients are done."""

    def __init__(
        self,
        client_config: Callable[[], dict[str, str]],
        state_changes: Callable[[], Iterable[StateChangeRow]],
    ) -> None:
        """``client_config``: for clients made here.  ``state_changes``: reads those of brokers."""
        self.client_config = client_config
        self._state_changes = state_changes
        self._lock = threading.Lock()
        self._operations: list[Operation] = []
        self.acknowledged = 0
        """Number of records acknowledged so far."""
        self._began_ns = time.monotonic_ns()
        self._names: dict[str, int] = {}

    @property
    def operations(self) -> tuple[Operation, ...]:
        """All operations so far, in order of invocation."""
        with self._lock:
            return tuple(self._operations)

    def now_ns(self) -> int:
        """Nanoseconds since the history began."""
        return time.monotonic_ns() - self._began_ns

    def invoke(
        self, process: str, act: ClientAct | str, *, since_ns: int | None = None, **fields: Any
    ) -> Invocation:
        """Records that ``process`` begins an operation; see :class:`.Operation` for the fields.

        ``since_ns``: when it began, in nanoseconds since the history began; None: now.
        """
        at_ns = self.now_ns() if since_ns is None else since_ns
        with self._lock:
            if len(self._operations) >= MOST_OPERATIONS:
                raise ConfigInvalid("history", len(self._operations), "is as long as one may be")
            operation = Operation(len(self._operations), process, ClientAct(act), at_ns, **fields)
            self._operations.append(operation)
        return Invocation(self, operation)

    def complete(
        self, operation: Operation, completion: OperationResult, fields: dict[str, Any]
    ) -> None:
        """Records how an operation ended; called by :class:`Invocation`."""
        ended = replace(operation, completion=completion, completed_ns=self.now_ns(), **fields)
        with self._lock:
            assert self._operations[operation.index] is operation, "it is completed once"
            self._operations[operation.index] = ended
            self.acknowledged += ended.act is ClientAct.SEND and ended.is_ok

    def name(self, kind: str) -> str:
        """A new unique name for a process: ``producer-1``."""
        with self._lock:
            self._names[kind] = self._names.get(kind, 0) + 1
            return f"{kind}-{self._names[kind]}"

    def producer(
        self, *, is_transactional: bool = False, config: Mapping[str, Any] | None = None
    ) -> RecordedProducer:
        """A producer of confluent-kafka, idempotent by default; ``config`` adds to its own."""
        from zkcontroller_testing.recorded_clients import RecordedProducer

        return RecordedProducer(self, is_transactional=is_transactional, config=config or {})

    def consumer(
        self,
        topic: str,
        partitions: int = 1,
        *,
        group: str | None = None,
        is_committed_only: bool = True,
        config: Mapping[str, Any] | None = None,
    ) -> RecordedConsumer:
        """A consumer of all partitions from their start, or a member of a group."""
        from zkcontroller_testing.recorded_clients import RecordedConsumer

        return RecordedConsumer(
            self,
            topic,
            partitions,
            group,
            is_committed_only=is_committed_only,
            config=config or {},
        )

    def load(
        self,
        topic: str,
        partitions: int = 1,
        *,
        producers: int = 2,
        transactions: int = 1,
        consumers: int = 1,
        members: int = 1,
        config: Mapping[str, Any] | None = None,
    ) -> RecordedLoad:
        """A ``with`` block in which this many clients of each kind write and read the topic.

        At its end, the producers are flushed and the topic is read to its end.  ``config`` adds to
        the configuration of the producers without transactions.
        """
        from zkcontroller_testing.recorded_clients import RecordedLoad

        return RecordedLoad(
            self,
            topic,
            partitions,
            producers=producers,
            transactions=transactions,
            consumers=consumers,
            members=members,
            config=config or {},
        )

    def read_to_end(self, topic: str, partitions: int = 1) -> None:
        """Reads the whole topic twice: as ``read_committed`` and as ``read_uncommitted``.

        Lost records are found only if the topic was read like this.
        """
        for is_committed_only in (True, False):
            with self.consumer(topic, partitions, is_committed_only=is_committed_only) as consumer:
                consumer.read_to_end()

    def violations(self) -> list[HistoryViolation]:
        """All violations in this history and in the brokers' state changes."""
        operations = self.operations
        led = enumerate(self._led(), start=len(operations))
        return violations((*operations, *(replace(each, index=n) for n, each in led)))

    def check(self) -> None:
        """Raises AssertionError if there are violations, with what, where and when for each."""
        found = self.violations()
        text = "\n".join(each.text() for each in found[:_MOST_SHOWN])
        assert not found, f"{len(found)} violations in {len(self.operations)} operations:\n{text}"

    def write(self, path: Path) -> None:
        """Writes the history as text, one operation on each line."""
        path.write_text(history_text(self.operations), encoding="utf-8")

    def _led(self) -> list[Operation]:
        """Elections and deletions as operations, from the brokers' state changes and clocks."""
        found = []
        began_ns = time.time_ns() - self.now_ns()
        for row in self._state_changes():
            kind = row["kind"]
            topic = str(row.get("topic") or "")
            fields: dict[str, Any]
            if kind == "leader_started":
                fields = {
                    "act": ClientAct.LEAD,
                    "topic": topic,
                    "partition": int(row["partition"]),
                    "epoch": int(row["leader_epoch"]),
                    "value": str(row.get("topic_id") or ""),
                }
            elif kind == "controller_elected":
                fields = {"act": ClientAct.CONTROL, "epoch": int(row["controller_epoch"])}
            elif row.get("to_state") == "NonExistentPartition" or row.get("delete_partition"):
                fields = {"act": ClientAct.DELETE_TOPIC, "topic": topic}
            else:
                continue
            at_ns = int(row["time_ms"]) * 1_000_000 - began_ns
            found.append(
                Operation(
                    0,
                    f"broker-{row['broker_id']}",
                    invoked_ns=at_ns,
                    completed_ns=at_ns,
                    completion=OperationResult.OK,
                    **fields,
                )
            )
        return found
