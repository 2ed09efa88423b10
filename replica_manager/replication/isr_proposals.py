"""Pending ISR proposals: one per partition, one request at a time.

What a partition proposes waits here until the controller has answered it, however often the request
has to be sent.  A request takes along everything that waits, so a broker that lags behind in a
thousand partitions costs one round trip.

Source: Kafka ``DefaultAlterPartitionManager``; KIP-497.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition
from replica_manager.replication.isr import AlteredIsr, PendingIsr

RETRY_BACKOFF_MS: Final = 50
"""Between a whole request that was refused and the next one."""
FIRST_TOPIC_ID_VERSION: Final = 2

_log = logging.getLogger("kafka.server.AlterPartitionManager")


class Proposed(NamedTuple):
    """A partition's pending proposal."""

    topic_id: UUID | None
    pending: PendingIsr


@dataclass(frozen=True, slots=True)
class AlterPartitionCall:
    """An AlterPartition request, without its version and the broker's epoch."""

    partitions: Mapping[TopicPartition, Proposed]

    def api_version(self, newest: int) -> int:
        """``newest``, or 1 while a topic has no id."""
        has_ids = all(proposed.topic_id is not None for proposed in self.partitions.values())
        return newest if has_ids else min(newest, FIRST_TOPIC_ID_VERSION - 1)


class ProposalResult(NamedTuple):
    """The controller's result for one proposal."""

    partition: TopicPartition
    pending: PendingIsr
    answer: AlteredIsr | ErrorCode


class IsrProposals:
    """Every pending proposal of a broker.  Lives on the event loop; no method waits.

    Bounded by the partitions that the broker leads.
    """

    def __init__(self) -> None:
        self._waiting: dict[TopicPartition, Proposed] = {}
        self._under_way: AlterPartitionCall | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(self, partition: TopicPartition, topic_id: UUID | None, pending: PendingIsr) -> bool:
        """Adds a proposal; False if that partition has a pending one.

        That is OPERATION_NOT_ATTEMPTED for the partition.
        """
        if partition in self._waiting:
            return False
        self._waiting[partition] = Proposed(topic_id, pending)
        return True

    def next_call(self) -> AlterPartitionCall | None:
        """The request to send now; None if one is in flight or nothing is pending."""
        if self._under_way is not None or not self._waiting:
            return None
        self._under_way = AlterPartitionCall(dict(self._waiting))
        return self._under_way

    def lost(self) -> None:
        """No response came, or not from the controller: every proposal is sent again."""
        self._under_way = None

    def refused(self, error: ErrorCode, broker_epoch: int) -> None:
        """The whole request was refused: sent again after ``RETRY_BACKOFF_MS``.

        ``broker_epoch`` is the one that was sent.
        """
        if error is ErrorCode.stale_broker_epoch:
            _log.warning("Broker had a stale broker epoch (%d), retrying.", broker_epoch)
        elif error is ErrorCode.cluster_authorization_failed:
            _log.error("Broker is not authorized to send AlterPartition to controller")
        else:
            _log.warning("Controller refused AlterPartition with %s", error.name.upper())
        self._under_way = None

    def answered(
        self, answers: Mapping[TopicPartition, AlteredIsr | ErrorCode]
    ) -> list[ProposalResult]:
        """The result for each proposal; partitions left out stay pending.

        NOT_CONTROLLER for a partition is like a lost request: to be checked before.
        """
        call, self._under_way = self._under_way, None
        assert call is not None
        verdicts: list[ProposalResult] = []
        for partition, proposed in call.partitions.items():
            answer = answers.get(partition)
            if answer is None:
                continue
            del self._waiting[partition]
            verdicts.append(ProposalResult(partition, proposed.pending, answer))
        return verdicts
