"""A broker's response as Kafka's TRACE line prints it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kafka_common.errors import InvalidFrame
from kafka_common.protocol.messages import read_response
from zkcontroller.core.broker_requests import LEADER_AND_ISR, REQUEST_NAMES, STOP_REPLICA
from zkcontroller.state_changes import kafka_values

PRINTED_BYTES = 100

_NO_TOPIC_ID = UUID(int=0)


def response_text(api_key: int, api_version: int, body: bytes) -> str:
    """The response as ``StopReplicaResponseData(errorCode=0, …)``, or its bytes in hexadecimal.

    The bytes are printed if kio cannot read ``body``, for example for an unknown error code.
    """
    # The class and the fields of a response depend on its version.
    try:
        response: Any = read_response(api_key, api_version, body)
    except InvalidFrame:
        return f"{REQUEST_NAMES[api_key]}ResponseData(0x{body[:PRINTED_BYTES].hex()})"
    error = int(response.error_code)
    if api_key == LEADER_AND_ISR:
        return kafka_values.leader_and_isr_response(error, _leader_and_isr_errors(response))
    if api_key == STOP_REPLICA:
        stopped = [
            (each.topic_name, each.partition_index, int(each.error_code))
            for each in response.partition_errors
        ]
        return kafka_values.stop_replica_response(error, stopped)
    return kafka_values.update_metadata_response(error)


def _leader_and_isr_errors(response: Any) -> list[tuple[UUID | str, int, int]]:
    if not hasattr(response, "topics"):
        return [
            (each.topic_name, each.partition_index, int(each.error_code))
            for each in response.partition_errors
        ]
    return [
        (topic.topic_id or _NO_TOPIC_ID, each.partition_index, int(each.error_code))
        for topic in response.topics
        for each in topic.partition_errors
    ]
