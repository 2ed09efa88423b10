"""``partition.metadata``: the topic id that a log belongs to.

Source: Kafka ``PartitionMetadataFile``.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Final
from uuid import UUID

from replica_manager.log.files import replace_file
from zkcontroller.errors import ZkControllerError

FILE_NAME: Final = "partition.metadata"
_MAX_BYTES: Final = 4096


class PartitionMetadataCorrupt(ZkControllerError):
    """The file is not what it should be."""


def encode_topic_id(topic_id: UUID) -> str:
    """Kafka's 22 characters for an id."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def write_topic_id(directory: Path, topic_id: UUID) -> None:
    """Writes the file of a log's folder.  Blocks until it is on disk."""
    text = f"version: 0\ntopic_id: {encode_topic_id(topic_id)}"
    replace_file(directory / FILE_NAME, text.encode())


def read_topic_id(directory: Path) -> UUID | None:
    """The topic id, None without a file; PartitionMetadataCorrupt if it cannot be read."""
    path = directory / FILE_NAME
    try:
        with path.open("rb") as file:
            lines = file.read(_MAX_BYTES).decode().split("\n")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as failure:
        raise PartitionMetadataCorrupt(f"Malformed file {path}: {failure}") from None
    fields = dict(line.split(": ", 1) for line in lines if ": " in line)
    if fields.get("version") != "0":
        raise PartitionMetadataCorrupt(f"Unrecognized version of partition metadata file {path}")
    try:
        raw = base64.urlsafe_b64decode(fields.get("topic_id", "") + "==")
        topic_id = UUID(bytes=raw)
    except (ValueError, binascii.Error) as failure:
        raise PartitionMetadataCorrupt(f"Malformed topic id in {path}: {failure}") from None
    if topic_id.int == 0:
        raise PartitionMetadataCorrupt(f"Invalid topic ID in partition metadata file ({topic_id})")
    return topic_id
