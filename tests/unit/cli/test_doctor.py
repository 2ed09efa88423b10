"""``zkctl doctor``: each rule finds its trouble in ZooKeeper, with evidence, and nothing else.

What brokers say has tests on real ones (``tests/integration/test_doctor.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest

from kafka_common.model import Broker, Endpoint, ReplicaAssignment, TopicPartition
from tests.support.cli_world import ORDERS_ID, Zkctl, installed_zkctl
from zkcontroller.zookeeper.requests import Delete, SetData
from zkcontroller.zookeeper.znodes import (
    BrokerIdZnode,
    ConfigZnode,
    ControllerEpochZnode,
    ControllerZnode,
    PartitionStateZnode,
    ReassignPartitionsZnode,
    TopicZnode,
)

AT: Final = ("-z", "zk:1", "-o", "json")
looks: Any = import_module("zkcontroller_cli.diagnosis.looks")
errors: Any = import_module("zkcontroller_cli.console.errors")
rules: Any = import_module("zkcontroller_cli.diagnosis.rules")
findings: Any = import_module("zkcontroller_cli.diagnosis.findings")


@pytest.fixture
def zkctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Zkctl]:
    monkeypatch.setattr(import_module("zkcontroller_cli.doctor"), "SETTLE_S", 0.0)

    async def no_brokers(*_: Any) -> None:
        """The brokers of these tests are znodes alone."""

    monkeypatch.setattr(
        import_module("zkcontroller_cli.diagnosis.brokers"), "read_brokers", no_brokers
    )

    async def no_servers(*_: Any) -> list[Any]:
        """Nor are there ZooKeeper servers behind the address."""
        return []

    monkeypatch.setattr(
        import_module("zkcontroller_cli.diagnosis.ensemble"), "read_ensemble", no_servers
    )
    yield from installed_zkctl(monkeypatch, capsys)


@pytest.fixture
def healthy(zkctl: Zkctl) -> Zkctl:
    """Brokers 1 to 3 on two racks, 1 the controller; one topic of two partitions, all in sync."""
    for broker_id in (1, 2, 3):
        register(zkctl, broker_id)
    zkctl.create(ControllerZnode.PATH, ControllerZnode(1, 1_700_000_000_123).encode())
    zkctl.create(ControllerEpochZnode.PATH, ControllerEpochZnode.encode(7))
    assign(zkctl, ReplicaAssignment((1, 2)), ReplicaAssignment((2, 3)))
    for partition, (leader, isr) in enumerate(((1, (1, 2)), (2, (2, 3)))):
        zkctl.create(
            PartitionStateZnode.path("orders", partition),
            PartitionStateZnode(leader, 4, isr, 7).encode(),
        )
    for parent in ("/admin/delete_topics", "/isr_change_notification", "/config/changes"):
        zkctl.create(parent)
    return zkctl


def register(zkctl: Zkctl, broker_id: int, rack: str | None = None) -> None:
    rack = rack or f"rack-{broker_id % 2}"
    endpoint = Endpoint("127.0.0.1", 9090 + broker_id, "PLAINTEXT", "PLAINTEXT")
    broker = Broker(broker_id, (endpoint,), rack)
    zkctl.create(BrokerIdZnode.path(broker_id), BrokerIdZnode(broker, 1).encode())


def assign(zkctl: Zkctl, *assignments: ReplicaAssignment) -> None:
    put(
        zkctl,
        TopicZnode.path("orders"),
        TopicZnode(ORDERS_ID, dict(enumerate(assignments))).encode(),
    )


def state(
    zkctl: Zkctl,
    leader: int,
    isr: tuple[int, ...],
    *,
    controller_epoch: int = 7,
    partition: int = 0,
) -> None:
    path = PartitionStateZnode.path("orders", partition)
    put(zkctl, path, PartitionStateZnode(leader, 4, isr, controller_epoch).encode())


def put(zkctl: Zkctl, path: str, data: bytes) -> None:
    if zkctl.zookeeper.peek(path) is None:
        zkctl.create(path, data)
    else:
        zkctl.session().write(SetData(path, data))


def drop(zkctl: Zkctl, path: str) -> None:
    zkctl.session().write(Delete(path))


def found(zkctl: Zkctl, *arguments: str) -> dict[str, Any]:
    """The findings by rule."""
    result = zkctl("doctor", *AT, *arguments)
    assert result.exit_code in (0, 1), result.stderr
    return {row["rule"]: row for row in result.json}


def test_a_healthy_cluster_has_nothing_wrong(healthy: Zkctl) -> None:
    result = healthy("doctor", "-z", "zk:1")

    assert result.exit_code == 0
    assert result.stderr.startswith("nothing is wrong\n")


def test_an_empty_cluster_is_distinguished_from_a_healthy_one(zkctl: Zkctl) -> None:
    assert list(found(zkctl)) == ["C04", "C06"]


def no_controller(zkctl: Zkctl) -> None:
    drop(zkctl, ControllerZnode.PATH)


def corrupt_controller(zkctl: Zkctl) -> None:
    put(zkctl, ControllerZnode.PATH, b"{")


def dead_controller(zkctl: Zkctl) -> None:
    put(zkctl, ControllerZnode.PATH, ControllerZnode(9, 1).encode())


def left_migration(zkctl: Zkctl) -> None:
    zkctl.create("/migration", b"{}")


def epoch_went_back(zkctl: Zkctl) -> None:
    state(zkctl, 1, (1, 2), controller_epoch=8)


def epoch_gone(zkctl: Zkctl) -> None:
    drop(zkctl, ControllerEpochZnode.PATH)


def no_leader(zkctl: Zkctl) -> None:
    state(zkctl, -1, (1, 2))


def no_state(zkctl: Zkctl) -> None:
    drop(zkctl, PartitionStateZnode.path("orders", 0))


def dead_leader(zkctl: Zkctl) -> None:
    assign(zkctl, ReplicaAssignment((9, 2)), ReplicaAssignment((2, 3)))
    state(zkctl, 9, (9, 2))


def leader_out_of_sync(zkctl: Zkctl) -> None:
    assign(zkctl, ReplicaAssignment((1, 2, 3)), ReplicaAssignment((2, 3)))
    state(zkctl, 1, (2, 3))


def stranger_in_sync(zkctl: Zkctl) -> None:
    state(zkctl, 1, (1, 2, 3))


def none_in_sync(zkctl: Zkctl) -> None:
    state(zkctl, -1, ())


def fewer_than_min(zkctl: Zkctl) -> None:
    put(zkctl, ConfigZnode.topic_path("orders"), ConfigZnode({"min.insync.replicas": "2"}).encode())
    state(zkctl, 1, (1,))


def as_few_as_min(zkctl: Zkctl) -> None:
    state(zkctl, 1, (1,))


def under_replicated(zkctl: Zkctl) -> None:
    assign(zkctl, ReplicaAssignment((1, 2, 3)), ReplicaAssignment((2, 3)))
    state(zkctl, 1, (1, 2))


def one_rack(zkctl: Zkctl) -> None:
    assign(zkctl, ReplicaAssignment((1, 3)), ReplicaAssignment((2, 3)))
    state(zkctl, 1, (1, 3))


def not_preferred(zkctl: Zkctl) -> None:
    state(zkctl, 2, (1, 2))


def stuck_move(zkctl: Zkctl) -> None:
    assign(zkctl, ReplicaAssignment((3, 1, 2), (3,), (1,)), ReplicaAssignment((2, 3)))


def move_to_a_dead_broker(zkctl: Zkctl) -> None:
    assign(zkctl, ReplicaAssignment((9, 1, 2), (9,), (1,)), ReplicaAssignment((2, 3)))


def forgotten_order(zkctl: Zkctl) -> None:
    order = ReassignPartitionsZnode({TopicPartition("orders", 1): (3, 2)})
    zkctl.create(ReassignPartitionsZnode.PATH, order.encode())


def left_list(zkctl: Zkctl) -> None:
    config = ConfigZnode({"leader.replication.throttled.replicas": "0:1"})
    put(zkctl, ConfigZnode.topic_path("orders"), config.encode())


def left_rate(zkctl: Zkctl) -> None:
    config = ConfigZnode({"follower.replication.throttled.rate": "1000"})
    put(zkctl, ConfigZnode.broker_path(3), config.encode())


def stuck_deletion(zkctl: Zkctl) -> None:
    assign(zkctl, ReplicaAssignment((9, 2)), ReplicaAssignment((2, 3)))
    zkctl.create("/admin/delete_topics/orders")


def old_notification(zkctl: Zkctl) -> None:
    zkctl.create("/isr_change_notification/isr_change_0000000001", b"{}")


def large_znode(zkctl: Zkctl) -> None:
    assignments = [ReplicaAssignment((2, 3))] * 40_000
    put(zkctl, TopicZnode.path("large"), TopicZnode(None, dict(enumerate(assignments))).encode())


def unclean_topic(zkctl: Zkctl) -> None:
    config = ConfigZnode({"unclean.leader.election.enable": "true"})
    put(zkctl, ConfigZnode.topic_path("orders"), config.encode())


def unclean_everywhere(zkctl: Zkctl) -> None:
    config = ConfigZnode({"unclean.leader.election.enable": "true"})
    put(zkctl, ConfigZnode.broker_path(None), config.encode())


STATE: Final = "/brokers/topics/orders/partitions/0/state"


@pytest.mark.parametrize(
    ("trouble", "rule", "where", "what"),
    [
        (no_controller, "C04", "/controller", "there is no such znode"),
        (corrupt_controller, "C04", "/controller at version 1", "cannot be read: b'{'"),
        (
            dead_controller,
            "C04",
            "/controller at version 1",
            "names broker 9, which is not registered",
        ),
        (left_migration, "C05", "/migration at version 0", "a migration to KRaft was begun"),
        (epoch_went_back, "C06", f"{STATE} at version 1", "controller_epoch 8, above 7"),
        (epoch_gone, "C06", "/controller_epoch", "is missing or cannot be read"),
        (no_leader, "P01", f"{STATE} at version 1", "leader -1, in sync were 1,2"),
        (no_state, "P01", STATE, "there is no readable state"),
        (dead_leader, "P02", f"{STATE} at version 1", "leader 9 is not registered"),
        (leader_out_of_sync, "P03", f"{STATE} at version 1", "leader 1, in sync 2,3"),
        (stranger_in_sync, "P04", f"{STATE} at version 1", "in sync 3, assigned 1,2"),
        (none_in_sync, "P05", f"{STATE} at version 1", "the list of replicas in sync is empty"),
        (fewer_than_min, "P06", f"{STATE} at version 1", "fewer than min.insync.replicas=2"),
        (as_few_as_min, "P06", f"{STATE} at version 1", "as few as min.insync.replicas=1"),
        (under_replicated, "P14", f"{STATE} at version 1", "not in sync: 3"),
        (one_rack, "P08", f"{STATE} at version 1", "1 racks of 2 possible"),
        (not_preferred, "P09", f"{STATE} at version 1", "leader 2, preferred 1"),
        (stuck_move, "R01", "/brokers/topics/orders at version 1", "not in sync yet: 3"),
        (move_to_a_dead_broker, "R02", "/brokers/topics/orders at version 1", "not alive: 9"),
        (
            forgotten_order,
            "R03",
            "/admin/reassign_partitions at version 0",
            "orders-1 is ordered there",
        ),
        (left_list, "R04", "/config/topics/orders at version 0", "throttled.replicas=0:1"),
        (left_rate, "R04", "/config/brokers/3 at version 0", "throttled.rate=1000"),
        (stuck_deletion, "D01", "/admin/delete_topics/orders", "broker 9 has replicas and is not"),
        (old_notification, "N01", "/isr_change_notification/isr_change_0000000001", "s old"),
        (
            large_znode,
            "Z01",
            "/brokers/topics/large at version 0",
            "bytes; ZooKeeper takes 1,048,575",
        ),
        (
            unclean_topic,
            "S01",
            "/config/topics/orders at version 0",
            "unclean.leader.election.enable=true",
        ),
        (
            unclean_everywhere,
            "S01",
            "/config/brokers/<default> at version 0",
            "for all topics without",
        ),
    ],
    ids=lambda value: value.__name__ if callable(value) else str(value)[:20],
)
def test_each_rule_finds_its_trouble_and_says_where_it_stands(
    healthy: Zkctl, trouble: Callable[[Zkctl], None], rule: str, where: str, what: str
) -> None:
    trouble(healthy)

    findings = found(healthy, "--patience", "0")

    assert rule in findings, findings
    [evidence] = findings[rule]["evidence"][:1]
    assert evidence["where"] == where
    assert what in evidence["what"]
    others = set(findings) - {rule} - FOLLOW.get(trouble.__name__, set())
    assert not others, {other: findings[other]["evidence"] for other in others}


FOLLOW: Final = {
    # What such a trouble brings along, as it does in a real cluster.
    "dead_leader": {"P08"},
    "leader_out_of_sync": {"P14"},
    "none_in_sync": {"P01", "P06"},
    "move_to_a_dead_broker": {"R01"},
    "large_znode": {"P01"},
}


def test_partitions_below_the_minimum_come_first_and_dead_brokers_are_named(healthy: Zkctl) -> None:
    assign(healthy, ReplicaAssignment((1, 2)), ReplicaAssignment((2, 9)))
    state(healthy, 2, (2,), partition=1)
    state(healthy, 1, (1,))
    below = ConfigZnode({"min.insync.replicas": "2"})
    assign_payments(healthy)
    put(healthy, ConfigZnode.topic_path("payments"), below.encode())

    evidence = [each["what"] for each in found(healthy)["P06"]["evidence"]]

    assert evidence == [
        "in sync 1: fewer than min.insync.replicas=2; not registered: 9",
        "in sync 1: as few as min.insync.replicas=1",
        "in sync 2: as few as min.insync.replicas=1; not registered: 9",
    ]


def assign_payments(zkctl: Zkctl) -> None:
    """A second topic, behind orders by name: one replica in sync, and one on no live broker."""
    topic = TopicZnode(None, {0: ReplicaAssignment((1, 9))})
    put(zkctl, TopicZnode.path("payments"), topic.encode())
    state_znode = PartitionStateZnode(1, 4, (1,), 7)
    zkctl.create(PartitionStateZnode.path("payments", 0), state_znode.encode())


def test_a_command_about_a_topic_with_a_leading_dash_can_be_run(healthy: Zkctl) -> None:
    topic = TopicZnode(None, {0: ReplicaAssignment((1, 2))})
    put(healthy, TopicZnode.path("-dash"), topic.encode())
    leaderless = PartitionStateZnode(-1, 4, (1, 2), 7)
    healthy.create(PartitionStateZnode.path("-dash", 0), leaderless.encode())

    command = found(healthy)["P01"]["command"]

    assert command == "zkctl partition elect --unclean --dry-run -- -dash-0"


def test_the_blast_radius_counts_partitions_and_topics(healthy: Zkctl) -> None:
    state(healthy, -1, (1, 2))
    state(healthy, -1, (2, 3), partition=1)

    finding = found(healthy)["P01"]

    assert (finding["partition_count"], finding["topic_count"]) == (2, 1)


def test_a_move_to_a_dead_broker_of_a_topic_that_is_deleted_is_the_deletions_matter(
    healthy: Zkctl,
) -> None:
    """Its move cannot be cancelled, so no command says so."""
    move_to_a_dead_broker(healthy)
    before = found(healthy)["R02"]["command"]
    healthy.create("/admin/delete_topics/orders")

    after = found(healthy, "--patience", "0")

    assert before == "zkctl reassign cancel orders-0"
    assert "R02" not in after
    assert after["D01"]["command"] == "zkctl deletion status orders"


def test_what_is_young_is_under_way_and_not_stuck(healthy: Zkctl) -> None:
    stuck_move(healthy)
    old_notification(healthy)
    healthy.create("/admin/delete_topics/orders")

    assert found(healthy, "--patience", "1e12") == {}


def test_a_throttle_is_left_when_no_move_goes_on_and_no_list_is_meant_to_stay(
    healthy: Zkctl,
) -> None:
    left_list(healthy)
    left_rate(healthy)
    alone = found(healthy, "--patience", "0")
    stuck_move(healthy)
    beside_a_move = found(healthy, "--patience", "0")
    assign(healthy, ReplicaAssignment((1, 2)), ReplicaAssignment((2, 3)))
    every = ConfigZnode({"leader.replication.throttled.replicas": "*"})
    put(healthy, ConfigZnode.topic_path("orders"), every.encode())
    beside_a_lasting_one = found(healthy, "--patience", "0")

    assert [each["where"].split(" ")[0] for each in alone["R04"]["evidence"]] == [
        "/config/topics/orders",
        "/config/brokers/3",
    ]
    assert alone["R04"]["command"].startswith("zkctl config unset topic orders --key ")
    assert "R04" not in beside_a_move
    assert "R04" not in beside_a_lasting_one


def test_beside_a_kraft_controller_no_broker_is_to_be_elected(healthy: Zkctl) -> None:
    old_notification(healthy)
    forgotten_order(healthy)
    claim = ControllerZnode(3000, 1, kraft_controller_epoch=4)
    put(healthy, ControllerZnode.PATH, claim.encode())

    findings = found(healthy, "--patience", "0")

    assert set(findings) == {"N01", "R03"}
    assert findings["N01"]["command"] == "zkctl controller show"
    assert "reads no orders there" in findings["R03"]["next_step"]


def test_each_rule_that_would_elect_a_broker_has_another_step_beside_a_kraft_controller() -> None:
    electing = {
        rule.id
        for rule in rules.RULES
        if "zkctl controller elect" in rule.commands or "elect another" in rule.next_step
    }

    assert electing == rules.STEPS_BESIDE_KRAFT.keys()
    assert [each for each in rules.STEPS_BESIDE_KRAFT.values() if "elect" in each[1]] == []


def test_a_change_of_a_configuration_that_no_later_one_has_purged_is_no_finding(
    healthy: Zkctl,
) -> None:
    """Brokers purge old ones when another one comes, which may be never."""
    healthy.create("/config/changes/config_change_0000000001", b"{}")
    module = import_module("zkcontroller_cli.diagnosis.reading")
    week_ms = 7 * 24 * 3_600_000

    with pytest.MonkeyPatch.context() as patch:
        now_ms = module.now_ms
        patch.setattr(module, "now_ms", lambda: now_ms() + week_ms)
        later = found(healthy)

    assert later == {}


def test_a_rule_is_ignored_everywhere_or_for_some_topics(healthy: Zkctl) -> None:
    no_leader(healthy)

    assert "P01" in found(healthy, "--ignore", "P01=other*")
    assert found(healthy, "--ignore", "P01=ord*") == {}
    assert found(healthy, "--ignore", "P01") == {}
    assert healthy("doctor", "-z", "zk:1", "--ignore", "X99").exit_code == 2


def test_a_cluster_that_cannot_be_read_is_exit_code_2(
    zkctl: Zkctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise errors.CannotConnect("no ZooKeeper at zk:1: connection refused")

    monkeypatch.setattr(import_module("zkcontroller_cli.znodes.session"), "open_zookeeper", refused)
    result = zkctl("doctor", *AT)

    assert result.exit_code == 2
    assert "no ZooKeeper at zk:1: connection refused" in result.stderr


def test_a_saved_look_shows_what_is_new_what_has_ended_and_what_went_back(
    healthy: Zkctl, tmp_path: Path
) -> None:
    file = str(tmp_path / "look.json")
    no_leader(healthy)
    saved = healthy("doctor", *AT, "--save", file)
    state(healthy, 1, (1, 2))
    state(healthy, 1, (3,), partition=1)
    put(healthy, ControllerEpochZnode.PATH, ControllerEpochZnode.encode(6))
    now = healthy("doctor", *AT, "--since", file)

    assert [row["rule"] for row in saved.json] == ["P01"]
    assert "ended: P01 (1 places)" in now.stderr
    rules_now = {row["rule"] for row in now.json}
    assert rules_now == {"C02", "C06", "P03", "P06"}


def test_what_was_not_checked_since_a_look_is_not_said_to_have_ended(
    healthy: Zkctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(tmp_path / "before.json")
    no_leader(healthy)
    stray = ("L01", "left", "5")
    healthy("doctor", *AT, "--save", file)
    look = looks.load(Path(file))
    looks.save(replace(look, places=look.places | {stray}), Path(file))
    state(healthy, 1, (1, 2))

    async def are_hidden(reading: Any, *_: Any) -> None:
        reading.leave_unchecked(["L01"], "DescribeLogDirs of broker 2", "not allowed")

    module = import_module("zkcontroller_cli.diagnosis.brokers")
    monkeypatch.setattr(module, "read_brokers", are_hidden)
    result = healthy("doctor", *AT, "--since", file)

    assert result.exit_code == 2
    assert "  ended: P01 (1 places)\n" in result.stderr
    assert "  not seen now, and not checked in full: L01 (1 places)\n" in result.stderr


def test_a_look_is_read_as_it_was_saved(healthy: Zkctl, tmp_path: Path) -> None:
    file = tmp_path / "look.json"
    no_leader(healthy)
    healthy("doctor", *AT, "--save", str(file))

    look = looks.load(file)
    looks.save(look, tmp_path / "again.json")

    assert look.brokers[2] == looks.SeenBroker(look.brokers[2].broker_epoch, "127.0.0.1", 9092)
    assert look.topics["orders"].leader_epochs == {0: 4, 1: 4}
    assert look.controller_epoch == 7
    assert {place[0] for place in look.places} == {"P01"}
    assert looks.load(tmp_path / "again.json") == look


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version":2}', '{"version":1,"at_ms":"x"}'])
def test_a_file_that_is_no_saved_look_is_refused(
    healthy: Zkctl, tmp_path: Path, content: str
) -> None:
    file = tmp_path / "look.json"
    file.write_text(content)

    result = healthy("doctor", *AT, "--since", str(file))

    assert result.exit_code == 2
    assert "was not written by zkctl doctor --save" in result.stderr


def test_only_what_is_worse_than_info_is_exit_code_1(healthy: Zkctl) -> None:
    not_preferred(healthy)
    informed = healthy("doctor", *AT)
    no_leader(healthy)
    warned = healthy("doctor", *AT)

    assert [row["rule"] for row in informed.json] == ["P09"]
    assert (informed.exit_code, warned.exit_code) == (0, 1)


def test_what_is_there_in_one_look_alone_was_a_change_on_its_way() -> None:
    def finding(*partitions: int) -> Any:
        places = [
            findings.Place(findings.Evidence(f"/state-{p} at version {p}", "-1"), "t", p)
            for p in partitions
        ]
        return [rules._finding(rules.RULE_OF["P01"], places)] if places else []

    def looked(*looks: Any) -> list[int]:
        pending = list(looks)
        last = rules.lasting_findings(lambda: pending.pop(0), lambda: None)
        return [place.partition for each in last for place in each.places]

    assert looked(finding()) == []
    assert looked(finding(1), finding()) == []
    assert looked(finding(1, 2), finding(2)) == [2]
    assert looked(finding(1), finding(1)) == [1]
    # What is new in the second look is looked at again.
    assert looked(finding(1), finding(2), finding(2)) == [2]
    assert looked(finding(1), finding(2), finding(3), finding(4)) == []


def test_the_list_of_rules_names_each_once_with_what_it_needs(zkctl: Zkctl) -> None:
    listed = zkctl("doctor", "--rules", "-o", "json").json

    assert len({row["rule"] for row in listed}) == len(listed)
    assert {row["needs"] for row in listed} == {
        *("brokers", "ZooKeeper", "ZooKeeper's servers", "an earlier look")
    }
    assert zkctl.connected_to == []


def test_every_place_is_in_json_and_a_few_are_on_the_terminal(healthy: Zkctl) -> None:
    count = 20
    assign(healthy, *[ReplicaAssignment((1, 2))] * count)
    for partition in range(count):
        state(healthy, -1, (1, 2), partition=partition)

    told = healthy("doctor", "-z", "zk:1").stderr

    assert len(found(healthy)["P01"]["evidence"]) == count
    assert told.count("leader -1") == rules.SHOWN_EVIDENCE
    assert f"and {count - rules.SHOWN_EVIDENCE} more" in told
    assert "next: start a broker that was in sync" in told
