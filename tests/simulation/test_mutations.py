"""The simulator on trial: bugs put into the core on purpose, each of which it must find.

A simulator that never fails proves nothing.  Each mutation below is a mistake that a programmer
could make.  At least one storm must fail with it, and the unmutated core must pass.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Final

import pytest

from kafka_common.model import LeaderAndIsr
from tests.simulation.seeded_worlds import (
    calm_world,
    contested_world,
    drizzly_world,
    is_refusal,
    refusing_world,
    stormy_world,
)
from zkcontroller.core import (
    broker_requests,
    controller,
    elections,
    failover,
    isr_changes,
    leader_epochs,
    partition_states,
    reassignment_phases,
    refused_partitions,
    replica_states,
)
from zkcontroller.core.effects import SendControlRequest
from zkcontroller.core.elections import IsOnline
from zkcontroller.core.events import TopicDeletionStopReplicaResponseReceived
from zkcontroller.core.partition_table import NO_ROW
from zkcontroller.core.tools import ControllerTools
from zkcontroller.zookeeper.requests import (
    CheckExists,
    Create,
    Delete,
    ListChildren,
    UnfencedBatch,
    ZkCode,
)
from zkcontroller_simulation import channel

pytestmark = pytest.mark.planted

SEEDS: Final = range(60)
"""Storms of which the first that finds a mutation ends the search; most are found at once."""

Patch = pytest.MonkeyPatch


def ends_badly(seed: int) -> bool:
    """Whether a run breaks an invariant or an assertion, or the core raises."""
    try:
        worlds = [stormy_world(seed), drizzly_world(seed)]
    except Exception:  # noqa: BLE001 - a mutant may fall over in any way
        return True
    return any(world.failures for world in worlds)


def ends_badly_refused(seed: int) -> bool:
    """As :func:`ends_badly` where ZooKeeper refuses parts of what it is asked."""
    try:
        world = refusing_world(seed)
    except Exception:  # noqa: BLE001 - as above
        return True
    return not all(is_refusal(error) for _, _, error in world.failures)


def ends_badly_contested(seed: int) -> bool:
    """As :func:`ends_badly` where controllers are deposed amid their failover."""
    try:
        world = contested_world(seed, deletions=100)
    except Exception:  # noqa: BLE001 - as above
        return True
    return bool(world.failures)


def ends_badly_in_calm_weather(seed: int) -> bool:
    """As :func:`ends_badly` where no failover mends what a controller leaves undone."""
    try:
        world = calm_world(seed)
    except Exception:  # noqa: BLE001 - as above
        return True
    return not all(is_refusal(error) for _, _, error in world.failures)


# ---------------------------------------------------------------------- the mistakes


def drop_the_fence(patch: Patch) -> None:
    """A deposed controller's writes land."""

    def write(_: ControllerTools, operations: Sequence[Any]) -> Generator[Any, Any, Any]:
        return (yield UnfencedBatch(operations)) if operations else []

    patch.setattr(ControllerTools, "write", write)


def elect_without_a_new_leader_epoch(patch: Patch) -> None:
    """Brokers ignore a new leader that carries the old leader epoch."""
    elect = elections.elect_offline

    def same_epoch(current: LeaderAndIsr, *args: Any, **settings: Any) -> LeaderAndIsr | None:
        elected = elect(current, *args, **settings)
        return elected and elected._replace(leader_epoch=current.leader_epoch)

    patch.setattr(partition_states, "elect_offline", same_epoch)


def leave_no_watch(patch: Patch) -> None:
    """Children are listed and never looked at again."""

    def children(
        _: ControllerTools, path: str, *, watch: bool = False
    ) -> Generator[Any, Any, list[str]]:
        (names,) = yield ListChildren([path], watch and path != "/brokers/ids")
        return sorted(names) if isinstance(names, list) else []

    patch.setattr(ControllerTools, "children", children)


