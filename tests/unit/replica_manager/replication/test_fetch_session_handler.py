"""Fetch sessions on the asking side: what a request names, and what ends a session.

Source of the behaviours: Kafka ``FetchSessionHandlerTest``.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition
from kafka_common.protocol.fetch import FetchPartition
from replica_manager.replication.fetch_session_handler import (
    FetchSessionHandler,
    FetchSessionRequest,
)
from replica_manager.replication.fetch_values import (
    FINAL_SESSION_EPOCH,
    FetchMetadata,
    TopicIdPartition,
)

ID, OTHER_ID = UUID(int=7), UUID(int=8)
ZERO, ONE, TWO = (TopicPartition("orders", number) for number in range(3))


def at(offset: int, topic_id: UUID | None = ID) -> FetchPartition:
    return FetchPartition(topic_id, offset, 1_000)


def opened(wanted: Mapping[TopicPartition, FetchPartition]) -> FetchSessionHandler:
    handler = FetchSessionHandler(leader=1)
    handler.plan(wanted)
    assert handler.handle_response(17, ErrorCode.none, 123, list(wanted), [ID])
    return handler


def test_the_first_request_names_everything() -> None:
    plan = FetchSessionHandler(leader=1).plan({ZERO: at(0), ONE: at(10)})

    assert plan == FetchSessionRequest(
        FetchMetadata(0, 0),
        {ZERO: at(0), ONE: at(10)},
        (),
        (),
        {ZERO: at(0), ONE: at(10)},
        True,
    )


def test_the_next_one_names_what_changed() -> None:
    handler = opened({ZERO: at(0), ONE: at(10)})

    plan = handler.plan({ZERO: at(0), ONE: at(20), TWO: at(5)})

    assert plan.metadata == FetchMetadata(123, 1)
    assert plan.to_send == {TWO: at(5), ONE: at(20)}
    assert plan.to_forget == []
    assert plan.session_partitions == {ZERO: at(0), ONE: at(20), TWO: at(5)}


def test_what_is_no_longer_wanted_is_forgotten() -> None:
    handler = opened({ZERO: at(0), ONE: at(10)})

    plan = handler.plan({ONE: at(10)})

    assert plan.to_send == {}
    assert plan.to_forget == [TopicIdPartition(ID, "orders", 0)]
    assert plan.session_partitions == {ONE: at(10)}


def test_a_topic_created_anew_replaces_its_predecessor() -> None:
    handler = opened({ZERO: at(0)})

    plan = handler.plan({ZERO: at(0, OTHER_ID)})

    assert plan.to_send == {ZERO: at(0, OTHER_ID)}
    assert list(plan.forgotten(17)) == [TopicIdPartition(ID, "orders", 0)]
    assert list(plan.forgotten(12)) == []


def test_one_partition_without_an_id_takes_the_ids_from_all() -> None:
    handler = FetchSessionHandler(leader=1)

    plan = handler.plan({ZERO: at(0), ONE: at(0, None)})

    assert not plan.can_use_topic_ids
    assert handler.topic_names == {}


def test_forgetting_a_partition_without_an_id_needs_a_version_without_ids() -> None:
    handler = FetchSessionHandler(leader=1)
    handler.plan({ZERO: at(0), ONE: at(0, None)})
    handler.handle_response(12, ErrorCode.none, 123, [ZERO, ONE])

    plan = handler.plan({ZERO: at(0)})

    assert not plan.can_use_topic_ids
    assert plan.forgotten(12) == [TopicIdPartition(None, "orders", 1)]


def test_each_answer_moves_the_epoch_on() -> None:
    handler = opened({ZERO: at(0)})
    handler.plan({ZERO: at(0)})

    assert handler.handle_response(17, ErrorCode.none, 123, [])
    assert handler.plan({ZERO: at(0)}).metadata == FetchMetadata(123, 2)


def test_a_broker_that_gives_no_session_is_asked_for_everything_again() -> None:
    handler = FetchSessionHandler(leader=1)
    handler.plan({ZERO: at(0)})

    assert handler.handle_response(17, ErrorCode.none, 0, [ZERO], [ID])
    assert handler.plan({ZERO: at(0)}).to_send == {ZERO: at(0)}
    assert handler.session_id == 0


def test_a_session_that_the_broker_lost_is_opened_anew() -> None:
    handler = opened({ZERO: at(0)})
    handler.plan({ZERO: at(0)})

    assert not handler.handle_response(17, ErrorCode.fetch_session_id_not_found, 0, [])
    assert handler.plan({ZERO: at(0)}).metadata == FetchMetadata(0, 0)


def test_after_any_other_trouble_the_session_is_closed_and_everything_named() -> None:
    for trouble in ("epoch", "topic id", "connection", "extra partition", "extra id"):
        handler = opened({ZERO: at(0)})
        handler.plan({ZERO: at(0)})
        if trouble == "epoch":
            handler.handle_response(17, ErrorCode.invalid_fetch_session_epoch, 0, [])
        elif trouble == "topic id":
            handler.handle_response(17, ErrorCode.fetch_session_topic_id_error, 0, [])
        elif trouble == "connection":
            handler.handle_error()
        elif trouble == "extra partition":
            assert not handler.handle_response(17, ErrorCode.none, 123, [ONE], [ID])
        else:
            assert not handler.handle_response(17, ErrorCode.none, 123, [], [OTHER_ID])

        plan = handler.plan({ZERO: at(0)})

        assert plan.metadata == FetchMetadata(123, 0), trouble
        assert plan.to_send == {ZERO: at(0)}, trouble


def test_a_full_answer_that_leaves_a_partition_out_is_not_used() -> None:
    handler = FetchSessionHandler(leader=1)
    handler.plan({ZERO: at(0), ONE: at(0)})

    assert not handler.handle_response(17, ErrorCode.none, 123, [ZERO], [ID])
    assert handler.session_id == 0


def test_an_empty_answer_with_a_throttle_time_is_no_trouble() -> None:
    handler = FetchSessionHandler(leader=1)
    handler.plan({ZERO: at(0)})

    assert not handler.handle_response(17, ErrorCode.none, 0, [], throttle_time_ms=100)
    assert handler.plan({ZERO: at(0)}).metadata == FetchMetadata(0, 0)


def test_a_session_that_is_to_be_closed_says_so() -> None:
    handler = opened({ZERO: at(0)})
    handler.close()

    assert handler.plan({}).metadata == FetchMetadata(123, FINAL_SESSION_EPOCH)
