"""``inter.broker.protocol.version``: the message versions that brokers use among each other.

Every value that Kafka 3.9 knows is in one ordered table.  Request versions, znode versions and
features follow from comparing a value with rows of it.  Source: Kafka ``MetadataVersion``,
``AbstractControllerBrokerRequestBatch``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import total_ordering
from typing import Final

from kafka_common.errors import ConfigInvalid

CONFIG_KEY: Final = "inter.broker.protocol.version"

# One row per release, with its internal versions; "" if the release has only one, without a name.
_RELEASES: Final = (
    ("0.8.0", ("",)),
    ("0.8.1", ("",)),
    ("0.8.2", ("",)),
    ("0.9.0", ("",)),
    ("0.10.0", ("IV0", "IV1")),
    ("0.10.1", ("IV0", "IV1", "IV2")),
    ("0.10.2", ("IV0",)),
    ("0.11.0", ("IV0", "IV1", "IV2")),
    ("1.0", ("IV0",)),
    ("1.1", ("IV0",)),
    ("2.0", ("IV0", "IV1")),
    ("2.1", ("IV0", "IV1", "IV2")),
    ("2.2", ("IV0", "IV1")),
    ("2.3", ("IV0", "IV1")),
    ("2.4", ("IV0", "IV1")),
    ("2.5", ("IV0",)),
    ("2.6", ("IV0",)),
    ("2.7", ("IV0", "IV1", "IV2")),
    ("2.8", ("IV0", "IV1")),
    ("3.0", ("IV0", "IV1")),
    ("3.1", ("IV0",)),
    ("3.2", ("IV0",)),
    ("3.3", ("IV0", "IV1", "IV2", "IV3")),
    ("3.4", ("IV0",)),
    ("3.5", ("IV0", "IV1", "IV2")),
    ("3.6", ("IV0", "IV1", "IV2")),
    ("3.7", ("IV0", "IV1", "IV2", "IV3", "IV4")),
    ("3.8", ("IV0",)),
    ("3.9", ("IV0",)),
)


@total_ordering
@dataclass(frozen=True, slots=True)
class InterBrokerVersion:
    """One value of ``inter.broker.protocol.version``, ordered by age.

    ``version >= version_of("2.8-IV1")`` compares two of them.
    """

    order: int
    name: str = field(compare=False)
    """The name that Kafka prints, such as ``3.9-IV0``."""

    def __lt__(self, other: InterBrokerVersion) -> bool:
        return self.order < other.order

    def is_at_least(self, name: str) -> bool:
        """Whether this is the version called ``name`` or a later one."""
        return self >= version_of(name)


def _full_names() -> list[str]:
    return [
        f"{release}-{internal}" if internal else release
        for release, internals in _RELEASES
        for internal in internals
    ]


VERSIONS: Final = tuple(InterBrokerVersion(i, name) for i, name in enumerate(_full_names()))
"""Every version, oldest first."""

LATEST: Final = VERSIONS[-1]
"""Kafka 3.9's default."""

_BY_NAME: Final = {version.name: version for version in VERSIONS}
# A name without an internal version ("3.7") means the last internal version of that release.
_BY_NAME.update({version.name.partition("-")[0]: version for version in VERSIONS})


def version_of(name: str) -> InterBrokerVersion:
    """The version with that name: ``3.9``, ``2.7-IV2``, ``0.10.0.1``.

    Digits behind the release are ignored, as Kafka does ("1.0.1" is 1.0-IV0).  ConfigInvalid if no
    version that Kafka 3.9 knows has that name.
    """
    segments = name.split(".")
    release_segments = 3 if name.startswith("0.") else 2
    found = _BY_NAME.get(".".join(segments[:release_segments]))
    if found is None:
        raise ConfigInvalid(CONFIG_KEY, name, f"one of 0.8.0 to {LATEST.name}")
    return found


def _first_match(version: InterBrokerVersion, table: tuple[tuple[str, int], ...]) -> int:
    return next((value for name, value in table if version.is_at_least(name)), 0)


