"""Logs into Parquet: ours beside a straightforward Python parser, polars and ``grep -c``.

``python -m benchmarks.history_ingest --sizes 0.5 2 8`` multiplies the real logs of the tests, with
shifted brokers, topics and times, into files of some 256 MB, and reads them from a cold start with

* ours: ``zkctl history ingest``: worker processes, no JVM;
* spark: the same readers as tasks of Spark's, as on a cluster, the JVM's start included;
* python: :mod:`benchmarks.straightforward_parser`, one process with the same output;
* polars, if it is installed: reads only the head of each line and its logger, into Parquet, a lower
  bound: nothing tries the 362 expressions;
* grep: ``grep -c`` of one pattern, which writes nothing: how long it takes to read the bytes.

Memory is the highest sum of the resident sets of all processes of one of these, looked at ten times
a second.  Processor seconds stand beside the clock's, as others may use the machine.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Thread
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
DATA: Final = ROOT / "tests" / "history" / "data"
FILE_BYTES: Final = 256 << 20
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")

_POLARS: Final = """
import sys
import polars as pl
from pathlib import Path
files = sorted(str(p) for p in Path(sys.argv[1]).rglob("*.log*"))
lines = pl.scan_csv(files, has_header=False, separator="\\x00", quote_char=None, new_columns=["v"],
                    schema={"v": pl.String}, encoding="utf8-lossy", truncate_ragged_lines=True)
heads = lines.filter(pl.col("v").str.starts_with("[20")).select(
    pl.col("v").str.slice(1, 23).str.to_datetime("%Y-%m-%d %H:%M:%S,%3f", strict=False).alias("t"),
    pl.col("v").str.extract(r"^.{26}([A-Z]+) ").alias("level"),
    pl.col("v").str.extract(r" \\(([\\w.$-]+)\\)$").alias("logger"),
    pl.col("v"))
