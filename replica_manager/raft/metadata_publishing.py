"""What is committed to the metadata log, told on the event loop to those who need a part of it.

The controller keeps its own state, in its own thread.  What answers requests beside it, such as the
authorizer, has a copy of the few records it needs: of those types a :class:`MetadataPublishing`
hands on every committed record, in order, and after a snapshot all that are in it.  Records of a
transaction come when it ends, and never if it is aborted.

Source: Kafka ``MetadataLoader``, ``MetadataBatchLoader``, ``MetadataPublisher`` (KIP-868).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Final, Protocol

from zkcontroller.kraft.metadata.metadata_batches import iterate_records_of
from zkcontroller.kraft.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
)
from zkcontroller.kraft.values import LeaderAndEpoch, OffsetAndEpoch
from zkcontroller.runtime.raft_driver import CommittedBatches, RaftDriver

LISTENER_NAME: Final = "metadata-publishing"
DECODED_AT_ONCE_BYTES: Final = 32 * 1024
"""Of more a thread makes records: others need not wait meanwhile."""
_TRANSACTIONS: Final = (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)

_log: Final = logging.getLogger("org.apache.kafka.image.loader.MetadataLoader")


class MetadataPublisher(Protocol):
    """Has a copy of some of the metadata.  For the event loop; must not take long."""

    @property
    def record_types(self) -> Collection[type[MetadataRecord]]:
        """What it wants to hear of."""

    def publish(self, records: Sequence[MetadataRecord]) -> None:
        """Takes in what was committed next."""

    def load(self, records: Sequence[MetadataRecord]) -> None:
        """Everything known is void: this is what there is."""

    def caught_up(self) -> None:
        """Once: everything has come that was known to be committed."""


class MetadataPublishing:
    """Reads the committed log of one node.  For the event loop."""

    def __init__(
        self, driver: Callable[[], RaftDriver], publishers: Sequence[MetadataPublisher]
    ) -> None:
        """``driver`` is asked for when the first records come."""
        self._driver = driver
        self._publishers = publishers
        self._types = frozenset(
            (*_TRANSACTIONS, *(each for one in publishers for each in one.record_types))
        )
        self._open_transaction: list[MetadataRecord] | None = None
        self._is_catching_up = True
        self._task: asyncio.Task[None] | None = None

    def handle_commit(self, batches: CommittedBatches) -> None:
        """Takes in what is committed."""
        if len(batches.data) <= DECODED_AT_ONCE_BYTES:
            records = self._records(batches.data, batches.first_offset)
            # The driver has yet to hear that there is somebody who takes this in.
            self._begin(self._take_in(records, batches.next_offset))
        else:
            self._begin(self._decode_and_take_in(batches))

    def handle_load_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        """Begins anew with a snapshot."""
        data = self._driver().read_snapshot(snapshot_id)
        self._begin(self._load(data, snapshot_id.offset))

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Whoever leads, the log is the same."""

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        """Only one at a time: nothing more comes before it has said that it is done."""
        self._task = asyncio.get_running_loop().create_task(work)
        self._task.add_done_callback(self._is_done)

    def _is_done(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            # Rules that are not taken in any more would let in whoever has just been shut out.
            _log.error("The metadata log cannot be followed any more", exc_info=error)
            self._driver().listener_failed(error)

    async def _take_in(self, records: Sequence[MetadataRecord], next_offset: int) -> None:
        self._publish(records, next_offset)

    async def _decode_and_take_in(self, batches: CommittedBatches) -> None:
        records = await asyncio.to_thread(self._records, batches.data, batches.first_offset)
        self._publish(records, batches.next_offset)

    async def _load(self, data: bytes, next_offset: int) -> None:
        records = await asyncio.to_thread(self._records, data, 0)
        self._open_transaction = None
        for publisher in self._publishers:
            publisher.load([each for each in records if type(each) in publisher.record_types])
        self._advance(next_offset)

    def _publish(self, records: Sequence[MetadataRecord], next_offset: int) -> None:
        settled = self._settled(records) if records else ()
        for publisher in self._publishers:
            wanted = [each for each in settled if type(each) in publisher.record_types]
            if wanted:
                publisher.publish(wanted)
        self._advance(next_offset)

    def _settled(self, records: Sequence[MetadataRecord]) -> list[MetadataRecord]:
        """What counts now: what is in no transaction, or in one that has ended."""
        settled: list[MetadataRecord] = []
        for record in records:
            match record:
                case BeginTransactionRecord():
                    self._open_transaction = []
                case EndTransactionRecord():
                    settled += self._open_transaction or ()
                    self._open_transaction = None
                case AbortTransactionRecord():
                    self._open_transaction = None
                case _ if self._open_transaction is not None:
                    self._open_transaction.append(record)
                case _:
                    settled.append(record)
        return settled

    def _advance(self, next_offset: int) -> None:
        driver = self._driver()
        if self._is_catching_up and next_offset >= (driver.node.high_watermark or 0):
            self._is_catching_up = False
            _log.info("Caught up with the metadata log at offset %d", next_offset)
            for publisher in self._publishers:
                publisher.caught_up()
        driver.advanced(LISTENER_NAME, next_offset)

    def _records(self, data: bytes, first_offset: int) -> list[MetadataRecord]:
        return list(iterate_records_of(data, self._types, first_offset))
