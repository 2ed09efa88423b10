"""The watch on the event loop names each callback that holds the loop for too long."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from threading import Thread

import pytest

from kafka_common.errors import ConfigInvalid
from kafka_common.observability.exposition import registry_of
from kafka_common.observability.loop_watch import VARIABLE, LoopWatch, watching
from kafka_common.observability.metrics import Metrics
from tests.support.exposition import exposition_of

BOUND_MS = 20.0


def work(cpu_ms: float) -> None:
    """Keeps the processor busy for so long."""
    until_ns = time.thread_time_ns() + int(cpu_ms * 1e6)
    while time.thread_time_ns() < until_ns:
        pass


async def busy_handler(cpu_ms: float) -> None:
    work(cpu_ms)
    await asyncio.sleep(0)


def watched(cpu_ms: float) -> LoopWatch:
    async def connection() -> None:
        await asyncio.sleep(0)
        await busy_handler(cpu_ms)

    with LoopWatch(BOUND_MS).installed() as watch:
        asyncio.run(connection())
    return watch


def test_a_callback_that_works_for_too_long_is_counted_and_named() -> None:
    watch = watched(2 * BOUND_MS)

    assert watch.long_count == 1
    assert watch.longest is not None
    assert watch.longest.cpu_ms >= 2 * BOUND_MS
    assert "connection > busy_handler (test_loop_watch.py:" in watch.longest.name
    assert watch.longest_ms == watch.recent_ms == watch.longest.cpu_ms


def test_a_loop_is_idle_only_while_it_waits() -> None:
    async def wait(watch: LoopWatch) -> None:
        # On a busy machine a short time is over before the loop waits for it.
        for seconds in (0.01, 0.1, 1, 10):
            await asyncio.sleep(seconds)
            if watch.idle.count:
                return

    # Another thread of the process may have a loop, which is measured as well.
    looks = (watched(0) for _ in range(5))
    busy = next((each for each in looks if each.idle.count == each.idle_share == 0), None)
    with LoopWatch(BOUND_MS).installed() as idle:
        asyncio.run(wait(idle))
    metrics = Metrics()
    idle.register(metrics)

    assert busy is not None
    assert idle.idle.count > 0
    assert 0 < idle.idle_share <= 1
    read = registry_of(metrics).get_sample_value
    pool = "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_count"
    assert read(pool) == idle.idle.count
    assert read("kafka_network_processor_idlepercent", {"networkProcessor": "0"}) is not None


def test_short_callbacks_are_not_long_ones() -> None:
    watch = watched(0)

    assert (watch.long_count, watch.longest) == (0, None)
    assert watch.longest_ms > 0


def test_a_callback_that_waits_for_the_clock_uses_no_processor_time() -> None:
    def wait() -> None:
        time.sleep(2 * BOUND_MS / 1000)

    async def waiting() -> None:
        asyncio.get_running_loop().call_soon(wait)
        await asyncio.sleep(0.001)

    gc.collect()  # the garbage of other tests would be collected in the callback
    with LoopWatch(BOUND_MS).installed() as watch:
        asyncio.run(waiting())

    assert watch.long_count == 0


@pytest.fixture
def little_to_collect() -> None:
    """What other tests and modules have made stays out of the collections of this one."""
    gc.collect()
    gc.freeze()


@pytest.mark.usefixtures("little_to_collect")
def test_garbage_collection_is_distinguished_from_the_callbacks_own_work() -> None:
    async def collecting() -> None:
        ring: list[object] = [[] for _ in range(200_000)]
        ring.append(ring)
        for _ in range(3):
            gc.collect()

    with LoopWatch(BOUND_MS).installed() as watch:
        asyncio.run(collecting())

    assert watch.longest is not None
    assert 0 < watch.longest.collecting_ms < watch.longest.cpu_ms


@pytest.mark.usefixtures("little_to_collect")
def test_a_loop_of_another_thread_changes_nothing_about_a_callbacks_collections() -> None:
    async def collecting() -> None:
        ring: list[object] = [[] for _ in range(200_000)]
        ring.append(ring)
        other = Thread(target=asyncio.run, args=(asyncio.sleep(0),))
        other.start()
        other.join()
        for _ in range(3):
            gc.collect()

    with LoopWatch(BOUND_MS).installed() as watch:
        asyncio.run(collecting())

    assert watch.longest is not None
    assert 0 < watch.longest.collecting_ms < watch.longest.cpu_ms


def test_recent_forgets_what_is_older_than_two_windows() -> None:
    now_s = 0.0
    watch = LoopWatch(BOUND_MS, lambda: now_s)
    with watch.installed():
        asyncio.run(busy_handler(BOUND_MS))
    longest_ms = watch.longest_ms

    now_s = 119.0
    assert watch.recent_ms == longest_ms
    now_s = 181.0
    assert watch.recent_ms == 0
    assert watch.longest_ms == longest_ms


def test_many_long_callbacks_share_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def flood() -> None:
        for _ in range(5):
            await busy_handler(2)

    with (
        caplog.at_level(logging.WARNING, "zkcontroller.EventLoop"),
        LoopWatch(1, lambda: 0.0).installed() as watch,
    ):
        asyncio.run(flood())

    assert watch.long_count >= 5
    assert len(caplog.records) == 1
    assert "flood > busy_handler" in caplog.text


def test_the_gauges_show_the_longest_callback_to_prometheus() -> None:
    metrics = Metrics()
    with watching(metrics, has_readers=True):
        asyncio.run(busy_handler(1))

    shown = exposition_of(metrics).decode()
    [line] = [
        each
        for each in shown.splitlines()
        if each.startswith("zkcontroller_server_eventloop_longestcallbackms ")
    ]
    assert float(line.split()[1]) >= 1
    assert "zkcontroller_server_eventloop_longcallbacks 0.0" in shown


def test_without_readers_and_without_the_variable_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    metrics = Metrics()
    before = asyncio.Handle._run
    with watching(metrics, has_readers=False):
        assert asyncio.Handle._run is before
    monkeypatch.setenv(VARIABLE, "10")
    with watching(metrics, has_readers=False):
        assert asyncio.Handle._run is not before

    assert asyncio.Handle._run is before


@pytest.mark.parametrize("wanted", ["a", "0", "-1", "inf", "nan"])
def test_a_bound_that_is_no_number_of_milliseconds_is_refused(
    wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, wanted)

    with pytest.raises(ConfigInvalid, match=VARIABLE):
        watching(Metrics(), has_readers=False)
