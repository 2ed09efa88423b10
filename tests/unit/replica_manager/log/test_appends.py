"""Appending to a log as leader and as follower: what is assigned, what is refused."""

from __future__ import annotations

import errno
import json
import os
import struct
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from crc32c import crc32c

from kafka_common.errors import (
    CorruptRecord,
    InconsistentTopicId,
    InvalidRecord,
    InvalidTimestamp,
    KafkaStorage,
    MessageTooLarge,
    OffsetsOutOfOrder,
    OutOfOrderSequence,
    RecordListTooLarge,
    UnexpectedAppendOffset,
)
from kafka_common.protocol.compression import Codec
from kafka_common.protocol.record_batch import encode_batch, read_header
from kafka_common.protocol.records import Record
from replica_manager.log.log_config import LogConfig
from replica_manager.log.partition_metadata import PartitionMetadataCorrupt, read_topic_id
from tests.support.log_world import (
    START_MS,
    LogWorld,
    at,
    base_offsets,
    batch,
    content,
    offsets,
    read,
    records_of,
)
from tests.support.paths import WIRE_DATA


@pytest.fixture
def world(tmp_path: Path) -> LogWorld:
    return LogWorld(tmp_path / "orders-0")


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name.lower())
def test_a_leader_assigns_offsets_and_its_epoch_and_leaves_the_records_alone(
    world: LogWorld, codec: Codec
) -> None:
    log = world.open()
    sent = batch(3, codec=codec)

    log.append_as_leader(batch(2), 4)
    info = log.append_as_leader(sent, 5)

    assert (info.first_offset, info.last_offset, log.log_end_offset) == (2, 4, 5)
    found = read(log, 2)
    assert found.slice is not None
    written = found.slice.read()
    header = read_header(written)
    assert header is not None
    assert (header.base_offset, header.partition_leader_epoch) == (2, 5)
    assert written[17:] == sent[17:]
    assert offsets(found) == [2, 3, 4]


def test_a_batch_cut_off_at_the_end_is_left_out(world: LogWorld) -> None:
    log = world.open()

    info = log.append_as_leader(batch(2)[:-1], 0)

    assert (info.valid_bytes, log.log_end_offset) == (0, 0)


def test_a_client_may_send_one_batch_only(world: LogWorld) -> None:
    log = world.open()

    with pytest.raises(InvalidRecord, match="more than one batch"):
        log.append_as_leader(batch() + batch(), 0)
    assert log.log_end_offset == 0


def test_a_clients_batch_begins_at_offset_zero(world: LogWorld) -> None:
    with pytest.raises(InvalidRecord, match="should be 0, but it is 7"):
        world.open().append_as_leader(at(7, batch()), 0)


def test_a_flipped_bit_is_refused_by_leader_and_follower(world: LogWorld) -> None:
    log = world.open()
    broken = bytearray(batch())
    broken[-1] ^= 1

    with pytest.raises(CorruptRecord, match="stored crc"):
        log.append_as_leader(bytes(broken), 0)
    with pytest.raises(CorruptRecord):
        log.append_as_follower(bytes(broken))
    assert log.size == 0


def test_a_batch_above_max_message_bytes_is_refused_by_a_leader_but_not_by_a_follower(
    world: LogWorld,
) -> None:
    world.config = LogConfig(max_message_bytes=100)
    log = world.open()

    with pytest.raises(MessageTooLarge, match="exceeds the maximum configured value of 100"):
        log.append_as_leader(batch(5), 0)

    assert log.append_as_follower(at(0, batch(5))).last_offset == 4


def test_more_than_a_segment_is_refused(world: LogWorld) -> None:
    world.config = LogConfig(segment_bytes=100)

    with pytest.raises(RecordListTooLarge):
        world.open().append_as_leader(batch(5), 0)


@pytest.mark.parametrize(
    ("place", "layout", "value", "message"),
    [
        (23, ">i", -1, "invalid offset range"),
        (57, ">i", 0, "Invalid reported count"),
        (57, ">i", 5, "Inconsistent batch offset range"),
        (21, ">h", 0x20, "control records"),
        (43, ">q", 7, "Invalid sequence number -1"),
    ],
)
def test_a_header_that_contradicts_itself_is_refused(
    world: LogWorld, place: int, layout: str, value: int, message: str
) -> None:
    data = bytearray(batch(2))
    struct.pack_into(layout, data, place, value)
    struct.pack_into(">I", data, 17, crc32c(data[21:]))

    with pytest.raises(InvalidRecord, match=message):
        world.open().append_as_leader(bytes(data), 0)


