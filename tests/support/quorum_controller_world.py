"""Quorum controllers over one log: who leads and what is committed is the test's to say.

The log keeps records as bytes, so whatever a controller writes has been through the codec.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from typing import Any, TypeVar
from uuid import UUID

from kafka_common.api_error import ApiException
from kafka_common.errors import NotLeader
from kraft.controller.cluster_requests import BrokerRegistrationReply, BrokerRegistrationRequest
from kraft.controller.heartbeats import BrokerHeartbeat, BrokerHeartbeatReply
from kraft.controller.quorum_controller import QuorumController
from kraft.controller.quorum_controller_events import WriteEvent
from kraft.controller.quorum_controller_operations import WriteOperation
from kraft.controller.quorum_controller_requests import (
    ControllerRequest,
    CreateTopics,
    ProcessBrokerHeartbeat,
    RegisterBroker,
)
from kraft.controller.quorum_controller_state import ControllerEnvironment, QuorumControllerConfig
from kraft.controller.quorum_controller_values import (
    CommitHandled,
    CommittedBatch,
    ControllerInput,
    ControllerOutput,
    ControllerRequestCompleted,
    ControllerRequestFailed,
    ControllerRequestReceived,
    LeaderChanged,
    NonFatalFault,
    QueueMark,
)
from kraft.controller.quorum_features import QuorumFeatures, default_feature_map
from kraft.controller.replica_placer import StripedReplicaPlacer
from kraft.controller.result import MAX_RECORDS_PER_BATCH, ControllerResult, VersionedRecord
from kraft.controller.topic_requests import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from kraft.metadata.bootstrap import BootstrapMetadata
from kraft.metadata.codec import decode_record, encode_record
from kraft.metadata.metadata_version import FEATURE_NAME, from_name
from kraft.metadata.records import BrokerEndpoint, BrokerFeature, MetadataRecord
from kraft.node.controller_configuration import BrokerConfigSchema, BrokerConfigValidator
from kraft.raft.values import LeaderAndEpoch
from replica_manager.configuration.broker_keys import BROKER_KEYS

T = TypeVar("T")

CLUSTER_ID = "cluster"
QUIET = QuorumControllerConfig(0, CLUSTER_ID, max_idle_interval_ms=None)
"""A controller that writes nothing of its own accord."""
SCHEMA = BrokerConfigSchema()
VALIDATOR = BrokerConfigValidator({name: key.default for name, key in BROKER_KEYS.items()})


@dataclass
class Batch:
    """A batch of the log; none of the controller's records in one of the quorum itself."""

    base_offset: int
    epoch: int
    values: list[bytes] = field(default_factory=list)

    @property
    def last_offset(self) -> int:
        return self.base_offset + max(len(self.values), 1) - 1

    def committed(self, now_ms: int) -> CommittedBatch:
        records = tuple(decode_record(value) for value in self.values)
        return CommittedBatch(self.base_offset, self.last_offset, self.epoch, now_ms, records)