def resign_and_remember(patch: Patch) -> None:
    """The next rule of the same broker starts from what the last one knew."""
    reset = failover.Failover.resign

    def resign(self: Any) -> None:
        context = self._context
        table, brokers = context.table, context.live_broker_epochs
        reset(self)
        context.table, context.live_broker_epochs = table, brokers

    patch.setattr(failover.Failover, "resign", resign)


def elect_outside_the_isr(patch: Patch) -> None:
    """The first live replica becomes leader, in sync or not."""

    def first_alive(
        current: LeaderAndIsr, replicas: Sequence[int], is_online: IsOnline, **_: Any
    ) -> LeaderAndIsr | None:
        alive = tuple(broker for broker in replicas if is_online(broker))
        if not alive:
            return None
        leader_epoch = current.leader_epoch + 1
        return current._replace(leader=alive[0], leader_epoch=leader_epoch, in_sync_replicas=alive)

    patch.setattr(partition_states, "elect_offline", first_alive)


def forget_a_partition_in_update_metadata(patch: Patch) -> None:
    """The last of several partitions is left out."""
    add = broker_requests.RequestBatch.add_update_metadata

    def most(self: Any, broker_ids: Iterable[int], rows: Sequence[int] = ()) -> None:
        add(self, broker_ids, rows[:-1] if len(rows) > 1 else rows)

    patch.setattr(broker_requests.RequestBatch, "add_update_metadata", most)


def delete_the_old_replicas_too_early(patch: Patch) -> None:
    """A move stops the replicas it leaves before the new ones have caught up."""
    expand = reassignment_phases.ReassignmentPhases._expand

    def hasty(self: Any, moves: Any) -> Generator[Any, Any, None]:
        yield from expand(self, moves)
        removing: dict[int, list[int]] = {}
        for row, assignment in moves.items():
            for broker in assignment.removing_replicas:
                removing.setdefault(broker, []).append(row)
        yield from self._remove_replicas(removing)

    patch.setattr(reassignment_phases.ReassignmentPhases, "_expand", hasty)


def give_up_a_lost_race(patch: Patch) -> None:
    """A state that changed between read and write is not read again."""
    for module in (partition_states, replica_states, leader_epochs):
        write_states = module.write_states

        def once(
            tools: ControllerTools, states: Any, write: Any = write_states
        ) -> Generator[Any, Any, Any]:
            verdicts = yield from write(tools, states)
            return verdicts._replace(lost=[])

        patch.setattr(module, "write_states", once)


def a_vanished_controller_is_only_looked_at(patch: Patch) -> None:
    """A Reelect looks who is controller and does not run."""

    def look(self: Any, _: int) -> Generator[Any, Any, None]:
        yield from self._failover.maybe_resign()

    patch.setattr(controller.KafkaController, "_run_for_controller", look)


def send_too_low_a_broker_epoch(patch: Patch) -> None:
    """Brokers take every request for one that was meant for their earlier incarnation."""
    send = broker_requests.RequestBatch.send

    def stale(self: Any) -> None:
        context = self._context
        epochs = context.live_broker_epochs
        context.live_broker_epochs = {broker: epoch - 1 for broker, epoch in epochs.items()}
        send(self)
        context.live_broker_epochs = epochs

    patch.setattr(broker_requests.RequestBatch, "send", stale)


def believe_a_deposed_leader(patch: Patch) -> None:
    """AlterPartition does not look at epochs."""
    judge = isr_changes.IsrChanges._judge

    def trusting(self: Any, event: Any, change: Any) -> Any:
        row = self._row(change)
        if row != NO_ROW and self._context.table.has_leader_and_isr(row):
            state = self._context.table.leader_and_isr(row)
            change = change._replace(
                leader_epoch=state.leader_epoch, partition_epoch=state.zk_version
            )
        return judge(self, event, change)

    patch.setattr(isr_changes.IsrChanges, "_judge", trusting)


