"""A log's folder however it was left: torn, killed, half compacted, with files missing or wrong."""

from __future__ import annotations

import json
import re
import shutil
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_common.errors import OutOfOrderSequence
from replica_manager.log.leader_epoch_file_cache import EpochEntry
from replica_manager.log.log_config import LogConfig
from replica_manager.log.log_loading import RecoveryProgress
from replica_manager.log.producer_snapshots import SnapshotCorrupt, decode_snapshot, encode_snapshot
from replica_manager.log.producer_state_manager import BatchMetadata, ProducerEntry
from replica_manager.log.unified_log import UnifiedLog
from tests.support.log_world import (
    START_MS,
    LogWorld,
    at,
    base_offsets,
    batch,
    content,
    end_transaction,
    files,
    offset_by_timestamp,
    offsets,
    read,
)
from tests.support.paths import WIRE_DATA

SEGMENT_BYTES = 3 * len(batch(2))


@pytest.fixture
def world(tmp_path: Path) -> LogWorld:
    return LogWorld(
        tmp_path / "orders-0", LogConfig(segment_bytes=SEGMENT_BYTES, index_interval_bytes=50)
    )


def filled(world: LogWorld, batches: int = 10) -> UnifiedLog:
    log = world.open()
    for i in range(batches):
        log.append_as_leader(
            batch(2, timestamp=START_MS + i, producer_id=7, producer_epoch=0, base_sequence=2 * i),
            i // 4,
        )
    return log


def kill(log: UnifiedLog, world: LogWorld) -> None:
    """The broker is killed: what is in the page cache stays, what is in memory is lost."""
    del log
    list(world.environment.deferred_tasks.take_due(2**62))


