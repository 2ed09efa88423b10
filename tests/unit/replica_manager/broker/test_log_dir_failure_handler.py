"""What a broker does when one of its log directories fails."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kafka_common.model import TopicPartition
from kafka_common.protocol.inter_broker_versions import version_of
from replica_manager.broker.log_dir_failure_handler import LogDirFailureHandler
from replica_manager.log.log_manager import LogDirFailure

A, B = Path("/a"), Path("/b")
ORDERS = TopicPartition("orders", 0)


class Handled:
    """A handler, and what it has called."""

    def __init__(self, inter_broker_version: str = "3.9") -> None:
        self.called: list[str] = []
        self.handler = LogDirFailureHandler(
            1,
            [A, B],
            lambda: self.called.append("notify"),
            lambda: self.called.append("halt"),
            version_of(inter_broker_version),
        )


def test_the_replicas_of_a_failed_directory_are_given_up_and_the_controller_is_notified(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handled = Handled()
    handled.handler.mark_offline = lambda partitions: handled.called.append(f"{partitions}")

    with caplog.at_level(logging.WARNING):
        handled.handler.failed(LogDirFailure(A, (ORDERS,), ()), [B])

    assert handled.called == [f"{(ORDERS,)}", "notify"]
    assert caplog.messages == [
        "[ReplicaManager broker=1] Stopping serving replicas in dir /a with uuid None because the "
        "log directory has failed.",
        "[ReplicaManager broker=1] Broker 1 stopped fetcher for partitions orders-0 and stopped "
        "moving logs for partitions  because they are in the failed log directory /a.",
        "[ReplicaManager broker=1] Stopped serving replicas in dir /a",
    ]


@pytest.mark.parametrize(("version", "called"), [("0.11.0", ["halt"]), ("1.0", ["notify"])])
def test_before_1_0_a_broker_halts_at_its_first_failure(
    version: str, called: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    handled = Handled(version)

    handled.handler.failed(LogDirFailure(A, (ORDERS,), ()), [B])

    assert handled.called == called
    line = "[ReplicaManager broker=1] Halting broker because dir /a is offline"
    assert (line in caplog.messages) is (called == ["halt"])


def test_a_broker_without_a_directory_left_halts_and_notifies_no_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handled = Handled()

    with caplog.at_level(logging.ERROR):
        handled.handler.failed(LogDirFailure(A, (), ()), [])

    assert handled.called == ["halt"]
    last = caplog.records[-1]
    assert last.name == "kafka.log.LogManager"
    # Kafka's fatal() logs an error since 1.1.
    assert last.levelname == "ERROR"
    assert last.getMessage() == "Shutdown broker because all log dirs in /a, /b have failed"
