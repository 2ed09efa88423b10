"""An exception that no one declared harms one partition, one request or one tick, and ends no loop.

Each *seam* is a place where one part calls another: an append, a read, a decoding, a callback.  A
seam's function builds the real parts, makes that one call raise, and checks that the neighbours go
on.  :func:`test_every_loop_is_known` finds the loops in the source, so that a new one needs a seam
or a reason.
"""

from __future__ import annotations

import ast
import asyncio
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, TypeAlias, cast

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.errors import IllegalState, ZkControllerError
from kafka_common.model import TopicPartition
from kafka_common.observability.metrics import Metrics
from kafka_common.protocol.record_batch import MemoryRecords
from kraft.node import quorum_node
from replica_manager.broker.refresher import Refresher
from replica_manager.coordinators.coordinator_run import CoordinatorRun
from replica_manager.log.environment import DeferredTasks
from replica_manager.log.leader_epoch_file_cache import EpochEndOffset
from replica_manager.log.maintenance import LogMaintenance
from replica_manager.network.connection import ClientConnection
from replica_manager.network.listener import SocketServer
from replica_manager.replication import isr_znodes
from replica_manager.replication.alter_partition_manager import AlterPartitionManager, IsrRoute
from replica_manager.replication.fetch_requests import AskOffsets
from replica_manager.replication.fetch_state import InitialFetchState
from replica_manager.replication.fetch_values import FetchPartitionData
from replica_manager.replication.isr_znodes import IsrZnodes
from replica_manager.replication.log_dir_moves import LogDirMoves
from replica_manager.replication.partition import Partition
from replica_manager.replication.replication_tasks import ReplicationTasks
from replica_manager.replication.waiting_room import WaitingRoom
from replica_manager.server.producer_ids import ProducerIdsFromController
from replica_manager.server.token_sweep import TokenSweep
from tests.support.broker_world import BrokerWorld
from tests.support.fetch_world import ORDERS_ID, fetch
from tests.support.log_world import batch
from tests.unit.replica_manager.network.echo_server import (
    answer,
    connect,
    echo,
    framed,
    server_with,
)
from tests.unit.replica_manager.replication.follower import ONE, ZERO, Follower, failed, records
from tests.unit.replica_manager.replication.led_isr import led, shrink
from tests.unit.replica_manager.server.produced import produce

TURNS: Final = 500


class Unforeseen(Exception):
    """Raised by a seam; nothing in the project knows it."""


ERRORS: Final = (Unforeseen, MemoryError, KeyError)

World: TypeAlias = BrokerWorld
Seam: TypeAlias = Callable[[BrokerWorld, Exception, pytest.MonkeyPatch], None]
SEAMS: Final[dict[str, Seam]] = {}


def seam(name: str) -> Callable[[Seam], Seam]:
    def registered(function: Seam) -> Seam:
        SEAMS[name] = function
        return function

    return registered


def raising(error: Exception) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> Any:
        raise error

    return fail


class Broken:
    """Stands before a real part, and raises where one attribute is used."""

    def __init__(self, part: object, name: str, error: Exception) -> None:
        self._part = part
        self._name = name
        self._error = error

    def __getattr__(self, name: str) -> Any:
        if name == self._name:
            raise self._error
        return getattr(self._part, name)


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(TURNS):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[BrokerWorld]:
    with ThreadPoolExecutor(1) as executor:
        world = BrokerWorld(executor, log_dirs=[tmp_path / "data"])
        world.now_ms = 1_000_000
        for topic in ("orders", "bills"):
            world.lead(topic)
        yield world


# ---------------------------------------------------------------------- followers


def _fetcher_seam(attribute: str) -> Seam:
    def fetcher(_: World, error: Exception, __: pytest.MonkeyPatch) -> None:
        follower = Follower(truncates_on_fetch=True).wrote(1).add(ZERO, ONE)
        follower.logs[ZERO] = cast(Any, Broken(follower.logs[ZERO], attribute, error))

        follower.answer(follower.fetch(), p0=records(1, 4, high_watermark=2), p1=records(0, 4, 4))

        assert ZERO in follower.fetcher.failed
        assert follower.fetcher.partitions[ONE].fetch_offset == 2

    return fetcher


