"""The seam between what a broker is and where its metadata comes from and goes to.

A broker is its logs, its replication, its coordinators, its quotas, its security and its sockets.
:mod:`.broker_server` puts them together and knows of metadata only what stands here.  An
implementation registers the broker, follows configurations, access control lists, quotas,
credentials and features, and takes to the cluster what the broker decides.

There are three Protocols, because a source has three ages.  Each is complete when it exists, so
none has a part that may be missing:

1. :class:`MetadataSource`: opened.  It knows the cluster, but not yet the broker's id.
2. :class:`BrokerMetadata`: of one broker.  It reads what the broker needs before it may serve.
3. :class:`ClusterMembership`: registered.  It answers administration, and follows changes.

A broker calls in this order, and adds nothing in between that an implementation might miss::

    source.connect, new_broker_id, metadata_of
    metadata.load_tokens, load_broker_config, load_client_configs, load_topic_configs
    metadata.producer_ids, isr_route, partition_count
    metadata.join
    membership.start

An implementation adds its stops to :attr:`BrokerSide.stops` as it makes what has to be stopped, and
calls :attr:`BrokerSide.changes` when it has read a change.  A new source is one more implementation
of the three, and a function like :func:`.zookeeper_broker.zookeeper_broker` that chooses it.

Source: Kafka ``MetadataSupport``, ``SharedServer``, and what ``KafkaServer`` and ``BrokerServer``
have in common.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from kafka_common.model import Endpoint
from kafka_common.net.client_security import ClientSecurity
from kafka_common.observability.metrics import Metrics
from replica_manager.broker.config_changes import ConfigChanges
from replica_manager.broker.stops import Stops
from replica_manager.configuration.config import BrokerConfig
from replica_manager.replication.alter_partition_manager import IsrRoute
from replica_manager.replication.replication_tasks import ControllerEpochOf
from replica_manager.replication.zk_metadata_cache import ZkMetadataCache
from replica_manager.resizable_executor import ResizableExecutor
from replica_manager.security.authorizer import Authorizer
from replica_manager.security.delegation_tokens import DelegationTokens
from replica_manager.server.administration import Administration
from replica_manager.server.context import Handler
from replica_manager.server.producer_ids import ProducerIdManager
from zkcontroller.state_changes.log_files import StateChangeSink


@dataclass(frozen=True, slots=True)
class BrokerSide:
    """What a broker gives to its source of metadata."""

    loop: asyncio.AbstractEventLoop
    executor: ResizableExecutor
    """For calls that block."""
    changes: ConfigChanges
    stops: Stops
    authorizer: Authorizer | None
    """Gets the access control lists; None: every client may do everything."""
    tokens: DelegationTokens
    """Gets the delegation tokens."""
    metrics: Metrics
    state_changes: StateChangeSink
    is_tracing: bool
    """Whether state changes are logged one by one."""
    on_registered: Callable[[], None]
    """The broker was registered again, with a new epoch; from any thread."""
    fail: Callable[[], None]
    """The broker cannot go on and should be stopped; from any thread."""


class MetadataSource(Protocol):
    """A source of metadata that has been opened, for a broker that may have no id yet."""

    async def connect(self) -> str:
        """Connects, gives the authorizer its access control lists, and returns the cluster id."""

    def new_broker_id(self, reserved_max_id: int) -> int:
        """A new id above ``reserved_max_id``.  Blocks."""

    def metadata_of(self, broker_id: int, metadata_cache: ZkMetadataCache) -> BrokerMetadata:
        """The metadata of this broker; ``metadata_cache`` is the broker's."""


class BrokerMetadata(Protocol):
    """The metadata of a broker that has its id and may not be registered yet."""

    @property
    def broker_epoch(self) -> int:
        """Of the newest registration; UNKNOWN_BROKER_EPOCH before the first."""

    @property
    def handlers(self) -> Mapping[int, Handler]:
        """By API key: what a broker with this source of metadata answers."""

    def config(self) -> BrokerConfig:
        """The configuration as it is now: dynamic changes replace it.  From any thread."""

    async def load_tokens(self) -> None:
        """Reads the delegation tokens, if a secret is configured."""

    async def load_broker_config(self) -> None:
        """Reads the dynamic configuration of this broker and of all brokers."""

    async def load_client_configs(self) -> None:
        """Passes on the configurations of users, client ids and addresses."""

    async def load_topic_configs(self, topics: Sequence[str] | None = None) -> None:
        """Passes on the configurations of these topics, or of all that have one."""

    async def partition_count(self, topic: str) -> int | None:
        """The number of partitions of a topic; None if it does not exist."""

    async def is_topic_deleted(self, topic: str) -> bool:
        """Whether a topic does not exist, or is about to be deleted."""

    def log_dir_failed(self) -> None:
        """Makes the controller look for the replicas of a log directory that has failed."""

    def producer_ids(self, client: Mapping[str, ClientSecurity]) -> ProducerIdManager:
        """New producer ids; ``client``: by listener name, how this broker connects to others."""

    def isr_route(
        self, client: Mapping[str, ClientSecurity], controller_epoch: ControllerEpochOf
    ) -> IsrRoute:
        """Where proposals of in-sync replicas go; ``client`` as above."""

    async def join(
        self, endpoints: Sequence[Endpoint], client: Mapping[str, ClientSecurity]
    ) -> ClusterMembership:
        """Registers the broker with the endpoints that it advertises; ``client`` as above."""


class ClusterMembership(Protocol):
    """A registered broker's part in the cluster."""

    @property
    def administration(self) -> Administration:
        """What handlers ask of the source."""

    @property
    def is_controller_at_work(self) -> bool:
        """Whether a controller in this process processes an event just now; from any thread."""

    def start(self) -> None:
        """Starts the controller candidate, if there is one, and follows changes from now on."""

    def advertise(self, endpoints: Sequence[Endpoint]) -> None:
        """Registers other endpoints.  Blocks."""

    async def controlled_shutdown(self) -> None:
        """Lets the controller move the leaderships of this broker, as long as that may take."""


OpenSource: TypeAlias = Callable[[BrokerSide], MetadataSource]
"""Opens the source of a broker that begins to start."""
