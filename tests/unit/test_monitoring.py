"""The dashboard and the alerts of ``compose/`` name what exists, and fire when they should."""

from __future__ import annotations

import re
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from kafka_common.observability.meanings import meaning_of
from replica_manager.container import METRICS_PORT
from tests.support.monitoring import (
    ALERTS,
    CONFIG,
    alerts,
    dashboard,
    installed,
    names_used,
    panel_queries,
    rules_of,
)
from tests.support.paths import ROOT

DOCTOR: Any = import_module("zkcontroller_cli.diagnosis.rules")
page_of: Any = import_module("zkcontroller_cli.diagnosis.findings").page_of
MAIN: Any = import_module("zkcontroller_cli.main")
FIRING = {
    "KafkaControllerSilent": {
        "kafka_controller_controllereventmanager_eventqueuesize": "3x20",
        "kafka_controller_controllereventmanager_eventqueuetimems_count": "7x20",
    },
    "KafkaTwoControllers": {
        "kafka_controller_kafkacontroller_activecontrollercount": "2x20",
    },
    "KafkaControllerChanges": {
        "kafka_controller_kafkacontroller_activecontrollercount": "1x6 0 1 0 1x10",
    },
    "KafkaNoController": {
        "kafka_controller_kafkacontroller_activecontrollercount": "0x20",
    },
    "KafkaSessionExpired": {
        "kafka_server_sessionexpirelistener_zookeeperexpires_total": "0 0 0 1x20",
    },
    "KafkaBrokerSilent": {"up": "0x20"},
    "KafkaLogDirectoryFailed": {"kafka_log_logmanager_offlinelogdirectorycount": "1x20"},
    "KafkaPartitionsWithoutLeader": {
        "kafka_controller_kafkacontroller_offlinepartitionscount": "2x20",
    },
    "KafkaBelowMinInSyncReplicas": {
        "kafka_server_replicamanager_underminisrpartitioncount": "2x20",
    },
    "KafkaUnderReplicatedPartitions": {
        "kafka_server_replicamanager_underreplicatedpartitions": "2x20",
    },
    "KafkaNotPreferredLeaders": {
        "kafka_controller_kafkacontroller_preferredreplicaimbalancecount": "2x60",
    },
    "KafkaUncleanLeaders": {
        "kafka_controller_controllerstats_uncleanleaderelections_total": "0 0 0 2x60",
    },
    "KafkaReassignmentStuck": {
        "kafka_server_replicamanager_reassigningpartitions": "4x60",
        "kafka_server_brokertopicmetrics_reassignmentbytesin_total": "100x60",
    },
    "KafkaDeletionStuck": {"kafka_controller_kafkacontroller_topicstodeletecount": "1x60"},
}
"""The series of one broker, a value a minute, that make each alert fire."""
WELL = {
    "up": "1x60",
    "kafka_controller_controllereventmanager_eventqueuesize": "3x60",
    "kafka_controller_controllereventmanager_eventqueuetimems_count": "0+9x60",
    "kafka_controller_kafkacontroller_activecontrollercount": "1x60",
    "kafka_controller_kafkacontroller_offlinepartitionscount": "0x60",
    "kafka_controller_kafkacontroller_preferredreplicaimbalancecount": "0 1 1 1 0x60",
    "kafka_controller_kafkacontroller_topicstodeletecount": "0 2 2 0x60",
    "kafka_controller_controllerstats_uncleanleaderelections_total": "5x60",
    "kafka_log_logmanager_offlinelogdirectorycount": "0x60",
    "kafka_server_sessionexpirelistener_zookeeperexpires_total": "2x60",
    "kafka_server_replicamanager_underminisrpartitioncount": "0x60",
    "kafka_server_replicamanager_underreplicatedpartitions": "0 3 3 0x60",
    "kafka_server_replicamanager_reassigningpartitions": "4x60",
    "kafka_server_brokertopicmetrics_reassignmentbytesin_total": "0+100x60",
}
"""A cluster that has work, and no trouble."""


