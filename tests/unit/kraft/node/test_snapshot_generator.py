"""Snapshots that a node makes of what its controller holds: when, how, and what goes then.

Source of the behaviours: Kafka ``SnapshotGeneratorTest``, ``SnapshotEmitterTest``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar
from uuid import UUID

import pytest

from kraft.controller.quorum_controller import QuorumController
from kraft.controller.quorum_controller_values import CommitHandled, CommittedBatch, SnapshotLoaded
from kraft.controller.snapshot_trigger import SnapshotConfig
from kraft.metadata.metadata_batches import ControlBatch, DataBatch, iterate_metadata_batches
from kraft.metadata.records import (
    BeginTransactionRecord,
    EndTransactionRecord,
    TopicRecord,
    VersionedRecord,
)
from kraft.node.snapshot_generator import CommittedProgress, SnapshotGenerator
from kraft.raft.control_records import SnapshotFooter, SnapshotHeader
from kraft.raft.values import OffsetAndEpoch
from tests.support.quorum import eventually, in_the_end
from tests.support.quorum_controller_world import QuorumWorld
from tests.support.quorum_controllers import Controllers, stable_offset
from tests.support.state_records import stable_records

HALF_ID: Final = UUID(int=7)
T = TypeVar("T")
LOGGER: Final = "org.apache.kafka.image.publisher.SnapshotGenerator"

# ---------------------------------------------------------------------- in a node


def records_of(snapshot: bytes) -> list[VersionedRecord]:
    first, *between, last = iterate_metadata_batches(snapshot)
    assert isinstance(first, ControlBatch)
    assert isinstance(first.records[0], SnapshotHeader)
    assert isinstance(last, ControlBatch)
    assert last.records == (SnapshotFooter(),)
    return [each for batch in between if isinstance(batch, DataBatch) for each in batch.records]


async def test_every_node_makes_snapshots_the_log_begins_later_and_a_wiped_node_catches_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kraft.raft.kafka_raft_client.CLEANER_PERIOD_MS", 100)

    async with Controllers(tmp_path) as quorum:
        await quorum.start(1, 2, 3)
        active = await quorum.active()

        for number in range(30):
            await quorum.configure(active, str(number))

        for node_id in (1, 2, 3):
            await eventually(partial(quorum.is_cut, node_id), "the log begins later")
        wiped = next(each for each in quorum.nodes if each != active)
        await quorum.kill(wiped)
        (tmp_path / f"node-{wiped}").rename(tmp_path / "gone")
        await quorum.start(wiped)
        await quorum.configure(active, "last")
        end = quorum.nodes[active].driver.node.log.end_offset
        await eventually(
            lambda: quorum.listeners[wiped].next_offset == end, "it has everything again"
        )

        assert quorum.listeners[wiped].snapshots

        async def all_are_there() -> bool:
            ends = [await quorum.look(each, stable_offset) for each in quorum.nodes]
            return len(set(ends)) == 1

        await in_the_end(all_are_there, "all are there")
        held = await quorum.everything()
        assert held[0] == held[1] == held[2]
        made_where = [quorum.snapshots(each).keys() for each in quorum.nodes]
        assert all(made_where)
        # All of them start again, from what is left.
        for node_id in (1, 2, 3):
            await quorum.kill(node_id)
        await quorum.start(1, 2, 3)
        assert await quorum.active() in (1, 2, 3)

        async def is_held_again() -> bool:
            return await quorum.everything() == held

        await in_the_end(is_held_again, "each holds what it held")


async def test_the_snapshot_tells_what_is_committed_and_its_metrics_tell_of_it(
    tmp_path: Path,
) -> None:
    async with Controllers(tmp_path) as quorum:
        await quorum.start(1, 2, 3)
        active = await quorum.active()
        mbean = "kafka.server:type=SnapshotEmitter,name=LatestSnapshotGeneratedBytes"
        assert quorum.metrics[active].snapshot()[mbean]["Value"] == 0

        for number in range(8):
            await quorum.configure(active, str(number))
        await eventually(lambda: bool(quorum.snapshots(active)), "there is a snapshot")

        [*_, (name, content)] = quorum.snapshots(active).items()
        found = [record for record, _ in records_of(content)]
        expected = [record for record, _ in await quorum.look(active, stable_records)]
        assert [type(record) for record in found] == [type(record) for record in expected]
        assert int(name[:20]) <= quorum.nodes[active].driver.node.log.high_watermark
        await eventually(
            lambda: quorum.metrics[active].snapshot()[mbean]["Value"] == len(content), "its size"
        )


# ---------------------------------------------------------------------- the generator alone


class MemorySnapshot:
    """A snapshot that is written to nowhere."""

    def __init__(self, snapshot_id: OffsetAndEpoch, maybe_fail: Callable[[str], None]) -> None:
        self.snapshot_id = snapshot_id
        self.data = b""
        self.is_frozen = self.is_closed = False
        self._maybe_fail = maybe_fail

    def append(self, data: bytes) -> int:
        self._maybe_fail("append")
        self.data += data
        return len(self.data)

    def freeze(self) -> None:
        self._maybe_fail("freeze")
        self.is_frozen = True

    def close(self) -> None:
        self.is_closed = True


class MemoryStore:
    """Keeps snapshots; it may fail at one place."""

    def __init__(self) -> None:
        self.begun: list[MemorySnapshot] = []
        self.added: list[MemorySnapshot] = []
        self.failure: Exception | None = None
        self.fails_at = "create"

    def _maybe_fail(self, place: str) -> None:
        if self.failure is not None and place == self.fails_at:
            raise self.failure

    def create_snapshot(self, snapshot_id: OffsetAndEpoch) -> MemorySnapshot | None:
        self._maybe_fail("create")
        if any(each.snapshot_id == snapshot_id for each in self.added):
            return None
        self.begun.append(MemorySnapshot(snapshot_id, self._maybe_fail))
        return self.begun[-1]

    def add_snapshot(self, written: MemorySnapshot) -> None:
        assert written.is_frozen
        self._maybe_fail("add")
        self.added.append(written)


class NoThread:
    """A controller that is looked into at once."""

    def __init__(self, controller: QuorumController) -> None:
        self._controller = controller

    async def look(self, read: Callable[[QuorumController], T]) -> T:
        await asyncio.sleep(0)
        return read(self._controller)


class Generating:
    """A controller in a world, and a generator that watches it from behind its start."""

    def __init__(self, partitions: int = 3) -> None:
        self.world = QuorumWorld.led()
        self.world.start_brokers(1)
        for number in range(0, partitions, 1_000):
            many = min(1_000, partitions - number)
            self.world.create_topic(f"topic-{number}", *(((1,),) * many))
        self.standby = self.world.start(3001)
        self.world.commit()
        self.store = MemoryStore()
        config = SnapshotConfig(1_000, 60_000)
        self.now_ms = 0
        self.generator = self.another(config)
        self.committed(0)

    def another(self, config: SnapshotConfig) -> SnapshotGenerator[MemorySnapshot]:
        looks = NoThread(self.standby)
        return SnapshotGenerator(self.standby.state, looks, self.store, config, lambda: self.now_ms)

    def committed(self, size_in_bytes: int, *, is_latest: bool = True) -> None:
        end = self.standby.state.offsets.last_committed_record_offset + 1
        progress = CommittedProgress(end, 1, 77, size_in_bytes, is_latest)
        self.generator.committed(progress)

    async def done(self) -> None:
        await eventually(lambda: not self.generator.is_busy, "the snapshot is done")


async def test_a_snapshot_is_made_after_enough_bytes_and_the_count_begins_anew() -> None:
    generating = Generating()
    generating.committed(999)
    assert not generating.generator.is_busy
    expected = stable_records(generating.standby)

    generating.committed(1)
    await generating.done()

    [made] = generating.store.added
    end = generating.standby.state.offsets.last_committed_record_offset + 1
    assert made.snapshot_id == (end, 1)
    assert [record for record, _ in records_of(made.data)] == [record for record, _ in expected]
    header = next(iterate_metadata_batches(made.data))
    assert header.records == (SnapshotHeader(77),)
    assert made.is_closed
    assert generating.generator.latest_bytes == len(made.data)
    generating.committed(999)
    assert not generating.generator.is_busy
    generating.now_ms = 60_000
    generating.world.create_topic("later", (1,))
    generating.committed(0)
    await generating.done()
    assert len(generating.store.added) == 2


async def test_what_is_read_again_after_a_start_is_no_reason_for_a_snapshot() -> None:
    generating = Generating()
    generating.generator = generating.another(SnapshotConfig(1_000, 60_000))
    generating.committed(10**9, is_latest=False)
    generating.committed(10**9)
    assert not generating.generator.is_busy

    generating.committed(1_000)

    assert generating.generator.is_busy
    await generating.done()


async def test_a_snapshot_that_was_loaded_puts_the_next_one_off() -> None:
    generating = Generating()
    generating.committed(999)
    generating.generator.loaded()
    generating.committed(999)
    assert not generating.generator.is_busy


async def test_there_is_none_while_a_transaction_is_open_but_one_when_it_has_ended() -> None:
    generating = Generating()
    offset = generating.world.log.end_offset

    def commit(record: BeginTransactionRecord | TopicRecord | EndTransactionRecord) -> None:
        nonlocal offset
        versioned = (VersionedRecord(record, 0),)
        generating.world.feed(
            3001, CommitHandled((CommittedBatch(offset, offset, 1, 0, versioned),))
        )
        offset += 1

    commit(BeginTransactionRecord())
    commit(TopicRecord("half", HALF_ID))
    generating.committed(1_000)
    assert not generating.generator.is_busy

    commit(EndTransactionRecord())
    generating.committed(0)
    await generating.done()

    [made] = generating.store.added
    names = {record.name for record, _ in records_of(made.data)
             if isinstance(record, TopicRecord)}  # fmt: skip
    assert "half" in names


async def test_a_state_that_changes_while_it_is_written_is_written_as_it_was() -> None:
    generating = Generating(partitions=5_000)
    expected = stable_records(generating.standby)
    generating.committed(1_000)
    turns = 0

    while generating.generator.is_busy:
        await asyncio.sleep(0)
        if turns < 20:
            generating.world.create_topic(f"new-{turns}", (1,))
            generating.committed(1_000)  # one at a time
        turns += 1

    [made] = generating.store.added
    assert [record for record, _ in records_of(made.data)] == [record for record, _ in expected]
    batches = list(iterate_metadata_batches(made.data))
    assert max(len(batch.records) for batch in batches) == 1024
    assert turns > len(batches)  # everyone else had a turn for each batch
    generating.committed(0)
    await generating.done()
    assert len(generating.store.added) == 2


@pytest.mark.parametrize(
    "failure",
    [OSError("no space left"), MemoryError(), RuntimeError("can't start new thread"), ValueError()],
)
@pytest.mark.parametrize("place", ["create", "append", "freeze", "add"])
async def test_an_exception_at_any_place_costs_one_snapshot_and_the_next_one_is_made(
    failure: Exception, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, LOGGER)
    generating = Generating()
    generating.store.failure, generating.store.fails_at = failure, place
    generating.committed(1_000)
    await generating.done()
    stable = generating.standby.state.offsets.last_stable_offset
    assert not generating.standby.state.registry.is_held(stable)
    assert generating.store.added == []
    assert all(each.is_closed for each in generating.store.begun)
    generating.store.failure = None

    generating.committed(1_000)
    await generating.done()

    assert len(generating.store.added) == 1
    assert generating.generator.disabled_reason is None

    assert [line.getMessage().partition("] ")[2][:36] for line in caplog.records] == [
        "KRaft snapshot file generation error"
    ]


async def test_a_state_that_cannot_be_read_costs_one_snapshot_and_not_the_node(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR, LOGGER)
    generating = Generating()
    generating.standby.state.registry.reset()

    generating.committed(1_000)

    assert not generating.generator.is_busy
    assert generating.generator.disabled_reason is None

    assert len(caplog.records) == 1


async def test_one_of_the_same_offset_is_not_made_twice(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, LOGGER)
    generating = Generating()
    for _ in range(2):
        generating.committed(1_000)
        await generating.done()

    assert len(generating.store.added) == 1
    assert generating.generator.disabled_reason is None

    assert caplog.records[0].getMessage().endswith("because it already exists.")


async def test_a_snapshot_of_the_leader_ends_one_that_is_under_way() -> None:
    generating = Generating(partitions=5_000)
    generating.committed(1_000)
    await asyncio.sleep(0)

    generating.world.feed(3001, SnapshotLoaded(OffsetAndEpoch(10**6, 1), (), 0))
    await generating.done()

    [begun] = generating.store.begun
    assert begun.is_closed
    assert not begun.is_frozen
    assert generating.store.added == []
    assert generating.generator.disabled_reason is None


async def test_a_generator_that_is_closed_drops_what_it_has_begun_and_begins_no_more() -> None:
    generating = Generating(partitions=5_000)
    generating.committed(1_000)
    await asyncio.sleep(0)

    await generating.generator.close()
    generating.committed(1_000)

    assert not generating.generator.is_busy
    [begun] = generating.store.begun
    assert begun.is_closed
    assert generating.store.added == []
