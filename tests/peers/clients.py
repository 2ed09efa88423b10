"""Kafka's own clients and administration tools, as functions and processes."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.kafka_peer import kafka_tool, run_kafka_tool

CONSOLE_PRODUCER: Final = "kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
VERIFIABLE_PRODUCER: Final = "org.apache.kafka.tools.VerifiableProducer"


def run_tool(main_class: str, *arguments: str, stdin: str = "", libs: Path | None = None) -> str:
    """What a tool prints; it must succeed."""
    done = run_kafka_tool(main_class, *arguments, stdin=stdin, libs=libs)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def produce(bootstrap: str, topic: str, values: Sequence[str]) -> None:
    """Writes ``values`` with an idempotent console producer that waits for all replicas."""
    done = run_kafka_tool(
        CONSOLE_PRODUCER, "--bootstrap-server", bootstrap, "--topic", topic,
        "--producer-property", "enable.idempotence=true", "--producer-property", "acks=all",
        stdin="".join(value + "\n" for value in values),
    )  # fmt: skip
    # The console producer reports a record that it lost, and ends well all the same.
    assert done.returncode == 0, done.stderr
    assert "ERROR" not in done.stdout + done.stderr, done.stdout + done.stderr


def consume(bootstrap: str, topic: str, group: str, count: int) -> list[str]:
    """The next ``count`` values that this consumer group has not read, in the order they came."""
    printed = run_tool(
        CONSOLE_CONSUMER, "--bootstrap-server", bootstrap, "--topic", topic, "--group", group,
        "--from-beginning", "--max-messages", str(count), "--timeout-ms", "30000",
    )  # fmt: skip
    return printed.splitlines()


class RunningProducer:
    """An idempotent producer in a process of its own that tells which values were acknowledged."""

    def __init__(self, bootstrap: str, topic: str, directory: Path) -> None:
        settings = directory / "producer.properties"
        # By default the tool does not retry.
        settings.write_text("enable.idempotence=true\nretries=2147483647\n")
        self.acknowledged: list[str] = []
        self.failed: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            kafka_tool(
                VERIFIABLE_PRODUCER, "--bootstrap-server", bootstrap, "--topic", topic,
                "--acks", "-1", "--throughput", "200", "--producer.config", str(settings),
            ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def stop(self, timeout_s: float = 60) -> None:
        """Lets it finish what it has begun; ``acknowledged`` is final when this returns."""
        self._process.terminate()
        try:
            self._process.wait(timeout_s)
        finally:
            self.kill()

    def kill(self) -> None:
        """Ends it the hard way; nothing to do if it has ended."""
        self._process.kill()
        self._process.wait(30)
        self._reader.join(10)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                said = json.loads(line)
                if said["name"] == "producer_send_success":
                    self.acknowledged.append(said["value"])
                elif said["name"] == "producer_send_error":
                    self.failed.append(said)
