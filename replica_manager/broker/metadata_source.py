"""The interface between a broker and the source of its metadata.

A broker consists of logs, replication, coordinators, quotas, security and sockets.
:mod:`.broker_server` assembles them and knows only this interface to metadata.  An implementation
registers the broker, follows configurations, access control lists, quotas, credentials and
features, and sends the broker's own decisions, such as ISR proposals, to the cluster.

There are three Protocols, because a source has three stages.  No attribute of an object is missing
in its stage:

1. :class:`MetadataSource`: opened.  It knows the cluster, but not yet the broker's id.
2. :class:`BrokerMetadata`: of one broker.  It reads what the broker needs before it serves clients.
3. :class:`ClusterMembership`: registered.  It serves administrative requests and follows changes.

A broker makes these calls, in this order::

    source.connect, new_broker_id, metadata_of
    metadata.load_tokens, load_broker_config, load_client_configs, load_topic_configs
    metadata.producer_ids, isr_route, partition_count
    metadata.join
    membership.start

When an implementation creates something that must be stopped, it adds the stop to
:attr:`BrokerSide.stops`.  It calls :attr:`BrokerSide.changes` when it has read a change.  A new
source needs an implementation of the three Protocols, and a function like
:func:`.zookeeper_broker.zookeeper_broker` that chooses it.

Source: Kafka ``MetadataSupport``, ``SharedServer``, and what ``KafkaServer`` and ``BrokerServer``
have in common.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct

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


class BrokerSide(Struct, frozen=True):
    """The parts of a broker that its source of metadata uses."""

    loop: asyncio.AbstractEventLoop
    executor: ResizableExecutor
    """Runs calls that block."""
    changes: ConfigChanges
    stops: Stops
    authorizer: Authorizer | None
    """The source passes it the access control lists; None: every client may do everything."""
    tokens: DelegationTokens
    """The source adds the delegation tokens to it."""
    metrics: Metrics
    state_changes: StateChangeSink
    is_tracing: bool
    """Whether each state change is logged at TRACE level."""
    on_registered: Callable[[], None]
    """Called when the broker was registered again with a new broker epoch; from any thread."""
    fail: Callable[[], None]
    """Called when the broker cannot continue and must be stopped; from any thread."""


class MetadataSource(Protocol):
    """An open source of metadata; the broker may not have an id yet."""

    async def connect(self) -> str:
        """Connects, passes the access control lists to the authorizer; returns the cluster id."""

    def new_broker_id(self, reserved_max_id: int) -> int:
        """Generates a broker id above ``reserved_max_id``.  Blocks."""

    def metadata_of(self, broker_id: int, metadata_cache: ZkMetadataCache) -> BrokerMetadata:
        """The metadata of the broker ``broker_id``, whose metadata cache is ``metadata_cache``."""


class BrokerMetadata(Protocol):
    """The metadata of a broker with an id, which may not be registered yet."""

    @property
    def broker_epoch(self) -> int:
        """The broker epoch of the newest registration; -1 before the first one."""

    @property
    def handlers(self) -> Mapping[int, Handler]:
        """The handlers of the requests that the broker supports, by API key."""

    def config(self) -> BrokerConfig:
        """The current configuration; a dynamic change replaces the object.  For any thread."""

    async def load_tokens(self) -> None:
        """Reads the delegation tokens, if a secret is configured."""

    async def load_broker_config(self) -> None:
        """Reads the dynamic configuration of this broker and the default for all brokers."""

    async def load_client_configs(self) -> None:
        """Passes on the configurations of users, client ids and addresses."""

    async def load_topic_configs(self, topics: Sequence[str] | None = None) -> None:
        """Passes on the configurations of ``topics``, or of all topics that have one."""

    async def partition_count(self, topic: str) -> int | None:
        """The number of partitions of a topic; None if it does not exist."""

    async def is_topic_deleted(self, topic: str) -> bool:
        """Whether a topic does not exist or is being deleted."""

    def log_dir_failed(self) -> None:
        """Notifies the controller that a log directory has failed."""

    def producer_ids(self, client: Mapping[str, ClientSecurity]) -> ProducerIdManager:
        """The source of producer ids; ``client`` is the client security per listener name."""

    def isr_route(
        self, client: Mapping[str, ClientSecurity], controller_epoch: ControllerEpochOf
    ) -> IsrRoute:
        """The route of ISR proposals; ``client`` is the client security per listener name."""

    async def join(
        self, endpoints: Sequence[Endpoint], client: Mapping[str, ClientSecurity]
    ) -> ClusterMembership:
        """Registers the broker with its advertised endpoints.

        ``client`` is the client security per listener name.
        """


class ClusterMembership(Protocol):
    """The metadata of a registered broker."""

    @property
    def administration(self) -> Administration:
        """The administrative operations that request handlers use."""

    @property
    def is_controller_at_work(self) -> bool:
        """Whether a controller in this process is processing an event now.  For any thread."""

    def start(self) -> None:
        """Starts the controller candidate, if there is one, and starts to follow changes."""

    def advertise(self, endpoints: Sequence[Endpoint]) -> None:
        """Replaces the endpoints in the broker's registration.  Blocks."""

    async def controlled_shutdown(self) -> None:
        """Asks the controller to move the leaderships of this broker; waits for the result."""


OpenSource: TypeAlias = Callable[[BrokerSide], MetadataSource]
"""Opens the source of metadata when a broker starts."""
