"""The log directories of a KRaft node at its start: identity checks and locks.

Formatting writes a ``meta.properties`` into each.  All must name the same cluster and this node; a
directory without a directory id gets one.

Source: Kafka ``MetaPropertiesEnsemble``, ``KafkaRaftServer.initializeLogDirs``,
``KafkaRaftManager.lockDataDir``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from uuid import UUID

from msgspec import structs

from kafka_common.errors import ConfigInvalid, ZkControllerError
from kafka_common.protocol.uuid_text import usable_uuid, uuid_text
from kraft.node.metadata_log import FOLDER
from replica_manager.configuration.meta_properties import (
    FILE_NAME,
    LogDirLocks,
    MetaProperties,
    meta_properties_of,
    read_properties,
    write_meta_properties,
)

_log = logging.getLogger("kafka.server.KafkaRaftServer")

_RESERVED_IDS: Final = 100


class NodeFilesInvalid(ZkControllerError):
    """The log directories are not those of this node, or not yet formatted."""


@dataclass(frozen=True, slots=True)
class LogDirs:
    """The ``meta.properties`` of each log directory, in the order of their names.

    Source: Kafka ``MetaPropertiesEnsemble``.
    """

    found: Mapping[Path, MetaProperties]
    empty: tuple[Path, ...]
    """The directories that do not exist or have no ``meta.properties``."""
    failed: Mapping[Path, str]
    """The directories whose file cannot be read, each with the error."""

    @property
    def directory_ids(self) -> tuple[UUID, ...]:
        ids = (meta.directory_id for meta in self.found.values())
        return tuple(directory_id for directory_id in ids if directory_id is not None)

    @property
    def cluster_id(self) -> str | None:
        """The cluster id in the first directory that has one."""
        ids = (meta.cluster_id for meta in self.found.values())
        return next((cluster_id for cluster_id in ids if cluster_id is not None), None)


def load_log_dirs(directories: Iterable[Path]) -> LogDirs:
    """Reads the ``meta.properties`` of every directory.  Blocks."""
    found: dict[Path, MetaProperties] = {}
    empty: list[Path] = []
    failed: dict[Path, str] = {}
    for directory in sorted(set(directories)):
        try:
            properties = read_properties(directory)
            if properties is None:
                empty.append(directory)
            else:
                found[directory] = meta_properties_of(properties)
        except (OSError, ValueError, ConfigInvalid) as failure:
            _log.error("Error while reading meta.properties file %s: %s", directory, failure)
            failed[directory] = str(failure)
    return LogDirs(found, tuple(empty), failed)


def verify_log_dirs(log_dirs: LogDirs, *, node_id: int, cluster_id: str | None = None) -> None:
    """NodeFilesInvalid unless all directories name this node and one cluster.

    With a ``cluster_id``, they must name that cluster.
    """
    seen: dict[UUID, Path] = {}
    for directory, meta in log_dirs.found.items():
        path = directory / FILE_NAME
        if meta.cluster_id is None and meta.version > 0:
            raise NodeFilesInvalid(f"cluster.id was not specified in the v1 file: {path}")
        cluster_id = meta.cluster_id if cluster_id is None else cluster_id
        if meta.cluster_id not in (None, cluster_id):
            raise NodeFilesInvalid(
                f"Invalid cluster.id in: {path}. Expected {cluster_id}, but read {meta.cluster_id}"
            )
        if meta.node_id not in (None, node_id):
            raise NodeFilesInvalid(
                f"Stored node id {meta.node_id} doesn't match previous node id {node_id} in "
                f"{path}. If you moved your data, make sure your configured node id matches. If "
                "you intend to create a new node, you should remove all data in your data "
                "directories."
            )
        if meta.directory_id is not None:
            _check_directory_id(meta.directory_id, directory, seen)


def _check_directory_id(directory_id: UUID, directory: Path, seen: dict[UUID, Path]) -> None:
    if is_reserved(directory_id):
        raise NodeFilesInvalid(
            f"Invalid reserved directory ID {uuid_text(directory_id)} found in {directory}"
        )
    if directory_id in seen:
        raise NodeFilesInvalid(
            f"Duplicate directory ID {uuid_text(directory_id)} found. It was the ID of "
            f"{seen[directory_id]}, but also of {directory}"
        )
    seen[directory_id] = directory


def is_reserved(directory_id: UUID) -> bool:
    """Whether a directory id is reserved, so that no directory can have it.

    Source: Kafka ``DirectoryId.reserved``.
    """
    return directory_id.int < _RESERVED_IDS


def new_directory_id(new_uuid: Callable[[], UUID], taken: Collection[UUID]) -> UUID:
    """A new directory id, neither reserved nor taken."""
    while True:
        directory_id = usable_uuid(new_uuid)
        if not is_reserved(directory_id) and directory_id not in taken:
            return directory_id


def initialize_log_dirs(
    log_dirs: Collection[Path], metadata_log_dir: Path, node_id: int, new_uuid: Callable[[], UUID]
) -> LogDirs:
    """The directories of a starting node; gives each a directory id.  Blocks.

    Log directories that cannot be read are in ``failed``.  NodeFilesInvalid if the node must not
    start for another reason, OSError if a file cannot be written.
    """
    loaded = load_log_dirs({*log_dirs, metadata_log_dir})
    if not loaded.found:
        raise NodeFilesInvalid("No readable meta.properties files found.")
    verify_log_dirs(loaded, node_id=node_id)
    if metadata_log_dir in loaded.failed:
        raise NodeFilesInvalid(
            f"Encountered I/O error in metadata log directory {metadata_log_dir}. Cannot continue."
        )
    for directory in loaded.found:
        if directory != metadata_log_dir and (directory / FOLDER).exists():
            raise NodeFilesInvalid(
                f"Found unexpected metadata location in data directory `{directory / FOLDER}` (the "
                f"configured metadata directory is {metadata_log_dir})."
            )
    if loaded.empty:
        raise NodeFilesInvalid(
            f"No `meta.properties` found in {loaded.empty[0]} (have you run `zkctl storage format` "
            "to format the directory?)"
        )
    for directory, meta in loaded.found.items():
        if meta.node_id is None:
            raise NodeFilesInvalid(f"Error: node ID not found in {directory}")
        if meta.cluster_id is None:
            raise NodeFilesInvalid(f"Error: cluster ID not found in {directory}")
    return _with_directory_ids(loaded, new_uuid)


def _with_directory_ids(loaded: LogDirs, new_uuid: Callable[[], UUID]) -> LogDirs:
    found = dict(loaded.found)
    for directory, meta in loaded.found.items():
        if meta.directory_id is None:
            taken = LogDirs(found, (), {}).directory_ids
            found[directory] = structs.replace(meta, directory_id=new_directory_id(new_uuid, taken))
            _log.info("Rewriting %s/%s", directory, FILE_NAME)
            write_meta_properties(directory, found[directory])
    return replace(loaded, found=found)


def lock_metadata_log_dir(
    metadata_log_dir: Path, log_dirs: Collection[Path], *, is_only_controller: bool
) -> LogDirLocks:
    """Locks the metadata directory against other processes until ``release``.

    Locks nothing if a broker in the same process locks the directory.  ConfigInvalid if another
    process has locked it.
    """
    locks = LogDirLocks()
    is_separate = metadata_log_dir.absolute() not in {path.absolute() for path in log_dirs}
    if is_only_controller or is_separate:
        locks.acquire((metadata_log_dir,))
    return locks
