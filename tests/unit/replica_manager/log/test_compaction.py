"""Compaction: the last record of each key stays, at its offset; what else may go, and when."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_common.model import TopicPartition
from kafka_common.observability.metrics import Metrics
from kafka_common.protocol.compression import Codec
from kafka_common.protocol.record_batch import (
    BatchHeader,
    encode_batch,
    iterate_batch,
    iterate_batches,
    read_header,
)
from kafka_common.protocol.records import Record
from replica_manager.broker.broker_gauges import register_cleaner_gauges
from replica_manager.log.checkpoints import read_offsets
from replica_manager.log.cleaner_manager import CleanerManager
from replica_manager.log.compaction import (
    ENTRY_BYTES,
    CleaningRound,
    OffsetMap,
    TransactionTracker,
    cleaned_batch,
)
from replica_manager.log.log_cleaner import clean, cleaning_job
from replica_manager.log.log_config import LogConfig
from replica_manager.log.log_manager import LogManager
from replica_manager.log.log_values import FetchIsolation
from replica_manager.log.segment import LogSegment
from replica_manager.log.unified_log import UnifiedLog
from tests.support.log_world import (
    START_MS,
    LogWorld,
    at,
    base_offsets,
    batch,
    end_transaction,
    files,
    offsets,
    read,
)
from tests.support.paths import WIRE_DATA

MEMORY = 2**20
COMPACTED = LogConfig(
    segment_bytes=400, is_compacted=True, is_deleted=False, min_cleanable_dirty_ratio=0.0
)
KAFKAS = json.loads((WIRE_DATA / "record-batches-3.9.1.json").read_text())


@pytest.fixture
def world(tmp_path: Path) -> LogWorld:
    return LogWorld(tmp_path / "orders-0", COMPACTED)


def put(log: UnifiedLog, *pairs: tuple[str, str | None], codec: Codec = Codec.NONE) -> None:
    records = [
        Record(i, START_MS, key.encode(), None if value is None else value.encode())
        for i, (key, value) in enumerate(pairs)
    ]
    log.append_as_leader(encode_batch(records, codec=codec), 0)
    log.update_high_watermark(log.log_end_offset)


def compact(log: UnifiedLog, world: LogWorld, checkpoint: int | None = None) -> int:
    cleaned = clean(cleaning_job(log, checkpoint, world.now_ms), MEMORY)
    assert log.replace_segments(cleaned.replacements, cleaned.generation)
    return cleaned.end_offset


def batches_in(log: UnifiedLog) -> Iterator[tuple[LogSegment, bytes, int, BatchHeader]]:
    for segment in log.segments:
        data = segment.file.read(0, segment.size)
        for place, header in iterate_batches(data):
            yield segment, data, place, header


def records_in(log: UnifiedLog) -> list[Record]:
    return [r for _, data, at, header in batches_in(log) for r in iterate_batch(data, at, header)]


def state(log: UnifiedLog) -> dict[bytes | None, bytes | None]:
    """What someone who reads the whole log knows in the end."""
    known = {record.key: record.value for record in records_in(log)}
    return {key: value for key, value in known.items() if value is not None}


def test_only_the_last_value_of_a_key_stays_at_its_offset(world: LogWorld) -> None:
    log = world.open()
    for i in range(20):
        put(log, ("a", f"{i}"), (f"b{i % 3}", f"{i}"))
    log.roll()
    before = state(log)

    assert compact(log, world) == 40

    assert state(log) == before
    assert [(r.offset, r.key) for r in records_in(log)] == [
        (35, b"b2"), (37, b"b0"), (38, b"a"), (39, b"b1"),
    ]  # fmt: skip
    assert log.log_end_offset == 40


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name.lower())
def test_batches_keep_their_codec(world: LogWorld, codec: Codec) -> None:
    log = world.open()
    for i in range(6):
        put(log, ("a", f"{i}"), ("b", f"{i}"), ("c", f"{i}"), codec=codec)
    log.roll()

    compact(log, world)

    kept = [header for *_, header in batches_in(log) if header.record_count]
    assert {header.codec for header in kept} == {codec}
    assert state(log) == {b"a": b"5", b"b": b"5", b"c": b"5"}


def test_the_active_segment_and_what_is_not_committed_stay(world: LogWorld) -> None:
    log = world.open()
    for i in range(30):
        put(log, ("a", f"{i}"))
    log.update_high_watermark(9)
    segments = base_offsets(log)

    job = cleaning_job(log, None, world.now_ms)

    # A segment of which a part is not committed stays as a whole.
    behind = [b for b in segments if b <= 9]
    assert job.first_uncleanable_offset == behind[-1]
    assert [s.base_offset for s in job.segments] == behind[:-1]
    assert log.active_segment not in job.segments


def test_a_consumer_sees_no_more_after_a_compaction_than_before(world: LogWorld) -> None:
    log = world.open()
    for i in range(30):
        put(log, ("a", f"{i}"))
    log.update_high_watermark(9)
    assert log.high_watermark_metadata.segment_base_offset < 9

    compact(log, world)

    segment = log.high_watermark_metadata.segment_base_offset
    cleaned = read(log, 0, isolation=FetchIsolation.HIGH_WATERMARK)
    assert offsets(cleaned) == [segment - 1]
    left = read(log, segment, isolation=FetchIsolation.HIGH_WATERMARK)
    assert offsets(left) == list(range(segment, 9))
    assert read(log, 9, isolation=FetchIsolation.HIGH_WATERMARK).slice is None


def not_committed(log: UnifiedLog) -> None:
    """Records of a segment that is not the active one are beyond the high watermark."""
    for number in range(5):
        put(log, ("a", f"{number}"))
    log.roll()
    log.update_high_watermark(3)


def with_open_transaction(log: UnifiedLog) -> None:
    for number in range(5):
        put(log, ("a", f"{number}"))
    write_in_transaction(log, 7, "t", "open")
    put(log, ("a", "behind it"))
    log.roll()


def with_gap(log: UnifiedLog) -> None:
    """A follower has copied from a log that was compacted: its segment ends before the next."""
    log.append_as_follower(at(0, batch(size=100), batch(size=100)))
    log.append_as_follower(at(100, batch(size=100)))
    log.update_high_watermark(log.log_end_offset)


@pytest.mark.parametrize("fill", [not_committed, with_open_transaction, with_gap])
def test_a_log_is_not_cleaned_again_and_again(
    executor: ThreadPoolExecutor, tmp_path: Path, fill: Callable[[UnifiedLog], None]
) -> None:
    manager = LogManager(
        [tmp_path], lambda: START_MS, default_config=COMPACTED, verifies_transactions=lambda: False
    )
    manager.load({})
    fill(manager.get_or_create(TopicPartition("orders", 0), COMPACTED))
    cleaner = CleanerManager(manager, executor, lambda: MEMORY)

    async def cleanings() -> int:
        done = 0
        while done < 5 and await cleaner.clean_next():
            done += 1
        return done

    assert asyncio.run(cleanings()) <= 1


def test_the_cleaner_deletes_what_retention_takes_from_compacted_logs(
    executor: ThreadPoolExecutor, tmp_path: Path
) -> None:
    manager = LogManager([tmp_path], lambda: START_MS + 5_000)
    manager.load({})
    configs = {
        "compacted": replace(COMPACTED, min_cleanable_dirty_ratio=1.0),
        "both": replace(COMPACTED, min_cleanable_dirty_ratio=1.0, is_deleted=True),
        "deleted": replace(COMPACTED, is_compacted=False, is_deleted=True),
    }
    for name, config in configs.items():
        log = manager.get_or_create(TopicPartition(name, 0), replace(config, retention_ms=1000))
        put(log, ("a", "1"))
        log.roll()
        put(log, ("a", "2"))

    def left() -> dict[str, list[int]]:
        return {tp.topic: base_offsets(log) for tp, log in manager.logs.items()}

    asyncio.run(CleanerManager(manager, executor, lambda: MEMORY).delete_old_segments())
    assert left() == {"compacted": [0, 1], "both": [2], "deleted": [0, 1]}
    manager.delete_old_segments()
    assert left() == {"compacted": [0, 1], "both": [2], "deleted": [2]}


def test_small_segments_are_merged(world: LogWorld) -> None:
    log = world.open()
    for i in range(60):
        put(log, ("a", f"{i}"))
    log.roll()
    assert len(base_offsets(log)) > 10
    end = compact(log, world)

    compact(log, world, end)
    put(log, ("a", "new"))
    log.roll()
    compact(log, world, end)

    assert len(base_offsets(log)) <= 3
    assert state(log) == {b"a": b"new"}


def test_records_younger_than_the_compaction_lag_stay(world: LogWorld) -> None:
    world.config = replace(COMPACTED, min_compaction_lag_ms=1000)
    log = world.open()
    for i in range(20):
        log.append_as_leader(batch(timestamp=START_MS + 100 * i), 0)
    log.roll()
    log.update_high_watermark(20)
    world.now_ms = START_MS + 2000

    job = cleaning_job(log, None, world.now_ms)

    young = next(s for s in log.segments if s.largest_timestamp > START_MS + 1000)
    assert job.first_uncleanable_offset == young.base_offset


def test_a_log_past_its_largest_lag_is_due_however_clean_it_is(world: LogWorld) -> None:
    world.config = replace(COMPACTED, max_compaction_lag_ms=1000, min_cleanable_dirty_ratio=1.0)
    log = world.open()
    put(log, ("a", "1"))
    log.roll()

    assert not cleaning_job(log, None, START_MS + 1000).dirtiness.is_due
    assert cleaning_job(log, None, START_MS + 1001).dirtiness.is_due
    assert not cleaning_job(log, 1, START_MS + 1001).dirtiness.is_due


def test_tombstones_stay_until_their_time_is_over(world: LogWorld) -> None:
    world.config = replace(COMPACTED, delete_retention_ms=1000)
    log = world.open()
    put(log, ("a", "1"), ("b", "1"))
    put(log, ("a", None))
    put(log, ("c", "1"))
    log.roll()

    end = compact(log, world)
    assert [(r.key, r.value) for r in records_in(log)] == [
        (b"b", b"1"), (b"a", None), (b"c", b"1"),
    ]  # fmt: skip
    horizons = [h.delete_horizon_ms for *_, h in batches_in(log)]
    assert horizons == [None, START_MS + 1000, None]

    world.now_ms = START_MS + 999
    put(log, ("d", "1"))
    log.roll()
    end = compact(log, world, end)
    assert any(record.value is None for record in records_in(log))

    world.now_ms = START_MS + 1000
    put(log, ("e", "1"))
    log.roll()
    compact(log, world, end)
    assert state(log) == {b"b": b"1", b"c": b"1", b"d": b"1", b"e": b"1"}
    assert all(record.value is not None for record in records_in(log))


def test_records_without_key_go(world: LogWorld) -> None:
    log = world.open()
    log.append_as_follower(
        encode_batch([Record(0, START_MS, None, b"x"), Record(1, START_MS, b"k", b"y")])
    )
    log.roll()
    log.update_high_watermark(2)

    compact(log, world)

    assert [record.key for record in records_in(log)] == [b"k"]


def test_the_last_sequence_of_a_producer_survives_its_records(world: LogWorld) -> None:
    log = world.open()
    for i in range(3):
        sent = batch(producer_id=7, producer_epoch=0, base_sequence=i)
        log.append_as_leader(sent, 0)
    put(log, ("key", "newer"))
    log.roll()

    compact(log, world)

    headers = [header for *_, header in batches_in(log)]
    assert [(h.base_offset, h.record_count, h.last_sequence) for h in headers] == [
        (2, 0, 2), (3, 1, -1),
    ]  # fmt: skip
    log.close()
    for path in world.directory.glob("*.snapshot"):
        path.unlink()
    again = world.open(clean=False)
    assert again.producers.entry(7).last_sequence == 2


def test_offsets_go_on_after_a_log_that_lost_its_last_records(world: LogWorld) -> None:
    log = world.open()
    put(log, ("a", "1"))
    put(log, ("a", None))
    log.roll()
    world.config = replace(COMPACTED, delete_retention_ms=0)
    log.update_config(world.config)
    compact(log, world)
    put(log, ("b", "1"))
    log.roll()

    compact(log, world, 2)

    log.close()
    assert state(world.open(clean=False)) == {b"b": b"1"}
    assert world.open(clean=False).log_end_offset == 3


def test_aborted_records_go_and_their_markers_follow_when_nothing_is_left(world: LogWorld) -> None:
    world.config = replace(COMPACTED, delete_retention_ms=1000)
    log = world.open()
    for producer_id, commit in ((7, False), (8, True)):
        sent = batch(
            key=b"k%d" % producer_id,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        log.append_as_leader(sent, 0)
        end_transaction(log, producer_id, commit=commit)
    put(log, ("z", "1"))
    log.roll()

    end = compact(log, world)

    kept = [(h.base_offset, h.is_control, h.record_count) for *_, h in batches_in(log)]
    assert kept == [(0, False, 0), (1, True, 1), (2, False, 1), (3, True, 1), (4, False, 1)]
    assert [t.first_offset for s in log.segments for t in s.transaction_index.entries()] == [0]

    log.producers.clear(log.log_end_offset)  # both producers are forgotten, long silent
    # The records' header goes first, then the marker gets its time, then it goes.
    for wait_ms in (0, 0, 1000):
        world.now_ms += wait_ms
        put(log, ("y", "1"))
        log.roll()
        end = compact(log, world, end)
    left = [(h.base_offset, h.is_control) for *_, h in batches_in(log) if h.base_offset < 4]
    assert left == [(2, False), (3, True)]


def test_an_empty_batch_equals_kafkas() -> None:
    kafkas = bytes.fromhex(KAFKAS["empty"])
    header = read_header(kafkas)
    assert header is not None

    ours = encode_batch(
        [],
        base_offset=42,
        last_offset=45,
        partition_leader_epoch=7,
        producer_id=4711,
        producer_epoch=3,
        base_sequence=5,
        is_transactional=True,
        max_timestamp=header.max_timestamp,
    )

    assert ours == kafkas


def test_a_compacted_batch_equals_kafkas() -> None:
    plain = bytes.fromhex(KAFKAS["plain-none"])
    header = read_header(plain)
    assert header is not None
    records = [
        record._replace(offset=record.offset + 20) for record in iterate_batch(plain, 0, header)
    ]
    data = encode_batch(records)
    moved = read_header(data)
    assert moved is not None
    newest = OffsetMap(MEMORY)
    newest.latest_offset = 23
    for record in records:
        if record.key is not None:
            newest.put(record.key, record.offset if record.value is None else 99)
    around = CleaningRound(newest, 1700000100000, 5000, {})

    ours = cleaned_batch(data, 0, moved, around, TransactionTracker([]))

    assert ours is not None
    assert ours.hex() == KAFKAS["compacted"]


def test_a_full_offset_map_ends_the_round_and_the_next_goes_on(world: LogWorld) -> None:
    log = world.open()
    for i in range(60):
        put(log, (f"key-{i % 20}", f"{i}"))
    log.roll()
    before = state(log)
    rounds = 0
    checkpoint = None
    while (
        job := cleaning_job(log, checkpoint, world.now_ms)
    ).dirtiness.cleanable_bytes and rounds < 60:
        cleaned = clean(job, 192 * 7)
        assert log.replace_segments(cleaned.replacements, cleaned.generation)
        assert checkpoint is None or cleaned.end_offset > checkpoint
        checkpoint = cleaned.end_offset
        rounds += 1
        assert state(log) == before

    assert checkpoint == 60
    assert rounds > 3


def test_segments_that_changed_meanwhile_are_not_replaced(world: LogWorld) -> None:
    log = world.open()
    for i in range(20):
        put(log, ("a", f"{i}"))
    cleaned = clean(cleaning_job(log, None, world.now_ms), MEMORY)

    log.truncate_to(3)

    assert not log.replace_segments(cleaned.replacements, cleaned.generation)
    assert len(records_in(log)) == 3


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from("abcdefgh"), st.sampled_from([None, "1", "22", "333" * 9])),
            min_size=1,
            max_size=6,
        ),
        min_size=1,
        max_size=25,
    ),
    st.lists(st.integers(0, 24), max_size=4),
)
def test_compaction_never_changes_what_a_reader_ends_up_with(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[tuple[str, str | None]]],
    rounds: list[int],
) -> None:
    world = LogWorld(
        tmp_path_factory.mktemp("log") / "orders-0", replace(COMPACTED, delete_retention_ms=1000)
    )
    log = world.open()
    checkpoint = None
    for number, pairs in enumerate(batches):
        put(log, *pairs)
        if number in rounds:
            before = state(log)
            world.now_ms += 600
            checkpoint = compact(log, world, checkpoint)
            assert state(log) == before
    before, end = state(log), log.log_end_offset

    log.close()
    again = world.open(clean=False)

    assert (state(again), again.log_end_offset) == (before, end)
    kept = [record.offset for record in records_in(again)]
    assert kept == sorted(set(kept))


def test_old_messages_become_batches_with_their_offsets_when_they_are_compacted(
    world: LogWorld,
) -> None:
    world.directory.mkdir()
    old = bytes.fromhex(KAFKAS["magic-1-none"])
    (world.directory / f"{0:020d}.log").write_bytes(old)
    log = world.open(clean=False)
    log.update_high_watermark(log.log_end_offset)
    log.roll()
    before = log.log_end_offset

    compact(log, world)

    kept = {header.magic for _, _, _, header in batches_in(log)}
    assert kept == {2}
    assert log.log_end_offset == before
    assert [(r.offset, r.value) for r in records_in(log)] == [(5, b"first value"), (7, None)]


def test_the_manager_cleans_the_dirtiest_and_remembers_how_far(
    executor: ThreadPoolExecutor, tmp_path: Path
) -> None:
    manager = LogManager([tmp_path], lambda: START_MS)
    manager.load({})
    config = replace(COMPACTED, min_cleanable_dirty_ratio=0.5)
    logs = {}
    for name, count in (("small", 3), ("large", 30), ("plain", 30)):
        topic_partition = TopicPartition(name, 0)
        logs[name] = manager.get_or_create(
            topic_partition, replace(config, is_compacted=name != "plain")
        )
        for i in range(count):
            put(logs[name], ("a", f"{i}"))
        logs[name].roll()
    cleaner = CleanerManager(manager, executor, lambda: MEMORY)

    async def clean_everything() -> int:
        done = 0
        while done < 9 and await cleaner.clean_next():
            done += 1
        return done

    assert asyncio.run(clean_everything()) == 2

    last = cleaner.last_cleaning
    clean = logs["large"].size
    assert last.written_bytes == clean
    assert last.read_bytes > 29 * clean
    assert last.recopied_percent == 3
    assert last.map_share == 1 / (MEMORY // ENTRY_BYTES)
    assert last.indexed_bytes == last.read_bytes
    assert 0 < last.indexing_s < last.duration_s
    assert (last.read_records, last.written_records) == (30, 1)
    assert last._replace(duration_s=2.0, indexing_s=0.5, read_bytes=3 * 2**20).text(
        "large-0"
    ).splitlines() == [
        "",
        "\tLog cleaner thread 0 cleaned log large-0 (dirty section = [0, 30])",
        "\t3.0 MB of log processed in 2.0 seconds (1.5 MB/sec).",
        "\tIndexed 0.0 MB in 0.5 seconds (0.0 Mb/sec, 25.0% of total time)",
        "\tBuffer utilization: 0.0%",
        "\tCleaned 3.0 MB in 1.5 seconds (2.0 Mb/sec, 75.0% of total time)",
        "\tStart size: 3.0 MB (30 messages)",
        "\tEnd size: 0.0 MB (1 messages)",
        "\t100.0% size reduction (96.7% fewer messages)",
    ]
    # What was looked at last was clean.
    assert cleaner.highest_ratio == 0.0
    assert read_offsets(tmp_path / "cleaner-offset-checkpoint") == {
        TopicPartition("small", 0): 3,
        TopicPartition("large", 0): 30,
    }
    assert state(logs["large"]) == {b"a": b"29"}
    assert len(records_in(logs["plain"])) == 30


@pytest.mark.parametrize("place", [66, 70], ids=["record", "offset"])
def test_a_log_that_cannot_be_cleaned_is_left_alone(
    executor: ThreadPoolExecutor, tmp_path: Path, place: int
) -> None:
    manager = LogManager([tmp_path], lambda: START_MS)
    manager.load({})
    topic_partition = TopicPartition("orders", 0)
    log = manager.get_or_create(topic_partition, COMPACTED)
    for i in range(20):
        put(log, ("a", f"{i}"))
    log.roll()
    first = next(iter(log.segments)).file.path
    damaged = bytearray(first.read_bytes())
    damaged[place] ^= 1
    first.write_bytes(damaged)
    cleaner = CleanerManager(manager, executor, lambda: MEMORY)

    assert asyncio.run(cleaner.clean_next())
    assert not asyncio.run(cleaner.clean_next())

    assert cleaner.uncleanable == {topic_partition}
    metrics = Metrics()
    register_cleaner_gauges(metrics, cleaner, manager, lambda: False)
    kind = "kafka.log:type=LogCleanerManager"
    shown = {
        name: metrics.snapshot()[f"{kind},name=uncleanable-{name},logDirectory={tmp_path}"]
        for name in ("partitions-count", "bytes")
    }
    assert shown == {"partitions-count": {"Value": 1}, "bytes": {"Value": log.size}}
    assert files(log.directory, ".cleaned") == []
    assert first.read_bytes() == damaged


def write_in_transaction(log: UnifiedLog, producer_id: int, key: str, value: str) -> None:
    records = [Record(0, START_MS, key.encode(), value.encode())]
    log.append_as_leader(
        encode_batch(
            records,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        ),
        0,
    )


def committed_values(log: UnifiedLog) -> dict[bytes | None, bytes | None]:
    """What a consumer of committed records knows in the end, as Kafka's consumer finds it out."""
    known: dict[bytes | None, bytes | None] = {}
    offset = log.log_start_offset
    while True:
        found = read(log, offset, isolation=FetchIsolation.TXN_COMMITTED)
        if not found.size:
            return known
        assert found.slice is not None
        assert found.aborted_transactions is not None
        coming = sorted(found.aborted_transactions, key=lambda each: each.first_offset)
        aborted: set[int] = set()
        data = found.slice.read()
        for place, header in iterate_batches(data):
            while coming and coming[0].first_offset <= header.last_offset:
                aborted.add(coming.pop(0).producer_id)
            if header.is_control:
                aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                known.update((r.key, r.value) for r in iterate_batch(data, place, header))
            offset = header.next_offset


