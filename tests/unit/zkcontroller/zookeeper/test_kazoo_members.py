"""What the ZooKeeper connection relies on below kazoo's public face, and on cramjam's words.

``zookeeper/connection.py`` uses and replaces private members of kazoo, and
``protocol/compression.py`` reads the text of an error of cramjam.  Neither promises them: a new
version that lacks one fails here, by name.
"""

from __future__ import annotations

import inspect
import random

import cramjam
import pytest
from kazoo import retry as kazoo_retry
from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol import connection as kazoo_connection
from kazoo.protocol.connection import ConnectionHandler

CLIENT_FIELDS = (
    *("_conn_retry", "_connection", "_pending", "_queue", "_session_id", "_state", "_stopped"),
    *("handler", "last_zxid"),
)
LOOP_FIELDS = (
    *("_connection_routine", "_read_sock", "_socket", "_write_sock", "client"),
    "connection_stopped",
)
METHODS = {
    (KazooClient, "_call"): ("request", "async_object"),
    (KazooClient, "_session_callback"): ("state",),
    (SequentialThreadingHandler, "create_connection"): ("args", "kwargs"),
    (ConnectionHandler, "_authenticate_with_sasl"): ("host", "timeout"),
    (ConnectionHandler, "_connect"): ("host", "hostip", "port"),
    (ConnectionHandler, "_expand_client_hosts"): (),
    (ConnectionHandler, "_read"): ("length", "timeout"),
    (ConnectionHandler, "_read_header"): ("timeout",),
    (ConnectionHandler, "_read_response"): ("header", "buffer", "offset"),
    (ConnectionHandler, "_read_socket"): ("read_timeout",),
    (ConnectionHandler, "_read_watch_event"): ("buffer", "offset"),
    (ConnectionHandler, "_send_request"): ("read_timeout", "connect_timeout"),
    (ConnectionHandler, "_submit"): ("request", "timeout", "xid"),
    (ConnectionHandler, "start"): (),
    (ConnectionHandler, "stop"): ("timeout",),
    (ConnectionHandler, "zk_loop"): (),
}


@pytest.mark.parametrize(("owner", "name"), METHODS, ids=lambda each: str(each))
def test_kazoo_has_each_method_that_the_connection_uses_or_replaces(owner: type, name: str) -> None:
    method = getattr(owner, name, None)

    assert method is not None, f"this kazoo has no {owner.__name__}.{name}"
    assert tuple(inspect.signature(method).parameters)[1:] == METHODS[owner, name]


def test_kazoo_has_each_field_that_the_connection_uses() -> None:
    client = KazooClient(hosts="127.0.0.1:1")

    assert [name for name in CLIENT_FIELDS if not hasattr(client, name)] == []
    assert [name for name in LOOP_FIELDS if not hasattr(client._connection, name)] == []


@pytest.mark.parametrize("codec", [cramjam.lz4, cramjam.zstd], ids=["lz4", "zstd"])
def test_cramjam_says_that_the_room_was_too_small_for_a_frame(codec: object) -> None:
    packed = bytes(codec.compress(bytes(1000)))  # type: ignore[attr-defined]  # two modules

    with pytest.raises(cramjam.DecompressionError, match="whole buffer"):
        codec.decompress_into(packed, bytearray(10))  # type: ignore[attr-defined]


def test_kazoo_draws_no_random_number_that_hypothesis_would_miss() -> None:
    before = random.getstate()

    for module in (kazoo_connection, kazoo_retry):
        assert isinstance(module.random, random.Random)
        module.random.randint(1, 40)

    assert random.getstate() == before
