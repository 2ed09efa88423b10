"""Our log's files under Kafka's eyes, and Kafka's files under ours."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest

from kafka_common.model import TopicPartition
from kafka_common.protocol.compression import Codec
from kafka_common.protocol.legacy_messages import iterate_any
from kafka_common.protocol.record_batch import encode_batch, iterate_batches
from kafka_common.protocol.records import EndTransactionMarker, Record
from replica_manager.log.environment import LogEnvironment
from replica_manager.log.log_cleaner import clean, cleaning_job
from replica_manager.log.log_config import LogConfig
from replica_manager.log.log_manager import LogManager
from replica_manager.log.producer_state_manager import AppendOrigin
from replica_manager.log.unified_log import UnifiedLog
from tests.peers.clients import consume, produce, run_tool
from tests.peers.cluster import Cluster

pytestmark = [pytest.mark.peers, pytest.mark.timeout(400)]

DUMP: Final = "kafka.tools.DumpLogSegments"
ORDERS: Final = TopicPartition("orders", 0)
SMALL_SEGMENTS: Final = LogConfig(segment_bytes=20_000, index_interval_bytes=512)
ONE_BROKER: Final = {
    "log.segment.bytes": "20000",
    "log.index.interval.bytes": "512",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def values_in(log: UnifiedLog) -> list[str]:
    found: list[str] = []
    for segment in log.segments:
        data = segment.file.read(0, segment.size)
        for place, header in iterate_batches(data):
            found += [(r.value or b"").decode() for r in iterate_any(data, place, header)]
    return found


def manager_of(data: Path) -> LogManager:
    manager = LogManager([data], now_ms, default_config=SMALL_SEGMENTS)
    manager.load({})
    return manager


def log_in(manager: LogManager) -> UnifiedLog:
    log = manager.log(ORDERS)
    assert log is not None
    return log


def dump(folder: Path, *options: str) -> str:
    names = sorted(
        path for path in folder.iterdir()
        if path.suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    )  # fmt: skip
    if "--index-sanity-check" in options:
        names = [path for path in names if path.suffix in (".index", ".timeindex")]
    return run_tool(DUMP, *options, "--files", ",".join(map(str, names)))


def transactional(
    key: bytes, value: bytes, *, sequence: int = -1, is_control: bool = False
) -> bytes:
    return encode_batch(
        [Record(0, now_ms(), key, value)],
        producer_id=99,
        producer_epoch=0,
        base_sequence=sequence,
        is_transactional=True,
        is_control=is_control,
    )


def written_by_us(folder: Path) -> UnifiedLog:
    """Every codec, headers, null keys, an idempotent producer, transactions of both ends."""
    environment = LogEnvironment(now_ms, now_ms, verifies_transactions=lambda: False)
    log = UnifiedLog.open(folder, SMALL_SEGMENTS, environment)
    log.assign_topic_id(uuid4())
    sequence = 0
    for number in range(300):
        records = [
            Record(i, now_ms() + i, None if i % 2 else b"key", os.urandom(40), ((b"h", b"v"),))
            for i in range(1 + number % 9)
        ]
        is_idempotent = number % 3 == 0
        log.append_as_leader(
            encode_batch(
                records,
                codec=list(Codec)[number % len(Codec)],
                producer_id=77 if is_idempotent else -1,
                producer_epoch=0 if is_idempotent else -1,
                base_sequence=sequence if is_idempotent else -1,
            ),
            number // 100,
        )
        sequence += len(records) if is_idempotent else 0
    for number in range(4):
        key, value = EndTransactionMarker(number % 2 == 0, 4).encode()
        log.append_as_leader(transactional(b"k", b"v", sequence=number), 5)
        marker = transactional(key, value, is_control=True)
        log.append_as_leader(marker, 5, origin=AppendOrigin.COORDINATOR)
    log.close()
    return log


@pytest.mark.usefixtures("kafka")
def test_kafkas_dump_tool_reads_every_file_that_we_write(tmp_path: Path) -> None:
    log = written_by_us(tmp_path / "orders-0")

    printed = dump(log.directory, "--deep-iteration")

    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+)", printed, re.MULTILINE)]
    assert sorted(offsets) == list(range(log.log_end_offset))
    assert len(list(log.segments)) > 3
    batches = re.findall(r"^baseOffset: .*", printed, re.MULTILINE)
    assert batches
    assert all("isvalid: true" in line for line in batches)
    assert len(re.findall(r"^version: 0 producerId: 99 firstOffset: \d+", printed, re.M)) == 2
    assert re.search(r"producerId: 99 producerEpoch: 0 coordinatorEpoch: 4", printed)
    assert not re.search(r"mismatch|Exception|out of order|not found", printed, re.IGNORECASE)


@pytest.mark.usefixtures("kafka")
def test_our_indexes_pass_kafkas_sanity_check(tmp_path: Path) -> None:
    log = written_by_us(tmp_path / "orders-0")

    printed = dump(log.directory, "--index-sanity-check")

    passed = printed.count("passed sanity check") + printed.count("is empty")
    assert passed == 2 * len(list(log.segments))
    assert "fail" not in printed.lower()


@pytest.mark.usefixtures("kafka")
def test_kafkas_dump_tool_reads_what_compaction_leaves(tmp_path: Path) -> None:
    config = LogConfig(
        segment_bytes=4_000, index_interval_bytes=512, is_compacted=True, delete_retention_ms=10**9
    )
    environment = LogEnvironment(now_ms, now_ms, verifies_transactions=lambda: False)
    log = UnifiedLog.open(tmp_path / "orders-0", config, environment)
    for number in range(300):
        value = None if number % 7 == 0 else b"value %d" % number
        records = [Record(0, now_ms(), b"key %d" % (number % 40), value)]
        is_idempotent = number % 10 == 0
        log.append_as_leader(
            encode_batch(
                records,
                codec=list(Codec)[number % len(Codec)],
                producer_id=number if is_idempotent else -1,
                producer_epoch=0 if is_idempotent else -1,
                base_sequence=0 if is_idempotent else -1,
            ),
            0,
        )
    log.append_as_leader(transactional(b"aborted", b"v", sequence=0), 0)
    key, value = EndTransactionMarker(False, 4).encode()
    log.append_as_leader(
        transactional(key, value, is_control=True), 0, origin=AppendOrigin.COORDINATOR
    )
    log.roll()
    log.update_high_watermark(log.log_end_offset)
    cleaned = clean(cleaning_job(log, None, now_ms()), 2**20)
    assert log.replace_segments(cleaned.replacements, cleaned.generation)
    log.close()

    printed = dump(log.directory, "--deep-iteration")

    batches = re.findall(r"^baseOffset: (\d+) .*", printed, re.MULTILINE)
    assert 40 < len(batches) < 100
    assert printed.count("isvalid: true") == len(batches)
    assert re.search(r"deleteHorizonMs: OptionalLong\[", printed)
    assert re.search(r"count: 0 ", printed)
    assert re.search(r"endTxnMarker: ABORT", printed)
    assert not re.search(r"mismatch|Exception|out of order", printed, re.IGNORECASE)


def test_a_killed_kafkas_log_is_recovered_by_us_and_then_served_by_kafka(
    cluster: Cluster, tmp_path: Path
) -> None:
    broker = cluster.start_kafka(1, ONE_BROKER)
    cluster.topic_command(
        1, "--create", "--topic", "orders", "--partitions", "1", "--replication-factor", "1"
    )
    cluster.wait_until(lambda: bool(cluster.partitions()), "the partition has a leader")
    values = [f"value {number} " + "x" * (number % 90) for number in range(3000)]
    produce(cluster.bootstrap(1), "orders", values)
    broker.kill()
    data = broker.directory / "data"
    newest = max((data / "orders-0").glob("*.log"))
    with newest.open("ab") as file:
        file.write(os.urandom(50))

    manager = manager_of(data)
    log = log_in(manager)
    assert values_in(log) == values
    assert log.producers.entries
    assert log.latest_epoch == 0
    for number in range(3):
        ours = encode_batch([Record(0, now_ms(), None, b"ours %d" % number)], codec=Codec.LZ4)
        log.append_as_leader(ours, 0)
    log.update_high_watermark(log.log_end_offset)
    manager.close()
    expected = [*values, "ours 0", "ours 1", "ours 2"]
    assert not re.search(r"mismatch|Exception", dump(data / "orders-0", "--deep-iteration"))

    # Kafka does not start while its dead predecessor's registration stands.
    cluster.wait_until(lambda: not cluster.live_brokers(), "the killed broker's session is over")
    cluster.start(broker)
    assert consume(cluster.bootstrap(1), "orders", "readers", len(expected)) == expected
    produce(cluster.bootstrap(1), "orders", ["once more"])
    broker.stop()

    kept = log_in(manager_of(data))
    assert values_in(kept) == [*expected, "once more"]
    assert kept.recovery_point == kept.log_end_offset == len(expected) + 1
    assert kept.epoch_entries[0].start_offset == 0
    server_log = "".join(broker.log_lines("server.log"))
    assert "Found invalid messages" not in server_log
    assert "corrupt" not in server_log.lower()

    # The indexes that we build from Kafka's segments are Kafka's, byte for byte, but for the last
    # one: a broker that starts again counts anew how many bytes are not indexed yet.
    copy = tmp_path / "orders-0"
    shutil.copytree(data / "orders-0", copy)
    last = max(path.stem for path in copy.glob("*.log"))
    indexes = {p.name: p.read_bytes() for p in copy.glob("*index") if p.stem != last}
    for name in indexes:
        (copy / name).unlink()
    UnifiedLog.open(copy, SMALL_SEGMENTS, LogEnvironment(now_ms, now_ms)).close()
    assert len(indexes) > 6
    assert {name: (copy / name).read_bytes() for name in indexes} == indexes
