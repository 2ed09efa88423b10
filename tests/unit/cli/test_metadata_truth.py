"""``zkctl metadata diff``: what is changed in an answer is what is found, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace
from typing import Any, Final
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from kafka_common.model import ReplicaAssignment
from tests.support.cli_world import Zkctl, furnish, installed_zkctl
from zkcontroller.zookeeper.requests import SetData
from zkcontroller.zookeeper.znodes import PartitionStateZnode

truth_of: Any = import_module("zkcontroller_cli.truth.metadata_truth")
answers_of: Any = import_module("zkcontroller_cli.wire.metadata_responses")
look_of: Any = import_module("zkcontroller_cli.truth.metadata_look")
wire: Any = import_module("zkcontroller_cli.wire.metadata")
partitions_of: Any = import_module("zkcontroller_cli.znodes.partitions")
errors: Any = import_module("zkcontroller_cli.console.errors")

BROKERS: Final = (1, 2, 3)
TOPICS: Final = ("orders", "payments", "returns")
ALL: Final = truth_of.TopicFilter(None)
ASKED: Final = 2


def topic_id(topic: str) -> UUID:
    return UUID(int=TOPICS.index(topic) + 1)


def healthy_truth() -> Any:
    """Three topics of two partitions on three brokers; broker 1 leads partition 0, 2 the other."""
    views = {}
    for topic in TOPICS:
        for partition in (0, 1):
            state = PartitionStateZnode(BROKERS[partition], 4, BROKERS, 7)
            view = (topic, partition, ReplicaAssignment(BROKERS), state, 9, True)
            views[topic, partition] = partitions_of.PartitionView(*view)
    return truth_of.ClusterTruth(
        "the-cluster",
        1,
        {id_: truth_of.KnownBroker(frozenset({("h", 9090 + id_)}), "r") for id_ in BROKERS},
        {topic: topic_id(topic) for topic in TOPICS},
        views,
    )


def healthy_answer() -> Any:
    return answers_of.ReportedMetadata(
        "the-cluster",
        1,
        {id_: answers_of.MetadataBroker("h", 9090 + id_, "r") for id_ in BROKERS},
        {topic: topic_id(topic) for topic in TOPICS},
        {
            (topic, partition): answers_of.CachedState(BROKERS[partition], 4, BROKERS, BROKERS)
            for topic in TOPICS
            for partition in (0, 1)
        },
    )


def differences(truth: Any, result: Any, unknown: Sequence[str] = ()) -> set[tuple[Any, ...]]:
    """What, topic, partition, subject of each difference."""
    found = list(truth_of.metadata_differences(truth, ASKED, result, unknown, ALL))
    assert all(each.broker_id == ASKED and each.expected != each.found for each in found)
    return {each[:4] for each in found}


Change = tuple[Callable[[Any], Any], set[tuple[Any, ...]]]


def with_partition(key: tuple[str, int], **values: Any) -> Callable[[Any], Any]:
    def change(result: Any) -> Any:
        changed = result.partitions[key]._replace(**values)
        return replace(result, partitions={**result.partitions, key: changed})

    return change


def without(field: str, *keys: Any) -> Callable[[Any], Any]:
    def change(result: Any) -> Any:
        left = {k: v for k, v in getattr(result, field).items() if k not in keys}
        return replace(result, **{field: left})

    return change


def having(field: str, key: Any, value: Any) -> Callable[[Any], Any]:
    return lambda result: replace(result, **{field: {**getattr(result, field), key: value}})


def changes(topic: str, partition: int) -> list[Change]:
    """Ways in which an answer can be wrong about one topic, and the difference that each is."""
    key = (topic, partition)
    at = (*key, None)
    return [
        (with_partition(key, leader=3), {("leader", *at)}),
        (with_partition(key, leader_epoch=3), {("leader_epoch", *at)}),
        (with_partition(key, leader_epoch=5), {("leader_epoch", *at)}),
        (with_partition(key, isr=(1, 2)), {("isr", *at)}),
        (with_partition(key, replicas=(2, 1, 3)), {("replicas", *at)}),
        (with_partition(key, isr=(3, 1, 2)), set()),
        (with_partition(key, leader_epoch=-1), set()),
        (with_partition(key, leader=-1, is_leader_hidden=True), set()),
        (without("partitions", key), {("partition", *at)}),
        (having("topic_ids", topic, UUID(int=99)), {("topic_id", topic, None, None)}),
        (without("topic_ids", topic), set()),
        (
            having("partitions", (topic, 2), answers_of.CachedState(1, 0, (1,), (1,))),
            {("partition", topic, 2, None)},
        ),
    ]


CLUSTER_CHANGES: Final[list[Change]] = [
    (lambda found: replace(found, cluster_id="x"), {("cluster_id", None, None, None)}),
    (lambda found: replace(found, controller_id=3), {("controller_id", None, None, None)}),
    (lambda found: replace(found, controller_id=-1), {("controller_id", None, None, None)}),
    (without("brokers", 3), {("broker", None, None, 3)}),
    (
        having("brokers", 4, answers_of.MetadataBroker("h", 9094, "r")),
        {("broker", None, None, 4)},
    ),
    (
        having("brokers", 1, answers_of.MetadataBroker("other", 9091, "r")),
        {("address", None, None, 1)},
    ),
    (having("brokers", 2, answers_of.MetadataBroker("h", 9092, None)), {("rack", None, None, 2)}),
    (
        having("partitions", ("stranger", 0), answers_of.CachedState(1, 0, (1,), (1,))),
        {("topic", "stranger", None, None)},
    ),
]


@st.composite
def mutations(draw: st.DrawFn) -> list[Change]:
    """One change of some topics, and one of the cluster, or none."""
    chosen = [
        draw(st.sampled_from(changes(topic, draw(st.integers(0, 1)))))
        for topic in sorted(draw(st.sets(st.sampled_from(TOPICS))))
    ]
    if draw(st.booleans()):
        chosen.append(draw(st.sampled_from(CLUSTER_CHANGES)))
    return chosen


@given(mutations())
def test_exactly_what_was_changed_in_an_answer_is_a_difference(chosen: list[Change]) -> None:
    result = healthy_answer()
    expected: set[tuple[Any, ...]] = set()
    for change, found in chosen:
        result = change(result)
        expected |= found

    assert differences(healthy_truth(), result) == expected


def test_a_topic_that_the_broker_says_not_to_know_is_one_difference() -> None:
    result = without("partitions", ("orders", 0), ("orders", 1))(healthy_answer())

    assert differences(healthy_truth(), result, ["orders"]) == {("topic", "orders", None, None)}
    assert differences(healthy_truth(), result) == set()  # it may hide it


def test_a_topic_that_is_being_deleted_is_not_compared() -> None:
    result = without("partitions", ("orders", 0))(healthy_answer())
    result = with_partition(("orders", 1), leader=-2, leader_epoch=9)(result)

    assert differences(replace(healthy_truth(), deleting=frozenset({"orders"})), result) == set()


def test_a_dead_leader_may_be_named_or_not() -> None:
    truth = healthy_truth()
    key = ("orders", 0)
    truth.partitions[key] = truth.partitions[key]._replace(leader_is_live=False)

    assert differences(truth, with_partition(key, leader=-1)(healthy_answer())) == set()
    assert differences(truth, healthy_answer()) == set()


def test_an_ipv6_address_stands_in_brackets() -> None:
    truth = healthy_truth()
    truth.brokers[1] = truth.brokers[1]._replace(addresses=frozenset({("fd00::1", 9091)}))
    result = having("brokers", 1, answers_of.MetadataBroker("::1", 9091, "r"))(healthy_answer())

    [found] = truth_of.metadata_differences(truth, ASKED, result, (), ALL)

    assert (found.expected, found.found) == ("[fd00::1]:9091", "[::1]:9091")


def test_a_broker_that_has_taken_nothing_yet_is_one_difference() -> None:
    [found] = truth_of.metadata_differences(
        healthy_truth(), ASKED, answers_of.ReportedMetadata(None, -1), (), ALL
    )

    assert (found.what, found.expected, found.found) == ("brokers", (1, 2, 3), ())


def test_the_controller_is_not_compared_while_a_kraft_controller_rules() -> None:
    truth = replace(healthy_truth(), is_controller_compared=False)

    assert differences(truth, replace(healthy_answer(), controller_id=3)) == set()


# Logs.


def held(**changes: Any) -> Any:
    current = dict.fromkeys(healthy_truth().partitions, ("/data", 0))
    return wire.HeldReplicas(**{"current": current, **changes})


def in_logs(found_in: Any, truth: Any = None) -> set[tuple[Any, ...]]:
    found = truth_of.log_differences(truth or healthy_truth(), ASKED, found_in, ALL)
    return {(each.what, each.topic, each.partition, each.expected, each.found) for each in found}


def test_every_log_of_a_healthy_broker_is_in_use() -> None:
    assert in_logs(held()) == set()


def test_logs_that_lack_that_stray_and_that_no_replica_uses_are_distinguished() -> None:
    logs = held()
    del logs.current["orders", 0]
    logs.current["orders", 1] = ("/data", -1)
    logs.current["payments", 0] = ("/data", 12)
    logs.current["stranger", 3] = ("/other", 0)
    logs.future["gone", 0] = "/next"
    logs.future["returns", 0] = "/next"  # it moves, and has its log: that is well

    assert in_logs(logs) == {
        ("replica", "orders", 0, "assigned", None),
        ("replica", "orders", 1, "in use", "log without LeaderAndIsr"),
        ("offset_lag", "payments", 0, 0, 12),
        ("replica", "stranger", 3, None, "/other"),
        ("replica", "gone", 0, None, "/next"),
    }


def test_a_follower_out_of_sync_may_lag() -> None:
    truth = healthy_truth()
    view = truth.partitions["orders", 0]
    state = view.state._replace(in_sync_replicas=(1, 3))
    truth.partitions["orders", 0] = view._replace(state=state)
    logs = held()
    logs.current["orders", 0] = ("/data", 12)

    assert in_logs(logs, truth) == set()


def test_no_replica_is_missed_where_a_directory_failed() -> None:
    logs = held(current={}, failed_dirs={"/data": "KAFKA_STORAGE_ERROR"})

    assert in_logs(logs) == set()


def test_what_moves_to_another_directory_must_have_a_log() -> None:
    logs = held(future={("orders", 0): "/next"})
    del logs.current["orders", 0]

    found = in_logs(logs)

    assert ("future_replica", "orders", 0, None, "/next") in found


# Leader epochs.


def in_epochs(**codes: ErrorCode) -> set[tuple[Any, ...]]:
    """Broker 2 leads partition 1 of each topic, and follows in partition 0."""
    healthy = {
        key: ErrorCode.none if key[1] == 1 else ErrorCode.not_leader_or_follower
        for key in healthy_truth().partitions
    }
    changed = {(name[:-1], int(name[-1])): code for name, code in codes.items()}
    found = truth_of.epoch_differences(healthy_truth(), ASKED, healthy | changed)
    return {(each.what, each.topic, each.partition, each.expected, each.found) for each in found}


def test_a_leader_that_leads_and_a_follower_that_refuses_are_no_difference() -> None:
    assert in_epochs() == set()


def test_each_answer_about_an_epoch_says_what_is_otherwise() -> None:
    assert in_epochs(
        orders0=ErrorCode.none,
        orders1=ErrorCode.not_leader_or_follower,
        payments0=ErrorCode.unknown_leader_epoch,
        payments1=ErrorCode.fenced_leader_epoch,
        returns1=ErrorCode.kafka_storage_error,
        returns0=ErrorCode.unknown_topic_or_partition,  # its Metadata says that already
    ) == {
        ("leader", "orders", 0, 1, 2),
        ("leader", "orders", 1, 2, "does not lead"),
        ("leader_epoch", "payments", 0, 4, "below 4"),
        ("leader_epoch", "payments", 1, 4, "above 4"),
        ("replica", "returns", 1, "in sync", "KAFKA_STORAGE_ERROR"),
    }


# Brokers against each other.


@given(mutations(), st.sampled_from(BROKERS))
def test_of_three_brokers_the_one_that_differs_is_named(chosen: list[Change], stale: int) -> None:
    results = {broker_id: healthy_answer() for broker_id in BROKERS}
    for change, _ in chosen:
        results[stale] = change(results[stale])

    truth = truth_of.agreed(results, ALL)

    # A later leader epoch and a partition more are believed, though one broker alone says so:
    # leader epochs rise, and partitions only become more.  Then the others are behind.
    later = {
        ("leader_epoch", *key, None)
        for key, state in results[stale].partitions.items()
        if key in truth.partitions and state.leader_epoch > 4
    } | {("partition", *key, None) for key in truth.partitions if key[1] == 2}
    for broker_id in set(BROKERS) - {stale}:
        assert differences(truth, results[broker_id]) == later
    expected = set().union(*(found for _, found in chosen))
    # Each broker may answer with an address of its own.
    own = {each for each in expected - later if each[0] != "address"}
    assert differences(truth, results[stale]) == own
    assert not truth.is_of_znodes


def test_a_broker_that_knows_nothing_has_no_vote() -> None:
    results = {1: healthy_answer(), 2: answers_of.ReportedMetadata("the-cluster", -1)}

    truth = truth_of.agreed(results, ALL)

    assert truth.controller_id == 1
    assert set(truth.topic_ids) == set(TOPICS)


# The verb, on a ZooKeeper in memory and brokers that answer by hand.


class Brokers:
    """What brokers 1 and 2 of :func:`furnish` answer; each answer can be changed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.silent: set[int] = set()
        self.states = {
            ("orders", 0): answers_of.CachedState(1, 4, (1, 2), (1, 2)),
            ("orders", 1): answers_of.CachedState(2, 5, (2,), (1, 2)),
            ("orders", 2): answers_of.CachedState(-1, 9, (3,), (3, 2)),
        }
        self.answers = {broker_id: dict(self.states) for broker_id in (1, 2)}
        self.looks = 0
        self.is_shown = True
        self.epochs: ErrorCode | Exception | None = None
        self.at_look: dict[int, Callable[[], None]] = {}
        monkeypatch.setattr(look_of, "connected", self._connected)
        monkeypatch.setattr(look_of, "ask_metadata", self._ask_metadata)
        monkeypatch.setattr(look_of, "held_replicas", self._held)
        monkeypatch.setattr(look_of, "epoch_errors", self._epochs)
        monkeypatch.setattr(look_of, "answer_of", lambda result: result)

    @asynccontextmanager
    async def _connected(self, addresses: Sequence[Any], *_: Any) -> AsyncIterator[Any]:
        broker_id = addresses[0].port - 9090
        if broker_id in self.silent:
            raise errors.TimedOut(f"broker {broker_id} did not answer in time")
        yield SimpleNamespace(broker_id=broker_id)

    async def _ask_metadata(self, connection: Any, *_: Any) -> Any:
        await asyncio.sleep(0)
        if connection.broker_id == 1:
            self.looks += 1
            self.at_look.get(self.looks, lambda: None)()
        known = {id_: answers_of.MetadataBroker("127.0.0.1", 9090 + id_, None) for id_ in (1, 2)}
        return answers_of.ReportedMetadata(
            None, 1, known, {}, dict(self.answers[connection.broker_id])
        )

    async def _held(self, connection: Any) -> Any:
        logs = {
            key: ("/data", 0)
            for key, state in self.states.items()
            if connection.broker_id in state.replicas
        }
        return wire.HeldReplicas(current=logs, is_shown=self.is_shown)

    async def _epochs(self, connection: Any, questions: Sequence[Any]) -> Any:
        if isinstance(self.epochs, Exception):
            raise self.epochs
        return {
            (each.topic, each.partition): self.epochs
            if self.epochs is not None
            else ErrorCode.none
            if self.states[each.topic, each.partition].leader == connection.broker_id
            else ErrorCode.not_leader_or_follower
            for each in questions
        }


