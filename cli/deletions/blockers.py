"""What delays the deletion of a topic, and the next safe step: pure, also used by rule D01.

Source: Kafka ``TopicDeletionManager``, ``KafkaController.fetchTopicDeletionsInProgress``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from zkcontroller_cli.console.command_lines import command_line
from zkcontroller_cli.znodes.partitions import PartitionView

START_BROKER: Final = "start the broker that is named as the blocker"
NOTHING_VISIBLE: Final = "no blocker is visible"
PATIENCE_MS: Final = 10_000
"""A deletion younger than this, without a visible blocker, counts as in progress."""


class BlockerKind(StrEnum):
    """Why a deletion waits."""

    NO_CONTROLLER = "no_controller"
    SILENT_CONTROLLER = "silent_controller"
    DELETION_DISABLED = "deletion_disabled"
    DEAD_BROKER = "dead_broker"
    SILENT_BROKER = "silent_broker"
    OFFLINE_LOG_DIR = "offline_log_dir"
    REASSIGNMENT = "reassignment"
    REPLICAS_LEFT = "replicas_left"
    ZNODES_LEFT = "znodes_left"


class Blocker(NamedTuple):
    """One reason why a deletion waits, and what to do; ``command`` is None where no verb helps."""

    kind: BlockerKind
    what: str
    next_step: str
    command: str | None = None
    broker_id: int | None = None

    def row(self) -> dict[str, Any]:
        """The blocker as a row of ``deletion status``."""
        return {
            "kind": str(self.kind),
            "what": self.what,
            "next_step": self.next_step,
            "command": self.command,
        }


class Mark(NamedTuple):
    """The znode in ``/admin/delete_topics`` that requests the deletion of a topic."""

    ordered_at_ms: int
    czxid: int
    zk_version: int


class BrokerReplicas(NamedTuple):
    """The replicas of a topic that a broker still has; ``error`` says why that is not known."""

    left: Mapping[int, int] | None
    """By partition, the size of its replica in bytes; None if not known."""
    log_dir_errors: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Deletion:
    """One topic that is marked for deletion, and everything that may delay it."""

    topic: str
    mark: Mark
    age_ms: int
    has_znode: bool
    partitions: Sequence[PartitionView]
    live_brokers: Collection[int]
    controller_id: int | None
    controller_error: str | None
    """Why the controller does not work; None if it does, or there is none."""
    is_enabled: bool | None
    """``delete.topic.enable`` of the controller; None: not known."""
    held: Mapping[int, BrokerReplicas]
    """By live broker with replicas of the topic, what it still has."""

    def replicas_of(self, broker_id: int) -> list[int]:
        """The partitions that are assigned to a broker."""
        return [v.partition for v in self.partitions if broker_id in v.assignment.replicas]

    @property
    def brokers(self) -> list[int]:
        """Every broker to which a replica is assigned, sorted by id."""
        return sorted({broker for v in self.partitions for broker in v.assignment.replicas})

    @property
    def moving(self) -> list[PartitionView]:
        """The partitions that are being reassigned."""
        return [
            view
            for view in self.partitions
            if view.assignment.adding_replicas or view.assignment.removing_replicas
        ]

    @property
    def only_added(self) -> set[int]:
        """The brokers whose replicas of this topic are all being added: a cancel removes them."""
        origin = {b for v in self.partitions for b in v.assignment.origin_replicas}
        return set(self.brokers) - origin

    def row(self) -> dict[str, Any]:
        """The deletion as a row of ``deletion status``."""
        blockers = blockers_of(self)
        return {
            "topic": self.topic,
            "ordered_at_ms": self.mark.ordered_at_ms,
            "age_ms": self.age_ms,
            "czxid": self.mark.czxid,
            "zk_version": self.mark.zk_version,
            "partition_count": len(self.partitions),
            "is_blocked": bool(blockers),
            "controller_id": self.controller_id,
            "brokers": [self._broker_row(broker) for broker in self.brokers],
            "blockers": [blocker.row() for blocker in blockers],
        }

    def _broker_row(self, broker_id: int) -> dict[str, Any]:
        found = self.held.get(broker_id)
        left = None if found is None else found.left
        return {
            "broker_id": broker_id,
            "is_alive": broker_id in self.live_brokers,
            "replica_count": len(self.replicas_of(broker_id)),
            "left_count": None if left is None else len(left),
            "left_bytes": None if left is None else sum(left.values()),
            "error": None if found is None else found.error,
        }


def blockers_in_znodes(
    topic: str, partitions: Iterable[PartitionView], live_brokers: Collection[int]
) -> list[Blocker]:
    """The blockers that znodes show: dead brokers with replicas, and a reassignment."""
    dead: set[int] = set()
    is_moving = False
    for view in partitions:
        dead |= {broker for broker in view.assignment.replicas if broker not in live_brokers}
        is_moving |= bool(view.assignment.adding_replicas or view.assignment.removing_replicas)
    blockers = [
        Blocker(
            BlockerKind.DEAD_BROKER,
            f"broker {broker} has replicas and is not alive",
            f"start broker {broker}, and the deletion goes on; if its machine is lost, start an "
            f"empty broker with the id {broker}: it has no replicas, and the deletion ends",
            "zkctl broker list",
            broker,
        )
        for broker in sorted(dead)
    ]
    if is_moving:
        blockers.append(
            Blocker(
                BlockerKind.REASSIGNMENT,
                "a reassignment of it is under way",
                "wait for its end, or cancel it: the controller refuses a cancel while the topic "
                "is marked, so unblock takes the mark away, cancels, and deletes again",
                command_line("deletion unblock", topic),
            )
        )
    return blockers


def blockers_of(deletion: Deletion) -> list[Blocker]:
    """Everything that delays the deletion, in the order to solve it; empty if nothing does.

    Remaining replicas or znodes count as a blocker only if there is no other one, and the deletion
    is older than PATIENCE_MS.
    """
    blockers = [
        *_of_controller(deletion),
        *blockers_in_znodes(deletion.topic, deletion.partitions, deletion.live_brokers),
        *_of_live_brokers(deletion),
    ]
    if blockers or deletion.age_ms < PATIENCE_MS:
        return blockers
    return [_unexplained(deletion)]


def _of_controller(deletion: Deletion) -> Iterable[Blocker]:
    if deletion.controller_id is None:
        yield Blocker(
            BlockerKind.NO_CONTROLLER,
            "there is no controller, and nothing else deletes topics",
            "start a broker that can be elected; if brokers are registered, see rule C01",
            "zkctl doctor",
        )
    elif deletion.controller_error is not None:
        yield Blocker(
            BlockerKind.SILENT_CONTROLLER,
            f"the controller, broker {deletion.controller_id}, does not work: "
            f"{deletion.controller_error}",
            "have another one elected: it carries the deletion on",
            command_line("deletion unblock", deletion.topic),
            deletion.controller_id,
        )
    if deletion.is_enabled is False:
        yield Blocker(
            BlockerKind.DELETION_DISABLED,
            f"the controller, broker {deletion.controller_id}, has delete.topic.enable=false: it "
            "takes the mark away, and the topic stays",
            "set delete.topic.enable=true in every broker's server.properties, restart them, and "
            "delete the topic again",
            None,
            deletion.controller_id,
        )


def _of_live_brokers(deletion: Deletion) -> Iterable[Blocker]:
    for broker, found in sorted(deletion.held.items()):
        if found.error is not None and broker != deletion.controller_id:
            yield Blocker(
                BlockerKind.SILENT_BROKER,
                f"broker {broker} has replicas and does not answer: {found.error}",
                f"look at broker {broker}: the deletion waits for its answer, or for its end",
                "zkctl doctor",
                broker,
            )
        for error in found.log_dir_errors:
            yield Blocker(
                BlockerKind.OFFLINE_LOG_DIR,
                f"a log directory of broker {broker} is offline, and its replicas with it: {error}",
                f"repair the disk and restart broker {broker}, or take the directory out of "
                "log.dirs and restart it",
                command_line("log-dirs sizes", broker),
                broker,
            )


def _unexplained(deletion: Deletion) -> Blocker:
    unblock = command_line("deletion unblock", deletion.topic)
    left = [broker for broker, found in sorted(deletion.held.items()) if found.left]
    if left:
        ids = ", ".join(map(str, left))
        return Blocker(
            BlockerKind.REPLICAS_LEFT,
            f"brokers {ids} are alive and have replicas still: a StopReplica failed, or none was "
            "sent",
            "look for errors in their server.log; the next controller asks them again",
            unblock,
        )
    what = "every replica is gone" if deletion.has_znode else "only the mark is left"
    return Blocker(
        BlockerKind.ZNODES_LEFT,
        f"{NOTHING_VISIBLE}: {what}, and the controller does not go on",
        "the next controller starts afresh",
        unblock,
    )
