"""Logs into Parquet: Spark beside a straightforward Python parser and ``grep -c``.

``python -m benchmarks.history_ingest --size-mb 500`` multiplies the real logs of the tests, with
shifted topics and hours, into files of some 100 MB, and reads them with each.  The Python parser is
one process that knows what the readers know (the same table of shapes by logger and first words)
and fills the same fields.  CPU seconds are told beside the clock's, for machines with company.
"""

from __future__ import annotations

import argparse
import gzip
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from zkcontroller.state_changes.readers import typed_rows
from zkcontroller.state_changes.readers.ingest import IngestOptions, ingest
from zkcontroller.state_changes.readers.session import start_spark
from zkcontroller.state_changes.shapes.catalogue import shapes
from zkcontroller.state_changes.shapes.template import SPEAKER

DATA: Final = Path(__file__).parent.parent / "tests" / "history" / "data"
FILE_BYTES: Final = 100 * 1024 * 1024


class Measured(NamedTuple):
    """One way to read the logs."""

    name: str
    seconds: float
    cpu_seconds: float
    records: int


def multiply(folder: Path, size_mb: int) -> int:
    """Writes logs of about that size below the folder; the bytes written."""
    real = [
        (path.parent.name, path.name.removesuffix(".gz"), gzip.decompress(path.read_bytes()))
        for path in sorted(DATA.glob("incidents-*/broker-*/*.log.gz"))
    ]
    written, copy = 0, 0
    while written < size_mb * 1024 * 1024:
        for broker, name, content in real:
            # Another hour and other topics, so that nothing repeats and columns do not compress
            # better than they would.
            hour = b"%02d" % (copy % 24)
            shifted = re.sub(rb"(?m)^(\[\d{4}-\d\d-\d\d) \d\d", rb"\1 " + hour, content)
            shifted = re.sub(
                rb"\b(orders|payments|audit|safe|unsafe)\b", rb"\g<1>%d" % copy, shifted
            )
            target = folder / broker / f"{name}.{written // FILE_BYTES}"
            target.parent.mkdir(exist_ok=True)
            with target.open("ab") as file:
                file.write(shifted)
            written += len(shifted)
        copy += 1
    return written


def python_parser(folder: Path) -> int:
    """The records of all files, each with its fields; how many there are."""
    head = re.compile(r"\[(.{23})\] ([A-Z]+) ")
    tail = re.compile(r"^(.*) \(([\w.$-]+)\)$")
    speaker = re.compile(SPEAKER)
    compiled = {shape.id: re.compile(shape.expression.pattern, re.S) for shape in shapes()}
    known = {(entry.loggers, entry.words): entry.shapes for entry in typed_rows.candidates()}
    count = 0
    for path in sorted(folder.rglob("*.log*")):
        for record in _records(path):
            count += 1
            begins = head.match(record)
            ends = tail.match(record.split("\n", 1)[0]) or tail.match(record.replace("\n", " "))
            if begins is None or ends is None:
                continue
            message, logger = ends[1][begins.end() :], ends[2]
            words = " ".join(speaker.sub("", message[:400]).split(" ")[:2])
            for key in (words, words.split(" ")[0], ""):
                found = known.get((logger, key))
                if found is not None:
                    for shape in found:
                        match = compiled[shape.id].match(message)
                        if match is not None:
                            _fields(shape.expression.groups, match)
                            break
                    break
    return count


def _records(path: Path) -> Iterator[str]:
    pending: list[str] = []
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("[20") and pending:
                yield "".join(pending).rstrip("\n")
                pending.clear()
            pending.append(line)
    if pending:
        yield "".join(pending).rstrip("\n")


def _fields(
    groups: tuple[tuple[str, tuple[int, ...]], ...], match: re.Match[str]
) -> dict[str, object]:
    fields: dict[str, object] = {}
    for name, numbers in groups:
        text = "".join(match[number] or "" for number in numbers)
        fields[name] = int(text) if text.lstrip("-").isdigit() else text
    return fields


def _timed(name: str, run: Callable[[], int], *, children: bool = False) -> Measured:
    who = resource.RUSAGE_CHILDREN if children else resource.RUSAGE_SELF
    before, started = resource.getrusage(who), time.monotonic()
    records = run()
    after = resource.getrusage(who)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(name, time.monotonic() - started, cpu, records)


def _spark(folder: Path, out: Path) -> int:
    spark = start_spark()
    rows = ingest(spark, [str(folder)], IngestOptions(out=str(out)))
    count = rows.count()
    sc = spark.sparkContext
    spark.stop()
    gateway = sc._gateway
    assert gateway is not None
    # The JVM's CPU time counts once it has been waited for.
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    return count


def _grep(folder: Path) -> int:
    found = subprocess.run(
        ["grep", "-rch", "starts at leader epoch", str(folder)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return sum(map(int, found.stdout.split()))


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size-mb", type=int, default=500)
    parser.add_argument("--only", choices=("spark", "python", "grep"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="history-ingest-") as name:
        folder = Path(name)
        logs = folder / "logs"
        logs.mkdir()
        megabytes = multiply(logs, options.size_mb) / 1024 / 1024
        runs: list[tuple[str, str, Callable[[], int], bool]] = [
            ("grep", "grep -c of one pattern", lambda: _grep(logs), True),
            ("python", "one Python process", lambda: python_parser(logs), False),
            ("spark", "Spark, cold start to Parquet", lambda: _spark(logs, folder / "out"), True),
        ]
        print(f"{megabytes:.0f} MB of log, {sys.platform}", flush=True)
        for key, title, run, in_children in runs:
            if options.only in (None, key):
                m = _timed(title, run, children=in_children)
                print(
                    f"{m.name:30} {m.seconds:8.1f} s {m.cpu_seconds:8.1f} s CPU "
                    f"{megabytes / m.seconds:7.1f} MB/s  {m.records:,} records",
                    flush=True,
                )


if __name__ == "__main__":
    main()
