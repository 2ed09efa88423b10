"""Refuses a log whose records name voters: this node has static voters from its configuration.

A quorum at ``kraft.version`` 1 writes its voters into the log (``KRaftVersion`` and ``KRaftVoters``
records), and the last such record decides which majority counts.  A node that knows only
``controller.quorum.voters`` would count another majority and call records committed that are not.
So it ends with a clear error before it votes, leads or acknowledges anything.

Source: KIP-853; Kafka ``KRaftControlRecordStateMachine`` reads the same records at the same places.
"""

from __future__ import annotations

from typing import Final

from kafka_common.errors import CorruptRecord, RaftFatal, RecordsRefused
from kafka_common.protocol.record_batch import (
    HEADER_BYTES,
    MAGIC_2,
    BatchHeader,
    is_intact,
    iterate_batch,
    iterate_batches,
    read_header,
)
from kraft.raft.control_records import (
    KRAFT_VERSION,
    KRAFT_VOTERS,
    KRaftVersion,
    control_type,
    decode_control_record,
)
from kraft.raft.raft_log import RaftLog

_READ_BYTES: Final = 8 * 1024 * 1024
_MAX_CONTROL_BATCH_BYTES: Final = 1024 * 1024
"""A larger control batch is refused: even one that names hundreds of voters is smaller."""


class VoterRecordsGuard:
    """Looks for records that name voters in batches that arrive in pieces."""

    def __init__(self, place: str) -> None:
        """``place`` names the source of the batches in the error's text."""
        self._place = place
        self._held = bytearray()
        self._to_skip = 0
        self._is_broken = False

    def feed(self, data: bytes) -> None:
        """Checks the next bytes; RaftFatal if a record among them names voters.

        A broken batch, and all bytes after it, are not checked: the code that reads the batches
        refuses them there.  At most one control batch is buffered.
        """
        if self._is_broken:
            return
        try:
            self._check_batches(data)
        except RecordsRefused:
            self._is_broken = True

    def _check_batches(self, data: bytes) -> None:
        skipped = min(self._to_skip, len(data))
        self._to_skip -= skipped
        self._held += memoryview(data)[skipped:]
        position = 0
        while (header := read_header(self._held, position)) is not None:
            if self._is_control(header):
                if header.size > len(self._held) - position:
                    break
                self._check(bytes(self._held[position : position + header.size]), header)
            position += header.size
        if position > len(self._held):
            self._to_skip = position - len(self._held)
            position = len(self._held)
        del self._held[:position]

    def _is_control(self, header: BatchHeader) -> bool:
        is_control = header.magic == MAGIC_2 and header.is_control
        if is_control and not HEADER_BYTES <= header.size <= _MAX_CONTROL_BATCH_BYTES:
            raise RaftFatal(
                f"The control batch at offset {header.base_offset} of {self._place} has "
                f"{header.size} bytes: no raft layer writes one of more than "
                f"{_MAX_CONTROL_BATCH_BYTES}"
            )
        return is_control

    def _check(self, batch: bytes, header: BatchHeader) -> None:
        if not is_intact(batch, 0, header):
            raise CorruptRecord(f"the control batch at offset {header.base_offset}")
        for record in iterate_batch(batch, 0, header):
            kind = control_type(record.key)
            if kind not in (KRAFT_VERSION, KRAFT_VOTERS):
                continue
            found = decode_control_record(record.key, record.value)
            if isinstance(found, KRaftVersion) and found.kraft_version == 0:
                continue
            raise RaftFatal(
                f"{self._place} has a {type(found).__name__} record at offset {record.offset}: the "
                "voters of this quorum stand in its log (kraft.version 1, KIP-853), and this node "
                "supports only those of controller.quorum.voters (kraft.version 0). It must not "
                "take part in this quorum"
            )


def refuse_voter_records(log: RaftLog) -> None:
    """RaftFatal if a record in the log, or in its oldest or newest snapshot, names voters."""
    for snapshot_id in dict.fromkeys((log.earliest_snapshot_id, log.latest_snapshot_id)):
        size = None if snapshot_id is None else log.snapshot_bytes(snapshot_id)
        if snapshot_id is None or size is None:
            continue
        guard = VoterRecordsGuard(f"snapshot {snapshot_id}")
        position = 0
        while position < size:
            part = log.read_snapshot(snapshot_id, position, _READ_BYTES)
            guard.feed(part)
            position += max(1, len(part))
    guard = VoterRecordsGuard("the metadata log")
    offset = log.start_offset
    while data := log.read(offset, _READ_BYTES):
        size = 0
        for position, header in iterate_batches(data):
            size, offset = position + header.size, header.next_offset
        guard.feed(data[:size])
