"""What a leader knows of the others, and what is therefore committed."""

from __future__ import annotations

from uuid import UUID

import pytest

from kafka_common.errors import RaftFatal
from kraft.raft.accumulator import BatchAccumulator
from kraft.raft.config import MAX_OBSERVERS, NEVER_MS, OBSERVER_SESSION_MS
from kraft.raft.leader_state import LeaderState
from kraft.raft.values import ReplicaKey, by_descending_offset
from tests.support.raft_harness import CONFIG, FETCH_MS, LISTENER, START_MS, endpoint, voter_set

EPOCH = 5
EPOCH_START = 10
QUORUM_MS = 3000
TWO, THREE, OBSERVER = ReplicaKey(2), ReplicaKey(3), ReplicaKey(9)


def leader(*voters: int) -> LeaderState:
    """Elected at the end of a log of ten records."""
    return LeaderState(
        EPOCH,
        ReplicaKey(1),
        voter_set(*voters),
        epoch_start_offset=EPOCH_START,
        granting_voters=voters,
        leader_endpoints={LISTENER: endpoint(1)},
        accumulator=BatchAccumulator(EPOCH, EPOCH_START, 25),
        config=CONFIG,
        started_ms=START_MS,
    )


# The high watermark.


def test_a_lone_voters_high_watermark_follows_its_log_past_the_start_of_the_epoch() -> None:
    leading = leader(1)

    assert not leading.appended(EPOCH_START)
    assert leading.high_watermark is None
    assert leading.appended(EPOCH_START + 1)
    assert leading.appended(EPOCH_START + 5)

    assert leading.high_watermark == EPOCH_START + 5


def test_of_two_voters_the_one_behind_decides_once_it_has_a_record_of_this_epoch() -> None:
    leading = leader(1, 2)
    leading.appended(13)

    assert not leading.replica_fetched(TWO, 9, START_MS)
    assert not leading.replica_fetched(TWO, EPOCH_START, START_MS)
    assert leading.high_watermark is None
    assert leading.replica_fetched(TWO, 11, START_MS)
    assert leading.high_watermark == 11
    assert leading.replica_fetched(TWO, 13, START_MS)

    assert leading.high_watermark == 13


def test_of_three_voters_one_follower_is_enough() -> None:
    leading = leader(1, 2, 3)
    leading.appended(15)

    assert leading.replica_fetched(THREE, 12, START_MS)
    assert not leading.replica_fetched(TWO, 11, START_MS)

    assert leading.high_watermark == 12


def test_of_four_voters_two_followers_are_needed() -> None:
    leading = leader(1, 2, 3, 4)
    leading.appended(15)

    assert not leading.replica_fetched(TWO, 15, START_MS)
    assert leading.replica_fetched(THREE, 12, START_MS)

    assert leading.high_watermark == 12


def test_records_of_older_epochs_on_a_majority_are_not_committed_by_that() -> None:
    # They could still be overwritten: a node with a later epoch and a shorter log may win.
    leading = leader(1, 2, 3)
    leading.appended(EPOCH_START + 1)

    for replica in (TWO, THREE):
        assert not leading.replica_fetched(replica, EPOCH_START, START_MS)

    assert leading.high_watermark is None


def test_the_leaders_own_log_only_grows() -> None:
    leading = leader(1, 2)
    leading.appended(12)

    with pytest.raises(RaftFatal, match="only appends"):
        leading.appended(11)


def test_the_leaders_own_log_at_the_same_end_changes_nothing() -> None:
    leading = leader(1)
    leading.appended(12)

    assert not leading.appended(12)
    assert leading.high_watermark == 12


def test_a_followers_offset_may_go_back_and_the_high_watermark_stays() -> None:
    leading = leader(1, 2)
    leading.appended(15)
    leading.replica_fetched(TWO, 14, START_MS)

    assert not leading.replica_fetched(TWO, 11, START_MS + 1)

    assert leading.voter_states[2].end_offset == 11
    assert leading.high_watermark == 14


