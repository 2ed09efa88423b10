"""A broker without sockets and without ZooKeeper's wire, for tests of what it answers.

The metadata cache, the replica manager, the handlers and the dispatcher are the real ones;
ZooKeeper is the one in memory, which the contract tests hold to the real one's behaviour; the
controller is a switch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any, cast
from uuid import UUID

from kio.schema.errors import ErrorCode
from msgspec.structs import replace
from typing_extensions import override

from kafka_common.model import Broker, Endpoint, TopicPartition
from kafka_common.net.client_security import PLAINTEXT
from kafka_common.observability.metrics import Metrics
from kafka_common.protocol.inter_broker_versions import version_of
from kafka_common.protocol.messages import read_response, write
from replica_manager.broker.broker_records import BrokerRecords
from replica_manager.broker.feature_epoch import FeatureEpoch
from replica_manager.broker.zookeeper_metadata import zookeeper_administration
from replica_manager.configuration.config import BrokerConfig
from replica_manager.coordinators.group_settings import partition_count
from replica_manager.coordinators.transaction_settings import is_topic_deleted
from replica_manager.log.log_manager import LogManager
from replica_manager.log.maintenance import LogMaintenance
from replica_manager.log.unified_log import UnifiedLog
from replica_manager.network.connection import Peer
from replica_manager.quotas.mutation_quotas import MutationQuotas
from replica_manager.quotas.quota_managers import QuotaManagers
from replica_manager.quotas.rate_quotas import QuotaWindows
from replica_manager.replication.control_requests import LeaderAndIsrRequest
from replica_manager.replication.disk_logs import DiskLogs
from replica_manager.replication.isr_proposals import AlterPartitionCall
from replica_manager.replication.leader_and_isr import become_leader_or_follower
from replica_manager.replication.partition import LeaderAndIsrPartitionState
from replica_manager.replication.replica_log import ABSENT_LOG, ReplicaLog
from replica_manager.replication.throttle import ReplicationThrottles
from replica_manager.replication.zk_metadata_cache import (
    MetadataUpdate,
    PartitionMetadata,
    TopicMetadata,
    ZkMetadataCache,
)
from replica_manager.security.acl_cache import AclBinding
from replica_manager.security.acl_store import AclStore
from replica_manager.security.authorizer import Authorizer
from replica_manager.security.dynamic_passwords import DynamicPasswords
from replica_manager.security.dynamic_tls import ListenerSecurities
from replica_manager.security.principals import ANONYMOUS
from replica_manager.server.configs.reconfiguring import Reconfiguring
from replica_manager.server.context import BrokerContext
from replica_manager.server.producer_ids import ProducerIdsFromZooKeeper
from replica_manager.server.zookeeper_admin import AclsInZooKeeper
from replica_manager.server.zookeeper_handlers import HANDLERS
from tests.support.frames import parse_response_header, request_header, response_frame
from tests.support.steps import completed
from zkcontroller.core.effects import ControlledShutdownResult, Result
from zkcontroller.core.events import RequestEvent
from zkcontroller.state_changes.kafka_lines import kafka_line
from zkcontroller.state_changes.record import Kind, StateChange
from zkcontroller.zookeeper.requests import (
    CheckExists,
    Create,
    ListChildren,
    SetData,
    Stat,
    ZkCode,
    Znode,
)
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import (
    PERSISTENT_PATHS,
    ControllerZnode,
    FeatureStatus,
    FeatureZnode,
)
from zkcontroller_simulation.zookeeper import SimulatedSession
from zkcontroller_simulation.zookeeper_server import SimulatedZooKeeper

CORRELATION_ID = 77
BROKER_EPOCH = 1000
ORDERS_ID = UUID(int=0x0123456789ABCDEF0123456789ABCDEF)


class SwitchedController:
    """A controller candidate that is active when the test says so."""

    def __init__(self) -> None:
        self.is_active = True
        self.result = ControlledShutdownResult(ErrorCode.none)
        self.asked: list[tuple[int, int]] = []
        self.answer: Result | None = None
        self.requests: list[RequestEvent] = []
        self.timeouts_ms: list[int] = []

    async def controlled_shutdown(
        self, broker_id: int, broker_epoch: int
    ) -> ControlledShutdownResult:
        self.asked.append((broker_id, broker_epoch))
        return self.result

    async def ask(self, make: Callable[[int], RequestEvent], timeout_ms: int = 0) -> Result | None:
        self.requests.append(make(len(self.requests)))
        self.timeouts_ms.append(timeout_ms)
        return self.answer


class NoLogs:
    """No logs: every replica is empty."""

    def open(self, _: TopicPartition, __: UUID | None, *, is_new: bool) -> ReplicaLog:  # noqa: ARG002
        """An absent log."""
        return ABSENT_LOG

    def delete(self, _: TopicPartition) -> None:
        """Deletes nothing."""


class WorldStorage:
    """Where a :class:`BrokerWorld` keeps records: on disk without regular upkeep, or nowhere."""

    cleaner = None
    has_cleaner_ended = False

    def __init__(self, world: BrokerWorld, log_dirs: Sequence[Path]) -> None:
        self._executor = world.executor
        self.logs = LogManager(log_dirs, lambda: world.now_ms)
        self.logs.load({})
        self.disk_logs = DiskLogs(self.logs, lambda: world.config.values, 1)
        self.replica_logs = self.disk_logs if log_dirs else NoLogs()

    def min_in_sync_replicas(self, topic: str) -> int:
        return self.disk_logs.min_in_sync_replicas(topic)

    async def flush(self, log: UnifiedLog) -> None:
        """Flushes a log, as a broker does."""
        await LogMaintenance(self.logs, self._executor).flush(log)

    async def flush_to_end(self, topic_partition: TopicPartition) -> None:
        """Flushes a partition's log, as a broker does."""
        await LogMaintenance(self.logs, self._executor).flush_to_end(topic_partition)


