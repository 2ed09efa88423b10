"""``meta.properties``: which broker of which cluster a log directory belongs to.

Version 0 is ZooKeeper mode's: ``broker.id`` and ``cluster.id``, both of which a fresh or old file
may lack.  Version 1 belongs to KRaft and is refused.  The file is written beside itself, synced to
disk and renamed, so that a crash leaves the old one or the new one.

Source: Kafka ``MetaProperties``, ``MetaPropertiesEnsemble``, ``PropertiesUtils``.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from replica_manager.properties import format_properties, parse_properties
from zkcontroller.errors import ConfigInvalid, InconsistentClusterId

FILE_NAME: Final = "meta.properties"
LOCK_NAME: Final = ".lock"


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """What the file says; None for what it does not say."""

    broker_id: int | None = None
    cluster_id: str | None = None


def read_meta_properties(log_dir: Path) -> MetaProperties | None:
    """The directory's file, None if it has none; ConfigInvalid if it is not version 0."""
    path = log_dir / FILE_NAME
    try:
        properties = parse_properties(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as failure:
        raise ConfigInvalid(str(path), str(failure), "a file in UTF-8") from None
    version = properties.get("version", "0").strip()
    if version != "0":
        raise ConfigInvalid(
            f"version in {path}",
            version,
            "0: a broker in ZooKeeper mode supports no other (1 is KRaft's)",
        )
    broker_id = properties.get("broker.id")
    if broker_id is not None and not (broker_id.isascii() and broker_id.isdigit()):
        raise ConfigInvalid(f"broker.id in {path}", broker_id, "a broker id")
    return MetaProperties(
        None if broker_id is None else int(broker_id), properties.get("cluster.id")
    )


def write_meta_properties(log_dir: Path, meta: MetaProperties) -> None:
    """Replaces the directory's file; the new one is on disk when this returns."""
    properties = {"version": "0"}
    if meta.cluster_id is not None:
        properties["cluster.id"] = meta.cluster_id
    if meta.broker_id is not None:
        properties["broker.id"] = str(meta.broker_id)
    date = time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime())
    path, beside = log_dir / FILE_NAME, log_dir / f"{FILE_NAME}.tmp"
    with beside.open("w", encoding="utf-8") as file:
        file.write(f"#\n#{date}\n{format_properties(properties)}")
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_directory(log_dir)


def sync_directory(directory: Path) -> None:
    """Makes a rename in ``directory`` survive a crash."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_meta_properties(
    found: Mapping[Path, MetaProperties | None], *, cluster_id: str, configured_broker_id: int
) -> int | None:
    """The broker id that the directories agree on, None if none of them has one.

    Raises InconsistentClusterId, or ConfigInvalid for an id that is not the configured one (at
    least 0) or not that of the other directories.
    """
    expected = configured_broker_id if configured_broker_id >= 0 else None
    for log_dir, meta in found.items():
        if meta is None:
            continue
        if meta.cluster_id not in (None, cluster_id):
            raise InconsistentClusterId(
                f"The Cluster ID {cluster_id} doesn't match stored clusterId {meta.cluster_id} in "
                f"{log_dir / FILE_NAME}. The broker is trying to join the wrong cluster. "
                "Configured zookeeper.connect may be wrong."
            )
        if meta.broker_id is None:
            continue
        if expected is None:
            expected = meta.broker_id
        elif meta.broker_id != expected:
            raise ConfigInvalid(
                "broker.id",
                expected,
                f"the id {meta.broker_id} stored in {log_dir / FILE_NAME}; to make this a new "
                "broker, remove all data in its log directories",
            )
    return expected


class LogDirLocks:
    """Keeps every other broker process out of our log directories.

    Source: Kafka ``LogManager.lockLogDirs``; the lock is the one Java's ``FileChannel`` takes.
    """

    def __init__(self) -> None:
        self._files: list[IO[str]] = []

    def acquire(self, log_dirs: Sequence[Path]) -> None:
        """Locks all of them, or none; ConfigInvalid if somebody else has one."""
        for log_dir in log_dirs:
            file = (log_dir / LOCK_NAME).open("a", encoding="utf-8")
            self._files.append(file)
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self.release()
                raise ConfigInvalid(
                    "log.dirs",
                    str(log_dir),
                    f"a directory that no other broker uses: {LOCK_NAME} in it is locked by "
                    "another process",
                ) from None

    def release(self) -> None:
        """Gives the directories free."""
        while self._files:
            with contextlib.suppress(OSError):
                self._files.pop().close()
