"""Which calls keep the interpreter from a broker's other threads, and for how long (Linux).

``python -m benchmarks.operations --only ours --under "python -m benchmarks.interpreter_holds OUT"``
runs our broker with a thread that wants to run every two milliseconds.  Each time that it had to
wait for more than fifteen while another thread computed, it writes a line to the file OUT: the
milliseconds it waited, the processor time of the other thread, and where that stands afterwards.
The long call is the one before that place: a call into C, the freeing of many values, or a garbage
collection.  ``sort -rn OUT`` shows the longest first.
"""

from __future__ import annotations

import contextlib
import runpy
import sys
import threading
import time
import traceback
from operator import itemgetter
from pathlib import Path
from typing import Final, TextIO

EVERY_S: Final = 0.002
HELD_MS: Final = 15.0
"""A shorter wait is not written: so much a busy machine takes by itself."""
CALLERS: Final = 4


def main() -> None:
    """Runs ``OUT PYTHON -m MODULE ARGUMENT…`` in this process, watched."""
    out, _, _, module, *arguments = sys.argv[1:]
    sys.argv = [module, *arguments]
    threading.Thread(target=_watch, args=(Path(out),), name="holds", daemon=True).start()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _watch(file: Path) -> None:
    with file.open("w", buffering=1) as out:
        used_ms = _used_ms()
        while True:
            began_s = time.monotonic()
            time.sleep(EVERY_S)
            held_ms = (time.monotonic() - began_s - EVERY_S) * 1000
            before_ms, used_ms = used_ms, _used_ms()
            if held_ms > HELD_MS:
                computed = [(now - before_ms.get(each, now), each) for each, now in used_ms.items()]
                _write(out, held_ms, *max(computed, key=itemgetter(0)))


def _used_ms() -> dict[threading.Thread, float]:
    """The processor time of each other thread since it began."""
    found = {}
    for each in threading.enumerate():
        if each is not threading.current_thread():
            with contextlib.suppress(FileNotFoundError):  # it has ended
                text = Path(f"/proc/self/task/{each.native_id}/schedstat").read_text()
                found[each] = int(text.split()[0]) / 1e6
    return found


def _write(out: TextIO, held_ms: float, computed_ms: float, holder: threading.Thread) -> None:
    """A line for the thread that computed most, if that was half of the time or more."""
    frame = sys._current_frames().get(holder.ident or 0)
    if frame is None or computed_ms < held_ms / 2:
        return
    calls = " < ".join(
        f"{each.name} ({Path(each.filename).name}:{each.lineno})"
        for each in reversed(traceback.extract_stack(frame)[-CALLERS:])
    )
    print(
        f"{held_ms:.0f} ms, {computed_ms:.0f} of them computed by {holder.name}: {calls}", file=out
    )


if __name__ == "__main__":
    main()
