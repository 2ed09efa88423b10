"""The controller in its thread: what goes on beside it, how it fails and how it ends."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiException
from kraft.controller.heartbeats import BrokerHeartbeat
from kraft.controller.quorum_controller import QuorumController
from kraft.controller.quorum_controller_requests import ProcessBrokerHeartbeat
from kraft.controller.quorum_controller_state import (
    DEFAULT_SESSION_TIMEOUT_MS,
    QuorumControllerConfig,
)
from kraft.controller.quorum_controller_values import FatalFault
from kraft.controller.result import VersionedRecord
from kraft.node.controller_apis.cluster import HEARTBEAT_TIMEOUT_MS
from kraft.node.controller_loop import ControllerLoop
from tests.support.quorum import PATIENCE_S, QUICK, in_the_end
from tests.support.quorum_controller_world import CLUSTER_ID, QuorumWorld
from tests.support.quorum_controllers import Controllers, stable_offset

SECOND_MS: Final = 1_000
LONGER_THAN_A_SESSION_MS: Final = 10_000
LONGEST_MS: Final = 2**63 - 1


class IdleDriver:
    """A driver from which nothing comes: what the log holds is the world's."""

    def register(self, *_: object) -> None:
        """Takes the listener."""


@asynccontextmanager
async def in_its_thread(world: QuorumWorld) -> AsyncIterator[ControllerLoop]:
    """The world's active controller, which runs in its thread."""
    driver, active = IdleDriver(), world.active
    loop = ControllerLoop(driver, lambda _: active, lambda: world.now_ms)  # type: ignore[arg-type] # idle
    loop.start()
    try:
        yield loop
    finally:
        await loop.close()


def compute(for_ms: int) -> None:
    """Keeps the thread, and the interpreter, as busy as a controller's work does."""
    until = time.monotonic() + for_ms / SECOND_MS
    while time.monotonic() < until:
        sum(range(1_000))


async def test_a_leader_whose_controller_is_busy_for_long_stays_the_leader(tmp_path: Path) -> None:
    async with Controllers(tmp_path) as quorum:
        await quorum.start(1, 2, 3, quorum=QUICK)
        active = await quorum.active()
        epoch = quorum.leaders()[active]
        busy_ms = 3 * QUICK.fetch_timeout_ms

        busy = asyncio.create_task(quorum.look(active, lambda _: time.sleep(busy_ms / SECOND_MS)))
        changed = asyncio.create_task(quorum.configure(active, "x"))
        began = time.monotonic()
        while not busy.done():
            await asyncio.sleep(0.05)
            assert quorum.leaders() == {active: epoch}
        waited_s = time.monotonic() - began

        assert waited_s * SECOND_MS > 2 * QUICK.fetch_timeout_ms  # someone could have stood
        await changed
        assert quorum.leaders() == {active: epoch}


async def test_the_controller_is_looked_at_in_its_own_thread_between_two_steps(
    tmp_path: Path,
) -> None:
    async with Controllers(tmp_path) as quorum:
        await quorum.start(1)
        node = quorum.nodes[1].controller

        threads = {await node.look(lambda _: threading.current_thread().name) for _ in range(3)}

        assert threads == {"quorum-controller"}
        with pytest.raises(ZeroDivisionError):
            await node.look(lambda _: 1 // 0)
        assert await node.look(lambda controller: controller.is_active) is False
        assert not node.failure.done()  # it was the asker's fault, not the controller's


async def test_commits_come_while_requests_are_asked_from_everywhere(tmp_path: Path) -> None:
    async with Controllers(tmp_path) as quorum:
        await quorum.start(1, 2, 3)
        active = await quorum.active()

        await asyncio.gather(*(quorum.configure(active, str(number)) for number in range(50)))

        end = quorum.nodes[active].driver.node.log.end_offset

        async def have_all() -> bool:
            return all([await quorum.look(each, stable_offset) == end - 1 for each in quorum.nodes])

        await in_the_end(have_all, "every controller has taken everything in")
        held = await quorum.everything()
        assert held[0] == held[1] == held[2]


@pytest.mark.parametrize("where", ["enqueue", "next_time_ms", "run_next"])
@pytest.mark.parametrize("fault", [FatalFault, KeyError])
async def test_a_controller_that_fails_says_so_and_answers_no_request_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: type[Exception], where: str
) -> None:
    def fail(*_: object) -> None:
        raise fault("a record that cannot be")

    async with Controllers(tmp_path) as quorum:
        await quorum.start(1)
        controller, running = quorum.nodes[1].controller, quorum.tasks[1]
        monkeypatch.setattr(QuorumController, where, fail)

        waiting = asyncio.create_task(quorum.configure(1, "x"))

        assert type(await controller.failure) is fault
        with pytest.raises((ConnectionAbortedError, ApiException)):
            await waiting
        with pytest.raises(ApiException) as refused:
            await quorum.configure(1, "y")
        assert refused.value.error is ErrorCode.not_controller
        with pytest.raises(ConnectionAbortedError):
            await quorum.look(1, stable_offset)
        with pytest.raises(fault):
            await running  # and the node with it


