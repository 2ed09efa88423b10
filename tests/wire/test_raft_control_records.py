"""The quorum's own records: Kafka 3.9.1's bytes, field by field, and as the first ones of a log."""

from __future__ import annotations

import pytest

from kafka_common.protocol.record_batch import HEADER_BYTES
from kraft.raft.control_records import (
    ControlRecord,
    KRaftVersion,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    decode_control_record,
    encode_control_record,
)
from tests.support.raft_harness import START_MS, RaftHarness, batches_in

TIMESTAMP = 0x018BCFE568FF


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        (
            LeaderChange(1, (1,), (1,)),
            "0000 0002",
            "0000 00000001 02 00000001 00 02 00000001 00 00",
        ),
        (SnapshotHeader(TIMESTAMP), "0000 0003", "0000 0000018bcfe568ff 00"),
        (SnapshotFooter(), "0000 0004", "0000 00"),
        (KRaftVersion(1), "0000 0005", "0000 0001 00"),
    ],
)
def test_a_control_record_is_kafkas_byte_for_byte(
    record: ControlRecord, key: str, value: str
) -> None:
    raw = bytes.fromhex(key), bytes.fromhex(value)

    assert encode_control_record(record) == raw
    assert decode_control_record(*raw) == record


def test_the_first_record_of_a_lone_voter_is_kafkas_byte_for_byte() -> None:
    node = RaftHarness(voters=[1]).start()

    batch = node.log.read(0, 10_000)

    # Length, attributes, two deltas, key, value, no headers.
    assert batch[HEADER_BYTES:] == bytes.fromhex(
        "3a 00 00 00 08 00000002 26 0000 00000001 02 00000001 00 02 00000001 00 00 00"
    )
    ((header, _),) = batches_in(batch)
    assert (header.base_offset, header.partition_leader_epoch, header.record_count) == (0, 1, 1)
    assert header.attributes == 0x20
    assert header.base_timestamp == header.max_timestamp == START_MS
