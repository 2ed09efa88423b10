"""Parses ``listeners``, ``advertised.listeners`` and related keys to endpoints, and checks them.

Opens no sockets.  An empty host means all interfaces in a bound listener; in an advertised listener
it is replaced by the machine's host name.

Source: Kafka ``KafkaConfig`` (``validateValues``), ``CoreUtils.listenerListToEndPoints``.
"""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from kafka_common.errors import ConfigInvalid
from kafka_common.model import SECURITY_PROTOCOLS, Endpoint
from replica_manager.configuration.config_keys import split_list

_ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")


class Listeners(Struct, frozen=True):
    """The bound and advertised listeners, and those with a special role."""

    bound: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]
    inter_broker: str
    """The name of the inter-broker listener."""
    control_plane: str | None
    """The name of the control plane listener, for the controller's requests; None if not set."""

    @property
    def controller_uses(self) -> str:
        """The name of the listener on which controllers connect to brokers."""
        return self.control_plane or self.inter_broker


def resolve_listeners(
    *,
    listeners: str,
    advertised_listeners: str | None,
    protocol_map: str,
    inter_broker_listener_name: str | None,
    security_inter_broker_protocol: str | None,
    control_plane_listener_name: str | None,
) -> Listeners:
    """The listeners of a configuration; ConfigInvalid with the key that is not valid.

    ``security_inter_broker_protocol`` is None unless the file sets it.
    """
    protocols = parse_protocol_map(protocol_map)
    bound = parse_endpoints("listeners", listeners, protocols, distinct_ports=True)
    if advertised_listeners is None:
        advertised = bound
    else:
        advertised = parse_endpoints(
            "advertised.listeners", advertised_listeners, protocols, distinct_ports=False
        )
    inter_broker = _inter_broker_listener(
        inter_broker_listener_name, security_inter_broker_protocol, protocols
    )
    resolved = Listeners(
        bound,
        advertised,
        inter_broker,
        control_plane_listener_name and control_plane_listener_name.upper(),
    )
    _check_names(
        resolved,
        advertised_listeners,
        protocols,
        inter_broker_key="inter.broker.listener.name"
        if security_inter_broker_protocol is None
        else "security.inter.broker.protocol",
    )
    return resolved


def parse_protocol_map(text: str) -> dict[str, str]:
    """Listener name to security protocol; an empty text is the default map."""
    if not text:
        return {protocol: protocol for protocol in SECURITY_PROTOCOLS}
    protocols: dict[str, str] = {}
    for pair in _without_empty_ends(split_list(text)):
        name, colon, protocol = pair.rpartition(":")
        protocol = protocol.strip().upper()
        if not colon or protocol not in SECURITY_PROTOCOLS:
            raise ConfigInvalid(
                "listener.security.protocol.map",
                text,
                "pairs LISTENER:PROTOCOL with a protocol out of " + ", ".join(SECURITY_PROTOCOLS),
            )
        protocols[name.strip().upper()] = protocol
    return protocols


def _without_empty_ends(pairs: Sequence[str]) -> Sequence[str]:
    """The pairs without empty ones at the end, as Java's ``split`` returns them."""
    end = len(pairs)
    while end and not pairs[end - 1]:
        end -= 1
    return pairs[:end]


def parse_endpoints(
    key: str, text: str, protocols: Mapping[str, str], *, distinct_ports: bool
) -> tuple[Endpoint, ...]:
    """The endpoints in ``NAME://host:port,…``; an empty host stays empty."""
    entries = [entry for entry in split_list(text) if entry]
    if not entries:
        raise ConfigInvalid(key, text, "at least one listener, as PLAINTEXT://:9092")
    endpoints = tuple(_parse_endpoint(key, entry, protocols) for entry in entries)
    if len({endpoint.listener_name for endpoint in endpoints}) < len(endpoints):
        raise ConfigInvalid(key, text, "listeners with different names")
    if distinct_ports:
        _check_ports(key, text, endpoints)
    return endpoints


