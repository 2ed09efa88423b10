"""What a broker says when it opens the log of a partition."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_common.model import TopicPartition
from replica_manager.configuration.config import BrokerConfig
from replica_manager.log.log_manager import LogManager
from replica_manager.replication.disk_logs import DiskLogs
from tests.support.log_world import batch

ORDERS = TopicPartition("orders", 0)


def test_a_log_begins_at_the_high_watermark_that_was_written_down(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    values = BrokerConfig.parse({"zookeeper.connect": "x:1", "log.dirs": str(tmp_path)}).values
    caplog.set_level("INFO", "kafka.cluster.Partition")

    def opened(logs: DiskLogs) -> list[str]:
        caplog.clear()
        logs.open(ORDERS, None, is_new=False)
        return list(caplog.messages)

    def started() -> DiskLogs:
        logs = DiskLogs(LogManager([tmp_path], lambda: 0), lambda: values, 7)
        logs.load(lambda _: None)
        return logs

    prefix = "[Partition orders-0 broker=7]"
    unknown = f"{prefix} No checkpointed highwatermark is found for partition orders-0"
    loaded = f"{prefix} Log loaded for partition orders-0 with initial high watermark"
    logs = started()
    assert opened(logs) == [unknown, f"{loaded} 0"]
    assert opened(logs) == []

    log = logs.manager.log(ORDERS)
    assert log is not None
    log.append_as_leader(batch(5), 0)
    log.update_high_watermark(5)
    logs.manager.close()
    again = started()
    assert opened(again) == [f"{loaded} 5"]
    again.delete(ORDERS)
    assert opened(again) == [unknown, f"{loaded} 0"]
    again.manager.close()
