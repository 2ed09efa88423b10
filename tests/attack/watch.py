"""What an attack does to its target: whether it lives, what it holds, how long others wait.

A :class:`Watch` reads ``/proc`` and the target's log files, in which the target's own watch on its
event loop names long callbacks.  A :class:`Bystander` is another client with a connection of its
own, which asks ApiVersions again and again and remembers its longest wait.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from kafka_common.protocol.api_versions import ApiKey
from tests.attack.connections import Ending, RawConnection
from tests.attack.shapes import Message
from tests.support.frames import request_header

PATIENCE_S: Final = 120.0
_PAUSE_S: Final = 0.002
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
LOOP_BOUND_MS: Final = 20
"""From here on the target's log names a callback of its event loop."""
_HELD: Final = re.compile(r"held the event loop for (\d+) ms")
_PROBE: Final = Message(
    ApiKey.API_VERSIONS, 0, "bystander", request_header(ApiKey.API_VERSIONS, 0, 1, "bystander")
)


class Bystander:
    """Asks again as soon as it is answered, in a thread."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._longest_s = 0.0
        self._asked_at = time.monotonic()
        self._answers = 0
        self._is_over = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def take_longest_ms(self) -> float:
        """The longest wait since this was last asked, the present one included.

        Waits for two answers: whatever held this client up is over then.
        """
        with self._changed:
            wanted = self._answers + 2
            self._changed.wait_for(lambda: self._answers >= wanted or self._is_over, PATIENCE_S)
            is_answered = self._answers >= wanted
            longest_s = self._longest_s
            if not is_answered:
                longest_s = max(longest_s, time.monotonic() - self._asked_at)
            self._longest_s = 0.0
        return longest_s * 1000

    def close(self) -> None:
        self._is_over = True
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        connection: RawConnection | None = None
        while not self._is_over:
            self._asked_at = time.monotonic()
            try:
                connection = connection or RawConnection(self._address)
                ending = connection.ask(_PROBE, PATIENCE_S).ending
            except OSError:
                ending = Ending.CLOSED
            with self._changed:
                self._longest_s = max(self._longest_s, time.monotonic() - self._asked_at)
                if ending is Ending.ANSWERED:
                    self._answers += 1
                self._changed.notify_all()
            if ending is not Ending.ANSWERED and connection is not None:
                connection.close()
                connection = None
            time.sleep(_PAUSE_S)
        if connection is not None:
            connection.close()


class Reading(NamedTuple):
    """A process at one moment."""

    rss_bytes: int
    descriptors: int
    log_bytes: int


class Watch:
    """One process, its log files, and a tree that is none of its business."""

    def __init__(self, pid: int, logs: Path, decoy: Path) -> None:
        self._pid = pid
        self._logs = logs
        self._decoy = decoy
        self._decoy_before = fingerprint(decoy)
        self._told: set[str] = set()
        self._read_up_to: dict[Path, int] = {}
        self.new_loop_hold_ms()

    @property
    def is_alive(self) -> bool:
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/{self._pid}/stat").read_text()
            return stat.rpartition(")")[2].split()[0] not in "ZX"
        return False

    def read(self) -> Reading:
        """How much it holds now."""
        proc = Path(f"/proc/{self._pid}")
        resident = int((proc / "statm").read_text().split()[1]) * _PAGE_BYTES
        return Reading(resident, len(os.listdir(proc / "fd")), self._log_bytes())

    def _log_bytes(self) -> int:
        return sum(file.stat().st_size for file in self._logs.rglob("*") if file.is_file())

    def new_tracebacks(self) -> list[str]:
        """Failures that no one foresaw, from the logs; each is given once."""
        new = [each for each in dict.fromkeys(tracebacks_in(self._logs)) if each not in self._told]
        self._told.update(new)
        return new

    def new_loop_hold_ms(self) -> int:
        """The longest callback that the target's log has named since the last call; 0 if none.

        This is processor time, which a busy machine does not lengthen.
        """
        longest = 0
        for file in self._logs.glob("*.log"):
            with file.open(errors="replace") as lines:
                lines.seek(self._read_up_to.get(file, 0))
                longest = max([longest, *map(int, _HELD.findall(lines.read()))])
                self._read_up_to[file] = lines.tell()
        return longest

    def decoy_changes(self) -> list[str]:
        """Files of the decoy tree that have changed, come or gone."""
        now = fingerprint(self._decoy)
        names = sorted({*now, *self._decoy_before})
        return [name for name in names if now.get(name) != self._decoy_before.get(name)]


def fingerprint(tree: Path) -> dict[str, str]:
    """Path to kind and content of everything below ``tree``."""
    return {str(path.relative_to(tree)): _content(path) for path in sorted(tree.rglob("*"))}


def tracebacks_in(logs: Path) -> Iterator[str]:
    """Every failure in the log files below a folder that no one foresaw."""
    for file in sorted(logs.rglob("*")):
        if file.is_file():
            yield from (f"{file.name}: {each}" for each in _tracebacks(file))


def _content(path: Path) -> str:
    if path.is_symlink():
        return f"link to {os.readlink(path)}"
    if path.is_dir():
        return "folder"
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _tracebacks(file: Path) -> Iterator[str]:
    """The last line of each traceback, and the innermost frame's line before it."""
    frame, is_inside = "", False
    with file.open(errors="replace") as lines:
        for line in lines:
            if line.startswith("Traceback (most recent call last)"):
                is_inside, frame = True, ""
            elif is_inside and line.startswith('  File "'):
                name, _, rest = line.strip()[6:].partition('", line ')
                frame = f"{Path(name).name}:{rest.split(',')[0]}"
            elif is_inside and line.strip() and not line.startswith(" "):
                yield f"{line.strip()[:300]} at {frame}"
                is_inside = False
