"""Response classes whose times are numbers, as on the wire: milliseconds since 1970.

kio reads them as ``datetime``, which cannot hold -1, Kafka's value for no time.

Source: Kafka ``DelegationTokenManager.ErrorTimestamp`` (KIP-48).
"""

from __future__ import annotations

from typing import Final

from kio.static.protocol import ResponsePayload

from kafka_common.protocol.messages import response_type
from kafka_common.protocol.numeric_fields import with_numbers

NO_TIME: Final = -1


def numeric_response_type(api_key: int, version: int) -> type[ResponsePayload]:
    """Kio's class of that response, with numbers for times.

    UnsupportedVersion if there is no such response.
    """
    return with_numbers(response_type(api_key, version))
