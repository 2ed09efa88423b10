"""Publishes committed metadata records, on the event loop, to the parts that need them.

The controller keeps its own state, in its own thread.  Other parts of the node, such as the
authorizer, keep a copy of the few records that they need.  A :class:`MetadataPublishing` passes
them every committed record of these types, in order, and after a snapshot all such records in it.
Records of a transaction are passed when it ends, and never if it is aborted.

Source: Kafka ``MetadataLoader``, ``MetadataBatchLoader``, ``MetadataPublisher`` (KIP-868).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Final, Protocol

from kafka_common.observability.prefixed_log import PrefixedLog
from kraft.metadata.metadata_batches import iterate_records_of
from kraft.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
)
from kraft.node.raft_driver import CommittedBatches, RaftDriver
from kraft.raft.values import LeaderAndEpoch, OffsetAndEpoch

LISTENER_NAME: Final = "metadata-publishing"
DECODED_AT_ONCE_BYTES: Final = 32 * 1024
"""The most bytes that are decoded on the event loop; more are decoded in a thread."""
_TRANSACTIONS: Final = (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)

_log: Final = logging.getLogger("org.apache.kafka.image.loader.MetadataLoader")


class MetadataPublisher(Protocol):
    """Keeps a copy of some of the metadata.  For the event loop; must not take long."""

    @property
    def name(self) -> str:
        """Kafka's name of the publisher."""

    @property
    def record_types(self) -> Collection[type[MetadataRecord]]:
        """The types of records that this publisher gets."""

    def publish(self, records: Sequence[MetadataRecord]) -> None:
        """Applies the next committed records."""

    def load(self, records: Sequence[MetadataRecord]) -> None:
        """Replaces everything by these records."""

    def caught_up(self) -> None:
        """Called once, when all records that are known to be committed have been applied."""


class MetadataPublishing:
    """Reads the committed log of one node.  For the event loop."""

    def __init__(
        self, node_id: int, driver: Callable[[], RaftDriver],
        publishers: Sequence[MetadataPublisher],
    ) -> None:  # fmt: skip
        """``driver`` is called when the first records come."""
        self._node_id = node_id
        self._logger = PrefixedLog(_log, f"[MetadataLoader id={node_id}] ")
        self._driver = driver
        self._publishers = publishers
        self._types = frozenset(
            (*_TRANSACTIONS, *(each for one in publishers for each in one.record_types))
        )
        self._open_transaction: list[MetadataRecord] | None = None
        self._is_catching_up = True
        self._task: asyncio.Task[None] | None = None

    def handle_commit(self, batches: CommittedBatches) -> None:
        """Applies committed batches."""
        if len(batches.data) <= DECODED_AT_ONCE_BYTES:
            records = self._records(batches.data, batches.first_offset)
            # Apply the records after this call: the driver has to register this listener first.
            self._begin(self._take_in(records, batches.next_offset))
        else:
            self._begin(self._decode_and_take_in(batches))

    def handle_load_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        """Has every publisher replace all that it has applied by the records of a snapshot."""
        data = self._driver().read_snapshot(snapshot_id)
        self._begin(self._load(data, snapshot_id.offset))

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Does nothing: the log does not depend on the leader."""

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        """Starts to apply batches or a snapshot; the next ones come after these are applied."""
        self._task = asyncio.get_running_loop().create_task(work)
        self._task.add_done_callback(self._is_done)

    def _is_done(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            # Without new records, a client would keep a permission that was removed.
            self._logger.error("The metadata log cannot be followed any more", exc_info=error)
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
        """The records that are effective: outside of transactions, or in committed ones."""
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
        # A new leader knows its high watermark only after its first commit, which comes here too.
        committed = driver.node.high_watermark
        if self._is_catching_up and committed is not None and next_offset >= committed:
            self._is_catching_up = False
            self._logger.info(
                "initializeNewPublishers: The loader finished catching up to the current high "
                "water mark of %d",
                committed,
            )
            for publisher in self._publishers:
                self._logger.info(
                    "InitializeNewPublishers: initializing %s with a snapshot at offset %d",
                    f"{publisher.name} controller id={self._node_id}", next_offset - 1,
                )  # fmt: skip
                publisher.caught_up()
        driver.advanced(LISTENER_NAME, next_offset)

    def _records(self, data: bytes, first_offset: int) -> list[MetadataRecord]:
        return list(iterate_records_of(data, self._types, first_offset))
