"""A follower's fetcher, step by step, against a leader that the test plays.

Source of the behaviours: Kafka ``AbstractFetcherThreadTest``, ``ReplicaFetcherThreadTest``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from kio.schema.errors import ErrorCode
from typing_extensions import override

from kafka_common.errors import CorruptRecord, KafkaStorage, LimitReached
from kafka_common.model import TopicPartition
from kafka_common.protocol.fetch import FetchPartition
from kafka_common.protocol.record_batch import encode_batch
from kafka_common.protocol.records import Record as LogRecord
from replica_manager.log import unified_log
from replica_manager.log.leader_epoch_file_cache import EpochEndOffset
from replica_manager.replication.fetch_requests import (
    AskEpochEnds,
    AskOffsets,
    AskRecords,
    EpochQuestion,
    Idle,
    LeaderFetchResponse,
    OffsetQuestion,
)
from replica_manager.replication.fetch_state import (
    FetchStage,
    Truncation,
    fetcher_id,
    truncation_for,
)
from replica_manager.replication.fetch_values import FetchPartitionData
from replica_manager.replication.replica_fetcher import BATCHES_AT_ONCE
from tests.simulation.replication_log import InMemoryLog
from tests.support.log_world import LogWorld, at, batch
from tests.unit.replica_manager.replication.follower import (
    EPOCH,
    ID,
    ONE,
    ZERO,
    Follower,
    failed,
    records,
)


def diverging(epoch: int, end_offset: int) -> FetchPartitionData:
    end = EpochEndOffset(epoch, end_offset)
    return FetchPartitionData(ErrorCode.none, 5, 5, 0, diverging_epoch=end)


# ---------------------------------------------------------------------- fetching


def test_records_are_appended_and_the_next_fetch_goes_on_behind_them() -> None:
    follower = Follower().wrote(3, 3).add()
    request = follower.fetch()
    assert request.fetch.to_send == {ZERO: FetchPartition(ID, 2, 1_048_576, EPOCH, 3, 0)}

    progress = follower.answer(request, p0=records(2, 4, 4, high_watermark=3))

    assert follower.log.log_end_offset == 4
    assert follower.log.high_watermark == 3
    assert progress.high_watermark_moved == [ZERO]
    assert progress.bytes_in > 0
    (wanted,) = follower.fetch().fetch.to_send.values()
    assert (wanted.fetch_offset, wanted.last_fetched_epoch) == (4, 4)


def test_the_leaders_log_start_and_a_lower_high_watermark_are_taken_over() -> None:
    follower = Follower().wrote(3, 3, 3, high_watermark=3).add()

    follower.fetched(FetchPartitionData(ErrorCode.none, 2, 2, log_start_offset=1))

    assert (follower.log.log_start_offset, follower.log.high_watermark) == (1, 2)


def test_even_an_empty_answer_tells_the_lag() -> None:
    follower = Follower().wrote(3).add()

    follower.fetched(records(1, high_watermark=5))

    assert follower.fetcher.partitions[ZERO].lag == 4
    follower.fetched(records(1, high_watermark=1))
    assert follower.fetcher.partitions[ZERO].lag == 0


def test_who_got_records_is_asked_for_last() -> None:
    follower = Follower()
    for log in follower.logs.values():
        log.append_as_leader("own", 3)
    follower.add(ZERO, ONE)

    follower.answer(follower.fetch(), p0=records(1), p1=records(1))
    assert list(follower.fetcher.partitions) == [ZERO, ONE]

    follower.answer(follower.fetch(), p0=records(1, 4), p1=records(1))

    assert list(follower.fetcher.partitions) == [ONE, ZERO]


def test_without_partitions_there_is_nothing_to_ask() -> None:
    follower = Follower()

    assert follower.next() == Idle(None)
    follower.wrote(3).add()
    follower.fetcher.remove_partitions([ZERO])
    assert follower.next() == Idle(None)


def test_a_topic_without_an_id_is_fetched_by_name() -> None:
    follower = Follower().wrote(3).add()
    assert follower.fetch().api_version(17) == 17

    follower.fetcher.update_topic_id(ZERO, None)

    assert follower.fetch().api_version(17) == 12
    assert follower.fetch().api_version(11) == 11


def test_a_removed_partition_is_forgotten_in_the_session() -> None:
    follower = Follower()
    for log in follower.logs.values():
        log.append_as_leader("own", 3)
    follower.add(ZERO, ONE)
    follower.answer(follower.fetch(), p0=records(1), p1=records(1))

    follower.fetcher.remove_partitions([ONE])

    (forgotten,) = follower.fetch().fetch.to_forget
    assert forgotten == (ID, "orders", 1)


def many_batches(count: int) -> FetchPartitionData:
    batches = [
        encode_batch([LogRecord(offset, 0, None, b"x")], partition_leader_epoch=4)
        for offset in range(count)
    ]
    return FetchPartitionData(
        ErrorCode.none, count, count, log_start_offset=count // 2, records=b"".join(batches)
    )


@pytest.fixture
def on_disk(tmp_path: Path) -> Follower:
    """A follower whose log is a real one."""
    follower = Follower()
    follower.logs[ZERO] = cast(Any, LogWorld(tmp_path / "orders-0").open())
    return follower.add()


def steps(follower: Follower, response: FetchPartitionData) -> Iterator[Any]:
    responses = LeaderFetchResponse(17, ErrorCode.none, 9, {ZERO: response}, [ID])
    return follower.fetcher.records_steps(follower.fetch(), responses, lambda: follower.now_ms)


def test_many_batches_are_appended_in_steps(on_disk: Follower) -> None:
    log, count = on_disk.log, 2 * BATCHES_AT_ONCE + 1

    ends = [log.log_end_offset for _ in steps(on_disk, many_batches(count))]

    assert ends == [BATCHES_AT_ONCE, 2 * BATCHES_AT_ONCE, count]
    assert (log.high_watermark, log.log_start_offset) == (count, count // 2)
    state = on_disk.fetcher.partitions[ZERO]
    assert (state.fetch_offset, state.lag) == (count, 0)


def test_a_partition_that_goes_between_two_steps_gets_no_more(on_disk: Follower) -> None:
    for _ in steps(on_disk, many_batches(2 * BATCHES_AT_ONCE)):
        on_disk.fetcher.remove_partitions([ZERO])

    assert on_disk.log.log_end_offset == BATCHES_AT_ONCE


@pytest.mark.parametrize(("length", "end"), [(-1, 500), (0, 500), (2**31 - 1, 501)])
def test_what_is_no_batch_among_many_is_left_to_the_log(
    on_disk: Follower, length: int, end: int
) -> None:
    """A batch that is cut off is left out; bytes that are no batch delay what came with them."""
    noise = bytes(8) + length.to_bytes(4, "big", signed=True) + bytes(100)
    whole = many_batches(BATCHES_AT_ONCE + 1)

    for _ in steps(on_disk, whole._replace(records=bytes(cast(bytes, whole.records)) + noise)):
        pass

    assert on_disk.log.log_end_offset == end
    assert on_disk.fetcher.partitions[ZERO].is_delayed(on_disk.now_ms) == (end == 500)


# ---------------------------------------------------------------------- late answers


def test_an_answer_about_a_partition_that_went_or_came_again_is_ignored() -> None:
    follower = Follower().wrote(3).add()
    request = follower.fetch()
    follower.fetcher.remove_partitions([ZERO])
    follower.answer(request, p0=records(1, 4))
    assert follower.log.log_end_offset == 1

    follower = Follower().wrote(3).add()
    request = follower.fetch()
    follower.fetcher.remove_partitions([ZERO])
    follower.add(leader_epoch=EPOCH + 1)
    follower.answer(request, p0=records(1, 4))
    assert follower.log.log_end_offset == 1


def test_an_answer_at_another_offset_than_today_is_ignored() -> None:
    follower = Follower().wrote(3, 3).add()
    request = follower.fetch()
    follower.log.truncate_to(1)
    follower.fetcher.remove_partitions([ZERO])
    follower.add()

    follower.answer(request, p0=diverging(2, 0))

    assert follower.log.log_end_offset == 1


def test_an_answer_about_a_delayed_partition_is_ignored() -> None:
    follower = Follower().wrote(3).add()
    request = follower.fetch()
    follower.fetcher.handle_failure(request, follower.now_ms)

    follower.answer(request, p0=records(1, 4))

    assert follower.log.log_end_offset == 1


def test_a_divergence_of_a_partition_that_went_cuts_nothing() -> None:
    follower = Follower().wrote(3, 3, 3).add()
    request = follower.fetch()
    follower.fetcher.remove_partitions([ZERO])

    follower.answer(request, p0=diverging(2, 1))

    assert follower.log.log_end_offset == 3
    assert ZERO not in follower.fetcher.partitions


@pytest.mark.parametrize("comes_again", [False, True])
def test_what_began_to_lead_while_its_epoch_was_asked_for_is_not_cut(comes_again: bool) -> None:
    follower = Follower(truncates_on_fetch=False).wrote(3, 3, 3).add(ZERO, ONE)
    request = follower.next()
    follower.fetcher.remove_partitions([ZERO])
    if comes_again:
        follower.add(leader_epoch=EPOCH + 1)

    ends = {tp: (ErrorCode.none, EpochEndOffset(2, 1)) for tp in (ZERO, ONE)}
    follower.fetcher.handle_epoch_ends(request, ends, follower.now_ms)

    assert follower.log.log_end_offset == 3
    if comes_again:
        assert follower.stage is FetchStage.TRUNCATING


def test_an_offset_that_was_asked_for_in_another_stage_cuts_nothing() -> None:
    follower = Follower().wrote(3, 3).add()
    follower.fetched(failed(ErrorCode.offset_out_of_range))
    request = follower.next()
    follower.fetcher.remove_partitions([ZERO])
    follower.add()

    follower.fetcher.handle_offsets(request, {ZERO: (ErrorCode.none, 0)}, follower.now_ms)

    assert follower.log.log_end_offset == 2


# ---------------------------------------------------------------------- divergence


def test_a_divergence_is_cut_off_and_its_records_and_watermarks_do_not_count() -> None:
    follower = Follower().wrote(1, 1, 3, 3, high_watermark=1).add()

    follower.fetched(diverging(1, 2)._replace(records=records(4, 4).records))

    assert follower.log.log_end_offset == 2
    assert follower.log.high_watermark == 1
    (wanted,) = follower.fetch().fetch.to_send.values()
    assert (wanted.fetch_offset, wanted.last_fetched_epoch) == (2, 1)


@pytest.mark.parametrize(
    ("leaders", "expected"),
    [
        (EpochEndOffset(3, 5), Truncation(5, True)),
        (EpochEndOffset(3, 9), Truncation(6, True)),
        (EpochEndOffset(2, 5), Truncation(3, False)),
        (EpochEndOffset(1, 2), Truncation(2, True)),
        (EpochEndOffset(0, 2), Truncation(0, True)),
        (EpochEndOffset(-1, 4), Truncation(4, True)),
        (EpochEndOffset(-1, 40), Truncation(6, True)),
        (EpochEndOffset(-1, -1), Truncation(1, True)),
        (EpochEndOffset(9, 4), Truncation(4, True)),
    ],
)
def test_where_a_log_is_cut(leaders: EpochEndOffset, expected: Truncation) -> None:
    follower = Follower().wrote(1, 1, 1, 3, 3, 3)

    assert truncation_for(leaders, follower.log, fetch_offset=1) == expected


def test_without_divergence_in_fetches_the_epoch_is_asked_for_first() -> None:
    follower = Follower(truncates_on_fetch=False).wrote(1, 1, 3, 3, high_watermark=1).add()
    request = follower.next()
    assert request == AskEpochEnds({ZERO: EpochQuestion(EPOCH, 3)})

    # The leader's epoch 2 is unknown here: cut where 1 ends, and ask about 1.
    ends = {ZERO: (ErrorCode.none, EpochEndOffset(2, 3))}
    follower.fetcher.handle_epoch_ends(request, ends, follower.now_ms)
    assert (follower.log.log_end_offset, follower.stage) == (2, FetchStage.TRUNCATING)

    second = follower.next()
    assert second == AskEpochEnds({ZERO: EpochQuestion(EPOCH, 1)})
    ends = {ZERO: (ErrorCode.none, EpochEndOffset(1, 1))}
    follower.fetcher.handle_epoch_ends(second, ends, follower.now_ms)

    (wanted,) = follower.fetch().fetch.to_send.values()
    assert (wanted.fetch_offset, wanted.last_fetched_epoch) == (1, -1)


@pytest.mark.parametrize("settings", [{}, {"truncates_on_fetch": False, "asks_epochs": False}])
def test_without_epochs_a_log_is_cut_at_the_high_watermark(settings: dict[str, bool]) -> None:
    follower = Follower(**settings).wrote(1, 1, 1, high_watermark=2)
    if not settings:
        follower.log.epochs.clear()
    follower.add()

    assert isinstance(follower.next(), AskRecords)
    assert follower.log.log_end_offset == 2


def test_partitions_that_truncate_do_not_keep_the_others_from_fetching() -> None:
    follower = Follower(truncates_on_fetch=False).wrote(1, 1, high_watermark=0).add(ZERO, ONE)

    first, second, third = (type(follower.next()) for _ in range(3))

    assert (first, second, third) == (AskEpochEnds, AskRecords, AskEpochEnds)


# ---------------------------------------------------------------------- out of range


def test_a_log_beyond_the_leaders_end_is_cut_there() -> None:
    follower = Follower().wrote(3, 3, 3).add()
    follower.fetched(failed(ErrorCode.offset_out_of_range))
    request = follower.next()
    assert request == AskOffsets({ZERO: OffsetQuestion(EPOCH, -1)})

    follower.fetcher.handle_offsets(request, {ZERO: (ErrorCode.none, 1)}, follower.now_ms)

    assert (follower.log.log_end_offset, follower.stage) == (1, FetchStage.FETCHING)
    assert follower.fetch().fetch.session_partitions[ZERO].fetch_offset == 1


def test_a_log_below_the_leaders_start_is_dropped_and_begun_there() -> None:
    follower = Follower().wrote(3, 3, 3).add()
    follower.fetched(failed(ErrorCode.offset_out_of_range))
    end = follower.next()
    follower.fetcher.handle_offsets(end, {ZERO: (ErrorCode.none, 50)}, follower.now_ms)
    start = follower.next()
    assert start == AskOffsets({ZERO: OffsetQuestion(EPOCH, -2)})

    follower.fetcher.handle_offsets(start, {ZERO: (ErrorCode.none, 40)}, follower.now_ms)

    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (40, 40)
    (wanted,) = follower.fetch().fetch.to_send.values()
    assert (wanted.fetch_offset, wanted.last_fetched_epoch) == (40, -1)


def test_a_log_within_the_leaders_is_kept() -> None:
    follower = Follower().wrote(3, 3, 3).add()
    follower.fetched(failed(ErrorCode.offset_out_of_range))
    for offset in (50, 2):
        follower.fetcher.handle_offsets(
            follower.next(), {ZERO: (ErrorCode.none, offset)}, follower.now_ms
        )

    assert (follower.log.log_end_offset, follower.stage) == (3, FetchStage.FETCHING)


# ---------------------------------------------------------------------- trouble


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.unknown_leader_epoch,
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.inconsistent_topic_id,
        ErrorCode.kafka_storage_error,
        ErrorCode.unknown_server_error,
    ],
)
def test_after_an_error_a_partition_is_asked_for_again_later(error: ErrorCode) -> None:
    follower = Follower().wrote(3).add()
    follower.fetched(failed(error))

    forget = follower.fetch()
    assert [name.partition for name in forget.fetch.to_forget] == [0]
    follower.answer(forget)
    assert follower.next() == Idle(2_000)
    follower.now_ms = 2_000
    assert ZERO in follower.fetch().fetch.to_send


def test_a_fenced_partition_waits_for_its_new_leader_epoch() -> None:
    follower = Follower().wrote(3).add()
    follower.fetched(failed(ErrorCode.fenced_leader_epoch))
    assert follower.fetcher.failed == {ZERO}
    assert ZERO not in follower.fetcher.partitions

    follower.add(leader_epoch=EPOCH + 1)

    assert follower.fetcher.failed == set()
    assert ZERO in follower.fetcher.partitions


@pytest.mark.parametrize("stage", ["epochs", "offsets"])
@pytest.mark.parametrize(
    "error", [ErrorCode.fenced_leader_epoch, ErrorCode.unknown_leader_epoch, None]
)
def test_epochs_and_offsets_are_fenced_or_asked_for_again(
    stage: str, error: ErrorCode | None
) -> None:
    follower = Follower(truncates_on_fetch=stage == "offsets").wrote(3).add()
    if stage == "offsets":
        follower.fetched(failed(ErrorCode.offset_out_of_range))
        request = follower.next()
        responses = {} if error is None else {ZERO: (error, -1)}
        follower.fetcher.handle_offsets(request, responses, follower.now_ms)
    else:
        request = follower.next()
        ends = {} if error is None else {ZERO: (error, EpochEndOffset(-1, -1))}
        follower.fetcher.handle_epoch_ends(request, ends, follower.now_ms)

    is_fenced = error is ErrorCode.fenced_leader_epoch
    assert (ZERO in follower.fetcher.failed) == is_fenced
    if not is_fenced:
        assert follower.fetcher.partitions[ZERO].is_delayed(follower.now_ms)
    assert follower.log.log_end_offset == 1


def test_a_lost_answer_delays_every_partition_and_closes_the_session() -> None:
    follower = Follower().wrote(3).add()
    follower.fetched(records(1))
    follower.fetcher.handle_failure(follower.fetch(), follower.now_ms)

    follower.now_ms += 1_000

    request = follower.fetch()
    assert request.fetch.metadata == (9, 0)
    assert ZERO in request.fetch.to_send


def test_an_answer_that_names_a_stranger_is_not_used() -> None:
    follower = Follower().wrote(3).add()

    follower.answer(follower.fetch(), p0=records(1, 4), p1=records(0, 4))

    assert follower.log.log_end_offset == 1
    assert ZERO in follower.fetch().fetch.to_send


class FailingLog(InMemoryLog):
    """Refuses what it is given."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    @override
    def append_as_follower(self, _: bytes | memoryview) -> Any:
        raise self.error

    @override
    def truncate_to(self, _: int) -> bool:
        raise self.error


