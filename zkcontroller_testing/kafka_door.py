"""Before one listener of a broker: reads the headers of requests, and lets faults happen.

Answers go out in the order of their requests, also where one is made here.  On the listener between
brokers a connection's peer is the broker whose id stands in the client id of its first request: a
fetcher's is ``broker-<id>-fetcher-<n>``, a broker that asks the controller and a controller that
commands a broker give their id alone.
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
    """(broker or None for all, API key) to the least and the highest version that is offered."""
    used: dict[int, set[int]] = field(default_factory=dict)
    """API key to the versions in which clients have asked."""

    def find(
        self, broker: int, link: KafkaLink, header: RequestHeader, frame: bytes
    ) -> Fault | None:
        """The fault that happens to this request."""
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
    """An answer that a client waits for."""

    header: RequestHeader | None
    own_answer: bytes | None = None
    """The answer, where the broker is not asked."""
    is_lost: bool = False


class KafkaLink(DoorLink):
    """A connection that carries Kafka's protocol."""

    def __init__(
        self,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        super().__init__(client, server)
        self.is_known = False
        self.awaited: deque[_Awaited] = deque()


class KafkaDoor(Door[KafkaLink]):
    """Between a broker and those who connect to one of its listeners."""

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
            answer = await asyncio.to_thread(_refusal, frame, fault)
            link.awaited.append(_Awaited(header, own_answer=answer))
            await self._send_own_answers(link)
            return
        if _is_answered(header, frame):
            link.awaited.append(_Awaited(header, is_lost=fault is not None))
        await send_frame(link.to_server, frame)

    @override
    async def answer(self, link: KafkaLink, frame: bytes) -> None:
        if self.is_lost(link):
            return
        awaited = link.awaited.popleft() if link.awaited else _Awaited(None)
        if awaited.is_lost:
            link.abort()
            return
        await send_frame(link.to_client, self._narrowed(awaited.header, frame))
        await self._send_own_answers(link)

    async def _send_own_answers(self, link: KafkaLink) -> None:
        while link.awaited and (answer := link.awaited[0].own_answer) is not None:
            link.awaited.popleft()
            await send_frame(link.to_client, answer)

    def _narrowed(self, header: RequestHeader | None, frame: bytes) -> bytes:
        """An answer to ApiVersions with the versions that a test allows; any other as it is."""
        versions = self._table.versions
        if header is None or header.api_key != ApiKey.API_VERSIONS or not versions:
            return frame
        head = response_header(header.api_key, header.api_version, header.correlation_id)
        answer: Any = read_response(header.api_key, header.api_version, frame, len(head))
        rows = []
        for row in answer.api_keys:
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
        return head + write(replace(answer, api_keys=tuple(rows)))


def _header(frame: bytes) -> RequestHeader | None:
    """None for what is no request, such as a login's token without a header."""
    try:
        return parse_request_header(frame)[0]
    except InvalidFrame:
        return None


def _is_answered(header: RequestHeader | None, frame: bytes) -> bool:
    """False for a Produce with acks=0: its client waits for nothing."""
    if header is None or header.api_key != ApiKey.PRODUCE:
        return True
    from kafka_common.protocol.produce import read_produce_request

    try:
        _, start = parse_request_header(frame)
        return read_produce_request(header.api_version, frame, start).acks != 0
    except InvalidFrame:
        return True


def _refusal(frame: bytes, fault: Fault) -> bytes:
    """The answer of a broker that refuses the request as a whole."""
    from replica_manager.server.dispatch import refusal
    from replica_manager.server.zookeeper_handlers import HANDLERS

    answer = refusal(HANDLERS, frame, fault.error)
    assert answer is not None, f"no broker answers {fault.api_key.name} in this version"
    return answer[4:]
