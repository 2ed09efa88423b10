"""A log directory: the names of the folders in it, and the mark of a clean stop.

Source: Kafka ``LocalLog`` (names), ``CleanShutdownFileHandler``, ``LogManager.loadLogs``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from replica_manager.log.files import replace_file
from zkcontroller.errors import ZkControllerError
from zkcontroller.model import TopicPartition

CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
_CLEAN_SHUTDOWN: Final = b'{"version":0,"brokerEpoch":-1}'
"""The broker epoch is KRaft's."""

_LONGEST_NAME: Final = 255
_MARKED: Final = re.compile(r"(\S+)-(\S+)\.(\S+)-(delete|future|stray)")


class FolderKind(Enum):
    """What a folder in a log directory holds."""

    CURRENT = ""
    FUTURE = "-future"
    """A replica that moves to this directory and has not caught up."""
    DELETED = "-delete"
    STRAY = "-stray"
    """A replica that the controller did not know when the broker started; kept aside."""


class LogFolder(NamedTuple):
    """A partition's folder."""

    path: Path
    topic_partition: TopicPartition
    kind: FolderKind


class FolderNameInvalid(ZkControllerError):
    """A folder in a log directory is not a partition's; nothing is guessed about it."""


def folder_name(topic_partition: TopicPartition, kind: FolderKind, unique_id: UUID) -> str:
    """The name of a folder; the topic is cut where the name would be too long to delete it."""
    if kind is FolderKind.CURRENT:
        return str(topic_partition)
    suffix = f"-{topic_partition.partition}.{unique_id.hex}{kind.value}"
    topic = topic_partition.topic
    if kind is not FolderKind.FUTURE:
        topic = topic[: _LONGEST_NAME - len(suffix)]
    return topic + suffix


def parse_folder(path: Path) -> LogFolder:
    """What a folder's name says; FolderNameInvalid if it is not a partition's."""
    name, kind = path.name, FolderKind.CURRENT
    marked = _MARKED.fullmatch(name)
    if marked:
        kind = FolderKind("-" + marked[4])
        name = name[: name.rindex(".")]
    topic, dash, partition = name.rpartition("-")
    if not (dash and topic and partition.isascii() and partition.isdigit()):
        raise FolderNameInvalid(
            f"Found directory {path}, '{path.name}' is not in the form of topic-partition or "
            "topic-partition.uniqueId-delete (if marked for deletion). Kafka's log directories "
            "(and children) should only contain Kafka topic data."
        )
    return LogFolder(path, TopicPartition(topic, int(partition)), kind)


def folders_in(log_dir: Path) -> Iterator[LogFolder]:
    """The partitions' folders in a log directory, by name; FolderNameInvalid for any other."""
    for path in sorted(log_dir.iterdir()):
        if path.is_dir():
            yield parse_folder(path)


def take_clean_shutdown_mark(log_dir: Path) -> bool:
    """Whether the last stop was clean.  The mark is gone afterwards: the next must earn its own."""
    try:
        (log_dir / CLEAN_SHUTDOWN_FILE).unlink()
    except FileNotFoundError:
        return False
    return True


def write_clean_shutdown_mark(log_dir: Path) -> None:
    """Says that everything in the directory is on disk.  Blocks."""
    replace_file(log_dir / CLEAN_SHUTDOWN_FILE, _CLEAN_SHUTDOWN)