def _parse_endpoint(key: str, entry: str, protocols: Mapping[str, str]) -> Endpoint:
    parsed = _ENDPOINT.fullmatch(entry)
    if parsed is None:
        raise ConfigInvalid(key, entry, "NAME://host:port, where host may be empty")
    name = parsed[1].upper()
    port = int(parsed[3]) if len(parsed[3]) <= 6 else -1
    if not 0 <= port <= 65535:
        raise ConfigInvalid(key, entry, "a port between 0 and 65535; 0 takes any free port")
    if name not in protocols:
        raise ConfigInvalid(
            key,
            entry,
            f"a listener name out of listener.security.protocol.map: {', '.join(protocols)}",
        )
    return Endpoint(parsed[2], port, name, protocols[name])


def _check_ports(key: str, text: str, endpoints: Sequence[Endpoint]) -> None:
    by_port: defaultdict[int, list[str]] = defaultdict(list)
    for endpoint in endpoints:
        if endpoint.port:
            by_port[endpoint.port].append(endpoint.host)
    for hosts in by_port.values():
        # An IPv4 and an IPv6 address may have the same port: they are two sockets.
        families = sorted(_ip_version(host) for host in hosts)
        if len(hosts) > 1 and families != [4, 6]:
            raise ConfigInvalid(
                key,
                text,
                "different ports, or one port for exactly one IPv4 and one IPv6 address",
            )


def _ip_version(host: str) -> int:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).version
    except ValueError:
        return 0


def _inter_broker_listener(
    name: str | None, security_protocol: str | None, protocols: Mapping[str, str]
) -> str:
    if name is None:
        return security_protocol or "PLAINTEXT"
    if security_protocol is not None:
        raise ConfigInvalid(
            "inter.broker.listener.name",
            name,
            "only one of inter.broker.listener.name and security.inter.broker.protocol",
        )
    if name.upper() not in protocols:
        raise ConfigInvalid(
            "inter.broker.listener.name",
            name,
            f"a listener name out of listener.security.protocol.map: {', '.join(protocols)}",
        )
    return name.upper()


def _check_names(
    listeners: Listeners,
    advertised_text: str | None,
    protocols: Mapping[str, str],
    *,
    inter_broker_key: str,
) -> None:
    bound_names = [endpoint.listener_name for endpoint in listeners.bound]
    advertised_names = [endpoint.listener_name for endpoint in listeners.advertised]
    if listeners.inter_broker not in advertised_names:
        raise ConfigInvalid(
            inter_broker_key,
            listeners.inter_broker,
            f"a listener that is advertised: {', '.join(advertised_names)}",
        )
    if not set(advertised_names) <= set(bound_names):
        raise ConfigInvalid(
            "advertised.listeners",
            advertised_text,
            f"only names that listeners defines: {', '.join(bound_names)}",
        )
    for endpoint in listeners.advertised:
        if endpoint.host == "0.0.0.0":
            raise ConfigInvalid(
                "advertised.listeners",
                connection_string(endpoint),
                "an address that others can route to; 0.0.0.0 means nothing to them",
            )
    control_plane = listeners.control_plane
    if control_plane is None:
        return
    if control_plane not in protocols or control_plane not in advertised_names:
        raise ConfigInvalid(
            "control.plane.listener.name",
            control_plane,
            f"a listener that is advertised: {', '.join(advertised_names)}",
        )
    if control_plane == listeners.inter_broker:
        raise ConfigInvalid(
            "control.plane.listener.name",
            control_plane,
            "another listener than the one brokers use among themselves",
        )


def with_real_addresses(
    listeners: Listeners, ports: Mapping[str, int], canonical_host_name: str
) -> tuple[Endpoint, ...]:
    """The advertised endpoints for registration: the bound port for 0, a host name for no host.

    ``ports`` has the bound port of each listener whose configured port is 0.
    """
    return tuple(
        replace(
            endpoint,
            host=endpoint.host or canonical_host_name,
            port=endpoint.port or ports[endpoint.listener_name],
        )
        for endpoint in listeners.advertised
    )


def connection_string(endpoint: Endpoint) -> str:
    """``NAME://host:port``, an IPv6 host in brackets, as Kafka's ``EndPoint.connectionString``."""
    return f"{endpoint.listener_name}://{endpoint.address}"
