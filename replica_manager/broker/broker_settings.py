"""Translates a broker's configuration to the settings of its parts.

It reads the keys of ``server.properties`` and makes the settings of each part; it starts nothing.
"""

from __future__ import annotations

import socket
import time
from typing import Final

from kafka_common.errors import ConfigInvalid
from kafka_common.net.client_security import ClientSecurity
from replica_manager.broker.dynamic_config import UNCLEAN_LEADER_ELECTION_ENABLE
from replica_manager.configuration.broker_keys import BROKER_KEYS
from replica_manager.configuration.config import BrokerConfig, parse_connection_overrides
from replica_manager.network.listener import ServerLimits
from replica_manager.security.acl_cache import AclCache
from replica_manager.security.authorizer import Authorizer
from replica_manager.security.principals import Principal
from replica_manager.security.settings import authorizer_settings
from replica_manager.security.zookeeper_tls import shows_certificate, zookeeper_tls
from zkcontroller.core.config import ControllerConfig
from zkcontroller.runtime.controller_channel_manager import ChannelSettings
from zkcontroller.zookeeper.session import ZooKeeperConfig

CONNECTION_RATE: Final = "max.connection.creation.rate"
CONNECTIONS: Final = "max.connections"

ZOOKEEPER_AUTH_VARIABLE: Final = "ZKCONTROLLER_ZOOKEEPER_AUTH"
"""Environment variable with the credentials for ZooKeeper; without it a JAAS file may have them."""


def zookeeper_settings(config: BrokerConfig, auth: tuple[tuple[str, str], ...]) -> ZooKeeperConfig:
    """The settings of the ZooKeeper session.  Reads key stores.

    ConfigInvalid if ``zookeeper.set.acl`` is true, but the broker has neither credentials nor a
    certificate for ZooKeeper.
    """
    if config.is_enabled("zookeeper.set.acl") and not auth and not shows_certificate(config.values):
        raise ConfigInvalid(
            "zookeeper.set.acl",
            "true",
            f"true only with credentials: set {ZOOKEEPER_AUTH_VARIABLE}=digest:USER:PASSWORD or "
            "sasl:USER:PASSWORD, or show a certificate by zookeeper.ssl.keystore.location",
        )
    return ZooKeeperConfig(
        connect=config.zookeeper_connect,
        session_timeout_ms=config.integer("zookeeper.session.timeout.ms"),
        connection_timeout_ms=config.zookeeper_connection_timeout_ms,
        max_in_flight_requests=config.integer("zookeeper.max.in.flight.requests"),
        set_acl=config.is_enabled("zookeeper.set.acl"),
        auth=auth,
        tls=zookeeper_tls(config.values),
    )


def controller_settings(
    config: BrokerConfig, broker_id: int, *, trace_state_changes: bool
) -> ControllerConfig:
    """The settings of the controller candidate."""
    return ControllerConfig(
        broker_id,
        config.inter_broker_version.name,
        listener_name=config.listeners.controller_uses,
        inter_broker_listener_name=config.listeners.inter_broker,
        unclean_leader_election_enable=config.is_enabled(UNCLEAN_LEADER_ELECTION_ENABLE),
        delete_topic_enable=config.is_enabled("delete.topic.enable"),
        auto_leader_rebalance_enable=config.is_enabled("auto.leader.rebalance.enable"),
        leader_imbalance_check_interval_seconds=config.integer(
            "leader.imbalance.check.interval.seconds"
        ),
        leader_imbalance_per_broker_percentage=config.integer(
            "leader.imbalance.per.broker.percentage"
        ),
        trace_state_changes=trace_state_changes,
    )


def channel_settings(
    config: BrokerConfig, broker_id: int, security: ClientSecurity
) -> ChannelSettings:
    """The settings of the controller's channels to brokers."""
    return ChannelSettings(
        broker_id,
        config.listeners.controller_uses,
        connect_timeout_ms=config.integer("controller.socket.timeout.ms"),
        request_timeout_ms=config.integer("request.timeout.ms"),
        security=security,
    )


def limits_of(config: BrokerConfig) -> ServerLimits:
    """The limits for clients: connections, request sizes and socket buffers.

    Looks up host names in ``max.connections.per.ip.overrides``, so it may block; ConfigInvalid for
    one that has no address.
    """
    overrides = config.text("max.connections.per.ip.overrides") or ""
    return ServerLimits(
        max_request_bytes=config.integer("socket.request.max.bytes"),
        max_queued_request_bytes=config.integer("queued.max.request.bytes"),
        max_idle_ms=config.integer("connections.max.idle.ms"),
        max_connections=config.integer(CONNECTIONS),
        listener_max_connections=_of_listeners(config, CONNECTIONS),
        max_connections_per_ip=config.integer("max.connections.per.ip"),
        max_connections_per_ip_overrides={
            _address_of(host): most for host, most in parse_connection_overrides(overrides).items()
        },
        max_connection_creation_rate=config.integer(CONNECTION_RATE),
        listener_connection_creation_rates=_of_listeners(config, CONNECTION_RATE),
        backlog=config.integer("socket.listen.backlog.size"),
        send_buffer_bytes=config.integer("socket.send.buffer.bytes"),
        receive_buffer_bytes=config.integer("socket.receive.buffer.bytes"),
    )


def _address_of(host: str) -> str:
    """The host's first address, as sockets show it.

    Source: Kafka ``ConnectionQuotas`` (``InetAddress.getByName``).
    """
    try:
        [*_, found] = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise ConfigInvalid(
            "max.connections.per.ip.overrides", host, "an address, or a name that has one"
        ) from None
    return str(found[0]).removeprefix("::ffff:")


def _of_listeners(config: BrokerConfig, key: str) -> dict[str, int]:
    """The values of ``key`` of the listeners that set it themselves, by listener name."""
    values: dict[str, int] = {}
    texts = config.effective
    for endpoint in config.listeners.bound:
        name = endpoint.listener_name
        own_name = f"listener.name.{name.lower()}.{key}"
        text = texts.get(own_name)
        if text is not None:
            value = BROKER_KEYS[key].parse(text, own_name)
            assert isinstance(value, int)
            values[name] = value
    return values


def authorizer_of(config: BrokerConfig) -> Authorizer | None:
    """The configured authorizer, still without ACLs; None: every client may do everything."""
    settings = authorizer_settings(config)
    if settings is None:
        return None
    return Authorizer(
        AclCache({}),
        super_users=frozenset(Principal(*user) for user in settings.super_users),
        allow_everyone_if_no_acl_found=settings.allow_everyone_if_no_acl_found,
        now_s=time.monotonic,
    )
