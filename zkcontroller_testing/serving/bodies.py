"""What goes into the API and comes out of it, as classes that msgspec checks and describes.

A class is at once the check of a body, its part of the OpenAPI document, and its type here.  Names
and defaults are those of :class:`zkcontroller_testing.cluster.KafkaCluster`.  Every number and
every length has an upper end.
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
"""Records of a produce, state changes of a page."""
MOST_DATA_CHARACTERS: Final = 512 * 1024
"""Of a znode: ZooKeeper itself breaks the connection above 1 MiB."""
_MOST_INT32: Final = 2**31 - 1
_MOST_INT16: Final = 2**15 - 1
_MOST_INT64: Final = 2**63 - 1

BrokerNumber: TypeAlias = Annotated[int, Meta(ge=0, le=_MOST_INT32, description="A broker's id.")]
Number: TypeAlias = Annotated[
    int, Meta(ge=1, le=_MOST_INT32, description="A number that an earlier answer gave.")
]
Seconds: TypeAlias = Annotated[
    float, Meta(gt=0, le=MOST_WAIT_S, description="How long to wait at most, in seconds.")
]
Times: TypeAlias = Annotated[
    int, Meta(ge=1, le=_MOST_INT32, description="How often at most; null: without end.")
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
        description="Below the cluster's chroot, as in /brokers/ids/1.",
    ),
]
Configs: TypeAlias = Annotated[
    dict[
        Annotated[str, Meta(min_length=1, max_length=250)], Annotated[str, Meta(max_length=10_000)]
    ],
    Meta(max_length=MOST_CONFIGS),
]


class _Fields(Struct, kw_only=True, forbid_unknown_fields=True):
    """A body, or the parameters behind a ``?``."""


class NoFields(_Fields):
    """Nothing: the path says it all."""


class WaitFields(_Fields):
    """How long."""

    timeout_s: Seconds = PATIENCE_S


class NewClusterFields(_Fields):
    """The cluster to start; null and what is left out stand for the default."""

    brokers: Annotated[int, Meta(ge=1, le=MOST_BROKERS, description="Brokers 1 to this one.")] = 3
    zookeeper: Annotated[
        ShortText,
        Meta(
            description="shared: one for all clusters of this server, each with a chroot of its "
            "own; embedded: one for this cluster; container: in Docker; HOST:PORT/CHROOT: one "
            "that runs."
        ),
    ] = "shared"
    listeners: Annotated[
        Literal["plaintext", "tls", "sasl", "sasl_tls"], Meta(description="What clients speak.")
    ] = "plaintext"
    configs: Annotated[Configs, Meta(description="Keys of server.properties, every broker's.")] = {}
    broker_configs: Annotated[
        dict[BrokerNumber, Configs],
        Meta(max_length=MOST_BROKERS, description="Keys for some of the brokers."),
    ] = {}
    disks: Annotated[
        dict[BrokerNumber, Annotated[int, Meta(ge=LEAST_MB, le=MOST_MB)]],
        Meta(
            max_length=MOST_BROKERS,
            description="Brokers whose data is on a disk of its own, and its size in MB: needs "
            "root.",
        ),
    ] = {}


class RemovalFields(_Fields):
    """What stays."""

    keep_files: Annotated[bool, Meta(description="The folder stays, with logs and artefacts.")] = (
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

    clean: Annotated[bool, Meta(description="By controlled shutdown; else as by a crash.")] = True


class ClockFields(_Fields):
    """Where a broker's wall clock stands."""

    ahead_ms: Annotated[
        int,
        Meta(
            ge=-MOST_OFFSET_MS,
            le=MOST_OFFSET_MS,
            description="Ahead of the machine's; behind, if negative.",
        ),
    ]


class ApiFields(_Fields):
    """Which API."""

    api: ApiText


class LostAnswerFields(_Fields):
    """Which answers of ZooKeeper are lost."""

    operation: Literal["create", "delete", "set", "multi"] = "multi"
    times: Times = 1


class RegisteredFields(_Fields):
    """Which brokers shall be registered."""

    broker_ids: Annotated[
        list[BrokerNumber], Meta(max_length=MOST_BROKERS, description="Empty: all of them.")
    ] = []
    after_epoch: Annotated[
        int, Meta(ge=-1, le=_MOST_INT64, description="Each must have a later broker epoch.")
    ] = -1
    timeout_s: Seconds = PATIENCE_S


class ControllerFields(_Fields):
    """Which controller is waited for."""

    after_epoch: Annotated[
        Annotated[int, Meta(ge=0, le=_MOST_INT32)] | None,
        Meta(description="It must be of a later controller epoch."),
    ] = None
    timeout_s: Seconds = PATIENCE_S


