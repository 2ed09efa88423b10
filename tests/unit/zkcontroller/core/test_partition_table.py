"""The partition table and the context: what Kafka's ControllerContextTest says of them."""

from collections.abc import Sequence
from uuid import UUID

import pytest

from kafka_common.errors import IllegalState
from kafka_common.model import (
    EPOCH_DURING_DELETE,
    NO_EPOCH,
    Broker,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicPartition,
)
from zkcontroller.core import partition_table
from zkcontroller.core.context import ControllerContext
from zkcontroller.core.partition_table import (
    LEAST_INTERNED,
    NO_ROW,
    distinct,
    in_slices,
    is_ascending,
    pick,
)
from zkcontroller.core.states import PartitionState, ReplicaState


def context_with(**topics: list[tuple[int, ...]]) -> ControllerContext:
    context = ControllerContext()
    for topic, partitions in topics.items():
        rows = context.table.add_topic(topic, None)
        context.table.add_topic_rows(rows, range(len(partitions)), partitions)
    return context


def lead(context: ControllerContext, topic: str, partition: int, leader: int, *isr: int) -> int:
    row = context.table.row(topic, partition)
    context.table.put_leader_and_isr({row: LeaderAndIsr(leader, 0, isr, 0, 1)})
    return row


def test_a_row_tells_its_partition_and_is_found_by_it() -> None:
    table = context_with(a=[(1, 2), (2, 3)], b=[(3, 1)]).table

    assert table.topic_partition(table.row("b", 0)) == TopicPartition("b", 0)
    assert table.text(table.row("a", 1)) == "a-1"
    assert table.row("a", 2) == NO_ROW
    assert table.row("c", 0) == NO_ROW
    assert list(table.all_rows()) == [0, 1, 2]
    assert len(table) == 3


def test_partitions_with_gaps_and_out_of_order_are_found() -> None:
    table = ControllerContext().table
    topic = table.add_topic("t", None)
    rows = {partition: table.add(topic, partition, (1,)) for partition in (7, 2, 1000000, 0)}

    assert {p: table.row("t", p) for p in (7, 2, 1000000, 0)} == rows
    assert [table.partition_of[row] for row in table.rows_of("t")] == [0, 2, 7, 1000000]
    assert table.row("t", 1) == NO_ROW


def test_rows_of_a_removed_topic_are_used_again_and_know_nothing_of_it() -> None:
    context = context_with(a=[(1, 2)], b=[(2, 1)])
    row = lead(context, "a", 0, 1, 1, 2)
    context.put_partition_state(row, PartitionState.ONLINE)

    context.remove_topic("a")
    reused = context.table.add(context.table.add_topic("c", None), 0, (5,))

    assert reused == row
    assert not context.table.has_leader_and_isr(reused)
    assert context.table.partition_state[reused] == PartitionState.NON_EXISTENT
    assert context.table.replica_state(reused, 5) is ReplicaState.NON_EXISTENT
    assert context.table.with_leader_and_isr == 0


def test_storing_an_assignment_replaces_replicas_adding_and_removing() -> None:
    table = context_with(t=[(1, 2, 3)]).table
    moving = ReplicaAssignment((4, 1, 2, 3), adding_replicas=(4,), removing_replicas=(3,))

    table.put_assignment(0, moving)
    assert table.assignment(0) == moving

    table.put_assignment(0, ReplicaAssignment((4, 1, 2)))
    assert table.assignment(0) == ReplicaAssignment((4, 1, 2))
    assert not table.reassigning


def test_replicas_keep_their_state_when_the_assignment_changes() -> None:
    table = context_with(t=[(1, 2)]).table
    table.put_replica_state(0, 2, ReplicaState.ONLINE)

    table.put_assignment(0, ReplicaAssignment((3, 2)))

    assert table.replica_state(0, 2) is ReplicaState.ONLINE
    assert table.replica_state(0, 3) is ReplicaState.NON_EXISTENT
    assert table.replica_state(0, 1) is ReplicaState.NON_EXISTENT


