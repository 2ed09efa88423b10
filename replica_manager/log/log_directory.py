"""A log directory: the names of its subdirectories, and the clean shutdown file.

Source: Kafka ``LocalLog`` (names), ``CleanShutdownFileHandler``, ``LogManager.loadLogs``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from kafka_common.errors import ZkControllerError
from kafka_common.model import TopicPartition
from kafka_common.topic_names import (
    LONGEST_FOLDER_NAME,
    invalid_name_reason,
    invalid_partition_reason,
)
from replica_manager.log.files import (
    replace_file,
)
from replica_manager.regular_files import refuse_link

CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
_CLEAN_SHUTDOWN: Final = b'{"version":0,"brokerEpoch":-1}'
"""The content of the clean shutdown file; only KRaft brokers write their epoch, so it is -1."""

_FOREIGN_FOLDERS: Final = frozenset({"remote-log-index-cache", "__cluster_metadata-0"})
"""Folders that Kafka makes in a log directory but that hold no partition; they are ignored."""
_SHOWN: Final = 300
_LAST_PARTITION: Final = 2**31 - 1
_MARKED: Final = re.compile(r"(\S+)-(\S+)\.(\S+)-(delete|future|stray)")


class FolderKind(Enum):
    """The kind of a partition's folder; the value is the suffix of its name."""

    CURRENT = ""
    FUTURE = "-future"
    """A future replica: it moves to this log directory and has not caught up yet."""
    DELETED = "-delete"
    STRAY = "-stray"
    """A replica that the controller did not assign to this broker at its start; never deleted."""


class LogFolder(NamedTuple):
    """A partition's folder, as its name describes it."""

    path: Path
    topic_partition: TopicPartition
    kind: FolderKind


class FolderNameInvalid(ZkControllerError):
    """A subdirectory's name is not that of a partition; the log directory is refused."""


class PartitionRefused(ZkControllerError):
    """The topic or partition cannot have a folder in a log directory."""


def partition_folder(
    log_dir: Path, topic_partition: TopicPartition, kind: FolderKind, unique_id: UUID
) -> Path:
    """The path of a partition's folder.  No other code builds such a path.

    Raises PartitionRefused for an invalid name, or if the path is not a child of ``log_dir``.
    """
    reason = invalid_partition_reason(*topic_partition)
    name = folder_name(topic_partition, kind, unique_id)
    if reason is None and len(name) > LONGEST_FOLDER_NAME:
        reason = f"the folder name '{name}' is longer than {LONGEST_FOLDER_NAME}"
    path = log_dir / name
    if reason is None and (path.parent != log_dir or path.name != name):
        reason = f"the folder {path} is not a child of {log_dir}"
    if reason is not None:
        raise PartitionRefused(f"No folder for {str(topic_partition)[:_SHOWN]}: {reason}")
    return path


def folder_name(topic_partition: TopicPartition, kind: FolderKind, unique_id: UUID) -> str:
    """The name of a folder; a long topic is shortened if the suffix would not fit.

    The names of current and future replicas are never shortened.
    """
    if kind is FolderKind.CURRENT:
        return str(topic_partition)
    suffix = f"-{topic_partition.partition}.{unique_id.hex}{kind.value}"
    topic = topic_partition.topic
    if kind is not FolderKind.FUTURE:
        topic = topic[: LONGEST_FOLDER_NAME - len(suffix)]
    return topic + suffix


def partition_name(path: Path) -> str:
    """The folder's name without the mark of a future, deleted or stray replica."""
    name = path.name
    return name if _MARKED.fullmatch(name) is None else name[: name.rindex(".")]


def parse_folder(path: Path) -> LogFolder:
    """The partition and kind in a folder's name; FolderNameInvalid for any other name."""
    name = partition_name(path)
    marked = _MARKED.fullmatch(path.name)
    kind = FolderKind.CURRENT if marked is None else FolderKind("-" + marked[4])
    topic, dash, partition = name.rpartition("-")
    if not (dash and topic and partition.isascii() and partition.isdigit()):
        raise FolderNameInvalid(
            f"Found directory {path}, '{path.name}' is not in the form of topic-partition or "
            "topic-partition.uniqueId-delete (if marked for deletion). Kafka's log directories "
            "(and children) should only contain Kafka topic data."
        )
    reason = invalid_name_reason(topic)
    if reason is None and (str(int(partition)) != partition or int(partition) > _LAST_PARTITION):
        reason = f"'{partition}' is not how a partition is written"
    if reason is not None:
        raise FolderNameInvalid(
            f"Found directory {path}, which cannot be the folder of a partition: {reason}. Move it "
            "out of the log directory."
        )
    return LogFolder(path, TopicPartition(topic, int(partition)), kind)


def folders_in(log_dir: Path) -> Iterator[LogFolder]:
    """The partitions' folders in a log directory, sorted; FolderNameInvalid for any other.

    OSError for a symbolic link to a folder.
    """
    for path in sorted(log_dir.iterdir()):
        if path.is_dir() and path.name not in _FOREIGN_FOLDERS:
            refuse_link(path)
            yield parse_folder(path)


def take_clean_shutdown_mark(log_dir: Path) -> bool:
    """Removes the clean shutdown file; returns whether it existed (a clean shutdown)."""
    try:
        (log_dir / CLEAN_SHUTDOWN_FILE).unlink()
    except FileNotFoundError:
        return False
    return True


def write_clean_shutdown_mark(log_dir: Path) -> None:
    """Writes the clean shutdown file, after all logs are on disk.  Blocks."""
    replace_file(log_dir / CLEAN_SHUTDOWN_FILE, _CLEAN_SHUTDOWN)
