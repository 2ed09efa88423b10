"""A separate disk for a broker's data, which can be filled, made read-only, or lose unsynced data.

Each disk is a file with an ext4 file system in the cluster's folder, mounted at the broker's data
folder.  So errors come from the kernel, and after a power cut only data with an fsync is certain to
be there.  Mounting needs root, and a machine that has loop devices.

Only a folder that this module has made itself is ever mounted, filled or unmounted.  It must be
below the cluster's folder, and its path must have no symbolic link.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

from kafka_common.errors import ConfigInvalid
from zkcontroller_testing.waiting import until

LEAST_MB: Final = 16
MOST_MB: Final = 1024
IMAGE_NAME: Final = "disk.img"
_FILLER: Final = "filler"
_PIECE_BYTES: Final = 64 * 1024
_UNMOUNT_S: Final = 20.0
_COMMAND_S: Final = 60.0
_SHUTDOWN: Final = 0x8004587D  # EXT4_IOC_SHUTDOWN
_WITHOUT_FLUSH: Final = struct.pack("I", 2)  # EXT4_GOING_FLAGS_NOLOGFLUSH
_REPAIRED: Final = 1  # e2fsck: errors were found and corrected


class BrokerDisk:
    """The disk of one broker, mounted from :meth:`make` until :meth:`unmount`."""

    def __init__(self, root: Path, broker_id: int, megabytes: int) -> None:
        """``root``: the cluster's folder.  ConfigInvalid if the size is out of range."""
        if not LEAST_MB <= megabytes <= MOST_MB:
            reason = f"is not between {LEAST_MB} and {MOST_MB} MB"
            raise ConfigInvalid(f"disks[{broker_id}]", megabytes, reason)
        self._broker_id = broker_id
        self._megabytes = megabytes
        self._root = root
        self._folder = root / f"broker-{broker_id}"
        self._image = self._folder / IMAGE_NAME
        self.mount_point = self._folder / "data"
        self.is_mounted = False

    def make(self) -> None:
        """Makes the file system and mounts it; ConfigInvalid if that is not possible."""
        if os.geteuid() != 0:
            raise self._impossible("only root can mount one: run the tests as root, or without it")
        self._folder.mkdir(parents=True, exist_ok=True)
        self._require_no_links()
        try:
            self.mount_point.mkdir()
        except FileExistsError:
            raise self._impossible(f"{self.mount_point} is there already") from None
        with self._image.open("xb") as image:
            image.truncate(self._megabytes * 1024 * 1024)
        # Reserve no blocks for root (-m 0), because the broker runs as root.
        self._run("mkfs.ext4", "-q", "-F", "-m", "0", str(self._image))
        self._mount()

    def fill(self) -> None:
        """Fills the disk until the kernel reports ENOSPC for a single byte."""
        with (self._checked() / _FILLER).open("wb", buffering=0) as filler:
            size = _PIECE_BYTES
            while size:
                try:
                    filler.write(bytes(size))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    size //= 2

    def make_read_only(self) -> None:
        """Aborts the ext4 file system: every write fails with EROFS, also to open files."""
        self._run("mount", "-o", "remount,abort", str(self._checked()))

    def lose_unsynced(self) -> None:
        """Drops all data without an fsync, as a power cut does; no process may use the disk."""
        descriptor = os.open(self._checked(), os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(descriptor, _SHUTDOWN, _WITHOUT_FLUSH)
        finally:
            os.close(descriptor)
        self.unmount()
        self._mount()

    def free(self) -> None:
        """Frees the space that :meth:`fill` has taken."""
        (self._checked() / _FILLER).unlink(missing_ok=True)

    def repair(self) -> None:
        """Checks the file system and mounts it writable with free space; no process may use it."""
        self.unmount()
        done = self._call("e2fsck", "-p", str(self._image))
        if done.returncode > _REPAIRED:
            raise self._impossible(f"e2fsck says {done.stdout.strip()}")
        self._mount()
        self.free()

    def unmount(self) -> None:
        """Unmounts the disk; NotInTime if a process still uses it."""
        if not self.is_mounted:
            return
        point = str(self._checked())
        # A process that was killed a moment ago may still have files open.
        until(
            lambda: True if self._call("umount", point).returncode == 0 else None,
            lambda: f"{point} is not in use",
            _UNMOUNT_S,
        )
        self.is_mounted = False

    def _mount(self) -> None:
        self._require_no_links()
        self._run("mount", "-o", "loop,noatime", str(self._image), str(self.mount_point))
        self.is_mounted = True
        # A log directory must contain only folders of partitions.
        shutil.rmtree(self._checked() / "lost+found", ignore_errors=True)

    def _checked(self) -> Path:
        """The mount point; ConfigInvalid if the disk is not mounted there."""
        self._require_no_links()
        if not (self.is_mounted and os.path.ismount(self.mount_point)):
            raise self._impossible(f"{self.mount_point} is not mounted")
        return self.mount_point

    def _require_no_links(self) -> None:
        for path in (self._folder, self.mount_point, self._image):
            if path.is_symlink() or self._root.resolve() not in path.resolve().parents:
                raise self._impossible(f"{path} leads out of {self._root}")

    def _run(self, *command: str) -> None:
        done = self._call(*command)
        if done.returncode:
            raise self._impossible(f"{command[0]} says {done.stdout.strip()}")

    def _call(self, *command: str) -> subprocess.CompletedProcess[str]:
        with contextlib.suppress(FileNotFoundError):
            return subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=_COMMAND_S,
                check=False,
            )
        raise self._impossible(f"there is no {command[0]} on this machine")

    def _impossible(self, reason: str) -> ConfigInvalid:
        return ConfigInvalid("disks", self._broker_id, f"cannot have a disk of its own: {reason}")
