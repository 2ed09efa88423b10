"""Proposals of ISRs on their way to the controller: one per partition, one request at a time.

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

from replica_manager.replication.isr import AlteredIsr, PendingIsr
from zkcontroller.model import TopicPartition

RETRY_BACKOFF_MS: Final = 50
"""Between a whole request that was refused and the next one."""
FIRST_TOPIC_ID_VERSION: Final = 2

_log = logging.getLogger("kafka.server.AlterPartitionManager")


class Proposed(NamedTuple):
    """A partition's proposal while it waits."""

    topic_id: UUID | None
    pending: PendingIsr


@dataclass(frozen=True, slots=True)
class AlterPartitionCall:
    """An AlterPartition request, without its version and the broker's epoch."""

    partitions: Mapping[TopicPartition, Proposed]

    def api_version(self, newest: int) -> int:
        """``newest``, or 1 as long as a topic has no id."""
        has_ids = all(proposed.topic_id is not None for proposed in self.partitions.values())
        return newest if has_ids else min(newest, FIRST_TOPIC_ID_VERSION - 1)


class Verdict(NamedTuple):
    """The controller's answer to one proposal, for the partition that made it."""

    partition: TopicPartition
    pending: PendingIsr
    answer: AlteredIsr | ErrorCode


class IsrProposals:
    """Everything a broker proposes.  Lives on the event loop; no method waits.

    Bounded by the partitions that the broker leads.
    """

    def __init__(self) -> None:
        self._waiting: dict[TopicPartition, Proposed] = {}
        self._under_way: AlterPartitionCall | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(self, partition: TopicPartition, topic_id: UUID | None, pending: PendingIsr) -> bool:
        """Lets a proposal wait for its answer; False if another of that partition still does.

        That is OPERATION_NOT_ATTEMPTED for the partition.
        """
        if partition in self._waiting:
            return False
        self._waiting[partition] = Proposed(topic_id, pending)
        return True

    def next_call(self) -> AlterPartitionCall | None:
        """The request to send now; None if one is under way, or nothing waits."""
        if self._under_way is not None or not self._waiting:
            return None
        self._under_way = AlterPartitionCall(dict(self._waiting))
        return self._under_way

    def lost(self) -> None:
        """No answer came, or from a broker that is not the controller: all of it is sent again."""
        self._under_way = None

    def refused(self, error: ErrorCode, broker_epoch: int) -> None:
        """The whole request was refused; all of it is sent again, ``RETRY_BACKOFF_MS`` later.

        ``broker_epoch`` is the one that was sent.
        """
        if error is ErrorCode.stale_broker_epoch:
            _log.warning("Broker had a stale broker epoch (%d), retrying.", broker_epoch)
        elif error is ErrorCode.cluster_authorization_failed:
            _log.error("Broker is not authorized to send AlterPartition to controller")
        else:
            _log.warning("Controller refused AlterPartition with %s", error.name.upper())
        self._under_way = None

    def answered(self, answers: Mapping[TopicPartition, AlteredIsr | ErrorCode]) -> list[Verdict]:
        """What the controller said of each proposal; who was left out goes on waiting.

        NOT_CONTROLLER for a partition is like a lost request: to be checked before.
        """
        call, self._under_way = self._under_way, None
        assert call is not None
        verdicts: list[Verdict] = []
        for partition, proposed in call.partitions.items():
            answer = answers.get(partition)
            if answer is None:
                continue
            del self._waiting[partition]
            verdicts.append(Verdict(partition, proposed.pending, answer))
        return verdicts
