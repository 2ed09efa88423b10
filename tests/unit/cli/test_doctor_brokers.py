"""What ``zkctl doctor`` makes of brokers' answers, and of brokers too old for a question."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from types import SimpleNamespace
from typing import Any, Final
from uuid import UUID

import pytest
from kio.schema.describe_configs.v4 import response as configs
from kio.schema.describe_log_dirs.v2 import response as log_dirs
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v13 import response as fetch
from kio.schema.list_offsets.v6 import response as offsets
from kio.schema.list_partition_reassignments.v0 import response as reassignments
from kio.schema.types import TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64

from kafka_common.model import Broker, Endpoint, ReplicaAssignment
from kafka_common.net.client_security import PLAINTEXT
from zkcontroller.zookeeper.znodes import ControllerZnode, PartitionStateZnode

brokers: Any = import_module("zkcontroller_cli.diagnosis.brokers")
controllers: Any = import_module("zkcontroller_cli.wire.controller")
reading_of: Any = import_module("zkcontroller_cli.diagnosis.reading")
rules: Any = import_module("zkcontroller_cli.diagnosis.rules")
errors: Any = import_module("zkcontroller_cli.console.errors")
looks: Any = import_module("zkcontroller_cli.diagnosis.looks")
partitions: Any = import_module("zkcontroller_cli.znodes.partitions")
registrations: Any = import_module("zkcontroller_cli.znodes.registrations")

CLUSTER_ID: Final = "the-cluster"
TOPIC_ID: Final = UUID(int=1)
NO_TIME: Final = i32Timedelta.parse(import_module("datetime").timedelta(0))


class Cluster:
    """Brokers 1 and 2, 1 the controller, and one partition; what they answer can be changed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.metadata = {broker: metadata_of() for broker in (1, 2)}
        self.log_dirs: dict[int, Any] = {1: described(), 2: described()}
        self.probe: Any = ErrorCode.none
        self.session_timeout: Any = "18000"
        self.ends: dict[int, int | ErrorCode] = {}
        self.newest_fetch = 17
        self.fetched: dict[int, ErrorCode] = {}
        self.protocols = {1: "PLAINTEXT", 2: "PLAINTEXT"}
        self.silences: dict[int, Any] = {}
        self.named_topics: Any = None
        self.isr: tuple[int, ...] = (1, 2)
        self.assignment = ReplicaAssignment((1, 2))
        self.topics: list[Any] = []
        self.copied_before: dict[tuple[int, str, int], int] | None = None
        self.longest_answers_ms: dict[int, int] = {}
        self.named: str | None = None
        self.controller = ControllerZnode(1, 1)
        self.registration_ages_s = {1: 100.0, 2: 100.0}
        self.reading: Any = None
        monkeypatch.setattr(brokers, "connected", self._connected)
        monkeypatch.setattr(controllers, "connected", self._connected)
        monkeypatch.setattr(brokers, "ask_metadata", self._ask_metadata)
        by_name = import_module("zkcontroller_cli.wire.metadata")
        monkeypatch.setattr(by_name, "ask_metadata", self._ask_metadata)

    @asynccontextmanager
    async def _connected(self, addresses: Sequence[Any], *_: Any) -> AsyncIterator[Any]:
        broker = addresses[0].port - 9090
        yield SimpleNamespace(
            broker=broker,
            request=lambda request: self._answer(broker, request),
            ask_versions=self._ask_versions,
        )

    async def _ask_versions(self) -> dict[int, tuple[int, int]]:
        return {1: (0, self.newest_fetch)}

    async def _ask_metadata(self, connection: Any, topics: Any = None) -> Any:
        if topics and self.named_topics is not None:
            return self.named_topics
        return raised_or(self.metadata[connection.broker])

    async def _answer(self, broker: int, request: Any) -> Any:
        if "DescribeLogDirs" in type(request).__name__:
            return raised_or(self.log_dirs[broker])
        if "DescribeConfigs" in type(request).__name__:
            return self._described(broker, request)
        if "Fetch" in type(request).__name__:
            return self._fetched(broker, request)
        if "ListOffsets" in type(request).__name__:
            return ends(self.ends[broker])
        if isinstance(self.probe, Exception):
            raise self.probe
        return reassignments.ListPartitionReassignmentsResponse(
            throttle_time=NO_TIME, error_code=self.probe, error_message=None, topics=()
        )

    def _described(self, broker: int, request: Any) -> Any:
        value = raised_or(self.session_timeout)
        [key] = request.resources[0].configuration_keys
        results = []
        for resource in request.resources:
            is_own = resource.resource_name == str(broker)
            code = ErrorCode.none if is_own else ErrorCode.invalid_request
            results.append(
                configs.DescribeConfigsResult(
                    error_code=self.refusal or code,
                    error_message=None,
                    resource_type=i8(4),
                    resource_name=resource.resource_name,
                    configs=(described_config(key, value),) if is_own and not self.refusal else (),
                )
            )
        return configs.DescribeConfigsResponse(throttle_time=NO_TIME, results=tuple(results))

    def _fetched(self, broker: int, request: Any) -> Any:
        [topic] = request.topics
        code = self.fetched.get(broker, ErrorCode.offset_out_of_range)
        found = SimpleNamespace(partition_index=0, error_code=code)
        of_topic: Any = SimpleNamespace(topic_id=topic.topic_id, partitions=(found,))
        return fetch.FetchResponse(
            throttle_time=NO_TIME,
            error_code=ErrorCode.none,
            responses=(of_topic,),
        )

    refusal: ErrorCode | None = None

    def findings(self) -> dict[str, list[str]]:
        """What the rules find, by id."""
        reading = reading_of.ClusterReading("", 60.0, cluster_id=CLUSTER_ID)
        reading.controller_data = b"{}"
        reading.controller = self.controller
        reading.controller_epoch = 7
        reading.registrations = {
            id_: registrations.LiveBroker(
                Broker(id_, (Endpoint("h", 9090 + id_, protocol, protocol),), None), 1, 1, "s"
            )
            for id_, protocol in self.protocols.items()
        }
        reading.longest_answers_ms = self.longest_answers_ms
        reading.silences = self.silences
        reading.registration_ages_s = dict(self.registration_ages_s)
        state = PartitionStateZnode(1, 4, self.isr, 7)
        reading.topics = self.topics
        reading.at_ms = 25_000
        reading.topic_ages_s = {"orders": 100.0}
        if self.copied_before is not None:
            reading.before = reading_of.Copied(10_000, self.copied_before)
        reading.partitions = [
            partitions.PartitionView("orders", 0, self.assignment, state, 3, leader_is_live=True)
        ]
        asyncio.run(brokers.read_brokers(reading, PLAINTEXT, self.named))
        self.reading = reading
        return {
            each.rule: [f"{place.evidence.where}: {place.evidence.what}" for place in each.places]
            for each in rules.findings(reading)
        }


