"""Limits, credentials, expiry storms and start-up of the session on a real ZooKeeper."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kafka_common.errors import (
    AuthenticationFailed,
    ConfigInvalid,
    SessionExpired,
    ZooKeeperUnavailable,
)
from kafka_common.net.loopback_ports import free_port
from tests.integration.conftest import Client, OpenClient
from tests.integration.zookeeper_proxy import Proxy
from tests.support.zookeepers import PATIENCE_S, Recorder, end_session
from zkcontroller.zookeeper.jute import OpCode
from zkcontroller.zookeeper.requests import (
    CheckExists,
    Create,
    FencedBatch,
    ListChildren,
    ReadZnodes,
    RolledBack,
    SetData,
    UnfencedBatch,
    WatchFired,
    Written,
    ZkCode,
    ZkTransaction,
    Znode,
)
from zkcontroller.zookeeper.session import SessionState, ZooKeeperConfig, ZooKeeperSession

pytestmark = pytest.mark.integration

ALICE = (("digest", "alice:secret"),)
BOB = (("digest", "bob:other"),)
MEGABYTE = 1024 * 1024


# Sizes


def test_writes_larger_than_a_request_together_are_spread(direct: Client) -> None:
    data = b"x" * 300_000
    paths = [f"/n{number}" for number in range(12)]

    results = direct.perform(UnfencedBatch([Create(path, data) for path in paths]))

    assert results == [Written(path, 0, -1) for path in paths]
    found = direct.perform(ReadZnodes(paths))
    assert [each.data for each in found if isinstance(each, Znode)] == [data] * 12
    assert SessionState.SUSPENDED not in direct.states.heard


def test_a_write_larger_than_the_server_takes_is_refused_and_the_connection_stands(
    direct: Client,
) -> None:
    large = b"x" * (MEGABYTE + 1)
    direct.session.write(Create("/controller_epoch"))

    fenced = direct.perform(FencedBatch([Create("/a"), Create("/b", large), Create("/c")], 0))
    transaction = direct.perform(ZkTransaction([Create("/d"), SetData("/a", large)]))

    assert fenced == [Written("/a", 0, -1), ZkCode.MARSHALLING_ERROR, Written("/c", 0, -1)]
    assert transaction == RolledBack(ZkCode.MARSHALLING_ERROR, 1)
    assert direct.session.read("/d") is ZkCode.NO_NODE
    assert SessionState.SUSPENDED not in direct.states.heard


def test_a_bulk_read_of_large_znodes_is_asked_in_small_portions(
    proxy: Proxy, shaky: Client, direct: Client
) -> None:
    paths = [f"/n{number}" for number in range(400)]
    data = b"x" * 40_000
    direct.perform(UnfencedBatch([Create(path, data) for path in paths]))

    found = shaky.perform(ReadZnodes(paths))

    assert [len(each.data) for each in found if isinstance(each, Znode)] == [40_000] * 400
    assert proxy.largest_answer_bytes <= ZooKeeperConfig("").max_buffer_bytes
    assert proxy.requests[OpCode.MULTI_READ] >= 4


def test_a_path_may_hold_any_letters_and_many_children(direct: Client) -> None:
    names = [f"größe-{number}-度" for number in range(3000)]
    direct.perform(UnfencedBatch([Create(f"/{name}") for name in names]))

    listed = direct.session.children("/")
    assert isinstance(listed, list)
    assert sorted(listed) == sorted(names)


def test_a_path_that_is_none_is_refused_alone(direct: Client) -> None:
    results = direct.perform(
        UnfencedBatch([Create("/a"), Create("/a/."), Create("/a/"), Create("/c")])
    )

    assert results == [
        Written("/a", 0, -1),
        ZkCode.BAD_ARGUMENTS,
        ZkCode.BAD_ARGUMENTS,
        Written("/c", 0, -1),
    ]


# Many at once


def test_several_threads_may_ask_at_once(direct: Client) -> None:
    def work(thread: int) -> int:
        base = f"/t{thread}"
        paths = [f"{base}/{number}" for number in range(700)]
        direct.session.write(Create(base))
        direct.perform(UnfencedBatch([Create(path, path.encode()) for path in paths]))
        found = direct.perform(ReadZnodes(paths, watch=True))
        assert [each.data for each in found if isinstance(each, Znode)] == [
            path.encode() for path in paths
        ]
        written = direct.perform(UnfencedBatch([SetData(path, b"", 0) for path in paths]))
        return sum(isinstance(each, Written) for each in written)

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(work, range(6))) == [700] * 6

    direct.watches.wait_until(lambda heard: len(heard) == 6 * 700)
    assert len(set(direct.watches.heard)) == 6 * 700


def test_latency_is_reported_for_each_answer(direct: Client) -> None:
    before = len(direct.latencies_ms.heard)

    direct.perform(CheckExists(["/", "/a", "/b"]))

    told = direct.latencies_ms.wait_until(lambda heard: len(heard) >= before + 3)
    assert len(told) == before + 3
    assert all(0 <= latency_ms < PATIENCE_S * 1000 for latency_ms in told)


def test_a_callback_that_asks_or_fails_is_logged_and_does_no_harm(
    zookeeper_connect: str, chroot: str, caplog: pytest.LogCaptureFixture
) -> None:
    fired: Recorder[WatchFired] = Recorder()

    def ask_in_the_wrong_thread(watch: WatchFired) -> None:
        fired(watch)
        session.read("/")

    session = ZooKeeperSession(
        ZooKeeperConfig(zookeeper_connect + chroot), on_watch=ask_in_the_wrong_thread
    )
    session.start()
    try:
        session.children("/", watch=True)
        session.write(Create("/a"))
        fired.wait_until(bool)
        assert isinstance(session.read("/a"), Znode)
    finally:
        session.close()

    [record] = [each for each in caplog.records if "Uncaught error in handler" in each.message]
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], AssertionError)


# Expiry


def test_an_expiry_storm_ends_with_a_working_session(
    zookeeper_connect: str, direct: Client
) -> None:
    sessions = {direct.session.session_id}
    threads_before = threading.active_count()
    for number in range(15):
        session_id = direct.session.session_id
        direct.perform(UnfencedBatch([Create(f"/e{number}", ephemeral=True)]), session_id)
        end_session(zookeeper_connect, direct.session)
        with pytest.raises(SessionExpired):
            direct.perform(UnfencedBatch([Create(f"/late{number}")]), session_id)
        direct.states.wait_for(SessionState.CONNECTED, times=number + 2)
        sessions.add(direct.session.session_id)

    assert len(sessions) == 16
    assert direct.perform(ListChildren(["/"])) == [[]]
    assert direct.session.state_counts[SessionState.EXPIRED] == 15
    assert len(direct.session.past_session_ids) == 15
    assert threading.active_count() <= threads_before


def test_of_questions_under_way_when_the_session_ends_none_is_done_in_the_next(
    zookeeper_connect: str, direct: Client
) -> None:
    direct.session.write(Create("/p"))
    stop = threading.Event()

    def write_in_each_session() -> int:
        refused = batch = 0
        while not stop.is_set():
            session_id = direct.session.session_id
            batch += 1
            base = f"/p/{session_id:x}-{batch}"
            operations = [Create(f"{base}-{number}", ephemeral=True) for number in range(50)]
            try:
                direct.perform(UnfencedBatch(operations), session_id)
            except SessionExpired:
                refused += 1
        return refused

    with ThreadPoolExecutor(2) as threads:
        writers = [threads.submit(write_in_each_session) for _ in range(2)]
        for number in range(5):
            end_session(zookeeper_connect, direct.session)
            direct.states.wait_for(SessionState.CONNECTED, times=number + 2)
        stop.set()
        assert sum(writer.result(PATIENCE_S) for writer in writers) > 0

    left = direct.session.children("/p")
    assert isinstance(left, list)
    assert {name.partition("-")[0] for name in left} <= {f"{direct.session.session_id:x}"}


# Credentials


@pytest.fixture
def alice(zookeeper_connect: str, chroot: str, open_client: OpenClient) -> Client:
    return open_client(zookeeper_connect + chroot, set_acl=True, auth=ALICE)


def test_znodes_of_an_authenticated_session_are_read_but_not_written_by_others(
    alice: Client, direct: Client
) -> None:
    alice.session.create_missing(["/brokers/ids", "/config/topics", "/config/changes"])

    assert isinstance(direct.session.read("/brokers/ids"), Znode)
    assert direct.session.children("/brokers") == ["ids"]
    assert direct.session.write(SetData("/brokers/ids", b"x")) is ZkCode.NO_AUTH
    assert direct.session.write(Create("/brokers/ids/1")) is ZkCode.NO_AUTH
    assert isinstance(alice.session.write(SetData("/brokers/ids", b"x")), Written)


def test_a_refused_write_among_others_is_refused_alone(
    zookeeper_connect: str, alice: Client, chroot: str, open_client: OpenClient
) -> None:
    alice.session.create_missing(["/closed", "/consumers"])
    bob = open_client(zookeeper_connect + chroot, auth=BOB)

    assert bob.perform(
        UnfencedBatch([Create("/consumers/a"), SetData("/closed", b""), Create("/consumers/b")])
    ) == [Written("/consumers/a", 0, -1), ZkCode.NO_AUTH, Written("/consumers/b", 0, -1)]


@pytest.mark.parametrize(
    "path", ["/config/users/u", "/config/brokers/1", "/delegation_token/tokens/t"]
)
def test_sensitive_znodes_are_not_even_read_by_others(
    alice: Client, direct: Client, path: str
) -> None:
    alice.session.create_missing([path])
    many = [path, *(f"/none-{number}" for number in range(20))]

    assert direct.session.read(path) is ZkCode.NO_AUTH
    assert direct.perform(ReadZnodes(many))[0] is ZkCode.NO_AUTH
    assert direct.perform(ListChildren(many))[0] is ZkCode.NO_AUTH
    # Whether its existence is a secret depends on the server's version, not on how many are asked.
    assert direct.perform(CheckExists(many))[0] == direct.session.exists(path)
    assert isinstance(alice.session.read(path), Znode)


def test_without_set_acl_everything_is_open(
    zookeeper_connect: str, chroot: str, open_client: OpenClient, direct: Client
) -> None:
    authenticated = open_client(zookeeper_connect + chroot, auth=ALICE)
    authenticated.session.create_missing(["/config/users/u"])

    assert isinstance(direct.session.write(SetData("/config/users/u", b"x")), Written)


def test_acls_without_credentials_are_refused_by_name(
    zookeeper_connect: str, chroot: str, direct: Client, open_client: OpenClient
) -> None:
    assert direct.session.session_id  # the chroot stands
    nobody = open_client(zookeeper_connect + chroot, set_acl=True)

    assert nobody.session.write(Create("/a")) is ZkCode.INVALID_ACL


def test_credentials_hold_after_a_reconnect(
    proxy: Proxy, chroot: str, open_client: OpenClient
) -> None:
    client = open_client(proxy.connect + chroot, set_acl=True, auth=ALICE)
    client.session.create_missing(["/config/users/u"])

    proxy.cut()
    client.states.wait_for(SessionState.CONNECTED, times=2)

    assert isinstance(client.session.write(SetData("/config/users/u", b"x")), Written)


def test_credentials_that_the_server_refuses_end_the_start(
    zookeeper_connect: str, chroot: str
) -> None:
    states: Recorder[SessionState] = Recorder()
    session = ZooKeeperSession(
        ZooKeeperConfig(zookeeper_connect + chroot, auth=(("nosuchscheme", "x"),)),
        on_state=states,
    )

    with pytest.raises(AuthenticationFailed, match="refused the credentials"):
        session.start()

    with pytest.raises(AuthenticationFailed):
        session.read("/")
    assert SessionState.AUTH_FAILED in states.heard


def test_credentials_are_never_logged(
    zookeeper_connect: str,
    chroot: str,
    open_client: OpenClient,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)

    open_client(zookeeper_connect + chroot, auth=ALICE).session.read("/")

    assert "Connected." in caplog.text
    assert "secret" not in caplog.text


# Start


def test_every_level_of_the_chroot_is_created_and_another_start_finds_it(
    zookeeper_connect: str, chroot: str, open_client: OpenClient
) -> None:
    deep = f"{zookeeper_connect}{chroot}/kafka/one"
    first = open_client(deep)
    first.session.write(Create("/a", b"x"))
    second = open_client(deep)

    assert second.session.children("/") == ["a"]
    assert open_client(zookeeper_connect).session.children(f"{chroot}/kafka") == ["one"]


def test_a_server_that_is_not_there_is_named(chroot: str) -> None:
    where = f"127.0.0.1:{free_port()}{chroot}"
    session = ZooKeeperSession(ZooKeeperConfig(where, connection_timeout_ms=500))

    with pytest.raises(ZooKeeperUnavailable) as unavailable:
        session.start()

    assert where in str(unavailable.value)
    assert "within 500 ms" in str(unavailable.value)
    assert "refused" in str(unavailable.value)


def test_an_unknown_host_name_is_named() -> None:
    session = ZooKeeperSession(ZooKeeperConfig("nosuch.invalid:1", connection_timeout_ms=500))

    with pytest.raises(ZooKeeperUnavailable, match="resolved"):
        session.start()


@pytest.fixture(params=[b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff" * 64, b"\0\0\0\x05hello"])
def impostor(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server of another kind."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(4096)
                connection.sendall(request.param)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(PATIENCE_S)


def test_a_server_of_another_kind_is_no_zookeeper(impostor: str) -> None:
    session = ZooKeeperSession(ZooKeeperConfig(impostor, connection_timeout_ms=1000))

    with pytest.raises(ZooKeeperUnavailable):
        session.start()


def test_a_connect_string_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(ConfigInvalid, match=r"zookeeper\.connect"):
        ZooKeeperSession(ZooKeeperConfig("localhost:port"))
