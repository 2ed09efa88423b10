"""Findings of a real incident, stored: what the report is made from, without Spark."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any, Final

import orjson

REPORT_KEYS: Final = frozenset({
    "records", "typed", "unknown", "brokers", "tenures", "broker_lives", "leaderless",
    "unclean_elections", "isr_changes", "deletions", "reassignments", "rules",
})  # fmt: skip
"""Keys of ``report.json`` that never go away."""


def stored_report() -> dict[str, Any]:
    """What ``report.json`` of ``data/incidents-a`` held when it was stored."""
    path = Path(__file__).parent / "data" / "report-incidents-a.json.gz"
    content: dict[str, Any] = orjson.loads(gzip.decompress(path.read_bytes()))
    return content
