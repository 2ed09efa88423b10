"""Pending ISR proposals: one per partition, one request at a time.

A proposal waits here until the controller has responded to it, even if the request must be sent
many times.  A request contains all waiting proposals, so a thousand ISR changes need one round
trip.

Source: Kafka ``DefaultAlterPartitionManager``; KIP-497.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode
from msgspec import Struct

from kafka_common.model import TopicPartition
from replica_manager.replication.isr import AlteredIsr, PendingIsr

RETRY_BACKOFF_MS: Final = 50
"""Pause before an AlterPartition request is sent again."""
FIRST_TOPIC_ID_VERSION: Final = 2

_log = logging.getLogger("kafka.server.AlterPartitionManager")


class Proposed(NamedTuple):
    """A partition's pending proposal, with the id of its topic (None if the topic has no id)."""

    topic_id: UUID | None
    pending: PendingIsr


class AlterPartitionCall(Struct, frozen=True):
    """The content of an AlterPartition request, without version and broker epoch."""

    partitions: Mapping[TopicPartition, Proposed]

    def api_version(self, newest: int) -> int:
        """The version to use: at most ``newest``, and at most 1 while a topic has no id."""
        has_ids = all(proposed.topic_id is not None for proposed in self.partitions.values())
        return newest if has_ids else min(newest, FIRST_TOPIC_ID_VERSION - 1)


class ProposalResult(NamedTuple):
    """The controller's result for one proposal."""

    partition: TopicPartition
    pending: PendingIsr
    result: AlteredIsr | ErrorCode


class IsrProposals:
    """All pending proposals of a broker, at most one per partition that it leads.

    Used on the event loop; no method waits.
    """

    def __init__(self) -> None:
        self._waiting: dict[TopicPartition, Proposed] = {}
        self._under_way: AlterPartitionCall | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(self, partition: TopicPartition, topic_id: UUID | None, pending: PendingIsr) -> bool:
        """Adds a proposal; False if the partition has a pending one.

        The caller then handles the new proposal as refused with OPERATION_NOT_ATTEMPTED.
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
        """Handles a call without a response of the controller: all proposals are sent again."""
        self._under_way = None

    def refused(self, error: ErrorCode, broker_epoch: int) -> None:
        """Handles a request that was refused as a whole: all proposals are sent again.

        ``broker_epoch`` is the broker epoch in the request.
        """
        if error is ErrorCode.stale_broker_epoch:
            _log.warning("Broker had a stale broker epoch (%d), retrying.", broker_epoch)
        elif error is ErrorCode.cluster_authorization_failed:
            _log.error("Broker is not authorized to send AlterPartition to controller")
        else:
            _log.warning(
                "Controller returned an unexpected top-level error when handling AlterPartition "
                "request: %s",
                error.name.upper(),
            )
        self._under_way = None

    def handle_response(
        self, results: Mapping[TopicPartition, AlteredIsr | ErrorCode]
    ) -> list[ProposalResult]:
        """The result for each proposal; partitions that the response left out stay pending.

        If a partition has NOT_CONTROLLER, the caller must call :meth:`lost` instead.
        """
        call, self._under_way = self._under_way, None
        assert call is not None
        verdicts: list[ProposalResult] = []
        for partition, proposed in call.partitions.items():
            result = results.get(partition)
            if result is None:
                continue
            del self._waiting[partition]
            verdicts.append(ProposalResult(partition, proposed.pending, result))
        return verdicts
