"""Requests that ZooKeeper must refuse: not sent, and given up if one was sent all the same."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.conftest import Client, OpenClient
from zkcontroller.zookeeper.plans import MOST_FATAL
from zkcontroller.zookeeper.requests import (
    CheckExists,
    Create,
    ListChildren,
    ReadZnodes,
    UnfencedBatch,
    Written,
    ZkCode,
    Znode,
)
from zkcontroller.zookeeper.session import SessionState

pytestmark = pytest.mark.integration

TOO_LONG = "/" + "x" * 1_100_000
UNBOUNDED = {"server_max_buffer_bytes": 10_000_000}
ASKING, OTHERS = 8, 400
"""Threads that ask beside the culprit's, and their requests."""


@pytest.mark.parametrize("request_type", [ReadZnodes, ListChildren, CheckExists])
@pytest.mark.parametrize("others", [0, 50])
def test_a_path_that_is_too_long_is_refused_and_the_connection_stands(
    direct: Client, request_type: type[ReadZnodes], others: int, caplog: pytest.LogCaptureFixture
) -> None:
    found = direct.perform(request_type((TOO_LONG, *["/there"] * others), True))

    assert found == [ZkCode.MARSHALLING_ERROR, *[ZkCode.NO_NODE] * others]
    assert SessionState.SUSPENDED not in direct.states.heard
    assert "jute.maxbuffer" in caplog.text


def test_a_request_that_kills_the_connection_twice_is_given_up_and_others_are_answered(
    zookeeper_connect: str, chroot: str, open_client: OpenClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    client = open_client(zookeeper_connect + chroot, **UNBOUNDED)
    with ThreadPoolExecutor(1 + ASKING) as threads:
        killer = threads.submit(client.session.read, TOO_LONG)
        innocent = [
            threads.submit(client.session.write, Create(f"/n{number}")) for number in range(OTHERS)
        ]

        assert killer.result(60) is ZkCode.MARSHALLING_ERROR
        for number, each in enumerate(innocent):
            # One that was done when its answer was lost finds itself there.
            assert each.result(60) in (Written(f"/n{number}", 0, -1), ZkCode.NODE_EXISTS)

    assert "is given up" in caplog.text
    assert client.session.state_counts[SessionState.SUSPENDED] <= MOST_FATAL + 1
    assert isinstance(client.session.read(f"/n{OTHERS - 1}"), Znode)


def test_a_multi_that_kills_the_connection_is_split_until_the_culprit_is_found(
    zookeeper_connect: str, chroot: str, open_client: OpenClient
) -> None:
    client = open_client(zookeeper_connect + chroot, **UNBOUNDED)
    large = b"x" * 1_100_000

    results = client.perform(
        UnfencedBatch([Create("/a"), Create("/b", large), Create("/c"), Create("/d")])
    )

    assert results == [
        Written("/a", 0, -1),
        ZkCode.MARSHALLING_ERROR,
        Written("/c", 0, -1),
        Written("/d", 0, -1),
    ]


def test_a_session_whose_request_kills_its_connections_can_be_closed(
    zookeeper_connect: str, chroot: str, open_client: OpenClient
) -> None:
    client = open_client(zookeeper_connect + chroot, **UNBOUNDED)
    with ThreadPoolExecutor(1) as threads:
        killer = threads.submit(client.session.read, TOO_LONG)
        client.session.close()

        assert killer.exception(60) is not None or killer.result() is ZkCode.MARSHALLING_ERROR
