"""The signals that end a process in order.

Source: Kafka ``LoggingSignalHandler``.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from typing import Final

_log: Final = logging.getLogger("org.apache.kafka.common.utils.LoggingSignalHandler")


def stop_signals() -> tuple[signal.Signals, ...]:
    """SIGTERM, SIGINT, and SIGHUP, which a terminal sends when it is closed.

    Without SIGHUP if the process ignores it, as ``nohup`` makes it.
    """
    ignores_hangups = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return (signal.SIGTERM, signal.SIGINT, *(() if ignores_hangups else (signal.SIGHUP,)))


def interrupt_at_stop_signals() -> None:
    """Makes SIGTERM and SIGHUP do what SIGINT does: KeyboardInterrupt in the main thread."""
    for number in stop_signals():
        if number is not signal.SIGINT:
            signal.signal(number, signal.default_int_handler)


def stop_at_signals(stop: Callable[[], None], flush: Callable[[], object] = lambda: None) -> None:
    """Calls ``stop`` at the first of the signals; a second one ends the process at once.

    It calls ``flush`` before.  To be called in the running event loop of the main thread.
    """
    is_stopping = False

    def on_signal(number: signal.Signals) -> None:
        nonlocal is_stopping
        if is_stopping:
            _log.warning("Terminating at once due to a second signal %s", number.name)
            flush()
            os._exit(128 + number)
        is_stopping = True
        _log.info("Terminating process due to signal %s", number.name)
        stop()

    numbers = stop_signals()
    for number in numbers:
        asyncio.get_running_loop().add_signal_handler(number, on_signal, number)
    names = (number.name.removeprefix("SIG") for number in numbers)
    _log.info("Registered signal handlers for %s", ", ".join(names))
