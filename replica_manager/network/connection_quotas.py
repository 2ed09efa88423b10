"""Limits the open connections of a broker, a listener and an address.

Connections are counted when they open and close, so a check is fast with any number of them.  A
listener without a limit of its own has the broker's.  An inter-broker listener that clients do not
use is protected: it may exceed the broker's limit, which closes a client's connection, but not its
own limit.

Source: Kafka ``ConnectionQuotas``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Protocol


class ConnectionLimits(Protocol):
    """The limits of open connections."""

    @property
    def max_connections(self) -> int:
        """The limit for all listeners together."""

    @property
    def listener_max_connections(self) -> Mapping[str, int]:
        """The limits of listeners that have their own."""

    @property
    def max_connections_per_ip(self) -> int:
        """The limit of each address without its own limit."""

    @property
    def max_connections_per_ip_overrides(self) -> Mapping[str, int]:
        """The limits of addresses with their own limit."""


class ConnectionQuotas:
    """Counts the open connections of one broker."""

    def __init__(self, protected_listener: str | None) -> None:
        """``protected_listener``: the inter-broker listener; None if clients share it."""
        self._protected_listener = protected_listener
        self.total = 0
        self._by_listener: Counter[str] = Counter()
        self._by_address: Counter[str] = Counter()

    def is_protected(self, listener_name: str) -> bool:
        return listener_name == self._protected_listener

    def has_room(self, listener_name: str, limits: ConnectionLimits) -> bool:
        """Whether the listener may accept another connection now."""
        most = limits.listener_max_connections.get(listener_name, limits.max_connections)
        if self._by_listener[listener_name] >= most:
            return False
        return self.is_protected(listener_name) or self.total < limits.max_connections

    def is_exceeded(self, limits: ConnectionLimits) -> bool:
        """Whether there are too many connections, so that a client's connection must be closed."""
        return self.total > limits.max_connections

    def refused_over(self, address: str, limits: ConnectionLimits) -> int | None:
        """The limit of the address if it has reached it; None if it may connect."""
        most = limits.max_connections_per_ip_overrides.get(address, limits.max_connections_per_ip)
        return most if self._by_address[address] >= most else None

    def opened(self, listener_name: str, address: str) -> None:
        """Adds an opened connection to the counts."""
        self.total += 1
        self._by_listener[listener_name] += 1
        self._by_address[address] += 1

    def closed(self, listener_name: str, address: str) -> None:
        """Removes a closed connection from the counts."""
        self.total -= 1
        self._by_listener[listener_name] -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
        assert self.total >= 0
        assert self._by_listener[listener_name] >= 0