class NewTopicFields(_Fields):
    """The topic to create."""

    name: TopicText
    partitions: Annotated[int, Meta(ge=1, le=MOST_PARTITIONS)] = 1
    replication_factor: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_BROKERS)] | None,
        Meta(description="By default the number of brokers, at most three."),
    ] = None
    configs: Configs = {}
    replicas: Annotated[
        Annotated[
            list[Annotated[list[BrokerNumber], Meta(min_length=1, max_length=MOST_BROKERS)]],
            Meta(min_length=1, max_length=MOST_PARTITIONS),
        ]
        | None,
        Meta(description="The brokers of each partition, the preferred leader first."),
    ] = None
    timeout_s: Seconds = PATIENCE_S


class LeaderFields(_Fields):
    """Which leader is waited for."""

    among: Annotated[
        Annotated[list[BrokerNumber], Meta(min_length=1, max_length=MOST_BROKERS)] | None,
        Meta(description="It must be one of these; null: any."),
    ] = None
    timeout_s: Seconds = PATIENCE_S


class IsrFields(_Fields):
    """Which ISR is waited for."""

    brokers: Annotated[
        Annotated[list[BrokerNumber], Meta(min_length=1, max_length=MOST_BROKERS)] | None,
        Meta(description="Exactly these; null: all of the cluster."),
    ] = None
    timeout_s: Seconds = PATIENCE_S


class CutFields(_Fields):
    """Between which two the network is cut."""

    a: PeerText
    b: PeerText
    one_way: Annotated[bool, Meta(description="Only what a sends to b.")] = False
    silent: Annotated[bool, Meta(description="Connections stay open and carry nothing.")] = False


class _RequestFields(_Fields):
    """Which requests."""

    api: Annotated[ApiText, Meta(description="Kafka's name, as in Produce, or its key.")]
    broker: Annotated[BrokerNumber | None, Meta(description="Who is asked; null: any.")] = None
    sender: Annotated[
        BrokerNumber | Literal["clients"] | None, Meta(description="Who asks; null: any.")
    ] = None
    client_id: Annotated[ShortText | None, Meta(description="null: any.")] = None
    topic: Annotated[TopicText | None, Meta(description="Stands in the request.")] = None


class DelayFields(_RequestFields, kw_only=True):
    """Which requests are late, and how much."""

    delay_ms: Annotated[int, Meta(ge=0, le=MOST_WAIT_S * 1000, description="Milliseconds.")]
    times: Times | None = None


class DropFields(_RequestFields):
    """Which requests are lost."""

    times: Times | None = 1
    answer: Annotated[bool, Meta(description="The broker does it, and its answer is lost.")] = False


class FailFields(_RequestFields, kw_only=True):
    """Which requests are answered with an error."""

    error: Annotated[
        ErrorText, Meta(description="Kafka's name, as in NOT_LEADER_OR_FOLLOWER, or its code.")
    ]
    times: Times | None = 1


class VersionsFields(_Fields):
    """Which versions of an API are offered; ``least`` above ``most`` hides it."""

    api: ApiText
    least: Annotated[int, Meta(ge=0, le=_MOST_INT16)]
    most: Annotated[int, Meta(ge=0, le=_MOST_INT16)]
    broker: BrokerNumber | None = None


class NewHoldFields(_Fields):
    """Where controllers are held."""

    name: Annotated[ShortText, Meta(description="As in controller.before_write.")]
    broker: Annotated[BrokerNumber | None, Meta(description="That one alone.")] = None


class PathFields(_Fields):
    """Which znode."""

    path: ZnodePath


class DataFields(_Fields):
    """Which znode, and what is written; ``base64`` for what is no text."""

    path: ZnodePath
    text: Annotated[str, Meta(max_length=MOST_DATA_CHARACTERS)] | None = None
    base64: Annotated[str, Meta(max_length=MOST_DATA_CHARACTERS)] | None = None


class NewLedgerFields(_Fields):
    """Which partition is written to."""

    topic: TopicText
    partition: Annotated[int, Meta(ge=0, le=_MOST_INT32)] = 0


class ProduceFields(_Fields):
    """How many records."""

    count: Annotated[int, Meta(ge=1, le=MOST_ITEMS)] = 1
    timeout_s: Seconds = PATIENCE_S


class LedgersFields(_Fields):
    """Which ledgers are compared with the log."""

    ledgers: Annotated[
        list[Number], Meta(max_length=MOST_ITEMS, description="Empty: all of the cluster.")
    ] = []
    timeout_s: Seconds = PATIENCE_S


class PageFields(_Fields):
    """How much of a list."""

    last: Annotated[int, Meta(ge=1, le=MOST_ITEMS, description="The newest so many.")] = 1_000


class ServerAnswer(Struct, frozen=True, kw_only=True):
    """The server itself."""

    version: str
    clusters: int
    most_clusters: int


class ClusterAnswer(Struct, frozen=True, kw_only=True):
    """A cluster as it is now."""

    cluster: int
    state: Literal["starting", "running", "removing"]
    bootstrap_servers: Annotated[str, Meta(description="host:port,host:port; stays the same.")]
    client_config: Annotated[
        dict[str, str], Meta(description="As clients on librdkafka take it, security included.")
    ]
    zookeeper_connect: Annotated[str, Meta(description="The connect string, chroot included.")]
    directory: Annotated[str, Meta(description="zkctl --dir takes it.")]
    broker_ids: list[int]
    live_brokers: Annotated[list[int], Meta(description="Those registered in ZooKeeper.")]
    controller_id: Annotated[int | None, Meta(description="null while there is none.")]
    controller_epoch: int


