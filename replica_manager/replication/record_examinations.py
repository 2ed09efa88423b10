"""Validates clients' batches: short ones on the event loop, long ones in a thread.

Most batches are validated within a millisecond, on the event loop.  A longer validation continues
in a single thread, after those that came before.  So only one large batch is decompressed at a
time, and clients with short batches do not wait for it.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Final

from replica_manager.log.log_validation import Examination, Examined

EXAMINED_AT_ONCE: Final = 1
"""Number of long validations at one time; each may decompress a batch to 64 MiB.

More threads would not be faster: the interpreter runs one thread at a time.
"""


class RecordExaminations:
    """Runs the validations of batches.  Called on the event loop."""

    def __init__(self) -> None:
        # The executor starts its thread with the first long validation.
        self._executor = ThreadPoolExecutor(EXAMINED_AT_ONCE, "record-examination")

    async def ended(self, examination: Examination) -> tuple[Examined | None, bool]:
        """The result of the validation, and whether other tasks ran meanwhile.

        Raises the exceptions of ``examination``.  If the caller is cancelled, the thread stops at
        the next ``yield`` of the validation.
        """
        try:
            next(examination)
        except StopIteration as done:
            return done.value, False
        is_abandoned = Event()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._executor, _end, examination, is_abandoned), True
        finally:
            is_abandoned.set()


def _end(examination: Examination, is_abandoned: Event) -> Examined | None:
    while not is_abandoned.is_set():
        try:
            next(examination)
        except StopIteration as done:
            examined: Examined | None = done.value
            return examined
    examination.close()
    return None
