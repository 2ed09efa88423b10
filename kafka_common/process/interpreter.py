"""Sets the garbage collector and the thread switch interval of a controller's process."""

from __future__ import annotations

import gc
import sys
from typing import Final

# A failover makes hundreds of thousands of values and no cycles: at Python's own threshold of 700
# the collector takes 30 % of its processor time and finds nothing.  A pass stops every thread, so
# the young generation is collected every 10,000 objects (some 5 ms), and the older ones rarely.
_GARBAGE_COLLECTION_THRESHOLDS: Final = (10_000, 1_000, 20)
# While the controller computes, everything on the event loop waits this long for the interpreter
# after each system call; at Python's own 5 ms a response of ten calls takes 50 ms.
_THREAD_SWITCH_INTERVAL_S: Final = 0.0005


def set_up_interpreter() -> None:
    """Call once, after all imports."""
    gc.set_threshold(*_GARBAGE_COLLECTION_THRESHOLDS)
    gc.freeze()  # what was imported stays for good and need not be looked at again
    sys.setswitchinterval(_THREAD_SWITCH_INTERVAL_S)
