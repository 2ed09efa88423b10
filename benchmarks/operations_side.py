"""One side of :mod:`benchmarks.operations`: a cluster, its candidate, and what is done to it.

Every operation returns how long it took and what its brokers got; a script that compares sides
also compares those, and the znodes that each operation left.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from kio.schema.alter_partition_reassignments.v0.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.alter_partition_reassignments.v0.response import (
    AlterPartitionReassignmentsResponse,
)
from kio.schema.controlled_shutdown.v3.request import ControlledShutdownRequest
from kio.schema.controlled_shutdown.v3.response import ControlledShutdownResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32, i32Timedelta, i64
from kio.static.protocol import RequestPayload, ResponsePayload

from benchmarks.broker_process import BrokerProcess
from benchmarks.cluster_data import replicas_of, state_znode, topic_znode, write_cluster
from benchmarks.stall_probe import StallProbe
from benchmarks.stub_client import StubBrokers
from kafka_common.net.connection import Connection
from zkcontroller.zookeeper.requests import (
    Create,
    Delete,
    ReadZnodes,
    SetData,
    UnfencedBatch,
    Written,
    ZkCode,
    Znode,
)
from zkcontroller.zookeeper.session import ZooKeeperConfig, ZooKeeperSession

REPLICATION_FACTOR: Final = 3
PARTITIONS_PER_TOPIC: Final = 100
TIMEOUT_S: Final = 600.0
QUIET_MS: Final = 1_500
IDLE_SHARE: Final = 0.08
"""Of one processor: below this a broker whose stubs get nothing has nothing left to do."""
_PROBE_CPU_MS: Final = 150.0
"""What answering the stall probe costs a broker in one look of ``QUIET_MS``, at most."""
_POLL_S: Final = 0.01
BIG_TOPIC_PARTITIONS: Final = 10_000


class OperationFailedError(Exception):
    """An operation did not end, or did not do what it should; the sentence says which."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One operation as it was measured."""

    seconds: float
    cpu_s: float
    peak_rss_bytes: int
    waits_ms: list[float]
    """How long other clients of the broker waited meanwhile, one ping each."""
    told: Mapping[tuple[str, int], int]
    """Partitions in the requests, by (API, broker)."""
    requests: int