@pytest.fixture
def zkctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Zkctl]:
    for zkctl in installed_zkctl(monkeypatch, capsys):
        furnish(zkctl)
        yield zkctl


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    return Brokers(monkeypatch)


DIFF: Final = ("metadata", "diff", "-z", "zk:1", "-o", "json", "--patience", "0")


def test_a_cluster_whose_brokers_are_right_has_no_row(zkctl: Zkctl, brokers: Brokers) -> None:
    result = zkctl(*DIFF)

    assert (result.exit_code, result.json) == (0, [])
    assert "no difference from ZooKeeper in 3 partitions" in result.stderr
    assert brokers.looks == 1


def test_a_difference_is_shown_with_the_znode_and_its_version(
    zkctl: Zkctl, brokers: Brokers
) -> None:
    path = PartitionStateZnode.path("orders", 0)
    zkctl.session().write(SetData(path, PartitionStateZnode(1, 4, (1,), 7).encode()))
    brokers.answers[1]["orders", 0] = brokers.states["orders", 0]._replace(isr=(1,))

    result = zkctl(*DIFF)

    [row] = result.json
    assert result.exit_code == 1
    assert (row["what"], row["where"], row["broker_id"]) == ("isr", "orders-0", 2)
    assert (row["expected"], row["found"]) == ([1], [1, 2])
    assert (row["path"], row["zk_version"], row["expected_by"]) == (path, 1, "ZooKeeper")
    assert row["is_lasting"]
    assert row["first_seen_at_ms"] <= row["last_seen_at_ms"]
    assert "at brokers 2" in result.stderr


