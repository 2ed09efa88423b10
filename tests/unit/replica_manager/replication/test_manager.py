"""What LeaderAndIsr and StopReplica do to logs, fetchers and requests that wait.

Source of the behaviours: Kafka ``ReplicaManagerTest``.
"""

from __future__ import annotations

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.errors import InconsistentTopicId, KafkaStorage
from kafka_common.model import EPOCH_DURING_DELETE, NO_EPOCH, Broker, TopicPartition
from replica_manager.log.leader_epoch_file_cache import EpochEndOffset
from replica_manager.replication.control_requests import (
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
)
from replica_manager.replication.fetch_requests import AskEpochEnds, EpochQuestion, FetcherSettings
from replica_manager.replication.fetch_state import FetchStage
from replica_manager.replication.leader_and_isr import become_leader_or_follower
from replica_manager.replication.partition import LeaderAndIsrPartitionState
from replica_manager.replication.replica_fetcher import ReplicaFetcher
from replica_manager.replication.replica_fetchers import FetcherKey, ReplicaFetchers
from replica_manager.replication.replica_manager import ReplicaManager
from replica_manager.replication.zk_metadata_cache import MetadataUpdate, ZkMetadataCache
from tests.simulation.replication_log import InMemoryLog
from tests.support.steps import completed
from zkcontroller.state_changes.kafka_lines import kafka_line
from zkcontroller.state_changes.record import StateChange

ID = UUID(int=7)
ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Host:
    """Broker 1 with logs, fetchers, and a note of who was woken."""

    def __init__(self, *, truncates_on_fetch: bool = True) -> None:
        self.logs: dict[TopicPartition, InMemoryLog] = {}
        self.failing: set[TopicPartition] = set()
        self.of_another_topic: set[TopicPartition] = set()
        self.woken: list[TopicPartition] = []
        self.started: list[FetcherKey] = []
        self.ended: list[FetcherKey] = []
        self.records: list[StateChange] = []
        self.turns: list[tuple[str, TopicPartition, int | None]] = []
        self.min_in_sync_replicas = 1
        self.fetchers = ReplicaFetchers(
            1,
            self.logs.__getitem__,
            FetcherSettings(truncates_on_fetch=truncates_on_fetch),
            lambda key, _: self.started.append(key),
            self.ended.append,
        )
        self.manager = ReplicaManager(
            1,
            ZkMetadataCache(1),
            write_state_changes=self.records.extend,
            now_ms=lambda: 0,
            logs=self,
            fetchers=self.fetchers,
            on_changed=self.woken.append,
            on_led=lambda tp, epoch: self.turns.append(("led", tp, epoch)),
            on_resigned=lambda tp, epoch: self.turns.append(("resigned", tp, epoch)),
            min_in_sync_replicas=lambda _: self.min_in_sync_replicas,
        )
        brokers = [Broker(broker, ()) for broker in (1, 2, 3)]
        completed(self.manager.update_metadata(MetadataUpdate(8, 1, 1, -1, (), brokers), 0))

    def open(self, tp: TopicPartition, _: UUID | None, /, *, is_new: bool) -> InMemoryLog:
        assert not is_new
        if tp in self.failing:
            raise KafkaStorage("disk")
        if tp in self.of_another_topic:
            raise InconsistentTopicId("another topic's")
        return self.logs.setdefault(tp, InMemoryLog())

    def delete(self, tp: TopicPartition, /) -> None:
        if tp in self.failing:
            raise KafkaStorage("disk")
        self.logs.pop(tp, None)

    def hear(
        self,
        leader: int,
        leader_epoch: int,
        *partitions: TopicPartition,
        topic_id: UUID | None = ID,
        partition_epoch: int = 0,
    ) -> list[ErrorCode]:
        state = LeaderAndIsrPartitionState(
            1, leader, leader_epoch, (1, 2, 3), partition_epoch, (1, 2, 3), (), (), False, 0
        )
        chosen = partitions or (ZERO,)
        result = completed(
            become_leader_or_follower(
                self.manager,
                LeaderAndIsrRequest(
                    1,
                    1,
                    -1,
                    dict.fromkeys(chosen, state),
                    {} if topic_id is None else {"orders": topic_id},
                ),
                5,
            )
        )
        return [result.partitions[tp] for tp in chosen]

    def stop(self, leader_epoch: int, *, delete: bool) -> ErrorCode:
        order = StopReplicaPartition(leader_epoch, delete)
        result = completed(
            self.manager.stop_replicas(StopReplicaRequest(1, 1, -1, {ZERO: order}), 5)
        )
        return result.partitions[ZERO]

    def fetcher(self, leader: int) -> ReplicaFetcher:
        return self.fetchers.fetchers[FetcherKey(leader, 0)]


