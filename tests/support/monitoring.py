"""The dashboard and the alerts of ``compose/``, and the Prometheus that runs them in tests."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.support.paths import ROOT

DASHBOARD: Final = ROOT / "compose" / "grafana" / "kafka.json"
ALERTS: Final = ROOT / "compose" / "prometheus" / "alerts.yml"
CONFIG: Final = ROOT / "compose" / "prometheus" / "prometheus.yml"
_METRIC: Final = re.compile(r"\b(?:kafka|process|zkcontroller)_\w+")
_VARIABLES: Final = {"$instance": ".*", "$__rate_interval": "1m"}


def installed(program: str) -> str:
    """The path of ``prometheus`` or ``promtool``; the test is skipped, with the reason, without."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"no {program} on the PATH: Debian has it in the package prometheus")
    return found


def dashboard() -> Mapping[str, Any]:
    """The dashboard as Grafana reads it."""
    found: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return found


def panel_queries() -> dict[str, str]:
    """Each query of a panel in PromQL, Grafana's variables replaced, by panel and letter."""
    queries = {}
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            query = target["expr"]
            for variable, value in _VARIABLES.items():
                query = query.replace(variable, value)
            queries[f"{panel['title']} {target['refId']}"] = query
    return queries


def alerts() -> Iterator[Mapping[str, Any]]:
    """Each alert of the rules."""
    for group in yaml.safe_load(ALERTS.read_text())["groups"]:
        yield from group["rules"]


def names_used() -> set[str]:
    """Every name of a metric in the dashboard and the alerts."""
    queries = [*panel_queries().values(), *(alert["expr"] for alert in alerts())]
    return {name for query in queries for name in _METRIC.findall(query)}


def rules_of(queries: Mapping[str, str], directory: Path) -> Path:
    """A file of recording rules, one for each query, for promtool to parse."""
    path = directory / "queries.yml"
    rules = [
        {"record": f"query_{number}", "expr": query}
        for number, query in enumerate(queries.values())
    ]
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    return path
