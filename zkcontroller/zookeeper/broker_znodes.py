"""Znodes under ``/brokers/ids``: the live brokers and their endpoints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from kafka_common.model import SECURITY_PROTOCOLS, Broker, Endpoint
from zkcontroller.zookeeper.scala_order import immutable_map_order, java_hash_map_order
from zkcontroller.zookeeper.znode_json import (
    INT16_MAX,
    JsonFields,
    json_object,
    json_string,
    shown,
)

_MAX_PORT: Final = 65535


class BrokerIdsZnode:
    """``/brokers/ids``: its children are the live brokers."""

    PATH: Final = "/brokers/ids"


class BrokerSequenceIdZnode:
    """``/brokers/seqid``: the zk_version after a write of empty data is a new broker id."""

    PATH: Final = "/brokers/seqid"


_ENDPOINT: Final = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]{1,10})")


class BrokerIdZnode(Struct, frozen=True):
    """``/brokers/ids/<id>``, JSON version 5, ephemeral: a broker's endpoints; the broker writes it.

    The version to write, 5, 4 or 2, follows from ``inter.broker.protocol.version``.  Versions 1 to
    5 are read.
    """

    broker: Broker
    timestamp_ms: int
    jmx_port: int = -1
    version: int = 5

    @staticmethod
    def path(broker_id: int) -> str:
        return f"/brokers/ids/{broker_id}"

    def encode(self) -> bytes:
        # Old clients read only ``host`` and ``port``: the first PLAINTEXT endpoint of any listener.
        plaintext = next(
            (e for e in self.broker.endpoints if e.security_protocol == "PLAINTEXT"), None
        )
        pairs: list[tuple[str, bytes]] = []
        if self.version >= 5:
            pairs.append(("features", _encode_supported_features(self.broker.features)))
        if self.version >= 4:
            pairs.append(("listener_security_protocol_map", self._encode_protocol_map()))
        connections = [
            json_string(f"{each.listener_name}://{each.address}") for each in self.broker.endpoints
        ]
        pairs.append(("endpoints", b"[%s]" % b",".join(connections)))
        if self.broker.rack is not None and self.version >= 3:
            pairs.append(("rack", json_string(self.broker.rack)))
        pairs += [
            ("jmx_port", b"%d" % self.jmx_port),
            ("port", b"-1" if plaintext is None else b"%d" % plaintext.port),
            ("host", b"null" if plaintext is None else json_string(plaintext.host)),
            ("version", b"%d" % self.version),
            ("timestamp", b'"%d"' % self.timestamp_ms),
        ]
        return json_object(pairs)

    def _encode_protocol_map(self) -> bytes:
        protocols = {e.listener_name: e.security_protocol for e in self.broker.endpoints}
        names = immutable_map_order(list(protocols))
        return json_object((name, json_string(protocols[name])) for name in names)

    @classmethod
    def decode(cls, broker_id: int, data: bytes) -> BrokerIdZnode:
        path = cls.path(broker_id)
        fields = JsonFields.parse(path, data)
        version = fields.integer("version", minimum=1)
        endpoints: tuple[Endpoint, ...]
        if version == 1:
            port = fields.integer("port", minimum=-1, maximum=_MAX_PORT)
            endpoints = (Endpoint(fields.text("host"), port, "PLAINTEXT", "PLAINTEXT"),)
        else:
            endpoints = _decode_endpoints(fields)
        rack = fields.text("rack") if fields.has("rack") else None
        features = _decode_supported_features(fields)
        return cls(
            broker=Broker(broker_id, endpoints, rack, features),
            # Kafka never reads the timestamp, so a znode without it is valid.
            timestamp_ms=fields.long_text("timestamp", -1) if fields.has("timestamp") else -1,
            jmx_port=fields.integer("jmx_port", minimum=-1),
            version=version,
        )


def _decode_endpoints(fields: JsonFields) -> tuple[Endpoint, ...]:
    protocols = {name: name for name in SECURITY_PROTOCOLS}
    if fields.has("listener_security_protocol_map"):
        named = fields.object("listener_security_protocol_map")
        protocols = {listener: named.text(listener).upper() for listener in named}
    endpoints: list[Endpoint] = []
    for entry in fields.array("endpoints"):
        match = _ENDPOINT.fullmatch(entry) if type(entry) is str else None
        if match is None or not -1 <= int(match[3]) <= _MAX_PORT:
            raise fields.corrupt(f"not an endpoint: {shown(entry)}")
        listener = match[1].upper()
        protocol = protocols.get(listener)
        if protocol not in SECURITY_PROTOCOLS:
            raise fields.corrupt(f"no security protocol is known for listener {listener}")
        if any(e.listener_name == listener for e in endpoints):
            raise fields.corrupt(f"listener {listener} stands there twice")
        endpoints.append(Endpoint(match[2], int(match[3]), listener, protocol))
    if not endpoints:
        raise fields.corrupt("no endpoints")
    return tuple(endpoints)


def _encode_supported_features(features: Mapping[str, tuple[int, int]]) -> bytes:
    names = java_hash_map_order(list(features))
    return json_object(
        (name, b'{"min_version":%d,"max_version":%d}' % features[name]) for name in names
    )


def _decode_supported_features(fields: JsonFields) -> dict[str, tuple[int, int]]:
    if not fields.has("features"):
        return {}
    named = fields.object("features")
    features: dict[str, tuple[int, int]] = {}
    for name in named:
        versions = named.object(name)
        first = versions.integer("min_version", 0, INT16_MAX)
        features[name] = (first, versions.integer("max_version", first, INT16_MAX))
    return features
