"""The state of one transactional id: its producer and its transaction.

A change is *prepared* (which makes its state the pending one, so that nothing else may begin),
written to the log, and only then *completed*.  What was prepared is a :class:`Transit`: the whole
future content.

The producer epoch is what fences: a producer whose epoch is not the current one is a zombie.  The
last but one of the possible epochs is the last that a client gets, so that the coordinator can
always fence its holder with the next one.

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
"""The start of a transaction that has not begun."""
SHOWN_PARTITIONS: Final = 100
"""Of a transaction in a line of the log."""
LAST_PRODUCER_EPOCH: Final = 2**15 - 1


def is_epoch_exhausted(producer_epoch: int) -> bool:
    """Whether no client may get a higher epoch; the last one is kept for fencing."""
    return producer_epoch >= LAST_PRODUCER_EPOCH - 1


class Transit(NamedTuple):
    """The next state of a transactional id."""

    state: TransactionState
    producer_id: int
    last_producer_id: int
    """The id before; another one if that one's epochs were exhausted."""
    producer_epoch: int
    last_producer_epoch: int
    """NO_PRODUCER_EPOCH unless the producer itself asked for a new epoch (KIP-360)."""
    timeout_ms: int
    partitions: tuple[TopicPartition, ...]
    start_ms: int
    last_update_ms: int

    @override
    def __str__(self) -> str:
        """The text in Kafka's log lines, with only the first of many partitions."""
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
    """The state of a transactional id; a new one is Empty and has no epoch."""

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
        """While markers are written: those that still have none."""
        self.start_ms = start_ms
        self.last_update_ms = last_update_ms
        self.pending_state: TransactionState | None = None
        """The state of the change that is being written."""
        self.has_failed_epoch_fence = False
        """Whether an epoch was raised that may not be in the log; it is not raised again."""

    @property
    def is_epoch_exhausted(self) -> bool:
        return is_epoch_exhausted(self.producer_epoch)

    def has_timed_out(self, now_ms: int) -> bool:
        """Whether the transaction is open for too long and no change is pending."""
        return (
            self.state is TransactionState.ONGOING
            and self.pending_state is None
            and self.start_ms + self.timeout_ms < now_ms
        )

    # ------------------------------------------------------------------ preparing

    def prepare_epoch_fence(self) -> Transit:
        """Prepares a higher epoch, which fences the producer of the open transaction."""
        # One that failed has raised it already, perhaps to the very last.
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
        """Prepares a higher epoch for a producer that sent its epoch or none."""
        known, raised = self.producer_epoch, self.producer_epoch + 1
        if expected_epoch is None:
            epoch, last_epoch = raised, NO_PRODUCER_EPOCH
        elif known in (NO_PRODUCER_EPOCH, expected_epoch):
            epoch, last_epoch = raised, known
        elif expected_epoch == self.last_producer_epoch:
            # It asks again: the answer was lost, and no other producer has started since.
            epoch, last_epoch = known, expected_epoch
        else:
            return ErrorCode.producer_fenced
        if epoch >= LAST_PRODUCER_EPOCH:
            raise IllegalState(f"{self.transactional_id}: its producer id has no epoch left")
        return self._prepare(
            self._begun_anew(timeout_ms, now_ms)._replace(
                producer_epoch=epoch, last_producer_epoch=last_epoch
            )
        )

    def prepare_producer_id_rotation(
        self, producer_id: int, timeout_ms: int, now_ms: int, *, records_last_epoch: bool
    ) -> Transit:
        """Prepares a new producer id with epoch 0, after the epochs are exhausted."""
        last_epoch = self.producer_epoch if records_last_epoch else NO_PRODUCER_EPOCH
        return self._prepare(
            self._begun_anew(timeout_ms, now_ms)._replace(
                producer_id=producer_id, producer_epoch=0, last_producer_epoch=last_epoch
            )
        )

    def prepare_partitions(self, added: Iterable[TopicPartition], now_ms: int) -> Transit:
        """Prepares added partitions; the first ones begin the transaction."""
        is_open = self.state is TransactionState.ONGOING
        return self._prepare(
            self._as_is(TransactionState.ONGOING)._replace(
                partitions=tuple(self.partitions | dict.fromkeys(added)),
                start_ms=self.start_ms if is_open else now_ms,
                last_update_ms=now_ms,
            )
        )

    def prepare_end(self, state: TransactionState, now_ms: int) -> Transit:
        """Prepares the decided end."""
        return self._prepare(self._as_is(state)._replace(last_update_ms=now_ms))

    def prepare_completion(self, now_ms: int) -> Transit:
        """Prepares the state after every partition has its marker."""
        is_commit = self.state is TransactionState.PREPARE_COMMIT
        # The raised epoch stands in the log by now.
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

    def _begun_anew(self, timeout_ms: int, now_ms: int) -> Transit:
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
        """Applies the prepared change, which is in the log now."""
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
                # The last transaction's; a transition back to Empty must not show it as begun.
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
        """That partition's marker is written."""
        if not self.state.is_ending:
            raise IllegalState(f"{self.transactional_id} gets no markers: it is {self.state.label}")
        self.partitions.pop(partition, None)
