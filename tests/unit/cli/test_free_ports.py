"""Free ports that ``zkctl`` chooses for a broker."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from kafka_common.net.loopback_ports import FIRST

broker_process: Any = import_module("zkcontroller_cli.local.broker_process")


def test_metrics_have_no_port_of_the_system_where_a_listeners_port_is_any(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(
        f"broker.id=1\nzookeeper.connect=127.0.0.1:2181\nlog.dirs={tmp_path}\n"
        "listeners=PLAINTEXT://127.0.0.1:0\n"
    )
    file = broker_process.BrokerFile.load(path, {})

    chosen = file._replace(metrics=replace(file.metrics, port=0)).with_free_metrics_port()

    assert chosen.metrics.port >= FIRST
