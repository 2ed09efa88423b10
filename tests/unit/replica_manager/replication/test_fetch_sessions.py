"""Fetch sessions on the broker: who gets one, who loses one, and what an answer leaves out.

Source of the behaviours: Kafka ``FetchSessionTest``; KIP-227, KIP-516.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.protocol.fetch import FetchPartition
from replica_manager.log.leader_epoch_file_cache import EpochEndOffset
from replica_manager.replication import fetch_sessions
from replica_manager.replication.fetch_sessions import (
    EVICTION_MS,
    MAX_SESSION_ID,
    FetchContext,
    FetchSessionCache,
    SessionError,
    SessionFetchResponse,
    SessionlessFetch,
)
from replica_manager.replication.fetch_values import (
    FINAL_SESSION_EPOCH,
    NO_SESSION,
    FetchMetadata,
    FetchPartitionData,
    TopicIdPartition,
    next_session_epoch,
)
from tests.support.steps import completed

ID = UUID(int=7)
NAMES = {ID: "orders"}
OK = FetchPartitionData(ErrorCode.none, high_watermark=10, log_start_offset=0)


def partitions(*numbers: int, topic_id: UUID | None = ID) -> list[TopicIdPartition]:
    return [TopicIdPartition(topic_id, "orders", number) for number in numbers]


def question(offset: int = 0) -> FetchPartition:
    return FetchPartition(ID, offset, 1_000)


class Broker:
    """A session cache with session ids 1, 2, 3 … and a clock."""

    def __init__(self, slots: int = 10) -> None:
        numbers = count(1)
        self.evicted: list[str] = []
        self.cache = FetchSessionCache(
            slots, lambda: next(numbers), on_evicted=lambda: self.evicted.append("session")
        )
        self.now_ms = 1_000

    def request(
        self,
        metadata: FetchMetadata,
        wanted: Sequence[TopicIdPartition] = (),
        forgotten: Sequence[TopicIdPartition] = (),
        *,
        api_version: int = 17,
        is_from_follower: bool = False,
        offset: int = 0,
    ) -> FetchContext:
        return completed(
            self.cache.context(
                api_version,
                metadata,
                {partition: question(offset) for partition in wanted},
                forgotten,
                NAMES,
                is_from_follower=is_from_follower,
                now_ms=self.now_ms,
            )
        )

    def answer(
        self, context: FetchContext, result: FetchPartitionData = OK
    ) -> SessionFetchResponse:
        results = {partition: result for partition, _ in context.partitions()}
        return completed(context.respond(results, self.now_ms))

    def open(
        self, *numbers: int, is_from_follower: bool = False, api_version: int = 17
    ) -> SessionFetchResponse:
        topic_id = ID if api_version >= 13 else None
        context = self.request(
            FetchMetadata(),
            partitions(*numbers, topic_id=topic_id),
            is_from_follower=is_from_follower,
            api_version=api_version,
        )
        return self.answer(context)


def test_a_full_request_opens_a_session_and_is_answered_everything() -> None:
    broker = Broker()

    response = broker.open(0, 1)

    assert response == SessionFetchResponse(ErrorCode.none, 1, dict.fromkeys(partitions(0, 1), OK))
    assert broker.cache.total_partitions == 2


def test_an_incremental_response_has_only_changed_partitions() -> None:
    broker = Broker()
    broker.open(0, 1, 2)
    context = broker.request(FetchMetadata(1, 1))
    moved = OK._replace(high_watermark=11)

    found = dict(zip(partitions(0, 1, 2), (OK, moved, OK), strict=True))
    response = completed(context.respond(found, broker.now_ms))

    assert response == SessionFetchResponse(ErrorCode.none, 1, {partitions(1)[0]: moved})


def test_records_log_start_divergence_and_preferred_replica_count_as_changes() -> None:
    for news in (
        OK._replace(records=b"batch"),
        OK._replace(log_start_offset=5),
        OK._replace(diverging_epoch=EpochEndOffset(1, 3)),
        OK._replace(preferred_read_replica=2),
    ):
        broker = Broker()
        broker.open(0)

        assert list(broker.answer(broker.request(FetchMetadata(1, 1)), news).partitions) == (
            partitions(0)
        ), news


def test_after_an_error_the_same_good_result_is_sent_again() -> None:
    broker = Broker()
    broker.open(0)
    failed = FetchPartitionData(ErrorCode.not_leader_or_follower)

    first = broker.answer(broker.request(FetchMetadata(1, 1)), failed)
    second = broker.answer(broker.request(FetchMetadata(1, 2)), failed)
    third = broker.answer(broker.request(FetchMetadata(1, 3)), OK)
    fourth = broker.answer(broker.request(FetchMetadata(1, 4)), OK)

    assert [len(response.partitions) for response in (first, second, third, fourth)] == [1, 1, 1, 0]


def test_a_watermark_that_the_follower_could_not_use_is_sent_again() -> None:
    broker = Broker()
    diverging = OK._replace(diverging_epoch=EpochEndOffset(1, 3))
    broker.answer(broker.request(FetchMetadata(), partitions(0)), diverging)

    second = broker.answer(broker.request(FetchMetadata(1, 1)), OK)
    third = broker.answer(broker.request(FetchMetadata(1, 2)), OK)
    new_epoch = {partitions(0)[0]: question()._replace(current_leader_epoch=5)}
    fourth = completed(
        broker.cache.context(
            17, FetchMetadata(1, 3), new_epoch, (), NAMES, is_from_follower=True, now_ms=0
        )
    )

    assert [len(response.partitions) for response in (second, third)] == [1, 0]
    assert len(broker.answer(fourth).partitions) == 1


def test_partitions_are_added_updated_and_forgotten() -> None:
    broker = Broker()
    broker.open(0, 1)

    context = broker.request(FetchMetadata(1, 1), partitions(1, 2), partitions(0), offset=9)

    assert [(name.partition, wanted.fetch_offset) for name, wanted in context.partitions()] == [
        (1, 9),
        (2, 9),
    ]


def test_a_partition_that_gave_records_is_read_last_next_time() -> None:
    broker = Broker()
    broker.open(0, 1, 2)
    context = broker.request(FetchMetadata(1, 1))
    zero, one, two = partitions(0, 1, 2)
    found = {zero: OK._replace(records=b"r"), one: OK, two: OK}
    completed(context.respond(found, broker.now_ms))

    order = [name for name, _ in broker.request(FetchMetadata(1, 2)).partitions()]

    assert order == [one, two, zero]


def test_a_session_without_partitions_is_closed() -> None:
    broker = Broker()
    broker.open(0)

    context = broker.request(FetchMetadata(1, 1), forgotten=partitions(0))

    assert isinstance(context, SessionlessFetch)
    assert broker.answer(context) == SessionFetchResponse(ErrorCode.none, 0, {})
    assert len(broker.cache) == 0


def test_errors_of_a_session_read_nothing() -> None:
    broker = Broker()
    broker.open(0)
    broker.open(0, api_version=12)

    def error(metadata: FetchMetadata, api_version: int = 17) -> ErrorCode:
        context = broker.request(metadata, api_version=api_version)
        assert isinstance(context, SessionError)
        assert list(context.partitions()) == []
        assert broker.answer(context).session_id == 0
        return context.error

    assert error(FetchMetadata(99, 1)) is ErrorCode.fetch_session_id_not_found
    assert error(FetchMetadata(1, 2)) is ErrorCode.invalid_fetch_session_epoch
    assert error(FetchMetadata(1, 1), 12) is ErrorCode.fetch_session_topic_id_error
    assert error(FetchMetadata(2, 1), 13) is ErrorCode.fetch_session_topic_id_error


def test_a_full_request_closes_the_session_it_names() -> None:
    broker = Broker()
    broker.open(0)

    last = broker.request(FetchMetadata(1, FINAL_SESSION_EPOCH), partitions(0))

    assert isinstance(last, SessionlessFetch)
    assert len(broker.cache) == 0
    assert broker.answer(last) == SessionFetchResponse(ErrorCode.none, 0, {partitions(0)[0]: OK})


def test_a_request_that_was_overtaken_is_not_answered_with_records() -> None:
    broker = Broker()
    broker.open(0)
    parked = broker.request(FetchMetadata(1, 1))
    broker.request(FetchMetadata(1, 2))

    response = broker.answer(parked, OK._replace(records=b"late"))

    assert response == SessionFetchResponse(ErrorCode.invalid_fetch_session_epoch, 1, {})


def test_an_unknown_topic_id_gets_its_name_once_the_topic_is_known() -> None:
    broker = Broker()
    nameless = TopicIdPartition(ID, None, 0)
    broker.answer(broker.request(FetchMetadata(), [nameless]))

    ((name, _),) = broker.request(FetchMetadata(1, 1)).partitions()

    assert name == TopicIdPartition(ID, "orders", 0)


def test_without_a_free_slot_a_young_session_stays_and_the_newcomer_gets_none() -> None:
    broker = Broker(slots=1)
    broker.open(0)

    assert broker.open(0, 1).session_id == 0
    assert broker.evicted == []


def test_an_unused_session_gives_way_to_any_other() -> None:
    broker = Broker(slots=2)
    broker.open(0, 1, 2, is_from_follower=True)
    broker.now_ms += 1
    broker.open(0)
    broker.now_ms += EVICTION_MS

    assert broker.open(0).session_id == 3
    assert broker.evicted == ["session"]
    assert isinstance(broker.request(FetchMetadata(1, 1)), SessionError)


def test_an_old_session_in_use_gives_way_only_to_a_larger_one() -> None:
    broker = Broker(slots=1)
    broker.open(0, 1)
    broker.now_ms += EVICTION_MS + 1
    broker.answer(broker.request(FetchMetadata(1, 1)))

    assert broker.open(0).session_id == 0
    assert broker.open(0, 1, 2).session_id == 2


def test_a_follower_takes_the_slot_of_a_young_consumer_but_never_the_other_way_round() -> None:
    broker = Broker(slots=1)
    broker.open(0, 1, 2, 3)
    assert broker.open(0, is_from_follower=True).session_id == 2

    broker.now_ms += EVICTION_MS + 1
    broker.answer(broker.request(FetchMetadata(2, 1)))

    assert broker.open(0, 1, 2, 3).session_id == 0
    assert broker.open(0, 1, is_from_follower=True).session_id == 3


def test_a_session_id_is_given_to_one_session_at_a_time() -> None:
    cache = FetchSessionCache(3, lambda: MAX_SESSION_ID)
    wanted = {partitions(0)[0]: question()}

    def open_one() -> int:
        context = completed(
            cache.context(17, FetchMetadata(), wanted, (), NAMES, is_from_follower=False, now_ms=0)
        )
        return completed(context.respond({partitions(0)[0]: OK}, 0)).session_id

    assert [open_one() for _ in range(4)] == [MAX_SESSION_ID, 1, 2, 0]


def test_the_epoch_of_a_session_skips_zero_when_it_wraps() -> None:
    assert next_session_epoch(2**31 - 1) == 1
    assert next_session_epoch(FINAL_SESSION_EPOCH) == FINAL_SESSION_EPOCH


def test_a_preview_of_the_response_leaves_the_session_unchanged() -> None:
    broker = Broker()
    broker.open(0, 1)
    context = broker.request(FetchMetadata(1, 1))
    moved = OK._replace(high_watermark=11)
    found = dict(zip(partitions(0, 1), (OK, moved), strict=True))

    assert completed(context.response_partitions(found)) == {partitions(1)[0]: moved}
    assert context.throttled() == SessionFetchResponse(ErrorCode.none, 1, {})
    again = broker.request(FetchMetadata(1, 2))
    assert completed(again.respond(found, broker.now_ms)).partitions == {partitions(1)[0]: moved}


def test_a_throttled_request_that_was_overtaken_gets_an_error() -> None:
    broker = Broker()
    broker.open(0)
    context = broker.request(FetchMetadata(1, 1))
    broker.request(FetchMetadata(1, 2))

    found = {partitions(0)[0]: OK._replace(records=b"batch")}
    assert completed(context.response_partitions(found)) == {}
    assert context.throttled() == SessionFetchResponse(ErrorCode.invalid_fetch_session_epoch, 1, {})


# Other requests are handled between two steps


def test_a_request_that_comes_again_between_two_steps_is_out_of_turn() -> None:
    broker = Broker()
    broker.open(0, 1)
    steps = broker.cache.context(
        17,
        FetchMetadata(1, 1),
        dict.fromkeys(partitions(1, 2), question()),
        (),
        NAMES,
        is_from_follower=False,
        now_ms=broker.now_ms,
    )
    next(steps)

    again = broker.request(FetchMetadata(1, 1))

    assert again == SessionError(ErrorCode.invalid_fetch_session_epoch)
    assert [each for each, _ in completed(steps).partitions()] == partitions(0, 1, 2)


def test_a_partition_that_is_dropped_between_two_steps_is_not_in_the_response() -> None:
    broker = Broker()
    broker.open(0, 1)
    context = broker.request(FetchMetadata(1, 1))
    moved = dict.fromkeys(partitions(0, 1), OK._replace(high_watermark=11))
    preview, steps = context.response_partitions(moved), context.respond(moved, broker.now_ms)
    next(preview)
    next(steps)

    broker.request(FetchMetadata(1, 2), (), partitions(1))

    assert list(completed(preview)) == partitions(0)
    assert list(completed(steps).partitions) == partitions(0)


def test_a_session_may_lose_its_slot_before_all_of_it_is_stored() -> None:
    broker = Broker(slots=1)
    context = broker.request(FetchMetadata(), partitions(0, 1))
    steps = context.respond(dict.fromkeys(partitions(0, 1), OK), broker.now_ms)
    for _ in range(3):  # two names are looked at; then it has its slot
        next(steps)
    assert broker.cache.total_partitions == 2

    broker.now_ms += EVICTION_MS + 1
    assert broker.open(5).session_id == 2

    assert completed(steps).session_id == 1
    assert broker.cache.total_partitions == 1
    assert broker.request(FetchMetadata(1, 1)) == SessionError(ErrorCode.fetch_session_id_not_found)


def test_two_sessions_that_are_made_at_once_do_not_remember_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch_sessions, "MOST_PARTITIONS", 5)
    broker = Broker()
    found = dict.fromkeys(partitions(0, 1, 2), OK)
    first, second = (
        broker.request(FetchMetadata(), partitions(0, 1, 2)).respond(found, broker.now_ms)
        for _ in range(2)
    )
    next(first)
    next(second)

    assert {completed(first).session_id, completed(second).session_id} == {1, NO_SESSION}
    assert broker.cache.total_partitions == 3


def test_sessions_remember_so_many_partitions_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "MOST_PARTITIONS", 5)
    broker = Broker()
    first = broker.open(0, 1, 2)

    assert broker.open(0, 1, 2).session_id == NO_SESSION
    second = broker.open(0, 1)
    assert second.session_id != NO_SESSION

    growing = broker.request(FetchMetadata(first.session_id, 1), partitions(3))
    assert growing == SessionError(ErrorCode.fetch_session_id_not_found)
    assert broker.cache.total_partitions == 2


def test_a_name_that_no_topic_can_have_is_not_remembered() -> None:
    broker = Broker()
    names = [TopicIdPartition(None, "x" * 250, 0)]

    response = broker.answer(broker.request(FetchMetadata(), names, api_version=11))
    assert (response.session_id, list(response.partitions)) == (NO_SESSION, names)

    opened = broker.open(0, api_version=11)
    later = broker.request(FetchMetadata(opened.session_id, 1), names, api_version=11)
    assert later == SessionError(ErrorCode.fetch_session_id_not_found)
    assert len(broker.cache) == 0
