"""How long ``zkctl`` takes to say anything, beside Python alone and beside Kafka's own tool.

``python -m benchmarks.zkctl_start`` starts each command by turns and prints the least and the
median: a process that starts is disturbed by everything else, and the least is what it costs.  The
processor time is the least of all rounds too.  Without Kafka, or Java, its line says so.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.kafka_peer import KafkaUnavailableError, kafka_tool

_TIMEOUT_S: Final = 60


def commands() -> dict[str, Sequence[str]]:
    """Every command by its name, Python alone first."""
    zkctl = str(Path(sys.executable).parent / "zkctl")
    found: dict[str, Sequence[str]] = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "zkctl --version": [zkctl, "--version"],
        "zkctl --help": [zkctl, "--help"],
        "zkctl topic list --help": [zkctl, "topic", "list", "--help"],
        "zkctl context list": [zkctl, "context", "list"],
    }
    try:
        found["kafka-topics --version"] = kafka_tool(
            "org.apache.kafka.tools.TopicCommand", "--version"
        )
    except KafkaUnavailableError as missing:
        print(f"kafka-topics is not measured: {missing}", file=sys.stderr)
    return found


class Start(NamedTuple):
    """One start of a command, in milliseconds."""

    elapsed: float
    processor: float


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(command: Sequence[str]) -> Start:
    """From the start of the process to its end, which must be a good one."""
    used = _processor_s()
    began = time.perf_counter()
    subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=_TIMEOUT_S,
        check=True,
    )
    elapsed_s = time.perf_counter() - began
    return Start(elapsed_s * 1000, (_processor_s() - used) * 1000)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.zkctl_start", description="Start-up in ms")
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args(arguments).rounds
    found = commands()
    measured: dict[str, list[Start]] = {name: [] for name in found}
    for _ in range(rounds):
        for name, command in found.items():
            measured[name].append(measure(command))
    print(f"{'':26}{'least ms':>10}{'median ms':>12}{'processor ms':>15}")
    for name, starts in measured.items():
        elapsed = [each.elapsed for each in starts]
        processor = min(each.processor for each in starts)
        print(f"{name:26}{min(elapsed):10.0f}{statistics.median(elapsed):12.0f}{processor:15.0f}")


if __name__ == "__main__":
    main()
