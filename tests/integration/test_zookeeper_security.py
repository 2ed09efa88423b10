"""ZooKeeper behind TLS, and by SASL: sessions, a broker, and ``zkctl``."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from kafka_common.errors import AuthenticationFailed, ZooKeeperUnavailable
from replica_manager.configuration.config import BrokerConfig
from replica_manager.security.zookeeper_tls import zookeeper_tls
from tests.integration.broker_processes import cluster_in, wait_for
from tests.integration.conftest import Client, OpenClient
from tests.integration.secured_zookeeper import (
    SASL_PROPERTIES,
    STORE_PASSWORD,
    USERS,
    GatheringDoor,
    SecuredZooKeeper,
    jaas_flags,
    secured_zookeeper,
)
from tests.integration.zookeeper_proxy import Proxy
from tests.support.cli_world import CommandResult, zkctl_here
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper
from zkcontroller.zookeeper.requests import (
    Create,
    ReadZnodes,
    SetData,
    Stat,
    UnfencedBatch,
    WatchFired,
    WatchKind,
    Written,
    ZkCode,
    Znode,
)
from zkcontroller.zookeeper.session import SessionState

pytestmark = pytest.mark.integration

CANNOT_CONNECT: Final = 3
REFUSED: Final = 5


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredZooKeeper]:
    with secured_zookeeper(tmp_path_factory.mktemp("secured")) as server:
        yield server


def why_unavailable(open_client: OpenClient, connect: str, properties: dict[str, str]) -> str:
    """What the error says; a busy machine may need longer than the first wait to find out why."""
    said = ""
    for timeout_ms in (1_500, 6_000, 20_000):
        with pytest.raises(ZooKeeperUnavailable) as raised:
            open_client(connect, tls=context(properties), connection_timeout_ms=timeout_ms)
        said = str(raised.value)
        if not said.endswith(f"within {timeout_ms} ms"):
            break
    return said


def context(properties: dict[str, str]) -> Any:
    return zookeeper_tls(BrokerConfig.parse({"zookeeper.connect": "z:1", **properties}).values)


def sasl(user: str, password: str | None = None) -> tuple[tuple[str, str], ...]:
    return (("sasl", f"{user}:{USERS[user] if password is None else password}"),)


# TLS


def test_a_thousand_znodes_come_and_go_through_tls(
    server: SecuredZooKeeper, chroot: str, open_client: OpenClient
) -> None:
    client = open_client(server.secure + chroot, tls=context(server.trusting()))
    paths = [f"/n{number}" for number in range(1000)]
    data = bytes(range(256)) * 8

    written = client.perform(UnfencedBatch([Create(path, data) for path in paths]))
    found = client.perform(ReadZnodes(paths))

    assert written == [Written(path, 0, -1) for path in paths]
    assert [each.data for each in found if isinstance(each, Znode)] == [data] * 1000
    assert SessionState.SUSPENDED not in client.states.heard


def test_answers_in_one_tls_record_do_not_wait_for_the_next(
    server: SecuredZooKeeper, open_client: OpenClient
) -> None:
    door = GatheringDoor(server)
    client = open_client(door.connect, tls=context(server.trusting()), session_timeout_ms=120_000)
    try:
        began = time.monotonic()
        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(client.session.exists, ["/"] * 8))
        elapsed_s = time.monotonic() - began
    finally:
        client.session.close()
        door.close()

    assert all(isinstance(each, Stat) for each in found)
    # An answer that stays behind in the TLS layer comes with the next ping: after half a minute.
    assert elapsed_s < 15


def test_changes_in_the_record_of_the_last_answer_to_a_reconnect_do_not_wait(
    server: SecuredZooKeeper, chroot: str, open_client: OpenClient
) -> None:
    other = open_client(server.plain + chroot)
    other.session.write(Create("/watched"))
    door = GatheringDoor(server)
    client = open_client(
        door.connect + chroot, tls=context(server.trusting()), session_timeout_ms=120_000
    )

    def write_behind(response: int) -> None:
        if response == 2:  # the session stands again, and now its watches do
            other.session.write(SetData("/watched", b"news"))

    try:
        client.session.read("/watched", watch=True)
        door.on_answer = write_behind
        door.drop()

        fired = WatchFired(WatchKind.NODE_DATA_CHANGED, "/watched")
        assert fired in client.watches.wait_for(fired)
    finally:
        client.session.close()
        door.close()


def test_watches_and_pings_come_through_tls(
    server: SecuredZooKeeper, chroot: str, open_client: OpenClient
) -> None:
    quick = open_client(
        server.secure + chroot, tls=context(server.trusting()), session_timeout_ms=2_000
    )
    other = open_client(server.plain + chroot)
    quick.session.write(Create("/watched"))
    quick.session.read("/watched", watch=True)
    time.sleep(2.5)  # longer than the session lives without a ping

    other.session.write(SetData("/watched", b"news"))

    fired = WatchFired(WatchKind.NODE_DATA_CHANGED, "/watched")
    assert fired in quick.watches.wait_for(fired)
    assert quick.states.heard == [SessionState.CONNECTED]


def test_a_connection_that_breaks_is_replaced_under_tls(
    server: SecuredZooKeeper, chroot: str, open_client: OpenClient
) -> None:
    client = open_client(server.secure + chroot, tls=context(server.trusting()))
    session_id = client.session.session_id
    client.session.read("/", watch=True)

    for times in (2, 3):
        client.session._life.connection._socket_loop.cut()
        client.states.wait_for(SessionState.CONNECTED, times=times)
        assert isinstance(client.session.exists("/"), Stat)

    assert client.session.session_id == session_id
    client.session.write(SetData("/", b"news"))
    client.watches.wait_for(WatchFired(WatchKind.NODE_DATA_CHANGED, "/"))


def test_the_protocol_is_the_one_that_is_named(
    server: SecuredZooKeeper, open_client: OpenClient
) -> None:
    for protocol in ("TLSv1.2", "TLSv1.3"):
        tls = context(server.trusting(zookeeper__ssl__protocol=protocol))
        client = open_client(server.secure, tls=tls)
        assert client.session._life.connection._socket_loop._socket.version() == protocol


def test_a_server_of_another_authority_is_not_spoken_to(
    server: SecuredZooKeeper, open_client: OpenClient
) -> None:
    trusting = server.trusting(zookeeper__ssl__truststore__location=server.path("other.pem"))

    assert "CERTIFICATE_VERIFY_FAILED" in why_unavailable(open_client, server.secure, trusting)


def test_a_server_of_another_name_is_not_spoken_to_unless_names_do_not_count(
    server: SecuredZooKeeper, open_client: OpenClient
) -> None:
    elsewhere = server.secure.replace("127.0.0.1", "127.0.0.2")
    unchecked = server.trusting(zookeeper__ssl__endpoint__identification__algorithm="")

    why = why_unavailable(open_client, elsewhere, server.trusting())
    assert "not valid for '127.0.0.2'" in why
    assert open_client(elsewhere, tls=context(unchecked)).session.session_id


def test_a_server_without_tls_is_not_spoken_to(
    server: SecuredZooKeeper, open_client: OpenClient
) -> None:
    tls = context(server.trusting())

    with pytest.raises(ZooKeeperUnavailable, match="no connection"):
        open_client(server.plain, tls=tls, connection_timeout_ms=1_500)


@pytest.mark.parametrize("store", ["kafka.p12", "kafka.pem"])
def test_a_certificate_is_a_name_in_access_control_lists(
    store: str, server: SecuredZooKeeper, chroot: str, open_client: OpenClient
) -> None:
    shown = server.trusting(
        zookeeper__ssl__keystore__location=server.path(store),
        zookeeper__ssl__keystore__password=STORE_PASSWORD,
    )
    kafka = open_client(server.secure + chroot, tls=context(shown), set_acl=True)
    nobody = open_client(server.secure + chroot, tls=context(server.trusting()))

    kafka.session.create_missing(["/config/users"])
    kafka.session.write(Create("/config/users/alice", b"secret"))

    assert nobody.session.read("/config/users/alice") is ZkCode.NO_AUTH
    found = kafka.session.read("/config/users/alice")
    assert isinstance(found, Znode)
    assert found.data == b"secret"


# SASL


def test_who_logs_in_is_a_name_in_access_control_lists(
    server: SecuredZooKeeper, chroot: str, open_client: OpenClient
) -> None:
    alice = open_client(server.plain + chroot, auth=sasl("alice"), set_acl=True)
    bob = open_client(server.plain + chroot, auth=sasl("bob"))
    alice.session.create_missing(["/config/users"])
    alice.session.write(Create("/config/users/carol", b"secret"))

    assert bob.session.read("/config/users/carol") is ZkCode.NO_AUTH
    assert isinstance(alice.session.read("/config/users/carol"), Znode)


def test_a_login_is_repeated_when_a_connection_is_replaced(
    server: SecuredZooKeeper, chroot: str, open_client: OpenClient
) -> None:
    proxy = Proxy(server.plain)
    try:
        alice = open_client(proxy.connect + chroot, auth=sasl("alice"), set_acl=True)
        alice.session.create_missing(["/config/users"])
        alice.session.write(Create("/config/users/carol", b"secret"))
        alice.session.read("/config/users/carol", watch=True)
        for times in (2, 3):
            proxy.cut()
            alice.states.wait_for(SessionState.CONNECTED, times=times)
            assert isinstance(alice.session.read("/config/users/carol"), Znode)
        alice.session.write(SetData("/config/users/carol", b"new"))
        alice.watches.wait_for(WatchFired(WatchKind.NODE_DATA_CHANGED, "/config/users/carol"))
    finally:
        proxy.close()


def test_wrong_credentials_end_the_session_for_good(
    server: SecuredZooKeeper, open_client: OpenClient
) -> None:
    for auth in (sasl("alice", "guessed"), (("sasl", "nobody:guessed"),)):
        with pytest.raises(AuthenticationFailed):
            open_client(server.plain, auth=auth)


def test_a_session_outlives_a_server_that_refuses_its_login(
    tmp_path: Path, open_client: OpenClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as one that was started again with a wrong file."""

    def server(**users: str) -> EmbeddedZooKeeper:
        flags = jaas_flags(tmp_path, users)
        return EmbeddedZooKeeper(
            tmp_path / "zookeeper", jvm_flags=flags, properties=SASL_PROPERTIES
        )

    with server(alice=USERS["alice"]) as right:
        proxy = Proxy(right.connect)
        client = open_client(proxy.connect, auth=sasl("alice"), session_timeout_ms=120_000)
        session_id = client.session.session_id
    with (
        server(alice="another") as wrong,
        caplog.at_level(logging.INFO, "kafka.zookeeper.ZooKeeperClient"),
    ):
        proxy.lead_to(wrong.connect)
        wait_for(
            lambda: "Reinitializing due to auth failure." in caplog.text or None,
            "the login to be refused",
        )
        assert "Auth failed, initialized=true" in caplog.text
    with server(alice=USERS["alice"]) as right:
        proxy.lead_to(right.connect)
        client.states.wait_for(SessionState.CONNECTED, times=2)

        assert isinstance(client.session.exists("/"), Stat)
        assert client.session.session_id == session_id
        client.session.close()
    proxy.close()


