"""The configuration of one log: the topic's keys, and those inherited from the broker.

Source: Kafka ``LogConfig``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kafka_common.protocol.compression import CODECS_BY_NAME, Codec
from replica_manager.configuration.config_keys import ConfigValue
from replica_manager.configuration.topic_keys import (
    MESSAGE_FORMAT,
    TOPIC_KEYS,
    inherited_value,
    is_message_format_used,
)

MAX_LONG: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LogConfig:
    """A topic's configuration, by default Kafka's; times in milliseconds, sizes in bytes."""

    segment_bytes: int = 1024**3
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    index_bytes: int = 10 * 1024**2
    index_interval_bytes: int = 4096
    flush_messages: int = MAX_LONG
    flush_ms: int = MAX_LONG
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    max_message_bytes: int = 1_048_588
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = MAX_LONG
    min_cleanable_dirty_ratio: float = 0.5
    is_compacted: bool = False
    is_deleted: bool = True
    """Whether ``cleanup.policy`` has ``delete``."""
    is_log_append_time: bool = False
    timestamp_before_max_ms: int = MAX_LONG
    timestamp_after_max_ms: int = MAX_LONG
    codec: Codec | None = None
    """The codec of appended batches; None keeps the producer's codec."""
    compression_level: int | None = None
    min_in_sync_replicas: int = 1
    allows_unclean_election: bool = False
    allows_down_conversion: bool = True
    """``message.downconversion.enable``: converts records to the format of old consumers."""
    overrides: str = field(default="{}", compare=False)
    """The topic's own keys as text for the log, from :func:`shown_overrides`."""

    @property
    def max_segment_ms(self) -> int:
        """After how long a segment is rolled: its records cannot be compacted before (KIP-354)."""
        if self.is_compacted and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms

    @property
    def most_jitter_ms(self) -> int:
        """By how much earlier a segment is rolled at most, so that not all are rolled at once."""
        return min(self.segment_jitter_ms, self.segment_ms)

    @staticmethod
    def of(topic: Mapping[str, ConfigValue], broker: Mapping[str, ConfigValue]) -> LogConfig:
        """The configuration of a topic with its own values, and the broker's for all other keys."""

        def value(key: str) -> ConfigValue:
            return topic[key] if key in topic else inherited_value(key, broker)

        def number(key: str) -> int:
            found = value(key)
            assert isinstance(found, int), key
            return found

        ratio = value("min.cleanable.dirty.ratio")
        assert isinstance(ratio, float), "a double"
        policies = value("cleanup.policy")
        assert isinstance(policies, tuple), "a list"
        compression = str(value("compression.type"))
        codec = None if compression == "producer" else CODECS_BY_NAME[compression]
        level_key = "" if codec is None else f"compression.{codec.name.lower()}.level"
        # The deprecated key is used only where the new key has its default.
        difference = number("message.timestamp.difference.max.ms")
        before, after = (
            number(key) if number(key) != MAX_LONG else difference
            for key in ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")
        )
        return LogConfig(
            segment_bytes=number("segment.bytes"),
            segment_ms=number("segment.ms"),
            segment_jitter_ms=number("segment.jitter.ms"),
            index_bytes=number("segment.index.bytes"),
            index_interval_bytes=number("index.interval.bytes"),
            flush_messages=number("flush.messages"),
            flush_ms=number("flush.ms"),
            retention_bytes=number("retention.bytes"),
            retention_ms=number("retention.ms"),
            max_message_bytes=number("max.message.bytes"),
            delete_retention_ms=number("delete.retention.ms"),
            file_delete_delay_ms=number("file.delete.delay.ms"),
            min_compaction_lag_ms=number("min.compaction.lag.ms"),
            max_compaction_lag_ms=number("max.compaction.lag.ms"),
            min_cleanable_dirty_ratio=ratio,
            is_compacted="compact" in policies,
            is_deleted="delete" in policies,
            is_log_append_time=value("message.timestamp.type") == "LogAppendTime",
            timestamp_before_max_ms=before,
            timestamp_after_max_ms=after,
            codec=codec,
            compression_level=number(level_key) if level_key in TOPIC_KEYS else None,
            min_in_sync_replicas=number("min.insync.replicas"),
            allows_unclean_election=bool(value("unclean.leader.election.enable")),
            allows_down_conversion=bool(value("message.downconversion.enable")),
        )


def shown_overrides(own: Mapping[str, str], broker: Mapping[str, ConfigValue]) -> str:
    """A topic's own keys as text for the log, with the values from ZooKeeper; "{}" if none.

    Source: Kafka ``LogConfig.overriddenConfigsAsLoggableString``.
    """
    shown = []
    for key in sorted(own):
        definition = TOPIC_KEYS.get(key)
        if definition is None:
            shown.append(f"{key}=(redacted)")
        elif key != MESSAGE_FORMAT or is_message_format_used(broker):
            text = f'"{own[key]}"' if definition.type_name == "string" else own[key]
            shown.append(f"{key}={text}")
    return f"{{{', '.join(shown)}}}"
