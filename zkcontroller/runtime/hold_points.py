"""Named points of the controller at which a test may hold its event thread.

Off unless the environment names a local (unix) socket in ``ZKCONTROLLER_HOLD_SOCKET``, on which the
test listens.  The broker connects before its controller takes the first event.  Both sides write
lines of JSON::

    broker: {"broker_id": 1, "pid": 4711}                   once
    test:   {"number": 3, "held": {"controller.before_write": 7}, "clock_offset_ms": 0}
    broker: {"taken": 3}                                    message 3 is in effect
    broker: {"reached": "controller.before_write", "arm": 7, "detail": "2 writes"}

``held`` maps the names of points to an *arm*, a number that is new each time the test holds a
point.  After each change the test sends all points that it holds.  The thread continues when its
point is no longer held, or is held with another arm.  If the test closes the connection, the broker
process ends at once without any clean-up, so that no test leaves a broker running.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Final

import orjson

from kafka_common.errors import ConfigInvalid
from kafka_common.observability.java_values import upper_snake_case
from kafka_common.wall_time import SOCKET_VARIABLE, set_wall_time_offset
from zkcontroller.core.broker_requests import REQUEST_NAMES
from zkcontroller.core.effects import (
    Effect,
    Pause,
    Question,
    RegisterBrokerZnode,
    RequestResponse,
    SendControlRequest,
)
from zkcontroller.core.events import STATE_OF, Event, event_text
from zkcontroller.zookeeper.requests import (
    CheckExists,
    FencedBatch,
    ListChildren,
    ReadZnodes,
    UnfencedBatch,
    ZkTransaction,
)

_CONNECT_TIMEOUT_S: Final = 10.0
_MOST_LINE_BYTES: Final = 64 * 1024


def _snake(name: str) -> str:
    return upper_snake_case(name).lower()


_QUESTIONS: Final[Mapping[type[Question], str]] = {
    ReadZnodes: "read",
    ListChildren: "read",
    CheckExists: "read",
    FencedBatch: "write",
    UnfencedBatch: "write",
    ZkTransaction: "election",
    RegisterBrokerZnode: "register",
}
_SENDS: Final = {api_key: f"send_{_snake(name)}" for api_key, name in REQUEST_NAMES.items()}

HOLD_POINTS: Final[Mapping[str, str]] = {
    "controller.before_election": "/controller is about to be created (or a corrupt one deleted)",
    "controller.after_election": "the election's transaction is answered, nothing is done with it",
    "controller.before_read": "znodes are about to be read",
    "controller.after_read": "they are read, nothing is decided yet",
    "controller.before_write": "a fenced batch is decided, ZooKeeper does not have it",
    "controller.after_write": "ZooKeeper has answered, no broker knows yet",
    "controller.before_register": "the session was lost: /brokers/ids/<id> is about to come back",
    "controller.after_register": "the broker is registered in its new session",
    "controller.before_send_leader_and_isr": "a LeaderAndIsr is about to be queued for a broker",
    "controller.before_send_stop_replica": "a StopReplica is about to be queued for a broker",
    "controller.before_send_update_metadata": "an UpdateMetadata is about to be queued",
    "controller.before_answer": "a broker or client that asked is about to be answered",
    **{
        f"controller.on_{_snake(event.__name__)}": f"the event {event.__name__} is taken"
        for event in STATE_OF
    },
}
"""The meaning of each hold point, by name."""


class HoldPoints:
    """The points at which a test holds this broker, received over the broker's socket."""

    def __init__(
        self, path: str, broker_id: int, on_lost: Callable[[], object] | None = None
    ) -> None:
        """Connects to the test; OSError if none listens.

        ``on_lost`` is called when the connection is lost; by default it ends the process.
        """
        self._on_lost = on_lost or _end_process
        self._changed = threading.Condition()
        self._held: Mapping[str, int] = {}
        self._is_closed = False
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(_CONNECT_TIMEOUT_S)
        try:
            self._socket.connect(path)
        except OSError:
            self._socket.close()
            raise
        self._say({"broker_id": broker_id, "pid": os.getpid()})
        self._lines = self._socket.makefile("rb")
        # Points that the test holds already must be in effect for the first event.
        self._take(self._lines.readline(_MOST_LINE_BYTES))
        self._socket.settimeout(None)
        threading.Thread(target=self._listen, name="hold-points", daemon=True).start()

    def is_held(self, name: str) -> bool:
        """Whether a test holds the controller at this point."""
        return name in self._held

    def at(self, name: str, detail: str = "") -> None:
        """Waits while a test holds the thread at this point, after reporting that it is reached."""
        with self._changed:
            arm = self._held.get(name)
            if arm is None:
                return
            self._say({"reached": name, "arm": arm, "detail": detail})
            self._changed.wait_for(lambda: self._is_closed or self._held.get(name) != arm)

    def at_event(self, event: Event) -> None:
        """As :meth:`at`, for the point at which an event of this type is taken."""
        name = f"controller.on_{_snake(type(event).__name__)}"
        if self.is_held(name):
            self.at(name, event_text(event))

    def at_question(self, when: str, question: Question) -> None:
        """As :meth:`at`, for the point ``before`` or ``after`` a question is performed."""
        if isinstance(question, Pause):
            return
        name = f"controller.{when}_{_QUESTIONS[type(question)]}"
        if self.is_held(name):
            self.at(name, _question_text(question))

    def close(self) -> None:
        """Closes the connection; a held thread continues."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _listen(self) -> None:
        with self._lines, contextlib.suppress(OSError):
            while line := self._lines.readline(_MOST_LINE_BYTES):
                self._take(line)
        self._socket.close()
        with self._changed:
            is_lost = not self._is_closed
            self._is_closed = True
            self._changed.notify_all()
        if is_lost:
            self._on_lost()

    def _take(self, line: bytes) -> None:
        message = orjson.loads(line) if line else {"held": {}}
        with self._changed:
            self._held = message["held"]
            if "number" in message:
                set_wall_time_offset(message["clock_offset_ms"])
                self._say({"taken": message["number"]})
            self._changed.notify_all()

    def _say(self, message: Mapping[str, object]) -> None:
        # The thread that reads from the socket handles a lost connection.
        with contextlib.suppress(OSError):
            self._socket.sendall(orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE))


def hold_points(broker_id: int) -> HoldPoints | None:
    """Connects to the test that the environment names; None, the usual case, if it names none.

    ConfigInvalid if no test listens there.
    """
    path = os.environ.get(SOCKET_VARIABLE)
    if not path:
        return None
    try:
        return HoldPoints(path, broker_id)
    except OSError as error:
        raise ConfigInvalid(
            SOCKET_VARIABLE, path, f"no test listens there ({error}): unset the variable"
        ) from error


def point_of_effect(effect: Effect) -> str | None:
    """The name of the hold point before an effect; None if the effect has no hold point."""
    match effect:
        case SendControlRequest():
            return f"controller.before_{_SENDS[effect.api_key]}"
        case RequestResponse():
            return "controller.before_answer"
        case _:
            return None


def effect_text(effect: Effect) -> str:
    """Details of an effect for the test; empty if there are none."""
    return f"to broker {effect.broker_id}" if isinstance(effect, SendControlRequest) else ""


def _question_text(question: Question) -> str:
    match question:
        case FencedBatch() | UnfencedBatch() | ZkTransaction():
            return " ".join(sorted({each.path for each in question.operations}))
        case ReadZnodes() | ListChildren() | CheckExists():
            return " ".join(question.paths[:10])
        case _:
            return ""


def _end_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
