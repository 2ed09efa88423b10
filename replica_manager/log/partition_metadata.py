"""``partition.metadata``: the topic id of a log's topic.

Source: Kafka ``PartitionMetadataFile``.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final
from uuid import UUID

from kafka_common.errors import InconsistentTopicId, ZkControllerError
from kafka_common.protocol.uuid_text import parse_uuid, uuid_text
from replica_manager.log.files import replace_file
from replica_manager.log.local_log import LocalLog
from replica_manager.regular_files import read_file

FILE_NAME: Final = "partition.metadata"
_MAX_BYTES: Final = 4096


class PartitionMetadataCorrupt(ZkControllerError):
    """A ``partition.metadata`` file cannot be read, or has no valid topic id."""


def write_topic_id(directory: Path, topic_id: UUID) -> None:
    """Writes the topic id to the file in a log's folder.  Blocks until it is on disk."""
    text = f"version: 0\ntopic_id: {uuid_text(topic_id)}"
    replace_file(directory / FILE_NAME, text.encode())


def read_topic_id(directory: Path) -> UUID | None:
    """The topic id in the file, None without a file; PartitionMetadataCorrupt if not valid."""
    path = directory / FILE_NAME
    try:
        lines = read_file(path, _MAX_BYTES).decode().split("\n")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as failure:
        raise PartitionMetadataCorrupt(f"Malformed file {path}: {failure}") from None
    fields = dict(line.split(": ", 1) for line in lines if ": " in line)
    if fields.get("version") != "0":
        raise PartitionMetadataCorrupt(f"Unrecognized version of partition metadata file {path}")
    try:
        topic_id = parse_uuid(fields.get("topic_id", ""))
    except ValueError as failure:
        raise PartitionMetadataCorrupt(f"Malformed topic id in {path}: {failure}") from None
    if topic_id.int == 0:
        raise PartitionMetadataCorrupt(f"Invalid topic ID in partition metadata file ({topic_id})")
    return topic_id


class PartitionMetadataFile:
    """The file in the folder of ``local``, and the log's topic id."""

    def __init__(self, local: LocalLog) -> None:
        self._local = local
        self.topic_id = read_topic_id(local.directory)
        self._unwritten: UUID | None = None
        # Held while the file is replaced: two threads would write to the same temporary file.
        self._lock = threading.Lock()

    def record(self, topic_id: UUID) -> None:
        """Sets the log's topic id; InconsistentTopicId if the log has another one.

        The file is written by a deferred task, or by an earlier :meth:`maybe_flush`.
        """
        if self.topic_id is None:
            self.topic_id = self._unwritten = topic_id
            self._local.later("flush-metadata-file", self.maybe_flush)
        elif self.topic_id != topic_id:
            raise InconsistentTopicId(
                f"Tried to assign topic ID {topic_id} to log for topic partition "
                f"{self._local.name}, but log already contained topic ID {self.topic_id}"
            )

    def maybe_flush(self) -> None:
        """Writes the topic id if it is not in the file yet.  Blocks until it is on disk."""
        if self._unwritten is None:
            return
        with self._lock:
            topic_id = self._unwritten
            if topic_id is not None:
                write_topic_id(self._local.directory, topic_id)
                self._unwritten = None
