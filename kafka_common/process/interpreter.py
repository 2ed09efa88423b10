"""Sets the garbage collector, the thread switch interval, logging and SIGQUIT for a server."""

from __future__ import annotations

import faulthandler
import gc
import logging
import signal
import sys
from typing import Final

# A failover makes hundreds of thousands of values and no cycles.  With Python's default threshold
# of 700 the collector takes 30 % of the processor time and finds nothing.  A collection stops every
# thread, so the young generation is collected every 10,000 objects (some 5 ms), the older ones
# rarely.
_GARBAGE_COLLECTION_THRESHOLDS: Final = (10_000, 1_000, 20)
# While the controller's thread computes, the event loop waits this long for the interpreter after
# each system call.  With Python's default of 5 ms a response that needs ten calls takes 50 ms.
_THREAD_SWITCH_INTERVAL_S: Final = 0.0005
_STDERR: Final = 2


def set_up_interpreter() -> None:
    """Sets all of them for this process; call it once, after all imports."""
    gc.set_threshold(*_GARBAGE_COLLECTION_THRESHOLDS)
    gc.freeze()  # the collector need not check imported objects, which are never freed
    sys.setswitchinterval(_THREAD_SWITCH_INTERVAL_S)
    # No line of ours says which thread or which line of code it is from, and to find that out takes
    # time for each record; a controller writes one for each partition that is created.
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    # As in a JVM, SIGQUIT prints what every thread does, and the process goes on.
    faulthandler.register(signal.SIGQUIT, file=_STDERR)