def test_a_wrong_largest_timestamp_is_put_right(world: LogWorld) -> None:
    log = world.open()
    data = bytearray(batch(2, timestamp=START_MS))
    struct.pack_into(">q", data, 35, START_MS + 10**12)
    struct.pack_into(">I", data, 17, crc32c(data[21:]))

    assert log.append_as_leader(bytes(data), 0).max_timestamp == START_MS
    assert world.open(clean=False).log_end_offset == 2


def test_records_that_do_not_fill_their_batch_are_refused(world: LogWorld) -> None:
    data = bytearray(batch(3))
    struct.pack_into(">i", data, 57, 2)
    struct.pack_into(">i", data, 23, 1)
    struct.pack_into(">I", data, 17, crc32c(data[21:]))

    with pytest.raises(InvalidRecord):
        world.open().append_as_leader(bytes(data), 0)


def test_a_compacted_topic_refuses_records_without_key_by_their_place(world: LogWorld) -> None:
    world.config = LogConfig(is_compacted=True)
    sent = encode_batch(
        [Record(i, START_MS, None if i in (1, 3) else b"k", b"v") for i in range(4)]
    )

    with pytest.raises(InvalidRecord) as refused:
        world.open().append_as_leader(sent, 0)

    assert [index for index, _ in refused.value.record_errors] == [1, 3]