def test_a_follower_fetches_from_the_end_of_its_log() -> None:
    host = Host()
    log = host.open(ZERO, ID, is_new=False)
    log.append_as_leader("old", 3)

    assert host.hear(2, 4) == [ErrorCode.none]

    state = host.fetcher(2).partitions[ZERO]
    assert (state.fetch_offset, state.current_leader_epoch, state.stage) == (
        1,
        4,
        FetchStage.FETCHING,
    )
    assert state.topic_id == ID
    assert host.started == [(2, 0)]
    assert host.woken == [ZERO]


def test_an_older_dialect_begins_with_a_truncation_at_the_high_watermark() -> None:
    host = Host(truncates_on_fetch=False)
    host.open(ZERO, ID, is_new=False).append_as_leader("old", 3)

    host.hear(2, 4)

    state = host.fetcher(2).partitions[ZERO]
    assert (state.fetch_offset, state.stage) == (0, FetchStage.TRUNCATING)


def test_another_leader_gets_another_fetcher_and_the_idle_one_ends() -> None:
    host = Host()
    host.hear(2, 4, ZERO, ONE)
    host.hear(3, 5, ZERO)
    assert host.ended == []

    host.hear(3, 5, ONE)

    assert set(host.fetchers.fetchers) == {(3, 0)}
    assert set(host.fetcher(3).partitions) == {ZERO, ONE}
    assert host.ended == [(2, 0)]


def test_the_same_leader_in_a_new_epoch_is_fetched_from_anew() -> None:
    host = Host()
    host.hear(2, 4)
    fetcher = host.fetcher(2)

    host.hear(2, 6, partition_epoch=1)

    assert host.fetcher(2) is fetcher
    assert fetcher.partitions[ZERO].current_leader_epoch == 6
    assert host.ended == []


def test_a_leader_does_not_fetch() -> None:
    host = Host()
    host.hear(2, 4)
    host.woken.clear()

    host.hear(1, 5)

    assert host.fetchers.fetchers == {}
    assert host.ended == [(2, 0)]
    assert host.woken == [ZERO]


def test_topic_ids_come_and_go_in_fetches_at_the_same_leader_epoch() -> None:
    host = Host()
    host.hear(2, 4, topic_id=None)
    assert host.fetcher(2).partitions[ZERO].topic_id is None

    assert host.hear(2, 4) == [ErrorCode.none]
    assert host.fetcher(2).partitions[ZERO].topic_id == ID

    assert host.hear(2, 4, topic_id=None) == [ErrorCode.none]
    assert host.fetcher(2).partitions[ZERO].topic_id is None


def test_a_follower_whose_leader_is_unknown_has_a_log_and_no_fetcher() -> None:
    host = Host()

    assert host.hear(9, 4) == [ErrorCode.none]

    assert ZERO in host.logs
    assert host.fetchers.fetchers == {}


@pytest.mark.parametrize("delete", [False, True])
def test_a_stopped_replica_fetches_no_more_and_wakes_who_waits(delete: bool) -> None:
    host = Host()
    host.hear(2, 4)
    host.woken.clear()

    assert host.stop(4, delete=delete) is ErrorCode.none

    assert host.fetchers.fetchers == {}
    assert host.woken == [ZERO]
    assert (ZERO in host.logs) == (ZERO in host.manager.partitions) == (not delete)


def test_an_older_leader_epoch_stops_nothing() -> None:
    host = Host()
    host.hear(2, 4)

    assert host.stop(3, delete=True) is ErrorCode.fenced_leader_epoch

    assert ZERO in host.fetcher(2).partitions
    assert ZERO in host.logs


def test_a_replica_that_is_not_hosted_has_its_log_deleted_all_the_same() -> None:
    host = Host()
    host.open(ZERO, ID, is_new=False)

    assert host.stop(-2, delete=True) is ErrorCode.none

    assert host.logs == {}


