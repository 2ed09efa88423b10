"""What one batch costs a log: ``python -m benchmarks.log_append [--directory DIR] [--seconds N]``.

No broker, no socket: appends of 64 KiB batches as a leader and as a follower, and reads, on one
thread.  CPU time is shown beside the time on the clock, for on a busy machine only it can be
compared.  Records are shaped as Kafka's producer-perf-test makes them (equal sizes, no key), and
once with sizes that differ, which the look through a batch cannot take in columns.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from kafka_common.protocol.compression import Codec
from kafka_common.protocol.record_batch import encode_batch
from kafka_common.protocol.records import Record
from replica_manager.log.environment import LogEnvironment
from replica_manager.log.log_config import LogConfig
from replica_manager.log.log_values import FetchIsolation
from replica_manager.log.unified_log import UnifiedLog

BATCH_BYTES: Final = 64 * 1024
KEEP_BYTES: Final = 200 * 1024 * 1024
"""A log is begun anew when it has grown so large."""


class Case(NamedTuple):
    """One row."""

    name: str
    record_bytes: int
    codec: Codec = Codec.NONE
    is_mixed: bool = False
    batch_bytes: int = BATCH_BYTES


CASES: Final = (
    Case("leader, 100 B", 100),
    Case("leader, 1000 B", 1000),
    Case("leader, one of 100 B", 100, batch_bytes=100),
    Case("leader, 20-180 B", 100, is_mixed=True),
    *(Case(f"leader, 100 B {codec.name.lower()}", 100, codec) for codec in list(Codec)[1:]),
)


def batch_of(case: Case) -> tuple[bytes, int]:
    """A producer's batch of some 64 KiB before compression, and its number of records."""
    rng = random.Random(1)
    count = max(1, case.batch_bytes // (case.record_bytes + 8))
    now_ms = time.time_ns() // 1_000_000
    records = [
        Record(
            i,
            now_ms + i // 100,
            None,
            bytes(rng.choices(range(65, 91), k=rng.randrange(20, 180)))
            if case.is_mixed
            else bytes(rng.choices(range(65, 91), k=case.record_bytes)),
        )
        for i in range(count)
    ]
    return encode_batch(records, codec=case.codec), count


class Measured(NamedTuple):
    """Microseconds a call."""

    cpu_us: float
    wall_us: float


def measure(action: Callable[[], object], seconds: float) -> Measured:
    """The mean of as many calls as fit into ``seconds``."""
    action()
    calls = 0
    started, started_cpu = time.perf_counter(), time.process_time()
    while (elapsed := time.perf_counter() - started) < seconds:
        action()
        calls += 1
    cpu = time.process_time() - started_cpu
    return Measured(cpu / calls * 1e6, elapsed / calls * 1e6)


def show(name: str, measured: Measured, records: int, size: int) -> None:
    """Prints a row."""
    print(
        f"{name:<24} {measured.cpu_us:>9.1f} {measured.wall_us:>9.1f} "
        f"{records / measured.cpu_us * 1e6:>13,.0f} {size / measured.cpu_us:>9.0f}"
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def new_log(directory: Path) -> UnifiedLog:
    shutil.rmtree(directory, ignore_errors=True)
    environment = LogEnvironment(_now_ms, _now_ms)
    return UnifiedLog.open(directory, LogConfig(), environment)


class Appender:
    """Appends the same batch for ever."""

    def __init__(self, directory: Path, batch: bytes) -> None:
        self._directory = directory
        self._batch = batch
        self.log = new_log(directory)

    def as_leader(self) -> None:
        self.log.append_as_leader(self._batch, 0)
        if self.log.size > KEEP_BYTES:
            self.log.truncate_fully_and_start_at(0)

    def as_follower(self) -> None:
        moved = self.log.log_end_offset.to_bytes(8, "big") + self._batch[8:]
        self.log.append_as_follower(moved)
        if self.log.size > KEEP_BYTES:
            self.log.truncate_fully_and_start_at(0)


class Reader:
    """Reads a log from its beginning to its end, slice by slice, again and again."""

    def __init__(self, log: UnifiedLog, step: int) -> None:
        self._log = log
        self._step = step
        self._offset = 0

    def read(self) -> None:
        if self._offset >= self._log.log_end_offset:
            self._offset = 0
        found = self._log.read(
            self._offset, BATCH_BYTES, FetchIsolation.LOG_END, min_one_message=True
        )
        assert found.slice is not None, "within the log"
        self._offset += self._step


def main() -> None:
    """Runs every case and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", type=Path, help="where the log is written")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each row")
    arguments = parser.parse_args()
    directory = Path(tempfile.mkdtemp(dir=arguments.directory)) / "benchmark-0"
    title = "a batch of 64 KiB"
    print(f"{title:<24} {'CPU us':>9} {'clock us':>9} {'records/CPU s':>13} {'MB/CPU s':>9}")
    try:
        for case in CASES:
            batch, records = batch_of(case)
            appender = Appender(directory, batch)
            show(case.name, measure(appender.as_leader, arguments.seconds), records, len(batch))
        batch, records = batch_of(CASES[0])
        appender = Appender(directory, batch)
        show(
            "follower, 100 B", measure(appender.as_follower, arguments.seconds), records, len(batch)
        )
        reader = Reader(appender.log, records)
        show("read (no bytes moved)", measure(reader.read, arguments.seconds), records, len(batch))
    finally:
        shutil.rmtree(directory.parent)


if __name__ == "__main__":
    main()
