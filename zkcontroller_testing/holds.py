"""The test's side of the hold points: which points are held, and which controllers reached one.

Brokers connect to one local socket of the cluster; :mod:`zkcontroller.runtime.hold_points`
describes the protocol.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import orjson
from typing_extensions import override

from kafka_common.errors import ConfigInvalid
from zkcontroller.runtime.hold_points import HOLD_POINTS
from zkcontroller_testing.waiting import PATIENCE_S, NotInTime

_MOST_LINE_BYTES: Final = 64 * 1024
_TAKEN_S: Final = 1.0
"""How long :meth:`HoldServer.arm` waits until the brokers have received the hold."""


class Reached(NamedTuple):
    """A controller that is held at a point."""

    broker_id: int
    name: str
    detail: str
    """What the controller was about to do: the znodes, the receiving broker, or the event."""


@dataclass(eq=False)
class _Broker:
    broker_id: int
    pid: int
    connection: socket.socket
    taken: int = 0
    """The number of the last message that the broker has confirmed."""


class HoldServer:
    """Sends holds and clock offsets to the brokers of one cluster."""

    def __init__(self, journal: Callable[[str], None]) -> None:
        self._journal = journal
        # Use a short folder, because the path of a local socket has at most some 100 characters.
        self._directory = Path(tempfile.mkdtemp(prefix="zkc-"))
        self.path = self._directory / "holds"
        self.changed = threading.Condition()
        self._brokers: dict[int, _Broker] = {}
        self._points: dict[int, HoldPoint] = {}
        self._reached: dict[int, list[Reached]] = {}
        self.clock_offsets_ms: dict[int, int] = {}
        """How far each broker's clock is set forward; a started broker uses it, too."""
        self._arms = itertools.count(1)
        self._messages = itertools.count(1)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen(64)
        self._thread = threading.Thread(target=self._accept, name="kafka-kit-holds", daemon=True)
        self._thread.start()

    def arm(self, point: HoldPoint) -> int:
        """Holds controllers at a point from now on; returns the number of this hold."""
        with self.changed:
            arm = next(self._arms)
            self._points[arm] = point
            self._reached[arm] = []
            # A paused broker receives the message when it continues.
            self._say_to(point.broker_id, _TAKEN_S)
        self._journal(f"hold at {point}")
        return arm

    def disarm(self, arm: int) -> None:
        """Ends the hold with the number ``arm``; all controllers that it holds continue."""
        with self.changed:
            point = self._points.pop(arm, None)
            self._say_to(None, 0)
        if point is not None:
            self._journal(f"release {point}")

    def reached(self, arm: int, timeout_s: float) -> Reached:
        """Waits for the first controller at the point; NotInTime if none reaches it."""
        deadline = time.monotonic() + timeout_s
        with self.changed:
            is_there = self.changed.wait_for(
                lambda: bool(self._reached[arm]), max(0.0, deadline - time.monotonic())
            )
            if not is_there:
                raise NotInTime(f"no controller reached {self._points.get(arm)} in {timeout_s:g} s")
            return self._reached[arm][0]

    def set_clock(self, broker_id: int, offset_ms: int, timeout_s: float) -> None:
        """Sets a broker's clock and waits for that; a stopped broker gets it at its next start."""
        with self.changed:
            self.clock_offsets_ms[broker_id] = offset_ms
            is_set = self._say_to(broker_id, timeout_s)
        if not is_set:
            raise NotInTime(f"broker {broker_id} did not set its clock in {timeout_s:g} s")

    def close(self) -> None:
        """Closes the socket and all connections; a broker that still runs then ends."""
        # Closing alone would not wake the thread that waits in accept.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(PATIENCE_S)
        with self.changed:
            brokers = list(self._brokers.values())
        for broker in brokers:
            with contextlib.suppress(OSError):
                broker.connection.shutdown(socket.SHUT_RDWR)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(
                target=self._listen, args=(connection,), name="kafka-kit-hold", daemon=True
            ).start()

    def _listen(self, connection: socket.socket) -> None:
        broker: _Broker | None = None
        with connection, connection.makefile("rb") as lines, contextlib.suppress(OSError):
            while line := lines.readline(_MOST_LINE_BYTES):
                message = orjson.loads(line)
                if broker is None:
                    broker = _Broker(message["broker_id"], message["pid"], connection)
                    with self.changed:
                        self._brokers[broker.pid] = broker
                        self._say(broker)
                else:
                    self._note(broker, message)
        if broker is not None:
            with self.changed:
                self._brokers.pop(broker.pid, None)
                self.changed.notify_all()

    def _note(self, broker: _Broker, message: dict[str, object]) -> None:
        if "taken" in message:
            with self.changed:
                number = message["taken"]
                assert isinstance(number, int)
                broker.taken = number
                self.changed.notify_all()
            return
        found = Reached(broker.broker_id, str(message["reached"]), str(message["detail"]))
        self._journal(f"broker {found.broker_id} is held at {found.name} {found.detail}".rstrip())
        with self.changed:
            arm = message["arm"]
            assert isinstance(arm, int)
            self._reached.setdefault(arm, []).append(found)
            self.changed.notify_all()

    def _say_to(self, broker_id: int | None, timeout_s: float) -> bool:
        """Sends the current holds and clock to one broker or all; False: not confirmed in time."""
        awaited = {
            broker.pid: self._say(broker)
            for broker in self._brokers.values()
            if broker_id in (None, broker.broker_id)
        }
        return self.changed.wait_for(
            lambda: all(
                pid not in self._brokers or self._brokers[pid].taken >= number
                for pid, number in awaited.items()
            ),
            timeout_s,
        )

    def _say(self, broker: _Broker) -> int:
        number = next(self._messages)
        held = {
            point.name: arm
            for arm, point in self._points.items()
            if point.broker_id in (None, broker.broker_id)
        }
        with contextlib.suppress(OSError):
            broker.connection.sendall(
                orjson.dumps(
                    {
                        "number": number,
                        "held": held,
                        "clock_offset_ms": self.clock_offsets_ms.get(broker.broker_id, 0),
                    },
                    option=orjson.OPT_APPEND_NEWLINE,
                )
            )
        return number


class HoldPoint:
    """One named point: hold it, wait until a controller reaches it, release it."""

    def __init__(self, server: HoldServer, name: str, broker_id: int | None) -> None:
        """``broker_id`` None: holds any broker.  ConfigInvalid for an unknown name."""
        if name not in HOLD_POINTS:
            raise ConfigInvalid("hold point", name, f"is none of {', '.join(sorted(HOLD_POINTS))}")
        self.name = name
        self.broker_id = broker_id
        self._server = server
        self._arm: int | None = None

    @override
    def __str__(self) -> str:
        return self.name if self.broker_id is None else f"{self.name} of broker {self.broker_id}"

    def hold(self) -> HoldPoint:
        """Makes each controller that reaches this point wait; also usable as a ``with`` block."""
        if self._arm is None:
            self._arm = self._server.arm(self)
        return self

    def wait_reached(self, timeout_s: float = PATIENCE_S) -> Reached:
        """Waits for the first controller at this point; NotInTime if none reaches it."""
        assert self._arm is not None, f"hold {self.name} first"
        return self._server.reached(self._arm, timeout_s)

    def release(self) -> None:
        """Releases the held controllers, and holds no more at this point."""
        if self._arm is not None:
            self._server.disarm(self._arm)
            self._arm = None

    def __enter__(self) -> HoldPoint:
        return self.hold()

    def __exit__(self, *_: object) -> None:
        self.release()
