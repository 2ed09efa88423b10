"""Drives a procedure of the core: performs its effects and questions, sends it the results.

The order matters (see :mod:`zkcontroller.core.effects`): the outbox is performed before each
question and at the end, so no effect overtakes a write that precedes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from kafka_common.errors import SessionExpired, ZkControllerError
from zkcontroller.core.effects import (
    Effect,
    Outbox,
    Pause,
    Procedure,
    Question,
    RegisterBrokerZnode,
)
from zkcontroller.runtime.hold_points import HoldPoints
from zkcontroller.zookeeper.requests import ZkRequest

NO_SESSION: Final = 0


class Session(Protocol):
    """The methods of a ZooKeeper session that the driver needs."""

    @property
    def session_id(self) -> int:
        """The id of the current session; 0 when there is none."""
        ...

    def perform(self, request: ZkRequest, session_id: int | None = None) -> object:
        """The result of ``request``; SessionExpired if the session is not ``session_id``."""
        ...


class Driver:
    """Runs procedures to their end in the caller's thread."""

    def __init__(
        self,
        outbox: Outbox,
        session: Session,
        register_broker: Callable[[], int],
        do: Callable[[Sequence[Effect]], None],
        sleep_s: Callable[[float], object] = time.sleep,
        hold_points: HoldPoints | None = None,
    ) -> None:
        """``register_broker`` returns the new broker epoch; ``do`` performs effects of the outbox.

        A test may hold the thread at ``hold_points``.
        """
        self._outbox = outbox
        self._session = session
        self._register_broker = register_broker
        self._do = do
        self._sleep_s = sleep_s
        self._hold_points = hold_points

    def run(self, procedure: Procedure[None]) -> None:
        """Runs the procedure to its end, every question in the current ZooKeeper session.

        An event that began in one session must not continue in the next: its reads are stale and
        its watches are lost.  An error that the procedure does not handle is raised after its
        effects have been performed.
        """
        session_id = self._session.session_id
        result: object = None
        failure: ZkControllerError | None = None
        while True:
            try:
                if failure is not None:
                    question = procedure.throw(failure)
                else:
                    question = procedure.send(result)
            except StopIteration:
                return
            finally:
                self._perform_outbox()
            result = failure = None
            try:
                self._hold("before", question)
                result = self._result_of(question, session_id)
                self._hold("after", question)
            except ZkControllerError as error:
                failure = error

    def _result_of(self, question: Question, session_id: int) -> object:
        if isinstance(question, RegisterBrokerZnode):
            return self._register_broker()
        if isinstance(question, Pause):
            self._sleep_s(question.delay_ms / 1000)
            return None
        if session_id == NO_SESSION:
            # perform() would wait for the next session, and delay Expire, which is in the queue.
            raise SessionExpired("there was no ZooKeeper session when the event began")
        return self._session.perform(question, session_id)

    def _hold(self, when: str, question: Question) -> None:
        if self._hold_points is not None:
            self._hold_points.at_question(when, question)

    def _perform_outbox(self) -> None:
        if self._outbox:
            effects = self._outbox.copy()
            self._outbox.clear()
            self._do(effects)