def test_the_imbalance_count_follows_leadership_and_assignment() -> None:
    context = context_with(t=[(1, 2), (2, 1)])
    lead(context, "t", 0, 1, 1, 2)
    row = lead(context, "t", 1, 1, 1, 2)
    assert context.table.imbalanced == 1

    context.table.put_assignment(row, ReplicaAssignment((1, 2)))
    assert context.table.imbalanced == 0

    lead(context, "t", 0, 2, 1, 2)
    assert context.table.imbalanced == 1


def test_a_partition_in_reassignment_is_balanced_until_its_new_preferred_leader_is_in_sync() -> (
    None
):
    context = context_with(t=[(1, 2)])
    lead(context, "t", 0, 1, 1, 2)

    context.table.put_assignment(0, ReplicaAssignment((3, 1, 2), (3,), (1, 2)))
    assert context.table.imbalanced == 0

    lead(context, "t", 0, 1, 1, 2, 3)
    assert context.table.imbalanced == 1


def test_a_topic_queued_for_deletion_no_longer_counts_as_imbalanced_and_is_subtracted_once() -> (
    None
):
    context = context_with(a=[(1, 2)], b=[(1, 2)])
    lead(context, "a", 0, 2, 2)
    lead(context, "b", 0, 2, 2)

    context.queue_for_deletion(["a"])
    context.queue_for_deletion(["a", "b"])
    assert context.table.imbalanced == 0

    lead(context, "a", 0, 1, 1)
    context.remove_topic("a")
    context.remove_topic("b")
    assert context.table.imbalanced == 0


def test_removing_an_imbalanced_topic_that_was_never_queued_subtracts_it_too() -> None:
    context = context_with(a=[(1, 2)])
    lead(context, "a", 0, 2, 2)

    context.remove_topic("a")

    assert context.table.imbalanced == 0


def test_offline_partitions_are_counted_on_entering_and_leaving_the_state() -> None:
    context = context_with(t=[(1,), (1,), (1,), (1,)])
    for row in range(4):
        context.put_partition_state(row, PartitionState.OFFLINE)
        context.put_partition_state(row, PartitionState.OFFLINE)
    assert context.offline_partition_count == 4

    for row in range(4):
        context.put_partition_state(row, PartitionState.ONLINE)
    assert context.offline_partition_count == 0


def test_partitions_of_a_topic_whose_deletion_has_started_never_count_as_offline() -> None:
    context = context_with(t=[(1,)])
    context.queue_for_deletion(["t"])
    context.topics_with_deletion_started.add("t")

    context.put_partition_state(0, PartitionState.OFFLINE)

    assert context.offline_partition_count == 0


def test_a_topic_id_must_belong_to_a_known_topic_and_does_not_change() -> None:
    context = context_with(t=[(1,)])
    context.put_topic_id("t", UUID(int=5))
    context.put_topic_id("t", UUID(int=5))
    assert context.topic_names == {UUID(int=5): "t"}

    with pytest.raises(IllegalState):
        context.put_topic_id("t", UUID(int=6))
    with pytest.raises(IllegalState):
        context.put_topic_id("unknown", UUID(int=7))


def test_a_topic_id_belongs_to_one_topic() -> None:
    context = context_with(a=[(1,)], b=[(1,)])
    context.put_topic_id("a", UUID(int=5))

    with pytest.raises(IllegalState):
        context.put_topic_id("b", UUID(int=5))


def test_a_replica_is_online_while_its_broker_and_its_log_directory_are() -> None:
    context = context_with(t=[(1, 2)])
    context.set_live_brokers([(Broker(1, ()), 10), (Broker(2, ()), 20)])
    assert context.is_replica_online(1, 0)
    assert not context.is_replica_online(3, 0)

    context.shutting_down.add(1)
    assert not context.is_replica_online(1, 0)
    assert context.is_replica_online(1, 0, include_shutting_down=True)

    context.offline_dir_rows[2] = {0}
    assert not context.is_replica_online(2, 0)


def test_a_leader_in_a_failed_log_directory_is_an_offline_leader() -> None:
    context = context_with(t=[(1, 2), (2, 1)])
    context.set_live_brokers([(Broker(1, ()), 10), (Broker(2, ()), 20)])
    lead(context, "t", 0, 1, 1, 2)
    lead(context, "t", 1, 2, 1, 2)
    assert context.rows_with_offline_leader() == []

    context.offline_dir_rows[1] = {0}
    assert context.rows_with_offline_leader() == [0]


