"""Sends ISR proposals of partitions for a decision, and applies the results.

A *route* delivers proposals: by a request to the controller (:mod:`.controller_link`), or by a
znode that the leader writes itself (:mod:`.isr_znodes`).  A proposal has no timeout.  After the
controller's next LeaderAndIsr request a proposal is obsolete, and its result changes nothing.

Source: Kafka ``DefaultAlterPartitionManager``, ``Partition.submitAlterPartition``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition
from kafka_common.observability.log_text import throwable_text
from kafka_common.observability.metrics import Metrics, mbean
from replica_manager.replication.isr import AlteredIsr, PendingExpand, PendingIsr
from replica_manager.replication.isr_proposals import (
    RETRY_BACKOFF_MS,
    AlterPartitionCall,
    IsrProposals,
)
from replica_manager.replication.partition import Partition, ProposalOutcome

_log: Final = logging.getLogger("kafka.server.AlterPartitionManager")

AlterPartitionResults = Mapping[TopicPartition, AlteredIsr | ErrorCode]


class AlterPartitionRefused(NamedTuple):
    """The controller refused the whole AlterPartition request."""

    error: ErrorCode
    broker_epoch: int
    """The broker epoch in the refused request."""


class IsrRoute(Protocol):
    """Sends proposals to the controller or to ZooKeeper."""

    async def propose(
        self, call: AlterPartitionCall, /
    ) -> AlterPartitionResults | AlterPartitionRefused | None:
        """The result of each proposal; None if the controller or ZooKeeper was not reached."""

    async def close(self) -> None:
        """Closes the route; the caller has already cancelled a call in flight."""


class AlterPartitionManager:
    """Sends the ISR proposals of all partitions of a broker.  Runs on the event loop."""

    def __init__(
        self,
        route: IsrRoute,
        metrics: Metrics,
        now_ms: Callable[[], int],
        on_changed: Callable[[TopicPartition], None],
    ) -> None:
        """``on_changed`` is called when the high watermark of a partition moved."""
        self._route = route
        self._now_ms = now_ms
        self._on_changed = on_changed
        self._proposals = IsrProposals()
        # The object that proposed: a topic that was deleted and created again has a new object.
        self._proposers: dict[TopicPartition, Partition] = {}
        self._has_work = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._expands, self._shrinks, self._failures = (
            metrics.meter(mbean("kafka.server", "ReplicaManager", name), event_type)
            for name, event_type in (
                ("IsrExpandsPerSec", "expands"),
                ("IsrShrinksPerSec", "shrinks"),
                ("FailedIsrUpdatesPerSec", "failedUpdates"),
            )
        )

    def start(self) -> None:
        """Starts the task that sends proposals."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="alter-partition")

    async def stop(self) -> None:
        """Stops sending, and drops the waiting proposals: the broker stops leading as well."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._route.close()

    def submit(self, partition: Partition, pending: PendingIsr) -> None:
        """Queues a proposal; its result is applied to the partition."""
        tp = partition.topic_partition
        if not self._proposals.submit(tp, partition.topic_id, pending):
            refused = ErrorCode.operation_not_attempted
            self._apply(partition, pending, partition.proposal_refused(pending, refused))
            return
        self._proposers[tp] = partition
        self._has_work.set()

    async def _run(self) -> None:
        while True:
            call = self._proposals.next_call()
            if call is None:
                self._has_work.clear()
                await self._has_work.wait()
                continue
            try:
                response = await self._route.propose(call)
            except Exception as error:  # noqa: BLE001 - later proposals must still be sent
                cause = throwable_text(error)
                _log.error("Error while altering partitions", extra={"cause": cause})
                response = None
            if not self._take_guarded(response):
                await asyncio.sleep(RETRY_BACKOFF_MS / 1000)

    def _take_guarded(self, response: AlterPartitionResults | AlterPartitionRefused | None) -> bool:
        try:
            return self._take(response)
        except Exception as error:  # noqa: BLE001 - later proposals must still be sent
            cause = throwable_text(error)
            _log.error("Error while handling altered partitions", extra={"cause": cause})
            return False

    def _take(self, response: AlterPartitionResults | AlterPartitionRefused | None) -> bool:
        """Applies results; False if some proposals are sent again after a pause."""
        if response is None:
            self._proposals.lost()
            return False
        if isinstance(response, AlterPartitionRefused):
            self._proposals.refused(*response)
            return False
        has_retry = False
        verdicts = self._proposals.handle_response(response)
        for tp, pending, verdict in verdicts:
            partition = self._proposers.pop(tp)
            try:
                if isinstance(verdict, ErrorCode):
                    outcome = partition.proposal_refused(pending, verdict)
                else:
                    outcome = partition.proposal_accepted(pending, verdict, self._now_ms())
                has_retry |= outcome.retry is not None
                self._apply(partition, pending, outcome)
            except Exception as error:  # noqa: BLE001 - one partition must not stop the others
                cause = throwable_text(error)
                _log.error("Error while altering partition %s", tp, extra={"cause": cause})
        # Partitions that the response left out are sent again.
        return bool(verdicts) and not has_retry

    def _apply(self, partition: Partition, pending: PendingIsr, outcome: ProposalOutcome) -> None:
        if outcome.has_failed:
            self._failures.mark()
        elif outcome.was_accepted:
            (self._expands if isinstance(pending, PendingExpand) else self._shrinks).mark()
        if outcome.retry is not None:
            self.submit(partition, outcome.retry)
        if outcome.high_watermark_moved:
            self._on_changed(partition.topic_partition)