@pytest.mark.parametrize("leader", [1, 2])
def test_a_log_that_cannot_be_opened_takes_its_partition_offline(leader: int) -> None:
    host = Host()
    host.failing.add(ZERO)

    errors = host.hear(leader, 4, ZERO, ONE)

    assert errors == [ErrorCode.kafka_storage_error, ErrorCode.none]
    lines = [line.message for record in host.records if (line := kafka_line(record)) is not None]
    role = "leader" if leader == 1 else "follower"
    assert any(f"Skipped the become-{role} state change" in line for line in lines)
    host.failing.clear()
    assert host.hear(leader, 5) == [ErrorCode.kafka_storage_error]
    assert host.stop(5, delete=True) is ErrorCode.kafka_storage_error
    assert list(host.manager.partitions) == [ONE]
    assert all(
        kafka_line(record) is not None for record in host.records if record.topic is not None
    )


def test_a_deletion_that_fails_takes_the_partition_offline() -> None:
    host = Host()
    host.hear(2, 4)
    host.failing.add(ZERO)

    assert host.stop(4, delete=True) is ErrorCode.kafka_storage_error

    assert host.manager.offline == {ZERO}
    assert host.fetchers.fetchers == {}


def test_failed_partitions_are_counted_until_they_come_again_or_go() -> None:
    host = Host()
    host.hear(2, 4, ZERO, ONE)
    host.fetcher(2)._fail(ZERO)
    host.fetcher(2)._fail(ONE)
    host.manager.remove_idle_fetchers()
    assert host.fetchers.failed == {ZERO, ONE}

    host.hear(2, 5, ZERO, partition_epoch=1)
    assert host.fetchers.failed == {ONE}

    host.manager.mark_offline([ONE])
    assert host.fetchers.failed == set()


def test_who_begins_to_lead_and_who_ceases_is_reported_with_the_leader_epoch() -> None:
    host = Host()
    host.hear(1, 4, ZERO, ONE)
    assert host.turns == [("led", ZERO, 4), ("led", ONE, 4)]

    host.turns.clear()
    host.hear(1, 5, ZERO, partition_epoch=1)
    assert host.turns == []  # it led already

    host.hear(2, 6, ZERO, partition_epoch=2)
    host.stop(7, delete=True)
    host.manager.mark_offline([ONE])
    assert host.turns == [("resigned", ZERO, 6), ("resigned", ZERO, 7), ("resigned", ONE, None)]


@pytest.mark.parametrize("leader_epoch", [4, EPOCH_DURING_DELETE, NO_EPOCH])
@pytest.mark.parametrize("delete", [True, False])
def test_only_a_deletion_takes_the_lead_away_whatever_epoch_it_names(
    leader_epoch: int, delete: bool
) -> None:
    host = Host()
    host.hear(1, 4)
    host.turns.clear()

    assert host.stop(leader_epoch, delete=delete) is ErrorCode.none

    told = leader_epoch if leader_epoch >= 0 else None
    assert host.turns == ([("resigned", ZERO, told)] if delete else [])


def test_an_epoch_that_was_missed_begins_the_truncation_anew() -> None:
    host = Host(truncates_on_fetch=False)
    log = host.open(ZERO, ID, is_new=False)
    for _ in range(3):
        log.append_as_leader("old", 3)
    host.hear(2, 4)
    fetcher = host.fetcher(2)
    request = fetcher.next_request(0)
    assert isinstance(request, AskEpochEnds)
    fetcher.handle_epoch_ends(request, {ZERO: (ErrorCode.none, EpochEndOffset(3, 3))}, 0)
    assert fetcher.partitions[ZERO].stage is FetchStage.FETCHING

    host.hear(2, 6, partition_epoch=2)

    assert host.fetcher(2).next_request(0) == AskEpochEnds({ZERO: EpochQuestion(6, 3)})


def test_a_log_of_another_topic_of_that_name_is_refused() -> None:
    host = Host()
    host.of_another_topic.add(ZERO)

    assert host.hear(1, 4, ZERO, ONE) == [ErrorCode.inconsistent_topic_id, ErrorCode.none]

    assert [turn[1] for turn in host.turns] == [ONE]


def test_a_partition_follows_the_min_isr_of_its_topic() -> None:
    host = Host()
    host.min_in_sync_replicas = 2
    host.hear(1, 4)
    assert host.manager.partitions[ZERO].min_in_sync_replicas == 2

    host.min_in_sync_replicas = 3
    host.manager.topics_changed(["another"])
    assert host.manager.partitions[ZERO].min_in_sync_replicas == 2

    host.manager.topics_changed(["orders"])
    assert host.manager.partitions[ZERO].min_in_sync_replicas == 3