class NoController:
    """No proposal of in-sync replicas arrives."""

    async def propose(self, call: AlterPartitionCall, /) -> None:
        assert call.partitions

    async def close(self) -> None:
        """Nothing is open."""


class BrokersSession(SimulatedSession):
    """A session whose convenience may leave a watch, as the real one's may."""

    @override
    def exists(self, path: str, watch: bool = False) -> Stat | ZkCode:
        return self.perform(CheckExists([path], watch))[0]

    @override
    def children(self, path: str, watch: bool = False) -> list[str] | ZkCode:
        return self.perform(ListChildren([path], watch))[0]


class BrokerWorld:
    """Broker 1, and what a test needs to look into it."""

    def __init__(
        self,
        executor: ThreadPoolExecutor,
        *,
        log_dirs: Sequence[Path] = (),
        **properties: str,
    ) -> None:
        """Without ``log_dirs`` replicas have no logs."""
        given = {name.replace("__", "."): value for name, value in properties.items()}
        self.config = BrokerConfig.parse({"zookeeper.connect": "memory:1", **given})
        self.records: list[StateChange] = []
        self.now_ms = 0
        self.is_tracing = False
        self.cache = ZkMetadataCache(1)
        self.executor = executor
        self.storage = WorldStorage(self, log_dirs)
        self.logs, self.disk_logs = self.storage.logs, self.storage.disk_logs
        self.session = BrokersSession(SimulatedZooKeeper())
        self.session.start()
        self.session.create_missing(PERSISTENT_PATHS)
        self.session.write(Create(ControllerZnode.PATH, ControllerZnode(1, 0).encode()))
        # The two sessions share their interface by the contract tests, not by a base class.
        session = cast(ZooKeeperSession, self.session)
        self.controller = SwitchedController()
        self.features = FeatureEpoch(session, 1, version_of("3.9-IV0"))
        self.administration = zookeeper_administration(
            session,
            executor,
            lambda: self.config,
            Random(7),
            controller=self.controller,
            features=self.features,
        )
        self.topics = self.administration.topics
        self.mutation_quotas = MutationQuotas(11, lambda: self.now_ms)
        self.now_ns = 0
        self.ns_per_look = 0
        """By how much the clock by which requests are timed moves when it is read."""
        self.principal = ANONYMOUS
        """Who asks."""
        self.is_closed = False
        """Whether the last answer ended the connection."""
        self.mute_ms = 0
        """For how long the last client was not listened to after its answer."""
        self.metrics = Metrics()
        self.quotas = QuotaManagers(
            self.mutation_quotas,
            QuotaWindows(),
            self.metrics,
            lambda: self.now_ms,
            self.look_at_clock,
        )
        producer_ids = ProducerIdsFromZooKeeper(session, executor, 1)
        self.throttles = ReplicationThrottles(1, lambda: self.now_ms)
        self.parts = BrokerRecords(
            1,
            lambda: self.config,
            self.storage,
            self.throttles,
            self.cache,
            isr_route=lambda _: NoController(),
            security={self.config.listeners.inter_broker: PLAINTEXT},
            broker_epoch=lambda: BROKER_EPOCH,
            state_changes=self,
            new_producer_id=producer_ids.next_id,
            is_topic_deleted=self.is_topic_deleted,
            partition_count=self.partition_count,
            is_tracing=lambda: self.is_tracing,
            metrics=self.metrics,
            now_ms=lambda: self.now_ms,
        )
        services = self.parts.services
        self.replicas = services.replica_manager
        self.appends, self.reads = services.appends, services.reads
        self.groups, self.transactions = services.groups, services.transactions
        self.verification = services.verification
        self.log_dir_moves, self.topic_stats = services.log_dir_moves, services.topic_stats
        self.context = BrokerContext(
            records=services,
            administration=self.administration,
            handlers=HANDLERS,
            broker_id=1,
            cluster_id="cluster",
            config=lambda: self.config,
            metadata_cache=self.cache,
            logs=self.logs,
            learn_topics=self.learn_topics,
            producer_ids=producer_ids,
            reconfiguring=Reconfiguring(
                executor, DynamicPasswords(self.config.values), ListenerSecurities(self.config)
            ),
            quotas=self.quotas,
            broker_epoch=lambda: BROKER_EPOCH,
        )

    def write(self, records: Sequence[StateChange]) -> None:
        """Notes records of state changes."""
        self.records.extend(records)

    def guard_by(self, authorizer: Authorizer) -> None:
        """Installs an authorizer, which takes its rules from ZooKeeper."""
        session = cast(ZooKeeperSession, self.session)
        self.acl_store = AclStore(session, authorizer, sleep=lambda _: None)
        self.acl_store.load()
        self.context.authorizer = authorizer
        acls = AclsInZooKeeper(self.acl_store, self.executor)
        self.context.administration = replace(self.context.administration, acls=acls)

    def create_acls(self, bindings: Sequence[AclBinding]) -> Sequence[ErrorCode]:
        """Adds rules of that authorizer; one result each."""
        return self.acl_store.create(bindings)

    def look_at_clock(self) -> int:
        """Nanoseconds."""
        self.now_ns += self.ns_per_look
        return self.now_ns

    async def learn_topics(self, topics: Sequence[str]) -> None:
        """Nothing: no topic has a configuration of its own."""

    async def partition_count(self, topic: str) -> int | None:
        """As ZooKeeper has it."""
        return partition_count(cast(ZooKeeperSession, self.session), topic)

    async def is_topic_deleted(self, topic: str) -> bool:
        """As ZooKeeper has it."""
        return is_topic_deleted(cast(ZooKeeperSession, self.session), topic)

    def lead(
        self,
        topic: str,
        partition: int = 0,
        *,
        leader: int = 1,
        isr: tuple[int, ...] = (1,),
        replicas: tuple[int, ...] = (1,),
        leader_epoch: int = 0,
        topic_id: UUID | None = None,
    ) -> TopicPartition:
        """What the controller's requests for a partition would do, to the cache and the replica."""
        tp = TopicPartition(topic, partition)
        self.update(
            {topic: {partition: metadata(leader, isr=isr, replicas=replicas)}},
            topic_ids={topic: topic_id} if topic_id else None,
        )
        state = LeaderAndIsrPartitionState(
            1, leader, leader_epoch, isr, 0, replicas, (), (), True, 0
        )
        result = completed(
            become_leader_or_follower(
                self.replicas,
                LeaderAndIsrRequest(1, 1, -1, {tp: state}, {topic: topic_id} if topic_id else {}),
                CORRELATION_ID,
            )
        )
        assert result.partitions == {tp: ErrorCode.none}
        return tp

    async def ask(self, request: Any, *, listener_name: str = "PLAINTEXT") -> Any:
        """The response to a kio request, over the wire format both ways."""
        api_key, version = int(request.__api_key__), int(request.__version__)
        header = request_header(api_key, version, CORRELATION_ID, "test")
        response = await self.ask_raw(header + write(request), listener_name=listener_name)
        correlation_id, start = parse_response_header(api_key, version, response)
        assert correlation_id == CORRELATION_ID
        return read_response(api_key, version, response, start)

    async def ask_raw(self, data: bytes, *, listener_name: str = "PLAINTEXT") -> bytes:
        """The answer to a frame, both without their size."""
        peer = Peer(listener_name, "192.0.2.1", self.principal)
        response = await response_frame(data, peer, self.context)
        self.mute_ms = response.mute_ms
        self.is_closed = response.closes
        frame = response.frame + b"".join(
            part if isinstance(part, bytes) else part.read() for part in response.rest
        )
        for tell in response.sent:
            tell()
        assert not frame or int.from_bytes(frame[:4], "big") == len(frame) - 4
        return frame[4:]

    def update(
        self,
        topics: Mapping[str, Mapping[int, PartitionMetadata]] | None = None,
        *,
        brokers: Sequence[Broker] = (),
        topic_ids: Mapping[str, UUID] | None = None,
        controller_id: int = 1,
        controller_epoch: int = 1,
    ) -> ErrorCode:
        """What an UpdateMetadata request would do."""
        error, _ = completed(
            self.replicas.update_metadata(
                MetadataUpdate(
                    api_version=8,
                    controller_id=controller_id,
                    controller_epoch=controller_epoch,
                    broker_epoch=-1,
                    topics=[
                        TopicMetadata(topic, (topic_ids or {}).get(topic), list(states.items()))
                        for topic, states in (topics or {}).items()
                    ],
                    live_brokers=brokers or [broker(1), broker(2), broker(3)],
                ),
                CORRELATION_ID,
            )
        )
        self.topics.waiters.changed(topics or ())
        return error

    def write_features(self) -> int:
        """Writes ``/feature`` once more, which the broker has not read yet; the version."""
        path, data = FeatureZnode.PATH, FeatureZnode({}, FeatureStatus.ENABLED, 2).encode()
        if self.znode(path) is None:
            self.session.write(Create(path, data))
            return 0
        written = self.session.write(SetData(path, data))
        assert not isinstance(written, ZkCode)
        return written.zk_version

    def znode(self, path: str) -> Znode | None:
        """What stands at ``path``; None if nothing does."""
        found = self.session.read(path)
        return None if isinstance(found, ZkCode) else found

    def check_records(self) -> None:
        """Every record so far has what its line in Kafka's log needs."""
        for record in self.records:
            assert kafka_line(record) is not None, record

    def kinds(self) -> list[Kind]:
        """The kinds of the records so far."""
        return [record.kind for record in self.records]


def broker(
    broker_id: int, *listener_names: str, rack: str | None = None, host: str | None = None
) -> Broker:
    """A broker that has those listeners; PLAINTEXT if none is named."""
    names = listener_names or ("PLAINTEXT",)
    return Broker(
        broker_id,
        tuple(
            Endpoint(host or f"host{broker_id}", 9092 + index, name, "PLAINTEXT")
            for index, name in enumerate(names)
        ),
        rack,
    )


def metadata(
    leader: int,
    *,
    isr: tuple[int, ...] = (1, 2, 3),
    replicas: tuple[int, ...] = (1, 2, 3),
    leader_epoch: int = 0,
    offline: tuple[int, ...] = (),
) -> PartitionMetadata:
    """A partition in the metadata cache."""
    return PartitionMetadata(1, leader, leader_epoch, isr, 0, replicas, offline)
