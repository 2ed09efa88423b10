"""The connection breaks at the worst moment: nothing is missed, nothing is done twice unsaid."""

from __future__ import annotations

import logging
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from kafka_common.errors import SessionExpired
from kafka_common.net.loopback_ports import free_port
from kafka_history.readers.ingest_plan import IngestOptions
from kafka_history.readers.local_events import read_events_here
from kafka_history.readers.local_ingest import ingest_here
from kafka_history.rules.history import EventHistory
from tests.integration.conftest import Client, OpenClient
from tests.integration.zookeeper_proxy import Fate, Proxy
from tests.support.suspension import suspended
from tests.support.zookeepers import PATIENCE_S
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper
from zkcontroller.zookeeper.jute import OpCode
from zkcontroller.zookeeper.requests import (
    CheckExists,
    Create,
    Delete,
    FencedBatch,
    ListChildren,
    ReadZnodes,
    RolledBack,
    SetData,
    Stat,
    UnfencedBatch,
    WatchFired,
    WatchKind,
    Write,
    Written,
    ZkCode,
    ZkTransaction,
    Znode,
)
from zkcontroller.zookeeper.session import SessionState

pytestmark = pytest.mark.integration

PING = 11
LOST_AND_BACK = [SessionState.SUSPENDED, SessionState.CONNECTED]
MANY = [f"/many-{number}" for number in range(40)]


def write(client: Client, *operations: Write) -> list[Written | ZkCode]:
    return client.perform(UnfencedBatch(operations))


def num_children(client: Client, path: str) -> int:
    stat = client.session.exists(path)
    assert isinstance(stat, Stat)
    return stat.num_children


def fired(kind: str, path: str) -> WatchFired:
    return WatchFired(WatchKind[kind], path)


def test_changes_during_an_outage_fire_after_it_and_other_watches_stay_armed(
    proxy: Proxy, shaky: Client, direct: Client
) -> None:
    write(direct, *map(Create, ("/a", "/b", "/c", "/d", "/d/e", "/p", "/q", *MANY)))
    shaky.perform(ReadZnodes(["/a", "/b", "/c", *MANY], watch=True))
    shaky.perform(CheckExists(["/new", "/never", "/d"], watch=True))
    shaky.perform(ListChildren(["/p", "/q", "/d"], watch=True))
    session_id = shaky.session.session_id

    proxy.refuse()
    shaky.states.wait_for(SessionState.SUSPENDED)
    write(direct, SetData("/a", b"1"), Delete("/b"), Create("/new"), Create("/p/child"))
    write(direct, SetData(MANY[7], b"1"))
    proxy.allow()

    during = shaky.watches.wait_until(lambda heard: len(heard) >= 5)
    assert set(during) == {
        fired("NODE_DATA_CHANGED", "/a"),
        fired("NODE_DELETED", "/b"),
        fired("NODE_CREATED", "/new"),
        fired("NODE_CHILDREN_CHANGED", "/p"),
        fired("NODE_DATA_CHANGED", MANY[7]),
    }
    write(direct, SetData("/c", b"1"), Create("/never"), Create("/q/x"), Delete("/d/e"))
    write(direct, Delete("/d"))
    assert shaky.watches.wait_until(lambda heard: len(heard) >= 10)[5:] == [
        fired("NODE_DATA_CHANGED", "/c"),
        fired("NODE_CREATED", "/never"),
        fired("NODE_CHILDREN_CHANGED", "/q"),
        fired("NODE_CHILDREN_CHANGED", "/d"),
        fired("NODE_DELETED", "/d"),
    ]
    assert shaky.session.session_id == session_id
    assert len(shaky.watches.heard) == 10


