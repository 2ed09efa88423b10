"""Every verb that reads ZooKeeper, in every format, on a ZooKeeper in memory."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import orjson
import pytest
import yaml

from kafka_common.model import Broker, Endpoint
from tests.support.cli_world import Zkctl, furnish, installed_zkctl
from zkcontroller.zookeeper.requests import Create, Delete, RolledBack, SetData, ZkTransaction
from zkcontroller.zookeeper.znodes import BrokerIdZnode, ControllerEpochZnode, ControllerZnode
from zkcontroller_simulation.zookeeper import SimulatedSession

HERE = ("-z", "zookeeper:2181")

READING_VERBS = (
    ("controller", "show"),
    ("controller", "elect", "--dry-run"),
    ("controller", "watch", "--count", "1"),
    ("broker", "list"),
    ("broker", "describe", "1"),
    ("topic", "list"),
    ("topic", "describe", "orders"),
    ("partition", "list"),
    ("znode", "ls", "/brokers"),
    ("znode", "ls", "/brokers", "--stat"),
    ("znode", "get", "/controller"),
    ("znode", "get", "/controller", "--stat"),
    ("znode", "tree", "/"),
)


@pytest.fixture
def zkctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Zkctl]:
    yield from installed_zkctl(monkeypatch, capsys)


@pytest.fixture
def cluster(zkctl: Zkctl) -> Zkctl:
    furnish(zkctl)
    return zkctl


def verb_id(verb: tuple[str, ...]) -> str:
    return " ".join(verb)


every_verb = pytest.mark.parametrize("verb", READING_VERBS, ids=verb_id)


@every_verb
def test_json_is_one_document_with_snake_case_keys(cluster: Zkctl, verb: tuple[str, ...]) -> None:
    result = cluster(*verb, *HERE, "-o", "json")

    assert result.exit_code == 0, result.stderr
    for row in result.json if isinstance(result.json, list) else [result.json]:
        assert all(key == key.lower() and " " not in key and "-" not in key for key in row)


@every_verb
def test_jsonl_is_one_object_a_line(cluster: Zkctl, verb: tuple[str, ...]) -> None:
    result = cluster(*verb, *HERE, "-o", "jsonl")

    rows = [orjson.loads(line) for line in result.stdout.splitlines()]
    assert rows
    assert all(isinstance(row, dict) for row in rows)


@every_verb
def test_yaml_says_what_json_says(cluster: Zkctl, verb: tuple[str, ...]) -> None:
    said_in_json = cluster(*verb, *HERE, "-o", "json").json
    said_in_yaml = yaml.safe_load(cluster(*verb, *HERE, "-o", "yaml").stdout)

    if verb[1] == "watch":
        said_in_yaml[0]["time_ms"] = said_in_json[0]["time_ms"]
    assert said_in_yaml == said_in_json


@every_verb
def test_csv_has_a_header_of_all_keys(cluster: Zkctl, verb: tuple[str, ...]) -> None:
    said = cluster(*verb, *HERE, "-o", "json").json
    rows = list(csv.reader(io.StringIO(cluster(*verb, *HERE, "-o", "csv").stdout)))

    objects = said if isinstance(said, list) else [said]
    assert rows[0] == list(objects[0])
    assert len(rows) == 1 + len(objects)
    assert {len(row) for row in rows} == {len(rows[0])}


@every_verb
def test_name_is_one_identifier_a_line(cluster: Zkctl, verb: tuple[str, ...]) -> None:
    said = cluster(*verb, *HERE, "-o", "json").json
    result = cluster(*verb, *HERE, "-o", "name")

    lines = result.stdout.splitlines()
    assert len(lines) == (len(said) if isinstance(said, list) else 1)
    assert all(line and " " not in line for line in lines)


@every_verb
def test_a_table_off_a_terminal_has_no_escape_sequences(
    cluster: Zkctl, verb: tuple[str, ...]
) -> None:
    result = cluster(*verb, *HERE)

    assert result.stdout
    assert "\x1b" not in result.stdout + result.stderr


def test_the_controller_is_shown_with_its_epoch_and_address(cluster: Zkctl) -> None:
    shown = cluster("controller", "show", *HERE, "-o", "json").json

    assert shown["controller_id"] == 1
    assert (shown["host"], shown["port"]) == ("127.0.0.1", 9091)
    assert (shown["controller_epoch"], shown["controller_epoch_zk_version"]) == (7, 0)
    assert shown["elected_at_ms"] == 1_700_000_000_123


def test_no_controller_is_nulls_and_found_by_check(zkctl: Zkctl) -> None:
    result = zkctl("controller", "show", *HERE, "-o", "json")

    assert result.exit_code == 0
    assert set(result.json.values()) == {None}
    assert zkctl("controller", "show", *HERE, "--check").exit_code == 1


def test_partitions_carry_the_documented_keys(cluster: Zkctl) -> None:
    rows = cluster("partition", "list", *HERE, "-o", "json").json

    assert rows[1] == {
        "topic": "orders",
        "partition": 1,
        "leader": 2,
        "leader_epoch": 5,
        "isr": [2],
        "replicas": [1, 2],
        "adding_replicas": [],
        "removing_replicas": [],
        "controller_epoch": 6,
        "zk_version": 0,
        "leader_recovery_state": 0,
        "is_offline": False,
        "is_under_replicated": True,
        "is_preferred_leader": False,
    }


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ((), "orders-0 orders-1 orders-2"),
        (("--offline",), "orders-2"),
        (("--under-replicated",), "orders-1 orders-2"),
        (("--not-preferred",), "orders-1 orders-2"),
        (("--offline", "--under-replicated"), "orders-1 orders-2"),
    ],
)
def test_filters_list_the_partitions_they_name(
    cluster: Zkctl, filters: tuple[str, ...], found: str
) -> None:
    result = cluster("partition", "list", *HERE, *filters, "-o", "name")

    assert result.stdout.split() == found.split()
    assert result.exit_code == 0


def test_check_turns_a_listing_into_an_exit_code(cluster: Zkctl) -> None:
    assert cluster("partition", "list", *HERE, "--offline", "--check").exit_code == 1

    cluster.create("/brokers/topics/empty", b'{"version":3,"partitions":{}}')
    result = cluster("partition", "list", *HERE, "--offline", "--check", "--topic", "empty")
    assert result.exit_code == 0


def test_a_partition_whose_leader_is_not_registered_is_offline(cluster: Zkctl) -> None:
    cluster.create("/brokers/topics/lost", b'{"version":3,"partitions":{"0":[9]}}')
    cluster.create(
        "/brokers/topics/lost/partitions/0/state",
        b'{"controller_epoch":7,"leader":9,"version":1,"leader_epoch":0,"isr":[9]}',
    )

    [row] = cluster("partition", "list", *HERE, "--topic", "lost", "-o", "json").json
    assert row["leader"] == 9
    assert row["is_offline"] is True


def test_a_corrupt_state_is_warned_about_and_reads_as_none(cluster: Zkctl) -> None:
    cluster.create("/brokers/topics/bad", b'{"version":3,"partitions":{"0":[1]}}')
    cluster.create("/brokers/topics/bad/partitions/0/state", b"\xff not json")

    result = cluster("partition", "list", *HERE, "--topic", "bad", "-o", "json")

    assert result.exit_code == 0
    assert "/brokers/topics/bad/partitions/0/state" in result.stderr
    assert result.json[0]["leader"] is None
    assert result.json[0]["is_offline"] is True


def test_a_topic_is_described_with_configs_and_partitions(cluster: Zkctl) -> None:
    topic = cluster("topic", "describe", "orders", *HERE, "-o", "json").json

    assert topic["topic_id"] == "ASNFZ4mrze8BI0VniavN7w"
    assert topic["configs"] == {"retention.ms": "1000"}
    assert topic["partition_count"] == 3
    assert topic["partitions"][2] == {
        "partition": 2,
        "leader": -1,
        "leader_epoch": 9,
        "isr": [3],
        "replicas": [3, 2],
        "offline_replicas": [3],
        "adding_replicas": [],
        "removing_replicas": [],
    }


def test_a_broker_is_described_with_what_it_leads_and_holds(cluster: Zkctl) -> None:
    broker = cluster("broker", "describe", "2", *HERE, "-o", "json").json

    counts = ("replica_count", "leader_count", "preferred_leader_count", "out_of_sync_count")
    assert [broker[count] for count in counts] == [3, 1, 0, 1]
    assert broker["is_controller"] is False
    assert broker["broker_epoch"] > 0


def test_a_znode_is_decoded(cluster: Zkctl) -> None:
    znode = cluster("znode", "get", "/controller_epoch", *HERE, "-o", "json").json

    assert znode == {
        "path": "/controller_epoch",
        "zk_version": 0,
        "data": "7",
        "raw": "7",
        "is_corrupt": False,
    }


def test_a_corrupt_znode_is_shown_raw_with_a_warning(zkctl: Zkctl) -> None:
    zkctl.create("/controller", b"{\xfe")

    result = zkctl("znode", "get", "/controller", *HERE, "-o", "json")

    assert result.exit_code == 0
    assert "/controller is corrupt" in result.stderr
    assert result.json["is_corrupt"] is True
    assert result.json["data"] == "{\\xfe"


def test_a_tree_lists_parents_before_their_children(cluster: Zkctl) -> None:
    rows = cluster("znode", "tree", "/brokers", *HERE, "-o", "json").json

    paths = [row["path"] for row in rows]
    assert paths[:4] == ["/brokers", "/brokers/ids", "/brokers/ids/1", "/brokers/ids/2"]
    assert paths[-1] == "/brokers/topics/orders/partitions/2/state"
    assert [row["depth"] for row in rows[:3]] == [0, 1, 2]
    shallow = cluster("znode", "tree", "/brokers", "--depth", "1", *HERE, "-o", "name")
    assert shallow.stdout.split() == ["/brokers", "/brokers/ids", "/brokers/topics"]


def test_a_chroot_is_honoured_and_never_created(zkctl: Zkctl) -> None:
    furnish(zkctl, chroot="/kafka/a")

    shown = zkctl("controller", "show", "-z", "zookeeper:2181/kafka/a", "-o", "json").json
    listed = zkctl("znode", "ls", "/", "-z", "zookeeper:2181/kafka/a/", "-o", "name").stdout
    refused = zkctl("controller", "show", "-z", "zookeeper:2181/kafka/b")

    assert shown["controller_id"] == 1
    assert listed.split() == ["/brokers", "/config", "/controller", "/controller_epoch"]
    assert refused.exit_code == 5
    assert zkctl.zookeeper.peek("/kafka/b") is None


def test_a_dry_run_says_what_it_would_delete_and_deletes_nothing(cluster: Zkctl) -> None:
    plan = cluster("controller", "elect", "--dry-run", *HERE, "-o", "json").json

    assert plan["is_dry_run"] is True
    assert plan["path"] == "/controller"
    assert (plan["controller_id_before"], plan["controller_epoch_before"]) == (1, 7)
    assert plan["controller_id"] is None
    assert cluster.zookeeper.peek("/controller") is not None


def test_off_a_terminal_an_election_needs_yes(cluster: Zkctl) -> None:
    result = cluster("controller", "elect", *HERE)

    assert result.exit_code == 5
    assert "--yes" in result.stderr
    assert cluster.zookeeper.peek("/controller") is not None


def test_without_a_controller_there_is_nothing_to_delete(zkctl: Zkctl) -> None:
    zkctl.create("/controller_epoch", b"3")

    result = zkctl("controller", "elect", "--yes", *HERE)

    assert result.exit_code == 5
    assert "there is no controller to move" in result.stderr


@pytest.mark.parametrize("how", ["--yes", "--dry-run"])
def test_the_claim_of_a_kraft_controller_is_not_deleted(cluster: Zkctl, how: str) -> None:
    claim = ControllerZnode(3000, 1, kraft_controller_epoch=4).encode()
    cluster.session().write(SetData(ControllerZnode.PATH, claim))

    result = cluster("controller", "elect", how, *HERE)

    assert result.exit_code == 5
    assert "/controller belongs to KRaft controller 3000" in result.stderr
    assert cluster.zookeeper.peek(ControllerZnode.PATH) is not None


def test_a_controller_that_moved_since_it_was_shown_is_not_deleted(cluster: Zkctl) -> None:
    election = import_module("zkcontroller_cli.elections.election").Election
    settings = import_module("zkcontroller_cli.console.options").Settings(zookeeper_flag="zk:1")
    refused = import_module("zkcontroller_cli.console.errors").Refused
    session = SimulatedSession(cluster.zookeeper)
    session.start()

    with election.begin(settings) as shown:
        session.write(Delete("/controller"))
        session.write(Create("/controller", ControllerZnode(2, 1).encode()))
        session.write(SetData("/controller_epoch", b"8"))

        # The new /controller is at version 0, like the one before: only the epoch tells.
        with pytest.raises(refused, match="the controller has moved meanwhile"):
            shown.run(timeout_s=5)

    assert cluster("controller", "show", *HERE, "-o", "name").stdout == "2\n"


def test_an_election_that_no_broker_wins_times_out(cluster: Zkctl) -> None:
    result = cluster("controller", "elect", "--yes", "--timeout", "0.3", *HERE)

    assert result.exit_code == 4
    assert result.stdout == ""
    assert cluster.zookeeper.peek("/controller") is None


@pytest.mark.parametrize("is_elected", [True, False], ids=["elected", "not elected yet"])
def test_a_deletion_whose_answer_was_lost_is_not_said_to_have_done_nothing(
    cluster: Zkctl, monkeypatch: pytest.MonkeyPatch, is_elected: bool
) -> None:
    others = cluster.session()
    perform = SimulatedSession.perform

    def loses_the_first_answer(session: SimulatedSession, request: Any, *_: Any) -> Any:
        if isinstance(request, ZkTransaction):
            perform(session, request)
            if is_elected:
                others.write(SetData(ControllerEpochZnode.PATH, b"8"))
                others.write(Create(ControllerZnode.PATH, ControllerZnode(2, 1).encode()))
            refusal = perform(session, request)
            assert isinstance(refusal, RolledBack)
            return refusal._replace(is_repeated=True)
        return perform(session, request)

    monkeypatch.setattr(SimulatedSession, "perform", loses_the_first_answer)
    module = import_module("zkcontroller_cli.elections.election")
    monkeypatch.setattr(module, "_SETTLE_S", 0.0)
    result = cluster("controller", "elect", "--yes", "--timeout", "0.5", "-o", "json", *HERE)

    assert "nothing was deleted" not in result.stderr
    assert "deleted /controller, or it went by itself, is not known" in result.stderr
    if is_elected:
        assert (result.exit_code, result.json["controller_id"]) == (0, 2)
    else:
        assert result.exit_code == 4


def test_an_ipv6_address_of_a_broker_is_shown_in_brackets(cluster: Zkctl) -> None:
    endpoint = Endpoint("2001:db8::7", 9092, "PLAINTEXT", "PLAINTEXT")
    cluster.create(BrokerIdZnode.path(7), BrokerIdZnode(Broker(7, (endpoint,)), 1).encode())

    listed = cluster("broker", "list", *HERE, "-o", "json").json

    (shown,) = [row for row in listed if row["broker_id"] == 7]
    assert shown["endpoints"] == ["PLAINTEXT://[2001:db8::7]:9092"]
    assert shown["host"] == "2001:db8::7"
