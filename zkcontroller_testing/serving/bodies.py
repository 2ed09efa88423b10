"""The classes of request bodies, query parameters and responses.

msgspec checks requests with them and writes their schemas into the OpenAPI document.  Names and
defaults are those of :class:`zkcontroller_testing.cluster.KafkaCluster`.  Every number and every
length has an upper limit.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta, Struct

from kafka_common.wall_time import MOST_OFFSET_MS
from zkcontroller_testing.cluster import MOST_BROKERS
from zkcontroller_testing.disks import LEAST_MB, MOST_MB
from zkcontroller_testing.waiting import PATIENCE_S

MOST_WAIT_S: Final = 600
MOST_CONFIGS: Final = 500
MOST_PARTITIONS: Final = 1_000
MOST_ITEMS: Final = 10_000
"""Limit of the records of a produce, of the ledgers of a check and of the entries of a page."""
MOST_DATA_CHARACTERS: Final = 512 * 1024
"""Limit of a znode's data: above 1 MiB ZooKeeper would close the connection."""
_MOST_INT32: Final = 2**31 - 1
_MOST_INT16: Final = 2**15 - 1
_MOST_INT64: Final = 2**63 - 1

BrokerNumber: TypeAlias = Annotated[int, Meta(ge=0, le=_MOST_INT32, description="A broker's id.")]
Number: TypeAlias = Annotated[
    int, Meta(ge=1, le=_MOST_INT32, description="A number from an earlier response.")
]
Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=MOST_WAIT_S, description="Timeout in seconds.")]
Times: TypeAlias = Annotated[
    int, Meta(ge=1, le=_MOST_INT32, description="The most requests that are affected.")
]
TimesOrAll: TypeAlias = Annotated[
    Times | None, Meta(description="The most requests that are affected; null: no limit.")
]
ShortText: TypeAlias = Annotated[str, Meta(min_length=1, max_length=1_000)]
TopicText: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=249, description="A topic's name.")
]
PeerText: TypeAlias = BrokerNumber | Literal["clients", "zookeeper"]
ApiText: TypeAlias = (
    Annotated[str, Meta(min_length=1, max_length=100)] | Annotated[int, Meta(ge=0, le=_MOST_INT16)]
)
ErrorText: TypeAlias = (
    Annotated[str, Meta(min_length=1, max_length=100)] | Annotated[int, Meta(ge=-1, le=_MOST_INT16)]
)
ZnodePath: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^(?!.*/\.{1,2}(/|$))(/[^/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]+)+$",
        max_length=1_000,
        description="A path below the cluster's chroot, such as /brokers/ids/1.",
    ),
]
Configs: TypeAlias = Annotated[
    dict[
        Annotated[str, Meta(min_length=1, max_length=250)], Annotated[str, Meta(max_length=10_000)]
    ],
    Meta(max_length=MOST_CONFIGS),
]


class _Fields(Struct, kw_only=True, forbid_unknown_fields=True):
    """A body, or query parameters."""


class NoFields(_Fields):
    """No fields."""


class WaitFields(_Fields):
    """The timeout of a wait."""

    timeout_s: Seconds = PATIENCE_S


class NewClusterFields(_Fields):
    """The cluster to start."""

    brokers: Annotated[
        int, Meta(ge=1, le=MOST_BROKERS, description="How many brokers; their ids begin at 1.")
    ] = 3
    zookeeper: Annotated[
        ShortText,
        Meta(
            description="shared: one for all clusters of this server, each with its own chroot; "
            "embedded: one for this cluster; container: one in Docker; HOST:PORT/CHROOT: a running "
            "one."
        ),
    ] = "shared"
    listeners: Annotated[
        Literal["plaintext", "tls", "sasl", "sasl_tls", "oauth", "oauth_tls"],
        Meta(description="What clients speak."),
    ] = "plaintext"
    configs: Annotated[Configs, Meta(description="Keys of server.properties for all brokers.")] = {}
    broker_configs: Annotated[
        dict[BrokerNumber, Configs],
        Meta(max_length=MOST_BROKERS, description="Keys of server.properties by broker id."),
    ] = {}
    disks: Annotated[
        dict[BrokerNumber, Annotated[int, Meta(ge=LEAST_MB, le=MOST_MB)]],
        Meta(
            max_length=MOST_BROKERS,
            description="By broker id, the size in MB of a disk for this broker's data alone; "
            "needs root.",
        ),
    ] = {}