def test_a_server_that_requires_logins_refuses_a_client_without_one(
    tmp_path: Path, open_client: OpenClient
) -> None:
    properties = {**SASL_PROPERTIES, "sessionRequireClientSASLAuth": "true"}
    strict = EmbeddedZooKeeper(
        tmp_path / "zookeeper", jvm_flags=jaas_flags(tmp_path), properties=properties
    )
    with strict:
        alice = open_client(f"{strict.connect}/a", auth=sasl("alice"))
        assert isinstance(alice.session.exists("/"), Stat)
        with pytest.raises(AuthenticationFailed, match="it requires a login by SASL"):
            open_client(strict.connect)
        result = zkctl_here("-z", f"{strict.connect}/a", "controller", "show")
        alice.session.close()

    assert result.exit_code == REFUSED
    assert "it requires a login by SASL" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_login_goes_through_tls_as_well(
    server: SecuredZooKeeper, chroot: str, open_client: OpenClient
) -> None:
    client: Client = open_client(
        server.secure + chroot, tls=context(server.trusting()), auth=sasl("alice"), set_acl=True
    )

    client.session.create_missing(["/config/users"])
    client.session.write(Create("/config/users/dave", b"x"))

    assert isinstance(client.session.read("/config/users/dave"), Znode)


# A broker, and zkctl


