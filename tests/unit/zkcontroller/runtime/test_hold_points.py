"""The broker's end of the hold points, with the test's end of the socket in this test."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args

import orjson
import pytest

from kafka_common.errors import ConfigInvalid
from kafka_common.wall_time import SOCKET_VARIABLE, set_wall_time_offset, wall_time_ms
from zkcontroller.core.broker_requests import REQUEST_NAMES
from zkcontroller.core.effects import (
    CancelPuts,
    ControlledShutdownResult,
    Pause,
    Question,
    RequestResponse,
    SendControlRequest,
)
from zkcontroller.core.events import BrokerChange, Event
from zkcontroller.runtime.hold_points import (
    HOLD_POINTS,
    HoldPoints,
    hold_points,
    point_of_effect,
)
from zkcontroller.zookeeper.requests import Create, FencedBatch, ZkRequest

TIMEOUT_S: Final = 20


class TestEnd:
    """Listens as a test does."""

    __test__ = False

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()

    def connect(self, held: dict[str, int], lost: threading.Event) -> HoldPoints:
        """The broker's end, to which that is said first."""
        accepted: list[socket.socket] = []

        def accept() -> None:
            accepted.append(self._listener.accept()[0])
            accepted[0].settimeout(TIMEOUT_S)
            accepted[0].sendall(orjson.dumps({"held": held}) + b"\n")

        accepting = threading.Thread(target=accept)
        accepting.start()
        points = HoldPoints(self.path, 1, on_lost=lost.set)
        accepting.join()
        self.connection = accepted[0]
        self.lines = self.connection.makefile("rb")
        assert self.read()["broker_id"] == 1
        return points

    def hold(self, held: dict[str, int]) -> None:
        self.connection.sendall(orjson.dumps({"held": held}) + b"\n")

    def read(self) -> dict[str, Any]:
        message: dict[str, Any] = orjson.loads(self.lines.readline())
        return message

    def close(self) -> None:
        self.lines.close()
        self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()
        self._listener.close()


@pytest.fixture
def lost() -> threading.Event:
    return threading.Event()


@pytest.fixture
def end(tmp_path: Path) -> Iterator[TestEnd]:
    end = TestEnd(tmp_path / "s")
    yield end
    end.close()


def in_thread(points: HoldPoints, question: Question, when: str = "before") -> threading.Thread:
    thread = threading.Thread(target=points.at_question, args=(when, question), daemon=True)
    thread.start()
    return thread


def test_a_held_thread_says_so_and_waits_for_its_release(
    end: TestEnd, lost: threading.Event
) -> None:
    points = end.connect({"controller.before_write": 7}, lost)
    batch = FencedBatch([Create("/a", b"")], 1)

    thread = in_thread(points, batch)
    said = end.read()
    end.hold({"controller.before_write": 8})  # released, and held again, for the next one
    thread.join(TIMEOUT_S)

    assert said == {"reached": "controller.before_write", "arm": 7, "detail": "/a"}
    assert not thread.is_alive()
    assert points.is_held("controller.before_write")
    points.close()
    assert not lost.is_set()


def test_a_message_is_taken_before_it_is_said_to_be(end: TestEnd, lost: threading.Event) -> None:
    points = end.connect({}, lost)

    end.connection.sendall(b'{"number": 3, "held": {}, "clock_offset_ms": 3600000}\n')

    assert end.read() == {"taken": 3}
    ahead_ms = wall_time_ms() - time.time_ns() // 1_000_000
    set_wall_time_offset(0)
    points.close()
    assert abs(ahead_ms - 3_600_000) < 60_000


def test_what_is_not_held_goes_on(end: TestEnd, lost: threading.Event) -> None:
    points = end.connect({"controller.after_write": 1}, lost)

    points.at_question("before", FencedBatch([], 1))
    points.at_question("after", Pause(5))
    points.at_event(BrokerChange())

    assert not points.is_held("controller.on_broker_change")
    points.close()


def test_a_held_event_is_described_by_its_text(end: TestEnd, lost: threading.Event) -> None:
    points = end.connect({"controller.on_broker_change": 2}, lost)

    thread = threading.Thread(target=points.at_event, args=(BrokerChange(),), daemon=True)
    thread.start()

    assert end.read()["detail"] == "BrokerChange"
    points.close()
    thread.join(TIMEOUT_S)
    assert not thread.is_alive()


def test_a_broker_whose_test_has_gone_is_released(tmp_path: Path, lost: threading.Event) -> None:
    end = TestEnd(tmp_path / "s")
    points = end.connect({"controller.before_write": 1}, lost)
    thread = in_thread(points, FencedBatch([], 1))
    end.read()

    end.close()

    assert lost.wait(TIMEOUT_S)
    thread.join(TIMEOUT_S)
    assert not thread.is_alive()


def test_without_the_variable_nothing_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SOCKET_VARIABLE, raising=False)

    assert hold_points(1) is None


def test_a_socket_without_a_test_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(SOCKET_VARIABLE, str(tmp_path / "nowhere"))

    with pytest.raises(ConfigInvalid, match="no test listens there"):
        hold_points(1)


def test_every_question_event_and_request_has_a_name_in_the_list(
    end: TestEnd, lost: threading.Event
) -> None:
    points = end.connect({}, lost)
    asked: list[str] = []

    def record(name: str) -> bool:
        asked.append(name)
        return False

    points.is_held = record  # type: ignore[method-assign]  # every name is asked for here

    for kind in get_args(ZkRequest):
        points.at_question("before", kind((), 1) if kind is FencedBatch else kind(()))
    for event in get_args(Event):
        points.at_event(event(*[None] * len(event.__struct_fields__)))
    names = [point_of_effect(SendControlRequest(1, key, 0, (), 1)) for key in REQUEST_NAMES]
    names.append(point_of_effect(RequestResponse(1, ControlledShutdownResult(0))))  # type: ignore[arg-type]  # any code

    assert {*asked, *names} <= set(HOLD_POINTS)
    assert len(asked) == len(get_args(ZkRequest)) + len(get_args(Event))
    assert point_of_effect(CancelPuts()) is None
    assert all(re.fullmatch(r"controller\.[a-z_]+", name) for name in HOLD_POINTS)
    points.close()
