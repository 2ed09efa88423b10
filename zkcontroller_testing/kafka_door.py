"""The proxy before one listener of a broker: reads headers of requests and applies faults.

Responses are sent in the order of their requests, also error responses that the proxy makes itself.
On the inter-broker listener, a connection's peer is the broker in the client id of its first
request: ``broker-<id>-fetcher-<n>`` for a fetcher, the id alone for a controller's request to a
broker or a broker's request to the controller.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kio.static.primitive import i16
from typing_extensions import override

from kafka_common.errors import InvalidFrame
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.framing import RequestHeader, parse_request_header, response_header
from kafka_common.protocol.messages import read_response, write
from zkcontroller_testing.door import Door, DoorLink, send_frame
from zkcontroller_testing.faults import Action, Fault

_CLIENT_ID: Final = re.compile(r"(?:broker-)?(\d+)(?:-fetcher-\d+)?$")


@dataclass
class FaultTable:
    """The faults of a cluster and the versions it offers, for all its doors."""

    faults: tuple[Fault, ...] = ()
    versions: Mapping[tuple[int | None, int], tuple[int, int]] = field(default_factory=dict)
    """Lowest and highest version to offer, by broker (None: all) and API key."""
    used: dict[int, set[int]] = field(default_factory=dict)
    """The versions of clients' requests, by API key."""

    def find(
        self, broker: int, link: KafkaLink, header: RequestHeader, frame: bytes
    ) -> Fault | None:
        """The first fault that applies to this request; None: none does."""
        return next(
            (
                fault
                for fault in self.faults
                if fault.applies(broker, link.peer, header.api_key, header.client_id, frame)
            ),
            None,
        )


@dataclass(slots=True)
class _Awaited:
    """A response that a client waits for."""

    header: RequestHeader | None
    own_response: bytes | None = None
    """The response made by the proxy; None: the broker sends it."""
    is_lost: bool = False


class KafkaLink(DoorLink):
    """A connection with Kafka's protocol; ``awaited``: its open requests, in order."""

    def __init__(
        self,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        super().__init__(client, server)
        self.is_known = False
        self.awaited: deque[_Awaited] = deque()


class KafkaDoor(Door[KafkaLink]):
    """The proxy between a broker's listener and the clients or brokers that connect to it."""

    def __init__(
        self,
        broker_id: int,
        servers: Callable[[], Sequence[tuple[str, int]]],
        table: FaultTable,
        *,
        is_between_brokers: bool,
    ) -> None:
        super().__init__(servers)
        self._broker_id = broker_id
        self._table = table
        self._is_between_brokers = is_between_brokers

    @override
    def make_link(
        self,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> KafkaLink:
        return KafkaLink(client, server)

    @override
    async def request(self, link: KafkaLink, frame: bytes) -> None:
        header = _header(frame)
        if not link.is_known:
            link.is_known = True
            found = _CLIENT_ID.match(header.client_id or "") if header else None
            if self._is_between_brokers and found:
                link.peer = int(found[1])
        if self.is_lost(link):
            return
        if header is not None and not self._is_between_brokers:
            self._table.used.setdefault(header.api_key, set()).add(header.api_version)
        fault = self._table.find(self._broker_id, link, header, frame) if header else None
        if fault is not None and fault.action is Action.DELAY:
            await asyncio.sleep(fault.delay_ms / 1000)
            fault = None
            if self.is_lost(link):
                return
        if fault is not None and fault.action is Action.DROP_REQUEST:
            link.abort()
            return
        if fault is not None and fault.action is Action.ERROR:
            response = await asyncio.to_thread(_refusal, frame, fault)
            link.awaited.append(_Awaited(header, own_response=response))
            await self._send_own_responses(link)
            return
        if _has_response(header, frame):
            link.awaited.append(_Awaited(header, is_lost=fault is not None))
        await send_frame(link.to_server, frame)

    @override
    async def response(self, link: KafkaLink, frame: bytes) -> None:
        if self.is_lost(link):
            return
        awaited = link.awaited.popleft() if link.awaited else _Awaited(None)
        if awaited.is_lost:
            link.abort()
            return
        await send_frame(link.to_client, self._narrowed(awaited.header, frame))
        await self._send_own_responses(link)

    async def _send_own_responses(self, link: KafkaLink) -> None:
        while link.awaited and (response := link.awaited[0].own_response) is not None:
            link.awaited.popleft()
            await send_frame(link.to_client, response)

    def _narrowed(self, header: RequestHeader | None, frame: bytes) -> bytes:
        """The response, if of ApiVersions limited to the versions that the test allows."""
        versions = self._table.versions
        if header is None or header.api_key != ApiKey.API_VERSIONS or not versions:
            return frame
        head = response_header(header.api_key, header.api_version, header.correlation_id)
        response: Any = read_response(header.api_key, header.api_version, frame, len(head))
        rows = []
        for row in response.api_keys:
            key = int(row.api_key)
            least, most = versions.get((self._broker_id, key)) or versions.get(
                (None, key), (row.min_version, row.max_version)
            )
            if least <= most:
                rows.append(
                    replace(
                        row,
                        min_version=i16(max(least, row.min_version)),
                        max_version=i16(min(most, row.max_version)),
                    )
                )
        return head + write(replace(response, api_keys=tuple(rows)))


def _header(frame: bytes) -> RequestHeader | None:
    """The header of a request; None for other frames, such as a SASL token without a header."""
    try:
        return parse_request_header(frame)[0]
    except InvalidFrame:
        return None


def _has_response(header: RequestHeader | None, frame: bytes) -> bool:
    """Whether the request gets a response; False only for a Produce with acks=0."""
    if header is None or header.api_key != ApiKey.PRODUCE:
        return True
    from kafka_common.protocol.produce import read_produce_request

    try:
        _, start = parse_request_header(frame)
        return read_produce_request(header.api_version, frame, start).acks != 0
    except InvalidFrame:
        return True


def _refusal(frame: bytes, fault: Fault) -> bytes:
    """The error response that a broker would send for the whole request."""
    from replica_manager.server.dispatch import refusal
    from replica_manager.server.zookeeper_handlers import HANDLERS

    response = refusal(HANDLERS, frame, fault.error)
    assert response is not None, f"no broker answers {fault.api_key.name} in this version"
    return response[4:]