def test_every_panel_has_an_id_of_its_own_a_place_and_a_query() -> None:
    panels = dashboard()["panels"]
    ids = [panel["id"] for panel in panels]

    assert len(ids) == len(set(ids)) > 30
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (place["x"] + column, place["y"] + row)
            for column in range(place["w"])
            for row in range(place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
        if panel["type"] != "row":
            letters = [target["refId"] for target in panel["targets"]]
            assert len(letters) == len(set(letters)) > 0
            assert panel["description"]


def test_the_dashboard_and_the_alerts_use_only_names_that_are_documented() -> None:
    def base(name: str) -> str:
        return re.sub("_(total|count)$", "", name)

    unknown = {
        name
        for name in names_used()
        if not name.startswith("process_")
        and all(meaning_of(each) == each for each in (name, base(name)))
    }

    assert len(names_used()) > 35
    assert unknown == set()


def test_every_alert_has_the_id_of_a_rule_of_doctor_a_next_step_and_a_document() -> None:
    found = list(alerts())

    assert {alert["alert"] for alert in found} == set(FIRING)
    for alert in found:
        told = alert["annotations"]
        assert told["doctor_rule"] in DOCTOR.RULE_OF, alert["alert"]
        assert told["summary"]
        assert told["document"] == page_of(told["doctor_rule"])
        assert (ROOT / told["document"].partition("#")[0]).exists()
        verbs = re.findall(r"zkctl ([a-z-]+)(?: ([a-z-]+))?", told["next_step"])
        assert verbs, told["next_step"]
        for verb, below in verbs:
            command = MAIN.zkctl.get_command(click.Context(MAIN.zkctl), verb)
            assert command is not None, verb
            if isinstance(command, click.Group):
                assert below in command.commands, below


def test_prometheus_scrapes_the_brokers_where_they_serve_their_metrics() -> None:
    services = yaml.safe_load((ROOT / "compose" / "compose.yaml").read_text())["services"]
    [job] = yaml.safe_load(CONFIG.read_text())["scrape_configs"]
    [static] = job["static_configs"]

    assert job["job_name"] == "kafka"
    assert static["targets"] == [
        f"{name}:{service['environment'][METRICS_PORT]}"
        for name, service in services.items()
        if METRICS_PORT in service.get("environment", {})
    ]
    assert len(static["targets"]) == 3


def test_promtool_parses_the_configuration_the_alerts_and_every_panel(tmp_path: Path) -> None:
    promtool = installed("promtool")
    panels = rules_of(panel_queries(), tmp_path)

    for arguments in (("config", CONFIG), ("rules", ALERTS), ("rules", panels)):
        done = run(promtool, "check", *map(str, arguments))
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"{len(panel_queries())} rules found" in done.stdout or arguments[1] != panels


@pytest.mark.parametrize("name", [*FIRING, ""])
def test_an_alert_fires_on_its_trouble_and_no_other_does(name: str, tmp_path: Path) -> None:
    promtool = installed("promtool")
    labels = 'job="kafka",instance="broker-1:7071"'
    series = WELL | FIRING.get(name, {})
    scenario = {
        "rule_files": [str(ALERTS)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": f"{each}{{{labels}}}", "values": values}
                    for each, values in series.items()
                ],
                "promql_expr_test": [
                    {
                        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                        "eval_time": "55m" if "x60" in str(FIRING.get(name, WELL)) else "15m",
                        "exp_samples": [
                            {"labels": f'{{alertname="{name}"}}', "value": 1} for _ in [1] if name
                        ],
                    }
                ],
            }
        ],
    }
    path = tmp_path / "story.yml"
    path.write_text(yaml.safe_dump(scenario))

    done = run(promtool, "test", "rules", str(path))

    assert done.returncode == 0, done.stdout + done.stderr


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