@pytest.mark.parametrize("shift_ms", [-2000, 2000])
def test_timestamps_out_of_range_are_refused(world: LogWorld, shift_ms: int) -> None:
    world.config = LogConfig(timestamp_before_max_ms=1000, timestamp_after_max_ms=1000)
    log = world.open()

    log.append_as_leader(batch(timestamp=START_MS + shift_ms // 2), 0)
    log.append_as_leader(batch(timestamp=-1), 0)
    with pytest.raises(InvalidTimestamp) as refused:
        log.append_as_leader(batch(2, timestamp=START_MS + shift_ms), 0)

    assert [index for index, _ in refused.value.record_errors] == [0, 1]
    assert log.log_end_offset == 2


def test_log_append_time_is_the_brokers_and_answered(world: LogWorld) -> None:
    world.config = LogConfig(is_log_append_time=True)
    log = world.open()
    world.now_ms += 5

    info = log.append_as_leader(batch(2, timestamp=1), 0)

    assert info.log_append_time == info.max_timestamp == world.now_ms
    assert {record.timestamp for record in records_of(read(log, 0))} == {world.now_ms}
    assert world.open(clean=False).log_end_offset == 2


def test_a_producer_must_not_set_log_append_time(world: LogWorld) -> None:
    world.config = LogConfig(is_log_append_time=True)
    sent = encode_batch([Record(0, START_MS, None, b"v")], log_append_time=START_MS)

    with pytest.raises(InvalidTimestamp):
        world.open().append_as_leader(sent, 0)


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name.lower())
def test_a_topic_with_its_own_codec_has_batches_packed_again(world: LogWorld, codec: Codec) -> None:
    world.config = LogConfig(codec=codec)
    log = world.open()

    log.append_as_leader(batch(3, size=200, producer_id=9, producer_epoch=0, base_sequence=0), 2)

    found = read(log, 0)
    assert found.slice is not None
    header = read_header(found.slice.read())
    assert header is not None
    assert (header.codec, header.producer_id, header.partition_leader_epoch) == (codec, 9, 2)
    assert offsets(found) == [0, 1, 2]


def test_old_messages_become_a_batch(world: LogWorld) -> None:
    kafkas = json.loads((WIRE_DATA / "record-batches-3.9.1.json").read_text())
    log = world.open()

    for name in ("magic-0-none", "magic-1-none", "magic-0-gzip", "magic-1-snappy", "magic-1-lz4"):
        log.append_as_leader(bytes.fromhex(kafkas[name]), 3)

    assert [offset for offset, _ in content(log)] == list(range(15))
    values = [value for _, value in content(log)]
    assert values[:3] == values[12:] == [b"first value", b"without a key", None]


def test_a_follower_keeps_bytes_offsets_and_epochs(world: LogWorld) -> None:
    log = world.open()
    sent = at(10, batch(2), epoch=3) + at(20, batch(2), epoch=4)

    info = log.append_as_follower(sent + batch()[:30])

    assert (info.first_offset, info.last_offset, info.valid_bytes) == (10, 21, len(sent))
    assert info.last_leader_epoch == log.latest_epoch == 4
    found = read(log, 10)
    assert found.slice is not None
    assert found.slice.read() == sent
    assert [entry.start_offset for entry in log.epoch_entries] == [10, 20]


def test_a_follower_refuses_offsets_that_it_has_and_offsets_that_do_not_rise(
    world: LogWorld,
) -> None:
    log = world.open()
    log.append_as_follower(at(0, batch(3)))

    with pytest.raises(UnexpectedAppendOffset) as refused:
        log.append_as_follower(at(2, batch(2)))
    with pytest.raises(OffsetsOutOfOrder):
        log.append_as_follower(at(9, batch()) + at(5, batch()))

    assert (refused.value.first_offset, refused.value.last_offset) == (2, 3)
    assert log.log_end_offset == 3


def test_a_memoryview_of_a_request_can_be_appended(world: LogWorld) -> None:
    log = world.open()
    frame = b"head" + batch(2) + b"tail"

    log.append_as_leader(memoryview(frame)[4:-4], 0)

    assert offsets(read(log, 0)) == [0, 1]


def test_a_segment_is_full_by_its_bytes(world: LogWorld) -> None:
    world.config = LogConfig(segment_bytes=2 * len(batch()))
    log = world.open()

    for _ in range(5):
        log.append_as_leader(batch(), 0)

    assert base_offsets(log) == [0, 2, 4]
    assert offsets(read(log, 1)) == [1]


def test_a_segment_is_full_by_the_age_of_its_first_batch(world: LogWorld) -> None:
    world.config = LogConfig(segment_ms=1000)
    log = world.open()

    log.append_as_leader(batch(timestamp=START_MS), 0)
    log.append_as_leader(batch(timestamp=START_MS + 1000), 0)
    log.append_as_leader(batch(timestamp=START_MS + 1001), 0)

    assert base_offsets(log) == [0, 2]


def test_without_timestamps_a_segments_age_is_the_time_since_it_was_made(world: LogWorld) -> None:
    world.config = LogConfig(segment_ms=1000)
    log = world.open()

    log.append_as_leader(batch(timestamp=-1), 0)
    world.now_ms += 1001
    log.append_as_leader(batch(timestamp=-1), 0)

    assert base_offsets(log) == [0, 1]


def test_jitter_makes_a_segment_full_earlier(world: LogWorld) -> None:
    world.config = LogConfig(segment_ms=1000, segment_jitter_ms=900)
    log = world.open()
    jitter = log.active_segment.roll_jitter_ms

    log.append_as_leader(batch(timestamp=START_MS), 0)
    log.append_as_leader(batch(timestamp=START_MS + 1000 - jitter), 0)
    log.append_as_leader(batch(timestamp=START_MS + 1001 - jitter), 0)

    assert 0 < jitter < 900
    assert base_offsets(log) == [0, 2]


def test_jitter_is_at_most_the_time_of_a_segment(world: LogWorld) -> None:
    world.config = LogConfig(segment_ms=10, segment_jitter_ms=1_000_000)
    log = world.open()
    for _ in range(5):
        assert 0 <= log.active_segment.roll_jitter_ms < 10
        log.append_as_leader(batch(), 0)
        log.roll()


@pytest.mark.parametrize("is_compacted", [True, False])
def test_the_longest_lag_of_compaction_makes_a_segment_full(
    world: LogWorld, is_compacted: bool
) -> None:
    world.config = LogConfig(max_compaction_lag_ms=1000, is_compacted=is_compacted)
    log = world.open()

    log.append_as_leader(batch(timestamp=START_MS), 0)
    log.append_as_leader(batch(timestamp=START_MS + 1001), 0)

    assert base_offsets(log) == ([0, 1] if is_compacted else [0])


def test_a_segment_is_full_when_an_index_is(world: LogWorld) -> None:
    world.config = LogConfig(index_bytes=24, index_interval_bytes=1)
    log = world.open()

    for i in range(5):
        log.append_as_leader(batch(timestamp=START_MS + i), 0)

    # Two entries of the time index, of which the last is kept for the segment's end.
    assert base_offsets(log) == [0, 2, 4]


def test_a_segment_is_full_when_an_offset_is_too_far_from_its_base(world: LogWorld) -> None:
    log = world.open()
    log.append_as_follower(at(0, batch()))

    log.append_as_follower(at(2**31, batch()))

    assert base_offsets(log) == [0, 2**31]
    assert offsets(read(log, 1)) == [2**31]


def test_rolling_an_empty_segment_replaces_it(world: LogWorld) -> None:
    log = world.open()

    log.roll()

    assert base_offsets(log) == [0]
    log.append_as_leader(batch(), 0)
    assert world.open().log_end_offset == 1


def test_the_topics_id_is_on_disk_before_the_first_record(world: LogWorld) -> None:
    log = world.open()
    topic_id = UUID(int=5)

    log.assign_topic_id(topic_id)
    assert read_topic_id(world.directory) is None
    log.append_as_leader(batch(), 0)

    assert read_topic_id(world.directory) == topic_id
    assert world.open().topic_id == topic_id
    with pytest.raises(InconsistentTopicId):
        world.open().assign_topic_id(UUID(int=6))


def test_an_id_that_cannot_be_read_is_no_id(world: LogWorld) -> None:
    world.directory.mkdir()
    (world.directory / "partition.metadata").write_text("version: 0\ntopic_id: nonsense")

    with pytest.raises(PartitionMetadataCorrupt):
        read_topic_id(world.directory)


def test_a_full_disk_loses_nothing_and_takes_the_directory_offline(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = world.open()
    log.append_as_leader(batch(), 0)
    size = log.size
    write = os.pwritev

    def full(descriptor: int, pieces: list[bytes], position: int) -> int:
        write(descriptor, [bytes(pieces[0])[:10]], position)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwritev", full)
    with pytest.raises(KafkaStorage, match="No space left"):
        log.append_as_leader(batch(), 0)

    assert len(world.failures) == 1
    assert log.active_segment.file.path.stat().st_size == size
    assert log.log_end_offset == 1


def test_a_write_that_the_system_takes_in_pieces_is_whole(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.pwritev
    monkeypatch.setattr(os, "pwritev", lambda fd, pieces, at: write(fd, [bytes(pieces[0])[:7]], at))
    log = world.open()

    log.append_as_leader(batch(4), 0)

    assert offsets(read(log, 0)) == [0, 1, 2, 3]


def test_a_changed_configuration_counts_for_the_next_append(world: LogWorld) -> None:
    log = world.open()
    log.append_as_leader(batch(4), 0)

    log.update_config(replace(world.config, max_message_bytes=80))

    with pytest.raises(MessageTooLarge):
        log.append_as_leader(batch(4), 0)


def test_an_append_that_is_refused_leaves_no_trace(world: LogWorld) -> None:
    world.config = LogConfig(segment_bytes=2 * len(batch()))
    log = world.open()
    for sequence in range(2):
        log.append_as_leader(
            batch(producer_id=7, producer_epoch=0, base_sequence=sequence), leader_epoch=0
        )
    before = (content(log), dict(log.producers.entries), log.epoch_entries, base_offsets(log))

    with pytest.raises(OutOfOrderSequence):
        log.append_as_leader(
            batch(producer_id=7, producer_epoch=0, base_sequence=9), leader_epoch=5
        )

    assert before == (
        content(log), dict(log.producers.entries), log.epoch_entries, base_offsets(log)
    )  # fmt: skip


WRONGLY_NUMBERED = [Record(delta, START_MS, b"key", b"%d" % delta) for delta in (0, 7, 2)]


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
@pytest.mark.parametrize("is_log_append_time", [False, True])
def test_records_that_are_numbered_wrongly_within_a_compressed_batch_are_numbered_anew(
    world: LogWorld, codec: Codec, is_log_append_time: bool
) -> None:
    world.config = replace(world.config, is_log_append_time=is_log_append_time)
    log = world.open()
    log.append_as_leader(batch(4), 0)

    info = log.append_as_leader(
        encode_batch(
            WRONGLY_NUMBERED, codec=codec, producer_id=7, producer_epoch=1, base_sequence=3
        ),
        0,
    )

    found = read(log, 4)
    assert offsets(found) == [4, 5, 6]
    assert [record.value for record in records_of(found)] == [b"0", b"7", b"2"]
    assert (info.first_offset, info.last_offset) == (4, 6)
    assert info.conversions.records == 3
    assert found.slice is not None
    header = read_header(found.slice.read())
    assert header is not None
    assert (header.codec, header.is_log_append_time) == (codec, is_log_append_time)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 3)


def test_a_batch_that_is_not_compressed_is_written_as_it_is_numbered(world: LogWorld) -> None:
    log = world.open()

    log.append_as_leader(encode_batch(WRONGLY_NUMBERED), 0)

    assert offsets(read(log, 0)) == [0, 7, 2]
