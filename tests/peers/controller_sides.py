"""A lone controller of Kafka's and one of ours, asked the same."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Final

from kio.static.primitive import i8

from kafka_common.net.connection import Connection
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import read, write
from kafka_common.protocol.numeric_times import numeric_response_type
from kafka_common.protocol.versioned_messages import request_schema
from replica_manager.security.principals import Principal
from tests.peers.quorum_cluster import OurVoter, RealVoter, Voter
from tests.support.envelopes import principal_bytes
from tests.support.frames import request_header
from tests.support.quorum import free_ports

PATIENCE_S: Final = 60.0
CLOSED: Final = "the connection is closed"
CONTROLLERS: Final = 2
LOCALHOST: Final = b"\x7f\0\0\1"


class Side:
    """One of the two: node 1, the only voter of its quorum."""

    def __init__(self, kind: type[Voter], directory: Path, properties: Mapping[str, str]) -> None:
        [self.port] = free_ports(1)
        self.directory = directory
        self.voter = kind(
            1,
            directory,
            {
                "process.roles": "controller",
                "node.id": "1",
                "controller.quorum.voters": f"1@127.0.0.1:{self.port}",
                "controller.listener.names": "CONTROLLER",
                "listeners": f"CONTROLLER://127.0.0.1:{self.port}",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
                **properties,
            },
        )

    def start(self) -> None:
        """Formats and starts it; returns once it knows itself as a registered controller."""
        self.voter.format()
        self.voter.start()
        self.wait_until(self._is_registered)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Returns once it is so; fails if it is not in time, or if the node dies."""
        deadline, pause = time.monotonic() + PATIENCE_S, threading.Event()
        while not condition():
            assert not self.voter.has_died, self.voter.obituary()
            assert time.monotonic() < deadline, self.voter.said()[-2000:]
            pause.wait(0.05)

    def _is_registered(self) -> bool:
        asked: dict[str, object] = {
            "include_cluster_authorized_operations": False,
            "endpoint_type": i8(CONTROLLERS),
        }
        try:
            return bool(self.ask(ApiKey.DESCRIBE_CLUSTER, 1, **asked).brokers)
        except (OSError, AttributeError):
            return False

    def ask(self, api_key: ApiKey, version: int, /, **values: object) -> Any:
        """The answer, by a connection of its own; CLOSED if there is none."""
        body = write(request_schema(api_key, version).request(**values))
        return asyncio.run(self._call(api_key, version, body))

    async def _call(self, api_key: ApiKey, version: int, body: bytes) -> Any:
        connection = await Connection.open(
            "127.0.0.1", self.port, client_id="test", request_timeout_ms=10_000
        )
        try:
            response = await connection.call(int(api_key), version, (body,))
        except ConnectionResetError:
            return CLOSED
        finally:
            await connection.close()
        return read(numeric_response_type(int(api_key), version), response)

    def forward(
        self, who: Principal, by_token: bool, api_key: ApiKey, version: int, /, **values: object
    ) -> Any:
        """The Envelope that answers a client's request which its broker forwards."""
        head = request_header(int(api_key), version, 42, "client")
        return self.ask(
            ApiKey.ENVELOPE,
            0,
            request_data=head + write(request_schema(api_key, version).request(**values)),
            request_principal=principal_bytes(who, is_token_authenticated=by_token),
            client_host_address=LOCALHOST,
        )

    def plain(self, value: Any) -> Any:
        """An answer as it would be at any port and in any folder; arrays have no order."""
        if dataclasses.is_dataclass(value):
            fields = {f.name: self.plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
            return type(value).__name__, fields
        if isinstance(value, tuple):
            return sorted(map(self.plain, value), key=repr)
        if isinstance(value, Enum):
            return value.name
        if value == self.port:
            return "PORT"
        if isinstance(value, str):
            return value.replace(str(self.directory), "DIR").replace(str(self.port), "PORT")
        return value


class Sides:
    """Both."""

    def __init__(self, directory: Path, properties: Mapping[str, str] | None = None) -> None:
        self.real = Side(RealVoter, directory / "real", properties or {})
        self.ours = Side(OurVoter, directory / "ours", properties or {})
        try:
            with ThreadPoolExecutor() as pool:
                list(pool.map(Side.start, (self.real, self.ours)))
        except BaseException:
            self.close()
            raise

    def ask(self, api_key: ApiKey, version: int, /, **values: object) -> tuple[Any, Any]:
        """What each of them answers, Kafka's first."""
        return (
            self.real.plain(self.real.ask(api_key, version, **values)),
            self.ours.plain(self.ours.ask(api_key, version, **values)),
        )

    def wait_until(self, condition: Callable[[Side], bool]) -> None:
        """Returns once it is so of each."""
        for side in (self.real, self.ours):
            side.wait_until(partial(condition, side))

    def close(self) -> None:
        """Ends both the hard way."""
        for side in (self.real, self.ours):
            if side.voter.process is not None and side.voter.process.poll() is None:
                side.voter.kill()