@pytest.mark.parametrize("fate", [None, Fate.LOSE_REQUEST, Fate.LOSE_REPLY])
def test_a_change_between_a_bulk_read_and_its_watch_is_not_missed(
    proxy: Proxy, shaky: Client, direct: Client, fate: Fate | None
) -> None:
    write(direct, *map(Create, MANY), Create("/elsewhere"))

    def change_before_the_watch_is_set() -> Fate | None:
        write(direct, SetData(MANY[3], b"changed"), Create("/new"), Delete(MANY[4]))
        return fate

    proxy.arrange(OpCode.SET_WATCHES, change_before_the_watch_is_set)
    stats = shaky.perform(CheckExists([*MANY, "/new"], watch=True))

    assert stats[-1] is ZkCode.NO_NODE
    heard = shaky.watches.wait_until(lambda heard: len(heard) >= 3)
    assert sorted(heard) == [
        fired("NODE_CREATED", "/new"),
        fired("NODE_DELETED", MANY[4]),
        fired("NODE_DATA_CHANGED", MANY[3]),
    ]


def test_a_multi_that_never_arrived_is_sent_again(
    proxy: Proxy, shaky: Client, direct: Client
) -> None:
    proxy.arrange(OpCode.MULTI, Fate.LOSE_REQUEST, Fate.LOSE_REQUEST)

    results = write(shaky, *(Create(f"/n{number}") for number in range(2500)))

    assert results == [Written(f"/n{number}", 0, -1) for number in range(2500)]
    assert num_children(direct, "/") == 2500


def test_creates_that_landed_unanswered_read_node_exists_each_for_itself(
    proxy: Proxy, shaky: Client, direct: Client
) -> None:
    write(direct, Create("/n1100"))
    proxy.arrange(OpCode.MULTI, Fate.LOSE_REPLY)

    results = write(shaky, *(Create(f"/n{number}") for number in range(2500)))

    assert results[:1000] == [ZkCode.NODE_EXISTS] * 1000
    assert results[1100] is ZkCode.NODE_EXISTS
    # Those behind the lost one landed with it or after it; never is one created and not there.
    assert set(results[1000:]) <= {ZkCode.NODE_EXISTS} | {
        Written(f"/n{number}", 0, -1) for number in range(1000, 2500)
    }
    assert num_children(direct, "/") == 2500


def test_fenced_writes_that_landed_unanswered_read_bad_version_and_landed_once(
    proxy: Proxy, shaky: Client, direct: Client
) -> None:
    paths = [f"/n{number}" for number in range(300)]
    write(direct, Create("/controller_epoch"), *(Create(path, b"0") for path in paths))
    proxy.arrange(OpCode.MULTI, Fate.LOSE_REPLY)

    results = shaky.perform(FencedBatch([SetData(path, b"1", 0) for path in paths], 0))

    assert results == [ZkCode.BAD_VERSION] * 300
    found = direct.perform(ReadZnodes(paths))
    assert {(each.data, each.zk_version) for each in found if isinstance(each, Znode)} == {
        (b"1", 1)
    }


def test_a_transaction_that_landed_unanswered_says_what_its_own_doing_makes_of_it(
    proxy: Proxy, shaky: Client, direct: Client
) -> None:
    write(direct, Create("/epoch", b"1"))
    proxy.arrange(OpCode.MULTI, Fate.LOSE_REPLY)

    result = shaky.perform(
        ZkTransaction([SetData("/epoch", b"2", 0), Create("/mine", b"", ephemeral=True)])
    )

    assert result == RolledBack(ZkCode.BAD_VERSION, 0, is_repeated=True)
    mine = direct.session.read("/mine")
    assert isinstance(mine, Znode)
    assert mine.ephemeral_owner == shaky.session.session_id


def test_bulk_reads_go_on_after_lost_requests_and_lost_replies(
    proxy: Proxy, shaky: Client, direct: Client
) -> None:
    paths = [f"/n{number}" for number in range(3000)]
    write(direct, *(Create(path, path.encode()) for path in paths))
    proxy.arrange(OpCode.MULTI_READ, Fate.LOSE_REPLY, Fate.LOSE_REQUEST, Fate.LOSE_REPLY)

    found = shaky.perform(ReadZnodes(paths, watch=True))

    assert [each.data for each in found if isinstance(each, Znode)] == [
        path.encode() for path in paths
    ]
    assert shaky.session.state_counts[SessionState.SUSPENDED] >= 3
    write(direct, SetData(paths[2999], b""), SetData(paths[0], b""))
    assert shaky.watches.wait_until(lambda heard: len(heard) >= 2) == [
        fired("NODE_DATA_CHANGED", paths[2999]),
        fired("NODE_DATA_CHANGED", paths[0]),
    ]


