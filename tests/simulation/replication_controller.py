"""A controller that never errs and never fails, for the replication under test.

It knows who is registered, elects leaders from the ISR alone, and judges AlterPartition as Kafka's
does.  The real one has a simulation of its own; here it is the fixed point.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kio.schema.errors import ErrorCode

from kafka_common.model import NO_LEADER, TopicPartition
from replica_manager.replication.isr import AlteredIsr, IsrProposal
from replica_manager.replication.partition import LeaderAndIsrPartitionState

CONTROLLER_EPOCH = 1


@dataclass(slots=True)
class Decided:
    """The state znode of a partition."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int = NO_LEADER
    leader_epoch: int = 0
    partition_epoch: int = 0

    def state(self) -> LeaderAndIsrPartitionState:
        """As LeaderAndIsr tells it."""
        return LeaderAndIsrPartitionState(
            CONTROLLER_EPOCH,
            self.leader,
            self.leader_epoch,
            self.isr,
            self.partition_epoch,
            self.replicas,
            (),
            (),
            False,
            0,
        )


class ControlMessage(NamedTuple):
    """An UpdateMetadata and a LeaderAndIsr request, sent to one incarnation of a broker."""

    broker_epoch: int
    live_brokers: tuple[int, ...]
    partitions: Mapping[TopicPartition, LeaderAndIsrPartitionState]


class Mail(Protocol):
    """How messages get to brokers: in order, and sooner or later."""

    def post(self, broker_id: int, message: ControlMessage) -> None:
        """Sends a message."""


class ModelController:
    """The one controller."""

    def __init__(
        self, mail: Mail, partitions: Mapping[TopicPartition, Sequence[int]], *, is_forgetful: bool
    ) -> None:
        """A forgetful one takes an AlterPartition that is sent again for a new one."""
        self._mail = mail
        self.is_forgetful = is_forgetful
        self.registered: dict[int, int] = {}
        """Broker epochs of the brokers alive."""
        self.partitions = {
            tp: Decided(tuple(replicas), tuple(replicas)) for tp, replicas in partitions.items()
        }

    def register(self, broker_id: int, broker_epoch: int) -> None:
        """A broker has come; an older incarnation of it has gone."""
        if broker_id in self.registered:
            self.expire(broker_id)
        self.registered[broker_id] = broker_epoch
        self._tell((), self.registered)
        elected = [tp for tp in self.partitions if self._elect(tp)]
        self._tell(elected, self.registered)
        self._tell(self.partitions, [broker_id])

    def expire(self, broker_id: int) -> None:
        """A broker is gone: it leaves the ISRs, but for the last member of one."""
        if self.registered.pop(broker_id, None) is None:
            return
        changed = []
        for tp, decided in self.partitions.items():
            if decided.leader == broker_id:
                self._elect(tp)
                changed.append(tp)
            elif broker_id in decided.isr and len(decided.isr) > 1:
                self._write(decided, decided.leader, without(decided.isr, broker_id))
                changed.append(tp)
        self._tell(changed, self.registered)

    def prefer(self, tp: TopicPartition, broker_id: int) -> None:
        """Moves the leadership to a broker, if it may lead."""
        decided = self.partitions[tp]
        if broker_id in self.registered and broker_id in decided.isr:
            self._write(decided, broker_id, decided.isr)
            self._tell([tp], self.registered)

    def alter(
        self, broker_id: int, tp: TopicPartition, proposal: IsrProposal
    ) -> AlteredIsr | ErrorCode:
        """Answers a leader that wants another ISR.

        Source: Kafka ``KafkaController.tryProcessAlterPartition``.
        """
        decided = self.partitions[tp]
        if decided.leader != broker_id or proposal.leader_epoch < decided.leader_epoch:
            return ErrorCode.fenced_leader_epoch
        is_repeated = proposal.new_isr == decided.isr
        if not is_repeated or self.is_forgetful:
            if proposal.partition_epoch != decided.partition_epoch:
                return ErrorCode.invalid_update_version
            if any(broker not in self.registered for broker in proposal.new_isr):
                return ErrorCode.ineligible_replica
            decided.isr = proposal.new_isr
            decided.partition_epoch += 1
        return AlteredIsr(decided.leader_epoch, decided.isr, decided.partition_epoch)

    def _elect(self, tp: TopicPartition) -> bool:
        """Finds a leader where there is none alive; False if nothing changes."""
        decided = self.partitions[tp]
        if decided.leader in self.registered:
            return False
        alive = tuple(broker for broker in decided.isr if broker in self.registered)
        leader = next((broker for broker in decided.replicas if broker in alive), NO_LEADER)
        if leader == decided.leader:
            return False
        self._write(decided, leader, alive or decided.isr)
        return True

    def _write(self, decided: Decided, leader: int, isr: tuple[int, ...]) -> None:
        decided.leader, decided.isr = leader, isr
        decided.leader_epoch += 1
        decided.partition_epoch += 1

    def _tell(self, partitions: Iterable[TopicPartition], brokers: Iterable[int]) -> None:
        chosen = list(partitions)
        for broker_id in list(brokers):
            states = {
                tp: self.partitions[tp].state()
                for tp in chosen
                if broker_id in self.partitions[tp].replicas
            }
            message = ControlMessage(
                self.registered[broker_id], tuple(sorted(self.registered)), states
            )
            self._mail.post(broker_id, message)


def without(brokers: tuple[int, ...], broker_id: int) -> tuple[int, ...]:
    """All but one."""
    return tuple(broker for broker in brokers if broker != broker_id)