def _divergence_seam(attribute: str) -> Seam:
    def fetcher(_: World, error: Exception, __: pytest.MonkeyPatch) -> None:
        follower = Follower(truncates_on_fetch=True).wrote(1, 1).add(ZERO, ONE)
        request = follower.fetch()
        follower.logs[ZERO] = cast(Any, Broken(follower.logs[ZERO], attribute, error))
        diverging = FetchPartitionData(ErrorCode.none, diverging_epoch=EpochEndOffset(1, 1))

        follower.answer(request, p0=diverging, p1=records(0, 4, 4))

        assert ZERO in follower.fetcher.failed
        assert follower.fetcher.partitions[ONE].fetch_offset == 2

    return fetcher


for _attribute in (
    "append_as_follower", "update_high_watermark", "log_end_offset",
):  # fmt: skip
    SEAMS[f"a follower's log, {_attribute} while fetching"] = _fetcher_seam(_attribute)
for _attribute in ("end_offset_for_epoch", "truncate_to", "high_watermark", "latest_epoch"):
    SEAMS[f"a follower's log, {_attribute} while truncating"] = _divergence_seam(_attribute)


@seam("a follower's log, while it is asked what to fetch")
def _asked(_: World, error: Exception, __: pytest.MonkeyPatch) -> None:
    follower = Follower(truncates_on_fetch=True).wrote(1).add(ZERO, ONE)
    follower.logs[ZERO] = cast(Any, Broken(follower.logs[ZERO], "log_start_offset", error))

    follower.answer(follower.fetch(), p1=records(0, 4, 4))

    assert follower.fetcher.partitions[ZERO].is_delayed(follower.now_ms)
    assert follower.fetcher.partitions[ONE].fetch_offset == 2


@seam("a follower's log, when its partition is added")
def _added(_: World, error: Exception, __: pytest.MonkeyPatch) -> None:
    follower = Follower(truncates_on_fetch=True)
    sound = InitialFetchState(ORDERS_ID, 2, 4, 0)
    follower.logs[ZERO] = cast(Any, Broken(follower.logs[ZERO], "latest_epoch", error))

    follower.fetcher.add_partitions({ZERO: sound, ONE: sound})

    assert ZERO in follower.fetcher.failed
    assert ONE in follower.fetcher.partitions


@seam("a follower's log, out of range")
def _out_of_range(_: World, error: Exception, __: pytest.MonkeyPatch) -> None:
    follower = Follower(truncates_on_fetch=True).wrote(1).add(ZERO, ONE)
    out_of_range = failed(ErrorCode.offset_out_of_range)
    follower.answer(follower.fetch(), p0=out_of_range, p1=out_of_range)
    request = follower.next()
    assert isinstance(request, AskOffsets)
    follower.logs[ZERO] = cast(Any, Broken(follower.logs[ZERO], "log_end_offset", error))

    follower.fetcher.handle_offsets(
        request, dict.fromkeys((ZERO, ONE), (ErrorCode.none, 0)), follower.now_ms
    )

    assert follower.fetcher.partitions[ZERO].is_delayed(follower.now_ms)
    assert not follower.fetcher.partitions[ONE].is_delayed(follower.now_ms)


# ---------------------------------------------------------------------- requests for records