class ClustersAnswer(Struct, frozen=True, kw_only=True):
    """The numbers of all clusters."""

    clusters: list[int]


class RemovedAnswer(Struct, frozen=True, kw_only=True):
    """Where the files are, if they were kept."""

    directory: str | None


class BrokerAnswer(Struct, frozen=True, kw_only=True):
    """A broker as it is now."""

    broker_id: int
    is_alive: Annotated[bool, Meta(description="Its process runs; a paused one does.")]
    pid: Annotated[int | None, Meta(description="Its process; null while none runs.")]
    broker_epoch: Annotated[int, Meta(description="-1 while it is not registered.")]
    logs_directory: str


class VersionsAnswer(Struct, frozen=True, kw_only=True):
    """The versions of an API that clients have used."""

    versions: list[int]


class EpochAnswer(Struct, frozen=True, kw_only=True):
    """The highest broker epoch among the brokers asked about."""

    broker_epoch: int


class ControllerAnswer(Struct, frozen=True, kw_only=True):
    """The controller."""

    controller_id: int
    controller_epoch: int


class PartitionAnswer(Struct, frozen=True, kw_only=True):
    """A partition's state, as ZooKeeper has it."""

    leader: Annotated[int, Meta(description="-1 while there is none.")]
    leader_epoch: int
    isr: list[int]
    controller_epoch: int


class LeaderAnswer(Struct, frozen=True, kw_only=True):
    """A partition's leader."""

    leader: int


class IsrAnswer(Struct, frozen=True, kw_only=True):
    """A partition's ISR."""

    isr: list[int]


class FaultReport(Struct, frozen=True, kw_only=True):
    """A fault, and how often it has happened."""

    fault: int
    action: Literal["delay", "drop_request", "drop_answer", "error"]
    api: str
    count: int


class FaultReports(Struct, frozen=True, kw_only=True):
    """All faults."""

    faults: list[FaultReport]


class HoldAnswer(Struct, frozen=True, kw_only=True):
    """The number of a hold."""

    hold: int


class HoldPointAnswer(Struct, frozen=True, kw_only=True):
    """A step of the controller."""

    name: str
    meaning: str


class HoldPointsAnswer(Struct, frozen=True, kw_only=True):
    """All steps at which a controller can be held."""

    hold_points: list[HoldPointAnswer]


class ReachedAnswer(Struct, frozen=True, kw_only=True):
    """The controller that stands at the step."""

    broker_id: int
    name: str
    detail: Annotated[str, Meta(description="Znodes, the broker a request is for, or the event.")]


class ZnodeAnswer(Struct, frozen=True, kw_only=True):
    """A znode's data; text and base64 are null if it does not exist, text too if it is none."""

    path: str
    text: str | None
    base64: str | None
    version: Annotated[int | None, Meta(description="How often it was set; null: not there.")]


class DeletedAnswer(Struct, frozen=True, kw_only=True):
    """Whether it was there."""

    deleted: bool


class WatchAnswer(Struct, frozen=True, kw_only=True):
    """The number of a watch."""

    watch: int


class LedgerAnswer(Struct, frozen=True, kw_only=True):
    """A ledger, and what it has got acknowledged."""

    ledger: int
    topic: str
    partition: int
    is_producing: bool
    acknowledged: Annotated[int, Meta(description="How many records.")]


class OffsetsAnswer(Struct, frozen=True, kw_only=True):
    """The offsets of new records."""

    offsets: list[int]


class LedgerRecord(Struct, frozen=True, kw_only=True):
    """A record of a ledger."""

    offset: int
    value: str


class LedgerRecords(Struct, frozen=True, kw_only=True):
    """Records in order of their offsets."""

    records: list[LedgerRecord]


class CheckAnswer(Struct, frozen=True, kw_only=True):
    """Whether it holds, and if not, what is wrong."""

    holds: bool
    reason: str | None


class StateChangesAnswer(Struct, frozen=True, kw_only=True):
    """The newest state changes, as docs/state-changes-schema.md describes them."""

    total: int
    state_changes: list[dict[str, Any]]


class JournalEntry(Struct, frozen=True, kw_only=True):
    """A step of the test."""

    at_ms: Annotated[int, Meta(description="Since 1970.")]
    text: str


class JournalAnswer(Struct, frozen=True, kw_only=True):
    """What was done to the cluster."""

    total: int
    journal: list[JournalEntry]


class ArtefactsAnswer(Struct, frozen=True, kw_only=True):
    """Where the artefacts are."""

    directory: str
    files: list[str]


class ErrorAnswer(Struct, frozen=True, kw_only=True):
    """Every answer that is not a success."""

    error: Annotated[str, Meta(description="A code of docs/serve.md.")]
    message: str
    field: Annotated[str | None, Meta(description="The field at fault.")]
