"""The metadata log on disk: what a leader and a follower append, and where it is cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_common.errors import (
    ConfigInvalid,
    CorruptRecord,
    InconsistentTopicId,
    RaftFatal,
    UnexpectedAppendOffset,
)
from kafka_common.protocol import record_batch
from kafka_common.protocol.compression import Buffer
from kafka_common.protocol.record_batch import iterate_batches
from kraft.node.metadata_log import FOLDER
from kraft.node.metadata_log_config import MetadataLogConfig
from kraft.raft.raft_log import RaftLog
from kraft.raft.values import OffsetAndEpoch
from tests.unit.kraft.raft.log_files import batch, filled, opened


def test_it_is_a_raft_log(tmp_path: Path) -> None:
    log: RaftLog = opened(tmp_path)

    assert (log.start_offset, log.end_offset, log.last_epoch, log.high_watermark) == (0, 0, 0, 0)
    assert (log.latest_snapshot_id, log.earliest_snapshot_id) == (None, None)


def test_a_new_log_says_whose_it_is(tmp_path: Path) -> None:
    opened(tmp_path).close()

    said = (tmp_path / FOLDER / "partition.metadata").read_text()
    assert said == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"


def test_the_log_with_its_credentials_is_for_its_owner_alone(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir(mode=0o755)

    opened(tmp_path).close()

    assert (tmp_path / FOLDER).stat().st_mode & 0o777 == 0o700


def test_another_topics_folder_is_refused(tmp_path: Path) -> None:
    opened(tmp_path).close()
    (tmp_path / FOLDER / "partition.metadata").write_text(
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg"
    )

    with pytest.raises(InconsistentTopicId, match="AAAAAAAAAAAAAAAAAAAAAg"):
        opened(tmp_path)


def test_what_is_appended_is_read_byte_for_byte(tmp_path: Path) -> None:
    first, second = batch(0, 1, b"a", b"b"), batch(2, 1, b"c")
    log = opened(tmp_path)

    log.append_as_leader(first + second, 1)

    assert log.end_offset == 3
    assert log.last_epoch == 1
    assert log.read(0, 10_000) == first + second
    assert log.read(2, 10_000) == second
    assert log.read(3, 10_000) == b""


def test_a_read_gives_a_whole_batch_at_least_and_may_end_within_one(tmp_path: Path) -> None:
    first, second = batch(0, 1, b"a" * 500), batch(1, 1, b"b" * 500)
    log = opened(tmp_path)
    log.append_as_leader(first + second, 1)

    assert log.read(0, 1) == first
    assert log.read(0, len(first) + len(second) - 1) == (first + second)[:-1]
    assert log.read(0, len(first) + len(second)) == first + second


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The positions of the headers that were parsed."""
    positions: list[int] = []
    read_header = record_batch.read_header

    def parse(data: Buffer, position: int = 0) -> record_batch.BatchHeader | None:
        positions.append(position)
        return read_header(data, position)

    monkeypatch.setattr(record_batch, "read_header", parse)
    return positions


def test_a_follower_parses_each_header_once_and_a_read_next_to_none(
    tmp_path: Path, parsed: list[int]
) -> None:
    log, count = opened(tmp_path), 2_000
    data = b"".join(batch(offset, 1) for offset in range(count))
    parsed.clear()

    assert log.append_as_follower(data, 1) == len(data)
    assert len(parsed) <= count + 2  # the first one twice, and the end

    parsed.clear()
    assert log.read(0, 1_000_000) == data
    assert len(parsed) < 100  # those between two entries of the index


def test_a_leader_appends_nothing_but_what_follows_in_its_own_epoch(tmp_path: Path) -> None:
    log = filled(tmp_path, 1)

    for wrong, epoch in ((batch(2, 1), 1), (batch(0, 1), 1), (batch(1, 1), 2), (b"", 1)):
        with pytest.raises(RaftFatal):
            log.append_as_leader(wrong, epoch)
    assert log.end_offset == 1


