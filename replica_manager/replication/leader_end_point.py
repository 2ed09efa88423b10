"""A fetcher's connection to its leader.

The leader's address is looked up in the metadata cache before each request, so a leader that
restarts at another port is found.  If the cache lacks the leader, its last known address is used.

Source: Kafka ``BrokerBlockingSender``, ``RemoteLeaderEndPoint``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from uuid import UUID

from msgspec import Struct, field

from kafka_common.model import Endpoint
from kafka_common.net.client_security import PLAINTEXT, ClientSecurity
from kafka_common.net.connection import Connection
from kafka_common.observability.java_values import socket_address_text
from kafka_common.protocol.api_versions import ApiKey
from replica_manager.replication.fetch_log import fetcher_prefix
from replica_manager.replication.fetch_requests import (
    AskEpochEnds,
    AskOffsets,
    AskRecords,
    EpochResponse,
    LeaderFetchResponse,
    OffsetsResponse,
)
from replica_manager.replication.leader_messages import (
    FetchLimits,
    LeaderRequestVersions,
    decode_epoch_response,
    decode_fetch_response,
    decode_offsets_response,
    epoch_request,
    fetch_request,
    offsets_request,
)
from zkcontroller.state_changes.log_files import log_line

LARGEST_RESPONSE_BYTES: Final = 2**31 - 1
"""Limit of a response: a leader sends the first batch whole, however large.

Memory grows only with the bytes that arrive.
"""

_NETWORK_CLIENT: Final = "org.apache.kafka.clients.NetworkClient"


class LinkSettings(Struct, frozen=True):
    """Timeouts and sizes of a follower's connections to leaders."""

    replica_id: int
    versions: LeaderRequestVersions
    limits: FetchLimits = field(default_factory=FetchLimits)
    connect_timeout_ms: int = 30_000
    """``replica.socket.timeout.ms``"""
    request_timeout_ms: int = 30_000
    """``request.timeout.ms``"""
    security: ClientSecurity = PLAINTEXT


class LeaderEndPoint:
    """One connection to a leader, opened by the first request.  Only one task may use it.

    Every request raises OSError (which includes TimeoutError) when the leader is gone or silent,
    and InvalidFrame when the response cannot be read.  The caller then closes the connection, and
    the next request opens another one.
    """

    def __init__(
        self,
        leader: int,
        fetcher_id: int,
        settings: LinkSettings,
        endpoint: Callable[[int], Endpoint | None],
        broker_epoch: Callable[[], int],
    ) -> None:
        """``endpoint`` returns a broker's address on the inter-broker listener; None if unknown."""
        self._leader = leader
        self._settings = settings
        self._find = endpoint
        self._broker_epoch = broker_epoch
        self._client_id = f"broker-{settings.replica_id}-fetcher-{fetcher_id}"
        self._prefix = fetcher_prefix(settings.replica_id, leader, fetcher_id)
        self._endpoint: Endpoint | None = None
        self._connection: Connection | None = None

    async def ask_records(
        self, request: AskRecords, topic_names: dict[UUID, str]
    ) -> LeaderFetchResponse:
        """Sends a Fetch request; ``topic_names`` holds the session's names of topics by id."""
        settings = self._settings
        version = request.api_version(settings.versions.fetch)
        body = fetch_request(
            version, request, settings.limits, settings.replica_id, self._broker_epoch()
        )
        connection = await self._connected()
        response = await connection.call_for_view(ApiKey.FETCH, version, (body,))
        return decode_fetch_response(version, response, topic_names)

    async def ask_epoch_ends(self, request: AskEpochEnds) -> EpochResponse:
        """Sends an OffsetsForLeaderEpoch request; returns each partition's end offset or error."""
        version = self._settings.versions.offsets_for_leader_epoch
        body = epoch_request(version, request, self._settings.replica_id)
        response = await self._call(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, body)
        return decode_epoch_response(version, response)

    async def ask_offsets(self, request: AskOffsets) -> OffsetsResponse:
        """Sends a ListOffsets request; returns each partition's offset or error."""
        version = self._settings.versions.list_offsets
        body = offsets_request(version, request, self._settings.replica_id)
        response = await self._call(ApiKey.LIST_OFFSETS, version, body)
        return decode_offsets_response(version, response)

    async def close(self) -> None:
        """Closes the connection if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _call(self, api_key: ApiKey, version: int, body: bytes) -> bytes:
        connection = await self._connected()
        return await connection.call(api_key, version, (body,))

    async def _connected(self) -> Connection:
        endpoint = self._find(self._leader) or self._endpoint
        if endpoint != self._endpoint:
            await self.close()
            self._endpoint = endpoint
        if self._connection is not None:
            if self._connection.is_usable():
                return self._connection
            log_line(_NETWORK_CLIENT, "INFO", f"{self._prefix}Node {self._leader} disconnected.")
            await self.close()
        if endpoint is None:
            raise ConnectionError(f"nobody knows where broker {self._leader} is")
        try:
            self._connection = await Connection.open(
                endpoint.host,
                endpoint.port,
                client_id=self._client_id,
                connect_timeout_ms=self._settings.connect_timeout_ms,
                request_timeout_ms=self._settings.request_timeout_ms,
                max_response_bytes=LARGEST_RESPONSE_BYTES,
                security=self._settings.security,
            )
        except OSError:
            log_line(
                _NETWORK_CLIENT,
                "WARN",
                f"{self._prefix}Connection to node {self._leader} "
                f"({socket_address_text(endpoint.host, endpoint.port)}) could not be established. "
                "Node may not be available.",
            )
            raise
        return self._connection
