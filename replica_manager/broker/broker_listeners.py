"""The listeners of one broker: their sockets, their security, and the endpoints it advertises.

Listeners, limits and key stores can be reconfigured while the broker runs.  A change is applied in
two steps: :meth:`BrokerListeners.prepare` opens and closes sockets and may refuse the change; then
:meth:`BrokerListeners.changed` sets the new limits.

Source: Kafka ``SocketServer`` (``DynamicListenerConfig``), ``DynamicBrokerConfig``.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from kafka_common.errors import ConfigInvalid
from kafka_common.model import Endpoint
from kafka_common.observability.metrics import Metrics
from replica_manager.broker.broker_settings import limits_of
from replica_manager.configuration.config import BrokerConfig
from replica_manager.configuration.listeners import with_real_addresses
from replica_manager.network.connection import Respond
from replica_manager.network.connection_rates import ConnectionRates
from replica_manager.network.listener import SocketServer
from replica_manager.network.listener_authenticator import ListenerAuthenticator, Refusal
from replica_manager.security.delegation_tokens import DelegationTokens
from replica_manager.security.dynamic_tls import ListenerSecurities
from replica_manager.security.scram_credentials import ScramCredentials

LISTENER_CHANGE_TIMEOUT_S: Final = 30.0


class BrokerListeners:
    """All listeners of a broker.  Used on the event loop, except for methods that say otherwise."""

    def __init__(
        self,
        config: BrokerConfig,
        securities: ListenerSecurities,
        respond: Respond,
        refusal: Refusal,
        *,
        broker_id: int,
        credentials: ScramCredentials,
        tokens: DelegationTokens,
        rates: ConnectionRates,
        metrics: Metrics | None,
    ) -> None:
        """Opens no socket.  ``rates`` limits how fast clients may connect.

        ``metrics``: where connections and requests are counted; None to count nothing.

        ``refusal`` makes the response to a request that comes before authentication.
        """
        self._loop = asyncio.get_running_loop()
        self.securities = securities
        self._refusal = refusal
        self._credentials = credentials
        self._tokens = tokens
        self._limits = limits_of(config)
        self.server = SocketServer(
            config.listeners.bound,
            self._limits,
            respond,
            broker_id=broker_id,
            protected_listener=config.listeners.inter_broker,
            authenticators={
                name: authenticator
                for name in securities.server
                if (authenticator := self._authenticator(name)) is not None
            },
            rates=rates,
            metrics=metrics,
        )
        self.endpoints: tuple[Endpoint, ...] = ()
        """The advertised endpoints, with the bound ports; empty before :meth:`bind`."""

    def bind(self, config: BrokerConfig) -> None:
        """Binds the listeners whose configured port is 0, and sets :attr:`endpoints`."""
        self.server.bind_ephemeral()
        self.endpoints = self.advertised(config)

    def advertised(self, config: BrokerConfig) -> tuple[Endpoint, ...]:
        """The endpoints that ``config`` advertises, with the bound ports instead of 0."""
        return with_real_addresses(config.listeners, self.server.ports, socket.getfqdn())

    def prepare(self, before: BrokerConfig, after: BrokerConfig) -> None:
        """Applies the key stores and listeners of ``after``; ConfigInvalid if that is impossible.

        Blocks, so it must run in an executor's thread.
        """
        limits = limits_of(after)
        self.securities.apply(after)
        if before.listeners.bound != after.listeners.bound:
            self.securities.add_listeners(after)
            changing = asyncio.run_coroutine_threadsafe(self._change(before, after), self._loop)
            try:
                changing.result(LISTENER_CHANGE_TIMEOUT_S)
            except BaseException:
                self.securities.remove_listeners(before)
                raise
            self.securities.remove_listeners(after)
        self._limits = limits

    def changed(self, _: BrokerConfig, __: BrokerConfig) -> None:
        """Sets the limits that :meth:`prepare` has found.  For any thread."""
        self._loop.call_soon_threadsafe(self.server.limit, self._limits)

    def _authenticator(self, listener_name: str) -> ListenerAuthenticator | None:
        """The authenticator of a listener; None if it needs neither TLS nor SASL."""
        security = self.securities.server[listener_name]
        if security.tls is None and security.sasl is None:
            return None
        return ListenerAuthenticator(security, self._credentials, self._refusal, self._tokens)

    async def _change(self, before: BrokerConfig, after: BrokerConfig) -> None:
        """Opens the new listeners, then closes the removed ones.

        ConfigInvalid if an address cannot be bound; then no listener has changed.
        """
        old = {endpoint.listener_name for endpoint in before.listeners.bound}
        new = {endpoint.listener_name: endpoint for endpoint in after.listeners.bound}
        added: list[str] = []
        try:
            for name in new.keys() - old:
                self.server.add(new[name], self._authenticator(name))
                added.append(name)
        except ConfigInvalid:
            for name in added:
                self.server.remove(name)
            raise
        for name in old - new.keys():
            self.server.remove(name)