def test_an_observers_progress_commits_nothing() -> None:
    leading = leader(1, 2, 3)
    leading.appended(15)

    assert not leading.replica_fetched(OBSERVER, 15, START_MS)
    assert not leading.replica_fetched(None, 15, START_MS)

    assert leading.high_watermark is None
    assert list(leading.observer_states) == [OBSERVER]


def test_a_voter_is_known_by_its_id_whatever_directory_it_comes_with() -> None:
    leading = leader(1, 2, 3)
    leading.appended(15)

    leading.replica_fetched(ReplicaKey(2, UUID(int=7)), 12, START_MS)
    assert leading.high_watermark == 12
    leading.replica_fetched(ReplicaKey(2, UUID(int=8)), 13, START_MS)

    assert leading.high_watermark == 13
    assert leading.observer_states == {}


def test_the_leader_does_not_fetch_from_itself() -> None:
    leading = leader(1, 2, 3)

    with pytest.raises(RaftFatal, match="from itself"):
        leading.replica_fetched(ReplicaKey(1), 10, START_MS)
    with pytest.raises(RaftFatal, match="from itself"):
        leading.contacted_by(ReplicaKey(1), START_MS)


# Which voters know of it, and which one follows best.


def test_the_leader_counts_itself_and_voters_that_answer_or_fetch_as_acknowledged() -> None:
    leading = leader(1, 2, 3)

    def heard() -> list[int]:
        return [
            voter for voter, state in leading.voter_states.items() if state.has_acknowledged_leader
        ]

    assert heard() == [1]
    leading.acknowledged(3)
    assert heard() == [1, 3]
    leading.replica_fetched(TWO, 0, START_MS)

    assert heard() == [1, 2, 3]


def test_a_node_without_a_vote_has_nothing_to_acknowledge() -> None:
    with pytest.raises(KeyError):
        leader(1, 2, 3).acknowledged(9)


def test_successors_come_by_how_far_they_are_and_the_unknown_ones_last() -> None:
    leading = leader(1, 2, 3, 4, 5)
    leading.appended(20)
    leading.replica_fetched(ReplicaKey(4), 15, START_MS)
    leading.replica_fetched(THREE, 12, START_MS)
    leading.replica_fetched(ReplicaKey(5), 15, START_MS)

    successors = [key.id for key in leading.non_leader_voters_by_descending_offset]

    assert successors == [4, 5, 3, 2]


def test_an_unknown_offset_is_less_than_none_at_all() -> None:
    assert by_descending_offset({2: None, 3: 0, 4: None, 1: 0}) == [1, 3, 2, 4]


# Check-quorum.


def test_without_a_fetch_a_leader_of_several_has_one_and_a_half_fetch_timeouts() -> None:
    leading = leader(1, 2, 3)

    assert int(FETCH_MS * 1.5) == QUORUM_MS
    assert leading.check_quorum_deadline_ms == START_MS + QUORUM_MS


def test_a_majority_of_fetches_within_the_time_gives_it_anew() -> None:
    leading = leader(1, 2, 3)

    leading.replica_fetched(TWO, 0, START_MS + 100)

    assert leading.check_quorum_deadline_ms == START_MS + 100 + QUORUM_MS


def test_of_five_voters_two_different_followers_are_needed_each_time() -> None:
    leading = leader(1, 2, 3, 4, 5)

    leading.replica_fetched(TWO, 0, START_MS + 100)
    leading.replica_fetched(TWO, 0, START_MS + 200)
    assert leading.check_quorum_deadline_ms == START_MS + QUORUM_MS
    leading.contacted_by(THREE, START_MS + 300)
    assert leading.check_quorum_deadline_ms == START_MS + 300 + QUORUM_MS
    leading.contacted_by(THREE, START_MS + 400)

    assert leading.check_quorum_deadline_ms == START_MS + 300 + QUORUM_MS


def test_observers_do_not_keep_a_leader() -> None:
    leading = leader(1, 2, 3)

    leading.replica_fetched(OBSERVER, 0, START_MS + 100)
    leading.contacted_by(OBSERVER, START_MS + 100)
    leading.contacted_by(None, START_MS + 100)

    assert leading.check_quorum_deadline_ms == START_MS + QUORUM_MS


