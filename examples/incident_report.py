"""Reads the logs of an incident, and prints what happened, from Python.

    python examples/incident_report.py LOG…

LOG is a broker's log file, or a folder of them.  ``zkctl history report`` shows the same as a page.
Needs the extra ``history`` and Java, because Spark answers the questions.
"""

from __future__ import annotations

import sys
import tempfile

from kafka_history.analyses.history import History
from kafka_history.readers.ingest import ingest
from kafka_history.readers.ingest_plan import IngestOptions
from kafka_history.readers.session import start_spark
from kafka_history.report.assemble import assemble
from kafka_history.report.markdown import markdown


def main(*logs: str) -> None:
    """Logs into rows, rows into findings, findings into a page."""
    with tempfile.TemporaryDirectory() as out:
        spark = start_spark(is_small=True)
        try:
            rows = ingest(spark, list(logs), IngestOptions(out))
            found = assemble(History(rows, is_small=True))
        finally:
            spark.stop()
    print(markdown(found, "What happened?"))


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(__doc__)
    main(*sys.argv[1:])