def test_an_append_below_the_end_of_a_follower_fails(tmp_path: Path) -> None:
    log = filled(tmp_path, 1, 1)

    with pytest.raises(UnexpectedAppendOffset):
        log.append_as_follower(batch(1, 1), 1)
    assert log.end_offset == 2


def test_an_empty_append_fails(tmp_path: Path) -> None:
    with pytest.raises(CorruptRecord):
        opened(tmp_path).append_as_follower(b"", 1)


def test_a_followers_append_keeps_offsets_and_epochs_also_above_a_hole(tmp_path: Path) -> None:
    log = opened(tmp_path)
    data = batch(0, 1) + batch(7, 3, b"x", b"y")

    assert log.append_as_follower(data, 3) == len(data)

    assert (log.end_offset, log.last_epoch) == (9, 3)
    assert log.read(0, 10_000) == data
    assert log.end_offset_for_epoch(1) == OffsetAndEpoch(7, 1)


def test_batches_of_a_too_high_epoch_are_left_out_with_all_that_follow(tmp_path: Path) -> None:
    log = opened(tmp_path)
    known = batch(0, 2)

    taken = log.append_as_follower(known + batch(1, 5) + batch(2, 2), 4)

    assert taken == len(known)
    assert log.end_offset == 1
    assert log.append_as_follower(batch(1, 5), 4) == 0
    assert log.end_offset == 1


def test_a_bad_checksum_refuses_the_whole_append(tmp_path: Path) -> None:
    log = opened(tmp_path)
    bad = bytearray(batch(1, 1))
    bad[-1] ^= 1

    with pytest.raises(CorruptRecord):
        log.append_as_follower(batch(0, 1) + bytes(bad), 1)
    assert log.end_offset == 0


def test_a_bad_batch_of_an_unknown_epoch_is_not_looked_into(tmp_path: Path) -> None:
    log = opened(tmp_path)
    bad = bytearray(batch(1, 9))
    bad[-1] ^= 1

    assert log.append_as_follower(batch(0, 1) + bytes(bad), 1) == len(batch(0, 1))


def test_half_a_batch_is_left_out(tmp_path: Path) -> None:
    log = opened(tmp_path)

    assert log.append_as_follower(batch(0, 1) + batch(1, 1)[:-1], 1) == len(batch(0, 1))
    with pytest.raises(CorruptRecord):
        log.append_as_follower(batch(1, 1)[:-1], 1)


def test_control_batches_of_any_type_pass_and_are_recovered(tmp_path: Path) -> None:
    log = opened(tmp_path)
    control = batch(0, 1, b"\0\0", is_control=True)

    log.append_as_follower(control, 1)
    log.close()

    assert opened(tmp_path).read(0, 10_000) == control


def test_a_batch_may_be_larger_than_a_topics_may(tmp_path: Path) -> None:
    log = opened(tmp_path)
    large = batch(0, 1, b"x" * 3_000_000)

    log.append_as_leader(large, 1)

    assert log.read(0, 1) == large


def test_the_end_of_an_epoch_is_where_the_next_one_begins(tmp_path: Path) -> None:
    log = filled(tmp_path, 1, 1, 3, 3, 5)

    assert log.end_offset_for_epoch(1) == OffsetAndEpoch(2, 1)
    assert log.end_offset_for_epoch(2) == OffsetAndEpoch(2, 1)
    assert log.end_offset_for_epoch(4) == OffsetAndEpoch(4, 3)
    assert log.end_offset_for_epoch(5) == OffsetAndEpoch(5, 5)
    assert log.end_offset_for_epoch(9) == OffsetAndEpoch(5, 5)
    # Below the first: it begins where the first one does.
    assert log.end_offset_for_epoch(0) == OffsetAndEpoch(0, 0)


