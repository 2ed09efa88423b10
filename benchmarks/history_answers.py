"""Questions to a history, cold and again: ``report``, ``outages``, ``isr`` and ``rules``.

``python -m benchmarks.history_answers --records 10000 1000000 --engines local spark`` multiplies
the real logs of the tests to about so many records, with shifted brokers, topics and times, and
reads them with ``grep``, with a straightforward Python parser, and by ``zkctl history ingest``
(:mod:`benchmarks.history_ingest` says what each is).  Then it asks each question of each engine
twice: cold, with no answer kept; and again, out of what was kept.  Seconds of the clock stand
beside processor seconds of all processes, for machines with company.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.history_ingest import Measured, measured, multiply, ways

QUESTIONS: Final = ("report", "outages", "isr", "rules")
RECORD_BYTES: Final = 209
"""A record of the real logs, on average."""


def _asked(engine: str, out: Path, *question: str) -> Measured:
    zkctl = [sys.executable, "-m", "zkcontroller_cli", "-o", "json"]
    return measured([*zkctl, "history", *question, "--engine", engine, "--out", str(out)])


def _shown(records: int, question: str, found: Sequence[Measured]) -> None:
    times = "".join(f"{each.seconds:9.1f} {each.cpu_seconds:7.1f}" for each in found)
    peak_mb = max(each.peak_mb for each in found)
    print(f"{records:>9,} {question:16} {times:35} {peak_mb:9.0f}", flush=True)


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, nargs="+", default=[10_000], metavar="NUMBER")
    parser.add_argument("--only", nargs="+", choices=QUESTIONS, default=QUESTIONS)
    parser.add_argument(
        "--engines", nargs="+", choices=("local", "spark"), default=("local",), metavar="ENGINE"
    )
    parser.add_argument("--folder", type=Path, help="where there is room for logs and tables")
    options = parser.parse_args()
    print(f"{'':26} {'cold s':>9} {'CPU s':>7} {'again s':>9} {'CPU s':>7} {'peak MB':>10}")
    for records in options.records:
        with tempfile.TemporaryDirectory(prefix="history-answers-", dir=options.folder) as name:
            folder = Path(name)
            (folder / "logs").mkdir()
            multiply(folder / "logs", records * RECORD_BYTES)
            reading = ways(folder / "logs", folder)
            for way in ("grep", "python", "ours"):
                _shown(records, f"read: {way}", [measured(reading[way])])
            out = folder / "ours"
            for engine in options.engines:
                for question in options.only:
                    shutil.rmtree(out / "answers", ignore_errors=True)
                    asked = [_asked(engine, out, question) for _ in range(2)]
                    _shown(records, f"{question}: {engine}", asked)
    print(f"load of the last minute: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
