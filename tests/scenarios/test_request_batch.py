"""What goes into one batch of control requests, in which version, and to whom."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kafka_common.model import RECOVERING, TopicPartition
from tests.scenarios.workbench import EPOCH, Workbench
from zkcontroller.core.broker_requests import RequestBatch, event_for_response
from zkcontroller.core.effects import SendControlRequest
from zkcontroller.core.events import (
    LeaderAndIsrResponseReceived,
    TopicDeletionStopReplicaResponseReceived,
    UpdateMetadataResponseReceived,
)
from zkcontroller.core.states import PartitionState
from zkcontroller_simulation.control_requests import (
    ReceivedLeaderAndIsr,
    ReceivedStopReplica,
    ReceivedUpdateMetadata,
    SentStop,
    decode,
    leader_and_isr_response,
    stop_replica_response,
)

ORDERS_0 = TopicPartition("orders", 0)

# The tables of Kafka's MetadataVersion: from this protocol on, LeaderAndIsr, UpdateMetadata and
# StopReplica go out in these versions.
VERSIONS = [
    ("0.9.0", 0, 1, 0),
    ("0.10.0-IV0", 0, 1, 0),
    ("0.10.0-IV1", 0, 2, 0),
    ("0.10.2-IV0", 0, 3, 0),
    ("1.0-IV0", 1, 4, 0),
    ("2.0-IV1", 1, 4, 0),
    ("2.2-IV0", 2, 5, 1),
    ("2.4-IV0", 3, 5, 1),
    ("2.4-IV1", 4, 6, 2),
    ("2.5-IV0", 4, 6, 2),
    ("2.6-IV0", 4, 6, 3),
    ("2.7-IV2", 4, 6, 3),
    ("2.8-IV1", 5, 7, 3),
    ("3.2-IV0", 6, 7, 3),
    ("3.3-IV3", 6, 7, 3),
    ("3.4-IV0", 7, 8, 4),
    ("3.9-IV0", 7, 8, 4),
]


def bench_with_orders(protocol: str = "3.9-IV0", partitions: int = 2) -> Workbench:
    """Partitions of "orders" on brokers 1 and 2, led by 1, just out of an unclean election."""
    bench = Workbench(inter_broker_protocol_version=protocol)
    for partition in range(partitions):
        led_by = bench.led(1, [1, 2], leader_epoch=3)._replace(leader_recovery_state=RECOVERING)
        bench.add("orders", partition, [1, 2], state=PartitionState.ONLINE, led_by=led_by)
    return bench


@contextmanager
def one_batch(bench: Workbench) -> Iterator[RequestBatch]:
    """A batch that is sent at the end."""
    batch = bench.tools.new_batch()
    yield batch
    batch.send()
    bench.gather()


@pytest.mark.parametrize(("protocol", "leader_and_isr", "metadata", "stop"), VERSIONS)
def test_each_protocol_has_its_request_versions(
    protocol: str, leader_and_isr: int, metadata: int, stop: int
) -> None:
    bench = bench_with_orders(protocol)

    with one_batch(bench) as batch:
        batch.add_leader_and_isr([2], [0])
        batch.add_stop_replica([2], [0], delete=False)

    assert bench.sent_to(2, ReceivedLeaderAndIsr)[0].version == leader_and_isr
    assert bench.sent_to(2, ReceivedUpdateMetadata)[0].version == metadata
    assert bench.sent_to(2, ReceivedStopReplica)[0].version == stop


@pytest.mark.parametrize(("protocol", "kept"), [("3.1-IV0", False), ("3.2-IV0", True)])
def test_the_recovery_state_is_sent_since_protocol_3_2(protocol: str, kept: bool) -> None:
    bench = bench_with_orders(protocol)

    with one_batch(bench) as batch:
        batch.add_leader_and_isr([2], [0])

    told = bench.sent_to(2, ReceivedLeaderAndIsr)[0].partitions[ORDERS_0]
    assert (told.leader_recovery_state == RECOVERING) is kept


def test_requests_carry_the_epochs_of_controller_broker_and_state() -> None:
    bench = bench_with_orders()
    older = bench.context.table.leader_and_isr(0)._replace(controller_epoch=EPOCH - 2)
    bench.context.table.put_leader_and_isr({0: older})

    with one_batch(bench) as batch:
        batch.add_leader_and_isr([2], [0])

    (request,) = bench.sent_to(2, ReceivedLeaderAndIsr)
    assert (request.controller_epoch, request.broker_epoch) == (EPOCH, 102)
    assert request.partitions[ORDERS_0].controller_epoch == EPOCH - 2


def test_new_stays_new_whatever_is_added_later() -> None:
    bench = bench_with_orders()

    with one_batch(bench) as batch:
        batch.add_leader_and_isr([2], [0], is_new=True)
        batch.add_leader_and_isr([2], [0], is_new=False)
        batch.add_leader_and_isr([2], [1], is_new=False)

    (request,) = bench.sent_to(2, ReceivedLeaderAndIsr)
    assert [told.is_new for told in request.partitions.values()] == [True, False]


def test_delete_stays_delete_whatever_is_added_later() -> None:
    bench = bench_with_orders()

    with one_batch(bench) as batch:
        batch.add_stop_replica([2], [0], delete=True)
        batch.add_stop_replica([2], [0], delete=False)

    (request,) = bench.sent_to(2, ReceivedStopReplica)
    assert request.partitions[ORDERS_0].delete


def test_requests_go_to_live_and_leaving_brokers_and_to_no_dead_one() -> None:
    bench = bench_with_orders()
    bench.context.shutting_down.add(2)

    with one_batch(bench) as batch:
        batch.add_leader_and_isr([1, 2, 9], [0])
        batch.add_stop_replica([1, 2, 9], [0], delete=False)

    assert bench.receivers(ReceivedLeaderAndIsr) == [1, 2]
    assert bench.receivers(ReceivedUpdateMetadata) == [1, 2, 3]
    assert bench.receivers(ReceivedStopReplica) == [1, 2]


def test_leader_and_isr_goes_out_before_metadata_before_stops() -> None:
    bench = bench_with_orders()

    with one_batch(bench) as batch:
        batch.add_stop_replica([1], [0], delete=False)
        batch.add_leader_and_isr([1], [1])

    kinds = [type(request) for _, request in bench.sent]
    assert kinds == [
        ReceivedLeaderAndIsr,
        ReceivedUpdateMetadata,
        ReceivedUpdateMetadata,
        ReceivedUpdateMetadata,
        ReceivedStopReplica,
    ]


def test_the_live_leaders_of_a_request_are_those_of_its_partitions() -> None:
    bench = bench_with_orders()
    bench.add("refunds", 0, [3], state=PartitionState.ONLINE, led_by=bench.led(3, [3]))

    with one_batch(bench) as batch:
        batch.add_leader_and_isr([2], [0])

    (request,) = bench.sent_to(2, ReceivedLeaderAndIsr)
    assert request.live_leaders == {1: ("host1", 9092)}


def test_metadata_tells_all_live_brokers_even_without_partitions() -> None:
    bench = bench_with_orders()

    with one_batch(bench) as batch:
        batch.add_update_metadata([1, 2, 3])

    for broker_id in (1, 2, 3):
        (request,) = bench.sent_to(broker_id, ReceivedUpdateMetadata)
        assert request.partitions == {}
        assert sorted(request.live_brokers) == [1, 2, 3]


def test_a_partition_that_never_had_a_leader_is_left_out_of_metadata_and_logged() -> None:
    bench = Workbench()
    row = bench.add("orders", 0, [1, 2], state=PartitionState.NEW)

    with one_batch(bench) as batch:
        batch.add_update_metadata([1], [row])

    (request,) = bench.sent_to(1, ReceivedUpdateMetadata)
    assert request.partitions == {}
    (line,) = [line.message for line in bench.lines if "Leader not yet assigned" in line.message]
    assert line.startswith("Leader not yet assigned for partition orders-0. Skip sending")


def test_metadata_of_a_topic_queued_for_deletion_says_so_and_spares_the_others() -> None:
    bench = bench_with_orders()
    kept = bench.add("refunds", 0, [3], state=PartitionState.ONLINE, led_by=bench.led(3, [3]))
    bench.context.queue_for_deletion(["orders"])

    with one_batch(bench) as batch:
        batch.add_update_metadata([1], [0, kept])

    (request,) = bench.sent_to(1, ReceivedUpdateMetadata)
    going = request.partitions[ORDERS_0]
    assert (going.leader, going.leader_epoch, going.zk_version, going.isr) == (-2, 0, 0, (1, 2))
    assert request.partitions[TopicPartition("refunds", 0)].leader == 3


def test_metadata_names_the_replicas_that_are_offline() -> None:
    bench = bench_with_orders()
    bench.set_live([2, 3])

    with one_batch(bench) as batch:
        batch.add_update_metadata([2], [0])

    (request,) = bench.sent_to(2, ReceivedUpdateMetadata)
    assert request.partitions[ORDERS_0].offline_replicas == (1,)


@pytest.mark.parametrize("is_queued", [False, True])
def test_a_stop_carries_the_leader_epoch_or_that_the_topic_is_being_deleted(
    is_queued: bool,
) -> None:
    bench = bench_with_orders()
    if is_queued:
        bench.context.queue_for_deletion(["orders"])

    with one_batch(bench) as batch:
        batch.add_stop_replica([2], [0], delete=False)

    (request,) = bench.sent_to(2, ReceivedStopReplica)
    assert request.partitions[ORDERS_0] == SentStop(-2 if is_queued else 3, delete=False)


def test_stops_are_grouped_per_broker() -> None:
    bench = bench_with_orders()

    with one_batch(bench) as batch:
        batch.add_stop_replica([1, 2], [0], delete=False)
        batch.add_stop_replica([2], [1], delete=False)

    assert [len(request.partitions) for request in bench.sent_to(1, ReceivedStopReplica)] == [1]
    assert [len(request.partitions) for request in bench.sent_to(2, ReceivedStopReplica)] == [2]


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [("2.6-IV0", [[True, False]]), ("2.5-IV0", [[True], [False]])],
)
def test_deletes_and_other_stops_share_a_request_since_protocol_2_6(
    protocol: str, expected: list[list[bool]]
) -> None:
    bench = bench_with_orders(protocol)

    with one_batch(bench) as batch:
        batch.add_stop_replica([2], [0], delete=True)
        batch.add_stop_replica([2], [1], delete=False)

    requests = bench.sent_to(2, ReceivedStopReplica)
    assert [[stop.delete for stop in r.partitions.values()] for r in requests] == expected


def test_negative_broker_ids_are_skipped() -> None:
    bench = bench_with_orders()

    with one_batch(bench) as batch:
        batch.add_leader_and_isr([-1], [0])
        batch.add_stop_replica([-1], [0], delete=False)

    assert bench.receivers(ReceivedLeaderAndIsr) == bench.receivers(ReceivedStopReplica) == []


def test_brokers_that_get_the_same_states_share_the_bytes() -> None:
    bench = bench_with_orders()
    batch = bench.tools.new_batch()
    batch.add_update_metadata([1, 2, 3], [0, 1])
    batch.send()

    sends = [effect for effect in bench.tools.outbox if isinstance(effect, SendControlRequest)]

    shared = set(map(id, sends[0].body)) & set(map(id, sends[1].body))
    assert sum(len(chunk) for chunk in sends[0].body if id(chunk) in shared) > 50


def test_a_refused_metadata_request_becomes_one_event_with_its_error() -> None:
    event = event_for_response(SendControlRequest(2, 6, 8, (), EPOCH), bytes.fromhex("000b00"))

    assert isinstance(event, UpdateMetadataResponseReceived)
    assert (event.broker_id, event.request_error) == (2, 11)


def test_a_stop_that_deletes_nothing_becomes_no_event() -> None:
    assert (
        event_for_response(SendControlRequest(2, 5, 4, (), EPOCH), bytes.fromhex("00000100"))
        is None
    )


def test_partitions_are_sent_under_their_own_topics_whatever_rows_they_use_again() -> None:
    """Rows 2, 6 and 4 begin and end as if they were three neighbours."""
    bench = Workbench()

    def add(topic: str, partition: int) -> int:
        led_by = bench.led(1, [1, 2])
        return bench.add(topic, partition, [1, 2], state=PartitionState.ONLINE, led_by=led_by)

    for partition in range(7):
        add("gone", partition)
    bench.context.remove_topic("gone")
    rows = [
        add(topic, partition)
        for topic, partition in [
            ("a", 0), ("a", 1), ("orders", 0), ("b", 0), ("orders", 2), ("b", 1), ("orders", 1),
        ]
    ]  # fmt: skip
    assert list(bench.context.table.topics["orders"].rows) == [2, 6, 4]

    with one_batch(bench) as batch:
        batch.add_update_metadata([3], sorted(rows))
        batch.add_leader_and_isr([2], [rows[-1]])

    (metadata,) = bench.sent_to(3, ReceivedUpdateMetadata)
    (orders,) = bench.sent_to(2, ReceivedLeaderAndIsr)
    assert set(metadata.partitions) == {bench.context.table.topic_partition(row) for row in rows}
    assert set(orders.partitions) == {TopicPartition("orders", 1)}


def stop_event(
    send: SendControlRequest, error: int, errors: dict[TopicPartition, int]
) -> TopicDeletionStopReplicaResponseReceived | None:
    """What an answer to that StopReplica becomes."""
    request = decode(send.api_key, send.api_version, b"".join(send.body))
    assert isinstance(request, ReceivedStopReplica)
    event = event_for_response(send, stop_replica_response(request, error, errors))
    assert event is None or isinstance(event, TopicDeletionStopReplicaResponseReceived)
    return event


def test_an_answer_to_a_stop_says_nothing_of_what_it_does_not_name() -> None:
    bench = bench_with_orders()
    bench.context.queue_for_deletion(["orders"])
    bench.context.topics_with_deletion_started.add("orders")
    bench.tools.outbox.clear()
    batch = bench.tools.new_batch()
    batch.add_stop_replica([2], [0, 1], delete=True)
    batch.send()
    (send,) = [
        effect
        for effect in bench.tools.outbox
        if isinstance(effect, SendControlRequest) and effect.api_key == 5
    ]

    event = stop_event(send, 0, {ORDERS_0: 0})
    assert event is not None
    assert event.partition_errors == (("orders", 0, 0),)
    event = stop_event(send, 0, {ORDERS_0: 0, TopicPartition("orders", 1): 56})
    assert event is not None
    assert event.partition_errors == (("orders", 0, 0), ("orders", 1, 56))
    assert stop_event(send, 0, {}) is None
    assert stop_event(send, 77, {}) is None, "a broker that was started again names none"


def test_an_answer_to_a_probe_names_every_partition_and_any_other_only_refusals() -> None:
    """A partition that is not named is not known to be online again."""
    bench = bench_with_orders()
    bench.context.offline_dir_rows[2] = {0}
    batch = bench.tools.new_batch()
    batch.add_leader_and_isr([1, 2], [0, 1])
    batch.send()
    sends = {
        effect.broker_id: effect
        for effect in bench.tools.outbox
        if isinstance(effect, SendControlRequest) and effect.api_key == 4
    }

    def understood(broker_id: int, errors: dict[TopicPartition, int]) -> list[tuple[int, int]]:
        send = sends[broker_id]
        request = decode(send.api_key, send.api_version, b"".join(send.body))
        assert isinstance(request, ReceivedLeaderAndIsr)
        event = event_for_response(send, leader_and_isr_response(request, 0, errors))
        assert isinstance(event, LeaderAndIsrResponseReceived)
        return [(partition, code) for _, partition, code in event.partition_errors]

    other = TopicPartition("orders", 1)
    assert understood(1, {ORDERS_0: 0, other: 56}) == [(1, 56)]
    assert understood(2, {ORDERS_0: 0, other: 56}) == [(0, 0), (1, 56)]
    assert understood(2, {other: 0}) == [(1, 0)]


def test_the_deletion_of_a_replica_that_a_move_left_behind_becomes_no_event() -> None:
    bench = bench_with_orders()
    batch = bench.tools.new_batch()
    batch.add_stop_replica([2], [0], delete=True)
    batch.send()
    (send,) = [
        effect
        for effect in bench.tools.outbox
        if isinstance(effect, SendControlRequest) and effect.api_key == 5
    ]

    assert stop_event(send, 0, {ORDERS_0: 0}) is None
