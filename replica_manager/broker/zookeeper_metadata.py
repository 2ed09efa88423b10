"""The metadata of a broker in ZooKeeper mode: an implementation of :mod:`.metadata_source`.

One ZooKeeper session is used for everything.  The broker registers with an ephemeral znode.
Configurations, access control lists, tokens and features are read at the start, when a watch fires
and in each new session (:mod:`.refresher`).  A controller candidate shares the session: after a
session has expired it first registers the broker again, and then takes part in the controller
election.

Changes of partition assignments come in requests of the controller, so they are not read from
ZooKeeper here.

Source: Kafka ``KafkaServer.startup``, ``ZkSupport``.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from random import Random, SystemRandom
from typing import TypeVar
from uuid import uuid4

from kafka_common.errors import BrokerIdInUse
from kafka_common.model import UNKNOWN_BROKER_EPOCH, Broker, Endpoint
from kafka_common.net.client_security import ClientSecurity
from kafka_common.protocol.inter_broker_versions import (
    broker_znode_version,
    is_allocate_producer_ids_supported,
    is_alter_partition_supported,
)
from replica_manager.broker.broker_settings import channel_settings, controller_settings
from replica_manager.broker.controlled_shutdown import ControlledShutdownClient
from replica_manager.broker.dynamic_config import UNCLEAN_LEADER_ELECTION_ENABLE, DynamicConfig
from replica_manager.broker.feature_epoch import FeatureEpoch
from replica_manager.broker.log_dir_events import LogDirEvents
from replica_manager.broker.metadata_source import BrokerSide
from replica_manager.broker.refresher import Refresher
from replica_manager.broker.registration import (
    ZooKeeperRegistration,
    check_endpoints,
    cluster_id,
    create_persistent_paths,
    generate_broker_id,
)
from replica_manager.broker.stops import StopStep
from replica_manager.configuration.config import BrokerConfig
from replica_manager.coordinators.group_settings import partition_count
from replica_manager.coordinators.transaction_settings import is_topic_deleted
from replica_manager.replication.alter_partition_manager import IsrRoute
from replica_manager.replication.controller_channel import ChannelToController, ControllerChannel
from replica_manager.replication.controller_connection import controller_in
from replica_manager.replication.controller_link import ControllerLink, ControllerLinkSettings
from replica_manager.replication.isr_znodes import IsrZnodes
from replica_manager.replication.replication_tasks import ControllerEpochOf
from replica_manager.replication.zk_metadata_cache import ZkMetadataCache
from replica_manager.security.acl_store import AclStore
from replica_manager.security.delegation_token_store import DelegationTokenStore
from replica_manager.security.delegation_tokens import token_settings
from replica_manager.server.administration import (
    Administration,
    ControllerCandidate,
    FinalizedFeatures,
)
from replica_manager.server.context import Handler
from replica_manager.server.producer_ids import (
    BlocksOfController,
    ProducerIdManager,
    ProducerIdsFromController,
    ProducerIdsFromZooKeeper,
)
from replica_manager.server.token_sweep import TokenSweep
from replica_manager.server.topics.topic_admin import TopicAdmin
from replica_manager.server.zookeeper_admin import (
    AclsInZooKeeper,
    TokensInZooKeeper,
    ZooKeeperAdmin,
)
from replica_manager.server.zookeeper_handlers import HANDLERS
from zkcontroller.core.events import (
    TopicUncleanLeaderElectionEnable,
    UncleanLeaderElectionEnable,
)
from zkcontroller.runtime.controller_runtime import ControllerRuntime
from zkcontroller.zookeeper.delegation_token_znodes import TokenChangeZnode
from zkcontroller.zookeeper.kafka_acl_znodes import AclChangeZnode
from zkcontroller.zookeeper.session import SessionState, ZooKeeperConfig, ZooKeeperSession
from zkcontroller.zookeeper.session_router import SessionRouter
from zkcontroller.zookeeper.znodes import ConfigChangesZnode, FeatureZnode

_log = logging.getLogger("kafka.server.KafkaServer")
_T = TypeVar("_T")


class ZooKeeperSource:
    """A ZooKeeper session, not connected yet, as source of metadata.  Used on the event loop."""

    def __init__(self, config: BrokerConfig, settings: ZooKeeperConfig, broker: BrokerSide) -> None:
        self._config = config
        self.broker = broker
        self.router = SessionRouter()
        self.session = ZooKeeperSession(
            settings,
            on_watch=self.router.fired,
            on_state=self.router.entered,
            on_latency_ms=self.router.took,
        )
        self.router.follow_states(self._on_session_state)
        self.acl_store = (
            None if broker.authorizer is None else AclStore(self.session, broker.authorizer)
        )

    async def connect(self) -> str:
        """Connects, creates the parent znodes, reads the ACLs; returns the cluster id."""
        _log.info("Connecting to zookeeper on %s", self._config.zookeeper_connect)
        self.broker.stops.add(StopStep.METADATA, lambda: asyncio.to_thread(self.session.close))
        await self.blocking(self.session.start)
        await self.blocking(lambda: create_persistent_paths(self.session))
        if self.acl_store is not None:
            await self.blocking(self.acl_store.load)
        return await self.blocking(lambda: cluster_id(self.session))

    def new_broker_id(self, reserved_max_id: int) -> int:
        """Generates a broker id above ``reserved_max_id``.  Blocks."""
        return generate_broker_id(self.session, reserved_max_id)

    def metadata_of(self, broker_id: int, metadata_cache: ZkMetadataCache) -> ZooKeeperMetadata:
        """The metadata of the broker ``broker_id``, whose metadata cache is ``metadata_cache``."""
        return ZooKeeperMetadata(self, self._config, broker_id, metadata_cache)

    async def blocking(self, call: Callable[[], _T]) -> _T:
        """Runs a blocking call in the executor; returns its result."""
        return await self.broker.loop.run_in_executor(self.broker.executor, call)

    def _on_session_state(self, state: SessionState) -> None:
        if state is SessionState.AUTH_FAILED:
            self.broker.fail()


class ZooKeeperMetadata:
    """The metadata of one broker.  Used on the event loop, except for :meth:`config`."""

    def __init__(
        self,
        source: ZooKeeperSource,
        config: BrokerConfig,
        broker_id: int,
        metadata_cache: ZkMetadataCache,
    ) -> None:
        """``config`` is the static configuration, from ``server.properties``."""
        self.source = source
        self.static_config = config
        self.broker_id = broker_id
        self.metadata_cache = metadata_cache
        self.broker_epoch = UNKNOWN_BROKER_EPOCH
        changes = source.broker.changes
        self.dynamic = DynamicConfig(
            source.session,
            broker_id,
            config,
            prepare=changes.prepare,
            on_broker_config=changes.broker_changed,
            on_topic=changes.topic_changed,
            on_unclean_topic=changes.topic_became_unclean,
            on_client=changes.client_changed,
        )
        self.token_store = self._token_store()
        self.features = FeatureEpoch(source.session, broker_id, config.inter_broker_version)
        self._log_dir_events = LogDirEvents(source.session, broker_id)
        self._log_dir_failures = self._refresher(
            "failures of log directories", self._log_dir_events.propagate
        )
        self.refreshers: dict[Refresher, Sequence[str]] = {
            self._refresher("configuration changes", self.dynamic.process_changes): (
                ConfigChangesZnode.PATH,
            ),
            self._refresher(FeatureZnode.PATH, self.features.look): (FeatureZnode.PATH,),
            self._log_dir_failures: (),
        }
        """Each refresher with the paths whose watches make it read again."""
        if source.acl_store is not None:
            changes_of_acls = self._refresher("ACL changes", source.acl_store.process_changes)
            self.refreshers[changes_of_acls] = AclChangeZnode.ROOTS
        if self.token_store is not None:
            tokens = self._refresher("delegation tokens", self.token_store.process_changes)
            self.refreshers[tokens] = (TokenChangeZnode.ROOT,)

    @property
    def handlers(self) -> Mapping[int, Handler]:
        return HANDLERS

    def config(self) -> BrokerConfig:
        """The current configuration.  For any thread."""
        return self.dynamic.current

    async def load_tokens(self) -> None:
        """Reads the delegation tokens, if a secret is configured."""
        if self.token_store is not None:
            await self.source.blocking(self.token_store.load)

    async def load_broker_config(self) -> None:
        """Reads the dynamic configuration of this broker and the default for all brokers."""
        await self.source.blocking(self.dynamic.load)

    async def load_client_configs(self) -> None:
        """Passes on the configurations of users, client ids and addresses."""
        await self.source.blocking(self.dynamic.load_clients)

    async def load_topic_configs(self, topics: Sequence[str] | None = None) -> None:
        """Passes on the configurations of ``topics``, or of all topics that have one."""
        await self.source.blocking(partial(self.dynamic.load_topics, topics))

    async def partition_count(self, topic: str) -> int | None:
        """The number of partitions of a topic; None if it does not exist."""
        return await self.source.blocking(lambda: partition_count(self.source.session, topic))

    async def is_topic_deleted(self, topic: str) -> bool:
        """Whether a topic does not exist or is being deleted."""
        return await self.source.blocking(lambda: is_topic_deleted(self.source.session, topic))

    def log_dir_failed(self) -> None:
        """Notifies the controller that a log directory has failed."""
        self._log_dir_events.note()
        self._log_dir_failures.poke()

    def producer_ids(self, client: Mapping[str, ClientSecurity]) -> ProducerIdManager:
        """The source of producer ids: blocks from the controller, or from ZooKeeper before 3.0."""
        ids = self._producer_ids(client)
        self.source.broker.stops.add(StopStep.PRODUCER_IDS, ids.stop)
        return ids

    def isr_route(
        self, client: Mapping[str, ClientSecurity], controller_epoch: ControllerEpochOf
    ) -> IsrRoute:
        """The route of ISR proposals: to the controller, or before 2.7-IV2 to znodes."""
        config = self.config()
        version, listener = config.inter_broker_version, config.listeners.controller_uses
        if not is_alter_partition_supported(version):
            return IsrZnodes(
                self.source.session,
                self.source.broker.executor,
                self.broker_id,
                controller_epoch,
                _now_ms,
            )
        settings = ControllerLinkSettings(
            self.broker_id,
            version,
            config.integer("controller.socket.timeout.ms"),
            client[listener],
        )
        return ControllerLink(
            settings,
            lambda: controller_in(self.metadata_cache, listener),
            lambda: self.broker_epoch,
        )

    async def join(
        self, endpoints: Sequence[Endpoint], client: Mapping[str, ClientSecurity]
    ) -> ZooKeeperMembership:
        """Creates the controller candidate, which follows the session, and registers the broker."""
        membership = ZooKeeperMembership(self, endpoints, client)
        await self.source.blocking(membership.register_first)
        return membership

    def _refresher(self, what: str, look: Callable[[], None]) -> Refresher:
        broker = self.source.broker
        return Refresher(what, look, broker.loop, broker.executor)

    def _token_store(self) -> DelegationTokenStore | None:
        settings = token_settings(self.static_config.values)
        if not settings.is_enabled:
            return None
        return DelegationTokenStore(
            self.source.session,
            self.source.broker.tokens,
            settings,
            new_uuid=uuid4,
            broker_id=self.broker_id,
        )

    def _producer_ids(self, client: Mapping[str, ClientSecurity]) -> ProducerIdManager:
        config = self.static_config
        if not is_allocate_producer_ids_supported(config.inter_broker_version):
            return ProducerIdsFromZooKeeper(
                self.source.session, self.source.broker.executor, self.broker_id
            )
        listener = config.listeners.controller_uses
        channel = ControllerChannel(
            self.metadata_cache,
            ChannelToController(
                self.broker_id,
                listener,
                client[listener],
                connect_timeout_ms=config.integer("controller.socket.timeout.ms"),
                request_timeout_ms=config.integer("request.timeout.ms"),
            ),
        )
        return ProducerIdsFromController(
            BlocksOfController(channel, self.broker_id, lambda: self.broker_epoch), _now_ms
        )


class ZooKeeperMembership:
    """A registered broker with its controller candidate.

    Used on the event loop, except for methods that say otherwise.
    """

    def __init__(
        self,
        metadata: ZooKeeperMetadata,
        endpoints: Sequence[Endpoint],
        client: Mapping[str, ClientSecurity],
    ) -> None:
        self._metadata = metadata
        self.session = metadata.source.session
        self._broker = metadata.source.broker
        self._endpoints = tuple(endpoints)
        self._client = client
        config, broker_id = metadata.config(), metadata.broker_id
        self.runtime = ControllerRuntime(
            config=controller_settings(
                config, broker_id, trace_state_changes=self._broker.is_tracing
            ),
            session=self.session,
            loop=self._broker.loop,
            register_broker=self._register_again,
            state_changes=self._broker.state_changes,
            metrics=self._broker.metrics,
            channel_settings=channel_settings(
                config, broker_id, client[config.listeners.controller_uses]
            ),
            logs_in_by_sasl=self.session.logs_in_by_sasl,
        )
        self.runtime.follow(metadata.source.router)
        self._broker.stops.add(
            StopStep.CONTROLLER, lambda: asyncio.to_thread(self.runtime.shutdown)
        )
        self._broker.changes.brokers.append(self._broker_changed)
        self._broker.changes.unclean_topics.append(self._topic_became_unclean)
        self.administration = zookeeper_administration(
            self.session,
            self._broker.executor,
            metadata.config,
            SystemRandom(),
            controller=self.runtime,
            features=metadata.features,
            acl_store=metadata.source.acl_store,
            token_store=metadata.token_store,
        )

    @property
    def is_controller_at_work(self) -> bool:
        """Whether the controller candidate is processing an event now.  For any thread."""
        return self.runtime.is_at_work

    def register_first(self) -> None:
        """Registers the broker for the first time.  Blocks.

        ConfigInvalid if another live broker advertises one of the endpoints.
        """
        check_endpoints(self.session, self._metadata.broker_id, self._endpoints)
        self._metadata.broker_epoch = self._registration().register()

    def start(self) -> None:
        """Starts the controller candidate, and follows changes in ZooKeeper."""
        self.runtime.start()
        metadata, stops = self._metadata, self._broker.stops
        stops.add(StopStep.FOLLOWING, *(each.stop for each in metadata.refreshers))
        if metadata.token_store is not None:
            sweep = TokenSweep(
                metadata.token_store,
                metadata.static_config.integer("delegation.token.expiry.check.interval.ms"),
                lambda: self.runtime.is_active,
                self._broker.executor,
            )
            stops.add(StopStep.FOLLOWING, sweep.stop)
            sweep.start()
        for refresher, paths in metadata.refreshers.items():
            refresher.follow(metadata.source.router, *paths)
            refresher.start()

    def advertise(self, endpoints: Sequence[Endpoint]) -> None:
        """Replaces the endpoints in the broker's registration.  Blocks."""
        self._endpoints = tuple(endpoints)
        self._registration().update()

    async def controlled_shutdown(self) -> None:
        """Asks the controller to move the leaderships of this broker."""
        metadata = self._metadata
        config = metadata.static_config
        await ControlledShutdownClient(
            metadata.broker_id,
            lambda: metadata.broker_epoch,
            config,
            metadata.metadata_cache,
            self._client[config.listeners.inter_broker],
        ).run()

    def _registration(self) -> ZooKeeperRegistration:
        config = self._metadata.static_config
        return ZooKeeperRegistration(
            self.session,
            Broker(self._metadata.broker_id, self._endpoints, config.text("broker.rack")),
            broker_znode_version(config.inter_broker_version),
            config.integer("zookeeper.session.timeout.ms"),
            self._broker.stops.is_stopping,
        )

    def _register_again(self) -> int:
        """Registers in a new ZooKeeper session; returns the broker epoch.

        Runs in the controller's event thread.
        """
        try:
            self._metadata.broker_epoch = self._registration().register()
        except BrokerIdInUse as in_use:
            _log.error(
                "[KafkaServer id=%d] This broker cannot go on: %s",
                self._metadata.broker_id,
                in_use,
            )
            self._broker.fail()
            raise
        self._broker.on_registered()
        return self._metadata.broker_epoch

    def _broker_changed(self, before: BrokerConfig, after: BrokerConfig) -> None:
        enabled = after.is_enabled(UNCLEAN_LEADER_ELECTION_ENABLE)
        if enabled != before.is_enabled(UNCLEAN_LEADER_ELECTION_ENABLE):
            self.runtime.put(UncleanLeaderElectionEnable(enabled))

    def _topic_became_unclean(self, topic: str) -> None:
        if self.runtime.is_active:
            self.runtime.put(TopicUncleanLeaderElectionEnable(topic))


def zookeeper_administration(
    session: ZooKeeperSession,
    executor: Executor,
    config: Callable[[], BrokerConfig],
    random: Random,
    *,
    controller: ControllerCandidate,
    features: FinalizedFeatures,
    acl_store: AclStore | None = None,
    token_store: DelegationTokenStore | None = None,
) -> Administration:
    """The administrative operations of request handlers, performed on ZooKeeper in ``executor``."""
    return Administration(
        controller=controller,
        topics=TopicAdmin(session, executor, config, random),
        admin=ZooKeeperAdmin(session, executor),
        features=features,
        acls=None if acl_store is None else AclsInZooKeeper(acl_store, executor),
        token_admin=None if token_store is None else TokensInZooKeeper(token_store, executor),
    )


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