def test_a_lone_voter_is_never_without_its_majority() -> None:
    leading = leader(1)

    leading.contacted_by(OBSERVER, START_MS + 100)

    assert leading.check_quorum_deadline_ms == NEVER_MS


def test_begin_quorum_epoch_is_due_at_once() -> None:
    assert leader(1, 2, 3).begin_quorum_epoch_deadline_ms == START_MS


# What DescribeQuorum tells.


def test_a_replica_that_has_everything_is_caught_up_now() -> None:
    leading = leader(1, 2, 3)
    leading.appended(12)

    leading.replica_fetched(TWO, 12, START_MS + 50)
    voters, _ = leading.progress(START_MS + 70)

    assert [row.replica.id for row in voters] == [1, 2, 3]
    assert voters[1].log_end_offset == 12
    assert voters[1].last_fetch_timestamp == START_MS + 50
    assert voters[1].last_caught_up_timestamp == START_MS + 50


def test_a_replica_that_has_what_was_there_at_its_last_fetch_was_caught_up_then() -> None:
    leading = leader(1, 2, 3)
    leading.appended(12)
    leading.replica_fetched(TWO, 11, START_MS + 50)
    leading.appended(15)

    leading.replica_fetched(TWO, 12, START_MS + 60)
    voters, _ = leading.progress(START_MS + 70)

    assert voters[1].last_caught_up_timestamp == START_MS + 50
    assert voters[1].last_fetch_timestamp == START_MS + 60


def test_the_leaders_own_times_are_now_and_of_a_silent_voter_nothing_is_known() -> None:
    leading = leader(1, 2, 3)
    leading.appended(12)

    voters, observers = leading.progress(START_MS + 70)

    own, silent = voters[0], voters[2]
    assert own.log_end_offset == 12
    assert (own.last_fetch_timestamp, own.last_caught_up_timestamp) == (START_MS + 70,) * 2
    assert (silent.log_end_offset, silent.last_fetch_timestamp) == (-1, -1)
    assert silent.last_caught_up_timestamp == -1
    assert observers == ()


def test_a_static_voter_is_described_without_a_directory_and_an_observer_with_its_own() -> None:
    leading = leader(1, 2, 3)
    observer = ReplicaKey(9, UUID(int=9))
    leading.replica_fetched(ReplicaKey(2, UUID(int=7)), 0, START_MS)
    leading.replica_fetched(observer, 0, START_MS)

    voters, observers = leading.progress(START_MS)

    assert [row.replica for row in voters] == [ReplicaKey(1), TWO, THREE]
    assert [row.replica for row in observers] == [observer]


def test_an_observer_that_was_silent_for_its_session_is_forgotten() -> None:
    leading = leader(1, 2, 3)
    leading.replica_fetched(OBSERVER, 0, START_MS)
    leading.replica_fetched(ReplicaKey(10), 0, START_MS + 1)

    just_in_time = leading.progress(START_MS + OBSERVER_SESSION_MS - 1)[1]
    one_too_late = leading.progress(START_MS + OBSERVER_SESSION_MS)[1]

    assert [row.replica.id for row in just_in_time] == [9, 10]
    assert [row.replica.id for row in one_too_late] == [10]


def test_of_too_many_observers_the_one_with_the_oldest_fetch_is_forgotten() -> None:
    leading = leader(1, 2, 3)
    for number in range(MAX_OBSERVERS):
        leading.replica_fetched(ReplicaKey(100 + number), 0, START_MS + number)
    leading.replica_fetched(ReplicaKey(100), 0, START_MS + MAX_OBSERVERS)

    leading.replica_fetched(OBSERVER, 0, START_MS + MAX_OBSERVERS + 1)

    assert len(leading.observer_states) == MAX_OBSERVERS
    assert ReplicaKey(101) not in leading.observer_states
    assert ReplicaKey(100) in leading.observer_states
