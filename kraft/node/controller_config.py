"""The configuration of a KRaft node: its roles, its quorum, its metadata log.

It is read from the same ``server.properties`` as a broker's, with the same table of keys.  Each
known key must have a valid value; rules for broker keys alone are not checked.  The error names the
key and the allowed values.

Source: Kafka ``KafkaConfig.validateValues`` (in KRaft mode), ``QuorumConfig``, ``KRaftConfigs``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from kafka_common.errors import ConfigInvalid
from kafka_common.java import parse_int
from kafka_common.model import SECURITY_PROTOCOLS, Endpoint
from kraft.controller.snapshot_trigger import SnapshotConfig
from kraft.node.metadata_log_config import MetadataLogConfig
from kraft.raft.config import QuorumConfig
from kraft.raft.values import NodeAddress, VoterSet
from replica_manager.configuration.broker_keys import BROKER_KEYS
from replica_manager.configuration.config import log_dirs_of, read_properties_file
from replica_manager.configuration.config_keys import ConfigValue, split_list
from replica_manager.configuration.listeners import (
    parse_endpoints,
    parse_protocol_map,
)

BROKER: Final = "broker"
CONTROLLER: Final = "controller"
UNROUTABLE_HOST: Final = "0.0.0.0"
_ADDRESS: Final = re.compile(r"\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]{1,5})")
_HIGHEST_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class ControllerServerConfig:
    """A valid configuration of a KRaft node; fields are named like its keys."""

    originals: Mapping[str, str]
    """The keys and values in the file, as text."""
    values: Mapping[str, ConfigValue]
    """The typed value of every known key; the default if the file does not set it."""
    roles: tuple[str, ...]
    """``broker``, ``controller`` or both."""
    node_id: int
    voters: VoterSet
    """The static voters; empty if the quorum is found by its bootstrap servers."""
    bootstrap_servers: tuple[NodeAddress, ...]
    controller_listener_names: tuple[str, ...]
    """The first one is the quorum's listener."""
    listeners: tuple[Endpoint, ...]
    """The controller's listeners to bind; an empty host stands for every interface."""
    advertised: tuple[Endpoint, ...]
    """The addresses of ``listeners`` for others; an empty host stands for the machine's name."""
    log_dirs: tuple[Path, ...]
    metadata_log_dir: Path
    quorum: QuorumConfig
    metadata_log: MetadataLogConfig
    snapshots: SnapshotConfig

    @staticmethod
    def parse(properties: Mapping[str, str]) -> ControllerServerConfig:
        """The configuration in the properties; ConfigInvalid if a value is refused."""
        known = {key: text for key, text in properties.items() if key in BROKER_KEYS}
        values: dict[str, ConfigValue] = {
            key: definition.parse(known[key]) if key in known else definition.default
            for key, definition in BROKER_KEYS.items()
        }
        roles = _roles_of(values)
        protocols = _protocols_of(values, known)
        names = _controller_listener_names(values)
        every = parse_endpoints(
            "listeners", str(values["listeners"]), protocols, distinct_ports=True
        )
        bound = tuple(listener for listener in every if listener.listener_name in names)
        log_dirs = log_dirs_of(values)
        metadata_log_dir = values["metadata.log.dir"]
        config = ControllerServerConfig(
            originals=dict(properties),
            values=values,
            roles=roles,
            node_id=_node_id_of(values, known),
            voters=VoterSet(parse_voters(_texts(values, "controller.quorum.voters"))),
            bootstrap_servers=tuple(
                parse_address("controller.quorum.bootstrap.servers", entry)
                for entry in _texts(values, "controller.quorum.bootstrap.servers")
            ),
            controller_listener_names=names,
            listeners=bound,
            advertised=_advertised(values, protocols, names, bound),
            log_dirs=log_dirs,
            metadata_log_dir=log_dirs[0]
            if metadata_log_dir is None
            else Path(str(metadata_log_dir)),
            quorum=_quorum_of(values),
            metadata_log=_metadata_log_of(values),
            snapshots=_snapshots_of(values),
        )
        _check(config, every, protocols)
        return config

    @property
    def effective(self) -> Mapping[str, str]:
        """The keys and values in the file, as text; none changes while the node runs."""
        return self.originals

    @property
    def is_controller(self) -> bool:
        return CONTROLLER in self.roles

    @property
    def is_only_controller(self) -> bool:
        return self.roles == (CONTROLLER,)

    @property
    def listener_name(self) -> str:
        """The name of the quorum's listener."""
        return self.controller_listener_names[0]

    @property
    def quorum_listener(self) -> Endpoint:
        """The quorum's listener, with its address and security protocol."""
        return next(each for each in self.listeners if each.listener_name == self.listener_name)

    def integer(self, key: str) -> int:
        """The value of a key of type short, int or long, which must not be None."""
        return _integer(self.values, key)

    def is_enabled(self, key: str) -> bool:
        """The value of a boolean key."""
        value = self.values[key]
        assert isinstance(value, bool), key
        return value

    def check_voters_are_routable(self) -> None:
        """ConfigInvalid for a voter at 0.0.0.0; for a node's start, as formatting accepts it."""
        for voter_id, endpoint in self.voters.endpoints.items():
            if endpoint.host == UNROUTABLE_HOST:
                raise ConfigInvalid(
                    "controller.quorum.voters",
                    f"{voter_id}@{endpoint.host}:{endpoint.port}",
                    f"a host that others can route to; {endpoint.host} is not routeable",
                )


