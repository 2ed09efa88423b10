"""Passes changes of the configuration on to the parts of a broker that follow them.

The source of metadata reads a changed configuration and calls one method here.  Each part of the
broker adds its own callback when it is created, so the source does not know the parts.

Source: Kafka ``DynamicBrokerConfig`` (``addReconfigurable``, ``addBrokerReconfigurable``),
``ConfigHandler``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TypeAlias

from replica_manager.configuration.config import BrokerConfig

_log = logging.getLogger("kafka.server.DynamicBrokerConfig")

OnBroker: TypeAlias = Callable[[BrokerConfig, BrokerConfig], None]
"""Called with the broker's configuration before and after a change."""

OnEntity: TypeAlias = Callable[[str, Mapping[str, str]], None]
"""Called with a topic name, or the path of a user, client id or address, and its configuration."""


class ConfigChanges:
    """The callbacks for changed configurations.

    The source of metadata calls the methods, in an executor's thread.  The parts of the broker add
    their callbacks to the lists, on the event loop; a callback gets only later changes.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.checks: list[OnBroker] = []
        """Called in the executor, in order, before a change of the broker is applied.

        They raise ConfigInvalid or ReconfigurationRefused if the broker cannot apply the change.
        """
        self.brokers: list[OnBroker] = []
        """Called in the executor, in order, when a change of the broker is applied."""
        self._missed: dict[OnBroker, BrokerConfig] = {}
        """The configuration that a part still has because its last callback failed."""
        self.topics: list[OnEntity] = []
        """Called on the event loop with a topic's own configuration."""
        self.clients: list[OnEntity] = []
        """Called on the event loop with the configuration of a user, client id or address."""
        self.unclean_topics: list[Callable[[str], None]] = []
        """Called in the executor when a topic's changed configuration allows unclean elections."""

    def prepare(self, before: BrokerConfig, after: BrokerConfig) -> None:
        """Prepares a change; ConfigInvalid or ReconfigurationRefused if it cannot be applied."""
        for check in self.checks:
            check(before, after)

    def broker_changed(self, before: BrokerConfig, after: BrokerConfig) -> None:
        """Applies a change of the broker's configuration from ``before`` to ``after``.

        If a callback fails, the others are still called, and its next call includes the missed
        change.  In the end the first exception is raised.
        """
        failures: list[Exception] = []
        for on_broker in self.brokers:
            since = self._missed.pop(on_broker, before)
            try:
                on_broker(since, after)
            except Exception as failure:  # noqa: BLE001 - the other parts must get the change
                self._missed[on_broker] = since
                failures.append(failure)
        for later in failures[1:]:
            _log.error("A change of the configuration failed", exc_info=later)
        if failures:
            raise failures[0]

    def topic_changed(self, topic: str, config: Mapping[str, str]) -> None:
        """Passes on a topic's own configuration."""
        for on_topic in self.topics:
            self._loop.call_soon_threadsafe(on_topic, topic, config)

    def client_changed(self, entity_path: str, config: Mapping[str, str]) -> None:
        """Passes on the configuration of a user, a client id, both, or an IP address."""
        for on_client in self.clients:
            self._loop.call_soon_threadsafe(on_client, entity_path, config)

    def topic_became_unclean(self, topic: str) -> None:
        """Passes on that a topic's changed configuration allows unclean leader elections."""
        for on_topic in self.unclean_topics:
            on_topic(topic)
