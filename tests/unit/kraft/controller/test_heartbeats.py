"""Who is alive, and what a broker may do after its heartbeat.

Source of the behaviours: Kafka ``BrokerHeartbeatManagerTest``.
"""

from __future__ import annotations

import pytest

from kafka_common.errors import IllegalState
from kraft.controller.heartbeats import (
    NO_ACTIVE_BROKER,
    BrokerControlState,
    BrokerHeartbeat,
    BrokerHeartbeatManager,
)

FENCED = BrokerControlState.FENCED
UNFENCED = BrokerControlState.UNFENCED
CONTROLLED_SHUTDOWN = BrokerControlState.CONTROLLED_SHUTDOWN
SHUTDOWN_NOW = BrokerControlState.SHUTDOWN_NOW

SESSION_TIMEOUT_MS = 9000
REGISTERED_AT = 100


@pytest.fixture
def heartbeats() -> BrokerHeartbeatManager:
    return BrokerHeartbeatManager(SESSION_TIMEOUT_MS)


def touched(heartbeats: BrokerHeartbeatManager, *contacts: tuple[int, int, int]) -> None:
    """Registers brokers as unfenced: id, metadata offset, time."""
    for broker_id, offset, now_ms in contacts:
        heartbeats.register(broker_id, fenced=True, now_ms=now_ms)
        heartbeats.touch(broker_id, fenced=False, metadata_offset=offset, now_ms=now_ms)


def test_a_session_is_valid_until_its_timeout_inclusive(heartbeats: BrokerHeartbeatManager) -> None:
    assert not heartbeats.has_valid_session(1, 0)

    touched(heartbeats, (1, 0, 1000))
    assert heartbeats.has_valid_session(1, 1000 + SESSION_TIMEOUT_MS)
    assert not heartbeats.has_valid_session(1, 1000 + SESSION_TIMEOUT_MS + 1)


def test_a_fenced_broker_has_no_session(heartbeats: BrokerHeartbeatManager) -> None:
    heartbeats.register(1, fenced=True, now_ms=1000)

    assert not heartbeats.has_valid_session(1, 1000)
    assert heartbeats.next_check_time_ms() is None


def test_touch_of_an_unknown_broker_fails(heartbeats: BrokerHeartbeatManager) -> None:
    with pytest.raises(IllegalState, match="broker 1 is not registered"):
        heartbeats.touch(1, fenced=False, metadata_offset=0, now_ms=0)
    with pytest.raises(IllegalState):
        heartbeats.maybe_update_controlled_shutdown_offset(1, 10)
    heartbeats.fence(1)
    heartbeats.remove(1)


def test_the_longest_silent_broker_is_stale_first(heartbeats: BrokerHeartbeatManager) -> None:
    touched(heartbeats, (1, 0, 0), (2, 0, 10), (3, 0, 20))
    touched(heartbeats, (1, 0, 30))

    assert heartbeats.next_check_time_ms() == 10 + SESSION_TIMEOUT_MS
    assert heartbeats.find_one_stale_broker(10 + SESSION_TIMEOUT_MS) is None
    assert heartbeats.find_one_stale_broker(11 + SESSION_TIMEOUT_MS) == 2

    heartbeats.fence(2)
    assert heartbeats.find_one_stale_broker(11 + SESSION_TIMEOUT_MS) is None
    assert heartbeats.next_check_time_ms() == 20 + SESSION_TIMEOUT_MS


def test_a_clock_that_steps_back_keeps_the_order_of_contacts(
    heartbeats: BrokerHeartbeatManager,
) -> None:
    touched(heartbeats, (1, 0, 500), (2, 0, 700), (3, 0, 600))

    order = []
    while (broker := heartbeats.find_one_stale_broker(1_000_000)) is not None:
        order.append(broker)
        heartbeats.fence(broker)

    assert order == [1, 3, 2]


def test_the_lowest_active_offset_leaves_out_who_is_fenced_or_stops(
    heartbeats: BrokerHeartbeatManager,
) -> None:
    assert heartbeats.lowest_active_offset() == NO_ACTIVE_BROKER

    touched(heartbeats, (1, 101, 0), (2, 102, 0), (3, 103, 0))
    assert heartbeats.lowest_active_offset() == 101

    heartbeats.maybe_update_controlled_shutdown_offset(1, 500)
    assert heartbeats.lowest_active_offset() == 102

    heartbeats.touch(2, fenced=True, metadata_offset=102, now_ms=0)
    assert heartbeats.lowest_active_offset() == 103


def test_the_first_controlled_shutdown_offset_counts(heartbeats: BrokerHeartbeatManager) -> None:
    touched(heartbeats, (1, 101, 0))
    assert heartbeats.controlled_shutdown_offset(1) is None

    heartbeats.maybe_update_controlled_shutdown_offset(1, 500)
    heartbeats.maybe_update_controlled_shutdown_offset(1, 600)

    assert heartbeats.controlled_shutdown_offset(1) == 500