def test_damaged_records_are_fetched_again() -> None:
    follower = Follower()
    follower.logs[ZERO] = FailingLog(CorruptRecord("checksum"))
    follower.wrote(3).add()

    follower.fetched(records(1, 4))

    assert follower.fetcher.partitions[ZERO].is_delayed(follower.now_ms)


@pytest.mark.parametrize("response", [records(1, 4), diverging(1, 0)])
def test_a_log_that_fails_takes_its_partition_out(response: FetchPartitionData) -> None:
    follower = Follower()
    follower.logs[ZERO] = FailingLog(KafkaStorage("disk"))
    follower.wrote(3).add()

    follower.fetched(response)

    assert follower.fetcher.failed == {ZERO}


@pytest.mark.parametrize(
    "response", [records(1, 4), diverging(1, 0), failed(ErrorCode.offset_out_of_range)]
)
def test_what_a_limit_of_the_system_refuses_is_tried_again(response: FetchPartitionData) -> None:
    follower = Follower()
    follower.logs[ZERO] = FailingLog(LimitReached("files"))
    follower.wrote(3).add()

    follower.fetched(response)
    if isinstance(request := follower.next(), AskOffsets):
        follower.fetcher.handle_offsets(request, {ZERO: (ErrorCode.none, 0)}, follower.now_ms)

    assert follower.fetcher.failed == set()
    assert follower.fetcher.partitions[ZERO].is_delayed(follower.now_ms)


