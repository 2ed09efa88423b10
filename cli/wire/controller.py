"""Checks whether the controller's event thread works, not only its broker."""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest
from kio.schema.list_partition_reassignments.v0.response import ListPartitionReassignmentsResponse

from kafka_common.net.client_security import ClientSecurity
from zkcontroller_cli.wire.requests import BrokerAddress, Deadline, connected, timeout_of

_PROBE_S: Final = 5.0
"""Seconds that the controller may take to answer."""


async def probe_controller(
    address: tuple[str, int], security: ClientSecurity, patience_s: float = _PROBE_S
) -> ErrorCode:
    """The error code of ListPartitionReassignments, which only the controller's thread answers.

    A broker that has resigned answers NOT_CONTROLLER, and one whose event thread hangs does not
    answer (TimedOut), though both still answer Metadata.  ApiNotKnown before Kafka 2.4.
    """
    deadline = Deadline(patience_s)
    async with connected([BrokerAddress(*address)], deadline, security) as connection:
        response = await connection.request(
            ListPartitionReassignmentsRequest(timeout=timeout_of(deadline), topics=())
        )
    assert isinstance(response, ListPartitionReassignmentsResponse), "request() answers in kind"
    return response.error_code
