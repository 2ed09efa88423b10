"""Reads ZooKeeper again after a watch has fired, in a new session, or after a failure."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from kafka_common.errors import SessionExpired, ZkControllerError
from zkcontroller.zookeeper.session import SessionState
from zkcontroller.zookeeper.session_router import SessionRouter

RETRY_PAUSE_S: Final = 5.0
"""Pause after a failed read, before ZooKeeper is read again."""

_log = logging.getLogger("kafka.server.KafkaServer")


class Refresher:
    """Calls a blocking function in an executor whenever :meth:`poke` is called.

    Calls of ``poke`` during a run cause one more run.  ``poke`` may be called from any thread,
    ``start`` and ``stop`` on the event loop.
    """

    def __init__(
        self,
        what: str,
        look: Callable[[], None],
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        retry_pause_s: float = RETRY_PAUSE_S,
    ) -> None:
        self._what = what
        self._retry_pause_s = retry_pause_s
        self._look = look
        self._loop = loop
        self._executor = executor
        self._poked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts the task, which reads ZooKeeper for the first time."""
        self._poked.set()
        self._task = self._loop.create_task(self._run())

    async def stop(self) -> None:
        """Stops the task; a call that is running in the executor is not interrupted."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def follow(self, session: SessionRouter, *paths: str) -> None:
        """Calls :meth:`poke` when a watch of ``paths`` fires, and when a session is connected.

        Watches end with their session, so a new session must read again.
        """
        for path in paths:
            session.follow_path(path, lambda _: self.poke())
        session.follow_states(self._on_session_state)

    def poke(self) -> None:
        """Requests another read, because something may have changed.  For any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._poked.set)

    def _on_session_state(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self.poke()

    async def _run(self) -> None:
        while True:
            await self._poked.wait()
            self._poked.clear()
            try:
                await self._loop.run_in_executor(self._executor, self._look)
            except SessionExpired:
                pass  # the next session calls ``poke``
            except ZkControllerError as failure:
                _log.error("Error while processing %s: %s", self._what, failure)
                self._loop.call_later(self._retry_pause_s, self._poked.set)
            except Exception:  # noqa: BLE001 - later changes must still be read
                _log.exception("Error while processing %s", self._what)