@pytest.fixture
def broker_under_tls(
    server: SecuredZooKeeper,
    tmp_path: Path,
    chroot: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[CommandResult]:
    """A broker that protects its znodes, started by ``zkctl``, which finds it by the same file."""
    monkeypatch.setenv("LOG_DIR", str(tmp_path / "logs"))
    properties = {
        "broker.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(tmp_path / "data"),
        "zookeeper.connect": server.secure + chroot,
        "zookeeper.set.acl": "true",
        "controlled.shutdown.enable": "false",
        **server.certified(),
    }
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    started = zkctl_here("broker", "start", str(file), "--detach", "-o", "json")
    yield started
    zkctl_here("broker", "stop", "1", "--log-dir", str(tmp_path / "data"))


def test_a_broker_and_zkctl_reach_zookeeper_under_tls(
    server: SecuredZooKeeper, broker_under_tls: CommandResult, tmp_path: Path, chroot: str
) -> None:
    assert broker_under_tls.exit_code == 0, broker_under_tls.stderr
    assert broker_under_tls.json["broker_id"] == 1
    file = tmp_path / "zookeeper.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in server.certified().items()))
    words = ("-z", server.secure + chroot, "-o", "json", "controller", "show")

    def show() -> CommandResult | None:
        result = zkctl_here(*words, "--check", "--zk-tls-config-file", str(file))
        return result if result.exit_code == 0 else None

    shown = wait_for(show, "a controller")
    assert shown.json["controller_id"] == 1
    elected = zkctl_here(
        "-z", server.secure + chroot, "controller", "elect", "--yes",
        "--zk-tls-config-file", str(file), "-o", "json",
    )  # fmt: skip
    assert elected.exit_code == 0, elected.stderr
    assert elected.json["controller_epoch"] == shown.json["controller_epoch"] + 1

    plain = zkctl_here(*words, "--timeout", "1")
    assert plain.exit_code == CANNOT_CONNECT
    assert plain.stderr.count("\n") == 1


def test_a_broker_and_zkctl_log_in_at_zookeeper(
    server: SecuredZooKeeper,
    tmp_path: Path,
    chroot: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(
        "Client { org.apache.zookeeper.server.auth.DigestLoginModule required\n"
        f'    username=kafka password="{USERS["kafka"]}"; }};'
    )
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={jaas}")
    with cluster_in(tmp_path, server.plain + chroot) as cluster:
        cluster.start(1, **{"zookeeper.set.acl": "true"})
        elect = ("-z", server.plain + chroot, "controller", "elect", "--yes", "-o", "json")

        # Anybody may look; who may not write learns it when he tries.
        show = ("-z", server.plain + chroot, "controller", "show", "--check")
        wait_for(lambda: zkctl_here(*show).exit_code == 0, "a controller")
        without_login = zkctl_here(*elect)
        assert without_login.exit_code == REFUSED
        assert "NO_AUTH for /controller: say who you are" in without_login.stderr
        other = zkctl_here(*elect, ZKCTL_ZOOKEEPER_AUTH=f"sasl:alice:{USERS['alice']}")
        assert other.exit_code == REFUSED
        assert "NO_AUTH for /controller: the user of ZKCTL_ZOOKEEPER_AUTH" in other.stderr
        tree = zkctl_here("-z", server.plain + chroot, "znode", "tree", "/config")
        assert tree.exit_code == 0, tree.stderr
        assert tree.stderr.count("NO_AUTH for /config/users") == 1
        elected = zkctl_here(*elect, ZKCTL_ZOOKEEPER_AUTH=f"sasl:kafka:{USERS['kafka']}")
        assert elected.exit_code == 0, elected.stderr
        refused = zkctl_here(*elect, ZKCTL_ZOOKEEPER_AUTH="sasl:kafka:guessed")
        assert refused.exit_code != 0
        assert "refused the credentials" in refused.stderr
        assert "guessed" not in refused.stderr