def test_a_server_without_multi_read_is_asked_path_by_path_from_then_on(
    proxy: Proxy, shaky: Client, direct: Client
) -> None:
    paths = [f"/n{number}" for number in range(200)]
    write(direct, *(Create(path, path.encode()) for path in paths), Create("/n0/c"))
    proxy.arrange(OpCode.MULTI_READ, Fate.UNIMPLEMENTED)

    found = shaky.perform(ReadZnodes([*paths, "/nope"], watch=True))
    listed = shaky.perform(ListChildren(paths))
    stats = shaky.perform(CheckExists([*paths, "/nope"], watch=True))

    assert [each.data for each in found if isinstance(each, Znode)] == [
        path.encode() for path in paths
    ]
    assert found[-1] is ZkCode.NO_NODE
    assert listed == [["c"]] + [[]] * 199
    assert stats[-1] is ZkCode.NO_NODE
    assert proxy.requests[OpCode.MULTI_READ] == 1
    write(direct, SetData("/n150", b""), Create("/nope"))
    assert shaky.watches.wait_until(lambda heard: len(heard) >= 2) == [
        fired("NODE_DATA_CHANGED", "/n150"),
        fired("NODE_CREATED", "/nope"),
    ]


def test_a_question_waits_for_the_connection(proxy: Proxy, shaky: Client, direct: Client) -> None:
    write(direct, Create("/a", b"1"))
    proxy.refuse()
    shaky.states.wait_for(SessionState.SUSPENDED)

    with ThreadPoolExecutor(4) as threads:
        responses = [threads.submit(shaky.session.read, "/a") for _ in range(4)]
        landed = threads.submit(shaky.session.write, SetData("/a", b"2"))
        assert not landed.done()
        proxy.allow()

        assert {type(response.result(PATIENCE_S)) for response in responses} == {Znode}
        assert isinstance(landed.result(PATIENCE_S), Written)


def test_a_question_that_waits_raises_when_its_session_ends(
    proxy: Proxy, chroot: str, direct: Client, open_client: OpenClient
) -> None:
    client = open_client(proxy.connect + chroot, session_timeout_ms=1000)
    over = client.session.session_id
    client.session.write(Create("/mine", ephemeral=True))
    direct.session.exists("/mine", watch=True)

    proxy.refuse()
    client.states.wait_for(SessionState.SUSPENDED)
    with ThreadPoolExecutor(2) as threads:
        unpinned = threads.submit(client.session.write, Create("/late"))
        pinned = threads.submit(client.perform, ReadZnodes(["/"]), over)
        direct.watches.wait_for(fired("NODE_DELETED", "/mine"))
        proxy.allow()

        for waiting in (unpinned, pinned):
            with pytest.raises(SessionExpired):
                waiting.result(PATIENCE_S)

    client.states.wait_for(SessionState.CONNECTED, times=2)
    assert client.states.heard[-2:] == [SessionState.EXPIRED, SessionState.CONNECTED]
    assert client.session.past_session_ids == (over,)
    assert direct.session.read("/late") is ZkCode.NO_NODE


def test_closing_without_a_connection_ends_waiting_questions(proxy: Proxy, shaky: Client) -> None:
    proxy.refuse()
    shaky.states.wait_for(SessionState.SUSPENDED)

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(shaky.session.read, "/")
        shaky.session.close()
        with pytest.raises(SessionExpired):
            waiting.result(PATIENCE_S)

    with pytest.raises(SessionExpired):
        shaky.session.read("/")