def keep_the_dead_in_the_isr(patch: Patch) -> None:
    """A replica that went offline stays in sync in ZooKeeper."""

    def nobody(_: Any, __: int, rows: Sequence[int]) -> Generator[Any, Any, list[int]]:
        yield CheckExists(["/controller"])
        return list(rows)

    patch.setattr(replica_states.ReplicaStateMachine, "_remove_from_isr", nobody)


def take_a_refusal_for_an_empty_list(patch: Patch) -> None:
    """No brokers, no topics: that is what a controller makes of a code that it does not know."""

    def children(
        _: ControllerTools, path: str, *, watch: bool = False
    ) -> Generator[Any, Any, list[str]]:
        (names,) = yield ListChildren([path], watch)
        return sorted(names) if isinstance(names, list) else []

    patch.setattr(ControllerTools, "children", children)


def take_a_refusal_for_a_missing_znode(patch: Patch) -> None:
    """A registration or an assignment that cannot be read is gone."""

    def read(
        self: ControllerTools, paths: Sequence[str], *, watch: bool = False
    ) -> Generator[Any, Any, list[Any]]:
        responses = yield from self.try_read(paths, watch=watch)
        return [None if isinstance(response, ZkCode) else response for response in responses]

    patch.setattr(ControllerTools, "read", read)


def leave_what_was_refused_to_others(patch: Patch) -> None:
    """The controller retries only when a broker comes or goes, as in Kafka."""
    patch.setattr(refused_partitions.RefusedPartitions, "schedule", lambda _: None)


def call_a_refused_deletion_complete(patch: Patch) -> None:
    """What was not deleted is forgotten."""

    def delete(self: ControllerTools, paths: Sequence[str]) -> Generator[Any, Any, None]:
        yield from self.write([Delete(path) for path in paths])

    patch.setattr(ControllerTools, "delete", delete)


def take_silence_for_success(patch: Patch) -> None:
    """A partition that a broker does not name was deleted."""
    understand = broker_requests.event_for_response

    def generous(send: SendControlRequest, body: bytes) -> Any:
        event = understand(send, body)
        if not send.deleting:
            return event
        code, errors = 0, {}
        if isinstance(event, TopicDeletionStopReplicaResponseReceived):
            code, errors = (
                event.request_error,
                {each[:2]: each[2] for each in event.partition_errors},
            )
        named = tuple((*each, errors.get(each, 0)) for each in send.deleting)
        return TopicDeletionStopReplicaResponseReceived(send.broker_id, code, named)

    patch.setattr(channel, "event_for_response", generous)


def leave_without_resigning(patch: Patch) -> None:
    """A controller that cannot go on says so, and keeps what it knows."""

    def stay(self: Any) -> Generator[Any, Any, None]:
        yield from self._tools.try_read(["/controller"])

    patch.setattr(failover.Failover, "trigger_controller_move", stay)


def write_features_without_a_fence(patch: Patch) -> None:
    """A controller that is late overwrites what its successor finalized."""

    def late(_: ControllerTools) -> Generator[Any, Any, None]:
        yield UnfencedBatch([Delete("/feature")])
        yield UnfencedBatch([Create("/feature", b'{"features":{},"version":2,"status":1}')])

    patch.setattr(failover, "set_up_feature_versioning", late)


def leave_a_moved_partition_without_a_leader(patch: Patch) -> None:
    """An order that drops the leader, or gives the first live replicas, elects no leader."""

    def nothing(_: object, __: Sequence[int]) -> Generator[Any, Any, None]:
        return
        yield

    phases = reassignment_phases.ReassignmentPhases
    patch.setattr(phases, "_elect_where_there_is_no_leader", nothing)


CALM_MUTATIONS: Final[tuple[Callable[[Patch], None], ...]] = (
    leave_a_moved_partition_without_a_leader,
)


