"""Limits the open connections of a broker, a listener and an address.

Counted as connections come and go, so that asking costs the same however many there are.  A
listener without a limit of its own has the broker's.  The listener that brokers have to themselves
is protected: it may exceed the broker's limit, at the expense of a client's connection, though not
its own limit.

Source: Kafka ``ConnectionQuotas``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Protocol


class ConnectionLimits(Protocol):
    """The limits."""

    @property
    def max_connections(self) -> int:
        """The limit for all listeners together."""

    @property
    def listener_max_connections(self) -> Mapping[str, int]:
        """The limits of single listeners."""

    @property
    def max_connections_per_ip(self) -> int:
        """The limit of one address."""

    @property
    def max_connections_per_ip_overrides(self) -> Mapping[str, int]:
        """The limits of addresses with their own limit."""


class ConnectionQuotas:
    """Counts the connections of one broker."""

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
        """Whether a client's connection must be closed for one of a broker."""
        return self.total > limits.max_connections

    def refused_over(self, address: str, limits: ConnectionLimits) -> int | None:
        """The limit of an address that has reached it; None if it may connect."""
        most = limits.max_connections_per_ip_overrides.get(address, limits.max_connections_per_ip)
        return most if self._by_address[address] >= most else None

    def opened(self, listener_name: str, address: str) -> None:
        """Counts a connection."""
        self.total += 1
        self._by_listener[listener_name] += 1
        self._by_address[address] += 1

    def closed(self, listener_name: str, address: str) -> None:
        """Removes a connection from the count."""
        self.total -= 1
        self._by_listener[listener_name] -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
        assert self.total >= 0
        assert self._by_listener[listener_name] >= 0
