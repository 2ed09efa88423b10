"""Keeps descriptors that are given up when a file must be opened and no other is left.

A node of a quorum must write what others wait for, however many connections there are.  It opens
some descriptors at its start and keeps them for that.  An open that is refused because the process
or the system has no descriptor left gives up a spare one and is tried again.  As soon as there is
room the spare ones are opened again; until then no connection is accepted.

A descriptor that is given up for a moment, as for a flush, comes back at once.  One that a new
segment takes does not.  So the raft step, in which nothing may fail half way, begins only while
:data:`FEWEST_FOR_A_STEP` are there.

:data:`SPARE_DESCRIPTORS` are those of this process; there are none until :meth:`kept` is entered.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, TypeVar

from kafka_common.errors import LimitReached
from kafka_common.process.resource_limits import exhausted_limit

MOST_SPARE: Final = 32
"""A quorum node keeps so many."""
FEWEST_FOR_A_STEP: Final = 16
"""A step opens fewer: a segment for each batch that may wait, and two files for a moment."""
_REFUSED: Final = (errno.EMFILE, errno.ENFILE)

_log: Final = logging.getLogger("zkcontroller.SpareDescriptors")
T = TypeVar("T")


class SpareDescriptors:
    """The spare descriptors.  :meth:`opening` is for any thread, the rest for the event loop."""

    def __init__(self) -> None:
        self._wanted = 0
        self._held: list[int] = []
        """Without a lock: ``pop`` and ``append`` of a list are atomic."""
        self._is_short = False

    @contextmanager
    def kept(self, count: int) -> Iterator[None]:
        """Keeps so many descriptors meanwhile; LimitReached if there are not so many."""
        self._wanted = count
        try:
            while len(self._held) < count:
                try:
                    self._held.append(_spare())
                except OSError as error:
                    limit = exhausted_limit(error)
                    if limit is None:
                        raise
                    raise LimitReached(f"{count} files cannot be kept open: {limit}") from error
            yield
        finally:
            self._wanted, self._is_short = 0, False
            while self._held:
                os.close(self._held.pop())

    def opening(self, opens: Callable[[], T]) -> T:
        """The result of ``opens``, which opens a file; given up for it is what must be."""
        while True:
            try:
                return opens()
            except OSError as error:
                if error.errno not in _REFUSED or not self._give_up(error):
                    raise

    def are_there(self) -> bool:
        """Whether all are there, after those that can be had were opened."""
        with suppress(OSError):
            while len(self._held) < self._wanted:
                self._held.append(_spare())
            if self._is_short:
                os.close(_spare())  # one more than all: the limit is not reached any more
                self._is_short = False
                _log.info("Files can be opened again without a spare descriptor")
        return len(self._held) >= self._wanted

    def allow_step(self) -> bool:
        """Whether a raft step may begin."""
        return self.are_there() or len(self._held) >= FEWEST_FOR_A_STEP

    def _give_up(self, refused: OSError) -> bool:
        try:
            os.close(self._held.pop())
        except IndexError:
            return False
        if not self._is_short:
            self._is_short = True
            _log.error(
                "A file is opened with a spare descriptor, and no connection is accepted before "
                "all %d are there again: %s",
                self._wanted,
                exhausted_limit(refused),
            )
        return True


def _spare() -> int:
    return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)


SPARE_DESCRIPTORS: Final = SpareDescriptors()