def raised_or(value: Any) -> Any:
    if isinstance(value, Exception):
        raise value
    return value


def metadata_of(
    leader: int = 1,
    epoch: int = 4,
    isr: tuple[int, ...] = (1, 2),
    cluster_id: str = CLUSTER_ID,
    known: tuple[int, ...] = (1, 2),
    topic_id: UUID | None = TOPIC_ID,
) -> Any:
    partition = SimpleNamespace(
        partition_index=0,
        leader_id=leader,
        leader_epoch=epoch,
        isr_nodes=isr,
        replica_nodes=(1, 2),
        error_code=ErrorCode.none,
    )
    topic = SimpleNamespace(
        name="orders", topic_id=topic_id, error_code=ErrorCode.none, partitions=(partition,)
    )
    return SimpleNamespace(
        cluster_id=cluster_id,
        controller_id=1,
        brokers=[
            SimpleNamespace(node_id=id_, host="h", port=9090 + id_, rack=None) for id_ in known
        ],
        topics=(topic,),
    )


def described(
    *held: tuple[str, int], error: ErrorCode = ErrorCode.none, size_bytes: int = 0
) -> Any:
    topics = tuple(
        log_dirs.DescribeLogDirsTopic(
            name=TopicName(topic),
            partitions=(
                log_dirs.DescribeLogDirsPartition(
                    partition_index=i32(partition),
                    partition_size=i64(size_bytes),
                    offset_lag=i64(0),
                    is_future_key=False,
                ),
            ),
        )
        for topic, partition in held or (("orders", 0),)
    )
    result = log_dirs.DescribeLogDirsResult(error_code=error, log_dir="/data", topics=topics)
    return log_dirs.DescribeLogDirsResponse(throttle_time=NO_TIME, results=(result,))


def described_config(name: str, value: str) -> Any:
    return configs.DescribeConfigsResourceResult(
        name=name, value=value, read_only=True, config_source=i8(4), is_sensitive=False,
        synonyms=(), config_type=i8(3), documentation=None,
    )  # fmt: skip