heads.sink_parquet(sys.argv[2], compression="zstd", compression_level=1)
"""

_SPARK: Final = """
import sys
from kafka_history.readers.ingest import ingest
from kafka_history.readers.ingest_plan import IngestOptions
from kafka_history.readers.session import start_spark
ingest(start_spark(is_brief=True), [sys.argv[1]], IngestOptions(sys.argv[2]))
"""


class Measured(NamedTuple):
    """One way to read the logs."""

    seconds: float
    cpu_seconds: float
    peak_mb: float
    said: str


def multiply(folder: Path, size_bytes: int) -> int:
    """Writes logs of about that size below the folder; the bytes written."""
    real = [
        (path.parent.name, path.name.removesuffix(".gz"), gzip.decompress(path.read_bytes()))
        for path in sorted(DATA.glob("incidents-*/broker-*/*.log.gz"))
    ]
    written, copy = 0, 0
    while written < size_bytes:
        for broker, name, content in real:
            shifted = _shifted(content, copy)
            brokers = f"{broker}{copy % 4 or ''}"
            target = folder / brokers / f"{name}.{written // FILE_BYTES}"
            target.parent.mkdir(exist_ok=True)
            with target.open("ab") as file:
                file.write(shifted)
            written += len(shifted)
            if written >= size_bytes:
                break
        copy += 1
    return written


def _shifted(content: bytes, copy: int) -> bytes:
    """Another hour, other topics and brokers.

    So columns do not compress better than they would, and what is remembered of one copy does not
    help with the next.
    """
    hour, ahead = b"%02d" % (copy % 24), b"%d" % (copy % 4)
    content = re.sub(rb"(?m)^(\[\d{4}-\d\d-\d\d) \d\d", rb"\1 " + hour, content)
    content = re.sub(rb"\b(orders|payments|audit|safe|unsafe|wide)\b", rb"\g<1>%d" % copy, content)
    if copy % 4 == 0:
        return content
    return re.sub(
        rb"((?:Broker|Controller) id=|broker=|brokerId=|controllerId=|leader=|broker )(\d)\b",
        rb"\g<1>\g<2>" + ahead,
        content,
    )


def measured(command: Sequence[str]) -> Measured:
    """Runs the command to its end."""
    began = time.monotonic()
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    watched = _Watched(process.pid)
    with watched:
        said, _ = process.communicate()
    seconds = time.monotonic() - began
    if process.returncode:
        raise SystemExit(f"{' '.join(command[:4])} … ended with {process.returncode}")
    return Measured(seconds, watched.cpu_seconds, watched.peak_bytes / 2**20, said.strip())


class _Watched:
    """A process and all below it, looked at ten times a second.

    No one waits for the JVM, so no parent knows its processor time when it has ended.
    """

    def __init__(self, root: int) -> None:
        self.peak_bytes = 0
        self._root = root
        self._ticks: dict[int, int] = {}
        self._is_over = Event()
        self._thread = Thread(target=self._watch, daemon=True)

    @property
    def cpu_seconds(self) -> float:
        """Processor time of all of them, as last seen."""
        return sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(0.1):
            self._look()

    def _look(self) -> None:
        children: dict[int, list[int]] = {}
        seen: dict[int, tuple[int, int]] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue  # it has ended
                children.setdefault(int(fields[1]), []).append(int(entry.name))
                seen[int(entry.name)] = int(fields[11]) + int(fields[12]), int(fields[21])
        pages, waiting = 0, [self._root]
        while waiting:
            pid = waiting.pop()
            waiting += children.get(pid, [])
            ticks, resident = seen.get(pid, (0, 0))
            pages += resident
            self._ticks[pid] = max(ticks, self._ticks.get(pid, 0))
        self.peak_bytes = max(self.peak_bytes, pages * PAGE_BYTES)


def ways(logs: Path, out: Path) -> dict[str, list[str]]:
    """The command of each way to read the logs; what it writes is below ``out``."""
    python = sys.executable
    ways = {
        "grep": ["sh", "-c", f"grep -rh 'starts at leader epoch' {logs} | wc -l"],
        "ours": [
            python, "-m", "zkcontroller_cli", "-o", "jsonl", "history", "ingest", str(logs),
            "--out", str(out / "ours"),
        ],
        "spark": [python, "-c", _SPARK, str(logs), str(out / "spark")],
        "python": [
            python, "-m", "benchmarks.straightforward_parser", str(logs), str(out / "python"),
        ],
    }  # fmt: skip
    if find_spec("polars") is None:
        return ways
    return {**ways, "polars": [python, "-c", _POLARS, str(logs), str(out / "polars")]}


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=float, nargs="+", default=[0.5], metavar="GB")
    parser.add_argument("--only", nargs="+", choices=("ours", "spark", "python", "polars", "grep"))
    parser.add_argument("--folder", type=Path, help="where there is room for logs and tables")
    options = parser.parse_args()
    print(
        f"{'':8} {'GB':>5} {'seconds':>8} {'CPU s':>8} {'MB/s':>7} {'MB/CPU s':>9} {'peak MB':>8}"
    )
    for size in options.sizes:
        with tempfile.TemporaryDirectory(prefix="history-ingest-", dir=options.folder) as name:
            folder = Path(name)
            (folder / "logs").mkdir()
            room = shutil.disk_usage(folder).free
            if size * 2 * 2**30 > room:
                raise SystemExit(f"{size} GB of logs need twice that, {room >> 30} GB are free")
            megabytes = multiply(folder / "logs", int(size * 2**30)) / 2**20
            seconds: dict[str, float] = {}
            cpu: dict[str, float] = {}
            for way, command in ways(folder / "logs", folder).items():
                if options.only and way not in options.only:
                    continue
                found = measured(command)
                per_cpu = megabytes / max(found.cpu_seconds, 0.01)  # too quick to be seen
                seconds[way], cpu[way] = found.seconds, found.cpu_seconds
                print(
                    f"{way:8} {size:5} {found.seconds:8.1f} {found.cpu_seconds:8.1f} "
                    f"{megabytes / found.seconds:7.1f} {per_cpu:9.1f} "
                    f"{found.peak_mb:8.0f}",
                    flush=True,
                )
            print(f"load of the last minute: {os.getloadavg()[0]:.1f}", flush=True)
            if "ours" in seconds and "python" in seconds:
                print(
                    f"ours is {seconds['python'] / seconds['ours']:.1f} times as fast as python, "
                    f"and takes {cpu['ours'] / cpu['python']:.0%} of its processor time",
                    flush=True,
                )


if __name__ == "__main__":
    main()
