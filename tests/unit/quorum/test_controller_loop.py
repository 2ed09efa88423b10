"""The controller in its thread: what goes on beside it, how it fails and how it ends."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Final

import pytest
from kio.schema.errors import ErrorCode

from tests.support.quorum import QUICK, in_the_end
from tests.support.quorum_controllers import Controllers, stable_offset, told
from zkcontroller.kraft.controller.api_error import ApiException
from zkcontroller.kraft.controller.quorum_controller import QuorumController
from zkcontroller.kraft.controller.quorum_controller_values import FatalFault

SECOND_MS: Final = 1_000


def compute(for_ms: int) -> None:
    """Keeps the thread, and the interpreter, as busy as a controller's work does."""
    until = time.monotonic() + for_ms / SECOND_MS
    while time.monotonic() < until:
        sum(range(1_000))


def test_a_leader_whose_controller_is_busy_for_long_stays_the_leader(tmp_path: Path) -> None:
    async def scenario(quorum: Controllers) -> None:
        await quorum.start(1, 2, 3)
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

    told(tmp_path, scenario)


def test_the_controller_is_looked_at_in_its_own_thread_between_two_steps(tmp_path: Path) -> None:
    async def scenario(quorum: Controllers) -> None:
        await quorum.start(1)
        node = quorum.nodes[1].controller

        threads = {await node.look(lambda _: threading.current_thread().name) for _ in range(3)}

        assert threads == {"quorum-controller"}
        with pytest.raises(ZeroDivisionError):
            await node.look(lambda _: 1 // 0)
        assert await node.look(lambda controller: controller.is_active) is False
        assert not node.failure.done()  # it was the asker's fault, not the controller's

    told(tmp_path, scenario)


def test_commits_come_while_requests_are_asked_from_everywhere(tmp_path: Path) -> None:
    async def scenario(quorum: Controllers) -> None:
        await quorum.start(1, 2, 3)
        active = await quorum.active()

        await asyncio.gather(*(quorum.configure(active, str(number)) for number in range(50)))

        end = quorum.nodes[active].driver.node.log.end_offset

        async def have_all() -> bool:
            return all([await quorum.look(each, stable_offset) == end - 1 for each in quorum.nodes])

        await in_the_end(have_all, "every controller has taken everything in")
        held = await quorum.everything()
        assert held[0] == held[1] == held[2]

    told(tmp_path, scenario)


@pytest.mark.parametrize("fault", [FatalFault("a record that cannot be"), KeyError("a bug")])
def test_a_controller_that_fails_says_so_and_answers_no_request_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def fail(*_: object) -> None:
        raise fault

    async def scenario(quorum: Controllers) -> None:
        await quorum.start(1)
        controller, running = quorum.nodes[1].controller, quorum.tasks[1]
        monkeypatch.setattr(QuorumController, "step", fail)

        waiting = asyncio.create_task(quorum.configure(1, "x"))

        assert await controller.failure is fault
        with pytest.raises(ConnectionAbortedError):
            await waiting
        with pytest.raises(ApiException) as refused:
            await quorum.configure(1, "y")
        assert refused.value.error is ErrorCode.not_controller
        with pytest.raises(ConnectionAbortedError):
            await quorum.look(1, stable_offset)
        with pytest.raises(type(fault)):
            await running  # and the node with it

    told(tmp_path, scenario)


def test_who_waits_for_an_answer_when_the_node_ends_gets_an_error(tmp_path: Path) -> None:
    async def scenario(quorum: Controllers) -> None:
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

    told(tmp_path, scenario)