def test_a_log_that_moved_behind_the_fetchers_back_is_not_written_to() -> None:
    follower = Follower().wrote(3).add()
    request = follower.fetch()
    follower.log.append_as_leader("own", 3)

    follower.answer(request, p0=records(1, 4))

    assert follower.fetcher.failed == {ZERO}
    assert follower.log.log_end_offset == 2


def test_an_empty_log_may_begin_with_a_batch_that_begins_before_it() -> None:
    follower = Follower()
    follower.log.truncate_fully_and_start_at(5)
    follower.add()

    follower.fetched(records(3, 4, 4, 4, 4))

    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (3, 7)


def test_a_log_with_records_refuses_offsets_that_it_has() -> None:
    follower = Follower().wrote(3, 3).add()

    follower.fetched(records(1, 4, 4))

    assert follower.fetcher.failed == {ZERO}
    assert follower.log.log_end_offset == 2


@pytest.mark.parametrize(
    ("topic", "numbers"),
    [
        ("a", (4, 11, 1)),
        ("orders", (0, 6, 3)),
        ("__consumer_offsets", (6, 12, 9)),
        ("a-rather-long.topic_name", (2, 8, 5)),
    ],
)
def test_fetchers_are_numbered_as_kafka_numbers_them(topic: str, numbers: tuple[int, ...]) -> None:
    # Computed with the classes of Kafka 3.9.1, for partitions 0, 7 and 49 among 13 fetchers.
    assert tuple(fetcher_id(TopicPartition(topic, p), 13) for p in (0, 7, 49)) == numbers


