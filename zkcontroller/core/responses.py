"""Handles the brokers' responses to LeaderAndIsr and UpdateMetadata.

A LeaderAndIsr response is how the controller learns of failed log directories: KAFKA_STORAGE_ERROR
for a partition means its replica is offline there, NONE that it is online; every other code says
nothing (a broker answers STALE_CONTROLLER_EPOCH for a leader epoch it has already).

Source: Kafka ``KafkaController.processLeaderAndIsrResponseReceived``.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from kafka_common.protocol.error_codes import error_name
from zkcontroller.core.brokers import Brokers
from zkcontroller.core.effects import Procedure
from zkcontroller.core.events import LeaderAndIsrResponseReceived
from zkcontroller.core.partition_table import NO_ROW
from zkcontroller.core.tools import ControllerTools
from zkcontroller.state_changes.record import Kind, StateChange

# Error codes as integers, as in the events: a response has one for each of 100,000 partitions.
NONE: Final = ErrorCode.none.value
KAFKA_STORAGE_ERROR: Final = ErrorCode.kafka_storage_error.value


class ControlResponses:
    """Handles control responses."""

    def __init__(self, tools: ControllerTools, brokers: Brokers) -> None:
        self._tools = tools
        self._context = tools.context
        self._brokers = brokers

    def report_error(self, request: str, broker_id: int, error: int, response: str) -> None:
        """Logs that a broker refused a whole request; nothing is sent again."""
        if error == NONE:
            return
        self._tools.journal.record(
            StateChange(
                Kind.RESPONSE_ERROR,
                "controller",
                self._tools.config.broker_id,
                self._context.epoch,
                peer=broker_id,
                request=request,
                error=error_name(error),
                response=response,
            )
        )

    def leader_and_isr(self, event: LeaderAndIsrResponseReceived) -> Procedure[None]:
        """Handles a LeaderAndIsr response: replicas with KAFKA_STORAGE_ERROR go offline.

        A replica with NONE is only no longer noted as offline; its state does not change.
        """
        if event.request_error != NONE:
            self.report_error("LeaderAndIsr", event.broker_id, event.request_error, event.response)
            return
        context, table = self._context, self._context.table
        before = context.offline_dir_rows.get(event.broker_id, set())
        if not event.is_probe and all(
            error != KAFKA_STORAGE_ERROR for _, _, error in event.partition_errors
        ):
            return  # the usual response: nothing was offline and nothing is
        online: set[int] = set()
        offline: list[int] = []
        for topic, partition, error in event.partition_errors:
            name = topic if isinstance(topic, str) else context.topic_names.get(topic)
            row = NO_ROW if name is None else table.row(name, partition)
            if row == NO_ROW:
                continue
            if error == KAFKA_STORAGE_ERROR:
                offline.append(row)
            elif error == NONE:
                online.add(row)
        context.offline_dir_rows[event.broker_id] = (before - online) | set(offline)
        fresh = [row for row in offline if row not in before]
        if not fresh:
            return
        self._tools.journal.record(
            StateChange(
                Kind.REPLICAS_MARKED_OFFLINE,
                "controller",
                self._tools.config.broker_id,
                context.epoch,
                peer=event.broker_id,
                partitions=tuple(table.text(row) for row in fresh),
            )
        )
        yield from self._brokers.become_offline({event.broker_id: fresh})
