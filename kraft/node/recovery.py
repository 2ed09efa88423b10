"""Checks and cleans the metadata log's directory before the log is opened.

Source: Kafka ``KafkaMetadataLog.recoverSnapshots``.
"""

from __future__ import annotations

import logging
from pathlib import Path

from kafka_common.errors import InconsistentTopicId, RaftFatal
from kafka_common.protocol.uuid_text import uuid_text
from kraft.node.snapshot_files import MetadataSnapshotFiles, by_age, list_snapshots
from kraft.raft.values import METADATA_TOPIC, METADATA_TOPIC_ID, OffsetAndEpoch
from replica_manager.log import partition_metadata
from replica_manager.log.files import LOG_SUFFIX, offset_in_name

_log = logging.getLogger("kafka.raft.KafkaMetadataLog$")


def claim(directory: Path) -> None:
    """Writes the log's topic id into the directory; InconsistentTopicId if it has another one."""
    found = partition_metadata.read_topic_id(directory)
    if found is None:
        partition_metadata.write_topic_id(directory, METADATA_TOPIC_ID)
    elif found != METADATA_TOPIC_ID:
        raise InconsistentTopicId(
            f"{directory / partition_metadata.FILE_NAME} has topic id "
            f"{uuid_text(found)}, which is not that of {METADATA_TOPIC}"
        )


def find_start_offset(directory: Path) -> int:
    """The log's start offset: 0, or the end of the oldest snapshot not before the first segment.

    Segments are deleted only as a whole, so the first one may begin before that snapshot's end.
    RaftFatal if no snapshot covers the records before the first segment.
    """
    bases = [
        offset
        for entry in directory.iterdir()
        if entry.name.endswith(LOG_SUFFIX) and (offset := offset_in_name(entry.name)) is not None
    ]
    first = min(bases, default=0)
    if first == 0:
        return 0
    usable = [
        name.snapshot_id
        for _, name in list_snapshots(directory)
        if not (name.is_partial or name.is_deleted) and name.snapshot_id.offset >= first
    ]
    if not usable:
        raise RaftFatal(
            "Inconsistent snapshot state: there must be a snapshot at an offset larger than the "
            f"current log start offset {first}, but there is none in {directory}"
        )
    return min(usable, key=by_age).offset


def recover_snapshots(directory: Path, log_start_offset: int) -> MetadataSnapshotFiles:
    """The valid snapshots; removes partial and deleted ones, and those before the log's start."""
    kept: list[OffsetAndEpoch] = []
    for path, name in list_snapshots(directory):
        if name.is_partial or name.is_deleted or name.snapshot_id.offset < log_start_offset:
            path.unlink()
            _log.info("Deleted unneeded snapshot file with path %s", path)
        else:
            kept.append(name.snapshot_id)
    snapshots = MetadataSnapshotFiles(directory, kept)
    listed = ", ".join(map(str, snapshots.ids))
    _log.info("Initialized snapshots with IDs SortedSet(%s) from %s", listed, directory)
    return snapshots