def tree(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_log_closed_is_a_log_opened(world: LogWorld) -> None:
    log = filled(world)
    log.close()
    before = tree(world.directory)

    again = world.open()

    assert (again.log_end_offset, again.recovery_point) == (20, 20)
    assert base_offsets(again) == [0, 6, 12, 18]
    assert again.epoch_entries == log.epoch_entries
    assert again.producers.entry(7).last_sequence == 19
    assert tree(world.directory) == before


def test_a_killed_log_recovers_indexes_epochs_and_producers(world: LogWorld) -> None:
    log = filled(world)
    expected = content(log)
    kill(log, world)
    assert files(world.directory, "checkpoint") == []

    again = world.open(clean=False)

    assert content(again) == expected
    assert again.epoch_entries == (EpochEntry(0, 0), EpochEntry(1, 8), EpochEntry(2, 16))
    assert again.producers.entry(7).last_sequence == 19
    with pytest.raises(OutOfOrderSequence):
        again.append_as_leader(batch(producer_id=7, producer_epoch=0, base_sequence=25), 3)


def test_indexes_built_again_equal_those_that_were_written(world: LogWorld) -> None:
    log = filled(world)
    log.close()
    names = files(world.directory, "index")
    before = {name: (world.directory / name).read_bytes() for name in names}
    for name in names:
        (world.directory / name).unlink()

    again = world.open()
    again.close()

    assert any(before.values())
    assert {name: (world.directory / name).read_bytes() for name in names} == before


def test_a_tail_torn_at_any_byte_costs_the_last_batch_and_nothing_else(world: LogWorld) -> None:
    log = filled(world, 9)
    kill(log, world)
    last = world.directory / f"{12:020d}.log"
    whole = last.read_bytes()
    size = len(batch(2))

    for cut in range(size):
        last.write_bytes(whole[: len(whole) - size + cut])
        again = world.open(clean=False)
        assert [offset for offset, _ in content(again)] == list(range(16))
        assert (again.log_end_offset, again.producers.entry(7).last_sequence) == (16, 15)
        assert last.stat().st_size == len(whole) - size
        kill(again, world)


def test_a_flipped_bit_in_the_last_batch_costs_that_batch(world: LogWorld) -> None:
    log = filled(world, 9)
    kill(log, world)
    last = world.directory / f"{12:020d}.log"
    whole = last.read_bytes()
    size = len(batch(2))
    uncovered = range(12, 16)  # the leader epoch; like the base offset outside of the checksum

    for place in (*range(8, 30), *range(30, size, 9)):
        torn = bytearray(whole)
        torn[len(whole) - size + place] ^= 0x40
        last.write_bytes(torn)
        again = world.open(clean=False)
        if place not in uncovered:
            assert again.log_end_offset == 16, place
        kill(again, world)
        (world.directory / "leader-epoch-checkpoint").unlink(missing_ok=True)


def test_a_length_of_two_billion_at_the_end_is_cut_off(world: LogWorld) -> None:
    log = filled(world, 2)
    kill(log, world)
    with (world.directory / f"{0:020d}.log").open("ab") as file:
        file.write(bytes(8) + b"\x7f\xff\xff\xff" + bytes(4) + b"\x02" + bytes(100))

    assert world.open(clean=False).log_end_offset == 4


def test_a_wrong_length_of_many_megabytes_costs_no_memory(world: LogWorld) -> None:
    kill(filled(world, 2), world)
    path = world.directory / f"{0:020d}.log"
    wrong = bytearray(batch(2))
    size = 100 * 1024 * 1024
    wrong[8:12] = size.to_bytes(4, "big")
    with path.open("ab") as file:
        file.write(wrong)
        file.truncate(file.tell() + size)

    tracemalloc.start()
    log = world.open(clean=False)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert log.log_end_offset == 4
    assert peak < 16 * 1024 * 1024


def test_a_batch_of_many_megabytes_is_recovered(world: LogWorld) -> None:
    world.config = LogConfig(max_message_bytes=2**30)
    log = world.open()
    log.append_as_leader(batch(1, size=9 * 1024 * 1024), 0)
    log.append_as_leader(batch(), 0)
    kill(log, world)

    assert world.open(clean=False).log_end_offset == 2


def test_zeros_at_the_end_are_cut_off(world: LogWorld) -> None:
    log = filled(world, 2)
    kill(log, world)
    with (world.directory / f"{0:020d}.log").open("ab") as file:
        file.write(bytes(10_000))

    again = world.open(clean=False)

    assert again.log_end_offset == 4
    again.append_as_leader(batch(2), 5)
    assert offsets(read(again, 4)) == [4, 5]


@pytest.mark.parametrize("tail", [bytes(40), b"\xff" * 40, batch(2)[:-1]])
def test_bytes_behind_the_last_batch_are_cut_off_even_after_a_clean_stop(
    world: LogWorld, tail: bytes
) -> None:
    filled(world, 2).close()
    with (world.directory / f"{0:020d}.log").open("ab") as file:
        file.write(tail)

    log = world.open()
    log.append_as_leader(batch(2), 0)

    assert [offset for offset, _ in content(log)] == list(range(6))


def test_a_log_of_old_messages_is_served_and_recovered(world: LogWorld) -> None:
    kafkas = json.loads((WIRE_DATA / "record-batches-3.9.1.json").read_text())
    world.config = replace(world.config, segment_bytes=10_000)
    world.directory.mkdir()
    old = bytes.fromhex(kafkas["magic-1-none"]) + bytes.fromhex(
        # The wrapper's offset is its last message's: three messages from 8 on.
        f"{10:016x}" + kafkas["magic-1-gzip"][16:]
    )
    (world.directory / f"{0:020d}.log").write_bytes(old)

    log = world.open(clean=False)

    assert log.log_end_offset == 11
    log.append_as_leader(batch(2), 0)
    found = read(log, 9)
    assert found.slice is not None
    assert found.slice.read().startswith(bytes.fromhex(f"{10:016x}"))
    by_time = offset_by_timestamp(log, 1700000009999)
    assert by_time is not None
    assert by_time.offset == 7
    assert log.epoch_entries == (EpochEntry(0, 11),)


def test_what_follows_a_corrupt_segment_goes_with_it(world: LogWorld) -> None:
    log = filled(world)
    kill(log, world)
    middle = world.directory / f"{6:020d}.log"
    damaged = bytearray(middle.read_bytes())
    damaged[len(batch(2)) + 70] ^= 1
    middle.write_bytes(damaged)

    again = world.open(clean=False)

    assert base_offsets(again) == [0, 6]
    assert again.log_end_offset == 8
    assert again.epoch_entries == (EpochEntry(0, 0),)


def test_segments_before_the_recovery_point_are_not_read(world: LogWorld) -> None:
    log = filled(world)
    log.close()
    first = world.directory / f"{0:020d}.log"
    damaged = bytearray(first.read_bytes())
    damaged[70] ^= 1
    first.write_bytes(damaged)

    again = world.open(clean=False, recovery_point=20)

    assert (again.log_end_offset, again.recovery_point) == (20, 20)


def test_the_recovery_point_is_never_past_the_end(world: LogWorld) -> None:
    kill(filled(world, 2), world)

    assert world.open(clean=False, recovery_point=99).recovery_point == 4


def test_progress_is_reported_segment_by_segment(world: LogWorld) -> None:
    kill(filled(world), world)
    told: list[RecoveryProgress] = []

    UnifiedLog.open(
        world.directory,
        world.config,
        world.environment,
        had_clean_shutdown=False,
        on_progress=told.append,
    )

    assert [(p.recovered_segments, p.segments) for p in told] == [(i, 4) for i in range(5)]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", [b"", b"abc", bytes(4800), b"\xff" * 24])
def test_a_wrong_index_is_built_again_even_after_a_clean_stop(
    world: LogWorld, suffix: str, damage: bytes
) -> None:
    log = filled(world)
    expected = content(log)
    log.close()
    path = world.directory / f"{6:020d}{suffix}"
    path.write_bytes(damage)

    again = world.open()

    assert content(again) == expected
    assert [offsets(read(again, i, max_bytes=1))[0] for i in range(6, 12, 2)] == [6, 8, 10]
    found = offset_by_timestamp(again, START_MS + 5)
    assert found is not None
    assert found.offset == 10


def test_an_index_without_its_log_is_removed(world: LogWorld) -> None:
    filled(world, 1).close()
    (world.directory / f"{500:020d}.index").write_bytes(b"")
    (world.directory / f"{500:020d}.timeindex").write_bytes(b"")

    world.open()

    assert files(world.directory, "index") == [f"{0:020d}.index", f"{0:020d}.timeindex"]


def test_leftovers_of_deletion_and_compaction_are_removed(world: LogWorld) -> None:
    filled(world, 1).close()
    for name in (f"{9:020d}.log.deleted", f"{0:020d}.log.cleaned", f"{0:020d}.index.cleaned"):
        (world.directory / name).write_bytes(b"left over")

    assert world.open().log_end_offset == 2
    assert files(world.directory, ".deleted") + files(world.directory, ".cleaned") == []


def test_a_replacement_that_was_interrupted_is_completed(world: LogWorld) -> None:
    log = filled(world)
    log.close()
    # Segments 0 and 6 were compacted into one with a single batch, and the broker was killed.
    replacement = world.directory / f"{0:020d}.log.swap"
    replacement.write_bytes(at(10, batch(2)))
    shutil.copy(replacement, world.directory.parent / "copy")

    again = world.open(clean=False, recovery_point=20)

    assert base_offsets(again) == [0, 12, 18]
    assert [offset for offset, _ in content(again)] == [10, 11, *range(12, 20)]


def test_a_swap_file_of_a_split_that_was_interrupted_is_dropped(world: LogWorld) -> None:
    log = filled(world, 2)
    expected = content(log)
    log.close()
    (world.directory / f"{0:020d}.log.cleaned").write_bytes(b"half")
    (world.directory / f"{2:020d}.log.swap").write_bytes(at(2, batch(2)))

    assert content(world.open()) == expected


def test_a_segment_with_offsets_too_far_apart_is_split(world: LogWorld) -> None:
    world.directory.mkdir()
    path = world.directory / f"{0:020d}.log"
    batches = [at(0, batch()), at(9, batch()), at(2**31 + 5, batch()), at(2**32 + 9, batch())]
    path.write_bytes(b"".join(batches))

    log = world.open(clean=False)

    assert base_offsets(log) == [0, 2**31 + 5, 2**32 + 9]
    assert [offset for offset, _ in content(log)] == [0, 9, 2**31 + 5, 2**32 + 9]
    assert files(world.directory, ".swap") + files(world.directory, ".cleaned") == []


def test_batches_that_are_in_the_last_segment_twice_are_cut_off(world: LogWorld) -> None:
    log = filled(world, 1)
    log.append_as_leader(
        batch(producer_id=8, producer_epoch=0, base_sequence=0, is_transactional=True), 1
    )
    end_transaction(log, 8, commit=False)
    kept = content(log)
    kill(log, world)
    path = world.directory / files(world.directory, ".log")[-1]
    path.write_bytes(path.read_bytes() * 2)

    log = world.open(clean=False)

    assert (content(log), log.log_end_offset) == (kept, 4)


def test_a_segment_whose_offsets_fall_behind_a_large_one_is_split_up_to_there(
    world: LogWorld,
) -> None:
    log = filled(world, 3)
    kill(log, world)
    path = world.directory / files(world.directory, ".log")[-1]
    damaged = bytearray(path.read_bytes())
    damaged[:8] = (2**40).to_bytes(8, "big")  # the first batch's offset, which no checksum covers
    path.write_bytes(damaged)

    log = world.open(clean=False)

    assert log.log_end_offset == 2**40 + 2
    log.append_as_leader(batch(2), 1)
    assert log.log_end_offset == 2**40 + 4


def test_epochs_that_cannot_be_read_are_found_in_what_is_recovered(world: LogWorld) -> None:
    log = filled(world)
    log.close()
    (world.directory / "leader-epoch-checkpoint").write_text("0\n7\nnonsense\n")

    again = world.open(clean=False)

    assert again.epoch_entries == log.epoch_entries


def test_transactions_are_recovered_with_the_segment_that_they_end_in(world: LogWorld) -> None:
    log = world.open()
    log.append_as_leader(
        batch(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True), 0
    )
    log.append_as_leader(
        batch(producer_id=8, producer_epoch=0, base_sequence=0, is_transactional=True), 0
    )
    log.roll()
    end_transaction(log, 7, commit=False, coordinator_epoch=3)
    expected = [segment.transaction_index.entries() for segment in log.segments]
    kill(log, world)

    again = world.open(clean=False)

    assert [segment.transaction_index.entries() for segment in again.segments] == expected
    assert again.producers.entry(8).transaction_first_offset == 1
    assert again.producers.entry(7).coordinator_epoch == 3
    again.update_high_watermark(3)
    assert again.last_stable_offset == 1


def test_a_snapshot_is_taken_at_each_roll_and_the_latest_beyond(world: LogWorld) -> None:
    log = filled(world)
    log.close()

    assert files(world.directory, ".snapshot") == [
        f"{offset:020d}.snapshot" for offset in (6, 12, 18, 20)
    ]


def test_snapshots_past_the_end_and_strays_are_removed_at_load(world: LogWorld) -> None:
    filled(world).close()
    for offset in (7, 9, 99):
        (world.directory / f"{offset:020d}.snapshot").write_bytes(encode_snapshot([]))

    log = world.open()

    assert files(world.directory, ".snapshot") == [
        f"{offset:020d}.snapshot" for offset in (6, 12, 18, 20)
    ]
    assert log.producers.entry(7).last_sequence == 19


def test_a_snapshot_goes_with_its_segment(world: LogWorld) -> None:
    log = filled(world)

    log.truncate_to(7)
    world.do_deferred_tasks()

    assert files(world.directory, ".snapshot") == [f"{offset:020d}.snapshot" for offset in (6, 7)]


def test_a_corrupt_snapshot_gives_way_to_an_older_one_and_the_log(world: LogWorld) -> None:
    filled(world).close()
    for offset in (18, 20):
        (world.directory / f"{offset:020d}.snapshot").write_bytes(b"\x00\x01corrupt")

    log = world.open()

    assert log.producers.entry(7).last_sequence == 19


def test_a_snapshot_is_what_it_was_or_corrupt() -> None:
    entries = [
        ProducerEntry(7, 3, 2, START_MS, 44, (BatchMetadata(9, 50, 4, START_MS),)),
        ProducerEntry(8, 0, -1, -1, None, ()),
    ]
    data = encode_snapshot(entries)

    assert decode_snapshot(data) == entries
    assert len(data) == 10 + 2 * 46
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 1
        with pytest.raises(SnapshotCorrupt):
            decode_snapshot(bytes(damaged))
    for end in range(len(data)):
        with pytest.raises(SnapshotCorrupt):
            decode_snapshot(data[:end])


@pytest.mark.parametrize("stale_start", [4, 6], ids=["at the cut", "behind it"])
def test_an_epoch_that_was_cut_off_does_not_hide_an_older_one_appended_since(
    world: LogWorld, stale_start: int
) -> None:
    """The list of epochs is written later than the log: a kill leaves the one of before."""
    log = world.open()
    for base, epoch in ((0, 1), (2, 1), (4, 6)):
        log.append_as_follower(at(base, batch(2), epoch=epoch))
    kill(log, world)
    stale = f"0\n2\n1 0\n7 {stale_start}\n"
    (world.directory / "leader-epoch-checkpoint").write_text(stale)

    again = world.open(clean=False)

    assert again.epoch_entries == (EpochEntry(1, 0), EpochEntry(6, 4))
    assert again.latest_epoch == 6


def test_the_log_says_where_the_states_of_producers_come_from(
    world: LogWorld, caplog: pytest.LogCaptureFixture
) -> None:
    """With Kafka's lines: of a new log, of one opened again, and of one that is truncated."""
    caplog.set_level("INFO")

    def lines() -> list[str]:
        texts = [re.sub(r"\d+( ?ms)", r"0\1", each.getMessage()) for each in caplog.records]
        caplog.clear()
        about = ("roducer", "Truncating")
        return [each for each in texts if any(word in each for word in about)]

    parent = world.directory.parent
    loader = f"[LogLoader partition=orders-0, dir={parent}]"
    unified = f"[UnifiedLog partition=orders-0, dir={parent}]"
    states = "[ProducerStateManager partition=orders-0]"
    snapshot = world.directory / "00000000000000000008.snapshot"

    def rebuilt(prefix: str, end: int) -> list[str]:
        return [
            f"{prefix} Loading producer state till offset {end} with message format version 2",
            f"{prefix} Reloading from producer snapshot and rebuilding producer state from offset"
            f" {end}",
        ]

    def took(prefix: str, end: int) -> str:
        times = "0ms for snapshot load and 0ms for segment recovery from offset"
        return f"{prefix} Producer state recovery took {times} {end}"

    log = filled(world, 4)
    first, rolled = lines()
    assert first == rebuilt(loader, 0)[0]
    assert rolled == f"{states} Wrote producer snapshot at offset 6 with 1 producer ids in 0 ms."
    log.close()
    written = f"{states} Wrote producer snapshot at offset 8 with 1 producer ids in 0 ms."
    assert lines() == [written]

    again = world.open()
    loaded = f"{states} Loading producer state from snapshot file"
    assert lines() == [
        *rebuilt(loader, 8),
        f"{loaded} 'SnapshotFile(offset=8, file={snapshot})'",
        took(loader, 8),
    ]
    again.truncate_to(7)
    truncated = lines()
    assert truncated[:3] == [f"{unified} Truncating to offset 7", *rebuilt(unified, 7)]
    assert f"Deleted producer state snapshot {snapshot}" in truncated
    assert truncated[-1] == took(unified, 7)