@dataclass
class SharedLog:
    """The log that the controllers have in common."""

    batches: list[Batch] = field(default_factory=list)
    leader: LeaderAndEpoch = LeaderAndEpoch(None, 0)  # noqa: RUF009 - a value that never changes
    committed: int = 0
    """How many batches are."""
    is_slow: bool = False
    """Whether batches are committed only when the test says so."""

    @property
    def end_offset(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else 0


class RaftOfNode:
    """The quorum as one controller sees it."""

    def __init__(self, node_id: int, log: SharedLog) -> None:
        self.node_id = node_id
        self.log = log
        self.kraft_version = 0
        self.resigned: list[int] = []
        self._prepared: list[Batch] = []

    @property
    def leader_id(self) -> int | None:
        return self.log.leader.leader_id

    @property
    def log_end_offset(self) -> int:
        return self.log.end_offset

    def prepare_append(self, epoch: int, values: Sequence[bytes]) -> int:
        assert values, "an append without records"
        if self.log.leader != (self.node_id, epoch):
            raise NotLeader(f"epoch {epoch} is over")
        self._prepared.append(Batch(self.log.end_offset, epoch, list(values)))
        return self._prepared[-1].last_offset

    def schedule_prepared_append(self) -> None:
        self.log.batches += self._prepared
        self._prepared.clear()

    def resign(self, epoch: int) -> None:
        self.resigned.append(epoch)


class QuorumWorld:
    """Controllers 3000, 3001, … of one cluster."""

    def __init__(
        self,
        controllers: int = 1,
        version: str = "3.9",
        *,
        config: QuorumControllerConfig | None = None,
        bootstrap: BootstrapMetadata | None = None,
        max_records_per_batch: int = MAX_RECORDS_PER_BATCH,
        is_unstable_enabled: bool = False,
    ) -> None:
        self.now_ms = 1_000_000
        self.log = SharedLog()
        self.controllers: dict[int, QuorumController] = {}
        self.rafts: dict[int, RaftOfNode] = {}
        self.responses: dict[int, object] = {}
        self.faults: list[NonFatalFault] = []
        self._request_ids = count(1)
        self._uuids = count(1000)
        self._delivered: dict[int, int] = {}
        self._max_records_per_batch = max_records_per_batch
        self._bootstrap = bootstrap or BootstrapMetadata.from_versions(from_name(version))
        self._config = config or QuorumControllerConfig(0, CLUSTER_ID)
        self._features = default_feature_map(is_unstable_enabled=is_unstable_enabled)
        self._quorum = tuple(3000 + n for n in range(controllers))
        for node_id in self._quorum:
            self.start(node_id)

    @classmethod
    def led(cls, **options: Any) -> QuorumWorld:
        """A world whose first controller leads."""
        world = cls(**options)
        world.elect(3000)
        return world

    def start(self, node_id: int, **changes: object) -> QuorumController:
        """Starts a controller, perhaps again; it has read nothing yet."""
        environment = ControllerEnvironment(
            quorum_features=QuorumFeatures(node_id, self._features, self._quorum),
            config_schema=SCHEMA,
            config_validator=VALIDATOR,
            placer=StripedReplicaPlacer(Random(1)),
            new_uuid=lambda: UUID(int=next(self._uuids)),
            is_resolvable=str.isalnum,
            wall_time_ms=lambda: self.now_ms,
            nano_time=lambda: self.now_ms * 1_000_000,
        )
        raft = self.rafts[node_id] = RaftOfNode(node_id, self.log)
        changed = replace(self._config, node_id=node_id, **changes)  # type: ignore[arg-type] # as named
        controller = QuorumController(
            changed, environment, raft, self._bootstrap, self._max_records_per_batch
        )
        self.controllers[node_id] = controller
        self._delivered[node_id] = 0
        return controller

    # ------------------------------------------------------------------ the quorum

    @property
    def active(self) -> QuorumController:
        (active,) = [each for each in self.controllers.values() if each.is_active]
        return active

    @property
    def records(self) -> list[MetadataRecord]:
        """Every record of the log."""
        return [
            record
            for batch in self.log.batches
            for record, _ in batch.committed(self.now_ms).records
        ]

    def elect(self, node_id: int) -> QuorumController:
        """That node leads; what another leader did not commit is gone."""
        if self.log.leader.leader_id != node_id:
            del self.log.batches[self.log.committed :]
        epoch = self.log.leader.epoch + 1
        self.log.leader = LeaderAndEpoch(node_id, epoch)
        self.log.batches.append(Batch(self.log.end_offset, epoch))
        self.log.committed = len(self.log.batches)
        for each in sorted(self.controllers):
            self._deliver(each)
        # No one gets records of an epoch before it knows who leads in it.
        for each in sorted(self.controllers, key=lambda each: each == node_id):
            self.feed(each, LeaderChanged(self.log.leader))
        return self.controllers[node_id]

    def find(self, *records: MetadataRecord, version: int = 0) -> None:
        """The log holds these records, by a controller of Kafka that led it before."""
        values = [encode_record(record, version) for record in records]
        self.log.batches.append(Batch(self.log.end_offset, self.log.leader.epoch, values))
        self.commit()

    def commit(self) -> None:
        """The quorum commits everything that the log holds."""
        self.log.committed = len(self.log.batches)
        for node_id in sorted(self.controllers):
            self._deliver(node_id)

    def _deliver(self, node_id: int) -> None:
        begin, end = self._delivered[node_id], self.log.committed
        self._delivered[node_id] = max(begin, end)
        if begin < end:
            batches = tuple(batch.committed(self.now_ms) for batch in self.log.batches[begin:end])
            self.feed(node_id, CommitHandled(batches))

    # ------------------------------------------------------------------ inputs, outputs, time

    def feed(self, node_id: int, happened: ControllerInput | None) -> None:
        self.note(self.controllers[node_id].step(happened, self.now_ms))
        if not self.log.is_slow and self.log.committed < len(self.log.batches):
            self.commit()

    def note(self, outputs: Sequence[ControllerOutput]) -> None:
        for output in outputs:
            match output:
                case ControllerRequestCompleted():
                    assert output.request_id not in self.responses, "answered twice"
                    self.responses[output.request_id] = output.response
                case ControllerRequestFailed():
                    assert output.request_id not in self.responses, "answered twice"
                    self.responses[output.request_id] = output.error
                case NonFatalFault():
                    self.faults.append(output)
                case QueueMark():
                    raise AssertionError("no one has put a mark")

    def send(
        self, request: ControllerRequest, node_id: int | None = None, deadline_ms: int | None = None
    ) -> int:
        """Asks the active controller, or that one; the id of the request."""
        if node_id is None:
            (node_id,) = [each for each, node in self.controllers.items() if node.is_active]
        request_id = next(self._request_ids)
        self.feed(node_id, ControllerRequestReceived(request_id, request, deadline_ms))
        return request_id

    def ask(self, request: ControllerRequest, expected: type[T], node_id: int | None = None) -> T:
        """Asks, and hands back the answer."""
        response = self.responses[self.send(request, node_id)]
        assert isinstance(response, expected), response
        return response

    def refusal(self, request: ControllerRequest, node_id: int | None = None) -> ApiException:
        return self.ask(request, ApiException, node_id)

    def write(self, *records: MetadataRecord) -> None:
        """Has the active controller write records that no request leads to; raises its refusal."""
        refused: list[ApiException] = []
        result = ControllerResult.of([VersionedRecord(record, 0) for record in records], None)
        operation = WriteOperation(
            "write", lambda _: result, on_failure=lambda error, _: refused.append(error)
        )
        controller = self.active
        controller._queue.append(WriteEvent(operation))
        (node_id,) = [each for each, node in self.controllers.items() if node is controller]
        self.feed(node_id, None)
        for error in refused:
            raise error

    def advance(self, duration_ms: int) -> None:
        """Lets time go by; every controller wakes up when it wants to."""
        until = self.now_ms + duration_ms
        while True:
            times = {
                node_id: at_ms
                for node_id, controller in sorted(self.controllers.items())
                if (at_ms := controller.next_time_ms(self.now_ms)) is not None and at_ms <= until
            }
            if not times:
                break
            node_id = min(times, key=lambda each: times[each])
            self.now_ms = max(self.now_ms, times[node_id])
            self.feed(node_id, None)
        self.now_ms = until

    # ------------------------------------------------------------------ what tests often do

    def register(self, broker_id: int, incarnation: int = 1) -> int:
        """Registers a broker; its epoch."""
        request = BrokerRegistrationRequest(
            broker_id,
            CLUSTER_ID,
            UUID(int=(incarnation << 80) + broker_id),
            (BrokerEndpoint("PLAINTEXT", "localhost", 9092, 0),),
            (BrokerFeature(FEATURE_NAME, 1, 23),),
            log_dirs=(UUID(int=(1 << 64) + broker_id),),
        )
        return self.ask(RegisterBroker(request), BrokerRegistrationReply).epoch

    def heartbeat(self, broker_id: int, **changes: object) -> BrokerHeartbeatReply:
        """A heartbeat of a broker that has read the whole log."""
        broker = self.active.state.cluster.registration(broker_id)
        assert broker is not None
        offset = self.active.state.offsets.next_write_offset
        heartbeat = BrokerHeartbeat(broker_id, broker.epoch, offset)
        heartbeat = replace(heartbeat, **changes)  # type: ignore[arg-type] # as named
        return self.ask(ProcessBrokerHeartbeat(heartbeat), BrokerHeartbeatReply)

    def start_brokers(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self.register(broker_id)
            assert not self.heartbeat(broker_id).is_fenced

    def create_topic(self, name: str, *replicas: tuple[int, ...]) -> UUID:
        (created,) = self.ask(topic(name, *replicas), tuple)
        assert isinstance(created, CreatableTopicResult)
        assert not created.error.is_failure, created
        return created.topic_id


def topic(name: str, *replicas: tuple[int, ...], partitions: int = -1) -> CreateTopics:
    """The request for a topic whose partitions are there, or for so many of them."""
    assignments = tuple(CreatableReplicaAssignment(*item) for item in enumerate(replicas))
    factor = -1 if replicas else 1
    return CreateTopics(
        CreateTopicsRequest((CreatableTopic(name, partitions, factor, assignments),))
    )
