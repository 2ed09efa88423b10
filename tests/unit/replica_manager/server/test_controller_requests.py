"""The handlers that pass a request on to the controller: what they send, and what they answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.model import ElectionType, LeaderAndIsr, ReplicaAssignment, TopicPartition
from tests.support.broker_world import ORDERS_ID, BrokerWorld, metadata
from zkcontroller.core.effects import (
    AlterPartitionResult,
    FeatureResults,
    IsrChangeResult,
    OngoingReassignments,
    PartitionResult,
    PartitionResults,
    ProducerIdBlock,
    Result,
)
from zkcontroller.core.events import (
    AllocateProducerIds,
    AlterPartitionReceived,
    ApiPartitionReassignment,
    ElectionTrigger,
    FeatureUpdate,
    IsrChange,
    ListPartitionReassignments,
    ReplicaLeaderElection,
    RequestEvent,
    UpdateFeatures,
)

LONG = timedelta(seconds=20)
NO_TIME = timedelta(0)
ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
BILLS_0 = TopicPartition("bills", 0)


@pytest.fixture
def world(executor: ThreadPoolExecutor) -> BrokerWorld:
    world = BrokerWorld(executor)
    world.update(
        {"orders": {0: metadata(2), 1: metadata(1)}, "bills": {0: metadata(1)}},
        topic_ids={"orders": ORDERS_ID},
    )
    return world


def schema(api: str, version: int) -> Any:
    return import_module(f"kio.schema.{api}.v{version}.request")


def ask(world: BrokerWorld, request: Any, response: Result | None) -> Any:
    world.controller.answer = response
    return asyncio.run(world.ask(request))


def verdicts(*rows: tuple[Any, ...]) -> PartitionResults:
    """What the controller says of partitions: each with its error, and perhaps a message."""
    return PartitionResults(ErrorCode.none, tuple(PartitionResult(*row) for row in rows))


# ---------------------------------------------------------------------- reassignments


def reassign(*partitions: tuple[str, int, tuple[int, ...] | None]) -> Any:
    messages = schema("alter_partition_reassignments", 0)
    return messages.AlterPartitionReassignmentsRequest(
        timeout=LONG,
        topics=tuple(
            messages.ReassignableTopic(
                name=topic,
                partitions=(
                    messages.ReassignablePartition(partition_index=partition, replicas=replicas),
                ),
            )
            for topic, partition, replicas in partitions
        ),
    )


def test_targets_and_cancellations_are_handed_to_the_controller(world: BrokerWorld) -> None:
    ask(
        world,
        reassign(("orders", 0, (3, 1)), ("bills", 0, None), ("orders", 1, ())),
        PartitionResults(ErrorCode.none),
    )

    assert world.controller.requests == [
        ApiPartitionReassignment(((ORDERS_0, (3, 1)), (BILLS_0, None), (ORDERS_1, ())), 0)
    ]


def test_of_a_partition_named_twice_the_last_target_counts(world: BrokerWorld) -> None:
    ask(world, reassign(("orders", 0, (3,)), ("orders", 0, (2,))), PartitionResults(ErrorCode.none))

    assert world.controller.requests == [ApiPartitionReassignment(((ORDERS_0, (2,)),), 0)]


def test_reassignments_are_answered_by_topic_with_the_codes_own_sentence(
    world: BrokerWorld,
) -> None:
    response = ask(
        world,
        reassign(("orders", 0, (3,))),
        verdicts(
            (ORDERS_0, ErrorCode.none),
            (BILLS_0, ErrorCode.no_reassignment_in_progress),
            (ORDERS_1, ErrorCode.unknown_topic_or_partition, "The partition does not exist."),
        ),
    )

    told = {
        topic.name: [(p.partition_index, p.error_code, p.error_message) for p in topic.partitions]
        for topic in response.responses
    }
    assert (response.error_code, response.error_message) == (ErrorCode.none, "")
    assert told == {
        "orders": [
            (0, ErrorCode.none, None),
            (1, ErrorCode.unknown_topic_or_partition, "The partition does not exist."),
        ],
        "bills": [
            (0, ErrorCode.no_reassignment_in_progress, "No partition reassignment is in progress.")
        ],
    }


def test_a_controller_that_does_not_answer_is_a_time_out_for_every_partition(
    world: BrokerWorld,
) -> None:
    response = ask(world, reassign(("orders", 0, (3,))), None)

    [topic] = response.responses
    assert response.error_code is ErrorCode.request_timed_out
    assert [p.error_code for p in topic.partitions] == [ErrorCode.request_timed_out]


def list_reassignments(*partitions: tuple[str, tuple[int, ...]], all_of_them: bool = False) -> Any:
    messages = schema("list_partition_reassignments", 0)
    topics = tuple(
        messages.ListPartitionReassignmentsTopics(name=topic, partition_indexes=indexes)
        for topic, indexes in partitions
    )
    return messages.ListPartitionReassignmentsRequest(
        timeout=LONG, topics=None if all_of_them else topics
    )


def test_ongoing_reassignments_are_reported_by_topic(world: BrokerWorld) -> None:
    moving = ReplicaAssignment((4, 1, 2), adding_replicas=(4,), removing_replicas=(1,))
    response = ask(
        world,
        list_reassignments(all_of_them=True),
        OngoingReassignments(
            ErrorCode.none, ((ORDERS_0, moving), (BILLS_0, moving), (ORDERS_1, moving))
        ),
    )

    assert world.controller.requests == [ListPartitionReassignments(None, 0)]
    assert [(t.name, [p.partition_index for p in t.partitions]) for t in response.topics] == [
        ("orders", [0, 1]),
        ("bills", [0]),
    ]
    first = response.topics[0].partitions[0]
    assert (first.replicas, first.adding_replicas, first.removing_replicas) == (
        (4, 1, 2),
        (4,),
        (1,),
    )


def test_the_partitions_asked_for_are_named_once_each(world: BrokerWorld) -> None:
    ask(
        world,
        list_reassignments(("orders", (1, 0, 1)), ("bills", (0,))),
        OngoingReassignments(ErrorCode.none),
    )

    assert world.controller.requests == [
        ListPartitionReassignments((ORDERS_1, ORDERS_0, BILLS_0), 0)
    ]


# ---------------------------------------------------------------------- elections


def slow_controller(world: BrokerWorld, delay_s: float) -> None:
    """A controller that needs that long for its answer."""
    answer_at_once = world.controller.ask

    async def answer_late(
        make: Callable[[int], RequestEvent], timeout_ms: int = 0
    ) -> Result | None:
        await asyncio.sleep(delay_s)
        return await answer_at_once(make, timeout_ms)

    world.controller.ask = answer_late  # type: ignore[method-assign]


def elect(
    *partitions: tuple[str, tuple[int, ...]],
    version: int = 2,
    election_type: int = 0,
    timeout: timedelta = NO_TIME,
    of_all: bool = False,
) -> Any:
    messages = schema("elect_leaders", version)
    options = {"election_type": election_type} if version >= 1 else {}
    topics = tuple(
        messages.TopicPartitions(topic=topic, partitions=indexes) for topic, indexes in partitions
    )
    return messages.ElectLeadersRequest(
        topic_partitions=None if of_all else topics, timeout=timeout, **options
    )


def outcomes(response: Any) -> dict[TopicPartition, tuple[ErrorCode, str | None]]:
    return {
        TopicPartition(topic.topic, partition.partition_id): (
            partition.error_code,
            partition.error_message,
        )
        for topic in response.replica_election_results
        for partition in topic.partition_result
    }


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_an_election_is_answered_when_the_cache_shows_the_leader(
    world: BrokerWorld, version: int
) -> None:
    world.controller.answer = verdicts((ORDERS_0, ErrorCode.none))

    asking = asyncio.ensure_future(
        world.ask(elect(("orders", (0,)), version=version, timeout=LONG))
    )
    while not world.topics.waiters:
        await asyncio.sleep(0)
    assert not asking.done()
    world.update({"orders": {0: metadata(1, leader_epoch=1)}})
    response = await asking

    assert outcomes(response) == {ORDERS_0: (ErrorCode.none, None)}
    assert world.controller.requests == [
        ReplicaLeaderElection((ORDERS_0,), ElectionType.PREFERRED, ElectionTrigger.ADMIN_CLIENT, 0)
    ]
    assert len(world.topics.waiters) == 0


async def test_an_unclean_leader_is_known_by_its_higher_epoch(world: BrokerWorld) -> None:
    world.controller.answer = verdicts((ORDERS_0, ErrorCode.none))

    asking = asyncio.ensure_future(
        world.ask(elect(("orders", (0,)), election_type=1, timeout=LONG))
    )
    while not world.topics.waiters:
        await asyncio.sleep(0)
    world.update({"orders": {0: metadata(-1, leader_epoch=1)}})
    await asyncio.sleep(0)
    assert not asking.done()
    world.update({"orders": {0: metadata(3, leader_epoch=2)}})
    assert outcomes(await asking) == {ORDERS_0: (ErrorCode.none, None)}


def test_an_election_that_does_not_show_in_time_timed_out(world: BrokerWorld) -> None:
    response = ask(
        world,
        elect(("orders", (0,)), timeout=timedelta(milliseconds=20)),
        verdicts((ORDERS_0, ErrorCode.none), (ORDERS_1, ErrorCode.election_not_needed)),
    )

    assert outcomes(response) == {
        ORDERS_0: (ErrorCode.request_timed_out, None),
        ORDERS_1: (
            ErrorCode.election_not_needed,
            "Leader election not needed for topic partition.",
        ),
    }


def test_what_the_controller_needs_of_the_clients_time_is_gone_for_the_wait(
    world: BrokerWorld,
) -> None:
    waited: list[int] = []

    async def only_tell(
        topics: Sequence[str], is_done: Callable[[], bool], timeout_ms: int
    ) -> bool:
        assert topics == ["orders"]
        waited.append(timeout_ms)
        return is_done()

    world.topics.waiters.wait = only_tell  # type: ignore[method-assign]
    slow_controller(world, 0.02)
    elected = verdicts((ORDERS_0, ErrorCode.none))

    late = ask(world, elect(("orders", (0,)), timeout=timedelta(milliseconds=5)), elected)
    assert outcomes(late) == {ORDERS_0: (ErrorCode.request_timed_out, None)}
    assert waited == []

    ask(world, elect(("orders", (0,)), timeout=LONG), elected)
    assert len(waited) == 1
    assert 0 < waited[0] <= 19_980


def test_the_controller_may_take_as_long_as_the_client_waits(world: BrokerWorld) -> None:
    nothing = PartitionResults(ErrorCode.none)

    ask(world, elect(("orders", (0,)), timeout=LONG), nothing)
    ask(world, reassign(("orders", 0, (1,))), nothing)
    ask(world, list_reassignments(("orders", (0,))), OngoingReassignments(ErrorCode.none))
    ask(world, features(1, upgrade_type=1), FeatureResults(ErrorCode.none))
    ask(world, alter_partition(3, ORDERS_ID), AlterPartitionResult(ErrorCode.none))

    # The last has no time of its own.
    assert world.controller.timeouts_ms == [20_000, 20_000, 20_000, 20_000, 0]


def test_without_partitions_all_are_asked_and_those_in_order_left_out(world: BrokerWorld) -> None:
    response = ask(
        world,
        elect(of_all=True),
        verdicts(
            (ORDERS_0, ErrorCode.preferred_leader_not_available, "no"),
            (ORDERS_1, ErrorCode.election_not_needed),
            (BILLS_0, ErrorCode.election_not_needed),
        ),
    )

    assert outcomes(response) == {ORDERS_0: (ErrorCode.preferred_leader_not_available, "no")}
    [request] = world.controller.requests
    assert isinstance(request, ReplicaLeaderElection)
    assert request.partitions == (ORDERS_0, ORDERS_1, BILLS_0)


def test_who_is_not_the_controller_says_so_for_each_partition(world: BrokerWorld) -> None:
    response = ask(world, elect(("orders", (0,))), verdicts((ORDERS_0, ErrorCode.not_controller)))

    assert response.error_code is ErrorCode.none
    assert outcomes(response) == {ORDERS_0: (ErrorCode.not_controller, None)}


def test_the_internals_of_a_failed_election_are_not_sent(world: BrokerWorld) -> None:
    secret = verdicts((ORDERS_0, ErrorCode.unknown_server_error, "secret"))

    response = ask(world, elect(("orders", (0,))), secret)

    assert outcomes(response) == {ORDERS_0: (ErrorCode.unknown_server_error, None)}


def test_an_unknown_kind_of_election_is_refused(world: BrokerWorld) -> None:
    response = ask(world, elect(("orders", (0, 1)), election_type=7), None)

    assert response.error_code is ErrorCode.unknown_server_error
    assert set(outcomes(response)) == {ORDERS_0, ORDERS_1}
    assert world.controller.requests == []


# ---------------------------------------------------------------------- ISRs


def alter_partition(version: int, topic: str | UUID | None) -> Any:
    messages = schema("alter_partition", version)
    fields: dict[str, Any] = {"partition_index": 1, "leader_epoch": 5, "partition_epoch": 9}
    if version >= 3:
        fields["new_isr_with_epochs"] = tuple(
            messages.BrokerState(broker_id=broker, broker_epoch=-1) for broker in (1, 3)
        )
    else:
        fields["new_isr"] = (1, 3)
    if version >= 1:
        fields["leader_recovery_state"] = 1
    named = {"topic_id": topic} if version >= 2 else {"topic_name": topic}
    return messages.AlterPartitionRequest(
        broker_id=1,
        broker_epoch=77,
        topics=(messages.TopicData(partitions=(messages.PartitionData(**fields),), **named),),
    )


@pytest.mark.parametrize("version", range(4))
def test_a_change_of_an_isr_reaches_the_controller_in_every_version(
    world: BrokerWorld, version: int
) -> None:
    topic = ORDERS_ID if version >= 2 else "orders"
    state = LeaderAndIsr(1, 5, (1, 3), 10, 1, leader_recovery_state=1)
    response = ask(
        world,
        alter_partition(version, topic),
        AlterPartitionResult(
            ErrorCode.none,
            (
                IsrChangeResult(topic, 1, ErrorCode.none, state),
                IsrChangeResult(topic, 0, ErrorCode.invalid_update_version),
            ),
        ),
    )

    recovery = 1 if version >= 1 else 0
    assert world.controller.requests == [
        AlterPartitionReceived(1, 77, version, (IsrChange(topic, 1, 5, (1, 3), recovery, 9),), 0)
    ]
    [told] = response.topics
    assert (told.topic_id if version >= 2 else told.topic_name) == topic
    written, refused = told.partitions
    assert (written.partition_index, written.error_code) == (1, ErrorCode.none)
    assert (written.leader_id, written.leader_epoch, written.isr) == (1, 5, (1, 3))
    assert written.partition_epoch == 10
    assert (refused.partition_index, refused.error_code) == (0, ErrorCode.invalid_update_version)
    assert (refused.leader_id, refused.isr, refused.partition_epoch) == (0, (), 0)
    if version >= 1:
        assert written.leader_recovery_state == 1


def test_a_topic_id_of_zeros_stays_one(world: BrokerWorld) -> None:
    zeros = UUID(int=0)
    response = ask(
        world,
        alter_partition(2, None),
        AlterPartitionResult(
            ErrorCode.none, (IsrChangeResult(zeros, 1, ErrorCode.unknown_topic_id),)
        ),
    )

    [request] = world.controller.requests
    assert isinstance(request, AlterPartitionReceived)
    assert request.changes[0].topic == zeros
    [told] = response.topics
    assert told.partitions[0].error_code is ErrorCode.unknown_topic_id


def test_a_refused_change_of_isrs_has_only_a_code(world: BrokerWorld) -> None:
    response = ask(
        world, alter_partition(3, ORDERS_ID), AlterPartitionResult(ErrorCode.stale_broker_epoch)
    )

    assert (response.error_code, response.topics) == (ErrorCode.stale_broker_epoch, ())


# ---------------------------------------------------------------------- producer ids, features


def test_a_block_of_producer_ids_is_handed_out(world: BrokerWorld) -> None:
    request = schema("allocate_producer_ids", 0).AllocateProducerIdsRequest(
        broker_id=2, broker_epoch=50
    )

    response = ask(world, request, ProducerIdBlock(ErrorCode.none, 3000, 1000))

    assert world.controller.requests == [AllocateProducerIds(2, 50, 0)]
    assert (response.error_code, response.producer_id_start, response.producer_id_len) == (
        ErrorCode.none,
        3000,
        1000,
    )


def test_producer_ids_are_refused_with_a_code(world: BrokerWorld) -> None:
    request = schema("allocate_producer_ids", 0).AllocateProducerIdsRequest(
        broker_id=2, broker_epoch=50
    )

    assert ask(world, request, ProducerIdBlock(ErrorCode.broker_id_not_registered)).error_code is (
        ErrorCode.broker_id_not_registered
    )
    assert ask(world, request, None).error_code is ErrorCode.request_timed_out


def features(version: int, timeout: timedelta = LONG, **fields: Any) -> Any:
    messages = schema("update_features", version)
    options = {"validate_only": True} if version >= 1 else {}
    return messages.UpdateFeaturesRequest(
        timeout=timeout,
        feature_updates=(messages.FeatureUpdateKey(feature="f", max_version_level=2, **fields),),
        **options,
    )


@pytest.mark.parametrize(
    ("version", "fields", "upgrade_type"),
    [
        (0, {"allow_downgrade": False}, 1),
        (0, {"allow_downgrade": True}, 2),
        (1, {"upgrade_type": 3}, 3),
    ],
)
def test_feature_updates_reach_the_controller(
    world: BrokerWorld, version: int, fields: dict[str, Any], upgrade_type: int
) -> None:
    response = ask(
        world,
        features(version, **fields),
        FeatureResults(
            ErrorCode.none,
            None,
            (
                ("f", ErrorCode.invalid_request, "not so"),
                ("g", ErrorCode.none, None),
                ("h", ErrorCode.feature_update_failed, None),
            ),
        ),
    )

    assert world.controller.requests == [
        UpdateFeatures((FeatureUpdate("f", 2, upgrade_type),), version >= 1, 0)
    ]
    assert [(r.feature, r.error_code, r.error_message) for r in response.results] == [
        ("f", ErrorCode.invalid_request, "not so"),
        ("g", ErrorCode.none, None),
        (
            "h",
            ErrorCode.feature_update_failed,
            "Unable to update finalized features due to an unexpected server error.",
        ),
    ]


WRITTEN = (("f", ErrorCode.invalid_request, "not so"), ("g", ErrorCode.none, None))


async def test_written_features_are_answered_when_the_broker_has_read_them(
    world: BrokerWorld,
) -> None:
    world.write_features()
    world.features.look()
    world.controller.answer = FeatureResults(
        ErrorCode.none, None, WRITTEN, epoch=world.write_features()
    )

    asking = asyncio.ensure_future(world.ask(features(1, upgrade_type=1)))
    while not world.features.waiting:
        await asyncio.sleep(0)
    assert not asking.done()
    await asyncio.to_thread(world.features.look)
    response = await asking

    assert world.features.epoch == 1
    assert [r.error_code for r in response.results] == [ErrorCode.invalid_request, ErrorCode.none]
    assert world.features.waiting == 0


def test_written_features_that_the_broker_does_not_read_in_time_have_failed(
    world: BrokerWorld,
) -> None:
    version = world.write_features()

    response = ask(
        world,
        features(1, timeout=timedelta(milliseconds=5), upgrade_type=1),
        FeatureResults(ErrorCode.none, None, WRITTEN, epoch=version),
    )

    assert response.error_code is ErrorCode.none
    assert [(r.error_code, r.error_message) for r in response.results] == [
        (ErrorCode.invalid_request, "not so"),
        (
            ErrorCode.feature_update_failed,
            "Unable to update finalized features due to an unexpected server error.",
        ),
    ]


def test_before_feature_versioning_features_cannot_be_updated(executor: ThreadPoolExecutor) -> None:
    world = BrokerWorld(executor, inter__broker__protocol__version="2.6")

    response = ask(world, features(1, upgrade_type=1), None)

    assert response.error_code is ErrorCode.invalid_request
    assert response.error_message == "Feature versioning system is disabled."


@pytest.mark.parametrize(
    ("request_", "response"),
    [
        (reassign(("orders", 0, (3,))), PartitionResults(ErrorCode.not_controller)),
        (list_reassignments(), OngoingReassignments(ErrorCode.not_controller)),
        (features(1, upgrade_type=1), None),
    ],
    ids=["reassigns", "lists reassignments", "updates features"],
)
def test_who_is_not_the_controller_does_nothing(
    world: BrokerWorld, request_: Any, response: Result | None
) -> None:
    # Features are not even asked for; the others are for the controller itself to refuse.
    world.controller.is_active = response is not None

    refused = ask(world, request_, response)

    assert refused.error_code is ErrorCode.not_controller
    assert refused.error_message == "This is not the correct controller for this cluster."
    assert not getattr(refused, "responses", ())
