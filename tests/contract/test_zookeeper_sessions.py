"""Sessions: what ends with them, in which order it is reported, and who may still ask."""

from __future__ import annotations

import pytest

from kafka_common.errors import SessionExpired
from tests.contract.conftest import Client, ZooKeeper
from zkcontroller.zookeeper.requests import (
    CheckExists,
    Create,
    FencedBatch,
    ReadZnodes,
    SetData,
    UnfencedBatch,
    ZkCode,
    ZkTransaction,
    Znode,
)
from zkcontroller.zookeeper.session import SessionState


def notice_the_end(client: Client) -> int:
    """Has the client find out that its session is over; returns the id of that session."""
    over: int = client.session.session_id
    with pytest.raises(SessionExpired):
        client.perform(ReadZnodes(["/"]), over)
    client.states.wait_for(SessionState.CONNECTED, times=2)
    return over


def test_work_of_an_expired_session_is_refused_and_never_done(
    zookeeper: ZooKeeper, client: Client, other: Client
) -> None:
    client.perform(UnfencedBatch([Create("/controller_epoch"), Create("/a", b"")]))

    zookeeper.expire(client)
    over = notice_the_end(client)

    for request in (
        UnfencedBatch([SetData("/a", b"1")]),
        FencedBatch([SetData("/a", b"2")], 0),
        ZkTransaction([SetData("/a", b"3")]),
        ReadZnodes(["/a"], watch=True),
    ):
        with pytest.raises(SessionExpired):
            client.perform(request, over)
    assert other.perform(ReadZnodes(["/a"]))[0].data == b""


def test_after_the_end_of_a_session_the_next_one_stands(
    zookeeper: ZooKeeper, client: Client
) -> None:
    zookeeper.expire(client)
    over = notice_the_end(client)

    now = client.session.session_id
    assert now not in (0, over)
    assert tuple(client.session.past_session_ids) == (over,)
    assert isinstance(client.perform(ReadZnodes(["/"]), now)[0], Znode)
    assert isinstance(client.perform(ReadZnodes(["/"]))[0], Znode)


def test_the_end_of_a_session_is_reported_before_the_next_begins(
    zookeeper: ZooKeeper, client: Client
) -> None:
    for _ in range(3):
        expected = client.states.heard.count(SessionState.CONNECTED) + 1
        zookeeper.expire(client)
        with pytest.raises(SessionExpired):
            client.perform(ReadZnodes(["/"]), client.session.session_id)
        client.states.wait_for(SessionState.CONNECTED, times=expected)

    told = [state for state in client.states.heard if state is not SessionState.SUSPENDED]
    assert told == [
        SessionState.CONNECTED,
        *([SessionState.EXPIRED, SessionState.CONNECTED] * 3),
    ]
    assert len(client.session.past_session_ids) == 3


def test_watches_end_with_their_session(
    zookeeper: ZooKeeper, client: Client, other: Client
) -> None:
    other.perform(UnfencedBatch([Create("/a")]))
    client.perform(ReadZnodes(["/a"], watch=True))
    client.perform(CheckExists(["/b"], watch=True))

    zookeeper.expire(client)
    notice_the_end(client)
    other.perform(UnfencedBatch([SetData("/a", b"1"), Create("/b")]))
    client.perform(ReadZnodes(["/"]))

    assert client.watches.heard == []


def test_the_next_sessions_watches_are_its_own(
    zookeeper: ZooKeeper, client: Client, other: Client
) -> None:
    other.perform(UnfencedBatch([Create("/a")]))
    client.perform(ReadZnodes(["/a"], watch=True))
    zookeeper.expire(client)
    notice_the_end(client)

    client.perform(ReadZnodes(["/a"], watch=True))
    other.perform(UnfencedBatch([SetData("/a", b"1")]))

    assert len(client.watches.wait_until(bool)) == 1


def test_ephemerals_of_the_former_session_are_not_ours(
    zookeeper: ZooKeeper, client: Client
) -> None:
    client.perform(UnfencedBatch([Create("/e", b"", ephemeral=True)]))
    zookeeper.expire(client)
    notice_the_end(client)

    assert client.perform(ReadZnodes(["/e"]))[0] is ZkCode.NO_NODE
    client.perform(UnfencedBatch([Create("/e", b"", ephemeral=True)]))
    assert client.perform(ReadZnodes(["/e"]))[0].ephemeral_owner == client.session.session_id


def test_a_closed_session_answers_nothing(zookeeper: ZooKeeper) -> None:
    closing = zookeeper.connect()
    closing.session.close()

    assert closing.session.session_id == 0
    assert closing.states.heard[-1] is SessionState.CLOSED