def ends(end: int | ErrorCode) -> Any:
    code, offset = (end, -1) if isinstance(end, ErrorCode) else (ErrorCode.none, end)
    partition = offsets.ListOffsetsPartitionResponse(
        partition_index=i32(0), error_code=code, offset=i64(offset)
    )
    topic = offsets.ListOffsetsTopicResponse(name=TopicName("orders"), partitions=(partition,))
    return offsets.ListOffsetsResponse(throttle_time=NO_TIME, topics=(topic,))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


def test_brokers_that_agree_with_zookeeper_are_no_finding(cluster: Cluster) -> None:
    assert cluster.findings() == {}


@pytest.mark.parametrize(
    "result",
    [metadata_of(leader=2), metadata_of(epoch=3), metadata_of(isr=(1,))],
    ids=["leader", "epoch", "isr"],
)
def test_another_state_in_a_cache_is_found(cluster: Cluster, result: Any) -> None:
    cluster.metadata[2] = result

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


def test_a_kraft_controller_is_named_as_one_that_is_not_asked(cluster: Cluster) -> None:
    cluster.controller = ControllerZnode(3000, 1, kraft_controller_epoch=4)

    cluster.findings()

    [said] = [why for why, names in rules.notes(cluster.reading).items() if names == "C01"]
    assert said.startswith("KRaft controller 3000 holds /controller: zkctl migration check")


def test_a_broker_that_is_too_old_for_a_question_is_no_finding(cluster: Cluster) -> None:
    too_old = errors.ApiNotKnown("broker h:9091 does not know this")
    cluster.probe = too_old
    cluster.log_dirs = {1: too_old, 2: too_old}
    cluster.session_timeout = too_old

    assert cluster.findings() == {}
    assert rules.unchecked_rows(cluster.reading) == []
    assert rules.notes(cluster.reading) == {
        str(too_old): "C01, L01, L02, S02",
        "they need --since FILE or --watch": "C02, C03, P07",
    }


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


def test_a_follower_with_the_whole_log_that_is_not_in_sync_is_found(cluster: Cluster) -> None:
    cluster.isr = (1,)
    cluster.metadata = {broker: metadata_of(isr=(1,)) for broker in (1, 2)}
    cluster.ends = {1: 70, 2: 70}
    caught_up = cluster.findings()
    cluster.ends = {1: 70, 2: 69}
    behind = cluster.findings()

    assert caught_up["P10"] == [
        "/brokers/topics/orders/partitions/0/state at version 3: "
        "broker 2 is not in sync, and has the log up to 70 as the leader has"
    ]
    assert set(behind) == set(caught_up) - {"P10"}


def test_a_slow_move_is_stuck_where_no_bytes_come(cluster: Cluster) -> None:
    cluster.assignment = ReplicaAssignment((1, 2), (2,), ())
    cluster.isr, cluster.ends = (1,), {1: 70, 2: 40}
    cluster.metadata = {broker: metadata_of(isr=(1,)) for broker in (1, 2)}
    cluster.log_dirs[2] = described(size_bytes=4_000)
    first = cluster.findings()["R01"]

    cluster.copied_before = {(2, "orders", 0): 4_000}
    stuck = cluster.findings()["R01"]
    cluster.copied_before = {(2, "orders", 0): 3_999}
    going_on = cluster.findings()

    where = "/brokers/topics/orders: unchanged for 100 s, not in sync yet: 2"
    assert first == [where]
    assert stuck == [f"{where}; no bytes came to 2 for 15 s"]
    assert "R01" not in going_on
    assert rules.unchecked_rows(cluster.reading) == []


def test_a_slow_move_to_a_broker_that_hides_its_directories_is_unchecked(cluster: Cluster) -> None:
    cluster.assignment = ReplicaAssignment((1, 2), (2,), ())
    cluster.isr, cluster.ends = (1,), {1: 70, 2: 40}
    cluster.metadata = {broker: metadata_of(isr=(1,)) for broker in (1, 2)}
    cluster.log_dirs[2] = log_dirs.DescribeLogDirsResponse(throttle_time=NO_TIME, results=())

    found = cluster.findings()

    assert "R01" not in found
    [row] = [each for each in rules.unchecked_rows(cluster.reading) if each["rule"] == "R01"]
    assert [each["where"] for each in row["evidence"]] == ["DescribeLogDirs of broker 2"]