# ---------------------------------------------------------------------- planned truncations


@pytest.mark.parametrize("why", ["diverging", "epoch ends", "end of the leader's log"])
def test_a_truncation_that_reads_much_is_planned_first_and_done_at_the_next_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    monkeypatch.setattr(unified_log, "READ_AT_ONCE_BYTES", 0)
    follower = Follower(truncates_on_fetch=why != "epoch ends")
    log = LogWorld(tmp_path / "orders-0").open()
    for sequence in range(8):
        sent = batch(producer_id=7, producer_epoch=0, base_sequence=sequence)
        log.append_as_follower(at(sequence, sent, epoch=2))
    follower.logs[ZERO] = cast("InMemoryLog", log)
    follower.add()

    def answered() -> None:
        match why:
            case "diverging":
                follower.fetched(diverging(2, 5))
            case "epoch ends":
                request = follower.next()
                ends = {ZERO: (ErrorCode.none, EpochEndOffset(2, 5))}
                follower.fetcher.handle_epoch_ends(request, ends, follower.now_ms)
            case _:
                if follower.stage is FetchStage.FETCHING:
                    follower.fetched(failed(ErrorCode.offset_out_of_range))
                while not isinstance(request := follower.next(), AskOffsets):
                    pass  # the fetch session lets the partition go
                offsets = {ZERO: (ErrorCode.none, 5)}
                follower.fetcher.handle_offsets(request, offsets, follower.now_ms)

    answered()
    before = (log.log_end_offset, log.producers.entry(7).last_sequence, follower.stage)
    (plan,) = follower.fetcher.take_planned()
    assert not follower.fetcher.take_planned()
    plan.run()
    assert before[:2] == (8, 7)
    assert before == (log.log_end_offset, log.producers.entry(7).last_sequence, follower.stage)

    answered()

    assert not follower.fetcher.take_planned()
    assert (log.log_end_offset, log.producers.entry(7).last_sequence) == (5, 4)
    assert follower.fetcher.partitions[ZERO].fetch_offset == 5
    assert follower.stage is FetchStage.FETCHING


def test_a_partition_that_was_removed_has_no_truncation_to_prepare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unified_log, "READ_AT_ONCE_BYTES", 0)
    follower = Follower()
    log = LogWorld(tmp_path / "orders-0").open()
    for sequence in range(8):
        log.append_as_leader(batch(producer_id=7, producer_epoch=0, base_sequence=sequence), 2)
    follower.logs[ZERO] = cast("InMemoryLog", log)
    follower.add()
    follower.fetched(diverging(2, 5))

    follower.fetcher.remove_partitions([ZERO])

    assert follower.fetcher.take_planned() == []