def test_a_transaction_aborted_past_the_last_stable_offset_stays_aborted(tmp_path: Path) -> None:
    world = LogWorld(tmp_path / "orders-0", replace(COMPACTED, segment_bytes=10_000))
    log = world.open()
    put(log, ("a", "committed"), ("b", "1"))
    write_in_transaction(log, 1, "c", "open")
    write_in_transaction(log, 2, "a", "aborted")
    end_transaction(log, 2, commit=False)
    log.roll()
    put(log, ("d", "1"))
    assert log.last_stable_offset == 2

    end = compact(log, world)
    end_transaction(log, 1, commit=True)
    put(log, ("d", "2"))
    after_one = committed_values(log)
    log.roll()
    put(log, ("e", "1"))
    compact(log, world, end)

    assert after_one == {b"a": b"committed", b"b": b"1", b"c": b"open", b"d": b"2"}
    assert committed_values(log) == {**after_one, b"e": b"1"}


def test_a_transaction_aborted_below_a_raised_log_start_stays_aborted(tmp_path: Path) -> None:
    world = LogWorld(tmp_path / "orders-0", replace(COMPACTED, segment_bytes=10_000))
    log = world.open()
    write_in_transaction(log, 2, "a", "aborted")
    end_transaction(log, 2, commit=False)
    put(log, ("b", "1"), ("c", "1"))
    log.roll()
    put(log, ("d", "1"))
    log.delete_records(3)

    compact(log, world)
    log.close()
    # The power failed before the raised start was in its checkpoint.
    log = world.open()
    log.update_high_watermark(log.log_end_offset)

    assert log.log_start_offset == 0
    assert b"a" not in committed_values(log)


