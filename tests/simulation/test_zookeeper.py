"""What a client cannot see of the simulated ZooKeeper: deadlines, commits, undone transactions."""

from __future__ import annotations

import pytest

from zkcontroller.zookeeper.requests import (
    Check,
    Create,
    Delete,
    SetData,
    Stat,
    WatchFired,
    WatchKind,
    ZkCode,
)
from zkcontroller_simulation.zookeeper_server import Commit, RefusedError, SimulatedZooKeeper


class Clock:
    now_ms = 0


def opened(server: SimulatedZooKeeper, timeout_ms: int = 100) -> tuple[int, list[WatchFired]]:
    fired: list[WatchFired] = []
    return server.open_session(timeout_ms, fired.append), fired


def test_a_silent_session_ends_and_its_ephemerals_are_deleted() -> None:
    clock = Clock()
    server = SimulatedZooKeeper(lambda: clock.now_ms)
    silent, _ = opened(server)
    lively, fired = opened(server)
    server.transact(silent, [Create("/a", b"", ephemeral=True), Create("/b", b"", ephemeral=True)])
    server.exists(lively, "/a", watch=True)

    clock.now_ms = 99
    assert server.expire_overdue() == []
    server.receive_from(lively)
    clock.now_ms = 100
    assert server.expire_overdue() == [silent]

    assert server.peek_children("/") == []
    assert fired == [WatchFired(WatchKind.NODE_DELETED, "/a")]
    with pytest.raises(RefusedError) as refusal:
        server.read(silent, "/")
    assert refusal.value.code is ZkCode.SESSION_EXPIRED


def test_a_failed_transaction_leaves_no_trace() -> None:
    server = SimulatedZooKeeper()
    session, fired = opened(server)
    server.transact(session, [Create("/a", b"old"), Create("/gone", b"x"), Create("/a/kept", b"")])
    server.read(session, "/a", watch=True)
    server.children(session, "/a", watch=True)
    before = [server.exists(session, path) for path in ("/", "/a", "/gone")]

    with pytest.raises(RefusedError) as refusal:
        server.transact(
            session,
            [
                SetData("/a", b"new", 0),
                Create("/a/n-", b"", sequential=True),
                Delete("/gone"),
                Create("/mine", b"", ephemeral=True),
                Check("/a", 0),
            ],
        )

    assert (refusal.value.code, refusal.value.index) == (ZkCode.BAD_VERSION, 4)
    assert [server.exists(session, path) for path in ("/", "/a", "/gone")] == before
    assert fired == []
    server.end_session(session)
    assert server.peek_children("/") == ["a", "gone"]


def test_operations_of_a_transaction_see_what_the_earlier_ones_did() -> None:
    server = SimulatedZooKeeper()
    session, _ = opened(server)

    written = server.transact(
        session, [Create("/p"), Create("/p/c", b""), SetData("/p", b"1", 0), Check("/p", 1)]
    )

    assert [w.path for w in written] == ["/p", "/p/c", "/p", "/p"]
    assert written[2].czxid == server.zxid, "all of a transaction happens at one zxid"


def test_sequence_numbers_count_every_child_ever_created() -> None:
    server = SimulatedZooKeeper()
    session, _ = opened(server)
    server.transact(session, [Create("/q"), Create("/q/plain"), Delete("/q/plain")])

    (created,) = server.transact(session, [Create("/q/n-", sequential=True)])

    stat = server.exists(session, "/q")
    assert created.path == "/q/n-0000000001"
    assert isinstance(stat, Stat)
    assert stat.cversion == 3, "two creations and a deletion"


def test_listeners_see_a_commit_before_any_watch_fires() -> None:
    server = SimulatedZooKeeper()
    seen: list[str] = []
    session = server.open_session(100, lambda fired: seen.append(f"watch {fired.path}"))
    server.exists(session, "/a", watch=True)

    def note(commit: Commit) -> None:
        seen.extend(f"commit {change.path}" for change in commit.changes)

    server.on_commit.append(note)
    server.transact(session, [Create("/a")])

    assert seen == ["commit /a", "watch /a"]