def test_a_partition_without_leader_has_an_offline_leader() -> None:
    context = context_with(t=[(1, 2)], fresh=[(1,)])
    context.set_live_brokers([(Broker(1, ()), 10)])
    lead(context, "t", 0, -1, 1)

    assert context.rows_with_offline_leader() == [0]


def test_a_broker_leads_for_shutdown_only_what_others_could_take_over() -> None:
    context = context_with(t=[(1, 2), (1,), (2, 1)], gone=[(1, 2)])
    for partition, leader in enumerate((1, 1, 2)):
        lead(context, "t", partition, leader, leader)
    lead(context, "gone", 0, 1, 1)
    context.queue_for_deletion(["gone"])

    assert context.rows_led_by(1) == [0]


def test_stop_replica_carries_the_leader_epoch_or_a_sentinel() -> None:
    context = context_with(t=[(1,), (1,)])
    lead(context, "t", 0, 1, 1)
    assert context.stop_replica_leader_epoch(0) == 0
    assert context.stop_replica_leader_epoch(1) == NO_EPOCH

    context.queue_for_deletion(["t"])
    assert context.stop_replica_leader_epoch(0) == EPOCH_DURING_DELETE


def test_a_reset_context_knows_nothing() -> None:
    context = context_with(t=[(1, 2)])
    context.epoch, context.epoch_zk_version = 4, 4
    context.set_live_brokers([(Broker(1, ()), 10)])
    context.shutting_down.add(1)
    context.queue_for_deletion(["t"])
    context.topics_ineligible_for_deletion.add("t")

    context.reset()

    fresh = ControllerContext()
    assert (context.epoch, context.epoch_zk_version) == (0, 0)
    assert not context.live_brokers
    assert not context.shutting_down
    assert not context.topics_to_be_deleted
    assert not context.topics_ineligible_for_deletion
    assert len(context.table) == len(fresh.table) == 0


def test_no_row_reads_no_partition() -> None:
    """As -1 it would read the last one."""
    table = context_with(a=[(1, 2)]).table
    row = table.row("a", 1)

    columns: list[Sequence[object]] = [
        table.topic_of,
        table.partition_of,
        table.replicas,
        table.partition_state,
        table.replica_states,
        table.leader,
        table.leader_epoch,
        table.in_sync_replicas,
        table.zk_version,
    ]
    for column in columns:
        with pytest.raises(IndexError):
            column[row]


def test_many_moves_of_one_partition_leave_no_replica_lists_behind() -> None:
    context = context_with(a=[(1, 2, 3)], b=[(7, 8)])
    table = context.table
    for move in range(3 * LEAST_INTERNED):
        replicas = (move, move + 1, move + 2)
        table.put_assignment(0, ReplicaAssignment(replicas))
        table.put_leader_and_isr({0: LeaderAndIsr(move, move, replicas[:2], move, 1)})

        assert len(table._tuples) <= LEAST_INTERNED + 2
    assert table.rows_on_broker(move) == [0]
    assert table.rows_on_broker(7) == [1]
    assert table.rows_on_broker(2) == []


def test_as_many_replica_lists_as_partitions_have_are_kept() -> None:
    lists: list[tuple[int, ...]] = [(n, n + 1) for n in range(2 * LEAST_INTERNED)]
    table = context_with(a=lists).table

    for n, replicas in enumerate(lists):
        table.put_assignment(n, ReplicaAssignment((*replicas, 100_000)))

    assert len(table.rows_on_broker(100_000)) == len(lists)
    assert len(table._tuples) <= 4 * len(lists)


@pytest.mark.parametrize("count", range(8))
def test_columns_longer_than_a_slice_are_read_whole(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(partition_table, "SLICE_ROWS", 3)
    rows = list(range(0, 2 * count, 2))

    assert list(pick(range(100, 120), rows)) == [100 + row for row in rows]
    assert in_slices(iter(rows)) == rows
    assert distinct(rows + rows) == set(rows)
    assert is_ascending(rows)
    for at in range(1, count):
        assert not is_ascending([*rows[:at], rows[at - 1], *rows[at + 1 :]])
