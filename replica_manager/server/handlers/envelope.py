"""Envelope (58): a forwarded request; in ZooKeeper mode its connection is closed.

Kafka 3.9 offers the API in ZooKeeper mode, too, but closes the connection unless the cluster
migrates to KRaft.

Source: Kafka ``KafkaApis.handleEnvelope`` (KIP-590).
"""

from __future__ import annotations

import logging
from typing import Final

from kio.schema.errors import ErrorCode

from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from replica_manager.server.context import BrokerContext, RequestContext, Unanswered

API_KEY: Final = ApiKey.ENVELOPE
VERSIONS: Final = (0, 0)
_log: Final = logging.getLogger("kafka.server.KafkaApis")


async def handle(
    _request: request_types.EnvelopeRequest, context: RequestContext, broker: BrokerContext
) -> Unanswered:
    """No response: the connection is closed."""
    _log.info(
        "[KafkaApi-%d] Closing connection of %s because it sent an `Envelope` request even though "
        "forwarding has not been enabled",
        broker.broker_id,
        context.client_address,
    )
    return Unanswered(closes=True, errors=dict)


def refuse(
    _request: request_types.EnvelopeRequest, _context: RequestContext, error: ErrorCode
) -> Unanswered:
    """No response: the connection is closed."""
    return Unanswered(closes=True, errors=lambda: {error: 1})
