"""Proposals on their way to the controller.

Source of the behaviours: Kafka ``AlterPartitionManagerTest``.
"""

from __future__ import annotations

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition
from replica_manager.replication.isr import (
    AlteredIsr,
    CommittedIsr,
    PendingIsr,
    proposed_expand,
    proposed_shrink,
)
from replica_manager.replication.isr_proposals import AlterPartitionCall, IsrProposals, Proposed

ID = UUID(int=7)
ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
EXPAND: PendingIsr = proposed_expand(CommittedIsr((1, 2)), 3, 5, 9)
SHRINK: PendingIsr = proposed_shrink(CommittedIsr((1, 2)), (2,), 5, 9)
ACCEPTED = AlteredIsr(5, (1, 2, 3), 10)


@pytest.fixture
def proposals() -> IsrProposals:
    return IsrProposals()


def test_one_request_takes_along_all_that_waits_and_the_next_waits_for_its_answer(
    proposals: IsrProposals,
) -> None:
    assert proposals.next_call() is None
    proposals.submit(ZERO, ID, EXPAND)
    first = proposals.next_call()
    proposals.submit(ONE, ID, SHRINK)

    assert first == AlterPartitionCall({ZERO: Proposed(ID, EXPAND)})
    assert proposals.next_call() is None

    assert proposals.handle_response({ZERO: ACCEPTED}) == [(ZERO, EXPAND, ACCEPTED)]
    assert proposals.next_call() == AlterPartitionCall({ONE: Proposed(ID, SHRINK)})


def test_a_partition_waits_for_one_answer_at_a_time(proposals: IsrProposals) -> None:
    assert proposals.submit(ZERO, ID, EXPAND)
    assert not proposals.submit(ZERO, None, SHRINK)

    proposals.next_call()
    assert not proposals.submit(ZERO, ID, SHRINK)
    proposals.handle_response({ZERO: ErrorCode.fenced_leader_epoch})

    assert proposals.submit(ZERO, ID, SHRINK)


def test_a_lost_or_refused_request_is_sent_again_with_what_came_meanwhile(
    proposals: IsrProposals,
) -> None:
    proposals.submit(ZERO, ID, EXPAND)
    proposals.next_call()
    proposals.submit(ONE, ID, SHRINK)
    both = AlterPartitionCall({ZERO: Proposed(ID, EXPAND), ONE: Proposed(ID, SHRINK)})

    proposals.lost()
    assert proposals.next_call() == both

    for error in (
        ErrorCode.stale_broker_epoch,
        ErrorCode.cluster_authorization_failed,
        ErrorCode.unknown_server_error,
    ):
        proposals.refused(error, broker_epoch=3)
        assert proposals.next_call() == both


def test_a_partition_that_the_answer_leaves_out_is_asked_for_again(proposals: IsrProposals) -> None:
    proposals.submit(ZERO, ID, EXPAND)
    proposals.submit(ONE, ID, SHRINK)
    proposals.next_call()

    verdicts = proposals.handle_response({ONE: ErrorCode.ineligible_replica})

    assert verdicts == [(ONE, SHRINK, ErrorCode.ineligible_replica)]
    assert len(proposals) == 1
    assert proposals.next_call() == AlterPartitionCall({ZERO: Proposed(ID, EXPAND)})


def test_a_topic_without_an_id_keeps_the_whole_request_at_version_1(
    proposals: IsrProposals,
) -> None:
    proposals.submit(ZERO, ID, EXPAND)
    call = proposals.next_call()
    assert call is not None
    assert call.api_version(3) == 3

    proposals.lost()
    proposals.submit(ONE, None, SHRINK)
    mixed = proposals.next_call()

    assert mixed is not None
    assert [mixed.api_version(newest) for newest in (3, 1, 0)] == [1, 1, 0]
