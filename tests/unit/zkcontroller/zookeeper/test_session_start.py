"""A session that does not begin: a server that accepts connections and says nothing."""

from __future__ import annotations

import socket

import pytest

from kafka_common.errors import ZooKeeperUnavailable
from zkcontroller.zookeeper import session_life
from zkcontroller.zookeeper.session import ZooKeeperConfig, ZooKeeperSession


def test_a_silent_server_is_not_waited_for_again_to_close(monkeypatch: pytest.MonkeyPatch) -> None:
    # Longer than any test may take.
    monkeypatch.setattr(session_life, "CLOSE_TIMEOUT_S", 3_600.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        session = ZooKeeperSession(ZooKeeperConfig(address, connection_timeout_ms=100))

        with pytest.raises(ZooKeeperUnavailable, match=f"at {address} within 100 ms"):
            session.start()
