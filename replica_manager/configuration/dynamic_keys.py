"""The broker keys that may change while brokers run, for all brokers or for one.

A TLS or SASL key without a listener prefix may be set for one broker, as in Kafka.  It applies to
listeners that are added after that.

Source: Kafka 3.9.1 ``DynamicBrokerConfig`` (``AllDynamicConfigs``, ``PerBrokerConfigs``),
``QuotaConfigs.brokerQuotaConfigs``, ``BrokerDynamicThreadPool``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from replica_manager.configuration.config_keys import ConfigKey, read_table


def _names(table: str) -> frozenset[str]:
    return frozenset(table.split())


CLUSTER_WIDE: Final = _names("""
    background.threads compression.gzip.level compression.lz4.level compression.type
    compression.zstd.level log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size
    log.cleaner.delete.retention.ms log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size
    log.cleaner.io.max.bytes.per.second log.cleaner.max.compaction.lag.ms
    log.cleaner.min.cleanable.ratio log.cleaner.min.compaction.lag.ms log.cleaner.threads
    log.cleanup.policy log.flush.interval.messages log.flush.interval.ms log.index.interval.bytes
    log.index.size.max.bytes log.local.retention.bytes log.local.retention.ms
    log.message.downconversion.enable log.message.timestamp.after.max.ms
    log.message.timestamp.before.max.ms log.message.timestamp.difference.max.ms
    log.message.timestamp.type log.preallocate log.retention.bytes log.retention.ms
    log.roll.jitter.ms log.roll.ms log.segment.bytes log.segment.delete.delay.ms
    max.connection.creation.rate max.connections max.connections.per.ip
    max.connections.per.ip.overrides message.max.bytes metric.reporters min.insync.replicas
    num.io.threads num.network.threads num.recovery.threads.per.data.dir num.replica.fetchers
    producer.id.expiration.ms remote.fetch.max.wait.ms remote.log.index.file.cache.total.size.bytes
    remote.log.manager.copy.max.bytes.per.second remote.log.manager.fetch.max.bytes.per.second
    transaction.partition.verification.enable unclean.leader.election.enable
""")
"""Keys that may be set for all brokers, or for one broker."""

STORE_KEYS: Final = _names("""
    ssl.key.password ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location
    ssl.keystore.password ssl.keystore.type ssl.truststore.certificates ssl.truststore.location
    ssl.truststore.password ssl.truststore.type
""")
"""Keys of key stores and trust stores, which are replaced while the broker runs, per listener."""

_LISTENERS: Final = _names("""
    advertised.listeners listener.security.protocol.map listeners principal.builder.class
    sasl.enabled.mechanisms sasl.jaas.config sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin sasl.kerberos.principal.to.local.rules
    sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter sasl.mechanism.inter.broker.protocol ssl.cipher.suites
    ssl.client.auth ssl.enabled.protocols ssl.endpoint.identification.algorithm
    ssl.engine.factory.class ssl.keymanager.algorithm ssl.protocol ssl.provider
    ssl.secure.random.implementation ssl.trustmanager.algorithm
""")

DYNAMIC_IN_KAFKA: Final = CLUSTER_WIDE | STORE_KEYS | _LISTENERS
"""Keys that DescribeConfigs does not mark as read-only."""

CHANGEABLE: Final = CLUSTER_WIDE | _LISTENERS
"""Keys that can be set without a listener prefix while the broker runs."""

LISTENER_KEYS: Final = STORE_KEYS | frozenset(
    ("max.connections", "max.connection.creation.rate", "num.network.threads")
)
"""Keys that can be set with the prefix of an existing listener while the broker runs."""

QUOTA_KEYS: Final[Mapping[str, ConfigKey]] = read_table("""
follower.replication.throttled.rate long max 0..
leader.replication.throttled.rate long max 0..
replica.alter.log.dirs.io.max.bytes.per.second long max 0..
""")
"""Broker keys that exist only as dynamic keys, not in ``server.properties``."""

THREAD_POOLS: Final = (
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)
"""Keys whose value may change by a factor of two at most."""

_IN_SEVERAL_UNITS: Final = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)

SAME_SETTING: Final[Mapping[str, tuple[str, ...]]] = {
    **{name: names for names in _IN_SEVERAL_UNITS for name in names},
    # Not symmetric: log.flush.scheduler.interval.ms is a setting of its own.
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
}
"""Key to all keys of the same setting, in order of precedence.

A dynamic key replaces all of them, also in the file.
"""

_CLUSTER_WIDE_OF_LISTENERS: Final = LISTENER_KEYS - STORE_KEYS
_LISTENER_KEY: Final = re.compile(r"listener\.name\.[^.]*\.(.*)")


def is_security_key(name: str) -> bool:
    """Whether the dynamic key needs the prefix ``listener.name.<listener>.``."""
    return name in STORE_KEYS


def base_name(name: str) -> str | None:
    """The key in ``listener.name.<listener>.<key>``; None for a name without that prefix."""
    match = _LISTENER_KEY.fullmatch(name)
    return match and match[1]


def is_per_broker(name: str) -> bool:
    """Whether the dynamic key can be set for one broker only, not for all brokers."""
    base = base_name(name)
    if base is not None:
        return base not in _CLUSTER_WIDE_OF_LISTENERS
    return name in STORE_KEYS or name in _LISTENERS
