"""A follower and its steps."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition
from replica_manager.replication.fetch_requests import (
    AskRecords,
    FetcherSettings,
    LeaderFetchResponse,
)
from replica_manager.replication.fetch_state import FetchStage, InitialFetchState, initial_offset
from replica_manager.replication.fetch_values import FetchPartitionData
from replica_manager.replication.replica_fetcher import Progress, ReplicaFetcher
from tests.simulation.replication_log import InMemoryLog, Record, encoded
from tests.support.followers import take_records

ID = UUID(int=7)


ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


EPOCH = 4


class Follower:
    """Logs of a follower, and its fetcher from broker 2."""

    def __init__(self, **settings: Any) -> None:
        self.logs = {ZERO: InMemoryLog(), ONE: InMemoryLog()}
        self.settings = FetcherSettings(**settings)
        self.fetcher = ReplicaFetcher(2, self.logs.__getitem__, self.settings)
        self.now_ms = 1_000

    @property
    def log(self) -> InMemoryLog:
        return self.logs[ZERO]

    def wrote(self, *epochs: int, high_watermark: int = 0) -> Follower:
        for epoch in epochs:
            self.log.append_as_leader("own", epoch)
        self.log.update_high_watermark(high_watermark)
        return self

    def add(self, *partitions: TopicPartition, leader_epoch: int = EPOCH) -> Follower:
        truncates = self.settings.truncates_on_fetch
        self.fetcher.add_partitions(
            {
                tp: InitialFetchState(
                    ID,
                    self.fetcher.leader,
                    leader_epoch,
                    initial_offset(self.logs[tp], truncates_on_fetch=truncates),
                )
                for tp in partitions or (ZERO,)
            }
        )
        return self

    def next(self) -> Any:
        return self.fetcher.next_request(self.now_ms)

    def fetch(self) -> AskRecords:
        request = self.next()
        assert isinstance(request, AskRecords)
        return request

    def answer(self, request: AskRecords, **responses: FetchPartitionData) -> Progress:
        named = {TopicPartition("orders", int(name[1:])): one for name, one in responses.items()}
        session_id = 9
        return take_records(
            self.fetcher,
            request,
            LeaderFetchResponse(17, ErrorCode.none, session_id, named, [ID]),
            self.now_ms,
        )

    def fetched(self, response: FetchPartitionData) -> Progress:
        return self.answer(self.fetch(), p0=response)

    @property
    def stage(self) -> FetchStage:
        return self.fetcher.partitions[ZERO].stage


def records(offset: int, *epochs: int, high_watermark: int = 0) -> FetchPartitionData:
    batch = encoded([Record(offset + step, epoch, "new") for step, epoch in enumerate(epochs)])
    return FetchPartitionData(
        ErrorCode.none, high_watermark, high_watermark, log_start_offset=0, records=batch
    )


def failed(error: ErrorCode) -> FetchPartitionData:
    return FetchPartitionData(error)
