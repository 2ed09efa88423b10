"""Leader elections as plain functions."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_common.model import RECOVERED, RECOVERING, LeaderAndIsr
from zkcontroller.core.elections import (
    elect_first_in_sync,
    elect_for_controlled_shutdown,
    elect_initial,
    elect_offline,
    without_replica,
)

EPOCH = 4
"""Of the controller that decides; the states were written by one before it."""


def state(leader: int, *isr: int, leader_epoch: int = 5) -> LeaderAndIsr:
    return LeaderAndIsr(leader, leader_epoch, isr, zk_version=7, controller_epoch=3)


def up(*brokers: int) -> Callable[[int], bool]:
    return brokers.__contains__


def test_the_first_live_assigned_replica_leads_a_new_partition_and_all_live_ones_are_in_sync() -> (
    None
):
    first = elect_initial((3, 1, 2), up(1, 2), controller_epoch=4)

    assert first == LeaderAndIsr(1, 0, (1, 2), 0, 4, RECOVERED)


def test_a_new_partition_without_a_live_replica_gets_no_leader() -> None:
    assert elect_initial((1, 2), up(3), controller_epoch=4) is None


def test_offline_election_prefers_the_assignment_order_among_live_in_sync_replicas() -> None:
    elected = elect_offline(state(2, 2, 4), (2, 4), up(4), unclean=False)

    assert elected is not None
    assert elected.leader == 4
    assert elected.in_sync_replicas == (4,)
    assert elected.leader_epoch == 6


def test_the_in_sync_order_does_not_decide_who_leads() -> None:
    elected = elect_offline(state(9, 4, 2), (2, 4), up(2, 4), unclean=False)

    assert elected is not None
    assert elected.leader == 2
    assert elected.in_sync_replicas == (4, 2)


def test_without_a_live_in_sync_replica_no_broker_leads_unless_unclean() -> None:
    assert elect_offline(state(2, 2), (2, 4), up(4), unclean=False) is None


def test_an_unclean_leader_is_alone_in_sync_and_recovering() -> None:
    elected = elect_offline(state(2, 2), (2, 4), up(4), unclean=True)

    assert elected is not None
    assert (elected.leader, elected.in_sync_replicas) == (4, (4,))
    assert elected.leader_recovery_state == RECOVERING


def test_an_unclean_leader_is_not_recovering_below_inter_broker_protocol_3_2() -> None:
    elected = elect_offline(state(2, 2), (2, 4), up(4), unclean=True, is_recovery_tracked=False)

    assert elected is not None
    assert elected.leader_recovery_state == RECOVERED


def test_a_clean_leader_is_taken_even_where_an_unclean_one_is_allowed() -> None:
    elected = elect_offline(state(2, 2, 4), (3, 2, 4), up(3, 4), unclean=True)

    assert elected is not None
    assert elected.leader == 4
    assert elected.leader_recovery_state == RECOVERED


def test_controlled_shutdown_moves_to_the_first_in_sync_live_replica_that_stays() -> None:
    elected = elect_for_controlled_shutdown(state(1, 1, 2, 3), (1, 2, 3), up(1, 2, 3), up(1))

    assert elected is not None
    assert elected.leader == 2
    assert elected.in_sync_replicas == (2, 3)


def test_controlled_shutdown_takes_every_broker_that_stops_out_of_the_isr() -> None:
    elected = elect_for_controlled_shutdown(state(1, 1, 2, 3), (1, 2, 3), up(1, 2, 3), up(1, 2))

    assert elected is not None
    assert (elected.leader, elected.in_sync_replicas) == (3, (3,))


def test_the_last_in_sync_replica_keeps_its_leadership_when_it_stops() -> None:
    assert elect_for_controlled_shutdown(state(1, 1), (1, 2), up(1, 2), up(1)) is None


def test_a_reassigned_partition_is_led_by_the_first_target_that_is_live_and_in_sync() -> None:
    elected = elect_first_in_sync(state(9, 5, 6, 9), (4, 5, 6), up(4, 5, 6))

    # The ISR stays as it was, with its offline member.
    assert elected == state(5, 5, 6, 9, leader_epoch=6)


@pytest.mark.parametrize(("isr", "live"), [((2, 4), (3,)), ((), (2, 4))], ids=["dead", "empty"])
def test_without_a_live_in_sync_target_a_reassigned_partition_gets_no_leader(
    isr: tuple[int, ...], live: tuple[int, ...]
) -> None:
    assert elect_first_in_sync(state(9, *isr), (2, 4), up(*live)) is None


@pytest.mark.parametrize(
    ("isr", "live"),
    [((1, 2), (2, 3)), ((2, 3), (1, 2)), ((2, 3), (2, 3))],
    ids=["in sync but dead", "live but not in sync", "neither"],
)
def test_the_preferred_replica_leads_only_if_it_is_live_and_in_sync(
    isr: tuple[int, ...], live: tuple[int, ...]
) -> None:
    assert elect_first_in_sync(state(2, *isr), (1,), up(*live)) is None


def test_a_dead_leader_leaves_no_leader_and_a_shrunk_isr() -> None:
    after = without_replica(state(1, 1, 2), 1, (1, 2), EPOCH)

    assert (after.leader, after.in_sync_replicas, after.leader_epoch) == (-1, (2,), 6)
    assert (after.zk_version, after.controller_epoch) == (7, EPOCH)


def test_the_last_in_sync_replica_stays_in_the_isr() -> None:
    after = without_replica(state(1, 1), 1, (1, 2), EPOCH)

    assert (after.leader, after.in_sync_replicas, after.leader_epoch) == (-1, (1,), 6)


def test_the_last_in_sync_replica_stays_although_a_dropped_one_is_beside_it() -> None:
    after = without_replica(state(1, 1, 3), 1, (2, 5, 1), EPOCH)

    assert (after.leader, after.in_sync_replicas, after.leader_epoch) == (-1, (1,), 6)


def test_a_dropped_replica_leaves_the_isr() -> None:
    after = without_replica(state(1, 1, 3), 3, (2, 5, 1), EPOCH)

    assert (after.leader, after.in_sync_replicas) == (1, (1,))


def test_a_dead_follower_leaves_the_leader_where_it_is() -> None:
    after = without_replica(state(1, 1, 2), 2, (1, 2), EPOCH)

    assert (after.leader, after.in_sync_replicas) == (1, (1,))


brokers = st.integers(0, 5)


@given(
    replicas=st.lists(brokers, min_size=1, max_size=5, unique=True),
    alive=st.sets(brokers),
    unclean=st.booleans(),
    data=st.data(),
)
def test_an_offline_election_never_breaks_what_must_hold(
    replicas: list[int], alive: set[int], unclean: bool, data: st.DataObject
) -> None:
    isr = data.draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True))
    before = state(replicas[0], *isr)

    after = elect_offline(before, replicas, alive.__contains__, unclean=unclean)

    if after is None:
        assert not alive & set(isr)
        assert not unclean or not alive & set(replicas)
        return
    assert after.leader_epoch == before.leader_epoch + 1
    assert after.leader in after.in_sync_replicas
    assert set(after.in_sync_replicas) <= alive & set(replicas)
    if alive & set(isr):
        assert set(after.in_sync_replicas) <= set(isr)
