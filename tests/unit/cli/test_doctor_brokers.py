"""What ``zkctl doctor`` makes of brokers' answers, and of brokers too old for a question."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from types import SimpleNamespace
from typing import Any, Final

import pytest
from kio.schema.describe_log_dirs.v2 import response as log_dirs
from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0 import response as reassignments
from kio.schema.types import TopicName
from kio.static.primitive import i32, i32Timedelta, i64

from zkcontroller.model import Broker, Endpoint, ReplicaAssignment
from zkcontroller.net.client_security import PLAINTEXT
from zkcontroller.zookeeper.znodes import ControllerZnode, PartitionStateZnode

brokers: Any = import_module("zkcontroller_cli.doctor_brokers")
reading_of: Any = import_module("zkcontroller_cli.doctor_reading")
rules: Any = import_module("zkcontroller_cli.doctor_rules")
errors: Any = import_module("zkcontroller_cli.errors")
partitions: Any = import_module("zkcontroller_cli.partitions")
registrations: Any = import_module("zkcontroller_cli.registrations")

CLUSTER_ID: Final = "the-cluster"
NO_TIME: Final = i32Timedelta.parse(import_module("datetime").timedelta(0))


class Cluster:
    """Brokers 1 and 2, 1 the controller, and one partition; what they answer can be changed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.metadata = {broker: metadata_of() for broker in (1, 2)}
        self.log_dirs: dict[int, Any] = {1: described(), 2: described()}
        self.probe: Any = ErrorCode.none
        monkeypatch.setattr(brokers, "connected", self._connected)
        monkeypatch.setattr(brokers, "ask_metadata", self._ask_metadata)

    @asynccontextmanager
    async def _connected(self, addresses: Sequence[Any], *_: Any) -> AsyncIterator[Any]:
        broker = addresses[0].port - 9090
        yield SimpleNamespace(broker=broker, request=lambda request: self._answer(broker, request))

    async def _ask_metadata(self, connection: Any) -> Any:
        return raised_or(self.metadata[connection.broker])

    async def _answer(self, broker: int, request: Any) -> Any:
        if "DescribeLogDirs" in type(request).__name__:
            return raised_or(self.log_dirs[broker])
        if isinstance(self.probe, Exception):
            raise self.probe
        return reassignments.ListPartitionReassignmentsResponse(
            throttle_time=NO_TIME, error_code=self.probe, error_message=None, topics=()
        )

    def findings(self) -> dict[str, list[str]]:
        """What the rules find, by id."""
        reading = reading_of.ClusterReading("", 60.0, cluster_id=CLUSTER_ID)
        reading.controller_data = b"{}"
        reading.controller = ControllerZnode(1, 1)
        reading.controller_epoch = 7
        reading.registrations = {
            id_: registrations.Registration(
                Broker(id_, (Endpoint("h", 9090 + id_, "PLAINTEXT", "PLAINTEXT"),), None), 1, 1, "s"
            )
            for id_ in (1, 2)
        }
        state = PartitionStateZnode(1, 4, (1, 2), 7)
        assignment = ReplicaAssignment((1, 2))
        reading.partitions = [
            partitions.PartitionView("orders", 0, assignment, state, 3, leader_is_live=True)
        ]
        asyncio.run(brokers.read_brokers(reading, PLAINTEXT))
        return {
            each.rule: [f"{place.evidence.where}: {place.evidence.what}" for place in each.places]
            for each in rules.findings(reading)
        }


def raised_or(value: Any) -> Any:
    if isinstance(value, Exception):
        raise value
    return value


def metadata_of(
    leader: int = 1, epoch: int = 4, isr: tuple[int, ...] = (1, 2), cluster_id: str = CLUSTER_ID
) -> Any:
    partition = SimpleNamespace(
        partition_index=0, leader_id=leader, leader_epoch=epoch, isr_nodes=isr
    )
    topic = SimpleNamespace(
        name="orders", topic_id=None, error_code=ErrorCode.none, partitions=(partition,)
    )
    return SimpleNamespace(
        cluster_id=cluster_id,
        brokers=[SimpleNamespace(node_id=1), SimpleNamespace(node_id=2)],
        topics=(topic,),
    )