def test_session_and_watches_survive_a_killed_and_restarted_server(
    own_zookeeper: EmbeddedZooKeeper, open_client: OpenClient
) -> None:
    # A server that starts may take a connection and never answer it, until the session is over.
    with closing(Proxy(own_zookeeper.connect)) as proxy:
        client = open_client(proxy.connect + "/kafka")
        write(client, Create("/e", b"", ephemeral=True), Create("/a"))
        client.perform(ReadZnodes(["/a"], watch=True))
        session_id = client.session.session_id

        proxy.refuse()
        own_zookeeper.kill()
        client.states.wait_for(SessionState.SUSPENDED)
        own_zookeeper.start()
        proxy.allow()

        found = client.session.read("/e")
        assert isinstance(found, Znode)
        assert found.ephemeral_owner == session_id == client.session.session_id
        client.session.write(SetData("/a", b"1"))
        assert client.watches.wait_until(bool) == [fired("NODE_DATA_CHANGED", "/a")]


def test_a_frozen_server_only_delays(
    own_zookeeper: EmbeddedZooKeeper, open_client: OpenClient
) -> None:
    client = open_client(own_zookeeper.connect + "/kafka")

    with ThreadPoolExecutor(1) as threads:
        with suspended(own_zookeeper.pid):
            landed = threads.submit(client.session.write, Create("/a"))
        assert landed.result(PATIENCE_S) == Written("/a", 0, -1)


def test_the_log_says_in_the_words_of_kafka_s_client_how_the_connection_broke(
    proxy: Proxy, chroot: str, open_client: OpenClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    client = open_client(proxy.connect + chroot, session_timeout_ms=4_000)
    session = f"{client.session.session_id & 0xFFFF_FFFF_FFFF_FFFF:#x}"
    server = f"/{proxy.connect}"
    is_over = threading.Event()

    def is_held_up() -> None:
        is_over.wait(PATIENCE_S)

    proxy.cut()
    client.states.wait_until(lambda seen: seen[-2:] == LOST_AND_BACK)
    proxy.arrange(PING, is_held_up)
    client.states.wait_until(lambda seen: seen[-4:] == LOST_AND_BACK * 2)
    is_over.set()
    client.session.exists("/")  # is answered by the thread that logs, after what it had to log

    said = [each.message for each in caplog.records if session in each.message]
    established = (
        f"Session establishment complete on server {server}, session id = {session}, "
        "negotiated timeout = 4000"
    )
    assert [line for line in said if "not heard" not in line] == [
        established,
        f"Session {session} for server {server}, Closing socket connection. Attempting reconnect "
        "except it is a SessionExpiredException.",
        established,
        established,
    ]
    [silence] = [line for line in said if "not heard" in line]
    words = "Client session timed out, have not heard from server in ([0-9]+)ms for session id "
    [silent_ms] = re.findall(words + session, silence)
    assert int(silent_ms) > 4_000 / 3


def test_the_second_server_is_used_when_the_first_is_down(
    zookeeper_connect: str, chroot: str, open_client: OpenClient
) -> None:
    client = open_client(f"127.0.0.1:{free_port()},{zookeeper_connect}{chroot}")

    assert client.session.write(Create("/a")) == Written("/a", 0, -1)


def test_the_history_reads_an_outage_from_what_the_client_logs(
    proxy: Proxy, shaky: Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    proxy.refuse()
    shaky.states.wait_for(SessionState.SUSPENDED)
    proxy.allow()
    shaky.session.read("/")
    log = tmp_path / "broker-1" / "server.log"
    log.parent.mkdir()
    form = logging.Formatter("[%(asctime)s] %(levelname)s %(message)s (%(name)s)")
    log.write_text("".join(f"{form.format(each)}\n" for each in caplog.records))

    ingest_here([str(log)], IngestOptions(str(tmp_path / "history")), 1)

    events = read_events_here(tmp_path / "history", tmp_path.name)
    [gap] = EventHistory(events, []).zookeeper_gaps
    assert gap.brokers == [1]
    assert gap.to_ms is not None
