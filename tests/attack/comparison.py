"""Runs of the attacker side by side: for each API the shape by which others waited longest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from kafka_common.protocol.api_versions import APIS
from tests.attack.campaign import Row

_HEAD: Final = "API"


def save(file: Path, name: str, rows: Iterable[Row]) -> None:
    """Writes what a run has found."""
    found = [
        {
            "api": APIS[row.request.api_key].name,
            "shape": row.request.shape,
            "sent": len(row.request.data),
            "wait_ms": round(row.longest_wait_ms, 1),
            "rss": row.rss_growth_bytes,
            "descriptors": row.descriptors,
            "log": row.log_growth_bytes,
            "ending": row.outcome.ending.value,
            "alive": row.is_alive,
        }
        for row in rows
    ]
    file.write_text(json.dumps({"name": name, "rows": found}))


def compared(files: Sequence[Path]) -> str:
    """A table with a row for each API and a column of the longest wait for each run."""
    runs: list[dict[str, Any]] = [json.loads(file.read_text()) for file in files]
    names = [run["name"] for run in runs]
    lines = [f"| {' | '.join((_HEAD, *names))} |", "|---" * (len(runs) + 1) + "|"]
    apis = list(dict.fromkeys(row["api"] for run in runs for row in run["rows"]))
    lines += [
        f"| {' | '.join((api, *(_worst(run['rows'], api) for run in runs)))} |" for api in apis
    ]
    lines += [
        f"| {' | '.join((what, *(of(run['rows']) for run in runs)))} |"
        for what, of in (
            ("**others waited over 50 ms**", lambda rows: _count_over(rows, 50)),
            ("**over 500 ms**", lambda rows: _count_over(rows, 500)),
            ("**not answered in time**", _count_silent),
            (
                "**memory, all shapes**",
                lambda rows: f"{sum(row['rss'] for row in rows) / 1e6:.0f} MB",
            ),
            (
                "**log lines, all shapes**",
                lambda rows: f"{sum(row['log'] for row in rows) / 1e6:.1f} MB",
            ),
            ("**descriptors at the end**", lambda rows: str(rows[-1]["descriptors"])),
        )
    ]
    return "\n".join(lines)


def _worst(rows: list[dict[str, Any]], api: str) -> str:
    own = [row for row in rows if row["api"] == api]
    if not own:
        return "not measured"
    worst = max(own, key=lambda row: row["wait_ms"])
    return f"{worst['wait_ms']:.0f} ms: {worst['shape']}"


def _count_over(rows: list[dict[str, Any]], wait_ms: float) -> str:
    return f"{sum(row['wait_ms'] > wait_ms for row in rows)} of {len(rows)} shapes"


def _megabytes(rows: list[dict[str, Any]], key: str) -> str:
    return f"{sum(row[key] for row in rows) / 1e6:.1f} MB"


def _count_silent(rows: list[dict[str, Any]]) -> str:
    return str(sum(row["ending"] == "no answer" for row in rows))