def described(*held: tuple[str, int], error: ErrorCode = ErrorCode.none) -> Any:
    topics = tuple(
        log_dirs.DescribeLogDirsTopic(
            name=TopicName(topic),
            partitions=(
                log_dirs.DescribeLogDirsPartition(
                    partition_index=i32(partition),
                    partition_size=i64(0),
                    offset_lag=i64(0),
                    is_future_key=False,
                ),
            ),
        )
        for topic, partition in held or (("orders", 0),)
    )
    result = log_dirs.DescribeLogDirsResult(error_code=error, log_dir="/data", topics=topics)
    return log_dirs.DescribeLogDirsResponse(throttle_time=NO_TIME, results=(result,))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


def test_brokers_that_agree_with_zookeeper_are_no_finding(cluster: Cluster) -> None:
    assert cluster.findings() == {}


@pytest.mark.parametrize(
    "answer",
    [metadata_of(leader=2), metadata_of(epoch=3), metadata_of(isr=(1,))],
    ids=["leader", "epoch", "isr"],
)
def test_another_state_in_a_cache_is_found(cluster: Cluster, answer: Any) -> None:
    cluster.metadata[2] = answer

    [(rule, [where])] = cluster.findings().items()

    assert rule == "M01"
    assert where.startswith("/brokers/topics/orders/partitions/0/state at version 3: leader 1")
    assert "broker 2 says leader" in where


def test_a_broker_that_names_no_epoch_or_another_order_is_no_finding(cluster: Cluster) -> None:
    cluster.metadata[2] = metadata_of(epoch=-1, isr=(2, 1))

    assert cluster.findings() == {}


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        (ErrorCode.none, False),
        (ErrorCode.not_controller, True),
        (ErrorCode.request_timed_out, True),
        (ErrorCode.cluster_authorization_failed, False),
    ],
)
def test_the_probe_tells_a_working_controller_from_one_that_is_not(
    cluster: Cluster, code: ErrorCode, is_found: bool
) -> None:
    cluster.probe = code

    assert ("C01" in cluster.findings()) is is_found


def test_silence_to_the_probe_is_found(cluster: Cluster) -> None:
    cluster.probe = errors.TimedOut("broker h:9091 did not answer in time")

    assert cluster.findings() == {
        "C01": [
            "ListPartitionReassignments of broker 1: broker h:9091 did not answer in time",
        ]
    }


def test_a_broker_that_is_too_old_for_a_question_is_no_finding(cluster: Cluster) -> None:
    too_old = errors.ApiNotKnown("broker h:9091 does not know this")
    cluster.probe = too_old
    cluster.log_dirs = {1: too_old, 2: too_old}

    assert cluster.findings() == {}


def test_a_silent_broker_a_stranger_and_failed_or_stray_logs_are_found(cluster: Cluster) -> None:
    cluster.metadata[1] = errors.CannotConnect("cannot connect to h:9091")
    cluster.metadata[2] = metadata_of(cluster_id="another")
    cluster.log_dirs[2] = described(("orders", 0), ("left", 5))

    found = cluster.findings()

    assert found["B02"] == ["Metadata of broker 1: cannot connect to h:9091"]
    assert found["B03"] == [
        "Metadata of broker 2: cluster id another, /cluster/id holds the-cluster"
    ]
    assert found["L01"] == [
        "DescribeLogDirs of broker 2: /data holds left-5, which is not assigned to it"
    ]
    assert set(found) == {"B02", "B03", "L01"}

    cluster.log_dirs[2] = described(error=ErrorCode.kafka_storage_error)

    assert cluster.findings()["L02"] == ["DescribeLogDirs of broker 2: /data: KAFKA_STORAGE_ERROR"]
