"""``meta.properties``: the node and cluster that a log directory belongs to.

Version 0 is for ZooKeeper mode: it has ``broker.id`` and ``cluster.id``, of which a new or old file
may lack both.  Version 1 is for KRaft: it has ``cluster.id`` and ``node.id``, and after the first
start a ``directory.id``.  A new file is written under another name, synced and renamed, so that
after a crash either the old file or the new one exists.

Source: Kafka ``MetaProperties``, ``MetaPropertiesEnsemble``, ``PropertiesUtils``.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final
from uuid import UUID

from msgspec import Struct

from kafka_common.errors import ConfigInvalid, InconsistentClusterId
from kafka_common.java import parse_int
from kafka_common.protocol.uuid_text import parse_uuid, uuid_text
from replica_manager.configuration.properties import format_properties, parse_properties
from replica_manager.regular_files import open_regular, read_file

FILE_NAME: Final = "meta.properties"
LOCK_NAME: Final = ".lock"


class MetaProperties(Struct, frozen=True):
    """The content of a file; None for a property that it does not have."""

    node_id: int | None = None
    """``broker.id`` in version 0, ``node.id`` in version 1."""
    cluster_id: str | None = None
    version: int = 0
    directory_id: UUID | None = None

    @property
    def properties(self) -> dict[str, str]:
        """The properties of the file, in the order in which Kafka writes them."""
        node_id = None if self.node_id is None else str(self.node_id)
        directory_id = None if self.directory_id is None else uuid_text(self.directory_id)
        version, cluster_id = str(self.version), self.cluster_id
        pairs: tuple[tuple[str, str | None], ...] = (
            ("node.id", node_id),
            ("directory.id", directory_id),
            ("version", version),
            ("cluster.id", cluster_id),
        )
        if self.version == 0:
            pairs = (
                ("version", version),
                ("cluster.id", cluster_id),
                ("broker.id", node_id),
                ("directory.id", directory_id),
            )
        return {key: value for key, value in pairs if value is not None}


def read_properties(log_dir: Path) -> dict[str, str] | None:
    """The properties in a directory's file, None without a file; ConfigInvalid if not readable."""
    path = log_dir / FILE_NAME
    try:
        return parse_properties(read_file(path).decode())
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as failure:
        raise ConfigInvalid(str(path), str(failure), "a file in UTF-8") from None


def read_meta_properties(log_dir: Path) -> MetaProperties | None:
    """A directory's file of version 0, None without a file; ConfigInvalid for other versions."""
    path = log_dir / FILE_NAME
    properties = read_properties(log_dir)
    if properties is None:
        return None
    version = properties.get("version", "0").strip()
    if version != "0":
        raise ConfigInvalid(
            f"version in {path}",
            version,
            "0: a broker in ZooKeeper mode supports no other (1 is KRaft's)",
        )
    text, broker_id = properties.get("broker.id"), None
    if text is not None:
        broker_id = parse_int(text)
        if broker_id is None or broker_id < 0:
            raise ConfigInvalid(f"broker.id in {path}", text, "a broker id")
    return MetaProperties(broker_id, properties.get("cluster.id"))


def meta_properties_of(properties: Mapping[str, str]) -> MetaProperties:
    """The content of a file of version 0 or 1; ValueError with Kafka's message if invalid."""
    text = properties.get("version", "0").strip()
    version = parse_int(text)
    if version is None:
        raise ValueError(f"Invalid meta.properties version string '{text}'")
    if version not in (0, 1):
        raise ValueError(f"Unknown meta.properties version number {version}")
    key = "broker.id" if version == 0 else "node.id"
    node_id = _integer(properties, key) if key in properties or version else None
    directory_id = None
    if "directory.id" in properties:
        try:
            directory_id = parse_uuid(properties["directory.id"])
        except ValueError as wrong:
            raise ValueError(f"Unable to read directory.id as a Uuid: {wrong}") from None
    return MetaProperties(node_id, properties.get("cluster.id"), version, directory_id)


def _integer(properties: Mapping[str, str], key: str) -> int:
    text = properties.get(key)
    if text is None:
        raise ValueError(f"Failed to find {key}")
    number = parse_int(text)
    if number is None:
        raise ValueError(f"Unable to read {key} as a base-10 number.")
    return number


def write_meta_properties(log_dir: Path, meta: MetaProperties) -> None:
    """Replaces the directory's file.  Blocks until it is on disk."""
    date = time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime())
    path, beside = log_dir / FILE_NAME, log_dir / f"{FILE_NAME}.tmp"
    descriptor = open_regular(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(f"#\n#{date}\n{format_properties(meta.properties)}")
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_directory(log_dir)


def sync_directory(directory: Path) -> None:
    """Makes a rename in ``directory`` survive a crash.  Blocks."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_meta_properties(
    found: Mapping[Path, MetaProperties | None], *, cluster_id: str, configured_broker_id: int
) -> int | None:
    """The broker id of all directories: the configured one, or that in the files; None if neither.

    Raises InconsistentClusterId, or ConfigInvalid if a file has another broker id than the
    configured one (-1 is not configured) or than the other files.
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
        if meta.node_id is None:
            continue
        if expected is None:
            expected = meta.node_id
        elif meta.node_id != expected:
            raise ConfigInvalid(
                "broker.id",
                expected,
                f"the id {meta.node_id} stored in {log_dir / FILE_NAME}; to make this a new "
                "broker, remove all data in its log directories",
            )
    return expected


class LogDirLocks:
    """Locks log directories, so that no other broker process can use them.

    Source: Kafka ``LogManager.lockLogDirs``; the lock is the one Java's ``FileChannel`` takes.
    """

    def __init__(self) -> None:
        self._files: list[IO[str]] = []

    def acquire(self, log_dirs: Sequence[Path]) -> None:
        """Locks all directories or none; ConfigInvalid if another process has locked one."""
        for log_dir in log_dirs:
            descriptor = open_regular(log_dir / LOCK_NAME, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            file = open(descriptor, "a", encoding="utf-8")  # noqa: SIM115 - kept open
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
        """Unlocks the directories."""
        while self._files:
            with contextlib.suppress(OSError):
                self._files.pop().close()
