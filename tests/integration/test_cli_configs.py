"""``zkctl config``, ``quota`` and ``user`` on brokers of ours: what is set counts."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.integration.broker_processes import Cluster, cluster_in, wait_for
from tests.integration.terminal import Terminal
from tests.support.cli_world import CommandResult, zkctl_here
from zkcontroller.zookeeper.requests import ZkCode
from zkcontroller.zookeeper.session import ZooKeeperConfig, ZooKeeperSession
from zkcontroller.zookeeper.znodes import ConfigZnode

pytestmark = pytest.mark.integration

_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"
SETTINGS: Final = {
    "listeners": "PLAINTEXT://127.0.0.1:0,LOGIN://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.login.scram-sha-256.sasl.jaas.config": f"{_MODULE};",
    "listener.name.login.scram-sha-512.sasl.jaas.config": f"{_MODULE};",
    "connection.failed.authentication.delay.ms": "10",
    "password.encoder.secret": "not-for-others",
}
BROKERS: Final = (1, 2)


class Zkctl:
    """``zkctl`` in this process, with the cluster's brokers unless it is given another address."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def run(self, *arguments: str, password: str = "") -> CommandResult:
        named = "-z" in arguments or "-b" in arguments
        at = () if named else ("-b", self.cluster.bootstrap_servers)
        more = {"ZKCTL_USER_PASSWORD": password} if password else {}
        return zkctl_here(*at, "-o", "json", *arguments, **more)

    def __call__(self, *arguments: str, exit_code: int = 0, password: str = "") -> Any:
        """What it says as JSON; where it says nothing, why not."""
        result = self.run(*arguments, password=password)
        assert result.exit_code == exit_code, result.stderr
        return result.json if result.stdout else result.stderr


@pytest.fixture(scope="module")
def session(zookeeper_connect: str) -> Iterator[ZooKeeperSession]:
    session = ZooKeeperSession(ZooKeeperConfig(f"{zookeeper_connect}/configs"))
    session.start()  # which creates the chroot
    yield session
    session.close()


