"""How a plan is pulled over a link that loses connections."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zkcontroller.zookeeper.jute import OpCode, Reply
from zkcontroller.zookeeper.plans import (
    MAX_OPERATIONS,
    MOST_FATAL,
    SUSPECT_BYTES,
    Ask,
    ConnectionLostError,
    run,
)
from zkcontroller.zookeeper.read_plan import SET_WATCHES_BYTES, requests_to_arm_again
from zkcontroller.zookeeper.requests import ZkCode
from zkcontroller.zookeeper.watch_table import WatchTable, WatchType

SMALL = Ask(OpCode.EXISTS, bytes(SUSPECT_BYTES - 1))
LARGE = Ask(OpCode.EXISTS, bytes(SUSPECT_BYTES))


class Lost:
    """A request whose connection is lost."""

    def __init__(self, *, was_alone: bool) -> None:
        self._was_alone = was_alone

    def wait(self) -> Reply:
        raise ConnectionLostError("lost", was_alone=self._was_alone)


class Link:
    """Loses each request that often, then answers."""

    def __init__(self, times: int, *, was_alone: bool) -> None:
        self.asked = 0
        self._times = times
        self._was_alone = was_alone

    def ask(self, _: Ask) -> Lost | Answered:
        self.asked += 1
        return Lost(was_alone=self._was_alone) if self.asked <= self._times else Answered()


class Answered:
    def wait(self) -> Reply:
        return Reply(1, ZkCode.NO_NODE, b"", 0)


class OneAsk:
    """A plan of one request."""

    def __init__(self, ask: Ask) -> None:
        self.code: ZkCode | None = None
        self._asks = [ask]

    def next(self) -> Ask | None:
        return self._asks.pop() if self._asks else None

    def answered(self, _: Ask, reply: Reply) -> None:
        self.code = reply.code

    def lost(self, ask: Ask) -> None:
        self._asks.append(ask)


@pytest.mark.parametrize("times", [1, 20])
@pytest.mark.parametrize(("ask", "was_alone"), [(LARGE, False), (SMALL, True)])
def test_a_request_that_cannot_be_to_blame_is_asked_until_it_is_answered(
    ask: Ask, was_alone: bool, times: int
) -> None:
    link, plan = Link(times, was_alone=was_alone), OneAsk(ask)

    run(link, plan, 10)

    assert (plan.code, link.asked) == (ZkCode.NO_NODE, times + 1)


def test_a_large_request_that_alone_ends_two_connections_is_not_sent_a_third_time() -> None:
    link, plan = Link(1_000, was_alone=True), OneAsk(LARGE)

    run(link, plan, 10)

    assert (plan.code, link.asked) == (ZkCode.MARSHALLING_ERROR, MOST_FATAL)


@given(st.lists(st.integers(1, 60_000), max_size=40))
@settings(deadline=None, max_examples=40)
def test_watches_are_armed_again_in_requests_of_a_bounded_size(sizes: list[int]) -> None:
    table = WatchTable()
    paths = [f"/{number:05d}{'x' * size}" for number, size in enumerate(sizes)]
    table.arm(WatchType.DATA, paths, 1)

    asks = requests_to_arm_again(table, 7)

    longest = max(map(len, paths), default=0)
    assert all(len(ask.body) <= max(SET_WATCHES_BYTES, longest) + 64 for ask in asks)
    assert sum(len(ask.body) for ask in asks) >= sum(map(len, paths))


def test_watches_are_armed_again_a_thousand_at_a_time() -> None:
    table = WatchTable()
    table.arm(WatchType.DATA, [f"/{number}" for number in range(2 * MAX_OPERATIONS + 1)], 1)

    assert len(requests_to_arm_again(table, 7)) == 3
