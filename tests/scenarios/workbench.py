"""One controller's machines on a bench: a context made by hand, a ZooKeeper, what is sent decoded.

For what a whole cluster cannot be brought to on purpose: a transition that must be refused, a write
that ZooKeeper refuses, a request at an old protocol version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from kafka_common.model import LeaderAndIsr
from zkcontroller.core.config import ControllerConfig
from zkcontroller.core.effects import (
    LogLine,
    Procedure,
    RequestResponse,
    SendControlRequest,
    StateChanges,
)
from zkcontroller.core.partition_states import PartitionStateMachine
from zkcontroller.core.replica_states import ReplicaStateMachine
from zkcontroller.core.states import PartitionState, ReplicaState
from zkcontroller.core.tools import ControllerTools
from zkcontroller.core.topic_deletion import TopicDeletionManager
from zkcontroller.state_changes.record import Kind, StateChange
from zkcontroller.zookeeper.requests import (
    Create,
    FencedBatch,
    ReadZnodes,
    SetData,
    ZkCode,
    ZkRequest,
)
from zkcontroller.zookeeper.znodes import ControllerEpochZnode, PartitionStateZnode
from zkcontroller_simulation.control_requests import ControlRequest, decode
from zkcontroller_simulation.registration import broker_of
from zkcontroller_simulation.zookeeper import SimulatedSession, SimulatedZooKeeper

T = TypeVar("T")
CONTROLLER_ID = 1
EPOCH = 5


class Workbench:
    """Brokers 1 to 3 are live, controller 1 rules in epoch 5, there is no partition."""

    def __init__(self, live: Sequence[int] = (1, 2, 3), **settings: object) -> None:
        self.zookeeper = SimulatedZooKeeper()
        self.session = SimulatedSession(self.zookeeper)
        self.session.start()
        self.session.create_missing(["/brokers/topics", "/config/topics", "/admin/delete_topics"])
        self.session.write(Create(ControllerEpochZnode.PATH, b"%d" % EPOCH))
        self.tools = ControllerTools(ControllerConfig(broker_id=CONTROLLER_ID, **settings))  # type: ignore[arg-type]
        self.context = self.tools.context
        self.context.epoch = EPOCH
        self.context.epoch_zk_version = 0
        self.set_live(live)
        self.partitions = PartitionStateMachine(self.tools)
        self.replicas = ReplicaStateMachine(self.tools)
        self.deletion = TopicDeletionManager(self.tools, self.partitions, self.replicas)
        self.refusals: dict[str, ZkCode] = {}
        """Paths that ZooKeeper refuses to read or write, once each."""
        self.meanwhile: Callable[[], None] | None = None
        """Happens once, just before the next write lands."""
        self.sent: list[tuple[int, ControlRequest]] = []
        """Every request, with the broker it was for."""
        self.records: list[StateChange] = []
        self.lines: list[LogLine] = []
        self.responses: list[RequestResponse] = []
        self.questions: list[ZkRequest] = []

    # ------------------------------------------------------------------ making a context

    def set_live(self, broker_ids: Sequence[int]) -> None:
        """Exactly these brokers are registered, each with epoch 100 + its id."""
        self.context.set_live_brokers([(broker_of(b), 100 + b) for b in broker_ids])

    def add(
        self,
        topic: str,
        partition: int,
        replicas: Sequence[int],
        *,
        state: PartitionState = PartitionState.NON_EXISTENT,
        replica_states: Mapping[int, ReplicaState] | None = None,
        led_by: LeaderAndIsr | None = None,
    ) -> int:
        """A partition in memory, and its state znode if it has a leader; its row."""
        self.session.create_missing([f"/brokers/topics/{topic}"])
        table = self.context.table
        row = table.add(table.add_topic(topic, None), partition, tuple(replicas))
        if led_by is not None:
            self.write_state(topic, partition, led_by)
            table.put_leader_and_isr({row: led_by})
        self.context.put_partition_state(row, state)
        for broker_id, replica_state in (replica_states or {}).items():
            table.put_replica_state(row, broker_id, replica_state)
        return row

    def write_state(self, topic: str, partition: int, state: LeaderAndIsr) -> None:
        """The state znode as someone else writes it."""
        path = PartitionStateZnode.path(topic, partition)
        data = PartitionStateZnode(
            state.leader,
            state.leader_epoch,
            state.in_sync_replicas,
            state.controller_epoch,
            state.leader_recovery_state,
        ).encode()
        self.session.create_missing([path])
        self.session.write(SetData(path, data))

    def led(
        self, leader: int, isr: Sequence[int], *, leader_epoch: int = 0, zk_version: int = 1
    ) -> LeaderAndIsr:
        """A state as :meth:`write_state` leaves it on a fresh path: znode version 1."""
        return LeaderAndIsr(leader, leader_epoch, tuple(isr), zk_version, EPOCH)

    def state_znode(self, topic: str, partition: int) -> PartitionStateZnode:
        """What the state znode holds."""
        path = PartitionStateZnode.path(topic, partition)
        znode = self.zookeeper.peek(path)
        assert znode is not None, f"{path} does not exist"
        return PartitionStateZnode.decode(path, znode.data)

    # ------------------------------------------------------------------ running

    def run(self, procedure: Procedure[T]) -> T:
        """Drives the procedure to its end and gathers what it did."""
        response: Any = None
        try:
            while True:
                question = procedure.send(response)
                assert not hasattr(question, "broker_id")
                self.questions.append(question)  # type: ignore[arg-type]
                response = self._answer(question)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            self.gather()

    def _answer(self, question: Any) -> Any:
        if isinstance(question, FencedBatch) and self.meanwhile is not None:
            happens, self.meanwhile = self.meanwhile, None
            happens()
        response = self.session.perform(question)
        if isinstance(question, FencedBatch):
            paths = [operation.path for operation in question.operations]
        elif isinstance(question, ReadZnodes):
            paths = list(question.paths)
        else:
            return response
        return [self.refusals.pop(path, one) for path, one in zip(paths, response, strict=True)]

    def gather(self) -> None:
        """Decodes and keeps what was done since the last time."""
        for effect in self.tools.outbox:
            match effect:
                case SendControlRequest(broker_id, api_key, version, body):
                    self.sent.append((broker_id, decode(api_key, version, b"".join(body))))
                case StateChanges(records):
                    self.records.extend(records)
                case LogLine():
                    self.lines.append(effect)
                case RequestResponse():
                    self.responses.append(effect)
                case _:
                    pass
        self.tools.outbox.clear()

    # ------------------------------------------------------------------ seeing

    def sent_to(self, broker_id: int, kind: type[T]) -> list[T]:
        """The requests of that kind for that broker."""
        return [
            request for to, request in self.sent if to == broker_id and isinstance(request, kind)
        ]

    def receivers(self, kind: type) -> list[int]:
        """Who got a request of that kind, in order."""
        return [to for to, request in self.sent if isinstance(request, kind)]

    def failures(self, kind: Kind) -> list[str]:
        """The causes of the refused transitions."""
        return [record.cause or "" for record in self.records if record.kind is kind]

    def partition_state(self, row: int) -> PartitionState:
        """The state of a partition."""
        return PartitionState(self.context.table.partition_state[row])

    def replica_state(self, row: int, broker_id: int) -> ReplicaState:
        """The state of a replica."""
        return self.context.table.replica_state(row, broker_id)