@seam("an append of one partition")
def _append(world: World, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    log = world.logs.log(TopicPartition("orders", 0))
    monkeypatch.setattr(type(log), "append_examined", _only_of(log, "append_examined", error))
    tps = [TopicPartition("orders", 0), TopicPartition("bills", 0)]

    appended = asyncio.run(
        world.appends.append_records(
            dict.fromkeys(tps, MemoryRecords(batch())), acks=1, timeout_ms=1000
        )
    )

    found = [appended.outcomes[tp].error for tp in tps]
    assert found == [ErrorCode.unknown_server_error, ErrorCode.none]


@seam("a read of one partition")
def _read(world: World, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    world.lead("orders", 1, topic_id=ORDERS_ID)
    world.lead("orders", 0, topic_id=ORDERS_ID)
    log = world.logs.log(TopicPartition("orders", 0))
    monkeypatch.setattr(type(log), "read", _only_of(log, "read", error))

    responses = fetch(world, (0, 0), (1, 0))

    codes = {each.partition_index: each.error_code for each in responses}
    assert codes == {0: ErrorCode.unknown_server_error, 1: ErrorCode.none}


def _only_of(part: object, name: str, error: Exception) -> Callable[..., Any]:
    """The method of that name, which raises ``error`` for ``part`` and is unchanged for others."""
    method = getattr(type(part), name)

    def called(self: object, *arguments: Any, **named: Any) -> Any:
        if self is part:
            raise error
        return method(self, *arguments, **named)

    return called


class _Parked:
    def __init__(self, error: Exception | None = None) -> None:
        self.is_ready = False
        self.error = error

    def is_complete(self) -> bool:
        if self.is_ready and self.error is not None:
            raise self.error
        return self.is_ready


@seam("a look at one parked request")
def _parked(_: World, error: Exception, __: pytest.MonkeyPatch) -> None:
    async def wait() -> None:
        room: WaitingRoom[str, _Parked] = WaitingRoom()
        operations = [_Parked(), _Parked(error), _Parked()]
        waiting = [asyncio.ensure_future(room.wait(each, ["x"], 60_000)) for each in operations]
        await asyncio.sleep(0)
        for each in operations:
            each.is_ready = True

        room.check("x")
        ends = await asyncio.gather(*waiting, return_exceptions=True)

        assert [ends[0], ends[2]] == [True, True]
        assert ends[1] is error
        assert len(room) == 0

    asyncio.run(wait())


@seam("a look at what waits for a partition")
def _watcher(world: World, error: Exception, _: pytest.MonkeyPatch) -> None:
    seen: list[TopicPartition] = []
    world.replicas.watch(raising(error))
    world.replicas.watch(seen.append)

    assert produce(world, batch()).error_code is ErrorCode.none
    assert seen == [TopicPartition("orders", 0)]


@seam("a handler")
def _handler(world: World, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(world.appends), "append_records", raising(error))
    response = produce(world, batch())
    monkeypatch.undo()

    assert response.error_code is ErrorCode.unknown_server_error
    assert produce(world, batch()).error_code is ErrorCode.none


@seam("an answer to a request, on its connection")
def _connection(_: World, error: Exception, __: pytest.MonkeyPatch) -> None:
    async def serve() -> None:
        ours, theirs = socket.socketpair()
        for each in (ours, theirs):
            each.setblocking(False)
        ours.sendall(b"\x00\x00\x00\x04abcd")
        connection = ClientConnection(
            theirs, "127.0.0.1", "PLAINTEXT", max_request_bytes=100, max_idle_s=60,
            respond=raising(error),
        )  # fmt: skip
        await connection.serve()
        assert ours.recv(1) == b""
        ours.close()

    asyncio.run(serve())


# ---------------------------------------------------------------------- coordinators


@seam("one output of a coordinator")
def _coordinator(_: World, error: Exception, __: pytest.MonkeyPatch) -> None:
    performed: list[object] = []

    def perform(output: object) -> None:
        if output == "broken":
            raise error
        performed.append(output)

    outputs = SimpleNamespace(step=lambda *_: ["a", "broken", "b"], next_deadline_ms=None)
    run = CoordinatorRun(
        cast(Any, outputs),
        perform,
        lambda _: None,
        load_buffer_bytes=1,
        on_larger=lambda *_: None,
        thread_name="loader",
    )

    with pytest.raises(type(error)):
        run.step("anything")
    assert performed == ["a", "b"]


@seam("a block of producer ids")
def _producer_ids(_: World, error: Exception, __: pytest.MonkeyPatch) -> None:
    class Blocks:
        asked = 0

        async def allocate(self) -> Any:
            self.asked += 1
            raise error

        async def close(self) -> None:
            pass

    now_ms = 0
    blocks = Blocks()

    async def ask() -> None:
        nonlocal now_ms
        ids = ProducerIdsFromController(cast(Any, blocks), lambda: now_ms)
        for _ in range(2):
            with pytest.raises(ZkControllerError):
                await asyncio.wait_for(ids.next_id(), 30)
            await asyncio.sleep(0)
            now_ms += 60_000
        await ids.stop()

    asyncio.run(ask())
    assert blocks.asked == 2


# ---------------------------------------------------------------------- background loops


@seam("one task of the upkeep of logs")
def _maintenance(world: World, error: Exception, _: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    deferred_tasks = world.logs.environment.deferred_tasks
    [log_dir] = world.logs.live_log_dirs
    for name, action in (("broken", raising(error)), ("sound", lambda: done.append("sound"))):
        deferred_tasks.add(name, "orders-0", log_dir, 0, action)

    with ThreadPoolExecutor(1) as executor:
        asyncio.run(LogMaintenance(world.logs, executor).run_due())

    assert done == ["sound"]


@seam("a look of a refresher")
def _refresher(_: World, error: Exception, __: pytest.MonkeyPatch) -> None:
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise error

    async def poke() -> None:
        with ThreadPoolExecutor(1) as executor:
            refresher = Refresher("a test", look, asyncio.get_running_loop(), executor)
            refresher.start()
            await until(lambda: looks == 1)
            refresher.poke()
            await until(lambda: looks == 2)
            await refresher.stop()

    asyncio.run(poke())


class _Route:
    """Refuses every proposal."""

    async def propose(self, call: Any) -> Any:
        return dict.fromkeys(call.partitions, ErrorCode.fenced_leader_epoch)

    async def close(self) -> None:
        pass


@seam("the verdict on one ISR")
def _isr(_: World, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    broken, sound = led(ZERO), led(ONE)

    async def propose() -> None:
        route = _Route()
        changes = AlterPartitionManager(cast(IsrRoute, route), Metrics(), lambda: 0, lambda _: None)
        refuse = Partition.proposal_refused
        refused: list[Partition] = []

        def refuse_or_fail(partition: Partition, *arguments: Any) -> Any:
            if partition is broken:
                raise error
            refused.append(partition)
            return refuse(partition, *arguments)

        monkeypatch.setattr(Partition, "proposal_refused", refuse_or_fail)
        pending = [shrink(each) for each in (broken, sound)]
        for partition, each in zip((broken, sound), pending, strict=True):
            changes.submit(partition, each)
        changes.start()
        await until(lambda: refused == [sound])
        third = led(TopicPartition("orders", 2))
        changes.submit(third, shrink(third))
        await until(lambda: refused == [sound, third])
        await changes.stop()

    asyncio.run(propose())


@seam("a note about changed ISRs")
def _isr_note(_: World, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isr_znodes, "CHECK_INTERVAL_MS", 1)
    tries = 0

    class Session:
        def write(self, _: object) -> object:
            nonlocal tries
            tries += 1
            raise error

        def perform(self, _: object) -> list[object]:
            return []

    async def note() -> None:
        now_ms = 0
        with ThreadPoolExecutor(1) as executor:
            znodes = IsrZnodes(cast(Any, Session()), executor, 1, lambda _: 3, lambda: now_ms)
            await znodes.propose(cast(Any, SimpleNamespace(partitions={})))
            znodes._changed[ZERO] = None
            now_ms = 10_000_000
            await until(lambda: tries >= 2)
            await znodes.close()

    asyncio.run(note())


@seam("an accepted connection")
def _accepted(_: World, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    serve = SocketServer._serve
    failures = iter([error])

    def serve_or_fail(server: SocketServer, *arguments: Any) -> None:
        failure = next(failures, None)
        if failure is not None:
            raise failure
        serve(server, *arguments)

    monkeypatch.setattr(SocketServer, "_serve", serve_or_fail)

    async def connect_twice() -> None:
        async with server_with(echo) as server:
            reader, first = await connect(server)
            assert await reader.read() == b""
            reader, second = await connect(server)
            second.write(framed(b"still here"))
            assert (await answer(reader)).startswith(b"still here")
            for writer in (first, second):
                writer.close()
                await writer.wait_closed()

    asyncio.run(connect_twice())


@seam("the upkeep of the metadata log")
def _quorum_upkeep(_: World, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorum_node, "UPKEEP_S", 0.001)
    done: list[str] = []
    deferred_tasks = DeferredTasks()
    for name, action in (("broken", raising(error)), ("sound", lambda: done.append("sound"))):
        deferred_tasks.add(name, "__cluster_metadata-0", Path(), 0, action)

    async def keep_up() -> None:
        node = cast(Any, SimpleNamespace(_now_ms=lambda: 1))
        log = cast(Any, SimpleNamespace(deferred_tasks=deferred_tasks))
        keeping = asyncio.ensure_future(quorum_node.QuorumNode._keep_up(node, log))
        await until(lambda: done == ["sound"])
        deferred_tasks.add("later", "__cluster_metadata-0", Path(), 0, lambda: done.append("later"))
        await until(lambda: done == ["sound", "later"])
        keeping.cancel()

    asyncio.run(keep_up())


@seam("a move of one replica")
def _move(world: World, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[TopicPartition] = []

    async def move(_: object, tp: TopicPartition) -> None:
        if tp.topic == "bills":
            raise error
        moved.append(tp)

    monkeypatch.setattr(LogDirMoves, "_move", move)
    monkeypatch.setattr(type(world.logs), "log", lambda *_, **__: object())

    async def work() -> None:
        moves = world.log_dir_moves
        moves.start()
        for topic in ("bills", "orders"):
            moves._look(TopicPartition(topic, 0))
        await until(lambda: bool(moved))
        await moves.stop()
        assert moves.failed == {TopicPartition("bills", 0)}

    asyncio.run(work())


@seam("a look at the ISRs")
def _isr_look(_: World, error: Exception, __: pytest.MonkeyPatch) -> None:
    looks = 0

    async def look() -> None:
        nonlocal looks
        looks += 1
        raise error

    async def keep_looking() -> None:
        tasks = cast(Any, SimpleNamespace(_look=look, _look_interval_s=0.001))
        looking = asyncio.ensure_future(ReplicationTasks._look_now_and_then(tasks))
        await until(lambda: looks >= 2)
        looking.cancel()

    asyncio.run(keep_looking())


@seam("a sweep of delegation tokens")
def _token_sweep(_: World, error: Exception, __: pytest.MonkeyPatch) -> None:
    sweeps = 0

    def sweep() -> None:
        nonlocal sweeps
        sweeps += 1
        raise error

    async def keep_sweeping(executor: ThreadPoolExecutor) -> None:
        store = cast(Any, SimpleNamespace(sweep=sweep))
        sweeping = TokenSweep(store, 1, lambda: True, executor)
        sweeping.start()
        await until(lambda: sweeps >= 2)
        await sweeping.stop()

    with ThreadPoolExecutor(1) as executor:
        asyncio.run(keep_sweeping(executor))


# ---------------------------------------------------------------------- the walk over them


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
@pytest.mark.parametrize("name", list(SEAMS))
def test_an_unforeseen_exception_harms_no_neighbour(
    name: str, error: type[Exception], world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    unforeseen = error("unforeseen")

    SEAMS[name](world, unforeseen, monkeypatch)

    assert unforeseen.__traceback__ is not None, "no part raised it"


@pytest.mark.parametrize("name", ["an append of one partition", "a read of one partition"])
def test_an_inconsistent_log_harms_no_neighbour(
    name: str, world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    inconsistent = IllegalState("unforeseen")

    SEAMS[name](world, inconsistent, monkeypatch)

    assert inconsistent.__traceback__ is not None, "no part raised it"


# ---------------------------------------------------------------------- the loops

ROOTS: Final = ("kafka_common", "kraft", "replica_manager", "zkcontroller")

_DEPARTURES: Final = "tests/unit/replica_manager/log/test_departures.py::"
_CHANNEL: Final = "tests/unit/zkcontroller/runtime/test_broker_channel.py::"

LOOPS: Final = {
    "CleanerManager.run": _DEPARTURES
    + "test_an_unforeseen_exception_in_one_log_leaves_the_others_to_be_cleaned",
    "FetcherTask._run": "tests/unit/replica_manager/replication/test_fetchers.py::"
    "test_an_unexpected_failure_does_not_end_replication",
    "AlterPartitionManager._run": "the verdict on one ISR",
    "IsrZnodes._tell_now_and_then": "a note about changed ISRs",
    "LogDirMoves._work": "a move of one replica",
    "LogMaintenance.run": "one task of the upkeep of logs",
    "QuorumNode._keep_up": "the upkeep of the metadata log",
    "Refresher._run": "a look of a refresher",
    "ReplicationTasks._look_now_and_then": "a look at the ISRs",
    "SocketServer._accept": "an accepted connection",
    "TokenSweep._run": "a sweep of delegation tokens",
    "_Channel._run": _CHANNEL
    + "test_an_answer_that_makes_no_sense_is_reported_and_the_next_request_goes_out",
}
"""Loops that run as long as the process, each with its seam, or with a test of its own."""

ENDS: Final = {
    "ControllerChannel.ask": "one request, which ends with its timeout",
    "ControllerRegistrations._keep_registered": "every failure of a registration is tried again",
    "LogDirMoves._keep_pace": "one step of a move, or the move",
    "PlainStream._send_file": "one answer",
    "SnapshotGenerator._write": "one snapshot",
    "SocketServer._wait_for_descriptors": "part of _accept",
    "Storage._keep_up": "it is what begins an ended loop again",
    "TlsStream.handshake": "one connection",
    "TlsStream.receive": "one connection",
    "TransactionVerification._send": "answers who waits, and the next request begins it again",
    "_Channel._deliver": "one request to a broker",
    "read_partition": "the load of one partition",
    "run_in_slices": "one request of the controller",
}
"""Loops that end with what they work for, each with that."""


def endless_loops() -> dict[str, str]:
    """Each coroutine with a loop that has no condition, and its file."""
    found: dict[str, str] = {}
    for root in ROOTS:
        for path in sorted(Path(root).rglob("*.py")):
            for owner in ast.walk(ast.parse(path.read_text())):
                if not isinstance(owner, ast.ClassDef | ast.Module):
                    continue
                for function in owner.body:
                    if isinstance(function, ast.AsyncFunctionDef) and any(
                        isinstance(each, ast.While) and isinstance(each.test, ast.Constant)
                        for each in ast.walk(function)
                    ):
                        prefix = f"{owner.name}." if isinstance(owner, ast.ClassDef) else ""
                        found[prefix + function.name] = str(path)
    return found


def test_every_loop_is_known() -> None:
    assert sorted(endless_loops()) == sorted((*LOOPS, *ENDS))


@pytest.mark.parametrize("shown_by", LOOPS.values(), ids=LOOPS)
def test_every_loop_has_its_seam(shown_by: str) -> None:
    file, _, name = shown_by.partition("::")

    assert shown_by in SEAMS or f"def {name}(" in Path(file).read_text()