def note_syncs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files and folders that are synced from now on."""
    synced: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda file: synced.append(Path(os.readlink(f"/proc/self/fd/{file}")).name)
    )
    return synced


def log_to_compact(world: LogWorld) -> UnifiedLog:
    """A log whose first segment has an entry in each of its indexes."""
    world.config = replace(COMPACTED, segment_bytes=10_000, index_interval_bytes=1)
    log = world.open()
    put(log, ("a", "1"), ("b", "1"))
    write_in_transaction(log, 2, "a", "aborted")
    end_transaction(log, 2, commit=False)
    log.roll()
    put(log, ("b", "2"))
    log.flush()
    return log


def test_every_file_of_a_compacted_segment_and_its_folder_are_synced_before_the_swap(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_to_compact(world)
    synced = note_syncs(monkeypatch)

    cleaned = clean(cleaning_job(log, None, world.now_ms), MEMORY)

    assert len(cleaned.replacements) == 1
    names = [path.name for path in cleaned.replacements[0].new.paths()]
    assert len(names) == 4
    assert synced == [*names, log.directory.name]


def test_replaced_files_are_deleted_only_when_the_renames_are_synced(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_to_compact(world)
    world.do_deferred_tasks()
    compact(log, world)
    deleted = files(log.directory, ".deleted")
    events = note_syncs(monkeypatch)
    unlink = Path.unlink

    def noting(path: Path, missing_ok: bool = False) -> None:
        events.append(path.name)
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", noting)
    world.do_deferred_tasks()

    assert len(deleted) == 4
    assert events[0] == log.directory.name
    assert sorted(events[1:]) == deleted


def test_the_renames_are_synced_before_the_checkpoint_that_counts_on_them(
    executor: ThreadPoolExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = LogManager([tmp_path], lambda: START_MS)
    manager.load({})
    log = manager.get_or_create(TopicPartition("orders", 0), COMPACTED)
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    log.roll()
    synced = note_syncs(monkeypatch)

    assert asyncio.run(CleanerManager(manager, executor, lambda: MEMORY).clean_next())

    assert synced[-3:] == ["orders-0", "cleaner-offset-checkpoint.tmp", tmp_path.name]
