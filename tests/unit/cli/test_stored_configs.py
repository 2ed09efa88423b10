"""Configurations, credentials and quotas in ZooKeeper, by verbs that are given ZooKeeper alone."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from replica_manager.security.password_encoder import PasswordEncoder
from tests.support.cli_world import Zkctl, furnish, installed_zkctl
from tests.support.stored_configs import accepts
from zkcontroller.zookeeper.connect_string import parse_connect
from zkcontroller.zookeeper.requests import ListChildren, ReadZnodes, SetData, ZkCode
from zkcontroller.zookeeper.znodes import ConfigZnode, ControllerZnode

HERE: Final = ("-z", "zookeeper:2181")
JSON: Final = (*HERE, "-o", "json")
user_plan: Any = import_module("zkcontroller_cli.values.users")
errors: Any = import_module("zkcontroller_cli.console.errors")
stored_configs: Any = import_module("zkcontroller_cli.configurations.stored_configs")
cli_zookeeper: Any = import_module("zkcontroller_cli.znodes.session")
config_entities: Any = import_module("zkcontroller_cli.values.config_entities")


@pytest.fixture
def zkctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Zkctl]:
    yield from installed_zkctl(monkeypatch, capsys)


@pytest.fixture
def cluster(zkctl: Zkctl) -> Zkctl:
    furnish(zkctl)
    return zkctl


@pytest.fixture
def password(tmp_path: Path) -> str:
    """A file with the password ``geheim``."""
    file = tmp_path / "password"
    file.write_text("geheim\n")
    return str(file)


def config_in(zkctl: Zkctl, path: str) -> Mapping[str, str] | None:
    """What the znode below /config says; None where there is none."""
    [found] = zkctl.session().perform(ReadZnodes([f"/config/{path}"]))
    return None if isinstance(found, ZkCode) else ConfigZnode.decode(path, found.data).config


def notified(zkctl: Zkctl) -> list[str]:
    """The paths of all notifications, oldest first."""
    session = zkctl.session()
    [names] = session.perform(ListChildren(["/config/changes"]))
    assert not isinstance(names, ZkCode)
    znodes = session.perform(ReadZnodes([f"/config/changes/{name}" for name in sorted(names)]))
    found = [each for each in znodes if not isinstance(each, ZkCode)]
    return [orjson.loads(each.data)["entity_path"] for each in found]


def test_a_broker_that_zookeeper_does_not_know_is_named(cluster: Zkctl) -> None:
    put(cluster, "brokers/8", num__io__threads="3")

    unknown = cluster("config", "get", "broker", "7", *JSON)
    stopped = cluster("config", "get", "broker", "8", *JSON)
    live = cluster("config", "get", "broker", "1", *JSON)

    assert (unknown.exit_code, unknown.json) == (0, [])
    assert "broker 7 is not registered, and ZooKeeper has no value for it" in unknown.stderr
    assert "not registered" not in stopped.stderr + live.stderr


def put(zkctl: Zkctl, path: str, **config: str) -> None:
    named = {key.replace("__", "."): value for key, value in config.items()}
    zkctl.create(f"/config/{path}", ConfigZnode(named).encode())


def test_a_password_is_set_before_any_broker_runs(zkctl: Zkctl, password: str) -> None:
    result = zkctl("user", "set", "CN=alice", "--password-file", password, "--yes", *JSON)

    assert result.exit_code == 0, result.stderr
    stored = config_in(zkctl, "users/CN%3Dalice")
    assert stored is not None
    assert set(stored) == {"SCRAM-SHA-256", "SCRAM-SHA-512"}
    assert all(accepts(stored[each], each, "geheim") for each in stored)
    assert not any(accepts(stored[each], each, "other") for each in stored)
    assert [(row["is_done"], row["is_compared"], row["iterations"]) for row in result.json] == [
        (True, True, 4096)
    ] * 2
    assert notified(zkctl) == ["users/CN%3Dalice"]
    assert "geheim" not in result.stdout + result.stderr


def test_a_credential_leaves_quotas_and_the_other_mechanism_alone(
    cluster: Zkctl, password: str
) -> None:
    put(cluster, "users/alice", producer_byte_rate="1000")
    set_ = ("user", "set", "alice", "--password-file", password, "--yes")
    cluster(*set_, "--mechanism", "SCRAM-SHA-256", "--iterations", "8192", *HERE)
    cluster(*set_, "--mechanism", "SCRAM-SHA-512", *HERE)

    listed = cluster("user", "list", *JSON).json
    described = cluster("config", "get", "user", "alice", *JSON).json
    deleted = cluster("user", "delete", "alice", "--mechanism", "SCRAM-SHA-512", "--yes", *JSON)
    left = config_in(cluster, "users/alice")

    assert [(row["mechanism"], row["iterations"]) for row in listed] == [
        ("SCRAM-SHA-256", 8192),
        ("SCRAM-SHA-512", 4096),
    ]
    assert {row["name"]: row["value"] for row in described} == {
        "producer_byte_rate": "1000",
        "SCRAM-SHA-256": "iterations=8192",
        "SCRAM-SHA-512": "iterations=4096",
    }
    assert [row["is_done"] for row in deleted.json] == [True]
    assert left is not None
    assert set(left) == {"producer_byte_rate", "SCRAM-SHA-256"}


def test_the_znode_of_a_user_ends_with_the_last_credential(cluster: Zkctl, password: str) -> None:
    cluster("user", "set", "bob", "--password-file", password, "--yes", *HERE)
    put(cluster, "users/carol/clients/app", producer_byte_rate="1")
    cluster("user", "set", "carol", "--password-file", password, "--yes", *HERE)

    for name in ("bob", "carol"):
        assert cluster("user", "delete", name, "--yes", *HERE).exit_code == 0

    assert config_in(cluster, "users/bob") is None
    assert config_in(cluster, "users/carol") == {}
    assert config_in(cluster, "users/carol/clients/app") == {"producer_byte_rate": "1"}


def test_a_dry_run_neither_asks_for_a_password_nor_writes(cluster: Zkctl) -> None:
    result = cluster("user", "set", "alice", "--dry-run", *JSON)

    assert result.exit_code == 0
    assert {row["is_dry_run"] for row in result.json} == {True}
    assert config_in(cluster, "users/alice") is None


@pytest.mark.parametrize(
    ("arguments", "exit_code", "sentence"),
    [
        (("set", "a", "--yes", "--password", "x"), 2, "arguments can be seen by others"),
        (("set", "a", "--yes"), 2, "which password?"),
        (("set", "a", "--yes", "--password-file", "/no/such"), 2, "cannot read /no/such"),
        (("set", "", "--yes"), 2, "the name of the user is empty"),
        (("set", "a", "--yes", "--iterations", "100"), 2, "must be between 4096 and 16384"),
        (("set", "a"), 5, "say --yes"),
        (("delete", "not-there", "--yes"), 5, "has no SCRAM credential"),
        (("describe", "not-there"), 5, "has no SCRAM credential"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    cluster: Zkctl, arguments: tuple[str, ...], exit_code: int, sentence: str
) -> None:
    result = cluster("user", *arguments, *HERE)

    assert (result.exit_code, result.stdout) == (exit_code, ""), result.stderr
    assert sentence in result.stderr
    assert config_in(cluster, "users/a") is None


def test_a_password_comes_from_the_environment_or_from_stdin(
    cluster: Zkctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZKCTL_USER_PASSWORD", "from-there")
    cluster("user", "set", "one", "--mechanism", "SCRAM-SHA-256", "--yes", *HERE)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"from-here\r\n")))
    more = ("--mechanism", "SCRAM-SHA-256", "--password-file", "-", "--yes")
    cluster("user", "set", "two", *more, *HERE)

    one, two = config_in(cluster, "users/one"), config_in(cluster, "users/two")

    assert one is not None
    assert two is not None
    assert accepts(one["SCRAM-SHA-256"], "SCRAM-SHA-256", "from-there")
    assert accepts(two["SCRAM-SHA-256"], "SCRAM-SHA-256", "from-here")


@pytest.mark.parametrize("data", [b"", b"\n", b"a\nb\n", b"\xff", b"x" * 5000])
def test_what_is_no_password_is_refused(data: bytes) -> None:
    with pytest.raises(errors.BadUsage):
        user_plan.password_in(data, "the file")


def test_nothing_is_written_where_the_controller_is_in_kraft_mode(
    zkctl: Zkctl, password: str
) -> None:
    zkctl.create(ControllerZnode.PATH, ControllerZnode(3000, 1, kraft_controller_epoch=4).encode())

    result = zkctl("user", "set", "alice", "--password-file", password, "--yes", *HERE)

    assert result.exit_code == 5
    assert "ZooKeeper mode" in result.stderr
    assert config_in(zkctl, "users/alice") is None


def test_a_credential_that_cannot_be_read_is_named_and_the_others_are_listed(
    cluster: Zkctl,
) -> None:
    keys = base64.b64encode(b"k" * 32).decode()
    good = f"salt={keys},stored_key={keys},server_key={keys},iterations=4096"
    data = ConfigZnode({"SCRAM-SHA-256": good, "SCRAM-SHA-512": "secret rubbish"}).encode()
    cluster.create("/config/users/alice", data)

    result = cluster("user", "list", *JSON)

    assert [row["mechanism"] for row in result.json] == ["SCRAM-SHA-256"]
    assert "SCRAM-SHA-512 of user alice cannot be used" in result.stderr
    assert "rubbish" not in result.stdout + result.stderr


def test_a_corrupt_configuration_is_not_written_over(cluster: Zkctl, password: str) -> None:
    cluster.create("/config/users/alice", b"{")

    result = cluster("user", "set", "alice", "--password-file", password, "--yes", *HERE)

    assert result.exit_code == 5
    assert "is corrupt" in result.stderr


def test_quotas_are_read_from_their_znodes(cluster: Zkctl) -> None:
    put(cluster, "users/alice", producer_byte_rate="1000")
    put(cluster, "users/alice/clients/a%2Fb", request_percentage="12.5")
    put(cluster, "users/<default>/clients/<default>", consumer_byte_rate="7")
    put(cluster, "clients/app", producer_byte_rate="no number")
    put(cluster, "ips/10.0.0.1", connection_creation_rate="3")

    result = cluster("quota", "list", *JSON)
    effective = cluster("quota", "describe", "--effective", "alice", "a/b", *JSON).json

    assert [(row["user"], row["client_id"], row["ip"]) for row in result.json] == [
        ("<default>", "<default>", None),
        ("alice", None, None),
        ("alice", "a/b", None),
        (None, None, "10.0.0.1"),
    ]
    assert "producer_byte_rate of client app is no number" in result.stderr
    assert [(row["quota"], row["value"]) for row in effective][:3] == [
        ("producer_byte_rate", 1000),
        ("consumer_byte_rate", 7),
        ("request_percentage", 12.5),
    ]


def test_what_is_set_on_topics_and_brokers_is_read_from_their_znodes(cluster: Zkctl) -> None:
    put(cluster, "brokers/7", log__retention__ms="5", ssl__key__password="encrypted")
    put(cluster, "brokers/<default>", my__own="hidden too")

    topics = cluster("config", "get", "topic", "--all-topics", *JSON).json
    brokers = cluster("config", "get", "broker", "--all-entities", *JSON)
    missing = cluster("config", "get", "topic", "no-such", *HERE)

    assert [(r["entity"], r["name"], r["value"], r["source"]) for r in topics] == [
        ("orders", "retention.ms", "1000", "topic")
    ]
    assert [(r["entity"], r["name"], r["value"], r["is_sensitive"]) for r in brokers.json] == [
        ("7", "log.retention.ms", "5", False),
        ("7", "ssl.key.password", None, True),
        ("<default>", "my.own", None, True),
    ]
    assert (missing.exit_code, "there is no topic no-such" in missing.stderr) == (5, True)


def test_a_stopped_broker_is_configured_in_zookeeper(cluster: Zkctl, tmp_path: Path) -> None:
    encoder, secret = tmp_path / "encoder", tmp_path / "secret"
    encoder.write_text("password.encoder.secret=s3\n")
    name = "listener.name.external.ssl.keystore.password"
    secret.write_text(f"{name}=geheim\n")
    set_ = ("config", "set", "broker", "3", "--config", "log.retention.ms=7", "--yes")

    plain = cluster(*set_, *JSON)
    unsafe = cluster(*set_[:4], "--from-file", str(secret), "--yes", *HERE)
    files = ("--from-file", str(secret), "--password-encoder-file", str(encoder))
    encoded = cluster(*set_[:4], *files, "--yes", *JSON)
    stored = config_in(cluster, "brokers/3")
    cluster("config", "unset", "broker", "3", "--key", "log.retention.ms", "--yes", *HERE)

    assert [(row["value"], row["is_done"]) for row in plain.json] == [("7", True)]
    assert (unsafe.exit_code, "stored encrypted" in unsafe.stderr) == (5, True)
    assert [(row["value"], row["is_done"]) for row in encoded.json] == [(None, True)]
    assert "geheim" not in encoded.stdout + encoded.stderr
    assert stored is not None
    assert PasswordEncoder("s3").decode(stored[name]) == "geheim"
    assert set(config_in(cluster, "brokers/3") or ()) == {name}
    assert notified(cluster) == ["brokers/3"] * 3


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("3", "--config", "broker.id=7"), "read-only"),
        (("3", "--config", "log.retention.ms=x"), "log.retention.ms"),
        (("3", "--config", "log.retenton.ms=7"), "did you mean log.retention.ms?"),
        (("3", "--append", "log.cleanup.policy=compact"), "set the whole list"),
        (("3", "1", "--config", "log.retention.ms=7"), "in two commands"),
    ],
)
def test_what_a_stopped_broker_cannot_have_is_refused(
    cluster: Zkctl, arguments: tuple[str, ...], sentence: str
) -> None:
    result = cluster("config", "set", "broker", *arguments, "--yes", *HERE)

    assert result.exit_code == 5, result.stderr
    assert sentence in result.stderr
    assert config_in(cluster, "brokers/3") is None


def test_all_brokers_are_configured_in_zookeeper_only_while_none_runs(zkctl: Zkctl) -> None:
    set_ = ("config", "set", "broker", "--default", "--yes", "--config")

    done = zkctl(*set_, "max.connections=500", *JSON)
    of_one = zkctl(*set_, "ssl.keystore.location=/k", *HERE)

    assert [row["is_done"] for row in done.json] == [True]
    assert config_in(zkctl, "brokers/<default>") == {"max.connections": "500"}
    assert (of_one.exit_code, "needs the prefix" in of_one.stderr) == (5, True)


def test_a_change_that_another_crosses_is_made_anew(cluster: Zkctl) -> None:
    put(cluster, "brokers/3", log__roll__ms="1")
    entity = config_entities.ConfigEntity("broker", "3")
    connection = cli_zookeeper.ZooKeeper(cluster.session(), parse_connect("z:1"))
    calls = []

    def change(now: Mapping[str, str]) -> dict[str, str]:
        calls.append(dict(now))
        if len(calls) == 1:
            other = ConfigZnode({"log.roll.ms": "2"}).encode()
            cluster.session().write(SetData("/config/brokers/3", other))
        return {**now, "log.retention.ms": "9"}

    stored_configs.change_stored(connection, connection, entity, change)

    assert calls == [{"log.roll.ms": "1"}, {"log.roll.ms": "2"}]
    assert config_in(cluster, "brokers/3") == {"log.roll.ms": "2", "log.retention.ms": "9"}


def test_everything_is_below_the_chroot(zkctl: Zkctl, password: str) -> None:
    furnish(zkctl, "/kafka")
    at = ("-z", "zookeeper:2181/kafka")

    result = zkctl("user", "set", "alice", "--password-file", password, "--yes", *at)

    assert result.exit_code == 0, result.stderr
    [found] = zkctl.session().perform(ReadZnodes(["/kafka/config/users/alice"]))
    assert not isinstance(found, ZkCode)
    assert config_in(zkctl, "users/alice") is None


def test_a_list_of_znode_names_becomes_one_of_users() -> None:
    def held(*users: str) -> list[Any]:
        return [user_plan.HeldCredential(user, "SCRAM-SHA-256", 4096) for user in users]

    def names(listed: list[Any], meant: list[Any]) -> list[str]:
        return [each.user for each in user_plan.with_names_of_users(listed, meant)]

    assert names(held("CN%3Da", "bob"), held("CN=a")) == ["CN=a", "bob"]
    # A newer broker lists the names of users, one of which may look like a znode.
    assert names(held("CN%3Da", "bob"), []) == ["CN%3Da", "bob"]
    assert names(held("CN%3Da", "CN=a"), held("CN=a")) == ["CN%3Da", "CN=a"]
