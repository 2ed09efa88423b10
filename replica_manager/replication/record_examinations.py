"""Validates clients' batches: short ones on the event loop, long ones in a thread.

Most batches are checked within a millisecond, at once.  A check that takes longer goes on in the
one thread that exists for this, behind those that came before: however many clients send batches
that take long, only one of them is unpacked at a time, and no other client waits for it.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Final

from replica_manager.log.log_validation import Examination, Examined

EXAMINED_AT_ONCE: Final = 1
"""Batches whose check takes long, at one time: each may be unpacked to 64 MiB.

More threads would not make the checks faster: the interpreter runs one of them at a time.
"""


class RecordExaminations:
    """Runs validations.  For the event loop."""

    def __init__(self) -> None:
        # Its thread starts with the first long examination.
        self._executor = ThreadPoolExecutor(EXAMINED_AT_ONCE, "record-examination")

    async def ended(self, examination: Examination) -> tuple[Examined | None, bool]:
        """The result of the validation, and whether other tasks ran meanwhile.

        Raises what the examination raises.  If the caller is cancelled, the thread stops at the
        next pause.
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
