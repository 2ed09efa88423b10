"""The routes from what a ZooKeeper session reports to the parts that follow it."""

from __future__ import annotations

import pytest

from zkcontroller.zookeeper.requests import WatchFired, WatchKind
from zkcontroller.zookeeper.session import SessionState
from zkcontroller.zookeeper.session_router import SessionRouter

CHANGED = WatchFired(WatchKind.NODE_DATA_CHANGED, "/feature")
ELSEWHERE = WatchFired(WatchKind.NODE_DATA_CHANGED, "/feature/below")


def test_a_watch_goes_to_the_part_that_follows_its_path_alone() -> None:
    router, of_path, of_others = SessionRouter(), list[WatchFired](), list[WatchFired]()
    router.follow_other_paths(of_others.append)
    router.follow_path("/feature", of_path.append)

    router.fired(CHANGED)
    router.fired(ELSEWHERE)

    assert of_path == [CHANGED]
    assert of_others == [ELSEWHERE]


def test_a_path_has_one_route() -> None:
    router, found = SessionRouter(), list[WatchFired]()
    router.follow_path("/feature", found.append)

    with pytest.raises(AssertionError, match="/feature has a route"):
        router.follow_path("/feature", found.append)


def test_each_state_goes_to_every_part_in_the_order_in_which_they_began_to_follow() -> None:
    router, found = SessionRouter(), list[tuple[str, SessionState]]()
    router.follow_states(lambda state: found.append(("controller", state)))
    router.follow_states(lambda state: found.append(("configuration", state)))

    router.entered(SessionState.EXPIRED)

    assert found == [
        ("controller", SessionState.EXPIRED),
        ("configuration", SessionState.EXPIRED),
    ]


def test_a_latency_goes_to_the_part_that_follows_latencies() -> None:
    router, found = SessionRouter(), list[float]()
    router.follow_latency(found.append)

    router.took(1.5)

    assert found == [1.5]


def test_a_report_that_no_part_follows_is_dropped() -> None:
    router, found = SessionRouter(), list[object]()

    router.fired(CHANGED)
    router.entered(SessionState.CONNECTED)
    router.took(1.5)
    router.follow_other_paths(found.append)
    router.follow_states(found.append)
    router.follow_latency(found.append)

    assert found == []