class RemovalFields(_Fields):
    """What is kept of a cluster."""

    keep_files: Annotated[bool, Meta(description="Keep the folder, with logs and artefacts.")] = (
        False
    )


class StartFields(_Fields):
    """How to start a broker."""

    wait: Annotated[bool, Meta(description="Wait until it is registered and serves.")] = True


class StopFields(_Fields):
    """How to stop a broker."""

    wait: Annotated[bool, Meta(description="Wait until its process has ended.")] = True
    timeout_s: Seconds = PATIENCE_S


class BounceFields(_Fields):
    """How to bounce a broker."""

    clean: Annotated[bool, Meta(description="By controlled shutdown; false: by SIGKILL.")] = True


class ClockFields(_Fields):
    """The difference of a broker's wall clock from the machine's."""

    ahead_ms: Annotated[
        int,
        Meta(
            ge=-MOST_OFFSET_MS,
            le=MOST_OFFSET_MS,
            description="Milliseconds ahead; negative: behind.",
        ),
    ]


class ApiFields(_Fields):
    """An API: Kafka's name, such as Produce, or its key."""

    api: ApiText


class LostResponseFields(_Fields):
    """The kind of requests to ZooKeeper whose response is lost."""

    operation: Literal["create", "delete", "set", "multi"] = "multi"
    times: Times = 1


class RegisteredFields(_Fields):
    """The brokers that must be registered."""

    broker_ids: Annotated[
        list[BrokerNumber], Meta(max_length=MOST_BROKERS, description="Empty: all brokers.")
    ] = []
    after_epoch: Annotated[
        int, Meta(ge=-1, le=_MOST_INT64, description="Each broker's epoch must be higher.")
    ] = -1
    timeout_s: Seconds = PATIENCE_S


class ControllerFields(_Fields):
    """The controller to wait for."""

    after_epoch: Annotated[
        Annotated[int, Meta(ge=0, le=_MOST_INT32)] | None,
        Meta(description="The controller epoch must be higher; null: any."),
    ] = None
    timeout_s: Seconds = PATIENCE_S


class NewTopicFields(_Fields):
    """The topic to create."""

    name: TopicText
    partitions: Annotated[int, Meta(ge=1, le=MOST_PARTITIONS)] = 1
    replication_factor: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_BROKERS)] | None,
        Meta(description="null: the number of brokers, at most three."),
    ] = None
    configs: Configs = {}
    replicas: Annotated[
        Annotated[
            list[Annotated[list[BrokerNumber], Meta(min_length=1, max_length=MOST_BROKERS)]],
            Meta(min_length=1, max_length=MOST_PARTITIONS),
        ]
        | None,
        Meta(
            description="The brokers of each partition, the preferred leader first; they replace "
            "partitions and replication_factor."
        ),
    ] = None
    timeout_s: Seconds = PATIENCE_S


class LeaderFields(_Fields):
    """The leader to wait for."""

    among: Annotated[
        Annotated[list[BrokerNumber], Meta(min_length=1, max_length=MOST_BROKERS)] | None,
        Meta(description="It must be one of these brokers; null: any."),
    ] = None
    timeout_s: Seconds = PATIENCE_S


class IsrFields(_Fields):
    """The ISR to wait for."""

    brokers: Annotated[
        Annotated[list[BrokerNumber], Meta(min_length=1, max_length=MOST_BROKERS)] | None,
        Meta(description="Exactly these brokers; null: all brokers."),
    ] = None
    timeout_s: Seconds = PATIENCE_S


class CutFields(_Fields):
    """The two between which the network is cut; one is a broker."""

    a: PeerText
    b: PeerText
    one_way: Annotated[bool, Meta(description="Cut only what a sends to b.")] = False
    silent: Annotated[bool, Meta(description="Connections stay open, but lose all data.")] = False


class _RequestFields(_Fields):
    """The requests to which a fault applies."""

    api: Annotated[ApiText, Meta(description="Kafka's name, such as Produce, or its key.")]
    broker: Annotated[BrokerNumber | None, Meta(description="The receiver; null: any.")] = None
    sender: Annotated[
        BrokerNumber | Literal["clients"] | None, Meta(description="The sender; null: any.")
    ] = None
    client_id: Annotated[ShortText | None, Meta(description="null: any.")] = None
    topic: Annotated[TopicText | None, Meta(description="One in the request; null: any.")] = None


