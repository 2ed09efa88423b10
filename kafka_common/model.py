"""The vocabulary that controller and brokers share: values, no behaviour beyond their fields.

Values made once per partition are ``NamedTuple`` (half a microsecond each); the others are frozen
structs.  Sentinels carry Kafka's own names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from msgspec import Struct, field
from typing_extensions import override

NO_LEADER: Final = -1
"""No replica may lead the partition (``LeaderAndIsr.NoLeader``)."""

LEADER_DURING_DELETE: Final = -2
"""In UpdateMetadata: the topic is being deleted (``LeaderAndIsr.LeaderDuringDelete``)."""

EPOCH_DURING_DELETE: Final = -2
"""In StopReplica: the broker skips the leader-epoch check (``LeaderAndIsr.EpochDuringDelete``)."""

NO_EPOCH: Final = -1
"""Leader epoch unknown (``LeaderAndIsr.NoEpoch``)."""

INITIAL_LEADER_EPOCH: Final = 0
UNKNOWN_BROKER_EPOCH: Final = -1

INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)
"""The topics in which Kafka keeps its own state."""

RECOVERED: Final = 0
RECOVERING: Final = 1
"""The ``leader_recovery_state`` after an unclean election (KIP-704)."""
LEADER_RECOVERY_STATES: Final = ("RECOVERED", "RECOVERING")
"""The names of these states."""

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""The names of Kafka's ``SecurityProtocol``, each at its number."""


class TopicPartition(NamedTuple):
    """A partition of a topic; prints as Kafka prints it, ``orders-3``."""

    topic: str
    partition: int

    @override
    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class LeaderAndIsr(NamedTuple):
    """Leader, ISR and epochs of a partition: the content and zk_version of its state znode.

    Source: Kafka ``LeaderIsrAndControllerEpoch``.
    """

    leader: int
    leader_epoch: int
    in_sync_replicas: tuple[int, ...]
    zk_version: int
    """dataVersion of the state znode, ``partition_epoch`` on the wire."""
    controller_epoch: int
    """Epoch of the controller that wrote this state; it may be older than the current one."""
    leader_recovery_state: int = RECOVERED


class ReplicaAssignment(NamedTuple):
    """The brokers that hold a partition's replicas, the preferred leader first.

    ``replicas`` includes the adding and removing replicas.  Source: Kafka ``ReplicaAssignment``.
    """

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()

    @property
    def is_being_reassigned(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def origin_replicas(self) -> tuple[int, ...]:
        """Replicas before the current reassignment."""
        return tuple(r for r in self.replicas if r not in self.adding_replicas)

    @property
    def target_replicas(self) -> tuple[int, ...]:
        """Replicas after the current reassignment."""
        return tuple(r for r in self.replicas if r not in self.removing_replicas)

    def reassign_to(self, target: Sequence[int]) -> ReplicaAssignment:
        """The assignment during a reassignment to ``target``, which replaces an unfinished one.

        Target replicas come first.  If a reassignment is cancelled, the old order of replicas that
        are in both lists is therefore lost.
        """
        origin = self.origin_replicas
        full = tuple(dict.fromkeys((*target, *origin)))
        before, after = frozenset(origin), frozenset(target)
        return ReplicaAssignment(
            full,
            tuple(broker for broker in full if broker not in before),
            tuple(broker for broker in full if broker not in after),
        )


def address_text(host: str, port: int) -> str:
    """``host:port``, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Endpoint(Struct, frozen=True):
    """One listener of a broker as clients reach it."""

    host: str
    port: int
    listener_name: str
    security_protocol: str
    """``PLAINTEXT``, ``SSL``, ``SASL_PLAINTEXT`` or ``SASL_SSL``."""

    @property
    def address(self) -> str:
        """``host:port``, an IPv6 host in brackets."""
        return address_text(self.host, self.port)


class Broker(Struct, frozen=True):
    """A live broker: the content of ``/brokers/ids/<id>``.

    The broker epoch, which is the znode's czxid, is stored elsewhere.
    """

    broker_id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Supported features: name to (min_version, max_version)."""

    def endpoint(self, listener_name: str) -> Endpoint | None:
        """The endpoint of that listener, None if the broker does not have it."""
        return next((e for e in self.endpoints if e.listener_name == listener_name), None)


class ConfigResourceType(IntEnum):
    """The type of a configuration resource, with Kafka's numbers (``ConfigResource.Type``)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16


class ConfigSource(IntEnum):
    """The source of a key's value, with Kafka's numbers (``ConfigEntry.ConfigSource``)."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7


class ElectionType(IntEnum):
    """``election_type`` of ElectLeaders (KIP-460)."""

    PREFERRED = 0
    UNCLEAN = 1


class OpType(IntEnum):
    """What IncrementalAlterConfigs does to a key (``AlterConfigOp.OpType``)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3