def test_what_vanishes_at_the_second_look_is_shown_with_all_alone(
    zkctl: Zkctl, brokers: Brokers
) -> None:
    def stale() -> None:
        brokers.answers[2]["orders", 1] = brokers.states["orders", 1]._replace(leader_epoch=4)

    def well() -> None:
        brokers.answers[2]["orders", 1] = brokers.states["orders", 1]

    brokers.at_look = {1: stale, 2: well, 3: stale, 4: well}

    quiet = zkctl(*DIFF)
    shown = zkctl(*DIFF, "--all")

    assert (quiet.exit_code, quiet.json) == (0, [])
    assert [(row["what"], row["is_lasting"]) for row in shown.json] == [("leader_epoch", False)]
    assert shown.exit_code == 0


def test_a_broker_that_still_moves_is_not_reported(zkctl: Zkctl, brokers: Brokers) -> None:
    """It says one thing, then another: it follows, if late."""

    def says(epoch: int) -> Callable[[], None]:
        def change() -> None:
            stale = brokers.states["orders", 1]._replace(leader_epoch=epoch)
            brokers.answers[2]["orders", 1] = stale

        return change

    brokers.at_look = {1: says(2), 2: says(3)}

    assert zkctl(*DIFF).json == []


def test_a_silent_broker_is_named_and_waited_for_once_a_look(
    zkctl: Zkctl, brokers: Brokers
) -> None:
    brokers.silent = {2}

    result = zkctl(*DIFF)

    assert (result.exit_code, result.json) == (2, [])
    assert result.stderr.count("not compared: ") == 1
    assert "not compared: Metadata of broker 2: broker 2 did not answer in time" in result.stderr


