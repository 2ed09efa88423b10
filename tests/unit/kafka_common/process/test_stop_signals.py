"""Which signals end a process in order, and that one is enough."""

from __future__ import annotations

import signal
import subprocess
import sys

PROGRAM = """
import asyncio, logging, os, signal, sys
from kafka_common.process.stop_signals import stop_at_signals

async def main(*names):
    stopping = asyncio.Event()
    stop_at_signals(stopping.set, lambda: print("flushed", flush=True))
    for name in names:
        os.kill(os.getpid(), getattr(signal, name))
        for _ in range(10):  # turns of the loop, in which the signal is handled
            await asyncio.sleep(0)
        print("stopping" if stopping.is_set() else "running", flush=True)

logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
asyncio.run(main(*sys.argv[1:]))
"""


def ended_by(*names: str, hangups: str = "default") -> tuple[int, list[str]]:
    """The exit code and the lines of a process that gets these signals, one after the other.

    ``hangups``: whether it begins with SIGHUP's default or ignores it, as what these tests run in
    may do.
    """
    process = subprocess.run(
        ["env", f"--{hangups}-signal=HUP", sys.executable, "-c", PROGRAM, *names],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return process.returncode, process.stdout.splitlines()


def test_a_terminal_that_is_closed_ends_a_process_in_order() -> None:
    assert ended_by("SIGHUP") == (
        0,
        [
            "Registered signal handlers for TERM, INT, HUP",
            "Terminating process due to signal SIGHUP",
            "stopping",
        ],
    )


def test_under_nohup_it_does_not() -> None:
    assert ended_by("SIGHUP", "SIGTERM", hangups="ignore") == (
        0,
        [
            "Registered signal handlers for TERM, INT",
            "running",
            "Terminating process due to signal SIGTERM",
            "stopping",
        ],
    )


def test_a_second_signal_ends_a_process_at_once() -> None:
    assert ended_by("SIGTERM", "SIGINT") == (
        128 + signal.SIGINT,
        [
            "Registered signal handlers for TERM, INT, HUP",
            "Terminating process due to signal SIGTERM",
            "stopping",
            "Terminating at once due to a second signal SIGINT",
            "flushed",
        ],
    )