def test_a_broker_that_knows_no_broker_at_all_was_never_addressed(cluster: Cluster) -> None:
    cluster.metadata[2] = metadata_of(known=())

    assert cluster.findings() == {
        "B04": ["/brokers/ids/2: epoch 1, 100 s old; its Metadata names no broker at all"]
    }
    assert "B04" not in cluster.reading.notes


def test_a_broker_that_has_just_registered_and_knows_no_broker_is_noted(cluster: Cluster) -> None:
    cluster.metadata[2] = metadata_of(known=())
    cluster.registration_ages_s[2] = 1.0

    assert "B04" not in cluster.findings()
    assert "broker 2 has just registered" in cluster.reading.notes["B04"]


@pytest.mark.parametrize(
    ("of_znode", "said"), [(None, "no topic id"), (UUID(int=2), f"topic id {UUID(int=2)}")]
)
def test_a_topic_whose_znode_has_no_id_or_another_one_is_found(
    cluster: Cluster, of_znode: UUID | None, said: str
) -> None:
    cluster.topics = [partitions.TopicView("orders", of_znode, {0: cluster.assignment})]

    assert cluster.findings() == {
        "M02": [
            f"/brokers/topics/orders: {said}; broker {broker} says {TOPIC_ID}" for broker in (1, 2)
        ]
    }


def test_brokers_without_topic_ids_leave_the_comparison_of_ids_out(cluster: Cluster) -> None:
    cluster.metadata[2] = metadata_of(topic_id=None)

    assert cluster.findings() == {}
    reason = "broker 2 names no topic ids: that needs inter.broker.protocol.version 2.8 or later"
    assert rules.notes(cluster.reading)[reason] == "M02"
    assert rules.unchecked_rows(cluster.reading) == []


def test_an_answer_that_took_longer_than_the_session_may_last_is_found(cluster: Cluster) -> None:
    cluster.longest_answers_ms = {2: 18_000}

    assert cluster.findings() == {
        "S02": ["Metadata of broker 2: silent for 18,000 ms; zookeeper.session.timeout.ms=18000"]
    }


def test_a_broker_at_a_known_address_that_is_not_registered_is_found(cluster: Cluster) -> None:
    cluster.metadata[3] = metadata_of()
    cluster.named = "h:9093,h:9091"

    assert cluster.findings() == {
        "B01": [
            "DescribeConfigs of h:9093, known by -b or the cluster's file: "
            "it answers, and is none of the registered brokers"
        ]
    }


def test_a_broker_of_another_cluster_at_a_named_address_is_no_stranger(cluster: Cluster) -> None:
    cluster.metadata[3] = metadata_of(cluster_id="another")
    cluster.named = "h:9093"

    assert cluster.findings() == {}


def test_a_refused_question_leaves_its_rules_unchecked(cluster: Cluster) -> None:
    cluster.refusal = ErrorCode.cluster_authorization_failed
    cluster.probe = ErrorCode.cluster_authorization_failed
    no_results = log_dirs.DescribeLogDirsResponse(throttle_time=NO_TIME, results=())
    cluster.log_dirs = {1: no_results, 2: no_results}
    cluster.metadata[3] = metadata_of()
    cluster.named = "h:9093"

    found = cluster.findings()
    rows = rules.unchecked_rows(cluster.reading)
    fewer = rules.unchecked_rows(cluster.reading, ["L01", "S02=orders"])

    assert found == {}
    assert [row["rule"] for row in rows] == ["B01", "C01", "L01", "L02", "S02"]
    assert {row["severity"] for row in rows} == {"unchecked"}
    reasons = {row["rule"]: {each["what"] for each in row["evidence"]} for row in rows}
    refused = {"CLUSTER_AUTHORIZATION_FAILED"}
    unnamed = {"no directory is named: not allowed"}
    assert reasons == {
        **dict.fromkeys(("B01", "C01", "S02"), refused),
        **dict.fromkeys(("L01", "L02"), unnamed),
    }
    assert [row["rule"] for row in fewer] == ["B01", "C01", "L02", "S02"]


def test_a_topic_whose_id_a_broker_refuses_is_found_where_fetch_names_ids(
    cluster: Cluster,
) -> None:
    cluster.topics = [partitions.TopicView("orders", TOPIC_ID, {})]
    cluster.fetched = {1: ErrorCode.unknown_topic_id, 2: ErrorCode.inconsistent_topic_id}

    assert cluster.findings() == {
        "M02": [f"Fetch of broker 2: INCONSISTENT_TOPIC_ID for orders, topic id {TOPIC_ID}"]
    }
    cluster.newest_fetch = 12
    assert cluster.findings() == {}