def test_only_the_topics_and_the_broker_asked_for_are_compared(
    zkctl: Zkctl, brokers: Brokers
) -> None:
    for broker_id in (1, 2):
        for key, state in brokers.states.items():
            brokers.answers[broker_id][key] = state._replace(replicas=(9,))

    one = zkctl(*DIFF, "--broker", "2")
    none = zkctl(*DIFF, "--topic", "pay*")

    assert {row["broker_id"] for row in one.json} == {2}
    assert len(one.json) == 3
    assert (none.exit_code, none.json) == (0, [])


def test_a_broker_that_is_not_registered_cannot_be_compared(zkctl: Zkctl, brokers: Brokers) -> None:
    result = zkctl(*DIFF, "--broker", "7")

    assert result.exit_code == 2
    assert "broker 7 is not registered" in result.stderr
    assert brokers.looks == 0


def test_brokers_alone_are_compared_with_each_other(zkctl: Zkctl, brokers: Brokers) -> None:
    brokers.answers[2]["orders", 1] = brokers.states["orders", 1]._replace(leader_epoch=4)

    result = zkctl("metadata", "diff", "-b", "127.0.0.1:9091", *DIFF[4:])

    [row] = result.json
    assert (row["what"], row["broker_id"], row["found"], row["expected"]) == (
        "leader_epoch",
        2,
        4,
        5,
    )
    assert (row["expected_by"], row["path"], row["zk_version"]) == ("brokers 1,2", None, None)