class DelayFields(_RequestFields, kw_only=True):
    """The requests to delay, and by how much."""

    delay_ms: Annotated[int, Meta(ge=0, le=MOST_WAIT_S * 1000, description="Milliseconds.")]
    times: TimesOrAll = None


class DropFields(_RequestFields):
    """The requests to lose, or whose response to lose."""

    times: TimesOrAll = 1
    answer: Annotated[
        bool, Meta(description="The broker handles the request; only its response is lost.")
    ] = False


class FailFields(_RequestFields, kw_only=True):
    """The requests that get an error response."""

    error: Annotated[
        ErrorText, Meta(description="Kafka's name, such as NOT_LEADER_OR_FOLLOWER, or its code.")
    ]
    times: TimesOrAll = 1


class VersionsFields(_Fields):
    """The versions of an API to offer; with ``least`` above ``most`` it is not offered at all."""

    api: ApiText
    least: Annotated[int, Meta(ge=0, le=_MOST_INT16)]
    most: Annotated[int, Meta(ge=0, le=_MOST_INT16)]
    broker: Annotated[BrokerNumber | None, Meta(description="null: all brokers.")] = None


class NewHoldFields(_Fields):
    """The hold point at which controllers are held."""

    name: Annotated[ShortText, Meta(description="A hold point, such as controller.before_write.")]
    broker: Annotated[BrokerNumber | None, Meta(description="Only this one; null: any.")] = None


class PathFields(_Fields):
    """The znode."""

    path: ZnodePath


class DataFields(_Fields):
    """The znode and its new data: ``text``, encoded as UTF-8, or ``base64``."""

    path: ZnodePath
    text: Annotated[str, Meta(max_length=MOST_DATA_CHARACTERS)] | None = None
    base64: Annotated[str, Meta(max_length=MOST_DATA_CHARACTERS)] | None = None


class NewLedgerFields(_Fields):
    """The partition to which the ledger writes."""

    topic: TopicText
    partition: Annotated[int, Meta(ge=0, le=_MOST_INT32)] = 0


class ProduceFields(_Fields):
    """How many records to write."""

    count: Annotated[int, Meta(ge=1, le=MOST_ITEMS)] = 1
    timeout_s: Seconds = PATIENCE_S


class LedgersFields(_Fields):
    """The ledgers to compare with the log."""

    ledgers: Annotated[
        list[Number], Meta(max_length=MOST_ITEMS, description="Empty: all ledgers of the cluster.")
    ] = []
    timeout_s: Seconds = PATIENCE_S


class PageFields(_Fields):
    """How many entries of a list."""

    last: Annotated[
        int, Meta(ge=1, le=MOST_ITEMS, description="The newest, at most this many.")
    ] = 1_000


class ServerBody(Struct, frozen=True, kw_only=True):
    """The server's version, its number of clusters, and their limit."""

    version: str
    clusters: int
    most_clusters: int


class ClusterBody(Struct, frozen=True, kw_only=True):
    """The current state of a cluster."""

    cluster: int
    state: Literal["starting", "running", "removing"]
    bootstrap_servers: Annotated[str, Meta(description="host:port,host:port; never changes.")]
    client_config: Annotated[
        dict[str, str], Meta(description="For a librdkafka client: addresses and security.")
    ]
    zookeeper_connect: Annotated[str, Meta(description="The connect string, with the chroot.")]
    directory: Annotated[str, Meta(description="The cluster's folder, for zkctl --dir.")]
    broker_ids: list[int]
    live_brokers: Annotated[list[int], Meta(description="The brokers registered in ZooKeeper.")]
    controller_id: Annotated[int | None, Meta(description="null while there is none.")]
    controller_epoch: int


class ClustersBody(Struct, frozen=True, kw_only=True):
    """The numbers of all clusters."""

    clusters: list[int]


class RemovedBody(Struct, frozen=True, kw_only=True):
    """The cluster's folder if it was kept, else null."""

    directory: str | None


class BrokerBody(Struct, frozen=True, kw_only=True):
    """The current state of a broker."""

    broker_id: int
    is_alive: Annotated[bool, Meta(description="Its process exists, even if it is paused.")]
    pid: Annotated[int | None, Meta(description="Its process id; null while it does not run.")]
    broker_epoch: Annotated[int, Meta(description="-1 while it is not registered.")]
    logs_directory: str


