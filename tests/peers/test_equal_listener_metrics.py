"""What the connections of a listener have done: Kafka's ``socket-server-metrics`` and ours agree.

Rates and latencies are not compared.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import Any, Final

import pytest

from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.framing import frame
from kafka_common.protocol.messages import write
from kafka_common.protocol.versioned_messages import request_schema
from tests.peers.cluster import PROPERTIES, Cluster
from tests.peers.endpoints import endpoint
from tests.peers.metric_values import Values, kafkas_sensors
from tests.peers.scraped_broker import ScrapedBroker
from tests.support.frames import request_header

pytestmark = pytest.mark.peers

LISTENER: Final = "SASL_PLAINTEXT"
LOGIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
OVERRIDES: Final = {
    "listeners": f"PLAINTEXT://127.0.0.1:0,{LISTENER}://127.0.0.1:0",
    "num.network.threads": "1",
    "sasl.enabled.mechanisms": "PLAIN",
    "connections.max.reauth.ms": "3600000",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{LOGIN_MODULE} required user_alice="alice-secret" user_bob="bob-secret";'
    ),
}
GROUP: Final = f"kafka.server:type=socket-server-metrics,listener={LISTENER},*"
PREFIX: Final = "kafka_server_socket_server_metrics_"
OPEN: Final = f"connection_count[('listener', '{LISTENER}'), ('networkProcessor', '1')]"
SECOND: Final = (
    "connections[('clientSoftwareName', 'second-client'), ('clientSoftwareVersion', '2.0-rc1'), "
    f"('listener', '{LISTENER}'), ('networkProcessor', '1')]"
)
BROKER: Final = 1
ONLY_KAFKAS: Final = re.compile(r"(select|io)_|io_?(wait)?time_total")
"""The parts of a selector's loop, which ours has not."""
TIMEOUT_S: Final = 30
_SIZE: Final = Struct(">i")


class Client:
    """A connection of a client."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._stream = self._socket.makefile("rb")

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._socket.close()

    def sends(self, data: bytes) -> bytes:
        """The response to a frame."""
        self._socket.sendall(frame((data,)))
        (size,) = _SIZE.unpack(self._stream.read(_SIZE.size))
        return self._stream.read(size)

    def asks(self, key: ApiKey, version: int, **values: Any) -> bytes:
        """The response to a request."""
        body = write(request_schema(key, version).request(**values))
        return self.sends(request_header(key, version, 1, "me") + body)

    def has_software(self, name: str, version: str) -> None:
        self.asks(
            ApiKey.API_VERSIONS, 3, client_software_name=name, client_software_version=version
        )

    def logs_in(
        self, password: str = "alice-secret", version: int = 2, user: str = "alice"
    ) -> None:
        self.asks(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
        self.asks(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=f"\0{user}\0{password}".encode())

    def beats(self) -> None:
        """A request whose response has the same size from every broker."""
        self.asks(ApiKey.HEARTBEAT, 0, group_id="none", generation_id=1, member_id="m")


def connections_do_something(address: str) -> Client:
    """Clients that come and go; returns one that stays."""
    with Client(address) as old:
        old.logs_in(version=0)
        old.beats()
    with Client(address) as bare:
        bare.asks(ApiKey.SASL_HANDSHAKE, 0, mechanism="PLAIN")
        bare.sends(b"\0alice\0alice-secret")
        bare.beats()
    for password in ("wrong", "also wrong"):
        with Client(address) as refused:
            refused.logs_in(password)
    with Client(address) as silent:
        silent.has_software("silent-client", "0.1")
    with Client(address) as other:
        other.logs_in()
        other.logs_in("bob-secret", user="bob")
    staying = Client(address)
    staying.has_software("first-client", "1.0")
    staying.logs_in()
    staying.beats()
    staying.has_software("bad client", "?")
    staying.logs_in()
    staying.has_software("second-client", "2.0-rc1")
    staying.beats()
    return staying


def counts_of(values: Values) -> dict[str, float]:
    """What is counted of the listener, without what a time decides."""
    return {
        name.removeprefix(PREFIX): float(value)
        for name, value in values.items()
        if name.startswith(PREFIX) and f"'{LISTENER}'" in name and "networkProcessor" in name
        if not re.search("_rate\\[|_latency_", name)
    }


@contextmanager
def started(cluster: Cluster, kind: str, directory: Path) -> Iterator[Callable[[], Values]]:
    """A broker, as something that reads its metrics; it is killed at the end."""
    overrides = PROPERTIES | OVERRIDES
    if kind == "kafka":
        kafka = cluster.start_kafka(BROKER, overrides)
        yield lambda: kafkas_sensors(kafka.pid, (GROUP,))
        kafka.kill()
    else:
        ours = ScrapedBroker(BROKER, cluster.zookeeper, directory, overrides)
        cluster.start(ours)
        yield ours.metrics
        ours.kill()


@pytest.mark.timeout(240)
def test_listeners_count_connections_requests_and_logins_alike(
    new_cluster: Callable[[], Cluster], tmp_path: Path
) -> None:
    found = {}
    for kind in ("ours", "kafka"):
        cluster = new_cluster()
        with started(cluster, kind, tmp_path) as metrics:
            staying = connections_do_something(endpoint(cluster, BROKER, LISTENER))

            def is_alone(metrics: Callable[[], Values] = metrics) -> bool:
                return counts_of(metrics())[OPEN] == 1

            with staying:
                cluster.wait_until(is_alone, "the other connections are closed")
                found[kind] = counts_of(metrics())

    kafkas = {name: n for name, n in found["kafka"].items() if not ONLY_KAFKAS.match(name)}
    assert found["ours"] == kafkas
    assert kafkas[OPEN] == kafkas[SECOND] == 1