@pytest.fixture(scope="module")
def cluster(
    zookeeper_connect: str, session: ZooKeeperSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Two brokers, and user ``early``, who was there before them."""
    assert session.session_id
    directory = tmp_path_factory.mktemp("configs")
    with cluster_in(directory, f"{zookeeper_connect}/configs") as cluster:
        early = ("user", "set", "early", "--yes", "-z", cluster.connect)
        Zkctl(cluster)(*early, password="early-secret")
        cluster.start(*BROKERS, **SETTINGS)
        yield cluster


@pytest.fixture(scope="module")
def zkctl(cluster: Cluster) -> Zkctl:
    zkctl = Zkctl(cluster)
    for topic in ("orders", "payments"):
        zkctl("topic", "create", topic, "--partitions", "1", "--replication-factor", "2")
    return zkctl


def config_of(session: ZooKeeperSession, path: str) -> dict[str, str] | None:
    """What stands in ZooKeeper; None where there is no znode."""
    znode = session.read(f"/config/{path}")
    return None if isinstance(znode, ZkCode) else dict(ConfigZnode.decode(path, znode.data).config)


def can_log_in(zkctl: Zkctl, directory: Path, user: str, password: str, mechanism: str) -> bool:
    """Whether a broker lets that user in."""
    file = directory / "login.properties"
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={_MODULE} username="{user}" password="{password}";\n'
    )
    listeners = zkctl.cluster.brokers[1].status["listeners"]
    address = listeners["LOGIN"].removeprefix("LOGIN://")
    done = zkctl.run("topic", "list", "-b", address, "--command-config", str(file))
    assert done.exit_code in (0, 3), done.stderr
    return done.exit_code == 0


def test_several_topics_are_changed_shown_and_proved(
    zkctl: Zkctl, session: ZooKeeperSession, tmp_path: Path
) -> None:
    file = tmp_path / "topics.properties"
    file.write_text("retention.ms=60000\nmin.cleanable.dirty.ratio=0.50\n")
    change = ("config", "set", "topic", "orders", "payments", "--append", "cleanup.policy=compact")

    unasked = zkctl.run(*change)
    planned = zkctl(*change, "--from-file", str(file), "--dry-run")
    before = config_of(session, "topics/orders")
    done = zkctl(*change, "--from-file", str(file), "--yes")
    again = zkctl.run(*change, "--from-file", str(file), "--yes")
    got = zkctl("config", "get", "topic", "--all-topics", "-z", zkctl.cluster.connect)

    assert (unasked.exit_code, "say --yes" in unasked.stderr) == (5, True)
    assert {(row["name"], row["old_value"], row["new_value"]) for row in planned} == {
        ("retention.ms", "604800000", "60000"),
        ("min.cleanable.dirty.ratio", "0.5", "0.50"),
        ("cleanup.policy", "delete", "delete,compact"),
    }
    assert (before, len(done), {row["is_done"] for row in done}) == ({}, 6, {True})
    assert "nothing to do" in again.stderr
    assert {(row["entity"], row["name"], row["value"]) for row in got} == {
        (topic, *each)
        for topic in ("orders", "payments")
        for each in (
            ("cleanup.policy", "delete,compact"),
            ("min.cleanable.dirty.ratio", "0.50"),
            ("retention.ms", "60000"),
        )
    }


def test_one_wrong_change_stops_all(zkctl: Zkctl, session: ZooKeeperSession) -> None:
    zkctl("config", "set", "topic", "orders", "--config", "segment.ms=7000", "--yes")
    set_ = ("config", "set", "topic", "orders", "payments", "--yes", "--config", "segment.ms=8000")

    by_key = zkctl(*set_, "--config", "retenton.ms=1", exit_code=5)
    by_broker = zkctl(*set_, "--config", "segment.bytes=x", exit_code=5)
    missing = zkctl("config", "set", "topic", "no", "--yes", "--config", "a=1", exit_code=5)

    assert "did you mean retention.ms?" in by_key
    assert "nothing was done" in by_key
    assert "segment.bytes" in by_broker
    assert "there is no topic no" in missing
    assert (config_of(session, "topics/orders") or {})["segment.ms"] == "7000"
    assert "segment.ms" not in (config_of(session, "topics/payments") or {})


def test_topics_differ_from_each_other_from_defaults_and_from_a_file(
    zkctl: Zkctl, tmp_path: Path
) -> None:
    zkctl("config", "set", "topic", "orders", "--config", "max.message.bytes=5000", "--yes")
    zkctl("config", "set", "broker", "--default", "--config", "message.max.bytes=6000", "--yes")
    file = tmp_path / "wanted.properties"
    file.write_text("max.message.bytes=5000\n")
    key = ("--key", "max.message.bytes")

    two = zkctl("config", "diff", "topic", "orders", "payments", *key, exit_code=1)
    defaults = zkctl("config", "diff", "topic", "orders", "--defaults", *key, exit_code=1)
    as_wanted = zkctl("config", "diff", "topic", "orders", "--file", str(file), *key)
    zkctl("config", "unset", "broker", "--default", "--key", "message.max.bytes", "--yes")
    unset = zkctl("config", "unset", "topic", "orders", *key, "--yes")
    same = zkctl("config", "diff", "topic", "orders", "payments", *key)

    assert [each["values"] for each in two] == [{"orders": "5000", "payments": "6000"}]
    assert [each["values"] for each in defaults] == [{"orders": "5000", "defaults": "6000"}]
    assert (as_wanted, same) == ([], [])
    assert [(row["value"], row["is_done"]) for row in unset] == [("1048588", True)]


def test_a_broker_that_differs_is_found(zkctl: Zkctl, session: ZooKeeperSession) -> None:
    key = ("--key", "log.cleaner.threads")
    equal = zkctl("config", "diff", "broker", "--all-entities")
    [done] = zkctl("config", "set", "broker", "2", "--config", "log.cleaner.threads=2", "--yes")
    [different] = zkctl("config", "diff", "broker", "--all-entities", exit_code=1)
    own = zkctl("config", "diff", "broker", "1", "2", "--all", exit_code=1)
    stored = config_of(session, "brokers/2")
    zkctl("config", "unset", "broker", "2", *key, "--yes")
    read_only = zkctl("config", "set", "broker", "2", "--config", "broker.id=3", "--yes",
                      exit_code=5)  # fmt: skip

    assert equal == []
    assert (done["old_value"], done["value"], done["is_done"]) == ("1", "2", True)
    assert different["values"] == {"1": "1", "2": "2"}
    assert {"broker.id", "log.dirs"} <= {each["name"] for each in own}
    assert stored == {"log.cleaner.threads": "2"}
    assert "read-only" in read_only
    assert "restart" in read_only


def test_a_secret_of_a_broker_is_set_and_never_shown(
    zkctl: Zkctl, session: ZooKeeperSession, tmp_path: Path
) -> None:
    name = "listener.name.later.ssl.key.password"  # of a listener that comes later
    file = tmp_path / "secret.properties"
    file.write_text(f"{name}=geheim\n")

    visible = zkctl.run("config", "set", "broker", "1", "--config", f"{name}=geheim", "--yes")
    done = zkctl.run("config", "set", "broker", "1", "--from-file", str(file), "--yes")
    got = zkctl.run("config", "get", "broker", "1", "--key", name)
    stored = config_of(session, "brokers/1")
    undone = zkctl("config", "unset", "broker", "1", "--key", name, "--yes")

    assert (visible.exit_code, "--from-file" in visible.stderr) == (5, True)
    assert done.exit_code == 0, done.stderr
    assert [(row["value"], row["is_done"]) for row in done.json] == [(None, True)]
    assert [row["value"] for row in got.json] == [None]
    assert "geheim" not in visible.stderr + done.stdout + done.stderr + got.stdout
    assert stored is not None
    assert stored[name].startswith("encryptedPassword:")
    assert [row["is_done"] for row in undone] == [True]


def test_quotas_are_set_for_several_entities_and_the_one_that_counts_is_named(
    zkctl: Zkctl, session: ZooKeeperSession
) -> None:
    pairs = ("--user", "alice", "--user", "bob", "--client", "app")

    done = zkctl("quota", "set", *pairs, "producer_byte_rate=1e6", "request_percentage=50", "--yes")
    zkctl("quota", "set", "--user-defaults", "consumer_byte_rate=2000", "--yes")
    zkctl("config", "set", "ip", "10.0.0.1", "--config", "connection_creation_rate=5", "--yes")
    exact = zkctl("quota", "list", "--any", "user", "--exact")
    with_pairs = zkctl("quota", "list", "--user", "alice")
    by_znodes = zkctl("quota", "list", "-z", zkctl.cluster.connect)
    effective = zkctl("quota", "describe", "--effective", "alice", "app", "--ip", "10.0.0.1")
    stored = config_of(session, "users/alice/clients/app")
    unset = zkctl("quota", "unset", *pairs, "producer_byte_rate", "request_percentage", "--yes")
    wrong = zkctl("quota", "set", "--user", "a", "produce_byte_rate=1", "--yes", exit_code=5)

    assert {row["is_done"] for row in (*done, *unset)} == {True}
    assert [row["user"] for row in exact] == ["<default>"]
    assert [(row["user"], row["client_id"]) for row in with_pairs] == [("alice", "app")]
    assert {(row["user"], row["ip"]) for row in by_znodes} == {
        *(("alice", None), ("bob", None), ("<default>", None), (None, "10.0.0.1")),
    }
    assert {(row["quota"], row["value"], row["user"]) for row in effective} == {
        ("producer_byte_rate", 1_000_000, "alice"),
        ("consumer_byte_rate", 2000, "<default>"),
        ("request_percentage", 50, "alice"),
        ("controller_mutation_rate", None, None),
        ("connection_creation_rate", 5, None),
    }
    assert stored == {"producer_byte_rate": "1000000", "request_percentage": "50.0"}
    assert config_of(session, "users/alice") is None
    assert "did you mean producer_byte_rate?" in wrong


def test_a_user_logs_in_with_the_password_that_was_set_and_not_after_it_was_deleted(
    zkctl: Zkctl, tmp_path: Path
) -> None:
    one = ("--mechanism", "SCRAM-SHA-256")

    def lets_in(password: str, bits: int = 256) -> bool:
        return can_log_in(zkctl, tmp_path, "dora", password, f"SCRAM-SHA-{bits}")

    done = zkctl("user", "set", "dora", "--yes", password="first-secret")
    # A broker learns of a password a moment after it is stored.
    wait_for(lambda: lets_in("first-secret", 256) and lets_in("first-secret", 512), "the first")
    zkctl("user", "set", "dora", *one, "--iterations", "8192", "--yes", password="second-secret")
    wait_for(lambda: lets_in("second-secret"), "the second password")
    assert not lets_in("first-secret")
    described = zkctl("user", "describe", "dora")
    deleted = zkctl("user", "delete", "dora", *one, "--yes")
    wait_for(lambda: not lets_in("second-secret"), "no password")
    compared = zkctl(
        *("user", "set", "dora", *one, "--yes", "-z", zkctl.cluster.connect),
        *("-b", zkctl.cluster.bootstrap_servers),
        password="third-secret",
    )

    assert [(row["is_done"], row["is_compared"]) for row in done] == [(True, None)] * 2
    assert [(row["mechanism"], row["iterations"]) for row in described] == [
        ("SCRAM-SHA-256", 8192),
        ("SCRAM-SHA-512", 4096),
    ]
    assert [row["is_done"] for row in deleted] == [True]
    assert [row["is_compared"] for row in compared] == [True]


def test_a_user_that_was_there_before_the_brokers_logs_in(zkctl: Zkctl, tmp_path: Path) -> None:
    assert can_log_in(zkctl, tmp_path, "early", "early-secret", "SCRAM-SHA-512")
    assert not can_log_in(zkctl, tmp_path, "early", "another", "SCRAM-SHA-512")


def test_what_is_stored_is_for_those_who_may_read_it(
    zookeeper_connect: str,
) -> None:
    connect = f"{zookeeper_connect}/secret-configs"
    stranger = ZooKeeperSession(ZooKeeperConfig(connect))
    stranger.start()  # which creates the chroot
    set_ = ("-z", connect, "-o", "json", "user", "set", "alice", "--yes")
    at = {"ZKCTL_ZOOKEEPER_AUTH": "digest:admin:secret", "ZKCTL_USER_PASSWORD": "geheim"}

    done = zkctl_here(*set_, **at)
    again = zkctl_here(*set_, "--iterations", "5000", **at)
    listed = zkctl_here("-z", connect, "user", "list")
    seen = stranger.read("/config/users/alice")
    stranger.close()

    assert [row["is_compared"] for row in (*done.json, *again.json)] == [True] * 4
    assert seen is ZkCode.NO_AUTH
    assert (listed.exit_code, "ZKCTL_ZOOKEEPER_AUTH" in listed.stderr) == (5, True)


def shows(text: str, lines: list[str]) -> bool:
    return any(text in line for line in lines)


def test_on_a_terminal_a_password_is_asked_for_twice_and_not_shown(
    zkctl: Zkctl, session: ZooKeeperSession
) -> None:
    set_ = ("user", "set", "typed", "--mechanism", "SCRAM-SHA-256")
    command = [sys.executable, "-m", "zkcontroller_cli", "-z", zkctl.cluster.connect, *set_]
    with Terminal(command, os.environ, 120, 30) as terminal:
        for prompt, keys in (("New password", "secret!"), ("Repeat", "secret!"), ("[y/N]", "y")):
            terminal.until(partial(shows, prompt))
            terminal.press(f"{keys}\n")
        config = wait_for(lambda: config_of(session, "users/typed"), "the credential")
        screen = "\n".join(terminal.lines)
        assert terminal.process.wait(30) == 0

    assert set(config) == {"SCRAM-SHA-256"}
    assert "secret!" not in screen


def test_a_running_broker_is_not_changed_behind_its_back(
    zkctl: Zkctl, session: ZooKeeperSession
) -> None:
    alone = ("-z", zkctl.cluster.connect)

    done = zkctl("config", "set", "broker", "1", "--config", "log.roll.ms=70000", "--yes", *alone)
    zkctl("config", "set", "broker", "9", "--config", "log.roll.ms=80000", "--yes", *alone)
    zkctl("config", "unset", "broker", "1", "--key", "log.roll.ms", "--yes", *alone)

    # The broker itself was asked: it says what it has.
    assert [(row["old_source"], row["value"]) for row in done] == [("default", "70000")]
    assert config_of(session, "brokers/9") == {"log.roll.ms": "80000"}
