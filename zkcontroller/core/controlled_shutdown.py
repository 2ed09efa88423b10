"""Controlled shutdown: moves leaderships off a stopping broker and removes it from ISRs.

Source: Kafka ``KafkaController.doControlledShutdown``.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from kafka_common.model import UNKNOWN_BROKER_EPOCH
from zkcontroller.core.effects import ControlledShutdownResult, Procedure, RequestResponse
from zkcontroller.core.elections import ControlledShutdownElection
from zkcontroller.core.events import ControlledShutdown
from zkcontroller.core.journal import csv
from zkcontroller.core.partition_states import PartitionStateMachine
from zkcontroller.core.replica_states import ReplicaStateMachine
from zkcontroller.core.states import PartitionState, ReplicaState
from zkcontroller.core.tools import ControllerTools


class ControlledShutdowns:
    """Handles ControlledShutdown events and makes their responses."""

    def __init__(
        self,
        tools: ControllerTools,
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
    ) -> None:
        self._tools = tools
        self._context = tools.context
        self._journal = tools.journal
        self._partitions = partitions
        self._replicas = replicas

    def run(self, event: ControlledShutdown) -> Procedure[None]:
        """Moves leaderships away; the response names the partitions that the broker still leads."""
        context = self._context
        refusal = self._refusal(event)
        if refusal is not None:
            self._respond(event, ControlledShutdownResult(refusal))
            return
        self._journal.info(f"Shutting down broker {event.broker_id}")
        context.shutting_down.add(event.broker_id)
        self._journal.debug(f"All shutting down brokers: {csv(context.shutting_down)}")
        self._journal.debug(f"Live brokers: {csv(context.live_broker_ids)}")
        yield from self._hand_over(event.broker_id)
        remaining = tuple(
            context.table.topic_partition(row) for row in context.rows_led_by(event.broker_id)
        )
        self._respond(event, ControlledShutdownResult(ErrorCode.none, remaining))

    def _refusal(self, event: ControlledShutdown) -> ErrorCode | None:
        cached = self._context.live_broker_epochs.get(event.broker_id)
        if event.broker_epoch == UNKNOWN_BROKER_EPOCH:
            return ErrorCode.broker_not_available if cached is None else None
        if cached is None:
            return ErrorCode.unknown_server_error
        if event.broker_epoch < cached:
            self._journal.info(
                "Received controlled shutdown request from an old broker epoch"
                f" {event.broker_epoch} for broker {event.broker_id}. Current broker epoch is"
                f" {cached}."
            )
            return ErrorCode.stale_broker_epoch
        return None

    def _hand_over(self, broker_id: int) -> Procedure[None]:
        context, table = self._context, self._context.table
        # A partition with one replica has no other leader: it is left as it is.
        affected = [
            row
            for row in table.rows_on_broker(broker_id)
            if len(table.replicas[row]) > 1
            and table.has_leader_and_isr(row)
            and not context.is_queued_for_deletion(row)
        ]
        led = [row for row in affected if table.leader[row] == broker_id]
        followed = [row for row in affected if table.leader[row] != broker_id]
        yield from self._partitions.handle_state_changes(
            led, PartitionState.ONLINE, ControlledShutdownElection()
        )
        # Stop the fetchers before the ISR shrinks, so that they cannot ask to be let in again.
        batch = self._tools.new_batch()
        batch.add_stop_replica([broker_id], followed, delete=False)
        batch.send()
        yield from self._replicas.handle_state_changes({broker_id: followed}, ReplicaState.OFFLINE)

    def _respond(self, event: ControlledShutdown, result: ControlledShutdownResult) -> None:
        self._tools.outbox.append(RequestResponse(event.request_id, result))
