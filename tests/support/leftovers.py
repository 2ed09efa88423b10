"""What a test leaves behind in its process: descriptors, threads, clients of librdkafka.

What one test leaves open is counted, collected or waited for in another one, which then fails by
chance.  So the test that leaves it fails itself, and names what it left.
"""

from __future__ import annotations

import gc
import os
import threading
import time
import warnings
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

GRACE_S: Final = 2.0
"""What was closed may take so long until it is gone: a thread ends, a client closes its sockets."""
_PAUSE_S: Final = 0.01
_NATIVE_CLIENT: Final = "rdk:"
"""The threads of librdkafka are named so; Python knows nothing of them."""
_STANDARD: Final = frozenset("012")
"""pytest leads these to files while a test runs, and back."""


@dataclass(frozen=True)
class Belongings:
    """What this process holds at one moment, each with a description."""

    held: dict[Hashable, str]
    """Tasks are not among it: a loop that is closed has ended its own (``asyncio.run``)."""

    @staticmethod
    def now() -> Belongings:
        """What is held now."""
        return Belongings(_descriptors() | _threads() | _native_threads())

    def left_behind(self) -> list[str]:
        """Descriptions of what is held now and was not then, and stays for GRACE_S.

        Garbage is collected first: what only a collection closes is left behind, too.
        """
        if not self._added():
            return []
        with warnings.catch_warnings(record=True) as unclosed:
            warnings.simplefilter("always", ResourceWarning)
            gc.collect()
        deadline = time.monotonic() + GRACE_S
        while (added := self._added()) and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
        return added + [str(warning.message) for warning in unclosed]

    def _added(self) -> list[str]:
        return [what for key, what in Belongings.now().held.items() if key not in self.held]


def _descriptors() -> dict[Hashable, str]:
    found: dict[Hashable, str] = {}
    for name in set(os.listdir("/proc/self/fd")) - _STANDARD:
        with suppress(FileNotFoundError):  # the listing's own
            target = os.readlink(f"/proc/self/fd/{name}")
            found["descriptor", name, target] = f"descriptor {name}: {target}"
    return found


def _threads() -> dict[Hashable, str]:
    return {thread: f"thread {thread.name}" for thread in threading.enumerate()}


def _native_threads() -> dict[Hashable, str]:
    found: dict[Hashable, str] = {}
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # ended meanwhile
            name = (task / "comm").read_text().strip()
            if name.startswith(_NATIVE_CLIENT):
                found["native", task.name] = f"a client of librdkafka: thread {name}"
    return found
