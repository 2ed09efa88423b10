"""What a node takes from its file of properties, and what it refuses to start with."""

from __future__ import annotations

import logging
import queue
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Final

import pytest
from typing_extensions import override

from kafka_common.errors import ConfigInvalid
from kraft.metadata.bootstrap import BootstrapMetadata
from kraft.node.controller_config import ControllerServerConfig
from kraft.node.controller_service import controller_maker
from kraft.node.quorum_process import LineWriter, run_node
from tests.support.quorum import CLUSTER_ID
from tests.support.quorum_controller_world import RaftOfNode, SharedLog

NODE: Final = {
    "process.roles": "controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CONTROLLER://localhost:9093",
}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("process.roles", "broker,controller"),
        ("zookeeper.metadata.migration.enable", "true"),
        ("create.topic.policy.class.name", "org.example.Policy"),
        ("alter.config.policy.class.name", "org.example.Policy"),
    ],
)
def test_what_a_node_would_only_seem_to_do_is_refused_before_anything_is_touched(
    tmp_path: Path, key: str, value: str
) -> None:
    data, file = tmp_path / "data", tmp_path / "controller.properties"
    properties = NODE | {"log.dirs": str(data), "zookeeper.connect": "localhost:2181", key: value}
    if "broker" in properties["process.roles"]:
        properties["listeners"] += ",PLAINTEXT://localhost:9092"
    file.write_text("".join(f"{name}={text}\n" for name, text in properties.items()))

    with pytest.raises(ConfigInvalid, match=key):
        run_node(file)

    assert not data.exists()


def test_elections_are_as_the_file_wants_them(tmp_path: Path) -> None:
    wanted = {
        "unclean.leader.election.interval.ms": "77000",
        "eligible.leader.replicas.enable": "true",
        "leader.imbalance.check.interval.seconds": "11",
        "log.dirs": str(tmp_path),
    }
    config = ControllerServerConfig.parse(NODE | wanted)
    make = controller_maker(config, CLUSTER_ID, BootstrapMetadata.from_configuration(None))

    made = make(RaftOfNode(1, SharedLog()))._config

    assert made.unclean_leader_election_interval_ms == 77_000
    assert made.leader_imbalance_check_interval_ms == 11_000
    assert made.replication is not None
    assert made.replication.eligible_leader_replicas_enabled


class Terminal(logging.Handler):
    """One whose lines are held up until someone looks."""

    def __init__(self) -> None:
        super().__init__()
        self.has_line = threading.Event()
        self.is_looked_at = threading.Event()
        self.lines: list[str] = []

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self.has_line.set()
        self.is_looked_at.wait()
        self.lines.append(record.getMessage())


def test_a_node_ends_when_its_last_lines_are_written_also_behind_a_full_queue() -> None:
    terminal = Terminal()
    lines: queue.Queue[logging.LogRecord] = queue.Queue(1)
    writer = LineWriter(lines, terminal)
    writer.start()
    with ThreadPoolExecutor(1) as executor:
        lines.put(logging.makeLogRecord({"msg": "first"}))
        terminal.has_line.wait()
        lines.put(logging.makeLogRecord({"msg": "last"}))
        stopping = executor.submit(writer.stop)
        # A writer that does not wait for room fails before anybody looks.
        wait([stopping], timeout=0.1)
        terminal.is_looked_at.set()

        stopping.result()

    assert terminal.lines == ["first", "last"]
