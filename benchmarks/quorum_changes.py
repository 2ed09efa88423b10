"""Changes of configuration, one after the other, each a record that is committed before its answer.

What :mod:`benchmarks.quorum` counts by the second, and :mod:`benchmarks.quorum_kills` looks for
again after each kill.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from kio.static.primitive import i8

from kafka_common.net.connection import Connection
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import request_schema

KEY: Final = "interval.ms"
"""Of a subscription to clients' metrics: controllers keep it and have nothing else to do with it,
where a broker's key has Kafka's configure themselves anew each time."""
LOWEST: Final = 100
"""What the key may be, and up to an hour."""
_CLIENT_METRICS: Final = 16
_SET: Final = 0
_PAUSE_S: Final = 0.02
_TIMEOUT_MS: Final = 3_000
"""Longer than a commit takes, shorter than a frozen leader should hold anybody up."""


async def change(connection: Connection, subscription: str, value: int) -> int:
    """Has the controller at the other end set the key; the code of its answer, 0 if committed.

    Setting what is set already is no change, and makes no record.
    """
    schema = request_schema(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1)
    altered = schema.part("AlterableConfig", name=KEY, config_operation=i8(_SET), value=str(value))
    resource = schema.part(
        "AlterConfigsResource",
        resource_type=i8(_CLIENT_METRICS),
        resource_name=subscription,
        configs=(altered,),
    )
    response: Any = await connection.request(
        schema.request(resources=(resource,), validate_only=False)
    )
    [verdict] = response.responses
    return int(verdict.error_code)


class ChangesInARow:
    """Sets the key to 101, 102, 103, … in a thread, under any leader; keeps what was acknowledged.

    A value whose answer is a refusal or does not come is never tried again: no one knows whether
    it is there.
    """

    def __init__(self, ports: Callable[[], list[int]]) -> None:
        """``ports``: where controllers listen that may be asked now."""
        self.acknowledged: list[int] = []
        self._ports = ports
        self._is_over = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Sends as long as this lasts."""
        thread = threading.Thread(target=asyncio.run, args=(self._run(),), name="changes")
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()

    async def _run(self) -> None:
        value = LOWEST
        while not self._is_over.is_set():
            for port in self._ports():
                value = await self._send_to(port, value)
            await asyncio.sleep(_PAUSE_S)

    async def _send_to(self, port: int, value: int) -> int:
        """Goes on with that controller as long as it takes changes; gives the last value tried."""
        try:
            connection = await Connection.open(
                "127.0.0.1",
                port,
                client_id="changes",
                connect_timeout_ms=_TIMEOUT_MS,
                request_timeout_ms=_TIMEOUT_MS,
            )
        except OSError:
            return value
        try:
            while not self._is_over.is_set():
                value += 1
                if await change(connection, "changes", value) != 0:
                    break
                self.acknowledged.append(value)
                await asyncio.sleep(_PAUSE_S)
        except OSError:
            pass
        finally:
            await connection.close()
        return value
