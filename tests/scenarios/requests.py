"""Asking the active controller something as a broker does, and waiting for its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from kafka_common.model import RECOVERED, ElectionType, TopicPartition
from zkcontroller.core.effects import Result
from zkcontroller.core.events import (
    AlterPartitionReceived,
    ElectionTrigger,
    IsrChange,
    ReplicaLeaderElection,
    RequestEvent,
)
from zkcontroller_simulation.world import World

R = TypeVar("R", bound=Result)
FIRST_REQUEST_ID = 1_000_000


def put(world: World, make: Callable[[int], RequestEvent], to: int | None = None) -> int:
    """Queues a request at the active controller (or at broker ``to``); the request's id."""
    if to is None:
        to = world.active_controller
    assert to is not None, "there is no controller to ask"
    request_id = FIRST_REQUEST_ID + len(world.timeline.history)
    world.timeline.tell(f"request {request_id} to broker {to}")
    world.put(to, make(request_id))
    return request_id


def ask(
    world: World, kind: type[R], make: Callable[[int], RequestEvent], to: int | None = None
) -> R:
    """The answer to a request, which must be of that kind."""
    request_id = put(world, make, to)
    world.run_until_quiet()
    result = world.result(request_id)
    assert isinstance(result, kind), result
    return result


def election(
    partitions: Sequence[TopicPartition] | None, election_type: ElectionType
) -> Callable[[int], RequestEvent]:
    """ElectLeaders."""
    wanted = None if partitions is None else tuple(partitions)
    return lambda request_id: ReplicaLeaderElection(
        wanted, election_type, ElectionTrigger.ADMIN_CLIENT, request_id
    )


def isr_change(
    world: World,
    tp: TopicPartition,
    isr: Sequence[int],
    *,
    leader_epoch: int = 0,
    partition_epoch: int = 0,
    recovery: int = RECOVERED,
    topic: object = None,
) -> IsrChange:
    """A change of the ISR as its leader asks for it; epochs are relative to those that stand."""
    state = world.state_znode(*tp)
    znode = world.zookeeper.peek(f"/brokers/topics/{tp.topic}/partitions/{tp.partition}/state")
    assert znode is not None
    return IsrChange(
        topic or world.topic_znode(tp.topic).topic_id or tp.topic,  # type: ignore[arg-type]
        tp.partition,
        state.leader_epoch + leader_epoch,
        tuple(isr),
        recovery,
        znode.zk_version + partition_epoch,
    )


def alter_partition(
    world: World,
    broker_id: int,
    *changes: IsrChange,
    api_version: int = 3,
    broker_epoch: int | None = None,
) -> Callable[[int], RequestEvent]:
    """AlterPartition as that broker sends it."""
    if broker_epoch is None:
        broker_epoch = world.living[broker_id].broker.broker_epoch
    return lambda request_id: AlterPartitionReceived(
        broker_id, broker_epoch, api_version, changes, request_id
    )