def test_a_fenced_broker_leaves_controlled_shutdown(heartbeats: BrokerHeartbeatManager) -> None:
    touched(heartbeats, (1, 101, 0))
    heartbeats.maybe_update_controlled_shutdown_offset(1, 500)
    assert heartbeats.current_state(1) is CONTROLLED_SHUTDOWN

    heartbeats.touch(1, fenced=True, metadata_offset=101, now_ms=0)

    assert heartbeats.current_state(1) is FENCED
    assert heartbeats.controlled_shutdown_offset(1) is None
    with pytest.raises(IllegalState, match="broker 1 is fenced"):
        heartbeats.maybe_update_controlled_shutdown_offset(1, 600)


def test_usable_brokers_are_those_that_do_not_stop(heartbeats: BrokerHeartbeatManager) -> None:
    touched(heartbeats, (3, 0, 0), (1, 0, 0), (2, 0, 0))
    heartbeats.register(0, fenced=True, now_ms=0)
    heartbeats.maybe_update_controlled_shutdown_offset(2, 500)

    assert heartbeats.usable_broker_ids() == [0, 1, 3]


def test_a_replayed_registration_that_turns_fencing_keeps_the_offset(
    heartbeats: BrokerHeartbeatManager,
) -> None:
    heartbeats.register(1, fenced=True, now_ms=0)
    heartbeats.touch(1, fenced=True, metadata_offset=101, now_ms=0)

    heartbeats.register(1, fenced=False, now_ms=0)
    assert heartbeats.lowest_active_offset() == 101

    heartbeats.register(1, fenced=False, now_ms=0)
    assert heartbeats.lowest_active_offset() == -1


@pytest.mark.parametrize(
    ("want_fence", "want_shut_down", "offset", "following"),
    [
        (False, True, 0, SHUTDOWN_NOW),
        (True, True, 0, SHUTDOWN_NOW),
        (False, False, REGISTERED_AT - 1, FENCED),
        (False, False, REGISTERED_AT, UNFENCED),
        (True, False, REGISTERED_AT, FENCED),
    ],
)
def test_what_a_fenced_broker_gets(
    heartbeats: BrokerHeartbeatManager,
    want_fence: bool,
    want_shut_down: bool,
    offset: int,
    following: BrokerControlState,
) -> None:
    heartbeats.register(1, fenced=True, now_ms=0)
    heartbeat = BrokerHeartbeat(1, 7, offset, want_fence, want_shut_down)

    states = heartbeats.calculate_next_state(heartbeat, REGISTERED_AT, lambda: True)

    assert states == (FENCED, following)


@pytest.mark.parametrize(
    ("want_fence", "want_shut_down", "leads", "following"),
    [
        (True, True, True, SHUTDOWN_NOW),
        (True, False, True, FENCED),
        (False, True, True, CONTROLLED_SHUTDOWN),
        (False, True, False, SHUTDOWN_NOW),
        (False, False, True, UNFENCED),
    ],
)
def test_what_an_unfenced_broker_gets(
    heartbeats: BrokerHeartbeatManager,
    want_fence: bool,
    want_shut_down: bool,
    leads: bool,
    following: BrokerControlState,
) -> None:
    touched(heartbeats, (1, REGISTERED_AT, 0))
    heartbeat = BrokerHeartbeat(1, 7, 0, want_fence, want_shut_down)

    states = heartbeats.calculate_next_state(heartbeat, REGISTERED_AT, lambda: leads)

    assert states == (UNFENCED, following)


@pytest.mark.parametrize(
    ("leads", "others_offset", "following"),
    [
        (True, 900, CONTROLLED_SHUTDOWN),
        (False, 499, CONTROLLED_SHUTDOWN),
        (False, 500, SHUTDOWN_NOW),
    ],
)
def test_a_broker_in_controlled_shutdown_stops_once_all_others_know_the_new_leaders(
    heartbeats: BrokerHeartbeatManager,
    leads: bool,
    others_offset: int,
    following: BrokerControlState,
) -> None:
    touched(heartbeats, (1, REGISTERED_AT, 0), (2, 1000, 0), (3, others_offset, 0))
    heartbeats.maybe_update_controlled_shutdown_offset(1, 500)
    heartbeat = BrokerHeartbeat(1, 7, 500, want_shut_down=True)

    states = heartbeats.calculate_next_state(heartbeat, REGISTERED_AT, lambda: leads)

    assert states == (CONTROLLED_SHUTDOWN, following)


def test_the_last_broker_may_stop_at_once(heartbeats: BrokerHeartbeatManager) -> None:
    touched(heartbeats, (1, REGISTERED_AT, 0))
    heartbeats.maybe_update_controlled_shutdown_offset(1, 500)
    heartbeat = BrokerHeartbeat(1, 7, 0, want_shut_down=True)

    states = heartbeats.calculate_next_state(heartbeat, REGISTERED_AT, lambda: False)

    assert states == (CONTROLLED_SHUTDOWN, SHUTDOWN_NOW)
