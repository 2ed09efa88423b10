"""Timers of the group coordinator: what goes off when, and what they cost."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from replica_manager.coordinators.groups.timers import GroupTimer, TimerKind, Timers

A, B, C = (GroupTimer(TimerKind.SESSION, "billing", name) for name in "abc")


def due(timers: Timers, now_ms: int) -> list[GroupTimer]:
    found = []
    while (timer := timers.take_due(now_ms)) is not None:
        found.append(timer)
    return found


def test_timers_go_off_in_the_order_of_their_deadlines() -> None:
    timers = Timers()
    for timer, deadline in ((A, 30), (B, 10), (C, 20)):
        timers.set(timer, deadline)

    assert due(timers, 9) == []
    assert due(timers, 20) == [B, C]
    assert timers.next_deadline_ms() == 30
    assert due(timers, 100) == [A]
    assert timers.next_deadline_ms() is None


def test_a_timer_that_is_set_again_goes_off_at_the_new_time_only() -> None:
    timers = Timers()
    timers.set(A, 10)
    timers.set(A, 50)
    timers.set(B, 40)
    timers.set(B, 5)

    assert due(timers, 10) == [B]
    assert timers.next_deadline_ms() == 50
    assert due(timers, 50) == [A]
    assert len(timers) == 0


def test_a_timer_that_is_cancelled_does_not_go_off() -> None:
    timers = Timers()
    timers.set(A, 10)
    timers.cancel(A)
    timers.cancel(B)

    assert timers.next_deadline_ms() is None
    timers.set(A, 20)
    assert due(timers, 19) == []
    assert due(timers, 20) == [A]


def test_timers_of_different_kinds_of_one_group_are_different() -> None:
    timers = Timers()
    timers.set(GroupTimer(TimerKind.JOIN, "billing"), 10)
    timers.set(GroupTimer(TimerKind.SYNC, "billing"), 20)
    timers.cancel(GroupTimer(TimerKind.JOIN, "billing"))

    assert due(timers, 20) == [GroupTimer(TimerKind.SYNC, "billing")]


def test_heartbeats_and_members_that_come_and_go_leave_nothing_behind() -> None:
    timers = Timers()
    for i in range(10_000):
        timers.set(A, i + 10_000)
        passing = GroupTimer(TimerKind.SESSION, "billing", f"member-{i}")
        timers.set(passing, i + 300_000)
        timers.set(passing, i + 10_000)
        timers.cancel(passing)

    assert len(timers) == 1
    assert timers.heap_size < 100


DEADLINES = st.integers(0, 50)
STEPS = st.lists(
    st.tuples(st.just("set"), st.sampled_from((A, B, C)), DEADLINES)
    | st.tuples(st.just("cancel"), st.sampled_from((A, B, C)), DEADLINES)
    | st.tuples(st.just("take"), st.just(A), DEADLINES),
    max_size=40,
)


@settings(deadline=None)
@given(STEPS)
def test_timers_behave_as_a_table_that_is_searched(
    steps: list[tuple[str, GroupTimer, int]],
) -> None:
    timers = Timers()
    table: dict[GroupTimer, int] = {}
    for step, timer, time in steps:
        if step == "set":
            timers.set(timer, time)
            table[timer] = time
        elif step == "cancel":
            timers.cancel(timer)
            table.pop(timer, None)
        else:
            assert sorted(due(timers, time)) == sorted(t for t, at in table.items() if at <= time)
            table = {t: at for t, at in table.items() if at > time}

        assert timers.next_deadline_ms() == min(table.values(), default=None)
        assert set(timers) == set(table)
