"""What a node takes from its file of properties, and what it refuses to start with."""

from __future__ import annotations

import io
import logging
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Final

import pytest
from typing_extensions import override

from kafka_common.errors import ConfigInvalid
from kraft.metadata.bootstrap import BootstrapMetadata
from kraft.node import quorum_process
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


class Terminal(io.StringIO):
    """Takes the first lines only when it is allowed to."""

    def __init__(self) -> None:
        super().__init__()
        self.has_line = threading.Event()
        self.is_looked_at = threading.Event()

    @override
    def write(self, text: str) -> int:
        self.has_line.set()
        self.is_looked_at.wait()
        return super().write(text)

    def lines(self) -> list[str]:
        """What was written, without the times."""
        return [re.sub(r"^\[[\d :,-]+\] ", "", line) for line in self.getvalue().splitlines()]


@pytest.fixture
def terminal() -> Terminal:
    return Terminal()


def test_a_node_ends_when_its_last_lines_are_written(terminal: Terminal) -> None:
    writer = LineWriter(terminal)
    logger = logging.Logger("kafka.server.KafkaRaftServer")
    logger.addHandler(writer)
    with ThreadPoolExecutor(1) as executor:
        logger.info("first")
        terminal.has_line.wait()
        logger.info("last")
        closing = executor.submit(writer.close)
        # A writer that does not wait for its terminal fails before anybody looks.
        wait([closing], timeout=0.1)
        assert not closing.done()
        terminal.is_looked_at.set()

        closing.result()

    assert terminal.lines() == [
        "INFO first (kafka.server.KafkaRaftServer)",
        "INFO last (kafka.server.KafkaRaftServer)",
    ]


def test_a_node_ends_without_the_lines_that_its_terminal_does_not_take(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quorum_process, "CLOSE_TIMEOUT_S", 0.05)
    writer = LineWriter(terminal)
    writer.handle(logging.makeLogRecord({"name": "kafka.server.KafkaRaftServer", "msg": "line"}))
    terminal.has_line.wait()

    writer.close()
    monkeypatch.setattr(quorum_process, "CLOSE_TIMEOUT_S", 60.0)
    writer.close()

    assert terminal.lines() == []
    terminal.is_looked_at.set()


def test_lines_that_cannot_be_queued_are_counted(terminal: Terminal) -> None:
    size = len("[2026-11-29 19:00:00,000] INFO line 0 (kafka.server.KafkaRaftServer)")
    writer = LineWriter(terminal, most_queued=2 * size)
    logger = logging.Logger("kafka.server.KafkaRaftServer")
    logger.addHandler(writer)
    logger.info("first")
    terminal.has_line.wait()

    for number in range(5):
        logger.info("line %d", number)
    terminal.is_looked_at.set()
    while terminal.getvalue().count("\n") < 3:
        time.sleep(0.01)
    try:
        raise OSError(28, "No space left on device", "/data/quorum-state")
    except OSError:
        logger.exception("Encountered fatal fault")
    writer.close()

    assert terminal.lines()[:6] == [
        "INFO first (kafka.server.KafkaRaftServer)",
        "INFO line 0 (kafka.server.KafkaRaftServer)",
        "INFO line 1 (kafka.server.KafkaRaftServer)",
        "WARN 3 log lines before this one were lost: stderr takes no more "
        "(kafka.server.KafkaRaftServer)",
        "ERROR Encountered fatal fault (kafka.server.KafkaRaftServer)",
        "java.io.IOException: /data/quorum-state (No space left on device)",
    ]
