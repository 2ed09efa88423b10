"""What those who read the committed log get, and when."""

from __future__ import annotations

from kraft.raft.config import CLEANER_PERIOD_MS
from kraft.raft.inputs import ListenerAdvanced, Resign
from kraft.raft.outputs import DeliverCommit, DeliverLeader, DeliverSnapshot, FlushLog, RaftOutput
from kraft.raft.values import LeaderAndEpoch, OffsetAndEpoch
from tests.support.raft_harness import (
    CONFIG,
    ELECTION_MS,
    FETCH_MS,
    RaftHarness,
    batch,
    begin,
    fetch,
    log_of,
    records,
    vote,
)
from zkcontroller_simulation.raft_log_model import InMemoryRaftLog

READER = "reader"


def heard(outputs: list[RaftOutput], listener: str = READER) -> list[RaftOutput]:
    """What the outputs bring to a listener."""
    return [
        output
        for output in outputs
        if isinstance(output, DeliverCommit | DeliverSnapshot | DeliverLeader)
        and output.listener == listener
    ]


def commit(first: int, high_watermark: int, listener: str = READER) -> DeliverCommit:
    return DeliverCommit(listener, first, high_watermark)


def leader(leader_id: int | None, epoch: int, listener: str = READER) -> DeliverLeader:
    return DeliverLeader(listener, LeaderAndEpoch(leader_id, epoch))


def advance(node: RaftHarness, next_offset: int, listener: str = READER) -> list[RaftOutput]:
    """The listener has taken in all before that offset; gives what it gets then."""
    return heard(node.step(ListenerAdvanced(listener, next_offset)), listener)


def follower_with(committed: int, log: InMemoryRaftLog | None = None) -> RaftHarness:
    """A follower of node 2 in epoch 4, with a listener that knows the leader."""
    node = RaftHarness(log=log_of(1, 1, 1) if log is None else log).start()
    node.register(READER)
    send = node.follow(2, epoch=4)
    assert heard(node.outputs) == [leader(2, 4)]
    node.reply(send, records(2, 4, high_watermark=committed))
    return node


def led_log_with_snapshots() -> InMemoryRaftLog:
    """Ten records of which a snapshot covers the first four, and another one the first seven."""
    log = log_of(*[1] * 10, log=InMemoryRaftLog(retention_bytes=0))
    log.update_high_watermark(7)
    log.create_snapshot(OffsetAndEpoch(4, 1), b"four")
    log.create_snapshot(OffsetAndEpoch(7, 1), b"seven")
    return log


# Commits.


def test_a_listener_gets_what_is_committed_from_the_beginning() -> None:
    node = follower_with(committed=2)

    assert heard(node.outputs) == [commit(0, 2)]


def test_nothing_more_is_delivered_before_a_listener_has_taken_in_what_it_got() -> None:
    node = follower_with(committed=2)

    node.reply(node.only_send, records(2, 4, high_watermark=3))
    assert heard(node.outputs) == []

    assert advance(node, 1) == [commit(1, 3)]
    assert advance(node, 3) == []


def test_before_anything_is_known_to_be_committed_nothing_is_delivered() -> None:
    node = RaftHarness(log=log_of(1, 1, 1)).start()
    node.register(READER)

    assert heard(node.run_ms(ELECTION_MS - 1)) == []


def test_a_listener_that_comes_late_gets_all_that_is_committed_and_then_the_leader() -> None:
    node = follower_with(committed=3)

    late = heard(node.register("late"), "late")

    assert late == [commit(0, 3, "late"), leader(2, 4, "late")]
    assert advance(node, 3, "late") == []


def test_a_listener_that_registers_again_begins_again() -> None:
    node = follower_with(committed=3)
    advance(node, 3)

    assert heard(node.register(READER)) == [commit(0, 3), leader(2, 4)]


def test_each_listener_goes_at_its_own_pace() -> None:
    node = follower_with(committed=1)
    fetching = node.only_send
    node.register("late")
    advance(node, 1)

    node.reply(fetching, records(2, 4, high_watermark=3))

    assert heard(node.outputs) == [commit(1, 3)]
    assert heard(node.outputs, "late") == []
    assert advance(node, 1, "late") == [commit(1, 3, "late")]


def test_records_are_delivered_only_when_they_are_on_disk() -> None:
    node = RaftHarness().start()
    node.register(READER)
    send = node.follow(2, epoch=4)

    node.reply(send, records(2, 4, batch(0, 4), high_watermark=1))

    kinds = [type(output) for output in node.outputs]
    assert kinds.index(FlushLog) < kinds.index(DeliverCommit)


def test_commits_are_delivered_by_voted_nodes_and_candidates_as_well() -> None:
    node = follower_with(committed=3)

    node.vote(vote(3, 9, OffsetAndEpoch(3, 1)))
    assert advance(node, 1) == [commit(1, 3)]
    node.become_candidate()

    assert advance(node, 2) == [commit(2, 3)]


# Leaders.


def test_a_listener_gets_each_leader_once() -> None:
    node = RaftHarness().start()
    node.register(READER)
    assert heard(node.outputs) == []

    node.begin(begin(2, 4))
    assert heard(node.outputs) == [leader(2, 4)]
    node.begin(begin(2, 4))
    assert heard(node.outputs) == []
    node.begin(begin(3, 5))

    assert heard(node.outputs) == [leader(3, 5)]


def test_a_listener_gets_an_epoch_without_a_leader_and_then_the_leader() -> None:
    node = RaftHarness().start()
    node.register(READER)

    node.vote(vote(3, 5))
    assert heard(node.outputs) == [leader(None, 5)]
    node.begin(begin(3, 5))

    assert heard(node.outputs) == [leader(3, 5)]


