"""The listeners of one broker: their sockets, their security, and the endpoints it advertises.

Listeners, limits and key stores can be configured anew while the broker runs.  A change is taken
over in two parts: :meth:`BrokerListeners.prepare` opens and closes sockets and may still refuse,
:meth:`BrokerListeners.changed` sets limits when the change counts.

Source: Kafka ``SocketServer`` (``DynamicListenerConfig``), ``DynamicBrokerConfig``.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from kafka_common.errors import ConfigInvalid
from kafka_common.model import Endpoint
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
    """Every listener.  For the event loop, but for the methods that say otherwise."""

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
    ) -> None:
        """Opens nothing; ``rates``: how fast connections may come.

        ``refusal``: the response to a request before authentication.
        """
        self._loop = asyncio.get_running_loop()
        self.securities = securities
        self._refusal = refusal
        self._credentials = credentials
        self._tokens = tokens
        self.server = SocketServer(
            config.listeners.bound,
            limits_of(config),
            respond,
            broker_id=broker_id,
            protected_listener=config.listeners.inter_broker,
            authenticators={
                name: authenticator
                for name in securities.server
                if (authenticator := self._authenticator(name)) is not None
            },
            rates=rates,
        )
        self.endpoints: tuple[Endpoint, ...] = ()
        """What is advertised, with real ports; empty before :meth:`bind`."""

    def bind(self, config: BrokerConfig) -> None:
        """Binds the listeners whose port is 0, and finds out what ``config`` advertises."""
        self.server.bind_ephemeral()
        self.endpoints = self.advertised(config)

    def advertised(self, config: BrokerConfig) -> tuple[Endpoint, ...]:
        """What ``config`` advertises, with the ports that are really bound."""
        return with_real_addresses(config.listeners, self.server.ports, socket.getfqdn())

    def prepare(self, before: BrokerConfig, after: BrokerConfig) -> None:
        """Takes key stores and listeners of ``after`` over, or raises ConfigInvalid.

        Blocks: belongs to an executor's thread.
        """
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

    def changed(self, _: BrokerConfig, after: BrokerConfig) -> None:
        """The limits of ``after`` count for connections yet to come.  From any thread."""
        self.server.limits = limits_of(after)

    def _authenticator(self, listener_name: str) -> ListenerAuthenticator | None:
        """The authentication of that listener; None where every peer is accepted."""
        security = self.securities.server[listener_name]
        if security.tls is None and security.sasl is None:
            return None
        return ListenerAuthenticator(security, self._credentials, self._refusal, self._tokens)

    async def _change(self, before: BrokerConfig, after: BrokerConfig) -> None:
        """Opens new listeners, then closes those that were removed.

        ConfigInvalid for an address that cannot be bound; then all is as it was.
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
