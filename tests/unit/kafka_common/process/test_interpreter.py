"""What is set for the interpreter of a server."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, signal
from kafka_common.process.interpreter import set_up_interpreter

def serve():
    os.kill(os.getpid(), signal.SIGQUIT)

set_up_interpreter()
serve()
print("goes on")
"""


def test_sigquit_prints_the_stacks_and_ends_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True
    )

    assert "in serve" in done.stderr
    assert done.stdout == "goes on\n"