class OperationsSide:
    """A chroot with ``partitions`` x 3 on ``brokers`` listening brokers, and one candidate."""

    def __init__(
        self,
        candidate: BrokerProcess,
        zookeeper: str,
        partitions: int,
        broker_ids: Sequence[int],
        stack: ExitStack,
    ) -> None:
        self.name = candidate.name
        self.outcomes: dict[str, list[Outcome]] = {}
        self._candidate = candidate
        self._broker_ids = broker_ids
        self._topics = max(partitions // PARTITIONS_PER_TOPIC, 1)
        self.session = ZooKeeperSession(ZooKeeperConfig(connect=zookeeper))
        self.session.start()
        stack.callback(self.session.close)
        write_cluster(
            self.session,
            topics=self._topics,
            partitions_per_topic=PARTITIONS_PER_TOPIC,
            broker_ids=broker_ids,
            replication_factor=REPLICATION_FACTOR,
        )
        self.layout = {
            f"topic-{topic:05d}": [
                replicas_of(topic, partition, broker_ids, REPLICATION_FACTOR)
                for partition in range(PARTITIONS_PER_TOPIC)
            ]
            for topic in range(self._topics)
        }
        self._stubs = StubBrokers(zookeeper, broker_ids[0], len(broker_ids))
        stack.callback(self._stubs.close)
        stack.callback(candidate.kill)
        self._address = ("", 0)

    def start(self) -> None:
        """Starts the candidate; returns when its first failover has ended."""
        self._stubs.mark()
        self._candidate.start()
        self._settle(brokers=len(self._broker_ids), began_s=time.monotonic())
        registration = self._znode(f"/brokers/ids/{self._candidate.broker_id}")
        fields = json.loads(registration.data)
        self._address = (fields["host"], fields["port"])

    # ------------------------------------------------------------------ operations

    def fail_over(self) -> Outcome:
        """Deletes ``/controller``; ends with the last request to a broker."""
        everybody = len(self._broker_ids)
        epoch = int(self._znode("/controller_epoch").data)
        outcome = self._measure(lambda: self._write(Delete("/controller")), brokers=everybody)
        if int(self._znode("/controller_epoch").data) != epoch + 1:
            raise OperationFailedError(f"{self.name}: /controller_epoch did not grow by one")
        partitions = self._topics * PARTITIONS_PER_TOPIC
        self._must_tell(outcome, "UpdateMetadata", partitions * everybody)
        self._must_tell(outcome, "LeaderAndIsr", partitions * REPLICATION_FACTOR)
        return outcome

    def lose_broker(self, broker_id: int) -> Outcome:
        """A broker dies; ends with the last request to the others."""
        outcome = self._measure(
            lambda: self._stubs.leave(broker_id), brokers=len(self._broker_ids) - 1
        )
        self._must_be_out(broker_id, replicas_too=True)
        return outcome

    def return_broker(self, broker_id: int) -> Outcome:
        """It comes back; ends with the last request."""
        outcome = self._measure(lambda: self._stubs.join(broker_id), brokers=len(self._broker_ids))
        replicas = sum(broker_id in replicas for each in self.layout.values() for replicas in each)
        told = outcome.told.get(("LeaderAndIsr", broker_id), 0)
        if told < replicas:
            raise OperationFailedError(f"{self.name}: told of {told} replicas of {replicas}")
        return outcome

    def create_topic(self, topic: str, partitions: int) -> Outcome:
        """Writes a topic's znode; ends with the last request about its partitions."""
        assignment = [
            replicas_of(0, partition, self._broker_ids, REPLICATION_FACTOR)
            for partition in range(partitions)
        ]
        znode = Create(f"/brokers/topics/{topic}", topic_znode(topic, assignment))
        everybody = len(self._broker_ids)
        outcome = self._measure(lambda: self._write(znode), brokers=everybody)
        self._must_tell(outcome, "UpdateMetadata", partitions * everybody)
        self._must_tell(outcome, "LeaderAndIsr", partitions * REPLICATION_FACTOR)
        return outcome

    def delete_topic(self, topic: str) -> Outcome:
        """Marks a topic for deletion; ends when its znode is gone."""
        path = f"/brokers/topics/{topic}"

        def delete() -> tuple[int, int]:
            began_ns = self._write(Create(f"/admin/delete_topics/{topic}"))
            while not isinstance(self.session.exists(path), ZkCode):
                if time.monotonic_ns() - began_ns > TIMEOUT_S * 1e9:
                    raise OperationFailedError(f"{self.name}: {topic} is still there")
                time.sleep(_POLL_S)
            return began_ns, time.monotonic_ns()

        return self._measure(delete, brokers=0)

    def shut_down_broker(self, broker_id: int) -> Outcome:
        """Asks for the controlled shutdown of a broker; ends with the answer."""
        epoch = self._znode(f"/brokers/ids/{broker_id}").czxid
        request = ControlledShutdownRequest(broker_id=BrokerId(broker_id), broker_epoch=i64(epoch))

        def shut_down() -> tuple[int, int]:
            began_ns = time.monotonic_ns()
            response = self._ask(request)
            assert isinstance(response, ControlledShutdownResponse)
            if response.error_code is not ErrorCode.none or response.remaining_partitions:
                raise OperationFailedError(
                    f"{self.name}: {response.error_code.name}, "
                    f"{len(response.remaining_partitions)} partitions remain"
                )
            return began_ns, time.monotonic_ns()

        outcome = self._measure(shut_down, brokers=len(self._broker_ids))
        self._must_be_out(broker_id, replicas_too=False)
        return outcome

    def move_replicas(self, targets: Mapping[str, Sequence[Sequence[int] | None]]) -> Outcome:
        """Reassigns partitions, or with None calls it off; ends with the last request."""
        request = AlterPartitionReassignmentsRequest(
            timeout=i32Timedelta.parse(datetime.timedelta(seconds=TIMEOUT_S)),
            topics=tuple(
                ReassignableTopic(
                    name=TopicName(topic),
                    partitions=tuple(
                        ReassignablePartition(
                            partition_index=i32(partition),
                            replicas=None if to is None else tuple(BrokerId(each) for each in to),
                        )
                        for partition, to in enumerate(wanted)
                    ),
                )
                for topic, wanted in targets.items()
            ),
        )

        def move() -> int:
            began_ns = time.monotonic_ns()
            response = self._ask(request)
            assert isinstance(response, AlterPartitionReassignmentsResponse)
            codes = {each.error_code for topic in response.responses for each in topic.partitions}
            if {response.error_code, *codes} != {ErrorCode.none}:
                raise OperationFailedError(f"{self.name}: {response.error_code.name} {codes}")
            return began_ns

        return self._measure(move, brokers=0)

    # ------------------------------------------------------------------ between operations

    def restore(self) -> None:
        """Every partition as at first, written past the controller: a failover must follow."""
        wanted = {
            self._state_path(topic, partition): state_znode(replicas, 1)
            for topic, each in self.layout.items()
            for partition, replicas in enumerate(each)
        }
        for result in self.session.perform(
            UnfencedBatch([SetData(path, data) for path, data in wanted.items()])
        ):
            if not isinstance(result, Written):
                raise OperationFailedError(f"{self.name}: cannot restore: {result.name}")

    def znodes(self) -> dict[str, bytes | str]:
        """Every topic's znode and every partition's state; what deletions and moves leave, too."""
        topics = self.session.children("/brokers/topics")
        assert not isinstance(topics, ZkCode)
        paths = [f"/brokers/topics/{topic}" for topic in sorted(topics)]
        paths += ["/controller_epoch", "/admin/delete_topics"]
        for topic in sorted(topics):
            count = len(self.layout.get(topic, ())) or BIG_TOPIC_PARTITIONS
            paths += [self._state_path(topic, partition) for partition in range(count)]
        found = self.session.perform(ReadZnodes(paths))
        return {
            path: one.data if isinstance(one, Znode) else one.name
            for path, one in zip(paths, found, strict=True)
        }

    # ------------------------------------------------------------------ measuring

    def _measure(self, act: Callable[[], int | tuple[int, int]], *, brokers: int) -> Outcome:
        """``act`` returns when it began, and when it ended unless the last request is the end."""
        self._stubs.mark()
        registration = f"/brokers/ids/{self._candidate.broker_id}"
        broker_epoch = self._znode(registration).czxid
        self._candidate.forget_peak_rss()
        cpu_ms = self._candidate.cpu_ms()
        probe = StallProbe(*self._address)
        probe.start()
        began_s = time.monotonic()
        moments = act()
        self._settle(brokers=brokers, began_s=began_s)
        cpu_s = (self._candidate.cpu_ms() - cpu_ms) / 1000
        waits_ms = probe.stop()
        report = self._stubs.collect_now()
        if self._znode(registration).czxid != broker_epoch:
            raise OperationFailedError(f"{self.name}: lost its ZooKeeper session")
        if report["refused"]:
            raise OperationFailedError(f"{self.name}: {report['refused']}")
        told: dict[tuple[str, int], int] = defaultdict(int)
        for request in report["requests"]:
            told[request["api"], request["broker"]] += request["partitions"]
        last_ns = max((request["at_ns"] for request in report["requests"]), default=0)
        began_ns, ended_ns = moments if isinstance(moments, tuple) else (moments, last_ns)
        return Outcome(
            seconds=(ended_ns - began_ns) / 1e9,
            cpu_s=cpu_s,
            peak_rss_bytes=self._candidate.peak_rss_bytes(),
            waits_ms=waits_ms,
            told=told,
            requests=len(report["requests"]),
        )

    def _settle(self, *, brokers: int, began_s: float) -> None:
        """Waits until the stubs get nothing more and the candidate has stopped computing."""
        status: dict[str, Any] = {}
        while time.monotonic() - began_s < TIMEOUT_S:
            cpu_ms, then_s = self._candidate.cpu_ms(), time.monotonic()
            time.sleep(QUIET_MS / 1000)
            status = self._stubs.status()
            busy_ms = self._candidate.cpu_ms() - cpu_ms
            is_idle = busy_ms < IDLE_SHARE * (time.monotonic() - then_s) * 1000 + _PROBE_CPU_MS
            if (
                is_idle
                and status["brokers_with_topics"] >= brokers
                and status["requests"]
                and status["quiet_ms"] >= QUIET_MS
            ):
                return
        raise OperationFailedError(f"{self.name}: not done in {TIMEOUT_S:.0f} s: {status}")

    def _write(self, operation: Create | Delete) -> int:
        began_ns = time.monotonic_ns()
        result = self.session.write(operation)
        if not isinstance(result, Written):
            raise OperationFailedError(f"{self.name}: {operation.path}: {result.name}")
        return began_ns

    def _ask(self, request: RequestPayload) -> ResponsePayload:
        async def ask() -> ResponsePayload:
            connection = await Connection.open(
                *self._address, client_id="benchmark", request_timeout_ms=int(TIMEOUT_S * 1000)
            )
            try:
                return await connection.request(request)
            finally:
                await connection.close()

        return asyncio.run(ask())

    def _znode(self, path: str) -> Znode:
        znode = self.session.read(path)
        if not isinstance(znode, Znode):
            raise OperationFailedError(f"{self.name}: {path}: {znode.name}")
        return znode

    def _must_tell(self, outcome: Outcome, api: str, partitions: int) -> None:
        candidate = self._candidate.broker_id
        told = sum(
            count for (name, broker), count in outcome.told.items()
            if name == api and broker != candidate
        )  # fmt: skip
        if told != partitions:
            raise OperationFailedError(f"{self.name}: {api} told of {told}, not {partitions}")

    def _must_be_out(self, broker_id: int, *, replicas_too: bool) -> None:
        """The broker leads nothing; ``replicas_too``: nor is it in any ISR."""
        paths = [
            self._state_path(topic, partition)
            for topic, each in self.layout.items()
            for partition, replicas in enumerate(each)
            if broker_id in replicas
        ]
        for path, znode in zip(paths, self.session.perform(ReadZnodes(paths)), strict=True):
            state: dict[str, Any] = json.loads(znode.data) if isinstance(znode, Znode) else {}
            isr = state.get("isr", [broker_id])
            if state.get("leader") in (broker_id, -1) or (replicas_too and broker_id in isr):
                raise OperationFailedError(f"{self.name}: {broker_id} is still in {path}: {state}")

    @staticmethod
    def _state_path(topic: str, partition: int) -> str:
        return f"/brokers/topics/{topic}/partitions/{partition}/state"
