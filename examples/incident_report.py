"""Reads the logs of an incident, and prints what happened, from Python.

    python examples/incident_report.py LOG…

LOG is a broker's log file, or a folder of them.  ``zkctl history report`` shows the same as a page.
Needs the extra ``history``; the rules are plain functions of events, so no Spark starts.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from kafka_history.readers.ingest_plan import IngestOptions
from kafka_history.readers.local_events import read_events_here
from kafka_history.readers.local_ingest import ingest_here
from kafka_history.readers.manifest import clusters_in
from kafka_history.report.assemble import assemble
from kafka_history.report.markdown import markdown
from kafka_history.rules.history import EventHistory


def main(*logs: str) -> None:
    """Logs into tables, tables into events, events into findings, findings into a page."""
    with tempfile.TemporaryDirectory() as out:
        ingest_here(logs, IngestOptions(out), workers=1)
        for cluster in clusters_in(out):
            history = EventHistory(read_events_here(Path(out), cluster))
            print(markdown(assemble(history), "What happened?"))


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(__doc__)
    main(*sys.argv[1:])
