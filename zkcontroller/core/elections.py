"""The four leader election strategies, as pure functions.

Each returns the ``LeaderAndIsr`` to be written (leader epoch one higher, ``zk_version`` still
that of the state it was computed from), or None when no replica may lead.

Source: Kafka ``Election`` and ``PartitionLeaderElectionAlgorithms``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct
from typing_extensions import override

from kafka_common.errors import IllegalState
from kafka_common.model import RECOVERED, RECOVERING, LeaderAndIsr

IsOnline: TypeAlias = Callable[[int], bool]


class OfflineElection(Struct, frozen=True):
    """The leader is offline.  ``allow_unclean``: an operator accepts that records are lost."""

    allow_unclean: bool = False

    @override
    def __str__(self) -> str:
        return f"OfflinePartitionLeaderElectionStrategy({str(self.allow_unclean).lower()})"


class ControlledShutdownElection(Struct, frozen=True):
    """Brokers that are shutting down hand their leaderships over."""

    @override
    def __str__(self) -> str:
        return "ControlledShutdownPartitionLeaderElectionStrategy"


class ReassignElection(Struct, frozen=True):
    """The leader is not among the replicas that a reassignment ends with."""

    @override
    def __str__(self) -> str:
        return "ReassignPartitionLeaderElectionStrategy"


class PreferredElection(Struct, frozen=True):
    """The preferred leader, the first assigned replica, leads again."""

    @override
    def __str__(self) -> str:
        return "PreferredReplicaPartitionLeaderElectionStrategy"


Strategy: TypeAlias = (
    OfflineElection | ControlledShutdownElection | ReassignElection | PreferredElection
)


def elect_initial(
    replicas: Sequence[int], is_online: IsOnline, controller_epoch: int
) -> LeaderAndIsr | None:
    """The first leader of a new partition: every replica that is up starts in sync."""
    live = tuple(broker for broker in replicas if is_online(broker))
    if not live:
        return None
    return LeaderAndIsr(
        leader=live[0],
        leader_epoch=0,
        in_sync_replicas=live,
        zk_version=0,
        controller_epoch=controller_epoch,
        leader_recovery_state=RECOVERED,
    )


def elect_offline(
    current: LeaderAndIsr,
    replicas: Sequence[int],
    is_online: IsOnline,
    *,
    unclean: bool,
    is_recovery_tracked: bool = True,
) -> LeaderAndIsr | None:
    """The state that follows the loss of a leader.

    ``unclean``: a replica outside the ISR may lead if none inside is up.
    ``is_recovery_tracked``: such a
    leader starts RECOVERING (inter.broker.protocol 3.2 and above, KIP-704).
    """
    isr = current.in_sync_replicas
    clean = next(filter(is_online, filter(isr.__contains__, replicas)), None)
    if clean is not None:
        return _led_by(clean, tuple(filter(is_online, isr)), current)
    if not unclean:
        return None
    dirty = next((broker for broker in replicas if is_online(broker)), None)
    if dirty is None:
        return None
    # The unclean leader's log becomes the truth: the other replicas truncate to it.
    return current._replace(
        leader=dirty,
        leader_epoch=current.leader_epoch + 1,
        in_sync_replicas=(dirty,),
        leader_recovery_state=RECOVERING if is_recovery_tracked else current.leader_recovery_state,
    )


def elect_for_controlled_shutdown(
    current: LeaderAndIsr,
    replicas: Sequence[int],
    is_online_or_shutting_down: IsOnline,
    shutting_down: Callable[[int], bool],
) -> LeaderAndIsr | None:
    """The state without the brokers that are shutting down, neither as leader nor in the ISR."""
    isr = current.in_sync_replicas
    leader = next(
        (
            broker
            for broker in replicas
            if broker in isr and is_online_or_shutting_down(broker) and not shutting_down(broker)
        ),
        None,
    )
    if leader is None:
        return None
    return _led_by(leader, tuple([b for b in isr if not shutting_down(b)]), current)


def elect_first_in_sync(
    current: LeaderAndIsr, candidates: Sequence[int], is_online: IsOnline
) -> LeaderAndIsr | None:
    """The first candidate that is online and in sync leads; the ISR stays, offline members too.

    A reassignment's candidates are its target replicas; a preferred election has one candidate.
    """
    isr = current.in_sync_replicas
    leader = next((b for b in candidates if b in isr and is_online(b)), None)
    if leader is None:
        return None
    return _led_by(leader, isr, current)


def _led_by(leader: int, isr: tuple[int, ...], current: LeaderAndIsr) -> LeaderAndIsr:
    _, leader_epoch, _, zk_version, controller_epoch, recovery = current
    return LeaderAndIsr(leader, leader_epoch + 1, isr, zk_version, controller_epoch, recovery)


def without_replica(
    current: LeaderAndIsr, broker_id: int, replicas: tuple[int, ...], controller_epoch: int
) -> LeaderAndIsr:
    """The state after a replica went offline: out of the ISR, unless it is the last one in it.

    The last member stays, so that only its return (or an unclean election) can bring a leader back.
    After an interrupted reassignment a broker that has no replica any more may still be in the ISR.
    It cannot lead, so it does not count as a member.  In Kafka it counts, and then the partition
    never gets a leader again.
    """
    leader, leader_epoch, isr, zk_version, _, recovery = current
    if broker_id not in isr:
        raise IllegalState(f"broker {broker_id} is not in the ISR {isr}, so it cannot leave it")
    return LeaderAndIsr(
        -1 if leader == broker_id else leader,
        leader_epoch + 1,
        _isr_without(isr, broker_id, replicas),
        zk_version,
        controller_epoch,
        recovery,
    )


@lru_cache(maxsize=4096)  # a dead broker leaves thousands of partitions, with few distinct ISRs
def _isr_without(
    in_sync_replicas: tuple[int, ...], broker_id: int, replicas: tuple[int, ...]
) -> tuple[int, ...]:
    isr = tuple(broker for broker in in_sync_replicas if broker != broker_id)
    if not isr or (broker_id in replicas and not any(broker in replicas for broker in isr)):
        return (broker_id,)
    return isr