async def test_who_waits_for_an_answer_when_the_node_ends_gets_an_error(tmp_path: Path) -> None:
    async with Controllers(tmp_path) as quorum:
        await quorum.start(1, 2, 3)
        active = await quorum.active()
        controller = quorum.nodes[active].controller
        for other in [each for each in quorum.nodes if each != active]:
            await quorum.kill(other)
        waiting = asyncio.create_task(quorum.configure(active, "never committed"))
        await quorum.look(active, stable_offset)  # so it has been written, but to one node alone

        await quorum.kill(active)

        with pytest.raises((ConnectionAbortedError, ApiException)):
            await waiting
        with pytest.raises(ConnectionAbortedError):
            await controller.look(stable_offset)


@pytest.mark.parametrize("is_task", [False, True], ids=["a read", "the fencing of another one"])
async def test_no_long_step_ends_a_session_whose_heartbeat_waits(
    monkeypatch: pytest.MonkeyPatch, is_task: bool
) -> None:
    world = QuorumWorld.led()
    world.start_brokers(9)
    world.now_ms += DEFAULT_SESSION_TIMEOUT_MS
    world.start_brokers(1, 2, 3)
    cluster = world.active.state.cluster
    epochs = {broker.id: broker.epoch for broker in cluster.registrations()}
    began, may_end = threading.Event(), threading.Event()
    transitions = world.active.state.heartbeats._transitions
    fence = transitions.handle_broker_fenced

    def take_long() -> None:
        began.set()
        assert may_end.wait(PATIENCE_S)
        world.now_ms += LONGER_THAN_A_SESSION_MS

    def fence_slowly(broker_id: int) -> list[VersionedRecord]:
        if is_task and broker_id == 9:
            take_long()
        return fence(broker_id)

    async with in_its_thread(world) as loop:
        monkeypatch.setattr(transitions, "handle_broker_fenced", fence_slowly)
        world.now_ms += int(is_task)  # now the session of 9 is over
        busy = asyncio.create_task(loop.look(lambda _: None if is_task else take_long()))
        await asyncio.to_thread(began.wait, PATIENCE_S)
        waiting = [
            asyncio.create_task(
                loop.ask(
                    ProcessBrokerHeartbeat(BrokerHeartbeat(each, epochs[each], 1_000)),
                    HEARTBEAT_TIMEOUT_MS,
                )
            )
            for each in (1, 2, 3)
        ]
        await asyncio.sleep(0)  # all of them are asked now
        may_end.set()
        await busy
        refused = await asyncio.gather(*waiting, return_exceptions=True)

        assert [type(each) for each in refused] == [ApiException] * 3  # but they have counted
        alive = await loop.look(lambda _: [each for each in epochs if cluster.is_unfenced(each)])
        assert alive == [1, 2, 3]


async def test_the_longest_interval_of_a_task_does_not_end_the_thread() -> None:
    config = QuorumControllerConfig(0, CLUSTER_ID, max_idle_interval_ms=LONGEST_MS)
    world = QuorumWorld.led(config=config)

    async with in_its_thread(world) as loop:
        for _ in range(3):  # between them it waits for the end of that interval
            assert await loop.look(lambda controller: controller.is_active)