_LEADER_AND_ISR: Final = (
    ("3.4-IV0", 7),
    ("3.2-IV0", 6),
    ("2.8-IV1", 5),
    ("2.4-IV1", 4),
    ("2.4-IV0", 3),
    ("2.2-IV0", 2),
    ("1.0-IV0", 1),
)
_UPDATE_METADATA: Final = (
    ("3.4-IV0", 8),
    ("2.8-IV1", 7),
    ("2.4-IV1", 6),
    ("2.2-IV0", 5),
    ("1.0-IV0", 4),
    ("0.10.2-IV0", 3),
    ("0.10.0-IV1", 2),
    ("0.9.0", 1),
)
_STOP_REPLICA: Final = (("3.4-IV0", 4), ("2.6-IV0", 3), ("2.4-IV1", 2), ("2.2-IV0", 1))
_CONTROLLED_SHUTDOWN: Final = (("2.4-IV1", 3), ("2.2-IV0", 2), ("0.9.0", 1))
_FETCH: Final = (
    ("3.9-IV0", 17),
    ("3.7-IV4", 16),
    ("3.5-IV1", 15),
    ("3.5-IV0", 14),
    ("3.1-IV0", 13),
    ("2.7-IV1", 12),
    ("2.3-IV1", 11),
    ("2.1-IV2", 10),
    ("2.0-IV1", 8),
    ("1.1-IV0", 7),
    ("0.11.0-IV1", 5),
    ("0.11.0-IV0", 4),
    ("0.10.1-IV1", 3),
    ("0.10.0-IV0", 2),
    ("0.9.0", 1),
)
_LIST_OFFSETS: Final = (
    ("3.9-IV0", 9),
    ("3.5-IV0", 8),
    ("3.0-IV1", 7),
    ("2.8-IV0", 6),
    ("2.2-IV1", 5),
    ("2.1-IV1", 4),
    ("2.0-IV1", 3),
    ("0.11.0-IV0", 2),
    ("0.10.1-IV2", 1),
)
_OFFSETS_FOR_LEADER_EPOCH: Final = (
    ("2.8-IV0", 4),
    ("2.3-IV1", 3),
    ("2.1-IV1", 2),
    ("2.0-IV0", 1),
)
_BROKER_ZNODE: Final = (("2.7-IV0", 5), ("0.10.0-IV1", 4), ("0.8.0", 2))


def leader_and_isr_version(version: InterBrokerVersion) -> int:
    """Version of LeaderAndIsr that the controller sends."""
    return _first_match(version, _LEADER_AND_ISR)


def update_metadata_version(version: InterBrokerVersion) -> int:
    """Version of UpdateMetadata that the controller sends."""
    return _first_match(version, _UPDATE_METADATA)


def stop_replica_version(version: InterBrokerVersion) -> int:
    """Version of StopReplica that the controller sends."""
    return _first_match(version, _STOP_REPLICA)


def controlled_shutdown_version(version: InterBrokerVersion) -> int:
    """Version of ControlledShutdown that a stopping broker sends (Kafka ``KafkaServer``)."""
    return _first_match(version, _CONTROLLED_SHUTDOWN)


def fetch_version(version: InterBrokerVersion) -> int:
    """Version of Fetch that a follower sends if every topic has an id.

    If a topic has none, the follower sends at most version 12.
    """
    return _first_match(version, _FETCH)


def list_offsets_version(version: InterBrokerVersion) -> int:
    """Version of ListOffsets that a follower sends."""
    return _first_match(version, _LIST_OFFSETS)


def offsets_for_leader_epoch_version(version: InterBrokerVersion) -> int:
    """Version of OffsetsForLeaderEpoch that a follower sends."""
    return _first_match(version, _OFFSETS_FOR_LEADER_EPOCH)


def broker_znode_version(version: InterBrokerVersion) -> int:
    """JSON version of ``/brokers/ids/<id>`` (Kafka ``BrokerInfo``)."""
    return _first_match(version, _BROKER_ZNODE)


def feature_znode_version(version: InterBrokerVersion) -> int:
    """JSON version of ``/feature`` (Kafka ``FeatureZNode``)."""
    return 2 if version.is_at_least("3.3-IV0") else 1


def is_log_dir_failure_supported(version: InterBrokerVersion) -> bool:
    """Whether a broker can lose one log directory and serve the others (KIP-112)."""
    return version.is_at_least("1.0-IV0")


def is_feature_versioning_supported(version: InterBrokerVersion) -> bool:
    """Whether ``/feature`` is enabled (KIP-584)."""
    return version.is_at_least("2.7-IV0")


def is_offsets_for_leader_epoch_supported(version: InterBrokerVersion) -> bool:
    """Whether a follower may ask the leader for the end offset of a leader epoch (KIP-101)."""
    return version.is_at_least("0.11.0-IV2")


def is_truncation_on_fetch_supported(version: InterBrokerVersion) -> bool:
    """Whether a Fetch response says where the logs diverge (KIP-595)."""
    return version.is_at_least("2.7-IV1")


def is_alter_partition_supported(version: InterBrokerVersion) -> bool:
    """Whether leaders change an ISR by asking the controller (KIP-497)."""
    return version.is_at_least("2.7-IV2")


def is_topic_id_supported(version: InterBrokerVersion) -> bool:
    """Whether topics get ids (KIP-516)."""
    return version.is_at_least("2.8-IV0")


def is_allocate_producer_ids_supported(version: InterBrokerVersion) -> bool:
    """Whether the controller hands out blocks of producer ids (KIP-730)."""
    return version.is_at_least("3.0-IV0")


def write_txn_markers_version(version: InterBrokerVersion) -> int:
    """The version of WriteTxnMarkers that brokers send one another."""
    return 1 if version.is_at_least("2.8-IV0") else 0


def transaction_verification_version(version: InterBrokerVersion) -> int | None:
    """Version of AddPartitionsToTxn with which a broker verifies a transaction (KIP-890).

    None if a transaction coordinator in the cluster may be too old to verify.
    """
    if not version.is_at_least("3.5-IV0"):
        return None
    return 5 if version.is_at_least("3.8-IV0") else 4


def is_leader_recovery_supported(version: InterBrokerVersion) -> bool:
    """Whether an unclean leader is marked as recovering (KIP-704)."""
    return version.is_at_least("3.2-IV0")
