"""Sends this broker's requests to the current controller.

One connection, one request in flight.  After NOT_CONTROLLER or a lost connection the current
controller is looked up again, and the request is sent again.

Source: Kafka ``NodeToControllerChannelManagerImpl``.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import RequestPayload
from msgspec import Struct

from kafka_common.errors import InvalidFrame
from kafka_common.net.client_security import PLAINTEXT, ClientSecurity
from replica_manager.replication.controller_connection import ControllerConnection, controller_in
from replica_manager.replication.zk_metadata_cache import ZkMetadataCache

RETRY_MS: Final = 100
"""Pause before the controller is looked up again."""

_log = logging.getLogger("kafka.server.NodeToControllerRequestThread")


class ChannelToController(Struct, frozen=True):
    """Listener, timeouts and security of requests to the controller."""

    broker_id: int
    listener_name: str
    """The control plane listener if there is one, else the inter-broker listener."""
    security: ClientSecurity = PLAINTEXT
    connect_timeout_ms: int = 30_000
    """``controller.socket.timeout.ms``"""
    request_timeout_ms: int = 30_000
    """``request.timeout.ms``: the limit for one attempt, and for all attempts together."""


class ControllerChannel:
    """One connection to the controller; concurrent calls wait.  Runs on the event loop."""

    def __init__(self, metadata_cache: ZkMetadataCache, settings: ChannelToController) -> None:
        self._timeout_s = settings.request_timeout_ms / 1000
        self._turn = asyncio.Lock()
        self._controller = ControllerConnection(
            settings.broker_id,
            lambda: controller_in(metadata_cache, settings.listener_name),
            connect_timeout_ms=settings.connect_timeout_ms,
            request_timeout_ms=settings.request_timeout_ms,
            security=settings.security,
        )

    async def ask(self, payload: RequestPayload) -> Any:
        """The controller's response; TimeoutError if none has come within ``request.timeout.ms``.

        The response type must have a top-level error code, so that NOT_CONTROLLER is recognized.
        """
        async with self._turn, asyncio.timeout(self._timeout_s):
            while True:
                try:
                    response: Any = await self._controller.call(
                        lambda found: found.request(payload)
                    )
                    if response.error_code is not ErrorCode.not_controller:
                        return response
                except (OSError, InvalidFrame) as failure:
                    _log.debug("Disconnected from the controller at %s: %s",
                               self._controller.node, failure)  # fmt: skip
                await self._controller.close()
                await asyncio.sleep(RETRY_MS / 1000)

    async def close(self) -> None:
        """Closes the connection; a call in flight connects and tries again until its timeout."""
        await self._controller.close()
