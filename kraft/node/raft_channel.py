"""Channels to the other nodes of a quorum: one connection and one request in flight for each.

A request is sent once.  A failure is reported at once, and the raft step decides whether the
request is sent again.  After a failed connection no new one is opened for a time that grows with
each failure; a request in that time fails at once.

The first request on a connection is ApiVersions, because every request is sent in the highest
version that both sides support.

Source: Kafka ``KafkaNetworkChannel``, ``NetworkClient``.  Deviation: a request that the raft step
no longer waits for, because its state has changed, does not keep the next one waiting: its
connection is closed, and another opened.  With Kafka a Vote can wait two seconds behind a Fetch.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from kio.schema.errors import ErrorCode

from kafka_common.errors import InvalidFrame
from kafka_common.net.client_security import PLAINTEXT, ClientSecurity, LoginRefused
from kafka_common.net.connection import Connection
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import request_schema
from kraft.raft.inputs import RaftRequestFailed, RaftResponseReceived
from kraft.raft.outputs import SendRequest
from kraft.raft.request_manager import RandomSource
from kraft.raft.values import NodeAddress
from kraft.raft.wire import api_key_of, common_version, read_response, write_request

Outcome: TypeAlias = RaftResponseReceived | RaftRequestFailed

RECONNECT_BACKOFF_MS: Final = 50
RECONNECT_BACKOFF_MAX_MS: Final = 500
_JITTER_PERCENT: Final = 20
_DOUBLINGS: Final = 10

_log: Final = logging.getLogger("org.apache.kafka.raft.KafkaNetworkChannel")


class _VersionMismatch(Exception):
    """The peer supports no version of the request."""


async def versions_of(connection: Connection) -> dict[int, tuple[int, int]]:
    """The first and last version that the peer supports of each API, by API key."""
    # Every node supports version 0, so no second request is needed.
    response: Any = await connection.request(request_schema(ApiKey.API_VERSIONS, 0).request())
    return {
        int(each.api_key): (int(each.min_version), int(each.max_version))
        for each in response.api_keys
    }


class RaftChannels:
    """The channels of one node.  For the event loop."""

    def __init__(
        self,
        *,
        node_id: int,
        request_timeout_ms: int,
        on_outcome: Callable[[Outcome], None],
        random: RandomSource,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        """``on_outcome`` is called once for each request, unless a newer one replaced it."""
        self._client_id = f"raft-client-{node_id}"
        self._request_timeout_ms = request_timeout_ms
        self._on_outcome = on_outcome
        self._random = random
        self._security = security
        self._channels: dict[int, _Channel] = {}

    def send(self, send: SendRequest) -> None:
        """Begins to send a request; a request in flight to the same node is abandoned."""
        channel = self._channels.get(send.destination_id)
        if channel is None:
            channel = self._channels[send.destination_id] = _Channel(
                self._client_id,
                self._request_timeout_ms,
                self._on_outcome,
                self._random,
                self._security,
            )
        channel.send(send)

    async def close(self) -> None:
        """Closes every connection; requests in flight get no outcome."""
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()


class _Channel:
    """The connection to one node, with at most one request in flight."""

    def __init__(
        self,
        client_id: str,
        request_timeout_ms: int,
        on_outcome: Callable[[Outcome], None],
        random: RandomSource,
        security: ClientSecurity,
    ) -> None:
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._on_outcome = on_outcome
        self._random = random
        self._security = security
        self._connection: Connection | None = None
        self._endpoint: NodeAddress | None = None
        self._versions: Mapping[int, tuple[int, int]] = {}
        self._failures = 0
        self._not_before_s = 0.0
        self._task: asyncio.Task[None] | None = None

    def send(self, send: SendRequest) -> None:
        before = self._task
        if before is not None and not before.done():
            before.cancel()
        self._task = asyncio.get_running_loop().create_task(self._exchange(send, before))

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))
        await self._disconnect()

    async def _exchange(self, send: SendRequest, before: asyncio.Task[None] | None) -> None:
        if before is not None and not before.done():
            # The abandoned request must have released the connection.
            await asyncio.wait((before,))
        loop = asyncio.get_running_loop()
        if loop.time() < self._not_before_s:
            self._fail(send, ErrorCode.broker_not_available)
            return
        try:
            async with asyncio.timeout(self._request_timeout_ms / 1000):
                response = await self._ask(send)
        except _VersionMismatch:
            _log.warning("%s knows no version of %s", send.endpoint, type(send.request).__name__)
            self._fail(send, ErrorCode.unsupported_version)
        except (OSError, InvalidFrame) as error:
            await self._disconnect()
            self._back_off(loop.time())
            _log.debug("No response to %s: %s", type(send.request).__name__, error)
            is_refused = _is_refusal(error)
            if is_refused:
                _log.error("Node %d does not let us in: %s", send.destination_id, error)
            self._fail(
                send,
                ErrorCode.network_exception if is_refused else ErrorCode.broker_not_available,
            )
        except Exception:  # noqa: BLE001 - every request must have an outcome
            _log.exception("Request to node %d failed", send.destination_id)
            await self._disconnect()
            self._fail(send, ErrorCode.unknown_server_error)
        else:
            self._failures = 0
            self._on_outcome(response)

    async def _ask(self, send: SendRequest) -> RaftResponseReceived:
        connection = await self._connected(send.endpoint)
        api_key = api_key_of(send.request)
        version = common_version(api_key, self._versions)
        if version is None:
            raise _VersionMismatch
        body = await connection.call(api_key, version, (write_request(send.request, version),))
        return RaftResponseReceived(
            send.destination_id, send.correlation_id, read_response(api_key, version, body)
        )

    async def _connected(self, endpoint: NodeAddress) -> Connection:
        connection = self._connection
        if connection is not None and self._endpoint == endpoint and connection.is_usable():
            return connection
        await self._disconnect()
        connection = await Connection.open(
            endpoint.host,
            endpoint.port,
            client_id=self._client_id,
            connect_timeout_ms=self._request_timeout_ms,
            request_timeout_ms=self._request_timeout_ms,
            security=self._security,
        )
        self._connection, self._endpoint = connection, endpoint
        self._versions = await versions_of(connection)
        return connection

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def _back_off(self, now_s: float) -> None:
        grown_ms = RECONNECT_BACKOFF_MS << min(self._failures, _DOUBLINGS)
        self._failures += 1
        percent = 100 - _JITTER_PERCENT + self._random.randrange(2 * _JITTER_PERCENT + 1)
        self._not_before_s = now_s + min(grown_ms, RECONNECT_BACKOFF_MAX_MS) * percent / 100_000

    def _fail(self, send: SendRequest, error: ErrorCode) -> None:
        self._on_outcome(RaftRequestFailed(send.destination_id, send.correlation_id, error))


def _is_refusal(error: BaseException) -> bool:
    """Whether the peer was reached and refused this node, by TLS or by SASL.

    :meth:`Connection.open` raises LoginRefused if SASL fails, and a plain ConnectionError if TLS
    fails.  An error of the operating system is a subclass of ConnectionError, or the cause of one.
    """
    if isinstance(error, LoginRefused):
        return True
    if type(error) is not ConnectionError:
        return False
    cause = error.__cause__
    return cause is None or isinstance(cause, ssl.SSLError)
