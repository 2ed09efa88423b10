"""What is committed reaches those who want a part of it, in order, and all of a snapshot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from typing_extensions import override

from kafka_common.protocol.scram import ScramCredential
from kraft.metadata.codec import encode_record
from kraft.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
    NoOpRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
    VersionedRecord,
)
from kraft.node.metadata_publishing import DECODED_AT_ONCE_BYTES, LISTENER_NAME, MetadataPublishing
from kraft.node.quorum_node import QuorumNode, QuorumNodeSettings
from kraft.node.raft_driver import CommittedBatches
from kraft.node.security_publishers import ScramPublisher
from kraft.raft.values import OffsetAndEpoch
from replica_manager.security.scram_credentials import ScramCredentials
from tests.support.metadata_batches import encode_data_batch
from tests.support.quorum import Quorum, eventually


class Recorder:
    """Wants topics; remembers what it was given."""

    name = "Recorder"
    record_types = frozenset((TopicRecord,))

    def __init__(self) -> None:
        self.names: list[str] = []
        self.loads: list[list[str]] = []
        self.caught_up_after: int | None = None

    def publish(self, records: Sequence[MetadataRecord]) -> None:
        assert records
        self.names += map(_name, records)

    def load(self, records: Sequence[MetadataRecord]) -> None:
        self.loads.append(list(map(_name, records)))

    def caught_up(self) -> None:
        assert self.caught_up_after is None
        self.caught_up_after = len(self.names)


def _name(record: MetadataRecord) -> str:
    assert isinstance(record, TopicRecord)
    return record.name


def topic(name: str) -> TopicRecord:
    return TopicRecord(name=name)


def scram(user: str, mechanism: int = 1, salt: bytes = b"salt") -> UserScramCredentialRecord:
    return UserScramCredentialRecord(user, mechanism, salt, b"stored", b"server", 4096)


class PublishingQuorum(Quorum):
    """One whose nodes publish what is committed."""

    def __init__(self, directory: Path, recorder: Recorder | None) -> None:
        super().__init__(directory, (1,))
        self.recorder = recorder or Recorder()

    @override
    def equip(self, node: QuorumNode, _settings: QuorumNodeSettings) -> None:
        node.add_listener(
            LISTENER_NAME, MetadataPublishing(1, lambda: node.driver, (self.recorder,))
        )

    def append(self, *records: MetadataRecord) -> None:
        driver = self.nodes[1].driver
        values = [encode_record(record, 0) for record in records]
        driver.prepare_append(driver.node.epoch, values)
        driver.schedule_prepared_append()


@asynccontextmanager
async def publishing(
    directory: Path, recorder: Recorder | None = None
) -> AsyncIterator[PublishingQuorum]:
    """A quorum that has a leader, and whose nodes publish to ``recorder``."""
    async with PublishingQuorum(directory, recorder) as quorum:
        await quorum.start(1)
        await quorum.leader()
        yield quorum


async def test_a_publisher_gets_its_records_in_their_order(tmp_path: Path) -> None:
    async with publishing(tmp_path) as quorum:
        many = [topic(f"{'x' * 100}-{number}") for number in range(DECODED_AT_ONCE_BYTES // 100)]
        await eventually(lambda: quorum.recorder.caught_up_after == 0, "it has caught up")
        quorum.append(topic("first"), NoOpRecord())
        quorum.append(NoOpRecord())
        quorum.append(*many)
        quorum.append(topic("last"))

        await eventually(lambda: "last" in quorum.recorder.names, "all is told")
        assert quorum.recorder.names == ["first", *(each.name for each in many), "last"]


async def test_who_starts_again_has_caught_up_once_everything_was_published(tmp_path: Path) -> None:
    async with publishing(tmp_path) as quorum:
        quorum.append(topic("a"))
        quorum.append(topic("b"))
        await eventually(lambda: quorum.recorder.names == ["a", "b"], "all is told")
        await quorum.kill(1)

        quorum.recorder = Recorder()
        await quorum.start(1)

        await eventually(lambda: quorum.recorder.caught_up_after is not None, "it has caught up")
        assert quorum.recorder.caught_up_after == 2


async def test_a_transaction_counts_when_it_ends_and_never_if_it_is_aborted(tmp_path: Path) -> None:
    async with publishing(tmp_path) as quorum:
        quorum.append(BeginTransactionRecord("one"), topic("a"))
        quorum.append(topic("b"))
        quorum.append(AbortTransactionRecord("no"), topic("c"))
        await eventually(lambda: "c" in quorum.recorder.names, "what is in none is told")
        assert quorum.recorder.names == ["c"]

        quorum.append(BeginTransactionRecord("two"), topic("d"))
        quorum.append(topic("e"), EndTransactionRecord(), topic("f"))
        await eventually(lambda: "f" in quorum.recorder.names, "the rest is told")
        assert quorum.recorder.names == ["c", "d", "e", "f"]


class NoPublisher(Recorder):
    """Breaks with one topic."""

    @override
    def publish(self, records: Sequence[MetadataRecord]) -> None:
        super().publish(records)
        if "poison" in self.names:
            raise KeyError("a bug")


async def test_a_node_whose_publisher_fails_ends_for_its_rules_would_be_of_the_past(
    tmp_path: Path,
) -> None:
    async with publishing(tmp_path, NoPublisher()) as quorum:
        running = quorum.tasks[1]

        quorum.append(topic("poison"))

        with pytest.raises(KeyError, match="a bug"):
            async with asyncio.timeout(20):
                await running


class SnapshotOnly:
    """A driver whose log is nothing but one snapshot."""

    def __init__(self, data: bytes) -> None:
        self.node = SimpleNamespace(high_watermark=100)
        self.advanced_to: list[int] = []
        self._data = data

    def read_snapshot(self, snapshot_id: OffsetAndEpoch) -> bytes:
        assert snapshot_id == (99, 1)
        return self._data

    def advanced(self, name: str, next_offset: int) -> None:
        assert name == LISTENER_NAME
        self.advanced_to.append(next_offset)


def batch(*records: MetadataRecord, base_offset: int = 0) -> bytes:
    versioned = [VersionedRecord(record, 0) for record in records]
    return encode_data_batch(versioned, base_offset=base_offset, epoch=1, timestamp=0)


async def test_a_snapshot_replaces_everything_and_is_not_all_there_is() -> None:
    driver = SnapshotOnly(batch(topic("a")) + batch(NoOpRecord(), topic("b"), base_offset=1))
    recorder = Recorder()
    publishing = MetadataPublishing(1, lambda: cast(Any, driver), (recorder,))
    data = batch(topic("before"), topic("after"), base_offset=98)

    publishing.handle_load_snapshot(OffsetAndEpoch(99, 1))
    await eventually(lambda: driver.advanced_to == [99], "the snapshot is loaded")
    assert recorder.loads == [["a", "b"]]
    # One record is committed that is in no snapshot: there is more to come.
    assert recorder.caught_up_after is None

    # Of a batch that the snapshot has a part of, the rest is new.
    publishing.handle_commit(CommittedBatches(99, 100, data))
    await eventually(lambda: driver.advanced_to == [99, 100], "the rest is taken in")
    assert recorder.names == ["after"]
    assert recorder.caught_up_after == 1


def test_credentials_are_those_of_the_log() -> None:
    credentials = ScramCredentials()
    publisher = ScramPublisher(credentials)

    publisher.publish([scram("alice"), scram("alice", mechanism=2, salt=b"other"), scram("bob")])
    assert credentials.of("SCRAM-SHA-256", "alice") == ScramCredential(
        b"salt", b"stored", b"server", 4096
    )
    other = credentials.of("SCRAM-SHA-512", "alice")
    assert other is not None
    assert other.salt == b"other"

    publisher.publish([RemoveUserScramCredentialRecord("alice", 1)])
    assert credentials.of("SCRAM-SHA-256", "alice") is None
    assert credentials.of("SCRAM-SHA-512", "alice") is not None

    publisher.load([scram("carol")])
    assert credentials.of("SCRAM-SHA-512", "alice") is None
    assert credentials.of("SCRAM-SHA-256", "bob") is None
    assert credentials.of("SCRAM-SHA-256", "carol") is not None


async def test_who_does_not_know_the_high_watermark_has_not_caught_up() -> None:
    driver = SnapshotOnly(b"")
    recorder = Recorder()
    publishing = MetadataPublishing(1, lambda: cast(Any, driver), (recorder,))

    driver.node.high_watermark = None  # of a new leader until its first commit
    publishing.handle_commit(CommittedBatches(0, 1, batch(topic("a"))))
    await eventually(lambda: driver.advanced_to == [1], "the first record is taken in")
    assert recorder.caught_up_after is None

    driver.node.high_watermark = 2
    publishing.handle_commit(CommittedBatches(1, 2, batch(topic("b"), base_offset=1)))
    await eventually(lambda: driver.advanced_to == [1, 2], "the second one too")
    assert recorder.caught_up_after == 2