def test_what_a_broker_does_not_let_the_client_ask_is_named(zkctl: Zkctl, brokers: Brokers) -> None:
    brokers.is_shown = False
    brokers.epochs = ErrorCode.topic_authorization_failed

    result = zkctl(*DIFF)

    assert (result.exit_code, result.json) == (2, [])
    for broker_id in (1, 2):
        where = f"not compared: DescribeLogDirs of broker {broker_id}: no directory is named"
        assert where in result.stderr
        hidden = f"OffsetForLeaderEpoch of broker {broker_id}: TOPIC_AUTHORIZATION_FAILED for"
        assert hidden in result.stderr


def test_what_an_old_broker_cannot_tell_is_a_note(zkctl: Zkctl, brokers: Brokers) -> None:
    brokers.epochs = errors.Refused("broker h:1 is too old for this")

    result = zkctl(*DIFF)

    assert (result.exit_code, result.json) == (0, [])
    assert "note: OffsetForLeaderEpoch of broker 1: broker h:1 is too old" in result.stderr


def test_no_more_differences_than_the_bound_are_kept(
    zkctl: Zkctl, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look_of, "MOST_DIFFERENCES", 2)
    for key, state in brokers.states.items():
        brokers.answers[2][key] = state._replace(replicas=(9,))

    result = zkctl(*DIFF)

    assert (result.exit_code, len(result.json)) == (1, 2)
    assert "not compared: Metadata of broker 2: more than 2 differences" in result.stderr
