"""The configuration of a topic: its keys, the broker keys they inherit from, and validation.

Source: Kafka 3.9.1 ``LogConfig`` and ``ServerTopicConfigSynonyms``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka_common.errors import MESSAGE_ONLY, ConfigException, ConfigInvalid, ZkControllerError
from kafka_common.protocol.inter_broker_versions import CONFIG_KEY, version_of
from replica_manager.configuration.config_keys import ConfigValue
from replica_manager.configuration.key_effects import read_rows

TOPIC_KEYS, TOPIC_EFFECTS = read_rows("""
cleanup.policy list delete in compact|delete | effective log.log_config
compression.gzip.level int -1 gzip_level | effective log.log_config
compression.lz4.level int 9 1..17 | effective log.log_config
compression.type string producer in uncompressed|zstd|lz4|snappy|gzip|producer | effective log.log_config
compression.zstd.level int 3 -131072..22 | effective log.log_config
delete.retention.ms long 86400000 0.. | effective log.log_config
file.delete.delay.ms long 60000 0.. | effective log.log_config
flush.messages long max 1.. | effective log.log_config
flush.ms long max 0.. | effective log.log_config
follower.replication.throttled.replicas list "" throttled_replicas | effective replication.throttle
index.interval.bytes int 4096 0.. | effective log.log_config
leader.replication.throttled.replicas list "" throttled_replicas | effective replication.throttle
local.retention.bytes long -2 -2.. | warned there is no tiered storage
local.retention.ms long -2 -2.. | warned there is no tiered storage
max.compaction.lag.ms long max 1.. | effective log.log_config
max.message.bytes int 1048588 0.. | effective log.log_config
message.downconversion.enable boolean true | effective log.log_config
message.format.version string 3.0-IV1 version | warned since 3.0 Kafka does not heed it either; below, 0.11 or newer
message.timestamp.after.max.ms long max 0.. | effective log.log_config
message.timestamp.before.max.ms long max 0.. | effective log.log_config
message.timestamp.difference.max.ms long max 0.. | effective log.log_config
message.timestamp.type string CreateTime in CreateTime|LogAppendTime | effective log.log_config
min.cleanable.dirty.ratio double 0.5 0..1 | effective log.log_config
min.compaction.lag.ms long 0 0.. | effective log.log_config
min.insync.replicas int 1 1.. | effective log.log_config
preallocate boolean false | warned files grow as they are written
remote.log.copy.disable boolean false | refused false: Kafka refuses it on a cluster with ZooKeeper
remote.log.delete.on.disable boolean false | refused false: Kafka refuses it on a cluster with ZooKeeper
remote.storage.enable boolean false | refused false: tiered storage is not there
retention.bytes long -1 | effective log.log_config
retention.ms long 604800000 -1.. | effective log.log_config
segment.bytes int 1073741824 14.. | effective log.log_config
segment.index.bytes int 10485760 4.. | effective log.log_config
segment.jitter.ms long 0 0.. | effective log.log_config
segment.ms long 604800000 1.. | effective log.log_config
unclean.leader.election.enable boolean false | effective log.log_config
""")  # noqa: E501 - one row a key

BROKER_SYNONYMS: Final[Mapping[str, tuple[tuple[str, int], ...]]] = {
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", 3_600_000)),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", 3_600_000)),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "retention.bytes": (("log.retention.bytes", 1),),
    "retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", 60_000),
        ("log.retention.hours", 3_600_000),
    ),
    "max.message.bytes": (("message.max.bytes", 1),),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
    "min.insync.replicas": (("min.insync.replicas", 1),),
    "compression.type": (("compression.type", 1),),
    "compression.gzip.level": (("compression.gzip.level", 1),),
    "compression.lz4.level": (("compression.lz4.level", 1),),
    "compression.zstd.level": (("compression.zstd.level", 1),),
    "preallocate": (("log.preallocate", 1),),
    "message.format.version": (("log.message.format.version", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "message.timestamp.difference.max.ms": (("log.message.timestamp.difference.max.ms", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
    "message.downconversion.enable": (("log.message.downconversion.enable", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
}
"""Topic key to the broker keys that it inherits from, in order of precedence.

The number is the broker key's unit in the unit of the topic key: hours are 3,600,000 ms.
"""

MESSAGE_FORMAT: Final = "message.format.version"
REMOTE_STORAGE: Final = "remote.storage.enable"
_NO_TIERED_STORAGE: Final = (
    "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with "
    "remote log storage."
)

_NOT_WITH_ZOOKEEPER: Final = ("remote.log.copy.disable", "remote.log.delete.on.disable")


class TopicConfigRefused(ZkControllerError):
    """A topic's configuration has an unknown key, an invalid value or a contradiction."""


def validate_topic_config(
    config: Mapping[str, str], broker_values: Mapping[str, ConfigValue]
) -> dict[str, ConfigValue]:
    """The typed values of a topic's own keys; TopicConfigRefused if they are not valid.

    Refuses the keys of tiered storage, as Kafka does in ZooKeeper mode without remote storage.
    """
    for name in config:
        if name not in TOPIC_KEYS:
            raise TopicConfigRefused(f"Unknown topic config name: {name}")
    try:
        values = {name: TOPIC_KEYS[name].parse(text) for name, text in config.items()}
        if MESSAGE_FORMAT in values:
            check_message_format(MESSAGE_FORMAT, values[MESSAGE_FORMAT], broker_values)
        if values.get(REMOTE_STORAGE):
            raise ConfigException(REMOTE_STORAGE, True, _NO_TIERED_STORAGE, MESSAGE_ONLY)
    except ConfigInvalid as invalid:
        raise TopicConfigRefused(str(invalid)) from invalid
    effective = {
        name: values[name] if name in values else inherited_value(name, broker_values)
        for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    }
    low, high = effective["min.compaction.lag.ms"], effective["max.compaction.lag.ms"]
    assert isinstance(low, int)
    assert isinstance(high, int)
    if low > high:
        raise TopicConfigRefused(
            "conflict topic config setting "
            f"min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
        )
    if any(map(values.get, _NOT_WITH_ZOOKEEPER)):
        raise TopicConfigRefused(
            "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` "
            "under Zookeeper's mode."
        )
    return values


def inherited_value(topic_key: str, broker_values: Mapping[str, ConfigValue]) -> ConfigValue:
    """The broker's value of ``topic_key``, for a topic without a value of its own."""
    synonyms = BROKER_SYNONYMS.get(topic_key)
    if synonyms is None:
        return TOPIC_KEYS[topic_key].default
    for broker_key, unit in synonyms:
        value = broker_values.get(broker_key)
        if value is not None:
            is_scaled = unit != 1 and isinstance(value, int) and value > 0
            return value * unit if is_scaled and isinstance(value, int) else value
    return TOPIC_KEYS[topic_key].default


def check_message_format(
    key: str, message_format: ConfigValue, broker_values: Mapping[str, ConfigValue]
) -> None:
    """Raises ConfigInvalid for a message format that needs records of magic 0 or 1."""
    is_old = not version_of(str(message_format)).is_at_least("0.11.0-IV0")
    if is_old and is_message_format_used(broker_values):
        raise ConfigInvalid(
            key,
            message_format,
            f"0.11.0 or newer below {CONFIG_KEY} 3.0: older record formats are not written",
        )


def is_message_format_used(broker_values: Mapping[str, ConfigValue]) -> bool:
    """Whether ``message.format.version`` has an effect: only before inter-broker protocol 3.0."""
    return not version_of(str(broker_values[CONFIG_KEY])).is_at_least("3.0-IV1")
