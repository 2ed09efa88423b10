"""Values shared by several metadata records: endpoints, feature ranges, and the null id.

Source: Kafka 3.9 ``metadata/src/main/resources/common/metadata``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

ZERO_UUID: Final = UUID(int=0)
"""What Kafka writes where there is no id (``Uuid.ZERO_UUID``)."""


@dataclass(frozen=True, slots=True)
class BrokerEndpoint:
    """Where a broker or controller listens; Kafka calls the latter ``ControllerEndpoint``."""

    name: str = ""
    """Of the listener."""
    host: str = ""
    port: int = 0
    security_protocol: int = 0
    """Kafka's number: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""


@dataclass(frozen=True, slots=True)
class BrokerFeature:
    """The range of a feature that a node supports; ``ControllerFeature`` of a controller."""

    name: str = ""
    min_supported_version: int = 0
    max_supported_version: int = 0