def load_controller_config(path: Path) -> ControllerServerConfig:
    """The configuration in the file; ConfigInvalid if a value is refused."""
    return ControllerServerConfig.parse(read_properties_file(path))


def parse_voters(entries: Collection[str]) -> dict[int, NodeAddress]:
    """The address of each voter from entries ``id@host:port``; ConfigInvalid for another form.

    Source: Kafka ``QuorumConfig.parseVoterConnections``.
    """
    key = "controller.quorum.voters"
    voters: dict[int, NodeAddress] = {}
    for entry in entries:
        text, _, address = entry.partition("@")
        voter_id = parse_int(text)
        if voter_id is None or "@" in address:
            raise ConfigInvalid(key, entry, "entries in the form `{id}@{host}:{port}`")
        voters[voter_id] = parse_address(key, address)
    return voters


def parse_address(key: str, text: str) -> NodeAddress:
    """The address in ``host:port``, an IPv6 host in brackets; ConfigInvalid names ``key``."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found[2]) > _HIGHEST_PORT:
        raise ConfigInvalid(key, text, "an address in the form `{host}:{port}`")
    return NodeAddress(found[1], int(found[2]))


def _integer(values: Mapping[str, ConfigValue], key: str) -> int:
    value = values[key]
    assert isinstance(value, int), key
    return value


def _texts(values: Mapping[str, ConfigValue], key: str) -> tuple[str, ...]:
    value = values[key]
    assert isinstance(value, tuple), key
    return value


def _roles_of(values: Mapping[str, ConfigValue]) -> tuple[str, ...]:
    roles = _texts(values, "process.roles")
    if not roles:
        raise ConfigInvalid("process.roles", "", "broker, controller or both: this is KRaft mode")
    if len(set(roles)) < len(roles):
        raise ConfigInvalid("process.roles", ",".join(roles), "each role once")
    return roles


def _node_id_of(values: Mapping[str, ConfigValue], known: Mapping[str, str]) -> int:
    key = "node.id" if "node.id" in known else "broker.id"
    node_id = _integer(values, key)
    if {"node.id", "broker.id"} <= set(known) and node_id != values["broker.id"]:
        raise ConfigInvalid("node.id", node_id, "the same value as broker.id")
    if node_id < 0:
        raise ConfigInvalid("node.id", node_id, "at least 0, with process.roles it is required")
    return node_id


def _controller_listener_names(values: Mapping[str, ConfigValue]) -> tuple[str, ...]:
    text = str(values["controller.listener.names"] or "")
    return tuple(name.upper() for name in split_list(text) if name)


def _protocols_of(values: Mapping[str, ConfigValue], known: Mapping[str, str]) -> dict[str, str]:
    """The security protocol of each listener name.

    Without ``listener.security.protocol.map``, a controller listener is PLAINTEXT unless a listener
    is named after another protocol.
    Source: Kafka ``KafkaConfig.effectiveListenerSecurityProtocolMap``.
    """
    protocols = parse_protocol_map(str(values["listener.security.protocol.map"]))
    if "listener.security.protocol.map" in known:
        return protocols
    names = _controller_listener_names(values)
    bound = [entry.partition("://")[0].strip().upper() for entry in
             str(values["listeners"]).split(",")]  # fmt: skip
    if any(name in SECURITY_PROTOCOLS[1:] for name in (*names, *bound)):
        return protocols
    return {**dict.fromkeys(names, SECURITY_PROTOCOLS[0]), **protocols}


def _advertised(
    values: Mapping[str, ConfigValue],
    protocols: Mapping[str, str],
    names: Collection[str],
    bound: Collection[Endpoint],
) -> tuple[Endpoint, ...]:
    """The advertised listeners, by default the bound ones.

    Source: Kafka 3.9.1 ``KafkaConfig.effectiveAdvertisedControllerListeners``.
    """
    text = values["advertised.listeners"]
    configured = (
        ()
        if text is None
        else parse_endpoints("advertised.listeners", str(text), protocols, distinct_ports=False)
    )
    by_name = {listener.listener_name: listener for listener in configured}
    inherited = {
        listener.listener_name: replace(listener, host="")
        if listener.host == UNROUTABLE_HOST
        else listener
        for listener in bound
    }
    found = (by_name.get(name) or inherited.get(name) for name in names)
    return tuple(listener for listener in found if listener is not None)


def _quorum_of(values: Mapping[str, ConfigValue]) -> QuorumConfig:
    return QuorumConfig(
        election_timeout_ms=_integer(values, "controller.quorum.election.timeout.ms"),
        fetch_timeout_ms=_integer(values, "controller.quorum.fetch.timeout.ms"),
        election_backoff_max_ms=_integer(values, "controller.quorum.election.backoff.max.ms"),
        append_linger_ms=_integer(values, "controller.quorum.append.linger.ms"),
        request_timeout_ms=_integer(values, "controller.quorum.request.timeout.ms"),
        retry_backoff_ms=_integer(values, "controller.quorum.retry.backoff.ms"),
    )


def _metadata_log_of(values: Mapping[str, ConfigValue]) -> MetadataLogConfig:
    return MetadataLogConfig(
        segment_bytes=_integer(values, "metadata.log.segment.bytes"),
        segment_min_bytes=_integer(values, "metadata.log.segment.min.bytes"),
        segment_ms=_integer(values, "metadata.log.segment.ms"),
        retention_max_bytes=_integer(values, "metadata.max.retention.bytes"),
        retention_ms=_integer(values, "metadata.max.retention.ms"),
    )


def _snapshots_of(values: Mapping[str, ConfigValue]) -> SnapshotConfig:
    return SnapshotConfig(
        _integer(values, "metadata.log.max.record.bytes.between.snapshots"),
        _integer(values, "metadata.log.max.snapshot.interval.ms"),
    )


def _check(
    config: ControllerServerConfig, every: Collection[Endpoint], protocols: Mapping[str, str]
) -> None:
    """Checks the rules that involve more than one key, in Kafka's order."""
    voter_ids = ",".join(map(str, config.voters.ids))

    def require(is_met: bool, key: str, value: object, allowed: str) -> None:
        if not is_met:
            raise ConfigInvalid(key, value, allowed)

    require(
        bool(config.voters.endpoints) or bool(config.bootstrap_servers),
        "controller.quorum.voters",
        "",
        "the set of controllers, or controller.quorum.bootstrap.servers the bootstrap controllers: "
        "process.roles is set",
    )
    require(
        config.values["control.plane.listener.name"] is None,
        "control.plane.listener.name",
        config.values["control.plane.listener.name"],
        "no value: it is not supported in KRaft mode",
    )
    names = ",".join(config.controller_listener_names)
    if not config.is_controller:
        require(
            config.node_id not in config.voters,
            "node.id",
            config.node_id,
            "not one of controller.quorum.voters: process.roles contains just the broker role",
        )
        require(bool(names), "controller.listener.names", "", "at least one value")
        require(
            not config.listeners,
            "controller.listener.names",
            names,
            "no value appearing in listeners: process.roles contains just the broker role",
        )
        require(
            all(name in protocols for name in config.controller_listener_names),
            "controller.listener.names",
            names,
            f"names out of listener.security.protocol.map: {', '.join(protocols)}",
        )
        return
    if config.is_only_controller:
        require(
            len(config.listeners) == len(every),
            "listeners",
            ",".join(listener.listener_name for listener in every),
            "only controller.listener.names: process.roles is controller",
        )
    require(
        not config.voters.endpoints or config.node_id in config.voters,
        "node.id",
        config.node_id,
        f"one of controller.quorum.voters ({voter_ids}): process.roles contains controller",
    )
    bound_names = [listener.listener_name for listener in config.listeners]
    require(
        bool(names) and all(name in bound_names for name in config.controller_listener_names),
        "controller.listener.names",
        names,
        "at least one value, and only values appearing in listeners",
    )
    require(
        all(listener.host != UNROUTABLE_HOST for listener in config.advertised),
        "advertised.listeners",
        config.values["advertised.listeners"],
        "addresses that others can route to; 0.0.0.0 means nothing to them",
    )
    early = str(config.values["early.start.listeners"] or "")
    known = {*(listener.listener_name for listener in every), *config.controller_listener_names}
    require(
        # A controller starts all of its listeners early, whether they are named here or not.
        all(name.strip().upper() in known for name in early.split(",") if name.strip()),
        "early.start.listeners",
        early,
        "names out of listeners or controller.listener.names",
    )
