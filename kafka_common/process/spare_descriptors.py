"""Keeps spare descriptors, which are closed when a file must be opened and no other is left.

A quorum node must be able to write its log, however many connections there are.  It opens some
descriptors at its start and keeps them for that.  If an open is refused because the process or the
system has no descriptor left, a spare one is closed and the open is tried again.  The spare
descriptors are opened again as soon as possible; until then no connection is accepted.

A file that is open for a moment only, as for a flush, frees its descriptor at once.  A new segment
keeps its descriptor.  A raft step must not fail half way, so it begins only while at least
:data:`FEWEST_FOR_A_STEP` spare descriptors are left.

:data:`SPARE_DESCRIPTORS` are those of this process; there are none before
:meth:`SpareDescriptors.kept` is entered.
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
"""The number of spare descriptors of a quorum node."""
FEWEST_FOR_A_STEP: Final = 16
"""More than a step opens: a segment for each batch that may wait, and two files for a moment."""
_REFUSED: Final = (errno.EMFILE, errno.ENFILE)

_log: Final = logging.getLogger("zkcontroller.SpareDescriptors")
T = TypeVar("T")


class SpareDescriptors:
    """The spare descriptors.  :meth:`opening` is for any thread, the rest for the event loop."""

    def __init__(self) -> None:
        self._wanted = 0
        self._held: list[int] = []
        """The open spare descriptors.  No lock: ``pop`` and ``append`` of a list are atomic."""
        self._is_short = False

    @contextmanager
    def kept(self, count: int) -> Iterator[None]:
        """Keeps ``count`` descriptors open in this block; LimitReached if they cannot be opened."""
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
        """The result of ``opens``, which opens a file; closes spare descriptors if needed."""
        while True:
            try:
                return opens()
            except OSError as error:
                if error.errno not in _REFUSED or not self._give_up(error):
                    raise

    def are_there(self) -> bool:
        """Opens missing spare descriptors again, and returns whether all are open now."""
        with suppress(OSError):
            while len(self._held) < self._wanted:
                self._held.append(_spare())
            if self._is_short:
                os.close(_spare())  # one more than needed: the limit is no longer reached
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
