"""Lines for ``controller.log`` and records of state changes, collected in the outbox.

Lines and records are appended as values, in the order in which they happen.  The records, of which
there may be one per partition, are not formatted here: the log writer does that in another thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafka_common.errors import StateChangeFailed
from zkcontroller.core.effects import LogLine, MarkMeter, Outbox, StateChanges
from zkcontroller.state_changes.record import AlikeStateChanges, StateChange
from zkcontroller.zookeeper.requests import ZkCode

KAFKA_CONTROLLER = "kafka.controller.KafkaController"
PARTITION_STATE_MACHINE = "kafka.controller.ZkPartitionStateMachine"
REPLICA_STATE_MACHINE = "kafka.controller.ZkReplicaStateMachine"
TOPIC_DELETION_MANAGER = "kafka.controller.TopicDeletionManager"
REQUEST_BATCH = "kafka.controller.ControllerBrokerRequestBatch"
KAFKA_ZK_CLIENT = "kafka.zk.KafkaZkClient"

SMALL_COLLECTION: Final = 4
"""Up to so many members Scala's immutable sets and maps have classes of their own."""

STATE_CHANGE_FAILED = "kafka.common.StateChangeFailedException"
ILLEGAL_STATE = "java.lang.IllegalStateException"
KEEPER_EXCEPTION = "org.apache.zookeeper.KeeperException"


class Journal:
    """Appends log lines and records to an outbox."""

    def __init__(self, outbox: Outbox, controller_id: int, *, is_tracing: bool) -> None:
        self._outbox = outbox
        self._controller_id = controller_id
        self._prefixes = {
            KAFKA_CONTROLLER: f"[Controller id={controller_id}] ",
            PARTITION_STATE_MACHINE: f"[PartitionStateMachine controllerId={controller_id}] ",
            REPLICA_STATE_MACHINE: f"[ReplicaStateMachine controllerId={controller_id}] ",
            TOPIC_DELETION_MANAGER: f"[Topic Deletion Manager {controller_id}] ",
            REQUEST_BATCH: "",
            KAFKA_ZK_CLIENT: "",
        }
        self.is_tracing = is_tracing
        """Whether to make records that Kafka logs at TRACE: one per partition and request."""

    def log(
        self,
        level: str,
        message: str,
        logger: str = KAFKA_CONTROLLER,
        exception: str | None = None,
    ) -> None:
        self._outbox.append(LogLine(level, logger, self._prefixes[logger] + message, exception))

    def info(
        self, message: str, logger: str = KAFKA_CONTROLLER, exception: str | None = None
    ) -> None:
        self.log("INFO", message, logger, exception)

    def debug(
        self, message: str, logger: str = KAFKA_CONTROLLER, exception: str | None = None
    ) -> None:
        self.log("DEBUG", message, logger, exception)

    def warn(self, message: str, logger: str = KAFKA_CONTROLLER) -> None:
        self.log("WARN", message, logger)

    def error(
        self, message: str, logger: str = KAFKA_CONTROLLER, exception: str | None = None
    ) -> None:
        self.log("ERROR", message, logger, exception)

    def record(self, record: StateChange) -> None:
        # Successive records share one effect: appending to a list is faster than a new effect.
        last = self._outbox[-1] if self._outbox else None
        if isinstance(last, StateChanges) and isinstance(last.records, list):
            last.records.append(record)
        else:
            self._outbox.append(StateChanges([record]))

    def record_all(self, records: AlikeStateChanges) -> None:
        """Adds many records at once."""
        if records:
            self._outbox.append(StateChanges(records))

    def mark(self, meter: str, count: int = 1) -> None:
        self._outbox.append(MarkMeter(meter, count))


def csv(values: Iterable[object]) -> str:
    """``1,2,3`` as Kafka prints most collections."""
    return ",".join(map(str, values))


def scala_seq(kind: str, values: Iterable[object]) -> str:
    """A sequence by the name of its Scala class: ``ArrayBuffer(1, 2)``."""
    return f"{kind}({', '.join(map(str, values))})"


def scala_set(values: Iterable[object]) -> str:
    """An immutable Scala set: ``Set(1, 2)`` up to four members, ``HashSet(…)`` above."""
    members = [str(value) for value in values]
    return f"{'Set' if len(members) <= SMALL_COLLECTION else 'HashSet'}({', '.join(members)})"


def scala_hash_set(values: Iterable[object]) -> str:
    """A mutable Scala set: ``HashSet(1, 2)`` of any size."""
    return f"HashSet({', '.join(map(str, values))})"


def scala_small_map(pairs: Iterable[tuple[object, object]]) -> str:
    """An immutable Scala map: ``Map(1 -> 72)`` up to four entries, ``HashMap(…)`` above."""
    entries = [f"{key} -> {value}" for key, value in pairs]
    return f"{'Map' if len(entries) <= SMALL_COLLECTION else 'HashMap'}({', '.join(entries)})"


def scala_map(pairs: Iterable[tuple[object, object]]) -> str:
    """A mutable Scala map: ``HashMap(1 -> 72)`` of any size."""
    return f"HashMap({', '.join(f'{key} -> {value}' for key, value in pairs)})"


def state_change_failure(reason: StateChangeFailed | ZkCode, what: str) -> str:
    """The exception Kafka prints for a partition that does not reach a state."""
    if isinstance(reason, ZkCode):
        return keeper_exception(reason, what)
    return f"{STATE_CHANGE_FAILED}: {reason}"


def keeper_exception(code: ZkCode, what: str) -> str:
    """The exception Kafka prints for a ZooKeeper error."""
    name = "".join(part.capitalize() for part in code.name.split("_"))
    return f"{KEEPER_EXCEPTION}${name}Exception: KeeperErrorCode = {name} for {what}"
