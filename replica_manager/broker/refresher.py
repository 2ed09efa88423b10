"""Reads ZooKeeper again when something may have changed, or after it has refused to answer."""

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
"""How long after a refusal ZooKeeper is asked again, if nothing changes before."""

_log = logging.getLogger("kafka.server.KafkaServer")


class Refresher:
    """Calls a blocking function in an executor when poked; pokes meanwhile make one more call.

    ``poke`` may be called from any thread, ``start`` and ``stop`` on the loop.
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
        """Begins with a first look."""
        self._poked.set()
        self._task = self._loop.create_task(self._run())

    async def stop(self) -> None:
        """Ends; a look under way is left to itself."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def follow(self, session: SessionRouter, *paths: str) -> None:
        """Pokes when a watch of those paths fires, and when a session stands.

        ZooKeeper fires no watch of a session that is over, so each new one is a reason to look.
        """
        for path in paths:
            session.follow_path(path, lambda _: self.poke())
        session.follow_states(self._on_session_state)

    def poke(self) -> None:
        """Something may have changed."""
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
                pass  # the next session pokes
            except ZkControllerError as failure:
                _log.error("Error while processing %s: %s", self._what, failure)
                self._loop.call_later(self._retry_pause_s, self._poked.set)
            except Exception:  # noqa: BLE001 - the next change must be noticed whatever happens
                _log.exception("Error while processing %s", self._what)
