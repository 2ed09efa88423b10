"""A second source of metadata, in memory: shows that a broker runs without ZooKeeper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import cast

from kafka_common.model import Endpoint
from kafka_common.net.client_security import ClientSecurity
from replica_manager.broker.metadata_source import BrokerSide
from replica_manager.broker.stops import StopStep
from replica_manager.broker.zookeeper_metadata import zookeeper_administration
from replica_manager.configuration.config import BrokerConfig
from replica_manager.replication.replication_tasks import ControllerEpochOf
from replica_manager.replication.zk_metadata_cache import ZkMetadataCache
from replica_manager.server.zookeeper_handlers import HANDLERS
from tests.support.broker_world import BrokersSession, NoController, SwitchedController
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller_simulation.zookeeper_server import SimulatedZooKeeper

CLUSTER_ID = "cluster-in-memory"
BROKER_EPOCH = 7


class Unreachable(Exception):
    """What a source raises that cannot be reached."""


class NoFeatures:
    """No feature was ever finalized."""

    epoch = -1

    async def reaches(self, epoch: int, timeout_ms: int) -> bool:
        assert timeout_ms >= 0
        return epoch <= self.epoch


class CountedIds:
    """Producer ids from 0 on."""

    def __init__(self) -> None:
        self._next = 0

    async def next_id(self) -> int:
        self._next += 1
        return self._next - 1

    async def stop(self) -> None:
        """Nothing runs."""


class MemorySource:
    """The three Protocols of the seam in one; notes what a broker calls, and may fail there."""

    def __init__(
        self, config: BrokerConfig, executor: ThreadPoolExecutor, fails_at: str = ""
    ) -> None:
        self.current = config
        self.handlers = HANDLERS
        self.called: list[str] = []
        self.stopped: list[str] = []
        self.advertised: tuple[Endpoint, ...] = ()
        self.broker_epoch = -1
        self.is_controller_at_work = False
        self._executor = executor
        self._fails_at = fails_at

    def open(self, broker: BrokerSide) -> MemorySource:
        self.broker = broker
        session = BrokersSession(SimulatedZooKeeper())
        session.start()
        self.administration = zookeeper_administration(
            cast(ZooKeeperSession, session),  # no test here administers anything
            self._executor,
            self.config,
            Random(7),
            controller=SwitchedController(),
            features=NoFeatures(),
        )
        return self

    # A source

    async def connect(self) -> str:
        self._stop_later(StopStep.METADATA)
        self._note("connect")
        return CLUSTER_ID

    def new_broker_id(self, reserved_max_id: int) -> int:
        self._note("new_broker_id")
        return reserved_max_id + 1

    def metadata_of(self, broker_id: int, metadata_cache: ZkMetadataCache) -> MemorySource:
        assert broker_id > 0
        assert metadata_cache.snapshot.controller_id is None
        self._note("metadata_of")
        return self

    # The metadata of a broker

    def config(self) -> BrokerConfig:
        return self.current

    async def load_tokens(self) -> None:
        self._note("load_tokens")

    async def load_broker_config(self) -> None:
        self._note("load_broker_config")

    async def load_client_configs(self) -> None:
        self._note("load_client_configs")

    async def load_topic_configs(self, topics: Sequence[str] | None = None) -> None:
        assert topics is None
        self._note("load_topic_configs")

    async def partition_count(self, topic: str) -> int | None:
        self._note(f"partition_count {topic}")
        return None

    async def is_topic_deleted(self, topic: str) -> bool:
        self._note(f"is_topic_deleted {topic}")
        return False

    def log_dir_failed(self) -> None:
        self._note("log_dir_failed")

    def producer_ids(self, client: Mapping[str, ClientSecurity]) -> CountedIds:
        assert client
        self._stop_later(StopStep.PRODUCER_IDS)
        self._note("producer_ids")
        return CountedIds()

    def isr_route(
        self, client: Mapping[str, ClientSecurity], controller_epoch: ControllerEpochOf
    ) -> NoController:
        assert client
        assert callable(controller_epoch)
        self._note("isr_route")
        return NoController()

    async def join(
        self, endpoints: Sequence[Endpoint], client: Mapping[str, ClientSecurity]
    ) -> MemorySource:
        assert client
        self._stop_later(StopStep.CONTROLLER)
        self._note("join")
        self.advertised = tuple(endpoints)
        self.broker_epoch = BROKER_EPOCH
        return self

    # Membership

    def start(self) -> None:
        self._stop_later(StopStep.FOLLOWING)
        self._note("start")

    def advertise(self, endpoints: Sequence[Endpoint]) -> None:
        self._note("advertise")
        self.advertised = tuple(endpoints)

    async def controlled_shutdown(self) -> None:
        self._note("controlled_shutdown")

    # What tests do

    def change(self, after: BrokerConfig) -> None:
        """The configuration of the broker is another one, as a source passes it on.  Blocks."""
        before = self.current
        self.broker.changes.prepare(before, after)
        self.current = after
        self.broker.changes.broker_changed(before, after)

    def _note(self, call: str) -> None:
        self.called.append(call)
        if call == self._fails_at:
            raise Unreachable(call)

    def _stop_later(self, step: StopStep) -> None:
        async def stop() -> None:
            self.stopped.append(step.value)

        self.broker.stops.add(step, stop)
