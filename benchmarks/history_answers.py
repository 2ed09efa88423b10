"""Questions to a history, cold and again: ``report``, ``outages``, ``isr`` and ``rules``.

``python -m benchmarks.history_answers --records 10000 1000000 --engine local`` multiplies the real
logs of the tests to about so many records, with shifted brokers, topics and times, reads them once,
and asks each question twice: cold, with no answer kept; and again, out of what was kept.  Seconds
of the clock stand beside processor seconds of all processes, for machines with company.
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

from benchmarks.history_ingest import Measured, measured, multiply

QUESTIONS: Final = ("report", "outages", "isr", "rules")
RECORD_BYTES: Final = 209
"""A record of the real logs, on average."""


def _asked(engine: str, out: Path, *question: str) -> Measured:
    zkctl = [sys.executable, "-m", "zkcontroller_cli", "-o", "json"]
    return measured([*zkctl, "history", *question, "--engine", engine, "--out", str(out)])


def _shown(records: int, question: str, found: Sequence[Measured]) -> None:
    times = "".join(f"{each.seconds:9.1f} {each.cpu_seconds:7.1f}" for each in found)
    print(f"{records:>9,} {question:8} {times} {max(f.peak_mb for f in found):9.0f}", flush=True)


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, nargs="+", default=[10_000], metavar="NUMBER")
    parser.add_argument("--only", nargs="+", choices=QUESTIONS, default=QUESTIONS)
    parser.add_argument("--engine", choices=("auto", "local", "spark"), default="auto")
    parser.add_argument("--folder", type=Path, help="where there is room for logs and tables")
    options = parser.parse_args()
    print(f"{'':18} {'cold s':>9} {'CPU s':>7} {'again s':>8} {'CPU s':>7} {'peak MB':>9}")
    for records in options.records:
        with tempfile.TemporaryDirectory(prefix="history-answers-", dir=options.folder) as name:
            folder = Path(name)
            (folder / "logs").mkdir()
            multiply(folder / "logs", records * RECORD_BYTES)
            out = folder / "out"
            read = measured(
                [sys.executable, "-m", "zkcontroller_cli", "history", "ingest",
                 str(folder / "logs"), "--out", str(out)]
            )  # fmt: skip
            _shown(records, "(ingest)", [read])
            for question in options.only:
                shutil.rmtree(out / "answers", ignore_errors=True)
                _shown(records, question, [_asked(options.engine, out, question) for _ in range(2)])
    print(f"load of the last minute: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
