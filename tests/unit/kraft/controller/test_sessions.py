"""Brokers that register again, or go for good: what is left of their sessions and their flags."""

from __future__ import annotations

from uuid import UUID

from kraft.controller.quorum_controller_requests import UnregisterBroker
from kraft.controller.registrations import BrokerRegistration
from kraft.metadata.records import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from tests.support.quorum_controller_world import QUIET, QuorumWorld

SESSION_TIMEOUT_MS = 9_000


def registered(world: QuorumWorld, broker_id: int = 1) -> BrokerRegistration:
    broker = world.active.state.cluster.registration(broker_id)
    assert broker is not None
    return broker


def test_no_request_waits_for_a_broker_that_was_unregistered_while_it_was_alive(
    world: QuorumWorld,
) -> None:
    world.start_brokers(1, 2)
    world.send(UnregisterBroker(1))
    before = len(world.records)

    for _ in range(3):
        world.advance(SESSION_TIMEOUT_MS - 1)
        world.heartbeat(2)

    assert len(world.records) == before
    assert world.faults == []
    assert not world.active.state.cluster.heartbeats.has_valid_session(1, world.now_ms)
    # The id is free: the next broker under it need not wait for a session to end.
    assert world.register(1, incarnation=2) == world.log.end_offset - 1


def test_a_fenced_broker_that_registers_again_in_the_same_life_stays_fenced(
    world: QuorumWorld,
) -> None:
    epoch = world.register(1)

    assert world.register(1) == epoch

    assert registered(world).fenced
    assert not world.heartbeat(1).is_fenced


def test_a_broker_that_is_about_to_stop_is_not_any_more_in_its_next_life(
    world: QuorumWorld,
) -> None:
    world.start_brokers(1, 2)
    world.create_topic("orders", (1, 2))
    assert not world.heartbeat(1, want_shut_down=True).should_shut_down
    assert registered(world).in_controlled_shutdown

    world.register(1)
    assert registered(world).in_controlled_shutdown
    assert not registered(world).fenced
    world.advance(SESSION_TIMEOUT_MS + 1)
    world.register(1, incarnation=2)

    again = registered(world)
    assert (again.fenced, again.in_controlled_shutdown) == (True, False)
    *_, record = (record for record in world.records if isinstance(record, RegisterBrokerRecord))
    assert (record.fenced, record.in_controlled_shutdown) == (True, False)
    assert world.active.state.cluster.heartbeats.controlled_shutdown_offset(1) is None


def test_a_broker_that_is_not_known_is_about_nothing(world: QuorumWorld) -> None:
    world.start_brokers(1)
    cluster = world.active.state.cluster

    assert [
        (cluster.is_unfenced(broker), cluster.is_active(broker),
         cluster.in_controlled_shutdown(broker))
        for broker in (1, 9)
    ] == [(True, True, False), (False, False, False)]  # fmt: skip


def test_a_registration_is_a_sign_of_life(world: QuorumWorld) -> None:
    world.start_brokers(1)

    world.advance(SESSION_TIMEOUT_MS - 1)
    world.register(1)
    world.advance(SESSION_TIMEOUT_MS)
    assert world.active.state.cluster.is_unfenced(1)
    world.advance(1)

    assert not world.active.state.cluster.is_unfenced(1)
    assert world.records[-1] == BrokerRegistrationChangeRecord(1, registered(world).epoch, fenced=1)


def test_before_3_7_iv2_a_heartbeat_tells_nothing_of_directories() -> None:
    world = QuorumWorld.led(version="3.7-IV1", config=QUIET)
    world.start_brokers(1)
    before = world.records

    world.heartbeat(1, offline_log_dirs=(UUID(int=(1 << 64) + 1),))

    assert world.records == before
