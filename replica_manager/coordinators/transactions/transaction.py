"""The state of one transactional id: its producer and its transaction.

A change has three steps: it is *prepared*, written to the log, and then *completed*.  A prepared
change sets the pending state, so that no other change can begin.  It is a :class:`Transit`, which
has the complete new state.

The producer epoch fences old producers: a producer with an older epoch is refused.  No client gets
the highest possible epoch, so that the coordinator can always fence a producer with a higher one.

Source: Kafka ``TransactionMetadata``, ``TxnTransitMetadata`` (KIP-98, KIP-360).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode
from typing_extensions import override

from kafka_common.errors import IllegalState
from kafka_common.model import TopicPartition
from replica_manager.coordinators.transactions.states import VALID_PREVIOUS, TransactionState

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_START: Final = -1
"""``start_ms`` of a transaction that has not begun."""
SHOWN_PARTITIONS: Final = 100
"""Limit of a transaction's partitions in one log line."""
LAST_PRODUCER_EPOCH: Final = 2**15 - 1


def is_epoch_exhausted(producer_epoch: int) -> bool:
    """Whether no client may get a higher epoch: the highest one is reserved for fencing."""
    return producer_epoch >= LAST_PRODUCER_EPOCH - 1


class Transit(NamedTuple):
    """The next state of a transactional id, with all its fields."""

    state: TransactionState
    producer_id: int
    last_producer_id: int
    """The producer id before the change; differs if the epochs of that id were exhausted."""
    producer_epoch: int
    last_producer_epoch: int
    """The epoch before a producer requested a new one (KIP-360); otherwise -1."""
    timeout_ms: int
    partitions: tuple[TopicPartition, ...]
    start_ms: int
    last_update_ms: int

    @override
    def __str__(self) -> str:
        """The text as in Kafka's log lines, with at most SHOWN_PARTITIONS partitions."""
        shown = [f"{topic}-{partition}" for topic, partition in self.partitions[:SHOWN_PARTITIONS]]
        if len(shown) < len(self.partitions):
            shown.append(f"... {len(self.partitions)} in all")
        return (
            f"TxnTransitMetadata(producerId={self.producer_id}, "
            f"lastProducerId={self.last_producer_id}, producerEpoch={self.producer_epoch}, "
            f"lastProducerEpoch={self.last_producer_epoch}, txnTimeoutMs={self.timeout_ms}, "
            f"txnState={self.state.label}, topicPartitions=Set({', '.join(shown)}), "
            f"txnStartTimestamp={self.start_ms}, txnLastUpdateTimestamp={self.last_update_ms})"
        )