def unchecked(cluster: Cluster) -> dict[str, list[str]]:
    """The rules that are not checked, and why."""
    return {
        row["rule"]: [f"{each['where']}: {each['what']}" for each in row["evidence"]]
        for row in rules.unchecked_rows(cluster.reading)
    }


def test_the_end_of_a_log_that_a_replica_does_not_tell_leaves_p10_unchecked(
    cluster: Cluster,
) -> None:
    cluster.isr = (1,)
    cluster.metadata = {broker: metadata_of(isr=(1,)) for broker in (1, 2)}
    cluster.ends = {1: 70, 2: ErrorCode.topic_authorization_failed}

    assert "P10" not in cluster.findings()
    assert unchecked(cluster) == {
        "P10": ["ListOffsets of broker 2: TOPIC_AUTHORIZATION_FAILED for orders-0"]
    }


@pytest.mark.parametrize("cause", ["no listener", "no login"])
def test_a_broker_that_zkctl_may_not_ask_is_unchecked_and_not_called_silent(
    cluster: Cluster, cause: str
) -> None:
    if cause == "no listener":
        cluster.protocols[2] = "SSL"
        why = "it has no PLAINTEXT listener"
    else:
        why = "h:9092 refuses user alice"
        cluster.metadata[2] = errors.NotLetIn(why)

    assert cluster.findings() == {}
    rows = unchecked(cluster)
    assert set(rows) == {"B02", "B03", "B04", "M01", "M02", "M03", "L01", "L02", "S02"}
    assert {tuple(each) for each in rows.values()} == {(f"Metadata of broker 2: {why}",)}


def test_a_silent_broker_is_found_and_what_its_silence_hides_is_said(cluster: Cluster) -> None:
    silent = errors.TimedOut("broker h:9092 did not answer in time")
    cluster.metadata[2] = silent

    assert set(cluster.findings()) == {"B02"}
    assert unchecked(cluster) == {"S02": [f"Metadata of broker 2: {silent}"]}
    assert rules.notes(cluster.reading)["a broker does not answer: see B02"] == (
        "B03, B04, L01, L02, M01, M02, M03"
    )


def test_a_broker_that_breaks_off_after_its_metadata_is_not_called_silent(cluster: Cluster) -> None:
    cluster.log_dirs[2] = errors.CannotConnect("broker h:9092 broke off")

    assert cluster.findings() == {}
    assert unchecked(cluster) == {
        rule: ["DescribeLogDirs of broker 2: broker h:9092 broke off"]
        for rule in ("L01", "L02", "S02")
    }


def test_the_silences_of_several_looks_are_one_until_the_broker_answers(cluster: Cluster) -> None:
    now = int(time.time() * 1000)
    cluster.silences = {2: looks.Silence(now - 20_000, now - 1_000)}
    cluster.metadata[2] = errors.TimedOut("broker h:9092 did not answer in time")
    while_silent = cluster.findings()
    cluster.metadata[2] = metadata_of()
    afterwards = cluster.findings()

    assert set(while_silent) == {"B02"}
    [where] = afterwards["S02"]
    [silent] = re.findall(r"silent for ([\d,]+) ms", where)
    assert int(silent.replace(",", "")) >= 20_000
    assert where.endswith("zookeeper.session.timeout.ms=18000")
    assert cluster.silences == {}


def test_two_silences_with_a_long_time_between_are_not_joined() -> None:
    joined = looks.Silence(20_000, 25_000).joined(looks.Silence(0, 5_000))
    apart = looks.Silence(20_001, 25_000).joined(looks.Silence(0, 5_000))

    assert joined == looks.Silence(0, 25_000)
    assert apart == looks.Silence(20_001, 25_000)


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        (ErrorCode.unknown_topic_or_partition, True),
        (ErrorCode.topic_authorization_failed, False),
        (ErrorCode.none, False),
    ],
)
def test_a_topic_that_a_broker_does_not_name_is_asked_for_by_name(
    cluster: Cluster, code: ErrorCode, is_found: bool
) -> None:
    result = metadata_of()
    result.topics = ()
    cluster.metadata[2] = result
    cluster.named_topics = SimpleNamespace(topics=[SimpleNamespace(name="orders", error_code=code)])

    found = cluster.findings()
    refused = code is ErrorCode.topic_authorization_failed

    lacking = {"M01": ["/brokers/topics/orders: broker 2 does not know the topic"]}
    assert found == (lacking if is_found else {})
    assert set(unchecked(cluster)) == ({"M01", "M02"} if refused else set())
