"""Snapshots beside the metadata log: written, downloaded, cleaned, found again."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kafka_common.errors import CorruptRecord, KafkaStorage, RaftFatal
from kraft.metadata.metadata_batches import encode_control_batch
from kraft.node.metadata_log import FOLDER, KafkaMetadataLog
from kraft.node.metadata_log_config import MetadataLogConfig
from kraft.node.snapshot_files import SnapshotWriter, parse_name
from kraft.raft.control_records import SnapshotFooter, SnapshotHeader
from kraft.raft.raft_log import LogPosition, validate_position
from kraft.raft.values import OffsetAndEpoch
from tests.support.log_world import START_MS
from tests.unit.kraft.raft.log_files import batch, filled, opened

SMALL: MetadataLogConfig = MetadataLogConfig(
    segment_bytes=200, segment_min_bytes=12, retention_max_bytes=-1, retention_ms=-1
)


def snapshot_of(timestamp: int = START_MS, padding: int = 0) -> bytes:
    header = encode_control_batch(
        [SnapshotHeader(timestamp)], base_offset=0, epoch=1, timestamp=timestamp
    )
    footer = encode_control_batch([SnapshotFooter()], base_offset=1, epoch=1, timestamp=timestamp)
    return header + footer + b"\0" * padding


def add_snapshot(
    log: KafkaMetadataLog, offset: int, epoch: int, content: bytes | None = None
) -> None:
    writer = log.create_snapshot(OffsetAndEpoch(offset, epoch))
    assert writer is not None
    writer.append(snapshot_of() if content is None else content)
    writer.freeze()
    log.add_snapshot(writer)


def download(log: KafkaMetadataLog, offset: int, epoch: int) -> None:
    log.begin_download(OffsetAndEpoch(offset, epoch))
    assert log.append_download(snapshot_of()) == len(snapshot_of())
    log.finish_download()


def names(directory: Path, pattern: str = "*.checkpoint*") -> list[str]:
    return sorted(path.name for path in (directory / FOLDER).glob(pattern))


def committed(directory: Path, *epochs: int, config: MetadataLogConfig = SMALL) -> KafkaMetadataLog:
    log = opened(directory, config)
    for offset, epoch in enumerate(epochs):
        log.append_as_leader(batch(offset, epoch, b"x" * 100), epoch)
    log.update_high_watermark(len(epochs))
    return log


def test_names_are_twenty_and_ten_digits() -> None:
    assert parse_name("00000000000000000042-0000000003.checkpoint") == ((42, 3), False, False)
    assert parse_name("00000000000000000042-0000000003-x1.checkpoint.part") == (
        (42, 3),
        True,
        False,
    )
    assert parse_name("00000000000000000042-0000000003.checkpoint.deleted") == (
        (42, 3),
        False,
        True,
    )
    for other in (
        "bootstrap.checkpoint",
        "42-3.checkpoint",
        "00000000000000000042.snapshot",
        "99999999999999999999-0000000003.checkpoint",
        "00000000000000000042-4294967296.checkpoint",
    ):
        assert parse_name(other) is None


def test_a_frozen_snapshot_has_its_name_and_is_read_only(tmp_path: Path) -> None:
    log = committed(tmp_path, 1, 1, 2)
    writer = log.create_snapshot(OffsetAndEpoch(3, 2))
    assert writer is not None
    assert writer.append(b"ab") == 2
    assert [name.endswith(".checkpoint.part") for name in names(tmp_path)] == [True]

    writer.freeze()
    log.add_snapshot(writer)

    assert names(tmp_path) == ["00000000000000000003-0000000002.checkpoint"]
    path = tmp_path / FOLDER / names(tmp_path)[0]
    assert stat.S_IMODE(path.stat().st_mode) == 0o400
    assert log.latest_snapshot_id == log.earliest_snapshot_id == OffsetAndEpoch(3, 2)
    with pytest.raises(AssertionError):
        writer.append(b"c")


def test_a_writer_that_is_closed_before_it_is_frozen_leaves_nothing(tmp_path: Path) -> None:
    log = committed(tmp_path, 1)
    writer = log.create_snapshot(OffsetAndEpoch(1, 1))
    assert writer is not None
    writer.append(b"ab")

    writer.close()

    assert names(tmp_path) == []
    assert log.latest_snapshot_id is None


def test_a_snapshot_above_the_high_watermark_is_refused(tmp_path: Path) -> None:
    log = filled(tmp_path, 1, 1, 1)
    log.update_high_watermark(2)

    with pytest.raises(ValueError, match="greater than the high-watermark"):
        log.create_snapshot(OffsetAndEpoch(3, 1))


@pytest.mark.parametrize("snapshot_id", [(2, 2), (3, 1), (4, 9)])
def test_a_snapshot_of_an_epoch_that_is_not_the_offsets_is_refused(
    tmp_path: Path, snapshot_id: tuple[int, int]
) -> None:
    log = committed(tmp_path, 1, 1, 3, 3)

    with pytest.raises(ValueError, match="not valid according to the log"):
        log.create_snapshot(OffsetAndEpoch(*snapshot_id))


def test_a_snapshot_below_the_start_or_one_that_exists_is_not_needed(tmp_path: Path) -> None:
    log = committed(tmp_path, 1, 1)
    add_snapshot(log, 2, 1)
    assert log.create_snapshot(OffsetAndEpoch(2, 1)) is None

    download(log, 10, 4)
    assert log.create_snapshot(OffsetAndEpoch(2, 1)) is None


def test_partial_reads_give_the_file(tmp_path: Path) -> None:
    log = committed(tmp_path, 1)
    content = bytes(range(250))
    add_snapshot(log, 1, 1, content)
    snapshot_id = OffsetAndEpoch(1, 1)

    read = b""
    while part := log.read_snapshot(snapshot_id, len(read), 7):
        read += part
        assert log.snapshot_bytes(snapshot_id) == len(content)

    assert read == content
    assert log.snapshot_bytes(OffsetAndEpoch(1, 2)) is None
    with pytest.raises(KafkaStorage):
        log.read_snapshot(OffsetAndEpoch(1, 2), 0, 7)


def test_a_finished_download_restarts_the_log_at_its_end(tmp_path: Path) -> None:
    log = committed(tmp_path, 1, 1)
    add_snapshot(log, 1, 1)

    download(log, 50, 3)

    assert (log.start_offset, log.end_offset, log.high_watermark) == (50, 50, 50)
    assert log.last_epoch == 3
    assert log.end_offset_for_epoch(3) == OffsetAndEpoch(50, 3)
    assert log.end_offset_for_epoch(2) == OffsetAndEpoch(50, 3)
    assert log.earliest_snapshot_id == log.latest_snapshot_id == OffsetAndEpoch(50, 3)
    log.append_as_follower(batch(50, 4), 4)
    assert log.end_offset_for_epoch(3) == OffsetAndEpoch(50, 3)
    assert log.end_offset_for_epoch(4) == OffsetAndEpoch(51, 4)


def test_a_download_below_what_is_committed_is_a_contradiction(tmp_path: Path) -> None:
    log = committed(tmp_path, 1, 1)

    with pytest.raises(RaftFatal, match="the high watermark is 2"):
        download(log, 1, 1)


def test_a_download_of_an_older_epoch_than_the_last_record_restarts_the_log(tmp_path: Path) -> None:
    log = committed(tmp_path, 1, 1)
    log.append_as_follower(batch(2, 4), 4)

    download(log, 3, 1)

    assert (log.start_offset, log.end_offset, log.high_watermark, log.last_epoch) == (3, 3, 3, 1)


def test_killed_between_such_a_download_and_the_restart_of_the_log(tmp_path: Path) -> None:
    log = committed(tmp_path, 1, 1)
    log.append_as_follower(batch(2, 4), 4)
    snapshot_id = OffsetAndEpoch(3, 1)
    writer = SnapshotWriter(log.directory, snapshot_id)
    writer.append(snapshot_of())
    writer.freeze()
    log.close()

    found = opened(tmp_path)
    assert found.snapshot_bytes(snapshot_id) == len(snapshot_of())
    found.restart_at(snapshot_id)

    assert (found.start_offset, found.end_offset, found.last_epoch) == (3, 3, 1)


def test_what_has_come_of_a_download_is_flushed_with_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = committed(tmp_path, 1)
    log.flush()
    synced: list[int] = []
    fsync = os.fsync

    def counting(descriptor: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            synced.append(os.fstat(descriptor).st_size)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", counting)
    log.begin_download(OffsetAndEpoch(50, 3))
    assert log.plan_flush() is None

    first_part, last_part = snapshot_of()[:40], snapshot_of()[40:]
    log.append_download(first_part)
    plan = log.plan_flush()
    assert plan is not None
    plan.run()
    log.finish_flush(plan)

    assert synced == [len(first_part)]
    assert log.plan_flush() is None
    log.append_download(last_part)
    log.finish_download()
    assert log.latest_snapshot_id == OffsetAndEpoch(50, 3)
    assert log.end_offset == 50


def test_a_download_that_is_dropped_or_begun_again_leaves_nothing(tmp_path: Path) -> None:
    log = committed(tmp_path, 1)
    log.begin_download(OffsetAndEpoch(9, 1))
    log.append_download(b"abc")

    log.begin_download(OffsetAndEpoch(12, 2))
    assert len(names(tmp_path)) == 1
    log.drop_download()
    log.drop_download()

    assert names(tmp_path) == []


def test_a_replica_in_front_of_the_start_is_sent_to_the_snapshot(tmp_path: Path) -> None:
    log = committed(tmp_path)
    download(log, 10, 2)
    log.append_as_follower(batch(10, 3), 3)
    snapshot = (LogPosition.SNAPSHOT, OffsetAndEpoch(10, 2))

    assert validate_position(log, 9, 2) == snapshot
    assert validate_position(log, 10, 1) == snapshot
    assert validate_position(log, 11, 1) == snapshot
    assert validate_position(log, 10, 2) == (LogPosition.VALID, OffsetAndEpoch(10, 2))
    assert validate_position(log, 11, 9) == (LogPosition.DIVERGING, OffsetAndEpoch(11, 3))


# Found at the start.


def test_what_is_partial_deleted_or_below_the_start_is_removed(tmp_path: Path) -> None:
    log = committed(tmp_path)
    download(log, 10, 2)
    log.close()
    folder = tmp_path / FOLDER
    for name in (
        "00000000000000000020-0000000002-7.checkpoint.part",
        "00000000000000000005-0000000001.checkpoint.deleted",
        "00000000000000000005-0000000001.checkpoint",
    ):
        (folder / name).write_bytes(b"")

    again = opened(tmp_path, SMALL)

    assert names(tmp_path) == ["00000000000000000010-0000000002.checkpoint"]
    assert (again.start_offset, again.end_offset, again.last_epoch) == (10, 10, 2)


def test_killed_between_a_download_and_the_restart_of_the_log(tmp_path: Path) -> None:
    committed(tmp_path, 1, 1).close()
    (tmp_path / FOLDER / "00000000000000000050-0000000003.checkpoint").write_bytes(snapshot_of())

    again = opened(tmp_path, SMALL)

    assert (again.start_offset, again.end_offset, again.high_watermark) == (50, 50, 50)
    assert again.last_epoch == 3


@pytest.mark.parametrize(
    "name", ["00000000000000000001-0000000001", "00000000000000000002-0000000001"]
)
def test_a_log_that_goes_beyond_its_snapshot_is_kept(tmp_path: Path, name: str) -> None:
    committed(tmp_path, 1, 1).close()
    (tmp_path / FOLDER / f"{name}.checkpoint").write_bytes(snapshot_of())

    again = opened(tmp_path, SMALL)

    assert (again.start_offset, again.end_offset) == (0, 2)


def test_a_log_that_begins_above_zero_without_a_snapshot_is_refused(tmp_path: Path) -> None:
    log = committed(tmp_path)
    download(log, 10, 2)
    log.append_as_follower(batch(10, 2), 2)
    log.close()
    (tmp_path / FOLDER / "00000000000000000010-0000000002.checkpoint").unlink()

    with pytest.raises(RaftFatal, match="there must be a snapshot at an offset larger"):
        opened(tmp_path, SMALL)
    assert len(names(tmp_path, "*.log")) == 1


# Cleaning.


def test_the_log_start_moves_to_the_next_snapshot_and_old_files_go(tmp_path: Path) -> None:
    log = committed(tmp_path, 1, 1, 1, 1, 1, 1, config=SMALL)
    add_snapshot(log, 2, 1)
    add_snapshot(log, 4, 1)
    limited = MetadataLogConfig(200, 12, retention_max_bytes=1, retention_ms=-1)
    log.close()
    log = opened(tmp_path, limited)
    log.update_high_watermark(6)

    assert log.clean(START_MS)

    assert log.start_offset == 4
    assert log.earliest_snapshot_id == log.latest_snapshot_id == OffsetAndEpoch(4, 1)
    assert names(tmp_path, "*.checkpoint") == ["00000000000000000004-0000000001.checkpoint"]
    assert "00000000000000000002-0000000001.checkpoint.deleted" in names(tmp_path)
    assert min(names(tmp_path, "*.log")) == "00000000000000000004.log"
    assert not log.clean(START_MS)

    for task in log.deferred_tasks.take_due(START_MS + 60_000):
        task.action()
    assert not names(tmp_path, "*.deleted")


def test_a_single_snapshot_is_never_cleaned(tmp_path: Path) -> None:
    log = committed(tmp_path, 1, 1, config=MetadataLogConfig(200, 12, retention_max_bytes=1))
    add_snapshot(log, 2, 1, snapshot_of(0))

    assert not log.clean(START_MS + 10**12)
    assert log.start_offset == 0


def test_nothing_is_cleaned_past_the_high_watermark(tmp_path: Path) -> None:
    log = committed(tmp_path, 1, 1, 1, 1)
    add_snapshot(log, 2, 1)
    add_snapshot(log, 4, 1)
    log.close()

    again = opened(tmp_path, MetadataLogConfig(200, 12, retention_max_bytes=1))

    assert again.high_watermark == 0
    assert not again.clean(START_MS)
    again.update_high_watermark(4)
    assert again.clean(START_MS)


def test_snapshots_whose_last_record_is_old_go(tmp_path: Path) -> None:
    config = MetadataLogConfig(200, 12, retention_max_bytes=-1, retention_ms=1_000)
    log = committed(tmp_path, 1, 1, 1, 1, 1, 1, config=config)
    for offset, timestamp in ((2, START_MS), (4, START_MS + 500), (6, START_MS + 900)):
        add_snapshot(log, offset, 1, snapshot_of(timestamp))

    assert not log.clean(START_MS + 1_000)
    assert log.clean(START_MS + 1_001)
    assert log.earliest_snapshot_id == OffsetAndEpoch(4, 1)
    assert log.clean(START_MS + 9_000)
    assert log.earliest_snapshot_id == OffsetAndEpoch(6, 1)
    assert not log.clean(START_MS + 9_000)


def test_only_as_many_snapshots_go_as_must(tmp_path: Path) -> None:
    log = committed(tmp_path, 1, 1, 1)
    for offset in (1, 2, 3):
        add_snapshot(log, offset, 1, snapshot_of(padding=10_000))
    log.close()
    log = opened(tmp_path, MetadataLogConfig(retention_max_bytes=22_000, retention_ms=-1))
    log.update_high_watermark(3)

    assert log.clean(START_MS)

    assert log.earliest_snapshot_id == OffsetAndEpoch(2, 1)


def test_a_snapshot_without_a_header_is_corrupt(tmp_path: Path) -> None:
    config = MetadataLogConfig(200, 12, retention_ms=1_000)
    log = committed(tmp_path, 1, 1, config=config)
    add_snapshot(log, 1, 1, batch(0, 1))
    add_snapshot(log, 2, 1)

    with pytest.raises(CorruptRecord, match="does not begin with a snapshot header"):
        log.clean(START_MS)


def test_the_start_is_the_snapshots_again_after_a_restart(tmp_path: Path) -> None:
    config = MetadataLogConfig(400, 12, retention_max_bytes=1)
    log = committed(tmp_path, 1, 1, 1, 1, 1, 1, config=config)
    first_bases = names(tmp_path, "*.log")
    add_snapshot(log, 1, 1)
    add_snapshot(log, 3, 1)
    assert log.clean(START_MS)
    assert log.start_offset == 3
    # The segment in whose middle the log begins is kept whole.
    assert first_bases[1] == "00000000000000000002.log" == min(names(tmp_path, "*.log"))
    log.close()

    again = opened(tmp_path, config)

    assert (again.start_offset, again.end_offset) == (3, 6)
    assert again.earliest_snapshot_id == OffsetAndEpoch(3, 1)


def test_the_snapshot_of_a_format_counts(tmp_path: Path) -> None:
    folder = tmp_path / FOLDER
    folder.mkdir(parents=True)
    (folder / "00000000000000000000-0000000000.checkpoint").write_bytes(snapshot_of(0))

    log = opened(tmp_path)

    assert log.latest_snapshot_id == OffsetAndEpoch(0, 0)
    assert (log.end_offset, log.last_epoch) == (0, 0)


def test_a_snapshot_that_comes_too_late_is_dropped(tmp_path: Path) -> None:
    log = committed(tmp_path, 1, 1)
    writer = log.create_snapshot(OffsetAndEpoch(1, 1))
    assert writer is not None
    writer.append(snapshot_of())
    download(log, 50, 3)

    writer.freeze()
    log.add_snapshot(writer)

    assert log.earliest_snapshot_id == OffsetAndEpoch(50, 3)
    assert names(tmp_path, "*.checkpoint") == ["00000000000000000050-0000000003.checkpoint"]