class Transaction:
    """The state of a transactional id; a new one is Empty and has the producer epoch -1."""

    __slots__ = (
        "has_failed_epoch_fence", "last_producer_epoch", "last_producer_id", "last_update_ms",
        "partitions", "pending_state", "producer_epoch", "producer_id", "start_ms", "state",
        "timeout_ms", "transactional_id",
    )  # fmt: skip

    def __init__(
        self,
        transactional_id: str,
        producer_id: int,
        timeout_ms: int,
        last_update_ms: int,
        *,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        state: TransactionState = TransactionState.EMPTY,
        partitions: Iterable[TopicPartition] = (),
        start_ms: int = NO_START,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.last_producer_id = NO_PRODUCER_ID
        self.producer_epoch = producer_epoch
        self.last_producer_epoch = NO_PRODUCER_EPOCH
        self.timeout_ms = timeout_ms
        self.state = state
        self.partitions: dict[TopicPartition, None] = dict.fromkeys(partitions)
        """The partitions of the transaction; while markers are written, those without marker."""
        self.start_ms = start_ms
        self.last_update_ms = last_update_ms
        self.pending_state: TransactionState | None = None
        """The state of the change that is being written to the log; None if there is none."""
        self.has_failed_epoch_fence = False
        """Whether the write of a raised epoch failed; then the next fence uses the same epoch."""

    @property
    def is_epoch_exhausted(self) -> bool:
        return is_epoch_exhausted(self.producer_epoch)

    def has_timed_out(self, now_ms: int) -> bool:
        """Whether the transaction is open for longer than its timeout, without pending change."""
        return (
            self.state is TransactionState.ONGOING
            and self.pending_state is None
            and self.start_ms + self.timeout_ms < now_ms
        )

    # ------------------------------------------------------------------ preparing

    def prepare_epoch_fence(self) -> Transit:
        """Prepares a higher epoch, which fences the producer of the open transaction."""
        # A fence that failed has already raised the epoch, perhaps to the highest one.
        epoch = self.producer_epoch + (0 if self.has_failed_epoch_fence else 1)
        if epoch > LAST_PRODUCER_EPOCH:
            raise IllegalState(f"{self.transactional_id}: no epoch is left to fence its producer")
        return self._prepare(
            self._as_is(TransactionState.PREPARE_EPOCH_FENCE)._replace(
                producer_epoch=epoch, last_producer_epoch=NO_PRODUCER_EPOCH
            )
        )

    def prepare_epoch_increment(
        self, timeout_ms: int, expected_epoch: int | None, now_ms: int
    ) -> Transit | ErrorCode:
        """Prepares a higher epoch for a producer that starts, or continues after an error.

        ``expected_epoch`` is the epoch that the producer sent, None if it sent none.  The result is
        PRODUCER_FENCED if that epoch is neither the current nor the last one.
        """
        known, raised = self.producer_epoch, self.producer_epoch + 1
        if expected_epoch is None:
            epoch, last_epoch = raised, NO_PRODUCER_EPOCH
        elif known in (NO_PRODUCER_EPOCH, expected_epoch):
            epoch, last_epoch = raised, known
        elif expected_epoch == self.last_producer_epoch:
            # The producer sends the request again, because it did not get the first response.
            epoch, last_epoch = known, expected_epoch
        else:
            return ErrorCode.producer_fenced
        if epoch >= LAST_PRODUCER_EPOCH:
            raise IllegalState(f"{self.transactional_id}: its producer id has no epoch left")
        return self._prepare(
            self._restarted(timeout_ms, now_ms)._replace(
                producer_epoch=epoch, last_producer_epoch=last_epoch
            )
        )

    def prepare_producer_id_rotation(
        self, producer_id: int, timeout_ms: int, now_ms: int, *, records_last_epoch: bool
    ) -> Transit:
        """Prepares a new producer id with epoch 0, because the epochs are exhausted.

        ``records_last_epoch``: the producer sent its epoch, which is kept (KIP-360).
        """
        last_epoch = self.producer_epoch if records_last_epoch else NO_PRODUCER_EPOCH
        return self._prepare(
            self._restarted(timeout_ms, now_ms)._replace(
                producer_id=producer_id, producer_epoch=0, last_producer_epoch=last_epoch
            )
        )

    def prepare_partitions(self, added: Iterable[TopicPartition], now_ms: int) -> Transit:
        """Prepares adding partitions; the first ones begin the transaction."""
        is_open = self.state is TransactionState.ONGOING
        return self._prepare(
            self._as_is(TransactionState.ONGOING)._replace(
                partitions=tuple(self.partitions | dict.fromkeys(added)),
                start_ms=self.start_ms if is_open else now_ms,
                last_update_ms=now_ms,
            )
        )

    def prepare_end(self, state: TransactionState, now_ms: int) -> Transit:
        """Prepares the decision: ``state`` is PREPARE_COMMIT or PREPARE_ABORT."""
        return self._prepare(self._as_is(state)._replace(last_update_ms=now_ms))

    def prepare_completion(self, now_ms: int) -> Transit:
        """Prepares the state after every partition has its marker."""
        is_commit = self.state is TransactionState.PREPARE_COMMIT
        # The raised epoch is in the log now.
        self.has_failed_epoch_fence = False
        return self._prepare(
            self._as_is(
                TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
            )._replace(partitions=(), last_update_ms=now_ms)
        )

    def prepare_death(self) -> Transit:
        """Prepares the removal of the id."""
        return self._prepare(self._as_is(TransactionState.DEAD)._replace(partitions=()))

    def _as_is(self, state: TransactionState) -> Transit:
        return Transit(
            state, self.producer_id, self.producer_id, self.producer_epoch,
            self.last_producer_epoch, self.timeout_ms, tuple(self.partitions), self.start_ms,
            self.last_update_ms,
        )  # fmt: skip

    def _restarted(self, timeout_ms: int, now_ms: int) -> Transit:
        return self._as_is(TransactionState.EMPTY)._replace(
            timeout_ms=timeout_ms, partitions=(), start_ms=NO_START, last_update_ms=now_ms
        )

    def _prepare(self, transit: Transit) -> Transit:
        if self.pending_state is not None:
            raise IllegalState(
                f"{self.transactional_id} cannot become {transit}: it is becoming"
                f" {self.pending_state.label}"
            )
        if self.state not in VALID_PREVIOUS[transit.state]:
            raise IllegalState(
                f"{self.transactional_id} cannot become {transit}: it is {self.state.label}"
            )
        if transit.producer_epoch < 0 and transit.state is not TransactionState.DEAD:
            raise IllegalState(f"{self.transactional_id} cannot become {transit} without an epoch")
        self.pending_state = transit.state
        return transit

    # ------------------------------------------------------------------ completing

    def complete(self, transit: Transit) -> None:
        """Applies a prepared change after its record was written to the log."""
        if self.pending_state is not transit.state:
            raise IllegalState(
                f"{self.transactional_id} cannot complete {transit}: it was not prepared"
            )
        match transit.state:
            case TransactionState.EMPTY:
                self.producer_id = transit.producer_id
                self.last_producer_id = transit.last_producer_id
                self.producer_epoch = transit.producer_epoch
                self.last_producer_epoch = transit.last_producer_epoch
                self.timeout_ms = transit.timeout_ms
                # Clears the start time of the last transaction.
                self.start_ms = transit.start_ms
            case TransactionState.ONGOING:
                self._check_producer(transit)
                self.partitions.update(dict.fromkeys(transit.partitions))
                self.start_ms = transit.start_ms
            case TransactionState.PREPARE_COMMIT | TransactionState.PREPARE_ABORT:
                self._check_producer(transit)
            case TransactionState.COMPLETE_COMMIT | TransactionState.COMPLETE_ABORT:
                self._check_producer(transit)
                self.partitions.clear()
            case TransactionState.DEAD | TransactionState.PREPARE_EPOCH_FENCE:
                raise IllegalState(
                    f"{self.transactional_id} cannot complete {transit}: that is never in the log"
                )
        self.last_update_ms = transit.last_update_ms
        self.pending_state = None
        self.state = transit.state

    def _check_producer(self, transit: Transit) -> None:
        known = (self.producer_id, self.producer_epoch)
        if known != (transit.producer_id, transit.producer_epoch):
            raise IllegalState(
                f"{self.transactional_id} cannot complete {transit}: its producer is {known}"
            )

    def has_marker(self, partition: TopicPartition) -> None:
        """Removes a partition whose marker is written."""
        if not self.state.is_ending:
            raise IllegalState(f"{self.transactional_id} gets no markers: it is {self.state.label}")
        self.partitions.pop(partition, None)
