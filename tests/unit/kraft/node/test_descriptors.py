"""A node of a quorum that may open no file goes on, and loses nothing."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kafka_common.errors import LimitReached
from kafka_common.process.spare_descriptors import MOST_SPARE, SPARE_DESCRIPTORS, SpareDescriptors
from kraft.node.metadata_log_config import MetadataLogConfig
from kraft.node.quorum_state_file import read_quorum_state, write_quorum_state
from kraft.node.snapshot_files import MetadataSnapshotFiles, SnapshotWriter
from kraft.raft.values import ElectionState, OffsetAndEpoch
from tests.support.descriptors import no_more_files, no_more_files_but_spare, open_files
from tests.support.quorum import Quorum, eventually

ROLLS_AT_ONCE = MetadataLogConfig(segment_bytes=300, segment_min_bytes=1)
RECORD = b"\1\x14\0\0" * 40


@asynccontextmanager
async def quorum_with_leader(
    directory: Path, voters: Sequence[int] = (1,)
) -> AsyncIterator[Quorum]:
    """Each batch has a segment of its own."""
    with SPARE_DESCRIPTORS.kept(MOST_SPARE):
        async with Quorum(directory, voters) as quorum:
            await quorum.start(*voters, log=ROLLS_AT_ONCE)
            await quorum.leader()
            yield quorum


async def append(quorum: Quorum) -> None:
    """Has the leader write a record, and waits until it is committed."""
    [leader] = quorum.leaders()
    driver = quorum.nodes[leader].driver
    offset = driver.prepare_append(driver.node.epoch, [RECORD])
    driver.schedule_prepared_append()

    def is_committed() -> bool:
        if quorum.tasks[leader].done():
            quorum.tasks[leader].result()
        return (driver.node.high_watermark or 0) > offset

    await eventually(is_committed, f"{offset} is committed")


def segments(quorum: Quorum) -> int:
    return len(list(quorum.directory.rglob("*.log")))


async def test_a_node_that_may_open_no_file_rolls_segments_and_commits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with quorum_with_leader(tmp_path) as quorum:
        await append(quorum)
        before = segments(quorum)

        with no_more_files_but_spare() as limit:
            for _ in range(5):
                await append(quorum)

            assert f"the process may open {limit} files (ulimit -n)" in caplog.text
            assert not SPARE_DESCRIPTORS.are_there()

        assert segments(quorum) == before + 5
        assert SPARE_DESCRIPTORS.are_there()
        await append(quorum)
        assert not quorum.tasks[1].done()


async def test_followers_that_may_open_no_file_take_over_all_records(tmp_path: Path) -> None:
    async with quorum_with_leader(tmp_path, voters=(1, 2, 3)) as quorum:
        with no_more_files_but_spare():
            for _ in range(3):
                await append(quorum)

        await eventually(
            lambda: len({quorum.log_bytes(node_id) for node_id in quorum.nodes}) == 1,
            "three equal logs",
        )
        assert not any(task.done() for task in quorum.tasks.values())


async def test_a_node_without_spare_descriptors_waits_and_then_commits_what_waited(
    tmp_path: Path,
) -> None:
    async with quorum_with_leader(tmp_path) as quorum:
        [driver] = [node.driver for node in quorum.nodes.values()]
        with no_more_files_but_spare():
            while SPARE_DESCRIPTORS.allow_step():
                await append(quorum)
            committed = driver.node.high_watermark
            waiting = asyncio.create_task(append(quorum))
            await asyncio.sleep(0)
            assert not waiting.done()
            assert driver.node.high_watermark == committed

        await waiting
        assert not quorum.tasks[1].done()


async def test_a_node_that_waits_for_descriptors_can_be_stopped(tmp_path: Path) -> None:
    async with quorum_with_leader(tmp_path) as quorum:
        with no_more_files_but_spare():
            while SPARE_DESCRIPTORS.allow_step():
                await append(quorum)

            assert await quorum.stop(1)


async def test_what_was_committed_without_descriptors_is_there_after_a_restart(
    tmp_path: Path,
) -> None:
    async with quorum_with_leader(tmp_path) as quorum:
        with no_more_files_but_spare():
            for _ in range(5):
                await append(quorum)
            before = quorum.log_bytes(1)
        await quorum.kill(1)
        await quorum.start(1, log=ROLLS_AT_ONCE)
        await quorum.leader()

        assert quorum.log_bytes(1).startswith(before)


def test_election_and_snapshots_are_written_with_spare_descriptors(tmp_path: Path) -> None:
    election, snapshot_id = ElectionState(7, leader_id=1), OffsetAndEpoch(5, 3)
    with SPARE_DESCRIPTORS.kept(4), no_more_files_but_spare():
        write_quorum_state(tmp_path, election, (1, 2, 3))
        writer = SnapshotWriter(tmp_path, snapshot_id)
        writer.append(b"content")
        writer.freeze()
        snapshots = MetadataSnapshotFiles(tmp_path, [snapshot_id])

        assert snapshots.read(snapshot_id, 0, 100) == b"content"

    assert read_quorum_state(tmp_path) == election


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_a_refused_open_gives_up_one_spare_descriptor_after_the_other(code: int) -> None:
    spare, refusals = SpareDescriptors(), iter(range(3))

    def opens() -> str:
        for _ in refusals:
            raise OSError(code, "refused")
        return "open"

    with spare.kept(4):
        assert spare.opening(opens) == "open"


def test_a_disk_that_fails_takes_no_spare_descriptor() -> None:
    spare = SpareDescriptors()

    def opens() -> None:
        raise OSError(errno.EIO, "broken")

    with spare.kept(2):
        before = open_files()
        with pytest.raises(OSError, match="broken"):
            spare.opening(opens)
        assert open_files() == before


def test_descriptors_are_kept_only_as_long_as_asked() -> None:
    before = open_files()
    spare = SpareDescriptors()

    with spare.kept(5):
        assert open_files() == before + 5

    assert open_files() == before
    assert spare.are_there()


def test_a_limit_too_low_for_the_spare_descriptors_is_named() -> None:
    spare = SpareDescriptors()

    with no_more_files(), pytest.raises(LimitReached, match="ulimit -n"), spare.kept(1):
        pass