def forget_what_could_not_be_read(patch: Patch) -> None:
    """A state that could not be read for a higher leader epoch is not looked at again."""
    patch.setattr(leader_epochs, "report_unreadable", lambda _, states: states.unreadable.clear())


REFUSED_MUTATIONS: Final[tuple[Callable[[Patch], None], ...]] = (
    take_a_refusal_for_an_empty_list,
    take_a_refusal_for_a_missing_znode,
    leave_what_was_refused_to_others,
    call_a_refused_deletion_complete,
    take_silence_for_success,
    leave_without_resigning,
    forget_what_could_not_be_read,
)

CONTESTED_MUTATIONS: Final[tuple[Callable[[Patch], None], ...]] = (
    drop_the_fence,
    write_features_without_a_fence,
)


MUTATIONS: Final[tuple[Callable[[Patch], None], ...]] = (
    drop_the_fence,
    elect_without_a_new_leader_epoch,
    leave_no_watch,
    resign_and_remember,
    elect_outside_the_isr,
    forget_a_partition_in_update_metadata,
    delete_the_old_replicas_too_early,
    give_up_a_lost_race,
    a_vanished_controller_is_only_looked_at,
    send_too_low_a_broker_epoch,
    believe_a_deposed_leader,
    keep_the_dead_in_the_isr,
)


FOUND_BY: Final[dict[Callable[[Patch], None], int]] = {
    drop_the_fence: 1,
    resign_and_remember: 1,
    believe_a_deposed_leader: 2,
    take_a_refusal_for_an_empty_list: 4,
    leave_what_was_refused_to_others: 7,
    call_a_refused_deletion_complete: 2,
    forget_what_could_not_be_read: 44,
    take_silence_for_success: 6,
    leave_a_moved_partition_without_a_leader: 7,
}
"""The seed that is tried first for a mutation; for the others it is 0."""


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutate: mutate.__name__)
def test_the_simulator_finds(mutate: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutate(monkeypatch)

    seeds = (FOUND_BY.get(mutate, 0), *SEEDS)
    assert any(ends_badly(seed) for seed in seeds), mutate.__doc__


@pytest.mark.parametrize("mutate", REFUSED_MUTATIONS, ids=lambda mutate: mutate.__name__)
def test_a_zookeeper_that_refuses_finds(
    mutate: Callable[[Patch], None], monkeypatch: Patch
) -> None:
    mutate(monkeypatch)

    seeds = (FOUND_BY.get(mutate, 0), *SEEDS)
    assert any(ends_badly_refused(seed) for seed in seeds), mutate.__doc__


@pytest.mark.parametrize("mutate", CALM_MUTATIONS, ids=lambda mutate: mutate.__name__)
def test_calm_weather_finds(mutate: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutate(monkeypatch)

    seeds = (FOUND_BY.get(mutate, 0), *SEEDS)
    assert any(ends_badly_in_calm_weather(seed) for seed in seeds), mutate.__doc__


@pytest.mark.parametrize("mutate", CONTESTED_MUTATIONS, ids=lambda mutate: mutate.__name__)
def test_controllers_deposed_amid_a_failover_find(
    mutate: Callable[[Patch], None], monkeypatch: Patch
) -> None:
    mutate(monkeypatch)

    seeds = (FOUND_BY.get(mutate, 0), *SEEDS)
    assert any(ends_badly_contested(seed) for seed in seeds), mutate.__doc__


def test_the_core_as_it_is_survives_the_same_storms() -> None:
    """Those that find the mutations; others are tried with ``--seeds``."""
    for ends, mutations in (
        (ends_badly, MUTATIONS),
        (ends_badly_refused, REFUSED_MUTATIONS),
        (ends_badly_contested, CONTESTED_MUTATIONS),
        (ends_badly_in_calm_weather, CALM_MUTATIONS),
    ):
        seeds = {FOUND_BY.get(mutate, 0) for mutate in mutations}
        assert [seed for seed in seeds if ends(seed)] == [], ends.__doc__
