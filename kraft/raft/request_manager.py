"""Tracks requests in flight: at most one for each node, with timeout and backoff.

Source: Kafka ``RequestManager``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from kraft.raft.config import NEVER_MS
from kraft.raft.values import NodeAddress


class RandomSource(Protocol):
    """A source of random numbers, such as ``random.Random``."""

    def randrange(self, stop: int, /) -> int:
        """A number from 0 to ``stop`` - 1."""


@dataclass(slots=True)
class _Connection:
    """The state of the requests to one node."""

    correlation_id: int | None = None
    """The id of the request in flight; None if there is none."""
    timeout_ms: int = NEVER_MS
    backoff_ms: int = 0


class RequestManager:
    """The requests in flight, by node."""

    def __init__(
        self,
        bootstrap_servers: Mapping[int, NodeAddress],
        request_timeout_ms: int,
        retry_backoff_ms: int,
        random: RandomSource,
    ) -> None:
        self.bootstrap_servers = dict(bootstrap_servers)
        self._request_timeout_ms = request_timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._random = random
        self._connections: dict[int, _Connection] = {}

    def ready_at_ms(self, node_id: int, now_ms: int) -> int:
        """The time from which a request may be sent to that node; ``now_ms`` if at once."""
        connection = self._connections.get(node_id)
        if connection is None:
            return now_ms
        if connection.correlation_id is not None:
            return max(connection.timeout_ms, now_ms)
        return max(connection.backoff_ms, now_ms)

    def is_backing_off(self, node_id: int, now_ms: int) -> bool:
        """Whether that node is in backoff after a failed request."""
        connection = self._connections.get(node_id)
        return (
            connection is not None
            and connection.correlation_id is None
            and connection.backoff_ms > now_ms
        )

    def has_request_timed_out(self, node_id: int, now_ms: int) -> bool:
        """Whether the request in flight to that node has timed out."""
        connection = self._connections.get(node_id)
        return (
            connection is not None
            and connection.correlation_id is not None
            and connection.timeout_ms <= now_ms
        )

    def in_flight_until_ms(self, now_ms: int) -> int | None:
        """The time at which the first request in flight times out; None if there is none."""
        first = None
        for connection in self._connections.values():
            if connection.correlation_id is None or connection.timeout_ms <= now_ms:
                continue
            if first is None or connection.timeout_ms < first:
                first = connection.timeout_ms
        return first

    def ready_bootstrap_server(self, now_ms: int) -> int | None:
        """A random bootstrap server that is ready; None also while any request is in flight."""
        if self.in_flight_until_ms(now_ms) is not None or not self.bootstrap_servers:
            return None
        servers = list(self.bootstrap_servers)
        start = self._random.randrange(len(servers))
        for server in servers[start:] + servers[:start]:
            if self.ready_at_ms(server, now_ms) == now_ms:
                return server
        return None

    def bootstrap_ready_at_ms(self, now_ms: int) -> int:
        """The time from which :meth:`ready_bootstrap_server` may return a server."""
        in_flight = self.in_flight_until_ms(now_ms)
        if in_flight is not None:
            return in_flight
        ready = (self.ready_at_ms(server, now_ms) for server in self.bootstrap_servers)
        return min(ready, default=NEVER_MS)

    def sent(self, node_id: int, correlation_id: int, now_ms: int) -> None:
        """Records that a request was sent to that node."""
        self._connections[node_id] = _Connection(correlation_id, now_ms + self._request_timeout_ms)

    def is_response_expected(self, node_id: int, correlation_id: int, now_ms: int) -> bool:
        """Whether the response with that correlation id is still expected.

        After the timeout no response is expected: a Fetch may have been sent to another node
        meanwhile, and the two responses would contain the same records.
        """
        connection = self._connections.get(node_id)
        return (
            connection is not None
            and connection.correlation_id == correlation_id
            and now_ms < connection.timeout_ms
        )

    def succeeded(self, node_id: int, correlation_id: int, now_ms: int) -> None:
        """Ends a request successfully: the next one may be sent at once."""
        if self.is_response_expected(node_id, correlation_id, now_ms):
            del self._connections[node_id]

    def failed(self, node_id: int, correlation_id: int, now_ms: int) -> None:
        """Ends a request without success: the next one may be sent after the retry backoff."""
        if self.is_response_expected(node_id, correlation_id, now_ms):
            self._connections[node_id] = _Connection(backoff_ms=now_ms + self._retry_backoff_ms)

    def reset(self, node_id: int) -> None:
        """Forgets the requests to that node."""
        self._connections.pop(node_id, None)

    def reset_all(self) -> None:
        """Forgets all requests: after a change of state their responses mean nothing."""
        self._connections.clear()