class VersionsBody(Struct, frozen=True, kw_only=True):
    """The versions of an API that clients have used."""

    versions: list[int]


class EpochBody(Struct, frozen=True, kw_only=True):
    """The highest broker epoch among the brokers of the request."""

    broker_epoch: int


class ControllerBody(Struct, frozen=True, kw_only=True):
    """The controller's broker id and its epoch."""

    controller_id: int
    controller_epoch: int


class PartitionBody(Struct, frozen=True, kw_only=True):
    """A partition's state in ZooKeeper."""

    leader: Annotated[int, Meta(description="-1 while there is none.")]
    leader_epoch: int
    isr: list[int]
    controller_epoch: int


class LeaderBody(Struct, frozen=True, kw_only=True):
    """The broker id of a partition's leader."""

    leader: int


class IsrBody(Struct, frozen=True, kw_only=True):
    """A partition's ISR."""

    isr: list[int]


class FaultReport(Struct, frozen=True, kw_only=True):
    """A fault, and how many requests it has affected."""

    fault: int
    action: Literal["delay", "drop_request", "drop_answer", "error"]
    api: str
    count: int


class FaultReports(Struct, frozen=True, kw_only=True):
    """The faults of a cluster."""

    faults: list[FaultReport]


class HoldBody(Struct, frozen=True, kw_only=True):
    """The number of a new hold."""

    hold: int


class HoldPointBody(Struct, frozen=True, kw_only=True):
    """A hold point, and the step of the controller where it is."""

    name: str
    meaning: str


class HoldPointsBody(Struct, frozen=True, kw_only=True):
    """All hold points."""

    hold_points: list[HoldPointBody]


class ReachedBody(Struct, frozen=True, kw_only=True):
    """The controller that is held at a hold point."""

    broker_id: int
    name: str
    detail: Annotated[
        str, Meta(description="What it is about to do: the znodes, the receiver, or the event.")
    ]


class ZnodeBody(Struct, frozen=True, kw_only=True):
    """A znode's data.

    ``text`` and ``base64`` are null if there is no such znode, ``text`` also if it is not UTF-8.
    """

    path: str
    text: str | None
    base64: str | None
    version: Annotated[int | None, Meta(description="How often it was set; null: no such znode.")]


class DeletedBody(Struct, frozen=True, kw_only=True):
    """Whether the znode was deleted."""

    deleted: bool


class WatchBody(Struct, frozen=True, kw_only=True):
    """The number of a new watch."""

    watch: int


class LedgerBody(Struct, frozen=True, kw_only=True):
    """A ledger, and how many of its records were acknowledged."""

    ledger: int
    topic: str
    partition: int
    is_producing: bool
    acknowledged: Annotated[int, Meta(description="The number of acknowledged records.")]


class OffsetsBody(Struct, frozen=True, kw_only=True):
    """The offsets of new records."""

    offsets: list[int]


class LedgerRecord(Struct, frozen=True, kw_only=True):
    """A record's offset and value."""

    offset: int
    value: str


class LedgerRecords(Struct, frozen=True, kw_only=True):
    """Records in order of their offsets."""

    records: list[LedgerRecord]


class CheckBody(Struct, frozen=True, kw_only=True):
    """Whether the check holds; if not, ``reason`` says why."""

    holds: bool
    reason: str | None


class StateChangesBody(Struct, frozen=True, kw_only=True):
    """The newest of ``total`` state changes; docs/state-changes-schema.md has their fields."""

    total: int
    state_changes: list[dict[str, Any]]


class JournalEntry(Struct, frozen=True, kw_only=True):
    """One step: what was done, and when."""

    at_ms: Annotated[int, Meta(description="Milliseconds since 1970.")]
    text: str


class JournalBody(Struct, frozen=True, kw_only=True):
    """The newest of ``total`` steps of a cluster's journal."""

    total: int
    journal: list[JournalEntry]


class ArtefactsBody(Struct, frozen=True, kw_only=True):
    """The cluster's folder, and the paths of the text files in it."""

    directory: str
    files: list[str]


class ErrorBody(Struct, frozen=True, kw_only=True):
    """The response to a request that was refused or failed."""

    error: Annotated[str, Meta(description="A code of docs/serve.md.")]
    message: str
    field: Annotated[str | None, Meta(description="The invalid field, if it is one.")]