def test_a_follower_that_stands_knows_no_leader_any_more() -> None:
    node = RaftHarness().start()
    node.register(READER)
    node.follow(2, epoch=4)

    assert heard(node.run_ms(FETCH_MS)) == [leader(None, 5)]


def test_a_listener_learns_that_this_node_leads_once_it_has_read_its_first_record() -> None:
    node = RaftHarness(log=log_of(1, 1)).start()
    node.register(READER)
    node.become_leader()
    assert leader(1, 2) not in heard(node.outputs)

    node.ask(fetch(2, 2, 3, 2))
    assert heard(node.outputs) == [commit(0, 3)]
    assert advance(node, 2) == [commit(2, 3)]

    assert advance(node, 3) == [leader(1, 2)]


def test_an_empty_log_makes_no_exception() -> None:
    node = RaftHarness(voters=[1]).start()

    assert heard(node.register(READER)) == [commit(0, 1)]
    assert advance(node, 1) == [leader(1, 1)]


def test_a_leader_that_has_resigned_is_not_announced_any_more() -> None:
    node = RaftHarness().start().become_leader()
    node.register(READER)
    node.ask(fetch(2, 1, 1, 1))

    assert heard(node.step(Resign(1))) == []
    assert advance(node, 1) == []
    assert heard(node.run_ms(ELECTION_MS)) == [leader(None, 2)]


def test_the_listener_of_a_lone_voter_that_resigns_gets_an_epoch_without_a_leader_in_between() -> (
    None
):
    node = RaftHarness(voters=[1]).start()
    node.register(READER)
    advance(node, 1)
    node.step(Resign(1))

    outputs = heard(node.run_ms(ELECTION_MS))

    assert outputs == [leader(None, 2), commit(1, 2)]
    assert advance(node, 2) == [leader(1, 2)]


def test_a_leader_that_loses_its_epoch_says_so() -> None:
    node = RaftHarness().start().become_leader()
    node.register(READER)
    node.ask(fetch(2, 1, 1, 1))
    assert advance(node, 1) == [leader(1, 1)]

    node.vote(vote(3, 2, OffsetAndEpoch(1, 1)))

    assert heard(node.outputs) == [leader(None, 2)]


# Snapshots.


def test_a_new_listener_begins_with_the_latest_snapshot() -> None:
    node = follower_with(committed=9, log=led_log_with_snapshots())

    assert heard(node.outputs) == [DeliverSnapshot(READER, OffsetAndEpoch(7, 1))]
    assert advance(node, 7) == [commit(7, 9)]


def test_a_listener_behind_the_start_of_the_log_gets_a_snapshot_and_then_the_rest() -> None:
    log = log_of(*[1] * 10, log=InMemoryRaftLog(retention_bytes=0))
    node = follower_with(committed=9, log=log)
    assert heard(node.outputs) == [commit(0, 9)]
    log.create_snapshot(OffsetAndEpoch(4, 1), b"four")
    log.create_snapshot(OffsetAndEpoch(7, 1), b"seven")
    assert log.clean(node.now_ms)
    assert log.start_offset == 7

    assert advance(node, 2) == [DeliverSnapshot(READER, OffsetAndEpoch(7, 1))]
    assert advance(node, 7) == [commit(7, 9)]


def test_what_is_cleaned_away_in_the_same_step_is_delivered_as_a_snapshot() -> None:
    log = log_of(*[1] * 10, log=InMemoryRaftLog(retention_bytes=0))
    node = follower_with(committed=9, log=log)
    log.create_snapshot(OffsetAndEpoch(4, 1), b"four")
    log.create_snapshot(OffsetAndEpoch(7, 1), b"seven")
    node.now_ms += CLEANER_PERIOD_MS

    first, *_ = advance(node, 2)

    assert log.start_offset == 7
    assert first == DeliverSnapshot(READER, OffsetAndEpoch(7, 1))
    assert advance(node, 7) == [commit(7, 9)]


def test_a_listener_at_the_start_of_the_log_needs_no_snapshot() -> None:
    log = log_of(*[1] * 10, log=InMemoryRaftLog(retention_bytes=0))
    node = follower_with(committed=9, log=log)
    log.create_snapshot(OffsetAndEpoch(4, 1), b"four")
    log.create_snapshot(OffsetAndEpoch(7, 1), b"seven")
    log.clean(node.now_ms)

    assert advance(node, 7) == [commit(7, 9)]


def test_the_listener_of_a_leader_behind_its_log_gets_a_snapshot_too() -> None:
    node = RaftHarness(log=led_log_with_snapshots()).start().become_leader()
    node.register(READER)
    assert heard(node.outputs) == []

    node.ask(fetch(2, 2, 11, 2))

    assert heard(node.outputs) == [DeliverSnapshot(READER, OffsetAndEpoch(7, 1))]
    assert advance(node, 7) == [commit(7, 11)]
    assert advance(node, 11) == [leader(1, 2)]


def test_the_linger_of_an_append_is_the_time_until_its_listener_can_get_it() -> None:
    node = RaftHarness(voters=[1]).start()
    node.register(READER)
    advance(node, 1)
    node.node.prepare_append(1, [b"a"], node.now_ms)
    node.node.schedule_prepared_append()

    assert heard(node.run_ms(CONFIG.append_linger_ms - 1)) == []
    assert heard(node.run_ms(1)) == [commit(1, 2)]
