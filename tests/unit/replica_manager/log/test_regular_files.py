"""Symbolic links and pipes where a log directory should have a file: refused, untouched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafka_common.model import TopicPartition
from replica_manager.configuration.meta_properties import LogDirLocks, read_properties
from replica_manager.log import checkpoints
from replica_manager.log.log_config import LogConfig
from replica_manager.log.log_loading import remove_log_files
from replica_manager.log.log_manager import LogDirFailure, LogManager
from replica_manager.regular_files import open_regular, read_file, root_warning
from tests.support.log_world import START_MS, batch

ORDERS = TopicPartition("orders", 0)
SEGMENT = LogConfig(segment_bytes=4 * len(batch()))
DECOY = b"what belongs to another program" * 30


class Host:
    """Two log directories, of which the first holds a log, and a decoy outside of both."""

    def __init__(self, root: Path) -> None:
        self.failures: list[LogDirFailure] = []
        self.log_dirs = [root / "a", root / "b"]
        self.decoy = root / "decoy"
        self.decoy.mkdir()
        (self.decoy / "file").write_bytes(DECOY)
        manager = self.manager()
        log = manager.get_or_create(ORDERS, SEGMENT)
        for _ in range(10):
            log.append_as_leader(batch(producer_id=1, producer_epoch=0, base_sequence=0), 0)
        self.folder = log.directory
        manager.close()

    def manager(self) -> LogManager:
        manager = LogManager(
            self.log_dirs,
            lambda: START_MS,
            default_config=SEGMENT,
            on_failure=self.failures.append,
        )
        manager.load({})
        return manager

    def check(self) -> None:
        """One directory is offline and the decoy is what it was."""
        [failure] = self.failures
        assert failure.log_dir == self.folder.parent
        assert [path.name for path in self.decoy.iterdir()] == ["file"]
        assert (self.decoy / "file").read_bytes() == DECOY


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".txnindex", ".snapshot"])
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_segment_that_is_a_symbolic_link_is_refused_and_what_it_leads_to_is_untouched(
    host: Host, suffix: str, is_clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    path = max(host.folder.glob("*.log")).with_suffix(suffix)
    path.unlink(missing_ok=True)
    path.symlink_to(host.decoy / "file")
    if not is_clean:
        (host.folder.parent / ".kafka_cleanshutdown").unlink()

    host.manager()

    if host.failures:
        host.check()
        assert f"{path} is a symbolic link, which is refused" in caplog.text
    else:
        # A file that is not needed is not opened; a snapshot of no use is removed.
        assert suffix in (".snapshot", ".txnindex")
        assert (host.decoy / "file").read_bytes() == DECOY


@pytest.mark.parametrize(
    "name",
    [
        checkpoints.RECOVERY_POINT_FILE,
        checkpoints.LOG_START_OFFSET_FILE,
        checkpoints.HIGH_WATERMARK_FILE,
        checkpoints.CLEANER_FILE,
        "orders-0/leader-epoch-checkpoint",
        "orders-0/partition.metadata",
    ],
)
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_small_file_that_is_no_regular_file_takes_its_directory_offline(
    host: Host, name: str, kind: str
) -> None:
    path = host.folder.parent / name
    path.unlink(missing_ok=True)
    if kind == "link":
        path.symlink_to(host.decoy / "file")
    else:
        os.mkfifo(path)

    host.manager()

    host.check()


def test_a_link_in_the_place_of_a_temporary_file_is_not_written_through(host: Host) -> None:
    manager = host.manager()
    for name in (checkpoints.RECOVERY_POINT_FILE, checkpoints.HIGH_WATERMARK_FILE):
        (host.folder.parent / f"{name}.tmp").symlink_to(host.decoy / "file")

    manager.close()

    host.check()


def test_a_folder_that_is_a_symbolic_link_is_refused(host: Host) -> None:
    (host.folder.parent / "bills-0").symlink_to(host.decoy, target_is_directory=True)

    host.manager()

    host.check()


def test_a_link_in_the_place_of_a_new_log_is_refused(host: Host) -> None:
    manager = host.manager()
    for log_dir in host.log_dirs:
        (log_dir / "bills-0").symlink_to(host.decoy, target_is_directory=True)

    with pytest.raises(Exception, match="No log directory is left"):
        manager.get_or_create(TopicPartition("bills", 0), SEGMENT)

    assert (host.decoy / "file").read_bytes() == DECOY


def test_a_deletion_does_not_go_through_a_link(host: Host) -> None:
    link = host.folder.parent / "bills-0.0-delete"
    link.symlink_to(host.decoy, target_is_directory=True)

    with pytest.raises(OSError, match="symbolic link"):
        remove_log_files(link)

    assert (host.decoy / "file").read_bytes() == DECOY


def test_the_files_of_the_directory_itself_are_not_followed(host: Host) -> None:
    log_dir = host.folder.parent
    for name in ("meta.properties", ".lock"):
        (log_dir / name).symlink_to(host.decoy / "file")

    with pytest.raises(OSError, match="symbolic link"):
        LogDirLocks().acquire([log_dir])
    with pytest.raises(OSError, match="symbolic link"):
        read_properties(log_dir)


def test_a_log_directory_may_itself_be_reached_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real", target_is_directory=True)
    manager = LogManager([tmp_path / "link"], lambda: START_MS)
    manager.load({})

    manager.get_or_create(ORDERS, SEGMENT).append_as_leader(batch(), 0)
    manager.close()

    assert (tmp_path / "real" / "orders-0").is_dir()


def test_no_more_is_read_than_asked_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(DECOY)

    assert read_file(tmp_path / "file", 4) == DECOY[:4]
    with pytest.raises(OSError, match="no regular file"):
        open_regular(tmp_path, os.O_RDONLY)


def test_root_is_warned_and_no_other_user() -> None:
    assert "runs as root" in (root_warning(0) or "")
    assert root_warning(1000) is None
