"""Passes changes of the configuration on to the parts of a broker that follow them.

The source of metadata reads a changed configuration and calls one method here.  Each part of the
broker follows what concerns it from the moment when it is made, so the source knows none of them.

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
"""Gets the broker's configuration before and after a change."""

OnEntity: TypeAlias = Callable[[str, Mapping[str, str]], None]
"""Gets the name of a topic, or the path of a user, a client id or an address; its configuration."""


class ConfigChanges:
    """Who follows which configurations.

    The four methods are for the source of metadata, in an executor's thread.  The lists are for the
    broker's parts, on the event loop; a part that is added counts for later changes.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.checks: list[OnBroker] = []
        """Called in the executor, in order, before a change counts.

        They raise ConfigInvalid or ReconfigurationRefused if the broker cannot take it over.
        """
        self.brokers: list[OnBroker] = []
        """Called in the executor, in order, when a change counts."""
        self._missed: dict[OnBroker, BrokerConfig] = {}
        """What the parts go by whose last call failed."""
        self.topics: list[OnEntity] = []
        """Called on the event loop."""
        self.clients: list[OnEntity] = []
        """Called on the event loop."""
        self.unclean_topics: list[Callable[[str], None]] = []
        """Called in the executor when a topic begins to allow unclean leader elections."""

    def prepare(self, before: BrokerConfig, after: BrokerConfig) -> None:
        """ConfigInvalid or ReconfigurationRefused if the broker cannot go on with ``after``."""
        for check in self.checks:
            check(before, after)

    def broker_changed(self, before: BrokerConfig, after: BrokerConfig) -> None:
        """The configuration of the broker is ``after`` from now on.

        A part that fails keeps no other from it, and gets what it missed with the next call; the
        first failure is raised in the end.
        """
        failures: list[Exception] = []
        for on_broker in self.brokers:
            since = self._missed.pop(on_broker, before)
            try:
                on_broker(since, after)
            except Exception as failure:  # noqa: BLE001 - the other parts have their own change
                self._missed[on_broker] = since
                failures.append(failure)
        for later in failures[1:]:
            _log.error("A change of the configuration failed", exc_info=later)
        if failures:
            raise failures[0]

    def topic_changed(self, topic: str, config: Mapping[str, str]) -> None:
        """A topic has that configuration of its own."""
        for on_topic in self.topics:
            self._loop.call_soon_threadsafe(on_topic, topic, config)

    def client_changed(self, entity_path: str, config: Mapping[str, str]) -> None:
        """A user, a client id, both, or an address has that configuration."""
        for on_client in self.clients:
            self._loop.call_soon_threadsafe(on_client, entity_path, config)

    def topic_became_unclean(self, topic: str) -> None:
        """A changed topic allows unclean leader elections."""
        for on_topic in self.unclean_topics:
            on_topic(topic)