def test_a_new_leaders_epoch_begins_at_the_end(tmp_path: Path) -> None:
    log = filled(tmp_path, 1, 1)

    log.initialize_leader_epoch(4)

    assert log.last_epoch == 4
    assert log.end_offset_for_epoch(1) == OffsetAndEpoch(2, 1)
    assert log.end_offset_for_epoch(4) == OffsetAndEpoch(2, 4)


def test_truncation_below_the_high_watermark_fails(tmp_path: Path) -> None:
    log = filled(tmp_path, 1, 1, 1)
    log.update_high_watermark(2)

    with pytest.raises(RaftFatal, match="below the current high watermark 2"):
        log.truncate_to(1)
    log.truncate_to(2)
    assert log.end_offset == 2


def test_truncation_drops_epochs_and_moves_the_flushed_mark_back(tmp_path: Path) -> None:
    log = filled(tmp_path, 1, 2, 3)
    log.flush()
    assert log.plan_flush() is None

    log.truncate_to(1)
    assert (log.end_offset, log.last_epoch) == (1, 1)
    log.append_as_leader(batch(1, 4), 4)

    plan = log.plan_flush()
    assert plan is not None
    assert plan.log is not None
    assert plan.log.offset == 2
    plan.run()
    log.finish_flush(plan)
    assert log.plan_flush() is None


def test_a_high_watermark_above_the_end_or_lower_than_before_is_refused(tmp_path: Path) -> None:
    log = filled(tmp_path, 1, 1)
    log.update_high_watermark(1)

    for wrong in (0, 3):
        with pytest.raises(RaftFatal):
            log.update_high_watermark(wrong)
    assert log.high_watermark == 1


def test_a_reopened_log_has_everything_but_the_high_watermark(tmp_path: Path) -> None:
    log = filled(tmp_path, 1, 3)
    log.update_high_watermark(2)
    log.flush()

    again = opened(tmp_path)

    assert (again.start_offset, again.end_offset, again.last_epoch) == (0, 2, 3)
    assert again.high_watermark == 0
    assert again.end_offset_for_epoch(1) == OffsetAndEpoch(1, 1)


def test_a_log_that_was_cut_off_by_a_crash_ends_with_its_last_whole_batch(tmp_path: Path) -> None:
    log = filled(tmp_path, 1, 2)
    log.append_as_leader(batch(2, 2, b"x" * 100), 2)
    del log
    segment = tmp_path / FOLDER / "00000000000000000000.log"
    segment.write_bytes(segment.read_bytes()[:-10])

    again = opened(tmp_path)

    assert (again.end_offset, again.last_epoch) == (2, 2)


def test_a_flipped_bit_ends_the_log_before_its_batch(tmp_path: Path) -> None:
    filled(tmp_path, 1, 1, 1).close()
    segment = tmp_path / FOLDER / "00000000000000000000.log"
    content = bytearray(segment.read_bytes())
    content[2 * len(batch(0, 1)) - 2] ^= 1
    segment.write_bytes(bytes(content))

    assert opened(tmp_path).end_offset == 1


def test_segments_roll_and_are_read_as_one_log(tmp_path: Path) -> None:
    config = MetadataLogConfig(segment_bytes=1000, segment_min_bytes=12)
    log = opened(tmp_path, config)
    batches = [batch(offset, 1, b"x" * 300) for offset in range(8)]
    for data in batches:
        log.append_as_leader(data, 1)

    assert len(list((tmp_path / FOLDER).glob("*.log"))) > 2
    read = b""
    offset = 0
    while data := log.read(offset, 10_000):
        read += data
        offset = [header.next_offset for _, header in iterate_batches(data)][-1]
    assert read == b"".join(batches)


def test_segments_smaller_than_a_batch_may_be_are_refused() -> None:
    with pytest.raises(ConfigInvalid, match=r"metadata\.log\.segment\.bytes"):
        MetadataLogConfig(segment_bytes=8 * 1024 * 1024 - 1)
