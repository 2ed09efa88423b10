"""Deletes expired delegation tokens while this broker is the controller.

Source: Kafka ``KafkaController`` (``delete-expired-tokens``,
``delegation.token.expiry.check.interval.ms``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from replica_manager.security.delegation_token_store import DelegationTokenStore

LOOK_S: Final = 1.0
"""How often it looks whether this broker has become the controller."""
_log: Final = logging.getLogger("kafka.server.DelegationTokenManagerZk")


class TokenSweep:
    """Deletes expired tokens at each election and then periodically.

    In a task of the event loop and an executor.
    """

    def __init__(
        self,
        store: DelegationTokenStore,
        interval_ms: int,
        is_controller: Callable[[], bool],
        executor: Executor,
    ) -> None:
        self._store = store
        self._interval_s = interval_ms / 1000
        self._is_controller = is_controller
        self._executor = executor
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts the periodic task."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Stops the task; a sweep that runs in the executor is not interrupted."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        due_s = 0.0
        while True:
            if not self._is_controller():
                due_s = 0.0  # at once after the next election
            elif loop.time() >= due_s:
                try:
                    await loop.run_in_executor(self._executor, self._store.sweep)
                except Exception:  # noqa: BLE001 - the next sweep may succeed
                    _log.exception("Expired delegation tokens cannot be removed")
                due_s = loop.time() + self._interval_s
            await asyncio.sleep(min(self._interval_s, LOOK_S))
